"""The population that studies come from: a hierarchical model over what each says of the parameters.

Of every parameter, on the scale on which its prior is normal and in sds of the model's own prior: a
study's value is ``Normal(mean, spread)``, with ``mean ~ Normal(0, 1)``, the model's own prior, and
``spread ~ HalfNormal(1)``: studies differ by about as much as that prior says, or less. What a study says
is ``y ~ Normal(R theta, 1)`` (see `bayes_cpt.history.evidence`), with all of theta at once: a parameter
that a study does not determine is not counted as one it has, and what it determines jointly stays joint.
Theta is integrated out, with S the spreads: ``y ~ Normal(R mean, C)``, ``C = 1 + R S S R'``. So is the
mean: given the spreads it is normal, its precision 1 and the sum of ``R' C^-1 R`` over studies.

The population takes the parameters of a study as independent. Of each pair, apart from all others,
``corr(theta_a, theta_b) = rho`` with a prior in proportion to ``1 - rho^2`` is weighed against 0: by how
much likelier it makes what the studies say, as a mean over draws of means and spreads. That takes
``K = S R' C^-1 R S`` and ``q = S R' C^-1 (y - R mean)``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.history.evidence import SHARED, Evidence, Label
from bayes_cpt.inference.diagnostics import sampled

if TYPE_CHECKING:
    import pymc as pm

# A parameter is learnt from studies that take at least this share of the broad prior's variance, from so
# many of them.
TELLING, FEWEST = 0.5, 3
# Draws of a further study's value for each draw of mean and spread.
REPEATS = 5
# The prior is the normal distribution with this central interval of the predictive one.
MASS = 0.9
SAMPLER = {"tune": 600, "draws": 1000, "target_accept": 0.9, "cores": 1}
# Of ten pairs one is expected to go together; a pair is reported where its probability is this high.
EXPECTED, SURE = 0.1, 0.95
GRID: Floats = np.linspace(-0.98, 0.98, 99)
GRID_PRIOR: Floats = (1.0 - GRID**2) / np.sum(1.0 - GRID**2)
# Draws of the population that correlations are averaged over, and of a further study's values.
PAIR_DRAWS, FURTHER = 500, 20_000


@dataclass(frozen=True)
class Pair:
    """Two parameters, and how their values go together over studies."""

    # Parameter, and role or ``all``
    first: Label
    second: Label
    # That of a further study's values, if there is any: for few studies nearer to 0 than the population's
    correlation: float
    probability: float  # that they go together
    studies: tuple[str, ...]  # those that determine both

    @property
    def shown(self) -> bool:
        """Whether it is nearly sure that they go together."""
        return self.probability >= SURE


@dataclass(frozen=True, eq=False)
class Population:
    """Draws of a population."""

    labels: tuple[Label, ...]  # parameter, and role or ``all``
    # In sds of the model's own prior from its centre, of shape (draws, labels)
    mean: Floats
    spread: Floats
    telling: dict[Label, tuple[str, ...]]  # the studies that determine each parameter
    studies: tuple[str, ...]
    problems: tuple[str, ...] = ()  # what its draws lack of the diagnostics contract
    pairs: tuple[Pair, ...] = ()  # how parameters go together, the likeliest first

    @property
    def learnt(self) -> tuple[Label, ...]:
        """The parameters that enough studies determine."""
        return tuple(label for label in self.labels if len(self.telling[label]) >= FEWEST)

    def predictive(self, label: Label, seed: int = 0) -> tuple[float, float]:
        """Return centre and sd of the normal distribution that stands for a further study's value.

        Its median and its central 90 % interval's width are those of the predictive distribution, which
        has longer tails the fewer the studies: the interval takes them in.
        """
        from scipy.special import ndtri

        place = self.labels.index(label)
        generator = np.random.default_rng(seed)
        noise = generator.standard_normal((REPEATS, len(self.mean)))
        drawn = self.mean[:, place] + self.spread[:, place] * noise
        lower, middle, upper = np.quantile(drawn, [0.5 - MASS / 2, 0.5, 0.5 + MASS / 2])
        return float(middle), float((upper - lower) / (2.0 * ndtri(0.5 + MASS / 2)))


def population_model(
    evidence: Sequence[Evidence], labels: Sequence[Label], wider: float
) -> "pm.Model":
    """Return the PyMC model of `learn_population`.

    Its data are R and y of every study, for parameters in sds of the model's own prior: ``directions`` and
    ``values``, without the rows that say nothing of any.
    """
    import pymc as pm
    import pytensor.tensor as pt
    from pytensor.tensor.linalg import cholesky, solve_triangular

    informed = [own.information(labels) for own in evidence]
    told, said = (np.stack(own) for own in zip(*informed, strict=True))
    rows = max(1, int(told.any(axis=(0, 2)).sum()))
    with pm.Model(coords={"parameter": ["/".join(label) for label in labels]}) as model:
        directions = pm.Data("directions", told[:, :rows] / wider)
        values = pm.Data("values", said[:, :rows])
        spread = pm.HalfNormal("spread", 1.0, dims="parameter")
        root = cholesky(_covariance(directions * spread, rows))
        both = pt.concatenate([directions, values[..., None]], axis=-1)
        white = solve_triangular(root, both, lower=True, b_ndim=2)
        products = (white.mT @ white).sum(axis=0)
        # Where studies agree, the mean is the surer the smaller the spread: it is drawn given the spreads.
        precise = cholesky(np.eye(len(labels)) + products[:-1, :-1])
        pull = solve_triangular(precise, products[:-1, -1], lower=True)
        noise = pm.Normal("noise", dims="parameter")
        mean = solve_triangular(precise.T, pull + noise, lower=False)
        pm.Deterministic("mean", mean, dims="parameter")
        roots = (pt.log(pt.diagonal(own, axis1=-2, axis2=-1)).sum() for own in (root, precise))
        pm.Potential("said", 0.5 * ((pull**2).sum() - products[-1, -1]) - sum(roots))
    return model


def learn_population(
    evidence: Sequence[Evidence], labels: Sequence[Label], wider: float, seed: int = 0
) -> Population:
    """Return the population of some studies, which must be `FEWEST` at least.

    Labels are the parameters of the model; studies were fitted under priors so many times `wider` than its
    own.
    """
    import nutpie

    model = population_model(evidence, labels, wider)
    compiled = nutpie.compile_pymc_model(model)
    drawn, problems = sampled(compiled, ("mean", "spread"), seed=seed, **SAMPLER)
    mean, spread = drawn.values()
    telling = {
        label: tuple(own.study for own in evidence if own.contraction.get(label, 0.0) >= TELLING)
        for label in labels
    }
    directions, values = (model[name].get_value() for name in ("directions", "values"))
    pairs = weigh_pairs(labels, mean, spread, directions, values, telling)
    studies = tuple(own.study for own in evidence)
    return Population(tuple(labels), mean, spread, telling, studies, problems, pairs)


def weigh_pairs(
    labels: Sequence[Label],
    mean: Floats,
    spread: Floats,
    directions: Floats,
    values: Floats,
    telling: dict[Label, tuple[str, ...]],
) -> tuple[Pair, ...]:
    """Return the pairs of parameters that enough studies determine both of, the likeliest first.

    Draws of the population have shape (draws, labels); what studies say, `Evidence.information`, has the
    shapes (studies, rows, labels) and (studies, rows).
    """
    from scipy.special import expit, logit, logsumexp

    some = np.linspace(0, len(mean) - 1, min(PAIR_DRAWS, len(mean))).astype(int)
    mean, spread = mean[some], spread[some]
    informed, pulls = pair_information(mean, spread, directions, values)
    generator, pairs = np.random.default_rng(0), []
    for (a, first), (b, second) in combinations(enumerate(labels), 2):
        both = tuple(name for name in telling[first] if name in telling[second])
        on_one_set = first[1] == second[1] or SHARED in (first[1], second[1])
        if len(both) < FEWEST or not on_one_set:
            continue
        log_ratios = log_likelihood_ratios(informed, pulls, a, b)
        value = _predictive(mean[:, [a, b]], spread[:, [a, b]], log_ratios, generator)
        # That they go together at all.
        log_factor = logsumexp(log_ratios, b=GRID_PRIOR / len(log_ratios))
        probability = float(expit(logit(EXPECTED) + log_factor))
        pairs.append(Pair(first, second, value, probability, both))
    return tuple(sorted(pairs, key=lambda pair: -pair.probability))


def pair_information(
    mean: Floats, spread: Floats, directions: Floats, values: Floats
) -> tuple[Floats, Floats]:
    """Return K, shape (draws, studies, labels, labels), and q, shape (draws, studies, labels)."""
    scaled = directions * spread[:, None, None]
    weighted = np.linalg.solve(_covariance(scaled, directions.shape[1]), scaled).swapaxes(-1, -2)
    left = values - np.einsum("sij,dj->dsi", directions, mean)
    return weighted @ scaled, (weighted @ left[..., None])[..., 0]


def _covariance(scaled: Any, size: int) -> Any:
    """Return C, of shape (..., size, size), from ``R S``: of NumPy, or of PyTensor."""
    return np.eye(size) + scaled @ scaled.swapaxes(-1, -2)


def log_likelihood_ratios(informed: Floats, pulls: Floats, a: int, b: int) -> Floats:
    """Return how much likelier each correlation makes what is said than none, shape (draws, grid)."""
    rho = GRID[:, None, None]
    of_a, of_b, of_both = informed[..., a, a], informed[..., b, b], informed[..., a, b]
    pull_a, pull_b = pulls[..., a], pulls[..., b]
    joint = 1.0 + rho * of_both
    determinant = joint**2 - rho**2 * of_a * of_b
    form = 2.0 * joint * pull_a * pull_b - rho * (of_b * pull_a**2 + of_a * pull_b**2)
    ratios = 0.5 * (rho * form / determinant - np.log(determinant))
    return np.asarray(ratios.sum(axis=2).T)


def _predictive(
    mean: Floats, spread: Floats, log_ratios: Floats, generator: np.random.Generator
) -> float:
    """Return the correlation of a further study's two values, given that there is one."""
    weights = np.exp(log_ratios - log_ratios.max()) * GRID_PRIOR
    chosen = generator.choice(weights.size, FURTHER, p=(weights / weights.sum()).ravel())
    draws, places = np.unravel_index(chosen, weights.shape)
    rho, standard = GRID[places], generator.standard_normal((2, FURTHER))
    standard[1] = rho * standard[0] + np.sqrt(1.0 - rho**2) * standard[1]
    values: Floats = mean[draws] + spread[draws] * standard.T
    return float(np.asarray(np.corrcoef(values, rowvar=False))[0, 1])

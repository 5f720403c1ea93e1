"""The population that studies come from: a hierarchical model over what each says of the parameters.

Of every parameter, on the scale on which its prior is normal and in sds of the model's own prior: a
study's value is ``Normal(mean, spread)``, with ``mean ~ Normal(0, 1)``, the model's own prior, and
``spread ~ HalfNormal(1)``: studies differ by about as much as that prior says, or less. What a study says
is ``y ~ Normal(R theta, 1)`` (see `bayes_cpt.history.evidence`), with all of theta at once: a parameter
that a study does not determine is not counted as one it has, and what it determines jointly stays joint.
What goes together over studies is weighed afterwards (`bayes_cpt.history.correlations`).
The values of theta are integrated out: ``y ~ Normal(R mean, R diag(spread^2) R' + 1)``.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.errors import BayesCPTError, Problem
from bayes_cpt.history.correlations import Pair, weigh_pairs
from bayes_cpt.history.evidence import Evidence, Label
from bayes_cpt.inference.geometry.whitening import Metric
from bayes_cpt.inference.sampling import sample
from bayes_cpt.jit import numba

# Scale of the half-normal prior of a spread, in sds of the model's own prior.
SPREAD_SCALE = 1.0
# A parameter is learnt from studies that take at least this share of the broad prior's variance, from so
# many of them.
TELLING, FEWEST = 0.5, 3
# Draws of a further study's value for each draw of mean and spread.
REPEATS = 5
# The prior is the normal distribution with this central interval of the predictive one.
MASS = 0.9
# A spread of 1000 sds has no mass under its prior; beyond it rounding would lose the noise of 1 that a
# study's values have, and their covariance could not be inverted.
LARGEST_LOG = 7.0


class PopulationError(BayesCPTError):
    """Studies that no population can be learnt from, and why."""

    def __init__(self, problem: Problem) -> None:
        self.problems = (problem,)
        super().__init__(str(problem))


@dataclass(frozen=True, eq=False)
class Population:
    """Draws of a population.

    Parameters
    ----------
    labels : tuple of (str, str)
        Parameter, and role or ``all``.
    mean, spread : ndarray, shape (draws, labels)
        In sds of the model's own prior from its centre.
    telling : dict of (str, str) to tuple of str
        The studies that determine each parameter.
    studies : tuple of str
    problems : tuple of str
        What its draws lack of the diagnostics contract.
    pairs : tuple of Pair
        How parameters go together, the likeliest first.
    """

    labels: tuple[Label, ...]
    mean: Floats
    spread: Floats
    telling: dict[Label, tuple[str, ...]]
    studies: tuple[str, ...]
    problems: tuple[str, ...] = ()
    pairs: tuple[Pair, ...] = ()

    @property
    def learnt(self) -> tuple[Label, ...]:
        """The parameters that enough studies determine."""
        return tuple(label for label in self.labels if len(self.telling[label]) >= FEWEST)

    def predictive(self, label: Label, seed: int = 0) -> tuple[float, float]:
        """Return centre and sd of the normal distribution that stands for a further study's value.

        Its median and its central 90 % interval's width are those of the predictive distribution, which
        has longer tails the fewer the studies: the interval takes them in.

        Parameters
        ----------
        label : (str, str)
        seed : int
        """
        from scipy.special import ndtri

        place = self.labels.index(label)
        generator = np.random.default_rng(seed)
        noise = generator.standard_normal((REPEATS, len(self.mean)))
        drawn = self.mean[:, place] + self.spread[:, place] * noise
        lower, middle, upper = np.quantile(drawn, [0.5 - MASS / 2, 0.5, 0.5 + MASS / 2])
        return float(middle), float((upper - lower) / (2.0 * ndtri(0.5 + MASS / 2)))


@dataclass(frozen=True, eq=False)
class PopulationDensity:
    """The log density of a population's mean and log spread, to be sampled.

    Parameters
    ----------
    directions : ndarray, shape (studies, labels, labels)
        In sds of the model's own prior; rows of 0 say nothing.
    said : ndarray, shape (studies, labels)
    """

    directions: Floats
    said: Floats

    @property
    def start(self) -> Floats:
        """The model's own prior, and studies that differ by half as much as it allows."""
        size = self.directions.shape[2]
        return np.concatenate([np.zeros(size), np.full(size, np.log(0.5))])

    def log_density(self, position: Floats) -> tuple[float, Floats]:
        """Return the log density, but for a constant, and its gradient.

        Parameters
        ----------
        position : ndarray, shape (2 labels,)
            Means, then logarithms of spreads.
        """
        size = self.directions.shape[2]
        mean, log_spread = position[:size], position[size:]
        spread = np.exp(np.minimum(log_spread, LARGEST_LOG))
        told, pull, slope = _told_by_studies(mean, spread, *self.products)
        prior = -0.5 * np.sum(mean**2) + np.sum(-0.5 * (spread / SPREAD_SCALE) ** 2 + log_spread)
        slope += 1.0 - (spread / SPREAD_SCALE) ** 2
        return float(told + prior), np.concatenate([pull - mean, slope])

    @cached_property
    def products(self) -> tuple[Floats, Floats, Floats]:
        """``R'R`` and ``R'y`` of each study, and the squares ``y'y``."""
        transposed = np.swapaxes(self.directions, 1, 2)
        linear = (transposed @ self.said[..., None])[..., 0]
        return transposed @ self.directions, linear, np.sum(self.said**2, axis=1)

    def in_metric(self, metric: Metric) -> Callable[[Floats], tuple[float, Floats]]:
        """Return the function of white coordinates: log density and gradient.

        Parameters
        ----------
        metric : Metric
        """

        def white_density(white: Floats) -> tuple[float, Floats]:
            density, gradient = self.log_density(metric.center + metric.factor @ white)
            return density, metric.factor.T @ gradient

        return white_density

    def values(self, positions: Floats) -> dict[str, Floats]:
        """Return mean and spread at positions.

        Parameters
        ----------
        positions : ndarray, shape (..., 2 labels)
        """
        size = self.directions.shape[2]
        return {"mean": positions[..., :size], "spread": np.exp(positions[..., size:])}


@numba.njit(cache=True, error_model="numpy", nogil=True)
def _told_by_studies(mean, spread, products, linear, squares):  # type: ignore[no-untyped-def]
    """Return the log density of what studies say, but for a constant, and its slopes.

    With ``S = diag(spread)`` and ``g = R'y - R'R mean``, all of it needs but ``A = 1 + S R'R S``: the
    determinant of ``R S^2 R' + 1`` is that of A, and ``S R' (R S^2 R' + 1)^-1 = A^-1 S R'``. Rows that say
    nothing cost nothing.

    Parameters
    ----------
    mean, spread : ndarray, shape (labels,)
    products : ndarray, shape (studies, labels, labels)
        ``R'R``.
    linear : ndarray, shape (studies, labels)
        ``R'y``.
    squares : ndarray, shape (studies,)
        ``y'y``.

    Returns
    -------
    told : float
    pull, slope : ndarray, shape (labels,)
        By means and by logarithms of spreads.
    """
    studies, size = linear.shape
    told, pull, slope = 0.0, np.zeros(size), np.zeros(size)
    force, weight = np.empty(size), np.empty(size)
    root, inverse = np.empty((size, size)), np.empty((size, size))
    for study in range(studies):
        square = squares[study]
        for a in range(size):
            along = 0.0
            for b in range(size):
                along += products[study, a, b] * mean[b]
            force[a] = linear[study, a] - along
            square -= mean[a] * (linear[study, a] + force[a])
        # The Cholesky root of A, and the root's inverse, row by row.
        for a in range(size):
            for b in range(a + 1):
                left = products[study, a, b] * spread[a] * spread[b]
                if a == b:
                    left += 1.0
                for c in range(b):
                    left -= root[a, c] * root[b, c]
                root[a, b] = math.sqrt(left) if a == b else left / root[b, b]
            per_root = 1.0 / root[a, a]
            told -= math.log(root[a, a])
            for b in range(a):
                inverse[a, b] = 0.0
            for c in range(a):
                for b in range(c + 1):
                    inverse[a, b] -= root[a, c] * inverse[c, b]
            for b in range(a):
                inverse[a, b] *= per_root
            inverse[a, a] = per_root
        weight[:] = 0.0
        for a in range(size):
            along = 0.0
            for b in range(a + 1):
                along += inverse[a, b] * spread[b] * force[b]
            square -= along**2
            for b in range(a + 1):
                weight[b] += inverse[a, b] * along
                slope[b] += inverse[a, b] ** 2
        told -= 0.5 * square
        for a in range(size):
            slope[a] += weight[a] ** 2 - 1.0
            along = 0.0
            for b in range(size):
                along += products[study, a, b] * spread[b] * weight[b]
            pull[a] += force[a] - along
    return told, pull, slope


class Hierarchy:
    """The hierarchical model of some studies: of all of them, and without each.

    Parameters
    ----------
    evidence : sequence of Evidence
    labels : sequence of (str, str)
        Parameters of the model.
    wider : float
        How many times as wide as the model's own the priors were under which studies were fitted.

    Raises
    ------
    PopulationError
        If there are too few studies.
    """

    def __init__(self, evidence: Sequence[Evidence], labels: Sequence[Label], wider: float) -> None:
        if len(evidence) < FEWEST:
            names = ", ".join(said.study for said in evidence) or "none"
            problem = f"{len(evidence)} studies to learn from ({names}), and it takes {FEWEST}"
            raise PopulationError(Problem("learn-priors", problem, "name more studies"))
        self.evidence, self.labels = tuple(evidence), tuple(labels)
        informed = [said.information(self.labels) for said in evidence]
        self._directions = np.stack([r for r, _ in informed]) / wider
        self._values = np.stack([y for _, y in informed])

    def learn(self, seed: int = 0, without: str | None = None) -> Population:
        """Return the population of all studies, or of all but one.

        Parameters
        ----------
        seed : int
        without : str, optional
            Name of the study that is left out.
        """
        kept = [said for said in self.evidence if said.study != without]
        counted = np.array([float(said.study != without) for said in self.evidence])
        density = PopulationDensity(
            self._directions * counted[:, None, None], self._values * counted[:, None]
        )
        drawn = sample(density, seed, cores=1)
        mean, spread = (_flat(drawn.values[name]) for name in ("mean", "spread"))
        telling = {
            label: tuple(said.study for said in kept if said.contraction.get(label, 0.0) >= TELLING)
            for label in self.labels
        }
        names = tuple(said.study for said in kept)
        problems = drawn.diagnostics.problems
        products, linear, _ = density.products
        pairs = weigh_pairs(self.labels, mean, spread, products, linear, telling, FEWEST)
        return Population(self.labels, mean, spread, telling, names, problems, pairs)


def _flat(values: Floats) -> Floats:
    return values.reshape(-1, values.shape[-1])

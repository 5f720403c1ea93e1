"""The population that studies come from: a hierarchical model over what each says of the parameters.

Of every parameter, on the scale on which its prior is normal and in sds of the model's own prior: a
study's value is ``Normal(mean, spread)``, with ``mean ~ Normal(0, 1)``, the model's own prior, and
``spread ~ HalfNormal(1)``: studies differ by about as much as that prior says, or less. What a study says
is ``y ~ Normal(R theta, 1)`` (see `bayes_cpt.history.evidence`), with all of theta at once: a parameter
that a study does not determine is not counted as one it has, and what it determines jointly stays joint.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.errors import BayesCPTError, Problem
from bayes_cpt.history.evidence import Evidence, Label

if TYPE_CHECKING:
    import pymc as pm

type Floats = NDArray[np.float64]

# Scale of the half-normal prior of a spread, in sds of the model's own prior.
SPREAD_SCALE = 1.0
# A parameter is learnt from studies that take at least this share of the broad prior's variance, from so
# many of them.
TELLING, FEWEST = 0.5, 3
DRAWS, TUNE, CHAINS = 800, 600, 4
# Draws of a further study's value for each draw of mean and spread.
REPEATS = 5
# The prior is the normal distribution with this central interval of the predictive one.
MASS = 0.9
# Of so many parameters the largest is above 1.01 by chance.
HIGHEST_RHAT = 1.02


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
    rhat : float
        The largest of all.
    """

    labels: tuple[Label, ...]
    mean: Floats
    spread: Floats
    telling: dict[Label, tuple[str, ...]]
    studies: tuple[str, ...]
    rhat: float

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


def population_model(directions: Floats, values: Floats) -> "pm.Model":
    """Return the `pymc.Model` of a population, its data under these names.

    Parameters
    ----------
    directions : ndarray, shape (studies, labels, labels)
        In sds of the model's own prior; rows of 0 say nothing.
    values : ndarray, shape (studies, labels)
    """
    import pymc as pm

    studies, _, size = directions.shape
    with pm.Model() as model:
        rows, said = pm.Data("directions", directions), pm.Data("values", values)
        mean = pm.Normal("mean", 0.0, 1.0, shape=size)
        spread = pm.HalfNormal("spread", SPREAD_SCALE, shape=size)
        departure = pm.Normal("departure", 0.0, 1.0, shape=(studies, size))
        theta = mean + spread * departure
        pm.Normal("study", (rows * theta[:, None, :]).sum(axis=2), 1.0, observed=said)
    return model


class Hierarchy:
    """The hierarchical model of some studies, compiled once: for all of them, and without each.

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
            names = ", ".join(own.study for own in evidence) or "none"
            problem = f"{len(evidence)} studies to learn from ({names}), and it takes {FEWEST}"
            raise PopulationError(Problem("learn-priors", problem, "name more studies"))
        self.evidence, self.labels = tuple(evidence), tuple(labels)
        informed = [own.information(self.labels) for own in evidence]
        self._directions = np.stack([r for r, _ in informed]) / wider
        self._values = np.stack([y for _, y in informed])

    @cached_property
    def _compiled(self) -> Any:
        import nutpie

        return nutpie.compile_pymc_model(population_model(self._directions, self._values))

    def learn(self, seed: int = 0, without: str | None = None) -> Population:
        """Return the population of all studies, or of all but one.

        Parameters
        ----------
        seed : int
        without : str, optional
            Name of the study that is left out.
        """
        kept = [own for own in self.evidence if own.study != without]
        counted = np.array([float(own.study != without) for own in self.evidence])
        mean, spread = self._draws(counted, seed)
        telling = {
            label: tuple(own.study for own in kept if own.contraction.get(label, 0.0) >= TELLING)
            for label in self.labels
        }
        names = tuple(own.study for own in kept)
        rhat = max(_largest_rhat(mean), _largest_rhat(spread))
        return Population(self.labels, _flat(mean), _flat(spread), telling, names, rhat)

    def _draws(self, counted: Floats, seed: int) -> tuple[Floats, Floats]:
        """Return draws of mean and spread, shape (chains, draws, labels), of the studies that count 1."""
        import nutpie

        compiled = self._compiled.with_data(
            directions=self._directions * counted[:, None, None],
            values=self._values * counted[:, None],
        )
        trace: Any = nutpie.sample(
            compiled,
            draws=DRAWS,
            tune=TUNE,
            chains=CHAINS,
            cores=1,
            seed=seed,
            target_accept=0.9,
            progress_bar=False,
            save_warmup=False,
        )
        mean, spread = (
            trace.posterior[name].transpose("chain", "draw", ...).to_numpy()
            for name in ("mean", "spread")
        )
        return mean, spread


def _flat(values: Floats) -> Floats:
    return values.reshape(-1, values.shape[-1])


def _largest_rhat(values: Floats) -> float:
    from bayes_cpt.inference.sampling import convergence

    return max(float(convergence(values[..., i])[0]) for i in range(values.shape[-1]))

"""Which parameters go together from study to study, and how sure that is.

The population takes the parameters of a study as independent (`bayes_cpt.history.population`). Of each
pair, apart from all others, ``corr(theta_a, theta_b) = rho`` with a prior in proportion to ``1 - rho^2`` is
weighed against 0: by how much likelier it makes what the studies say, as a mean over draws of the
population's means and spreads. That is a ratio of two by two determinants and forms: with S the spreads
and ``A = 1 + S R'R S``, ``K = 1 - A^-1`` and ``q = A^-1 S (R'y - R'R mean)`` are all that a study says.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats
from bayes_cpt.history.evidence import SHARED, Label

# Of ten pairs one is expected to go together; a pair is said to where its probability is this high.
EXPECTED, SURE = 0.1, 0.95
GRID: Floats = np.linspace(-0.98, 0.98, 99)
# Draws of the population that are averaged over, and of a further study's values.
DRAWS, FURTHER = 500, 20_000


@dataclass(frozen=True)
class Pair:
    """Two parameters, and how their values go together over studies.

    Parameters
    ----------
    first, second : (str, str)
        Parameter, and role or ``all``.
    correlation : float
        That of a further study's values, if there is any: for few studies nearer to 0 than the
        population's.
    probability : float
        That they go together.
    studies : tuple of str
        Those that determine both.
    """

    first: Label
    second: Label
    correlation: float
    probability: float
    studies: tuple[str, ...]

    @property
    def shown(self) -> bool:
        """Whether it is nearly sure that they go together."""
        return self.probability >= SURE


def weigh_pairs(
    labels: Sequence[Label],
    mean: Floats,
    spread: Floats,
    products: Floats,
    linear: Floats,
    telling: dict[Label, tuple[str, ...]],
    fewest: int,
) -> tuple[Pair, ...]:
    """Return the pairs of parameters that enough studies determine both of, the likeliest first.

    Parameters
    ----------
    labels : sequence of (str, str)
    mean, spread : ndarray, shape (draws, labels)
        Of the population, in sds of the model's own prior.
    products : ndarray, shape (studies, labels, labels)
        ``R'R`` of what each study says.
    linear : ndarray, shape (studies, labels)
        ``R'y``.
    telling : dict of (str, str) to tuple of str
        The studies that determine each parameter.
    fewest : int
        Studies that a pair takes.
    """
    some = np.linspace(0, len(mean) - 1, min(DRAWS, len(mean))).astype(int)
    mean, spread = mean[some], spread[some]
    told, pulls = _said(mean, spread, products, linear)
    generator, pairs = np.random.default_rng(0), []
    for a, first in enumerate(labels):
        for b in range(a + 1, len(labels)):
            second = labels[b]
            both = tuple(name for name in telling[first] if name in telling[second])
            if len(both) < fewest or not _on_one_set(first, second):
                continue
            log_weights = _log_weights(told, pulls, a, b)
            probability = _probability(log_weights)
            value = _predictive(mean[:, [a, b]], spread[:, [a, b]], log_weights, generator)
            pairs.append(Pair(first, second, value, probability, both))
    return tuple(sorted(pairs, key=lambda pair: -pair.probability))


def _on_one_set(first: Label, second: Label) -> bool:
    return first[1] == second[1] or SHARED in (first[1], second[1])


def _said(mean: Floats, spread: Floats, products: Floats, linear: Floats) -> tuple[Floats, Floats]:
    """Return K, shape (draws, studies, labels, labels), and q, shape (draws, studies, labels)."""
    scaled = products * spread[:, None, :, None] * spread[:, None, None, :]
    unit = np.eye(products.shape[1])
    inverse = np.linalg.inv(unit + scaled)
    left = spread[:, None] * (linear - np.einsum("sij,dj->dsi", products, mean))
    return unit - inverse, np.einsum("dsij,dsj->dsi", inverse, left)


def _log_weights(told: Floats, pulls: Floats, a: int, b: int) -> Floats:
    """Return how much likelier each correlation makes what is said than none, shape (draws, grid)."""
    rho = GRID[:, None, None]
    of_a, of_b, of_both = told[..., a, a], told[..., b, b], told[..., a, b]
    pull_a, pull_b = pulls[..., a], pulls[..., b]
    joint = 1.0 + rho * of_both
    determinant = joint**2 - rho**2 * of_a * of_b
    form = 2.0 * joint * pull_a * pull_b - rho * (of_b * pull_a**2 + of_a * pull_b**2)
    ratios = 0.5 * (rho * form / determinant - np.log(determinant))
    return np.asarray(ratios.sum(axis=2).T)


def _prior() -> Floats:
    weights = 1.0 - GRID**2
    return np.asarray(weights / weights.sum())


def _probability(log_weights: Floats) -> float:
    """Return the probability that two parameters go together at all."""
    highest = log_weights.max()
    log_factor = highest + np.log(np.exp(log_weights - highest).mean(axis=0) @ _prior())
    odds = np.log(EXPECTED / (1.0 - EXPECTED)) + log_factor
    return float(1.0 / (1.0 + np.exp(-odds)))


def _predictive(
    mean: Floats, spread: Floats, log_weights: Floats, generator: np.random.Generator
) -> float:
    """Return the correlation of a further study's two values, given that there is one."""
    weights = np.exp(log_weights - log_weights.max()) * _prior()
    chosen = generator.choice(weights.size, FURTHER, p=(weights / weights.sum()).ravel())
    draws: NDArray[np.int64]
    draws, places = np.unravel_index(chosen, weights.shape)
    rho, standard = GRID[places], generator.standard_normal((2, FURTHER))
    standard[1] = rho * standard[0] + np.sqrt(1.0 - rho**2) * standard[1]
    values: Floats = mean[draws] + spread[draws] * standard.T
    return float(np.asarray(np.corrcoef(values, rowvar=False))[0, 1])

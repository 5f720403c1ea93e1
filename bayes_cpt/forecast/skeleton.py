"""Values in many posterior draws, from those in a few of the draws.

Losses at any points, in all draws, lie near a space of some hundred dimensions: however long a plan, a law
with its priors bends in no more ways. An interpolative decomposition (Cheng, Gimbutas, Martinsson and
Rokhlin 2005, doi:10.1137/030602678) of the losses at a sample of points finds draws that span it, and the
weights with which they give all others. At all other points the law is evaluated in those draws only, and
in some more, which tell where they do not serve.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats, Ints

# How far values may be off, nats/token.
TOLERANCE = 1e-5
# What the chosen draws leave of the sample, root mean square, as a share of that: at the worst points of a
# plan it is a hundred times as much.
LEFT = 1.0 / 200.0
# Of so many draws others are chosen at the most, the first where it will do; and further ones for a check.
MOST, CHECKS = (96, 256), 12
# Fewer draws are not worth the choice.
FEWEST = 1000


@dataclass(frozen=True, eq=False)
class Skeleton:
    """Draws that determine the others.

    Parameters
    ----------
    draws : ndarray of int
        Those that were chosen, then those that are checked.
    weights : ndarray, shape (chosen, all draws)
        Values in all draws are ``values[:, chosen] @ weights``.
    """

    draws: Ints
    weights: Floats

    @classmethod
    def of(cls, sample: Floats) -> Self | None:
        """Return the skeleton of draws from their values at some points, or None if there is none.

        There is none of few draws, nor of values that are not finite or have too little in common.

        Parameters
        ----------
        sample : ndarray, shape (points, draws)
            nats/token.
        """
        if sample.shape[1] < FEWEST or not np.isfinite(sample).all():
            return None
        return next((found for most in MOST if (found := cls._of_most(sample, most))), None)

    @classmethod
    def _of_most(cls, sample: Floats, most: int) -> Self | None:
        from scipy.linalg import qr, solve_triangular

        points = len(sample)
        combined = sample
        if points > most:
            # Random combinations of the points tell as much of the draws, and there are fewer of them.
            generator = np.random.default_rng(0)
            combined = generator.standard_normal((most, points)) @ sample / np.sqrt(most)
        upper, order = qr(combined, mode="r", pivoting=True, check_finite=False)
        left = np.abs(np.diag(upper)) / np.sqrt(points)
        count = max(int((left > LEFT * TOLERANCE).sum()), 1)
        if count + CHECKS > len(combined):
            return None
        weights = np.zeros((count, sample.shape[1]))
        weights[:, order[:count]] = np.eye(count)
        if left[0] > 0.0:
            first, others = upper[:count, :count], upper[:count, count:]
            weights[:, order[count:]] = solve_triangular(first, others, check_finite=False)
        return cls(np.asarray(order[: count + CHECKS], dtype=np.int64), weights)

    def chosen(self, few: Floats) -> Floats:
        """Return the values in the draws that determine the others, shape (..., chosen).

        Parameters
        ----------
        few : ndarray, shape (..., draws)
            In `draws`.
        """
        return few[..., : len(self.weights)]

    @cached_property
    def product(self) -> Floats:
        """What `factors` give values in all draws by, shape (chosen + 1, all draws), single precision."""
        whole = self.weights.sum(axis=0, keepdims=True)
        return np.concatenate([self.weights, whole]).astype(np.float32)

    def factors(self, few: Floats) -> Floats:
        """Return values as they differ from their mean, and that mean, shape (..., chosen + 1).

        In single precision: what differs little loses no digits that matter.

        Parameters
        ----------
        few : ndarray, shape (..., draws)
            In `draws`.
        """
        chosen = self.chosen(few)
        middle = chosen.mean(axis=-1, keepdims=True)
        return np.concatenate([chosen - middle, middle], axis=-1).astype(np.float32)

    def off(self, few: Floats) -> NDArray[np.bool_]:
        """Return where the chosen draws do not determine the others within `TOLERANCE`, shape (...,).

        Parameters
        ----------
        few : ndarray, shape (..., draws)
            Values in `draws`.
        """
        count = len(self.weights)
        wanted, found = few[..., count:], self.chosen(few) @ self.weights[:, self.draws[count:]]
        # What is no number is nowhere near.
        return ~(np.abs(found - wanted).max(axis=-1) <= TOLERANCE)


def spread_out(count: int, wanted: int) -> Ints:
    """Return about so many of some places in a row: evenly spread, and closer together at either end.

    Parameters
    ----------
    count : int
        Of all places.

    Examples
    --------
    >>> spread_out(1000, 12).tolist()
    [0, 1, 3, 7, 125, 375, 625, 875, 992, 996, 998, 999]
    """
    if count <= wanted:
        return np.arange(count)
    near = 2 ** np.arange(min(wanted // 3, 30)) - 1
    near = near[near < count // 2]
    rest = max(wanted - 2 * near.size, 0)
    even = ((np.arange(rest) + 0.5) * count / max(rest, 1)).astype(np.int64)
    return np.unique(np.concatenate([near, even, count - 1 - near]))

"""Values at many points in many draws, from those at a few of the points.

The losses of all draws at the points of a curve lie near a space of few dimensions: a law has some twenty
ways to bend along a schedule, whatever its coefficients. An interpolative decomposition (Cheng, Gimbutas,
Martinsson and Rokhlin 2005, doi:10.1137/030602678) finds, in a sample of draws, the points that span it and
the weights with which they give all others. The law is then evaluated at these points only.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from bayes_cpt.arrays import Floats, Ints

# Draws in which the points are chosen, beside the extremes: more than a law has ways to bend.
SAMPLE = 256
# Most points that are chosen.
MOST = 64
# What the decomposition leaves of the sample, as a share of its size.
PRECISION = 1e-10


@dataclass(frozen=True, eq=False)
class Skeleton:
    """Points that determine the others.

    Parameters
    ----------
    rows : ndarray of int, shape (chosen,)
        Which points they are.
    weights : ndarray, shape (points, chosen)
        Values at all points are ``weights @ values[rows]``.
    """

    rows: Ints
    weights: Floats

    @classmethod
    def of(cls, sample: Floats) -> Self:
        """Return the skeleton of points from their values in some draws, shape (points, draws).

        All points are their own skeleton where a value is not finite.

        Parameters
        ----------
        sample : ndarray, shape (points, draws)
        """
        from scipy.linalg import qr, solve_triangular

        points = len(sample)
        if not np.isfinite(sample).all():
            return cls(np.arange(points), np.eye(points))
        # Losses early in PT are a hundred times those that matter: every point counts by its own size.
        size = np.abs(sample).max(axis=1, initial=0.0)
        size[size == 0.0] = 1.0
        # Random combinations of the draws span what the draws span, and there are fewer of them.
        generator = np.random.default_rng(0)
        combined = generator.standard_normal((MOST, sample.shape[1])) @ (sample.T / size)
        upper, order = qr(combined, mode="r", pivoting=True, check_finite=False)
        sizes = np.abs(np.diag(upper))
        count = max(int((sizes > PRECISION * sizes[0]).sum()), 1)
        weights = np.zeros((points, count))
        weights[order[:count]] = np.eye(count)
        if sizes[0] > 0.0:
            first, others = upper[:count, :count], upper[:count, count:]
            weights[order[count:]] = solve_triangular(first, others, check_finite=False).T
        rows = np.asarray(order[:count], dtype=np.int64)
        return cls(rows, size[:, None] * weights / size[rows])


def sample_of(parameters: dict[str, Floats]) -> Ints:
    """Return which draws to choose points in: some spread evenly, and the extremes of each parameter.

    A curve bends most where a parameter is largest or smallest: without these draws the points that are
    chosen may not serve them.

    Parameters
    ----------
    parameters : dict of str to ndarray, shape (draws, ...)
    """
    columns = np.concatenate(
        [values.reshape(len(values), -1) for values in parameters.values()], axis=1
    )
    draws = len(columns)
    even = np.linspace(0, draws - 1, min(SAMPLE, draws)).astype(np.int64)
    extremes = (columns.argmin(axis=0), columns.argmax(axis=0))
    return np.unique(np.concatenate([even, *extremes]))

"""Chebyshev series: how what depends on an estimated number is tabulated once for a study.

Where a number such as lambda is estimated, a series in it replaces the run along every schedule by a matrix
product.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np

from bayes_cpt.arrays import Floats

# Aimed-at truncation error of a series; tests hold it to 1e-8.
INTERPOLATION_ERROR = 1e-11
# The interval is a little wider than the range it serves, so that the derivative of arccos stays finite.
INTERVAL_MARGIN = 0.01


@dataclass(frozen=True)
class Interval:
    """Where a series in one number holds, and how many terms it has.

    Parameters
    ----------
    middle, half_width : float
        Of the interval.
    nodes : int
        Terms of the series, and nodes at which it is built; 1 for a number that is fixed.
    """

    middle: float
    half_width: float
    nodes: int

    @classmethod
    def between(cls, low: float, high: float, height: float) -> Self:
        """Return the interval of a range, with the terms that an error of `INTERPOLATION_ERROR` takes.

        Parameters
        ----------
        low, high : float
            Ends of the range; equal where the number is fixed.
        height : float
            How far from the real axis the tabulated function is analytic. The strip of that height
            holds a Bernstein ellipse whose parameter is the rate of convergence.
        """
        middle, half_width = 0.5 * (low + high), 0.5 * (high - low) * (1.0 + INTERVAL_MARGIN)
        if half_width == 0.0:
            return cls(middle, 1.0, 1)
        rate = height / half_width + math.hypot(1.0, height / half_width)
        return cls(middle, half_width, math.ceil(-math.log(INTERPOLATION_ERROR) / math.log(rate)))

    def at_nodes(self) -> Floats:
        """Return the number at each node, shape (nodes,), falling."""
        return self.middle + self.half_width * np.cos(_angles(self.nodes))

    def series(self, values: Floats) -> Floats:
        """Return the series of what has these values at the nodes, shape (..., nodes) both.

        Parameters
        ----------
        values : ndarray, shape (..., nodes)
        """
        return np.asarray(values @ _transform(self.nodes))

    def values(self, series: Floats) -> Floats:
        """Return the values at the nodes of what has this series, shape (..., nodes) both.

        Parameters
        ----------
        series : ndarray, shape (..., nodes)
        """
        return np.asarray(series @ np.cos(_angles(self.nodes)[:, None] * np.arange(self.nodes)).T)

    def basis(self, number: Any, xp: Any = np) -> Any:
        """Return the polynomials whose product with a series is what it stands for.

        Parameters
        ----------
        number : float, ndarray or PyTensor variable, shape (...)
            Inside the range.
        xp : module
            `numpy` or `pytensor.tensor`.

        Returns
        -------
        ndarray or PyTensor variable, shape (..., nodes)
        """
        if self.nodes == 1:
            return xp.expand_dims(xp.ones_like(number), -1)
        angle = xp.arccos((number - self.middle) / self.half_width)
        return xp.cos(xp.expand_dims(angle, -1) * np.arange(self.nodes))


def _angles(nodes: int) -> Floats:
    return np.asarray((np.arange(nodes) + 0.5) * (np.pi / nodes))


@lru_cache(maxsize=32)
def _transform(nodes: int) -> Floats:
    """Return the matrix that takes values at the nodes to a series: a discrete cosine transform."""
    waves = np.cos(_angles(nodes)[:, None] * np.arange(nodes)) * (2.0 / nodes)
    waves[:, 0] *= 0.5
    return np.asarray(waves)

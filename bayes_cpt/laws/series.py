"""Chebyshev series: what depends on a memory or a power is tabulated once for a study.

Where such a number is estimated, a series in it replaces the run along every schedule by a matrix product.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.polynomial.chebyshev import chebpts1, chebvander
from numpy.typing import ArrayLike

from bayes_cpt.arrays import Floats

# Aimed-at truncation error of a series; tests hold it to 1e-8.
INTERPOLATION_ERROR = 1e-11
# The interval is a little wider than the range it serves, so that the derivative of arccos stays finite.
INTERVAL_MARGIN = 0.01
# Where 1 - lambda^k, as a function of log(1 - lambda), begins to grow without bound.
MOMENTUM_HEIGHT = 0.5 * math.pi
# Where log S1, as a function of rho, has its nearest zeros of S1: measured on schedules of every shape.
POWER_HEIGHT = 1.0
# The least momentum: a memory shorter than that is none.
SHORTEST = 0.1
LOWEST_POWER, HIGHEST_POWER = 0.02, 3.0


@dataclass(frozen=True)
class Interval:
    """Where a series in one number holds, and how many terms it has."""

    # Of the interval
    middle: float
    half_width: float
    nodes: int  # terms of the series, and nodes at which it is built; 1 for a number that is fixed

    @classmethod
    def between(cls, low: float, high: float, height: float) -> Self:
        """Return the interval of a range, with the terms that an error of `INTERPOLATION_ERROR` takes.

        The tabulated function is analytic in a strip of that height about the real axis, which holds a
        Bernstein ellipse whose parameter is the rate of convergence. Ends are equal where the number is
        fixed.
        """
        middle, half_width = 0.5 * (low + high), 0.5 * (high - low) * (1.0 + INTERVAL_MARGIN)
        if half_width == 0.0:
            return cls(middle, 1.0, 1)
        rate = height / half_width + math.hypot(1.0, height / half_width)
        return cls(middle, half_width, math.ceil(-math.log(INTERPOLATION_ERROR) / math.log(rate)))

    @classmethod
    def of_momenta(cls, low: float = 0.9, high: float = 0.9999) -> Self:
        """Return the interval of levels, series in ``log(1 - lambda)``; 0.1 <= low <= high < 1."""
        return cls.between(math.log1p(-high), math.log1p(-low), MOMENTUM_HEIGHT)

    @classmethod
    def of_powers(cls, low: float = 1.0, high: float = 1.0) -> Self:
        """Return the interval of log forward areas, series in rho; 0.02 <= low <= high <= 3."""
        return cls.between(low, high, POWER_HEIGHT)

    def at_nodes(self) -> Floats:
        """Return the number at each node, shape (nodes,), falling."""
        return self.middle - self.half_width * chebpts1(self.nodes)

    def series(self, values: Floats) -> Floats:
        """Return the series of what has these values at the nodes, shape (..., nodes) both."""
        waves = self.basis(self.at_nodes()) * (2.0 / self.nodes)
        waves[:, 0] *= 0.5
        return np.asarray(values @ waves)

    def basis(self, number: ArrayLike) -> Floats:
        """Return the polynomials, (..., nodes), whose product with a series is its value at a number."""
        place = (np.asarray(number) - self.middle) / self.half_width
        waves: Any = chebvander(place, self.nodes - 1)
        return np.asarray(waves.reshape(*np.shape(place), self.nodes))


def momentum_parts(coefficients: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """Return the momenta of a law and the weight of the level of each in its own.

    With a slow momentum the level e, the learning rate that the model still feels, comes in two parts, a
    share w of it at the slow pace:

        e = (1 - w)·e(lambda) + w·e(lambda_slow)

    so that w changes when a fall of the learning rate gains, not how much it gains in the end.
    """
    fast = coefficients["lambda"]
    if "lambda_slow" not in coefficients:
        return [(fast, 1)]
    share = coefficients["w_slow"]
    return [(fast, 1.0 - share), (coefficients["lambda_slow"], share)]

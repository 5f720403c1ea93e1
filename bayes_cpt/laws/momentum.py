"""The annealing area as a function of the momentum lambda: a Chebyshev series in log(1 - lambda).

Where lambda is estimated, the series replaces the recursion along a schedule by a matrix product.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from bayes_cpt.study.segments import FloatArray

# The Chebyshev interval is a little wider than the momentum range, so that the derivative of arccos
# stays finite for every momentum in it.
INTERVAL_MARGIN = 0.01
# Aimed-at truncation error of the interpolant; its tests hold it to 1e-8.
INTERPOLATION_ERROR = 1e-11
# The least momentum, and room around momenta so that none lies on the edge of its range.
SHORTEST, ROOM = 0.1, 1e-3
# Coefficients that are momenta.
MOMENTA = ("lambda", "lambda_slow")


@dataclass(frozen=True)
class MomentumRange:
    """The range of momenta an interpolant serves.

    Parameters
    ----------
    low, high : float
        0.1 <= low < high < 1. A memory shorter than that is none: 1/(1 - lambda) counts its steps.

    Raises
    ------
    ValueError
        If the bounds are not in that order.
    """

    low: float = 0.9
    high: float = 0.9999

    def __post_init__(self) -> None:
        if not SHORTEST <= self.low < self.high < 1.0:
            raise ValueError(
                f"the momentum range is {self.low} to {self.high}: give 0.1 <= low < high < 1"
            )

    @classmethod
    def around(cls, momenta: ArrayLike) -> Self:
        """Return a range that holds all of some momenta, with a little room around them.

        Parameters
        ----------
        momenta : array_like
            From 0 up to but not including 1.
        """
        distances = 1.0 - np.asarray(momenta, dtype=np.float64)
        low = 1.0 - float(distances.max()) * (1.0 + ROOM)
        return cls(max(low, SHORTEST), 1.0 - float(distances.min()) * (1.0 - ROOM))

    @classmethod
    def of(cls, coefficients: Mapping[str, Any]) -> Self:
        """Return a range around the momenta among the coefficients of a law.

        Parameters
        ----------
        coefficients : mapping
            With those of `MOMENTA` that the law has.
        """
        found = [np.ravel(coefficients[name]) for name in MOMENTA if name in coefficients]
        return cls.around(np.concatenate(found))

    @property
    def interval(self) -> tuple[float, float]:
        """Middle and half-width of the Chebyshev interval in u = log(1 - lambda)."""
        first, last = math.log1p(-self.high), math.log1p(-self.low)
        half_width = 0.5 * (last - first) * (1.0 + INTERVAL_MARGIN)
        return 0.5 * (first + last), half_width

    @property
    def nodes(self) -> int:
        """Number of Chebyshev nodes for an error below 1e-8 (see `MomentumInterpolant`).

        1 - lambda^k, as a function of u, grows without bound only beyond Im u = pi/2. That strip
        holds a Bernstein ellipse whose parameter gives the geometric rate of convergence.
        """
        _, half_width = self.interval
        height = 0.5 * math.pi / half_width
        rate = height + math.hypot(1.0, height)
        return math.ceil(-math.log(INTERPOLATION_ERROR) / math.log(rate))

    def node_momenta(self) -> FloatArray:
        """Return the momentum at each Chebyshev node, shape (nodes,), highest last."""
        middle, half_width = self.interval
        angles = (np.arange(self.nodes) + 0.5) * (np.pi / self.nodes)
        return np.asarray(-np.expm1(middle + half_width * np.cos(angles)))


def chebyshev_basis(momentum: Any, momentum_range: MomentumRange, xp: Any = np) -> Any:
    """Return the basis whose product with `MomentumInterpolant.coefficients` is S2.

    Parameters
    ----------
    momentum : float, ndarray or PyTensor variable, shape (...)
        lambda inside the range.
    momentum_range : MomentumRange
        The one the coefficients were built for.
    xp : module
        Where `log`, `cos`, `arccos` and `expand_dims` come from: `numpy` or `pytensor.tensor`.

    Returns
    -------
    ndarray or PyTensor variable, shape (..., nodes)
        T_j(x) / (1 - lambda), with x linear in log(1 - lambda).
    """
    middle, half_width = momentum_range.interval
    distance = 1.0 - momentum
    angle = xp.arccos((xp.log(distance) - middle) / half_width)
    waves = xp.cos(xp.expand_dims(angle, -1) * np.arange(momentum_range.nodes))
    return waves / xp.expand_dims(distance, -1)


def momentum_parts(coefficients: Mapping[str, Any], xp: Any = np) -> list[tuple[Any, Any]]:
    """Return the momenta of a law and the weight of the S2 of each in its annealing area.

    With one momentum the area is its S2. With a slow one, what a fall of the learning rate gains comes
    in two parts, a share w of it at the slow pace:

        S2 = (1 - w)·S2(lambda) + w·S2(lambda_slow)·(1 - lambda_slow)/(1 - lambda)

    so that w changes when the gain comes, not how much comes in the end.

    Parameters
    ----------
    coefficients : mapping
        With ``lambda``, and ``lambda_slow`` and ``slow_share`` where the law has them, shape (...).
    xp : module
        `numpy` or `pytensor.tensor`.
    """
    fast = coefficients["lambda"]
    if "lambda_slow" not in coefficients:
        return [(fast, xp.ones_like(fast))]
    slow, share = coefficients["lambda_slow"], coefficients["slow_share"]
    return [(fast, 1.0 - share), (slow, share * (1.0 - slow) / (1.0 - fast))]


def annealing_basis(
    coefficients: Mapping[str, Any], momentum_range: MomentumRange, xp: Any = np
) -> Any:
    """Return the basis of the annealing area of a law, shape (..., nodes).

    Parameters
    ----------
    coefficients, xp
        As for `momentum_parts`.
    momentum_range
        As for `chebyshev_basis`.
    """
    return sum(
        xp.expand_dims(weight, -1) * chebyshev_basis(momentum, momentum_range, xp)
        for momentum, weight in momentum_parts(coefficients, xp)
    )


@dataclass(frozen=True, eq=False)
class MomentumInterpolant:
    """S2 at chosen steps as a function of lambda, in a Chebyshev series in u = log(1 - lambda).

    Interpolated is (1 - lambda) S2, which stays near the size of the learning rates over the whole
    range. The error of S2 is below 1e-8 of the curve's largest |S2| over the range, for schedules
    of up to 100,000 steps (tested; about 1e-11 as built).

    Parameters
    ----------
    coefficients : ndarray, shape (points, nodes)
        S2 at the points is ``coefficients @ chebyshev_basis(momentum, momentum_range)``.
    momentum_range : MomentumRange
        Where the series holds.
    """

    coefficients: FloatArray
    momentum_range: MomentumRange

    @classmethod
    def from_areas(
        cls, areas_at_nodes: FloatArray, momentum_range: MomentumRange
    ) -> "MomentumInterpolant":
        """Build the series from S2 at `momentum_range.node_momenta()`, shape (points, nodes).

        Parameters
        ----------
        areas_at_nodes : ndarray, shape (points, nodes)
            LR·steps.
        momentum_range : MomentumRange
        """
        return cls(areas_at_nodes @ _series_from_nodes(momentum_range), momentum_range)

    def evaluate(self, momentum: float | FloatArray) -> FloatArray:
        """Return S2 at the points, shape (..., points) for momenta of shape (...).

        Parameters
        ----------
        momentum : float or ndarray, shape (...)
            Inside the range.

        Raises
        ------
        ValueError
            If a momentum lies outside the range.
        """
        momenta = np.asarray(momentum, dtype=np.float64)
        low, high = self.momentum_range.low, self.momentum_range.high
        if np.any((momenta < low) | (momenta > high)):
            raise ValueError(f"a momentum lies outside {low} to {high}: build a wider interpolant")
        basis = chebyshev_basis(momenta, self.momentum_range)
        return np.asarray(basis @ self.coefficients.T)


@lru_cache(maxsize=8)
def _series_from_nodes(momentum_range: MomentumRange) -> FloatArray:
    """Return the matrix that takes S2 at the nodes to its series: a discrete cosine transform."""
    nodes = momentum_range.nodes
    angles = (np.arange(nodes) + 0.5) * (np.pi / nodes)
    waves = np.cos(angles[:, None] * np.arange(nodes)) * (2.0 / nodes)
    waves[:, 0] *= 0.5
    return (1.0 - momentum_range.node_momenta())[:, None] * waves

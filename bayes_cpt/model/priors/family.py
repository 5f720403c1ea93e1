"""What every family of priors has in common: a normal distribution on a scale of its own."""

from abc import abstractmethod
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from bayes_cpt.arrays import Floats
from bayes_cpt.strict import Strict

# Digits kept of what is worked out: more than any statement holds, few enough to read.
DIGITS = 4


class Family(Strict):
    """A distribution of one number; subclasses name its scale and their parameters."""

    @property
    @abstractmethod
    def center(self) -> float:
        """Mean on the family's own scale."""

    @property
    @abstractmethod
    def spread(self) -> float:
        """Standard deviation on the family's own scale; 0 for a fixed value."""

    @property
    def bounds(self) -> tuple[float, float]:
        """What the values lie between."""
        return -np.inf, np.inf

    @property
    def standard_bounds(self) -> tuple[float, float]:
        """The bounds in standard deviations from the centre, on the scale on which the family is normal."""
        with np.errstate(divide="ignore"):
            low, high = (
                np.asarray(self.to_scale(np.array(self.bounds))) - self.center
            ) / self.spread
        return float(low), float(high)

    @property
    @abstractmethod
    def words(self) -> str:
        """The distribution as it is written in tables."""

    @property
    def is_free(self) -> bool:
        """Whether it is normal on its own scale, neither fixed nor cut off at bounds."""
        return self.spread > 0.0 and self.bounds in ((-np.inf, np.inf), (0.0, np.inf), (0.0, 1.0))

    @staticmethod
    def to_scale(value: Any, xp: Any = np) -> Any:
        """Return values on the scale on which the family is normal.

        Parameters
        ----------
        value : float, ndarray or PyTensor variable
        xp : module
            `numpy` or `pytensor.tensor`.
        """
        return np.asarray(value, dtype=np.float64) if xp is np else value

    @staticmethod
    def from_scale(place: Any) -> Any:
        """Return the values at places on that scale.

        Parameters
        ----------
        place : float, ndarray or PyTensor variable
        """
        return place

    @staticmethod
    def log_slope(value: Any) -> Any:
        """Return the log of the derivative of `to_scale` at values.

        Parameters
        ----------
        value : float, ndarray or PyTensor variable
        """
        return np.zeros_like(value)

    @abstractmethod
    def moved(self, center: float, spread: float) -> Self:
        """Return the same family, and bounds, with another mean and sd on its own scale.

        Parameters
        ----------
        center, spread : float
            On the scale on which the family is normal.
        """

    @staticmethod
    @abstractmethod
    def variable(name: str, priors: Sequence[Any], dims: str | None) -> Any:
        """Return the PyMC variable of a parameter whose members have these priors.

        Parameters
        ----------
        name : str
        priors : sequence
            Of this family: one per member, or one alone without `dims`.
        dims : str or None
            The coordinate of the members.
        """

    def quantiles(
        self, probabilities: ArrayLike, *, center: float | None = None, spread: float | None = None
    ) -> Floats:
        """Return the values below which the distribution has these probabilities.

        Parameters
        ----------
        probabilities : array_like
        center, spread : float, optional
            Another mean and sd on the family's own scale than the distribution's.

        Examples
        --------
        >>> from bayes_cpt.model.priors.families import Normal
        >>> Normal(distribution="normal", mean=3.0, sd=1.5).quantiles([0.05, 0.5, 0.95]).round(2).tolist()
        [0.53, 3.0, 5.47]
        """
        from scipy.special import ndtri

        center = self.center if center is None else center
        spread = self.spread if spread is None else spread
        low, high = self._mass_below_bounds(center, spread)
        inside = low + (high - low) * np.asarray(probabilities, dtype=np.float64)
        return np.asarray(self.from_scale(center + spread * ndtri(inside)))

    def log_density(self, values: ArrayLike) -> Floats:
        """Return the log density of values, not of their logs or logits; -inf outside the bounds.

        Parameters
        ----------
        values : array_like

        Examples
        --------
        >>> from bayes_cpt.model.priors.families import Normal
        >>> round(float(Normal(distribution="normal", mean=0.0, sd=1.0).log_density(0.0)), 4)
        -0.9189
        """
        value = np.asarray(values, dtype=np.float64)
        standard = (self.to_scale(value) - self.center) / self.spread
        low, high = self._mass_below_bounds(self.center, self.spread)
        density = -0.5 * standard**2 - np.log(self.spread * np.sqrt(2.0 * np.pi) * (high - low))
        outside = (value < self.bounds[0]) | (value > self.bounds[1])
        return np.asarray(np.where(outside, -np.inf, density + self.log_slope(value)))

    def probability_above(self, values: ArrayLike) -> Floats:
        """Return the probability of larger values than these, shape as given.

        Parameters
        ----------
        values : array_like

        Examples
        --------
        >>> from bayes_cpt.model.priors.families import Normal
        >>> round(float(Normal(distribution="normal", mean=3.0, sd=1.5).probability_above(6.0)), 4)
        0.0228
        """
        from scipy.special import ndtr

        low, high = self._mass_below_bounds(self.center, self.spread)
        standard = (self.to_scale(values) - self.center) / self.spread
        # From above: far out in the upper tail 1 less the rest would be 0.
        return np.asarray(np.clip((ndtr(-standard) - (1.0 - high)) / (high - low), 0.0, 1.0))

    def draw(self, draws: int, generator: np.random.Generator) -> Floats:
        """Return independent draws, shape (draws,).

        Parameters
        ----------
        draws : int
        generator : numpy.random.Generator
        """
        return np.asarray(
            self.from_scale(self.center + self.spread * generator.standard_normal(draws))
        )

    def from_interval(self, lower: float, upper: float, mass: float) -> Self:
        """Return the member of the family, and bounds, whose central interval is the one stated.

        Parameters
        ----------
        lower, upper : float
            Ends of the interval.
        mass : float
            Probability between them, half of the rest on each side.

        Raises
        ------
        ValueError
            If no member of the family has such an interval.

        Examples
        --------
        >>> from bayes_cpt.model.priors.families import LogNormal
        >>> LogNormal(distribution="lognormal", median=1.0, sigma=1.0).from_interval(0.1, 0.4, 0.9).median
        0.2
        """
        if not lower < upper:
            raise ValueError(f"{lower:g} to {upper:g} is no interval")
        if lower <= self.bounds[0] or upper >= self.bounds[1]:
            raise ValueError(f"it lies between {self.bounds[0]:g} and {self.bounds[1]:g}")
        ends = self.to_scale(np.array([lower, upper]))
        spread = float(ends[1] - ends[0]) / (2.0 * NormalDist().inv_cdf(0.5 + mass / 2.0))
        return self._with_interval(ends, mass, float(ends.mean()), spread)

    def _with_interval(self, ends: Floats, mass: float, center: float, spread: float) -> Self:
        return self.moved(center, spread)

    def _mass_below_bounds(self, center: float, spread: float) -> tuple[float, float]:
        """Return the mass below each bound that the distribution would have without bounds."""
        return 0.0, 1.0


def scales(priors: Sequence[Family], dims: str | None) -> tuple[Any, Any]:
    """Return mean and sd on the family's own scale, of each member or of the only one.

    Parameters
    ----------
    priors : sequence of Family
        All of one family.
    dims : str or None
        Coordinate of the members; None where one is shared.
    """
    pairs = np.array([(prior.center, prior.spread) for prior in priors]).T
    return (pairs[0], pairs[1]) if dims else (pairs[0, 0], pairs[1, 0])


def rounded(value: float) -> float:
    """Return a number that was worked out, as a model's file states it.

    Parameters
    ----------
    value : float
    """
    return float(f"{value:.{DIGITS}g}")

"""What every family of priors has in common: a normal distribution on a scale of its own."""

from abc import abstractmethod
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from pydantic import model_validator

from bayes_cpt.arrays import Floats
from bayes_cpt.strict import Strict

# Digits kept of what is worked out: more than any stated interval holds, few enough to read.
DIGITS = 4
# Of a stated interval, unless given.
MASS = 0.9


class Family(Strict):
    """A distribution of one number; subclasses name its scale and their parameters."""

    # The parameters that set `center` and `spread`; none of a fixed value.
    PARAMETERS: ClassVar[tuple[str, ...]] = ()
    # What the values lie between where a prior states no bounds of its own.
    SUPPORT: ClassVar[tuple[float, float]] = (-np.inf, np.inf)

    @model_validator(mode="before")
    @classmethod
    def _interval_as_parameters(cls, keys: Any) -> Any:
        """Replace ``interval = [lower, upper], mass = 0.9`` by the parameters that give that interval."""
        if not isinstance(keys, dict) or "interval" not in keys:
            return keys
        others = {key: value for key, value in keys.items() if key not in ("interval", "mass")}
        interval, mass = keys["interval"], keys.get("mass", MASS)
        if not cls.PARAMETERS:
            raise ValueError("a fixed value has no interval")
        if given := [name for name in cls.PARAMETERS if name in others]:
            raise ValueError(f"give either interval or {given[0]}")
        if not _is_interval(interval) or not _is_number(mass) or not 0.0 < mass < 1.0:
            raise ValueError("give interval = [lower, upper] and a mass between 0 and 1")
        bounds = tuple(
            others.get(key, end) for key, end in zip(("lower", "upper"), cls.SUPPORT, strict=True)
        )
        if not all(map(_is_number, bounds)):
            # The type of the bound is the problem, and is reported by itself.
            return others
        if interval[0] <= bounds[0] or interval[1] >= bounds[1]:
            raise ValueError(f"the interval must lie between {bounds[0]:g} and {bounds[1]:g}")
        center, spread = cls._with_interval(interval, mass, bounds)
        stated = (rounded(float(cls.from_scale(center))), rounded(spread))
        return others | dict(zip(cls.PARAMETERS, stated, strict=True))

    @classmethod
    def _with_interval(
        cls, interval: Sequence[float], mass: float, bounds: tuple[float, ...]
    ) -> tuple[float, float]:
        """Return mean and sd on the family's own scale of the member with that central interval."""
        lower, upper = cls.to_scale(np.array(interval, dtype=np.float64))
        spread = (upper - lower) / (2.0 * NormalDist().inv_cdf(0.5 + mass / 2.0))
        return float(lower + upper) / 2.0, float(spread)

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


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_interval(value: Any) -> bool:
    is_pair = isinstance(value, list | tuple) and len(value) == 2 and all(map(_is_number, value))
    return is_pair and value[0] < value[1]

"""The priors of a specification as users write them: families, roles, reasons, correlations."""

from collections.abc import Callable, Sequence
from itertools import product
from statistics import NormalDist
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from pydantic import ConfigDict, Field, model_validator

from bayes_cpt.arrays import Floats
from bayes_cpt.checks import is_number
from bayes_cpt.errors import SpecError
from bayes_cpt.strict import Strict

# Digits kept of what is worked out: more than any stated interval holds, few enough to read.
DIGITS = 4
# Of a stated interval, unless given.
MASS = 0.9


class Family(Strict):
    """A distribution of one number; subclasses name its scale and their parameters."""

    # No truth value is a number.
    model_config = ConfigDict(strict=True)
    # The parameters that set `center` and `spread`; none of a fixed value.
    PARAMETERS: ClassVar[tuple[str, ...]] = ()
    # What the values lie between where a prior states no bounds of its own.
    SUPPORT: ClassVar[tuple[float, float]] = (-np.inf, np.inf)

    @model_validator(mode="before")
    @classmethod
    def _interval_as_parameters(cls, keys: Any) -> Any:
        """Replace ``interval = [lower, upper], mass = 0.9`` by the parameters that give that interval."""
        if not isinstance(keys, dict) or not {"interval", "mass"} & keys.keys():
            return keys
        if "interval" not in keys:
            raise ValueError("mass is that of an interval: give interval = [lower, upper] too")
        others = {key: value for key, value in keys.items() if key not in ("interval", "mass")}
        interval, mass = keys["interval"], keys.get("mass", MASS)
        if not cls.PARAMETERS:
            raise ValueError("a fixed value has no interval")
        if given := [name for name in cls.PARAMETERS if name in others]:
            raise ValueError(f"give either interval or {given[0]}")
        if not _is_interval(interval) or not is_number(mass) or not 0.0 < mass < 1.0:
            raise ValueError("give interval = [lower, upper] and a mass between 0 and 1")
        if not all(is_number(others.get(key, 0.0)) for key in ("lower", "upper")):
            # The type of the bound is the problem, and is reported by itself.
            return others
        bounds = (others.get("lower", cls.SUPPORT[0]), others.get("upper", cls.SUPPORT[1]))
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
    def center(self) -> float:
        """Mean on the family's own scale."""
        return float(self.to_scale(getattr(self, self.PARAMETERS[0])))

    @property
    def spread(self) -> float:
        """Standard deviation on the family's own scale; 0 for a fixed value."""
        return float(getattr(self, self.PARAMETERS[1]))

    @property
    def bounds(self) -> tuple[float, float]:
        """What the values lie between."""
        return self.SUPPORT

    @property
    def standard_bounds(self) -> tuple[float, float]:
        """The bounds in standard deviations from the centre, on the scale on which the family is normal."""
        with np.errstate(divide="ignore"):
            low, high = self.standard(np.array(self.bounds))
        return float(low), float(high)

    @property
    def words(self) -> str:
        """The distribution as it is written in tables, as in ``LogitNormal(median 0.3, 1)``."""
        median, spread = (getattr(self, name) for name in self.PARAMETERS)
        return f"{type(self).__name__}(median {median:g}, {spread:g})"

    @property
    def is_free(self) -> bool:
        """Whether it is normal on its own scale, neither fixed nor cut off at bounds."""
        return self.spread > 0.0 and self.bounds == self.SUPPORT

    @staticmethod
    def to_scale(value: Any, xp: Any = np) -> Any:
        """Return values on the scale on which the family is normal."""
        return np.asarray(value, dtype=np.float64) if xp is np else value

    @staticmethod
    def from_scale(place: Any) -> Any:
        """Return the values at places on that scale."""
        return place

    def standard(self, value: Any, xp: Any = np) -> Any:
        """Return values in standard deviations from the centre, on that scale."""
        return (self.to_scale(value, xp) - self.center) / self.spread

    def at(self, standard: Any) -> Any:
        """Return the values so many standard deviations from the centre."""
        return self.from_scale(self.center + self.spread * standard)

    @staticmethod
    def log_slope(value: Any) -> Any:
        """Return the log of the derivative of `to_scale` at values."""
        return np.zeros_like(value)

    def moved(self, center: float, spread: float) -> Self:
        """Return the same family, and bounds, with another mean and sd on its own scale."""
        stated = (rounded(float(self.from_scale(center))), rounded(spread))
        return self.model_copy(update=dict(zip(self.PARAMETERS, stated, strict=True)))

    def quantiles(self, probabilities: ArrayLike) -> Floats:
        """Return the values below which the distribution has these probabilities.

        Examples
        --------
        >>> from bayes_cpt.model.priors import Normal
        >>> Normal(distribution="normal", mean=3.0, sd=1.5).quantiles([0.05, 0.5, 0.95]).round(2).tolist()
        [0.53, 3.0, 5.47]
        """
        from scipy.special import ndtri

        low, high = self._mass_below_bounds
        inside = low + (high - low) * np.asarray(probabilities, dtype=np.float64)
        return np.asarray(self.at(ndtri(inside)))

    def log_density(self, values: ArrayLike) -> Floats:
        """Return the log density of values, not of their logs or logits; -inf outside the bounds.

        Examples
        --------
        >>> from bayes_cpt.model.priors import Normal
        >>> round(float(Normal(distribution="normal", mean=0.0, sd=1.0).log_density(0.0)), 4)
        -0.9189
        """
        value = np.asarray(values, dtype=np.float64)
        standard = self.standard(value)
        low, high = self._mass_below_bounds
        density = -0.5 * standard**2 - np.log(self.spread * np.sqrt(2.0 * np.pi) * (high - low))
        outside = (value < self.bounds[0]) | (value > self.bounds[1])
        return np.asarray(np.where(outside, -np.inf, density + self.log_slope(value)))

    def probability_above(self, values: ArrayLike) -> Floats:
        """Return the probability of larger values than these, shape as given.

        Examples
        --------
        >>> from bayes_cpt.model.priors import Normal
        >>> round(float(Normal(distribution="normal", mean=3.0, sd=1.5).probability_above(6.0)), 4)
        0.0228
        """
        from scipy.special import ndtr

        low, high = self._mass_below_bounds
        # From above: far out in the upper tail 1 less the rest would be 0.
        above = ndtr(-self.standard(values)) - (1.0 - high)
        return np.asarray(np.clip(above / (high - low), 0.0, 1.0))

    def draw(self, draws: int, generator: np.random.Generator) -> Floats:
        """Return independent draws, shape (draws,)."""
        return np.asarray(self.at(generator.standard_normal(draws)))

    @property
    def _mass_below_bounds(self) -> Floats:
        """The mass below each bound that the distribution would have without bounds."""
        from scipy.special import ndtr

        return np.asarray(ndtr(self.standard_bounds))


def rounded(value: float) -> float:
    """Return a number that was worked out, as a model's file states it."""
    return float(f"{value:.{DIGITS}g}")


def _is_interval(value: Any) -> bool:
    is_pair = isinstance(value, list | tuple) and len(value) == 2 and all(map(is_number, value))
    return is_pair and value[0] < value[1]


class Normal(Family):
    """``Normal(mean, sd)``."""

    PARAMETERS = ("mean", "sd")
    distribution: Literal["normal"]
    mean: float
    sd: float = Field(gt=0)

    @property
    def words(self) -> str:
        """As in ``Normal(3, 1.5)``."""
        return f"Normal({self.mean:g}, {self.sd:g})"


class LogNormal(Family):
    """A positive quantity: its log is Normal(log median, sigma), optionally within bounds."""

    PARAMETERS = ("median", "sigma")
    SUPPORT = (0.0, np.inf)
    distribution: Literal["lognormal"]
    median: float = Field(gt=0)
    sigma: float = Field(gt=0)
    lower: float | None = Field(default=None, gt=0)
    upper: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _bounds_hold_the_median(self) -> Self:
        if (self.lower is None) != (self.upper is None):
            raise ValueError("give both lower and upper, or neither")
        if not self.bounds[0] < self.median < self.bounds[1]:
            raise ValueError("the median must lie between lower and upper")
        return self

    @property
    def bounds(self) -> tuple[float, float]:
        """The bounds, 0 and infinity where there are none."""
        return self.lower or 0.0, self.upper or np.inf

    @property
    def words(self) -> str:
        """As in ``LogNormal(median 100, 1) in 10 to 10000``."""
        within = f" in {self.lower:g} to {self.upper:g}" if self.lower else ""
        return f"{super().words}{within}"

    @staticmethod
    def to_scale(value: Any, xp: Any = np) -> Any:
        """Return logs."""
        return xp.log(value)

    @staticmethod
    def from_scale(place: Any) -> Any:
        """Return exponentials."""
        return np.exp(place)

    @staticmethod
    def log_slope(value: Any) -> Any:
        """Return ``-log(value)``."""
        return -np.log(value)

    def draw(self, draws: int, generator: np.random.Generator) -> Floats:
        """Return independent draws, by inversion, so that bounds cost no rejections."""
        return self.quantiles(generator.uniform(size=draws))

    @classmethod
    def _with_interval(
        cls, interval: Sequence[float], mass: float, bounds: tuple[float, ...]
    ) -> tuple[float, float]:
        """Return mean and sd of the log; what lies outside bounds changes the quantiles."""
        center, spread = super()._with_interval(interval, mass, bounds)
        if bounds == cls.SUPPORT:
            return center, spread
        from scipy.optimize import root
        from scipy.special import ndtr

        with np.errstate(invalid="ignore", divide="ignore"):
            edges, ends = np.log(bounds), np.log(interval)
        wanted = np.array([0.5 - mass / 2.0, 0.5 + mass / 2.0])

        def missing_mass(place: Floats) -> Floats:
            sd = np.exp(place[1])
            low, high = ndtr((edges - place[0]) / sd)
            return np.asarray((ndtr((ends - place[0]) / sd) - low) / (high - low) - wanted)

        # Where nothing is left between the bounds the search has failed, and reports that itself.
        with np.errstate(invalid="ignore", divide="ignore"):
            solution = root(missing_mass, [center, np.log(spread)])
        # The median must lie inside the bounds.
        if not solution.success or not edges[0] < solution.x[0] < edges[1]:
            within = f"{bounds[0]:g} and {bounds[1]:g}"
            raise ValueError(f"no lognormal between {within} has that interval")
        return float(solution.x[0]), float(np.exp(solution.x[1]))


class LogitNormal(Family):
    """A share between 0 and 1: its logit is Normal(logit median, sigma)."""

    PARAMETERS = ("median", "sigma")
    SUPPORT = (0.0, 1.0)
    distribution: Literal["logitnormal"]
    median: float = Field(gt=0, lt=1)
    sigma: float = Field(gt=0)

    @staticmethod
    def to_scale(value: Any, xp: Any = np) -> Any:
        """Return logits."""
        return xp.log(value) - xp.log1p(-(np.asarray(value) if xp is np else value))

    @staticmethod
    def from_scale(place: Any) -> Any:
        """Return shares."""
        return 1.0 / (1.0 + np.exp(-place))

    @staticmethod
    def log_slope(value: Any) -> Any:
        """Return ``-log(value·(1 - value))``."""
        return -np.log(value) - np.log1p(-value)


class Fixed(Family):
    """A known value, not sampled."""

    distribution: Literal["fixed"] = "fixed"
    value: float

    @property
    def center(self) -> float:
        """The value."""
        return self.value

    @property
    def spread(self) -> float:
        """Nothing."""
        return 0.0

    @property
    def words(self) -> str:
        """As in ``fixed at 2.5``."""
        return f"fixed at {self.value:g}"

    def log_density(self, values: ArrayLike) -> Floats:
        """Return 0: a fixed value has no density."""
        return np.zeros(np.shape(values))

    def draw(self, draws: int, generator: np.random.Generator) -> Floats:
        """Return the value, so many times."""
        return np.full(draws, self.value)

    def moved(self, center: float, spread: float) -> Self:
        """Return the same: what is fixed stays so."""
        return self


type Distribution = Annotated[
    Normal | LogNormal | LogitNormal | Fixed, Field(discriminator="distribution")
]


def is_positive(prior: Distribution) -> bool:
    """Return whether a prior allows nothing but values above 0."""
    return prior.value > 0.0 if isinstance(prior, Fixed) else not isinstance(prior, Normal)


# A correlation matrix with a smaller eigenvalue has an inverse of rounding errors.
LEAST_EIGENVALUE = 1e-6


class Prior(Strict):
    """The prior of one parameter, the same for all validation sets or one per role."""

    reason: str = Field(min_length=1)  # why this prior; shown in `summary` and in reports
    every: Distribution | None = None  # for all validation sets (and for parameters shared by them)
    # For one role; takes precedence over `every`
    general: Distribution | None = None
    target: Distribution | None = None

    @model_validator(mode="after")
    def _covers_every_role(self) -> Self:
        if self.every is None and (self.general is None or self.target is None):
            raise ValueError("give every, or both general and target")
        return self

    @property
    def given(self) -> list[Distribution]:
        """The distributions that are stated."""
        return [own for own in (self.every, self.general, self.target) if own is not None]

    def of(self, role: str | None) -> Distribution:
        """Return the distribution for a role, or for a shared parameter (role None)."""
        of_role = {"general": self.general, "target": self.target}.get(role or "")
        distribution = of_role or self.every
        if distribution is None:
            raise SpecError.at("priors", "a shared parameter has no prior", "give every")
        return distribution

    def changed(self, change: Callable[[Any], Any], reason: str) -> Self:
        """Return the prior with a change of each distribution, and the reason for it."""
        roles = ("every", "general", "target")
        given = {role: change(own) for role in roles if (own := getattr(self, role)) is not None}
        return self.model_copy(update=given | {"reason": reason})


class Correlation(Strict):
    """How two parameters go together from study to study, on the scales where their priors are normal."""

    # Two parameters. On one validation set ``name`` goes with ``name``, on all of them; ``name/general`` or
    # ``name/target`` is on that of one role alone.
    between: tuple[str, str]
    value: float = Field(gt=-1.0, lt=1.0)  # their correlation, -1 to 1
    reason: str = Field(min_length=1)  # why

    @property
    def ends(self) -> tuple[tuple[str, str | None], tuple[str, str | None]]:
        """Parameter and role of both; None where no role is named."""
        (first, second) = ((*end.split("/", 1), None)[:2] for end in self.between)
        return first, second  # type: ignore[return-value]


def correlation_matrix(
    labels: Sequence[tuple[str, str | None]], correlations: Sequence[Correlation]
) -> Floats:
    """Return the correlations of parameters, shape (labels, labels).

    A label is parameter and role, None where validation sets share it: those of different validation sets
    are independent whatever the correlations say.
    """
    matrix = np.eye(len(labels))
    for correlation in correlations:
        members = (
            [i for i, (name, own) in enumerate(labels) if name == end and role in (None, own)]
            for end, role in correlation.ends
        )
        for i, j in product(*members):
            roles = {labels[i][1], labels[j][1]} - {None}
            if i != j and len(roles) <= 1:
                matrix[i, j] = matrix[j, i] = correlation.value
    return matrix


def is_correlation(matrix: Floats) -> bool:
    """Return whether numbers can have all these correlations at once, and not only to rounding."""
    return bool(np.linalg.eigvalsh(matrix)[0] > LEAST_EIGENVALUE)


def prior_ends(prior: Distribution | None) -> tuple[float, float] | None:
    """Return the least and the greatest value that a prior allows, None where it sets no bounds."""
    match prior:
        case LogNormal(lower=float(lower), upper=float(upper)):
            return lower, upper
        case Fixed(value=value):
            return value, value
        case _:
            return None

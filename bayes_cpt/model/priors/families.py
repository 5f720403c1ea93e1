"""The families of priors: one class states all that is known of each.

Every family is a normal distribution on a scale of its own: the value, its log, or its logit; a lognormal
may be cut off at bounds. A class gives that scale, log density, quantiles, draws, and the PyMC variable.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from bayes_cpt.arrays import Floats
from bayes_cpt.model.priors.family import Family, rounded, scales


class Normal(Family):
    """``Normal(mean, sd)``."""

    PARAMETERS = ("mean", "sd")
    distribution: Literal["normal"]
    mean: float
    sd: float = Field(gt=0)

    @property
    def center(self) -> float:
        """The mean."""
        return self.mean

    @property
    def spread(self) -> float:
        """The standard deviation."""
        return self.sd

    @property
    def words(self) -> str:
        """As in ``Normal(3, 1.5)``."""
        return f"Normal({self.mean:g}, {self.sd:g})"

    def moved(self, center: float, spread: float) -> Self:
        """Return the normal distribution with this mean and sd."""
        return self.model_copy(update={"mean": rounded(center), "sd": rounded(spread)})

    @staticmethod
    def variable(name: str, priors: Sequence[Any], dims: str | None) -> Any:
        """Return ``pm.Normal``."""
        import pymc as pm

        center, spread = scales(priors, dims)
        return pm.Normal(name, center, spread, dims=dims)


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
    def center(self) -> float:
        """The log of the median."""
        return float(np.log(self.median))

    @property
    def spread(self) -> float:
        """The sd of the log."""
        return self.sigma

    @property
    def bounds(self) -> tuple[float, float]:
        """The bounds, 0 and infinity where there are none."""
        return self.lower or 0.0, self.upper or np.inf

    @property
    def words(self) -> str:
        """As in ``LogNormal(median 100, 1) in 10 to 10000``."""
        within = f" in {self.lower:g} to {self.upper:g}" if self.lower else ""
        return f"LogNormal(median {self.median:g}, {self.sigma:g}){within}"

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

    def moved(self, center: float, spread: float) -> Self:
        """Return the lognormal distribution of this median on the log scale."""
        median = float(np.exp(center))
        return self.model_copy(update={"median": rounded(median), "sigma": rounded(spread)})

    def draw(self, draws: int, generator: np.random.Generator) -> Floats:
        """Return independent draws, by inversion, so that bounds cost no rejections."""
        return self.quantiles(generator.uniform(size=draws))

    @staticmethod
    def variable(name: str, priors: Sequence[Any], dims: str | None) -> Any:
        """Return ``pm.LogNormal``, truncated where there are bounds."""
        import pymc as pm

        center, spread = scales(priors, dims)
        if all(prior.lower is None for prior in priors):
            return pm.LogNormal(name, center, spread, dims=dims)
        bounds = np.array([prior.bounds for prior in priors]).T
        lower, upper = bounds if dims else bounds[:, 0]
        unbounded = pm.LogNormal.dist(center, spread)
        return pm.Truncated(name, unbounded, lower=lower, upper=upper, dims=dims)

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

    def _mass_below_bounds(self, center: float, spread: float) -> tuple[float, float]:
        from scipy.special import ndtr

        if self.lower is None:
            return 0.0, 1.0
        low, high = ndtr((np.log(self.bounds) - center) / spread)
        return float(low), float(high)


class LogitNormal(Family):
    """A share between 0 and 1: its logit is Normal(logit median, sigma)."""

    PARAMETERS = ("median", "sigma")
    SUPPORT = (0.0, 1.0)
    distribution: Literal["logitnormal"]
    median: float = Field(gt=0, lt=1)
    sigma: float = Field(gt=0)

    @property
    def center(self) -> float:
        """The logit of the median."""
        return float(self.to_scale(self.median))

    @property
    def spread(self) -> float:
        """The sd of the logit."""
        return self.sigma

    @property
    def bounds(self) -> tuple[float, float]:
        """0 and 1."""
        return 0.0, 1.0

    @property
    def words(self) -> str:
        """As in ``LogitNormal(median 0.3, 1)``."""
        return f"LogitNormal(median {self.median:g}, {self.sigma:g})"

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

    def moved(self, center: float, spread: float) -> Self:
        """Return the logit-normal distribution of this median on the logit scale."""
        median = float(self.from_scale(center))
        return self.model_copy(update={"median": rounded(median), "sigma": rounded(spread)})

    @staticmethod
    def variable(name: str, priors: Sequence[Any], dims: str | None) -> Any:
        """Return ``pm.LogitNormal``."""
        import pymc as pm

        center, spread = scales(priors, dims)
        # PyMC 6.4 samples it on 0...1 as it stands, with walls, unless told to use logits.
        logits = pm.distributions.transforms.logodds
        return pm.LogitNormal(name, center, spread, dims=dims, transform=logits)


class Fixed(Family):
    """A known value, not sampled."""

    distribution: Literal["fixed"]
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

    @staticmethod
    def variable(name: str, priors: Sequence[Any], dims: str | None) -> Any:
        """Return a constant."""
        import pytensor.tensor as pt

        center, _ = scales(priors, dims)
        return pt.as_tensor_variable(center)


type Distribution = Annotated[
    Normal | LogNormal | LogitNormal | Fixed, Field(discriminator="distribution")
]


def is_positive(prior: Distribution) -> bool:
    """Return whether a prior allows nothing but values above 0.

    Parameters
    ----------
    prior : Distribution
    """
    return prior.value > 0.0 if isinstance(prior, Fixed) else not isinstance(prior, Normal)

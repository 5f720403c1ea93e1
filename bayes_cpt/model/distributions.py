"""The distributions of a specification in closed form: quantiles, densities, and from an interval.

All three families are a normal distribution on a scale of their own (the value, its log, its logit);
a lognormal may be cut off at bounds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayes_cpt.model.prior_tables import Distribution, Fixed, LogitNormal, LogNormal, Normal

type Floats = NDArray[np.float64]

# Digits kept of what is worked out: more than any statement holds, few enough to read.
DIGITS = 4


@dataclass(frozen=True)
class Scale:
    """The scale on which a family is normal.

    Parameters
    ----------
    there, back : callable
        Value to scale and back.
    log_slope : callable
        Log of the derivative of `there` at a value.
    """

    there: Callable[[Any], Any]
    back: Callable[[Any], Any]
    log_slope: Callable[[Any], Any]


_PLAIN = Scale(lambda x: np.asarray(x, float), lambda z: z, np.zeros_like)
_LOG = Scale(np.log, np.exp, lambda x: -np.log(x))
_LOGIT = Scale(
    lambda x: np.log(x) - np.log1p(-x),
    lambda z: 1.0 / (1.0 + np.exp(-z)),
    lambda x: -np.log(x) - np.log1p(-x),
)


def scale_of(prior: Distribution) -> Scale:
    """Return the scale on which a distribution is normal.

    Examples
    --------
    >>> prior = LogNormal(distribution="lognormal", median=2.0, sigma=1.0)
    >>> round(float(scale_of(prior).there(2.0)), 3)
    0.693
    """
    match prior:
        case LogNormal():
            return _LOG
        case LogitNormal():
            return _LOGIT
        case Normal() | Fixed():
            return _PLAIN


def center_and_spread(prior: Distribution) -> tuple[float, float]:
    """Return mean and sd on the distribution's own scale; the sd of a fixed value is 0."""
    match prior:
        case Normal(mean=mean, sd=sd):
            return mean, sd
        case LogNormal(median=median, sigma=sigma) | LogitNormal(median=median, sigma=sigma):
            return float(scale_of(prior).there(median)), sigma
        case Fixed(value=value):
            return value, 0.0


def with_center_and_spread(prior: Distribution, center: float, spread: float) -> Distribution:
    """Return the same family (and bounds) with another mean and sd on its own scale."""
    match prior:
        case Normal():
            return prior.model_copy(update={"mean": _rounded(center), "sd": _rounded(spread)})
        case LogNormal() | LogitNormal():
            median = float(scale_of(prior).back(center))
            return prior.model_copy(update={"median": _rounded(median), "sigma": _rounded(spread)})
        case Fixed():
            return prior


def quantiles(prior: Distribution, probabilities: ArrayLike) -> Floats:
    """Return the values below which a prior has these probabilities, shape of `probabilities`.

    Examples
    --------
    >>> quantiles(Normal(distribution="normal", mean=3.0, sd=1.5), [0.05, 0.5, 0.95]).round(2).tolist()
    [0.53, 3.0, 5.47]
    """
    return moved_quantiles(prior, *center_and_spread(prior), probabilities)


def moved_quantiles(
    prior: Distribution, center: float, spread: float, probabilities: ArrayLike
) -> Floats:
    """Return the quantiles that a prior's family (and bounds) has at another mean and sd on its scale."""
    from scipy.special import ndtri

    low, high = _mass_below_bounds(prior, center, spread)
    inside = low + (high - low) * np.asarray(probabilities, dtype=np.float64)
    return np.asarray(scale_of(prior).back(center + spread * ndtri(inside)))


def log_density(prior: Distribution, values: ArrayLike) -> Floats:
    """Return the log density of a prior at values, shape of `values`; 0 for a fixed value.

    The density is of the value itself, not of its log or logit.

    Examples
    --------
    >>> round(float(log_density(Normal(distribution="normal", mean=0.0, sd=1.0), 0.0)), 4)
    -0.9189
    """
    value = np.asarray(values, dtype=np.float64)
    if isinstance(prior, Fixed):
        return np.zeros(value.shape)
    scale = scale_of(prior)
    center, spread = center_and_spread(prior)
    standard = (scale.there(value) - center) / spread
    low, high = _mass_below_bounds(prior, center, spread)
    found = -0.5 * standard**2 - np.log(spread * np.sqrt(2.0 * np.pi)) + scale.log_slope(value)
    found = found - np.log(high - low)
    if isinstance(prior, LogNormal) and prior.lower is not None and prior.upper is not None:
        found = np.where((value < prior.lower) | (value > prior.upper), -np.inf, found)
    return np.asarray(found)


def from_interval(prior: Distribution, lower: float, upper: float, mass: float) -> Distribution:
    """Return the member of a prior's family whose central interval is the one stated.

    Parameters
    ----------
    prior : Distribution
        Gives the family, and its bounds where it has them.
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
    >>> family = LogNormal(distribution="lognormal", median=1.0, sigma=1.0)
    >>> from_interval(family, 0.1, 0.4, 0.9).median
    0.2
    """
    if isinstance(prior, Fixed):
        raise ValueError("it is fixed")
    if not lower < upper:
        raise ValueError(f"{lower:g} to {upper:g} is no interval")
    bounds = _bounds(prior)
    if lower <= bounds[0] or upper >= bounds[1]:
        raise ValueError(f"it lies between {bounds[0]:g} and {bounds[1]:g}")
    ends = scale_of(prior).there(np.array([lower, upper]))
    center = float(ends.mean())
    spread = float(ends[1] - ends[0]) / (2.0 * NormalDist().inv_cdf(0.5 + mass / 2.0))
    if not (isinstance(prior, LogNormal) and prior.lower and prior.upper):
        return with_center_and_spread(prior, center, spread)
    return _within_bounds(prior, bounds, ends, mass, center, spread)


def _within_bounds(
    prior: Distribution,
    bounds: tuple[float, float],
    ends: Floats,
    mass: float,
    center: float,
    spread: float,
) -> Distribution:
    """Return the bounded lognormal with that interval: what lies outside changes its quantiles."""
    from scipy.optimize import root
    from scipy.special import ndtr

    edges = scale_of(prior).there(np.array(bounds))
    wanted = np.array([0.5 - mass / 2.0, 0.5 + mass / 2.0])

    def missed(place: Floats) -> Floats:
        sd = np.exp(place[1])
        low, high = ndtr((edges - place[0]) / sd)
        return np.asarray((ndtr((ends - place[0]) / sd) - low) / (high - low) - wanted)

    # Where nothing is left between the bounds the search has gone astray, and says so itself.
    with np.errstate(invalid="ignore", divide="ignore"):
        found = root(missed, [center, np.log(spread)])
    # Outside its bounds a specification takes no median.
    if not found.success or not edges[0] < found.x[0] < edges[1]:
        raise ValueError(f"no lognormal between {bounds[0]:g} and {bounds[1]:g} has that interval")
    return with_center_and_spread(prior, float(found.x[0]), float(np.exp(found.x[1])))


def words(prior: Distribution) -> str:
    """Return a distribution as it is written in tables.

    Examples
    --------
    >>> words(Normal(distribution="normal", mean=3.0, sd=1.5))
    'Normal(3, 1.5)'
    """
    match prior:
        case Normal(mean=mean, sd=sd):
            return f"Normal({mean:g}, {sd:g})"
        case LogitNormal(median=median, sigma=sigma):
            return f"LogitNormal(median {median:g}, {sigma:g})"
        case LogNormal(median=median, sigma=sigma, lower=lower, upper=upper):
            within = f" in {lower:g} to {upper:g}" if lower else ""
            return f"LogNormal(median {median:g}, {sigma:g}){within}"
        case Fixed(value=value):
            return f"fixed at {value:g}"


def _bounds(prior: Distribution) -> tuple[float, float]:
    """Return what the values of a distribution lie between."""
    match prior:
        case LogNormal(lower=lower, upper=upper):
            return lower or 0.0, upper or np.inf
        case LogitNormal():
            return 0.0, 1.0
        case _:
            return -np.inf, np.inf


def _mass_below_bounds(prior: Distribution, center: float, spread: float) -> tuple[float, float]:
    """Return the mass below each bound that the distribution would have without bounds."""
    from scipy.special import ndtr

    if not isinstance(prior, LogNormal) or prior.lower is None or prior.upper is None:
        return 0.0, 1.0
    low, high = ndtr((np.log([prior.lower, prior.upper]) - center) / spread)
    return float(low), float(high)


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")

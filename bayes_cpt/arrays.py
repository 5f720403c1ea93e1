"""What annotations call the arrays that the package works with, and what is said of draws."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayes_cpt.checks import check_interval

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]


def central(
    draws: ArrayLike, interval: float, name: str = "", method: str = "linear"
) -> dict[str, Floats]:
    """Return medians and ends of central intervals of draws, which come last, as columns of a table.

    Examples
    --------
    >>> {name: float(value) for name, value in central([1.0, 2.0, 3.0], 0.5, "loss").items()}
    {'loss': 2.0, 'loss_lower': 1.5, 'loss_upper': 2.5}
    """
    check_interval(interval)
    names = [f"{name}_{end}" for end in ("lower", "upper")] if name else ["lower", "upper"]
    marks = [0.5, 0.5 - interval / 2, 0.5 + interval / 2]
    values = np.quantile(np.asarray(draws), marks, axis=-1, method=method)  # type: ignore[call-overload]
    return dict(zip([name or "median", *names], values, strict=True))


# Of bands and estimates.
SUMMARY = ("mean", "median", "sd", "lower", "upper")


def summary(draws: Floats, interval: float) -> dict[str, Floats]:
    """Return `SUMMARY` of draws, which come last: the ends are those of the central interval."""
    found = {"mean": draws.mean(axis=-1), "sd": draws.std(axis=-1, ddof=1)}
    found |= central(draws, interval)
    return {name: found[name] for name in SUMMARY}


def chance(probability: float) -> str:
    """Return a probability with as many digits as some hundred draws give it.

    Examples
    --------
    >>> chance(0.123), chance(0.0), chance(1.0)
    ('12 %', 'under 1 %', 'over 99 %')
    """
    if probability < 0.01:
        return "under 1 %"
    return "over 99 %" if probability > 0.99 else f"{100 * probability:.0f} %"

"""The misfit along a curve: an autoregression at knots, evenly spread in the logarithm of the step."""

from typing import Any

import numpy as np

# Knots of the misfit per e-fold of steps. Between knots it is straight: with few, the bends of a PT curve,
# which is smooth to a thousandth of a nat, would be the law's alone to explain, and would fix its
# coefficients more firmly than the law deserves. CPT curves fluctuate more than they bend.
KNOTS_PT, KNOTS_CPT = 8, 1


def misfit_position(steps: Any, onset: float, per_fold: Any) -> Any:
    """Return where steps lie among the knots of the misfit, so many of them per e-fold.

    Parameters
    ----------
    steps : ndarray, shape (points,)
    onset : float
        Where the logarithm sets in, steps.
    per_fold : int, or ndarray of int, shape (points,)
    """
    return per_fold * np.log1p(np.asarray(steps, dtype=np.float64) / onset)


def misfit_walk(memory: float, per_fold: int) -> tuple[float, float]:
    """Return `carried` and `innovation` of `ResidualDesign`.

    Parameters
    ----------
    memory : float
        Share of the misfit that is carried over an e-fold of steps; 1 is a random walk. Over an e-fold the
        innovations of a misfit of size 1 add up to the variance 1.
    per_fold : int
        Knots per e-fold.
    """
    carried = memory ** (1.0 / per_fold)
    lags = carried ** (2.0 * np.arange(per_fold))
    return carried, float(1.0 / np.sqrt(lags.sum()))


def misfit_ramps(position: Any, knots: int, carried: Any) -> Any:
    """Return what unit innovations add at positions among the knots, shape (points, knots).

    Hats, which interpolate between the knots, of the autoregression's response.

    Parameters
    ----------
    position : ndarray, shape (points,)
        From `misfit_position`.
    knots : int
    carried : ndarray, shape (points,) or ()
        From one knot to the next.
    """
    lags = np.floor(position)[:, None] - np.arange(1, knots + 1)
    kept = np.asarray(carried, dtype=np.float64)[..., None]
    below = np.where(lags >= 0, kept ** np.maximum(lags, 0), 0.0)
    above = np.where(lags >= -1, kept ** np.maximum(lags + 1, 0), 0.0)
    share = (position - np.floor(position))[:, None]
    return (1.0 - share) * below + share * above


def misfit_height(position: Any, carried: Any) -> Any:
    """Return what interpolation between knots is stretched by, so that no variance is lost between them.

    A straight line between two knots varies less than what it joins. With the stretch the misfit has the
    variance of an Ornstein-Uhlenbeck process everywhere, as it has at the knots.

    Parameters
    ----------
    position : ndarray, shape (points,)
        From `misfit_position`.
    carried : ndarray, shape (points,) or ()
        From one knot to the next, 0 to 1.

    Returns
    -------
    ndarray, shape (points,)
        1 at the knots, and at the start.
    """
    position = np.asarray(position, dtype=np.float64)
    below, share = np.floor(position), position - np.floor(position)
    line = (1.0 - share + share * carried) ** 2 * _walked(below, carried) + share**2
    inside = share > 0
    ratio = _walked(position, carried) / np.where(inside, line, 1.0)
    return np.where(inside, np.sqrt(ratio), 1.0)


def _walked(position: Any, carried: Any) -> Any:
    """Return the variance after so many knots, or parts of them, where each adds the variance 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        fall = 2.0 * np.log(np.asarray(carried, dtype=np.float64))
        adding = np.expm1(position * fall) / np.expm1(fall)
    # A knot that keeps all adds up to a random walk; at the start there is nothing, whatever is kept.
    adding = np.where(fall == 0.0, position, adding)
    return np.where(position > 0, adding, 0.0)


def unit_ramps(steps: Any, onset: float, memory: float, per_fold: int = KNOTS_CPT) -> Any:
    """Return what innovations of a misfit of size 1 add after some steps, shape (points, knots).

    The sum of squares of a row is the variance there.

    Parameters
    ----------
    steps : ndarray, shape (points,)
    onset : float
        Where the logarithm sets in, steps.
    memory : float
        Share of the misfit that is carried over an e-fold of steps.
    per_fold : int
        Knots per e-fold.
    """
    carried, innovation = misfit_walk(memory, per_fold)
    position = misfit_position(steps, onset, per_fold)
    size = innovation * misfit_height(position, carried)
    return size[:, None] * misfit_ramps(position, knot_count(position), carried)


def misfit_variance(steps: Any, onset: float, memory: Any) -> Any:
    """Return the variance of a misfit of size 1 after some steps: ``(1 - m^2x)/(1 - m²)``, x in e-folds.

    It is the sum of squares of a row of `unit_ramps`, however many knots there are.

    Parameters
    ----------
    steps : ndarray, shape (points,)
    onset : float
        Where the logarithm sets in, steps.
    memory : float, or ndarray of shape (points,)
        Share of the misfit that is carried over an e-fold of steps.
    """
    return _walked(misfit_position(steps, onset, 1), memory)


def knots_beside(position: Any, carried: float, innovation: float) -> tuple[Any, Any, Any]:
    """Return `place`, `knot_carried` and `knot_innovation` of `ResidualDesign` for one curve.

    Parameters
    ----------
    position : ndarray, shape (points,)
        From `misfit_position`.
    carried, innovation : float
        From `misfit_walk`.
    """
    below = np.floor(position).astype(np.int64)
    beside = np.unique(np.r_[below, below + 1])
    beside = beside[beside > 0]
    apart = np.diff(beside, prepend=0)
    added = np.cumsum(carried ** (2.0 * np.arange(apart.max())))
    size = innovation * np.sqrt(added[apart - 1])
    link = carried**apart * np.r_[0.0, size[:-1]] / size
    return np.searchsorted(beside, below, side="right") + (position - below), link, size


def knot_count(position: Any) -> int:
    """Return how many knots lie below the last position, or at it.

    Parameters
    ----------
    position : ndarray, shape (points,)
    """
    return int(np.ceil(np.max(position)))

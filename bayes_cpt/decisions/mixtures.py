"""Risk measures of what a single run shows: of a mixture of normal distributions, one per posterior draw.

As `bayes_cpt.decisions.risk`, which is about the expected loss of each draw; here a run ends about it with
the draw's own standard deviation. Nothing is drawn: tails are as long as those of normal distributions.

Every function takes means and standard deviations of shape (draws, candidates), all draws equally
probable, and a level, and returns one number per candidate.
"""

from collections.abc import Callable

import numpy as np

from bayes_cpt.arrays import Floats

# Nats between two approximations that end a search for a root.
CLOSE = 1e-9
# Newton's steps are replaced by halvings where they leave the bracket: these alone would do.
STEPS = 60
# Smallest sd of a run that is taken for one.
SMALLEST = 1e-12


def quantile(means: Floats, sds: Floats, level: float) -> Floats:
    """Return the value at risk: a single run ends below it with probability `level`.

    The root of ``mean(Phi((q - means)/sds)) = level``.

    Parameters
    ----------
    means, sds : ndarray, shape (..., draws)
        Of a single run's loss in each draw, nats.
    level : float
        Between 0 and 1.

    Examples
    --------
    >>> losses = quantile(np.array([[1.0], [1.0]]), np.array([[2.0], [2.0]]), 0.975)
    >>> round(float(losses[0]), 4)
    4.9199
    """
    from scipy.special import ndtr, ndtri

    means, sds = _double(means, sds)
    # Between the least and the largest of the draws' own.
    quantiles = means + sds * ndtri(level)

    def above(value: Floats) -> tuple[Floats, Floats]:
        scaled = (value - means) / sds
        return ndtr(scaled).mean(axis=0) - level, (_density(scaled) / sds).mean(axis=0)

    return _root(above, quantiles.min(axis=0), quantiles.max(axis=0))


def cvar(means: Floats, sds: Floats, level: float) -> Floats:
    """Return the conditional value at risk: the mean loss of the worst ``1 - level`` of single runs.

    With q of `quantile` and z = (q - mean)/sd of a draw, ``E[L; L > q] = mean·(1 - Phi(z)) + sd·phi(z)``.

    Parameters
    ----------
    means, sds : ndarray, shape (..., draws)
        Of a single run's loss in each draw, nats.
    level : float
        Between 0 and 1: the mean is over the share ``1 - level``.
    """
    from scipy.special import ndtr

    at_risk = quantile(means, sds, level)
    means, sds = _double(means, sds)
    scaled = (at_risk - means) / sds
    excess = sds * _density(scaled) - (at_risk - means) * ndtr(-scaled)
    return np.asarray(at_risk + excess.mean(axis=0) / (1.0 - level))


def mean_plus_sd(means: Floats, sds: Floats, weight: float) -> Floats:
    """Return ``E[L] + weight·sd[L]`` of a single run.

    Parameters
    ----------
    means, sds : ndarray, shape (..., draws)
        Of a single run's loss in each draw, nats.
    weight : float
        How many standard deviations count.
    """
    means, sds = _double(means, sds)
    variance = means.var(axis=0) + (sds**2).mean(axis=0)
    return np.asarray(means.mean(axis=0) + weight * np.sqrt(variance))


def worst_run(means: Floats, sds: Floats, _: float = 0.0) -> Floats:
    """Return the median of the worst of one run in every draw; a normal loss has no largest value.

    The root of ``prod(Phi((q - means)/sds)) = 1/2``. Like the worst draw it grows with their number.

    Parameters
    ----------
    means, sds : ndarray, shape (..., draws)
        Of a single run's loss in each draw, nats.
    _ : float
        Not used: it stands where the other measures have a number.
    """
    from scipy.special import log_ndtr, ndtri

    means, sds = _double(means, sds)
    lowest = means.max(axis=0)
    highest = lowest + sds.max(axis=0) * ndtri(0.5 ** (1.0 / len(means)))

    def above(value: Floats) -> tuple[Floats, Floats]:
        scaled = (value - means) / sds
        each = log_ndtr(scaled)
        slope = (_density(scaled) * np.exp(-each) / sds).sum(axis=0)
        return each.sum(axis=0) - np.log(0.5), slope

    return _root(above, lowest, highest)


def _double(means: Floats, sds: Floats) -> tuple[Floats, Floats]:
    return means.astype(np.float64), np.maximum(sds.astype(np.float64), SMALLEST)


def _density(scaled: Floats) -> Floats:
    return np.asarray(np.exp(-0.5 * scaled**2) / np.sqrt(2.0 * np.pi))


def _root(function: Callable[[Floats], tuple[Floats, Floats]], low: Floats, high: Floats) -> Floats:
    """Return where rising functions are 0, by Newton's steps that stay in the bracket.

    Parameters
    ----------
    function : callable
        Returns values and slopes at places, shape (candidates,).
    low, high : ndarray, shape (candidates,)
        Where it is 0 or below, and 0 or above.
    """
    place = 0.5 * (low + high)
    for _ in range(STEPS):
        value, slope = function(place)
        low, high = np.where(value < 0, place, low), np.where(value < 0, high, place)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = place - value / slope
        inside = (step > low) & (step < high)
        following = np.where(inside, step, 0.5 * (low + high))
        moved = np.abs(following - place).max(initial=0.0)
        place = following
        if moved < CLOSE:
            break
    return np.asarray(place)


MEASURES = {"quantile": quantile, "cvar": cvar, "mean-sd": mean_plus_sd, "worst": worst_run}

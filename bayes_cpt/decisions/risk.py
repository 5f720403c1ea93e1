"""Risk measures: what many possible losses of a configuration come to, as one number.

Every function takes losses of shape (draws, candidates), one row per posterior draw, all draws equally
probable, and returns one number per candidate. Losses are minimised, so the *upper* tail is the bad one:
each measure of loss or regret is better where it is lower, each probability where it is higher.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from bayes_cpt.arrays import Floats

# A level such as 0.9 is not exact in binary: 0.9 of 1,000 draws are 900, not 901.
ROUNDING = 1e-9


def expected_loss(losses: Floats) -> Floats:
    """Return the mean over draws, ``E[L]``: neutral to risk.

    Parameters
    ----------
    losses : ndarray, shape (..., draws)
        nats/token.

    Examples
    --------
    >>> expected_loss(np.array([[1.0, 3.0], [2.0, 1.0]])).tolist()
    [1.5, 2.0]
    """
    return np.asarray(losses.mean(axis=0))


def quantile(losses: Floats, level: float) -> Floats:
    """Return the value at risk, ``min {x : P(L <= x) >= level}``; most draws stay below.

    Parameters
    ----------
    losses : ndarray, shape (draws, candidates)
    level : float
        Between 0 and 1; near 1 is careful.

    Returns
    -------
    ndarray, shape (candidates,)
        One of the draws, not interpolated between two.

    Raises
    ------
    ValueError
        If the level is not between 0 and 1.

    Examples
    --------
    >>> quantile(np.array([[1.0], [2.0], [3.0], [4.0]]), 0.75).tolist()
    [3.0]
    """
    _check_level(level)
    place = max(math.ceil(level * len(losses) - ROUNDING) - 1, 0)
    return np.asarray(np.partition(losses, place, axis=0)[place])


def cvar(losses: Floats, level: float) -> Floats:
    """Return the conditional value at risk: the mean of the worst ``1 - level`` of the draws.

    ``CVaR = VaR + E[max(L - VaR, 0)]/(1 - level)`` (Rockafellar and Uryasev 2000,
    doi:10.21314/JOR.2000.038), with VaR from `quantile`; the draw at the VaR counts with the part of its
    weight that lies in the tail.

    Parameters
    ----------
    losses : ndarray, shape (draws, candidates)
    level : float
        Between 0 and 1; near 1 is careful.

    Raises
    ------
    ValueError
        If the level is not between 0 and 1.

    Examples
    --------
    >>> cvar(np.array([[1.0], [2.0], [3.0], [4.0]]), 0.5).tolist()
    [3.5]
    """
    at_risk = quantile(losses, level)
    return np.asarray(at_risk + np.maximum(losses - at_risk, 0).mean(axis=0) / (1.0 - level))


def mean_plus_sd(losses: Floats, weight: float) -> Floats:
    """Return ``E[L] + weight·sd[L]``: a positive weight is careful, a negative one adventurous.

    The sd is that of the draws (divided by their number), 0 for a single draw.

    Parameters
    ----------
    losses : ndarray, shape (..., draws)
        nats/token.
    weight : float
        How many standard deviations count.
    """
    return np.asarray(losses.mean(axis=0) + weight * losses.std(axis=0))


def worst_draw(losses: Floats) -> Floats:
    """Return the largest loss of any draw, ``max L``; it grows with the number of draws.

    Parameters
    ----------
    losses : ndarray, shape (..., draws)
        nats/token.
    """
    return np.asarray(losses.max(axis=0))


def best_losses(losses: Floats) -> Floats:
    """Return each draw's lowest loss over the candidates, shape (draws,): what regret is counted from.

    Parameters
    ----------
    losses : ndarray, shape (candidates, draws)
        nats/token.
    """
    return np.asarray(losses.min(axis=1))


def expected_regret(losses: Floats, best: Floats | None = None) -> Floats:
    """Return ``E[L - min L]``: what not knowing the law costs on average.

    Parameters
    ----------
    losses : ndarray, shape (draws, candidates)
    best : ndarray, shape (draws,), optional
        Each draw's lowest loss over *all* candidates, where `losses` holds only some of them.

    Returns
    -------
    ndarray, shape (candidates,)
        At least 0. Its order is that of `expected_loss`; its minimum is the expected value of perfect
        information.

    Examples
    --------
    >>> expected_regret(np.array([[1.0, 3.0], [2.0, 1.0]])).tolist()
    [0.5, 1.0]
    """
    return np.asarray(_regret(losses, best).mean(axis=0))


def maximum_regret(losses: Floats, best: Floats | None = None) -> Floats:
    """Return ``max (L - min L)`` over draws (Savage's minimax regret); `best` as in `expected_regret`.

    Parameters
    ----------
    losses : ndarray, shape (candidates, draws)
        nats/token.
    best : ndarray, shape (draws,), optional
        Each draw's lowest loss over more candidates than these.
    """
    return np.asarray(_regret(losses, best).max(axis=0))


def probability_best(losses: Floats, best: Floats | None = None, tolerance: float = 0.0) -> Floats:
    """Return ``P(L <= min L + tolerance)``: how often a candidate is the best, or as good as it.

    Parameters
    ----------
    losses : ndarray, shape (draws, candidates)
    best : ndarray, shape (draws,), optional
        As in `expected_regret`.
    tolerance : float
        In nats. With 0 it is P(best), which falls towards 0 as candidates lie closer together.

    Examples
    --------
    >>> probability_best(np.array([[1.0, 3.0], [2.0, 1.0], [0.0, 1.0], [5.0, 6.0]])).tolist()
    [0.75, 0.25]
    """
    return np.asarray((_regret(losses, best) <= tolerance).mean(axis=0))


def probability_below(losses: Floats, reference: ArrayLike, noise: Floats | None = None) -> Floats:
    """Return ``P(L + noise·z < reference)``, z standard normal: how often a reference is beaten.

    The normal part is integrated, not drawn: without noise the probability is a share of draws, with noise
    the mean of normal probabilities. ``1 - probability_below(losses, threshold)`` is the probability of
    being above a threshold (but for ties).

    Parameters
    ----------
    losses : ndarray, shape (draws, candidates)
    reference : float or ndarray, shape (draws,)
        A measured loss, or the loss of another configuration in each draw.
    noise : ndarray, shape (draws, candidates), optional
        Sd of what moves a single run about its expected loss.

    Examples
    --------
    >>> probability_below(np.array([[1.0, 3.0], [2.0, 1.0]]), 2.0).tolist()
    [0.5, 0.5]
    """
    from scipy.special import ndtr

    margin = np.reshape(reference, (-1, 1)) - losses
    if noise is None:
        return np.asarray((margin > 0).mean(axis=0))
    return np.asarray(ndtr(margin / noise).mean(axis=0))


def _regret(losses: Floats, best: Floats | None) -> Floats:
    return np.asarray(losses - (best_losses(losses) if best is None else best)[:, None])


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level is {level}: give a share between 0 and 1, as in 0.9")

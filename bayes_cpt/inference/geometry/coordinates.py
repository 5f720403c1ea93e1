"""The coordinates of a sampler: paces of annealing as mean and ratio, deviations with straight ridges.

What an anneal has gained tells the mean pace, (1 - share)·memory + share·slow_memory. It tells little of
each pace alone, and nothing of one whose share is small: over the paces themselves the posterior has two
arms that narrow where they meet. Mean and ratio are nearly independent of each other there. The logarithms
change by a shear, so that densities stay what they are. Where one of the three is fixed, nothing changes.

A deviation in sds of a spread acts as their product. Where the losses tell that product, the posterior over
the two is a thin curved ridge, and straight over product and spread; where they do not, the product's range
changes with the spread, and deviation and spread are independent. Where they tell but a sum of the product
and of other numbers, the ridge is straight over the deviation and such sums. What is taken how is for
`bayes_cpt.inference.geometry.whitening.straightened` to say.

Levels of runs are known as far as the runs' offsets from the law are small, and the spread of these is
sampled, too: over its logarithm and all that tells levels the posterior is a funnel. Stretched along its
directions by what its width grows by, it is a tube (`bayes_cpt.inference.geometry.funnels`).
"""

import math

import numpy as np

from bayes_cpt.jit import numba


@numba.njit(cache=True, error_model="numpy")
def _sampled(paces, size):  # type: ignore[no-untyped-def]
    return 0 <= paces[0] < size and 0 <= paces[1] < size and 0 <= paces[2] < size


@numba.njit(cache=True, error_model="numpy")
def _share(position, paces):  # type: ignore[no-untyped-def]
    return 1.0 / (1.0 + math.exp(-position[paces[2]]))


@numba.njit(cache=True, error_model="numpy")
def _log_mean(share, ratio):  # type: ignore[no-untyped-def]
    """Return the logarithm of the mean of 1 and exp(ratio)."""
    if ratio > 0.0:
        return ratio + math.log((1.0 - share) * math.exp(-ratio) + share)
    return math.log(1.0 - share + share * math.exp(ratio))


@numba.njit(cache=True, error_model="numpy")
def separate_paces(position, paces, offset):  # type: ignore[no-untyped-def]
    """Turn mean and ratio into the two paces, in place.

    Parameters
    ----------
    position : ndarray, shape (dimensions,)
        Unconstrained values, but for the mean in place of `memory` and the ratio in place of `slow_memory`.
    paces : ndarray of int, shape (3,)
        Where those of `bayes_cpt.model.law_table.PACES` stand: -1 or past the end if not sampled.
    offset : float
        Unconstrained slow memory less unconstrained memory where the two are equal.
    """
    if _sampled(paces, position.size):
        ratio = position[paces[1]]
        position[paces[0]] -= _log_mean(_share(position, paces), ratio)
        position[paces[1]] = position[paces[0]] + ratio + offset


@numba.njit(cache=True, error_model="numpy")
def join_paces(position, paces, offset):  # type: ignore[no-untyped-def]
    """Turn the two paces into mean and ratio, in place: what `separate_paces` undoes.

    Parameters
    ----------
    position : ndarray, shape (dimensions,)
        Unconstrained values of all sampled numbers.
    paces : ndarray of int, shape (3,)
        Where those of `bayes_cpt.model.law_table.PACES` stand in it, -1 where they are not sampled.
    offset : float
        Unconstrained slow memory less unconstrained memory where the two are equal.
    """
    if _sampled(paces, position.size):
        ratio = position[paces[1]] - position[paces[0]] - offset
        position[paces[0]] += _log_mean(_share(position, paces), ratio)
        position[paces[1]] = ratio


@numba.njit(cache=True, error_model="numpy")
def join_slopes(slopes, position, paces, offset):  # type: ignore[no-untyped-def]
    """Turn slopes by the two paces into slopes by mean and ratio, in place.

    Parameters
    ----------
    slopes, position : ndarray, shape (dimensions,)
        The slopes and where they were taken, with the paces apart.
    paces, offset
        As in `separate_paces`.
    """
    if not _sampled(paces, position.size):
        return
    share = _share(position, paces)
    ratio = position[paces[1]] - position[paces[0]] - offset
    both = slopes[paces[0]] + slopes[paces[1]]
    mean = _log_mean(share, ratio)
    slow = share * math.exp(ratio - mean)
    fast = share * math.exp(-mean)
    slopes[paces[0]] = both
    slopes[paces[1]] -= both * slow
    slopes[paces[2]] -= both * (1.0 - share) * (slow - fast)


@numba.njit(cache=True, error_model="numpy")
def separate_spreads(position, centred, levels):  # type: ignore[no-untyped-def]
    """Turn products with a spread into deviations, in place, and return the log of what volumes change by.

    Parameters
    ----------
    position : ndarray, shape (dimensions,)
        Unconstrained values, but for products in place of the deviations.
    centred : ndarray of int, shape (deviations, 2)
        Where each deviation stands, and the logarithm of its spread.
    levels : ndarray, shape (deviations,)
        Logarithm of the spread at which product and deviation are the same number.
    """
    volume = 0.0
    for k in range(levels.size):
        change = levels[k] - position[centred[k, 1]]
        position[centred[k, 0]] *= math.exp(change)
        volume += change
    return volume


@numba.njit(cache=True, error_model="numpy")
def join_spread_slopes(slopes, position, centred, levels):  # type: ignore[no-untyped-def]
    """Turn slopes by deviations and spreads into those by products and spreads, in place.

    The slope of what volumes change by is added.

    Parameters
    ----------
    slopes, position : ndarray, shape (dimensions,)
        The slopes and where they were taken, with deviations.
    centred, levels
        As in `separate_spreads`.
    """
    for k in range(levels.size):
        deviation, spread = centred[k]
        slopes[spread] -= slopes[deviation] * position[deviation] + 1.0
        slopes[deviation] *= math.exp(levels[k] - position[spread])


@numba.njit(cache=True, error_model="numpy")
def follow_ridges(position, ridges, moves):  # type: ignore[no-untyped-def]
    """Move numbers along with products of deviation and spread, so that losses stay, in place.

    Volumes stay what they are.

    Parameters
    ----------
    position : ndarray, shape (dimensions,)
        As the sampler has it.
    ridges : ndarray of int, shape (ridges, 2)
        Where each deviation stands, and the logarithm of its spread.
    moves : ndarray, shape (dimensions, ridges)
        What each number moves by where the product grows by 1: 0 for deviations and spreads.
    """
    for k in range(ridges.shape[0]):
        product = position[ridges[k, 0]] * math.exp(position[ridges[k, 1]])
        for a in range(position.size):
            position[a] += moves[a, k] * product


@numba.njit(cache=True, error_model="numpy")
def join_ridge_slopes(slopes, position, ridges, moves):  # type: ignore[no-untyped-def]
    """Turn slopes by all numbers into those by what the sampler has, in place.

    Parameters
    ----------
    slopes, position : ndarray, shape (dimensions,)
        The slopes and where they were taken.
    ridges, moves
        As in `follow_ridges`.
    """
    for k in range(ridges.shape[0]):
        deviation, spread = ridges[k]
        slope = 0.0
        for a in range(slopes.size):
            slope += moves[a, k] * slopes[a]
        slope *= math.exp(position[spread])
        slopes[deviation] += slope
        slopes[spread] += slope * position[deviation]


@numba.njit(cache=True, error_model="numpy")
def _log_width(change, floor):  # type: ignore[no-untyped-def]
    """Return by what a funnel's width grows with the log of its spread, and the slope of that."""
    spread = math.exp(2.0 * change)
    return 0.5 * math.log((floor + spread) / (floor + 1.0)), spread / (floor + spread)


@numba.njit(cache=True, error_model="numpy")
def _along(values, directions, k):  # type: ignore[no-untyped-def]
    total = 0.0
    for a in range(values.size):
        total += directions[k, a] * values[a]
    return total


@numba.njit(cache=True, error_model="numpy")
def open_funnels(position, funnels, directions, readings, widths):  # type: ignore[no-untyped-def]
    """Stretch numbers along the directions of funnels, in place, and return the log of the volume's change.

    Parameters
    ----------
    position : ndarray, shape (dimensions,)
        Unconstrained values, but as far along each direction at every spread.
    funnels : ndarray of int, shape (funnels,)
        Where the logarithm of each funnel's spread stands.
    directions, readings : ndarray, shape (funnels, dimensions)
        How numbers move along each funnel, and what tells from them how far: the reading of a funnel's own
        direction is 1, and those of others with the same spread are 0. Both are 0 for spreads.
    widths : ndarray, shape (funnels, 3)
        The reading about which a funnel is stretched, the log spread at which nothing is stretched, and the
        variance that does not come of the spread, over that which does there.
    """
    volume = 0.0
    for k in range(funnels.size):
        width = _log_width(position[funnels[k]] - widths[k, 1], widths[k, 2])[0]
        far = (_along(position, readings, k) - widths[k, 0]) * (math.exp(width) - 1.0)
        for a in range(position.size):
            position[a] += directions[k, a] * far
        volume += width
    return volume


@numba.njit(cache=True, error_model="numpy")
def join_funnel_slopes(slopes, position, funnels, directions, readings, widths):  # type: ignore[no-untyped-def]
    """Turn slopes by what the law has into those by what the sampler has, in place; positions, too.

    The slope of what volumes change by is added.

    Parameters
    ----------
    slopes, position : ndarray, shape (dimensions,)
        The slopes and where they were taken, stretched.
    funnels, directions, readings, widths
        As in `open_funnels`.
    """
    for k in range(funnels.size - 1, -1, -1):
        width, growth = _log_width(position[funnels[k]] - widths[k, 1], widths[k, 2])
        stretch = math.exp(width)
        far = _along(position, readings, k) - widths[k, 0]
        slope = _along(slopes, directions, k)
        slopes[funnels[k]] += (slope * far + 1.0) * growth
        for a in range(position.size):
            position[a] -= directions[k, a] * far * (1.0 - 1.0 / stretch)
            slopes[a] += readings[k, a] * slope * (stretch - 1.0)


@numba.njit(cache=True, error_model="numpy")
def turn(values, turned, turns):  # type: ignore[no-untyped-def]
    """Turn some of the numbers among each other, in place.

    Parameters
    ----------
    values : ndarray, shape (dimensions,)
        Positions, or slopes.
    turned : ndarray of int, shape (deviations,)
        Where these numbers stand.
    turns : ndarray, shape (deviations, deviations)
        Orthogonal; its transpose turns back.
    """
    before = np.empty(turned.size)
    for a in range(turned.size):
        before[a] = values[turned[a]]
    for a in range(turned.size):
        values[turned[a]] = 0.0
        for b in range(turned.size):
            values[turned[a]] += turns[a, b] * before[b]


# All of them, each before those that call it.
COMPILED = (
    _sampled,
    _share,
    _log_mean,
    separate_paces,
    join_paces,
    join_slopes,
    separate_spreads,
    join_spread_slopes,
    follow_ridges,
    join_ridge_slopes,
    _log_width,
    _along,
    open_funnels,
    join_funnel_slopes,
    turn,
)

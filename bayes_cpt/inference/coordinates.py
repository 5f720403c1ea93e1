"""From white coordinates to the values of a law, and slopes back, in loops that Numba compiles.

``position = center + factor·bent(white)`` are numbers on the scale on which each prior is normal; of a
bounded log-normal the logit of where it lies between its bounds. What `bent` does is said in
`bayes_cpt.inference.metric`.

Runs at two replay ratios, of shares x < y, tell delta and k only together. With ``c(x, y)``, which is
``log[h(y)/h(x)]/(y - x)`` at k = 0, and the middle share m, ``k + c(x, y)`` stands for k, and what is left
of the shift at m for its size, ``log(size) - (1 - m)·(k + c(m, 1))``, the logit of its share for the log.
"""

import math

import numba
import numpy as np

from bayes_cpt.laws.recursions import COMPILED
from bayes_cpt.laws.transfer import BEND

# Of so many coordinates, the widest, bends have products; of the others themselves alone.
WIDE = 20
# How a number is sampled, and the columns of the table of priors before those of the excess precision.
NORMAL, LOG_NORMAL, LOGIT_NORMAL, BOUNDED = range(4)
VALUE, KIND, CENTER, SPREAD, LOWER, UPPER, UNIT, DELTA, DILUTION, LEAST, MOST, TIMES, EXCESS = (
    range(13)
)


@numba.njit(**COMPILED)
def slopes_in_white(white, given, found, by_values):  # type: ignore[no-untyped-def]
    """Return slopes by white coordinates: of the priors' log density, and of what has some by the values.

    ``found`` is what is `evaluated` there, of the same tables.
    """
    size = white.size
    metric, bends, priors, _, _ = given
    _, values, slopes, gradient = found
    for a in range(size):
        by_value = by_values[int(priors[a, VALUE])]
        gradient[a] = gradient[a] + by_value * slopes[a]
        unit = int(priors[a, UNIT])
        if unit >= 0:
            gradient[unit] -= by_value * values[int(priors[a, VALUE])] * slopes[a] * slopes[unit]
    for a in range(size):
        place = int(priors[a, DELTA])
        if place >= 0:
            own, dilution = gradient[a] * priors[a, TIMES], int(priors[a, DILUTION])
            delta = values[int(priors[place, VALUE])]
            gradient[place] += own * contrast(delta, priors[a])[1]
            if dilution >= 0:
                gradient[dilution] += own
    by_bent = np.zeros(size)
    for a in range(size):
        for b in range(size):
            by_bent[b] += gradient[a] * metric[a, 1 + b]
    return _slopes_before_bends(by_bent, _bent(white, bends), bends)


@numba.njit(**COMPILED)
def _bent(white, bends):  # type: ignore[no-untyped-def]
    """Return 1 and every bent coordinate: the white one, scaled, and a polynomial of those before it."""
    bent = np.ones(white.size + 1)
    for t in range(white.size):
        bent[t + 1] = white[t]
        if bends.shape[1]:
            bent[t + 1] *= bends[t, 0]
            pair = 1
            for j in range(t + 1):
                along = 0.0
                for i in range(j + 1 if j <= WIDE else 1):
                    along += bends[t, pair] * bent[i]
                    pair += 1
                bent[t + 1] += along * bent[j]
    return bent


@numba.njit(**COMPILED)
def _slopes_before_bends(slopes, bent, bends):  # type: ignore[no-untyped-def]
    """Return slopes by white coordinates, given those by bent ones."""
    if bends.shape[1] == 0:
        return slopes
    by_bent, found = np.zeros(bent.size), np.empty(slopes.size)
    # Loops: what adds or multiplies arrays takes two seconds more to compile.
    for t in range(slopes.size):
        by_bent[t + 1] = slopes[t]
    for t in range(slopes.size - 1, -1, -1):
        own, pair = by_bent[t + 1], 1
        for j in range(t + 1):
            for i in range(j + 1 if j <= WIDE else 1):
                by_bent[j] += own * bends[t, pair] * bent[i]
                by_bent[i] += own * bends[t, pair] * bent[j]
                pair += 1
    for t in range(slopes.size):
        found[t] = by_bent[t + 1] * bends[t, 0]
    return found


@numba.njit(**COMPILED)
def _position(white, metric, bends, priors):  # type: ignore[no-untyped-def]
    position, bent = metric[:, 0].copy(), _bent(white, bends)
    for a in range(white.size):
        for b in range(white.size):
            position[a] += metric[a, 1 + b] * bent[1 + b]
    for a in range(white.size - 1, -1, -1):
        place, dilution = int(priors[a, DELTA]), int(priors[a, DILUTION])
        if place >= 0:
            grown = contrast(position[place], priors[a])[0]
            position[a] += priors[a, TIMES] * (
                grown + (position[dilution] if dilution >= 0 else 0.0)
            )
    return position


@numba.njit(**COMPILED)
def contrast(delta, prior):  # type: ignore[no-untyped-def]
    """Return ``c`` of the module's notes between the shares of a row of priors, and its slope by delta."""
    least, most = math.log1p(BEND * prior[LEAST]), math.log1p(BEND * prior[MOST])
    if abs(delta) < 1e-6:
        ratio, slope = most / least, 0.5 * (least - most)
    else:
        ratio = math.expm1(-delta * most) / math.expm1(-delta * least)
        slope = most / math.expm1(delta * most) - least / math.expm1(delta * least)
    apart = prior[MOST] - prior[LEAST]
    return math.log(ratio) / apart, slope / apart


@numba.njit(**COMPILED)
def evaluated(white, given):  # type: ignore[no-untyped-def]
    """Return log density, values, the slope of each value by its position, and of the density by each.

    Parameters
    ----------
    white : ndarray, shape (numbers,)
    given : tuple of ndarray
        The metric, shape (numbers, 1 + numbers), says where white coordinates of 0 lie, and what a unit
        step of each does; bends, shape (numbers, 1 + pairs), or (0, 0) for none; priors, shape
        (numbers, EXCESS + numbers), of each sampled number its place among all values, how it is sampled,
        centre, spread and bounds of its prior, which number before it its position is in units of (-1 for
        none), how often ``k + c`` is added to it, with the places of delta and k (-1 for none) and the
        shares that c lies between, and what correlations add to the precision in sds of the priors;
        template, shape (values,), all values of the law, the fixed ones filled in; pools, shape
        (populations, members + 1), where what several targets, or batches, have of a parameter stands, and
        their spread.
    """
    size = white.size
    metric, bends, priors, template, pools = given
    position, values = _position(white, metric, bends, priors), template.copy()
    total = -0.5 * size * math.log(2.0 * math.pi)
    slope, gradient = np.empty(size), np.empty(size)
    standard, by_position = np.empty(size), np.empty(size)
    for j in range(size):
        kind, center, spread = priors[j, KIND], priors[j, CENTER], priors[j, SPREAD]
        value, slope[j] = position[j], 1.0
        if kind == LOG_NORMAL:
            value = math.exp(position[j])
            slope[j] = value
        elif kind != NORMAL:
            value = 1.0 / (1.0 + math.exp(-position[j]))
            slope[j] = value * (1.0 - value)
        unit = int(priors[j, UNIT])
        if unit >= 0:
            slope[j] = 1.0 / values[int(priors[unit, VALUE])]
            value = position[j] * slope[j]
            total += math.log(slope[j])
            standard[j], by_position[j] = (value - center) / spread, slope[j] / spread
            gradient[unit] += (standard[j] * value / spread - 1.0) * slope[j] * slope[unit]
        else:
            standard[j], by_position[j] = (position[j] - center) / spread, 1.0 / spread
        gradient[j] = -standard[j] * by_position[j]
        if kind == BOUNDED:
            lower, upper, share = priors[j, LOWER], priors[j, UPPER], value
            value = lower + (upper - lower) * share
            slope[j] *= upper - lower
            standard[j] = (math.log(value) - center) / spread
            by_position[j] = slope[j] / (value * spread)
            high = math.erf((math.log(upper) - center) / spread * math.sqrt(0.5))
            low = math.erf((math.log(lower) - center) / spread * math.sqrt(0.5))
            total += math.log(slope[j] / (value * 0.5 * (high - low)))
            gradient[j] = 1.0 - 2.0 * share - (1.0 + standard[j] / spread) * slope[j] / value
        total -= 0.5 * standard[j] ** 2 + math.log(spread)
        values[int(priors[j, VALUE])] = value
    for j in range(size):
        along = 0.0
        for k in range(size):
            along += priors[j, EXCESS + k] * standard[k]
        total -= 0.5 * standard[j] * along
        gradient[j] -= along * by_position[j]
    members = pools.shape[1] - 1
    for p in range(pools.shape[0]):
        spread_place = int(pools[p, members])
        spread = values[int(priors[spread_place, VALUE])]
        shared, square = 0.0, 0.0
        for k in range(members):
            shared += standard[int(pools[p, k])]
            square += standard[int(pools[p, k])] ** 2
        added, pull, by_spread = add_alikeness(members, shared, square, spread)
        total += added
        gradient[spread_place] += by_spread * slope[spread_place]
        for k in range(members):
            j = int(pools[p, k])
            by_standard = standard[j] * (1.0 - 1.0 / spread**2) + pull * shared
            gradient[j] += by_standard * by_position[j]
    return total, values, slope, gradient


@numba.njit(**COMPILED)
def add_alikeness(count, total, square, spread):  # type: ignore[no-untyped-def]
    """Return `log_alikeness` of a population, its pull to the total, its slope by the spread."""
    separate = spread * spread
    shared = separate + count * (1.0 - separate)
    pull = (1.0 - separate) / (separate * shared)
    value = -0.5 * ((count - 1) * math.log(separate) + math.log(shared))
    value -= 0.5 * (square / separate - pull * total**2 - square)
    pull_by_separate = (
        -(separate * shared + (1.0 - separate) * (shared - (count - 1) * separate))
        / (separate * shared) ** 2
    )
    by_separate = -0.5 * (count - 1) * (1.0 / separate - 1.0 / shared)
    by_separate += 0.5 * (square / separate**2 + pull_by_separate * total**2)
    return value, pull, 2.0 * spread * by_separate

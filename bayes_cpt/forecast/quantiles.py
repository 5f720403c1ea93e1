"""Quantiles of many draws, point by point: what takes longest of large forecasts."""

import numpy as np

from bayes_cpt.jit import numba

# Bins that draws are sorted into: those about a quantile hold so few that sorting them costs little.
BINS = 512


# Without these the loop for the least and the largest is no vector instruction.
FASTMATH = {"nnan", "nsz"}
# Draws that are no further apart than this are alike.
ALIKE = 1e-300


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=FASTMATH)
def fill_quantiles(values, fractions, found):  # type: ignore[no-untyped-def]
    """Fill in quantiles of each row, as `numpy.quantile` interpolates them.

    Draws are counted in even bins; only those of the bins that a quantile lies in are sorted.

    Parameters
    ----------
    values : ndarray, shape (points, draws)
        Finite.
    fractions : ndarray, shape (quantiles,)
        Between 0 and 1.
    found : ndarray, shape (quantiles, points)
    """
    points, draws = values.shape
    bins, counts = np.empty(draws, dtype=np.int32), np.empty(BINS, dtype=np.int64)
    near = np.empty(draws)
    for i in range(points):
        row = values[i]
        low = high = row[0]
        for j in range(draws):
            low, high = min(low, row[j]), max(high, row[j])
        per_width = BINS / (high - low) if high - low > ALIKE else 0.0
        for j in range(draws):
            bins[j] = np.int32(min((row[j] - low) * per_width, BINS - 1.0))
        counts[:] = 0
        for j in range(draws):
            counts[bins[j]] += 1
        for k in range(fractions.size):
            place = fractions[k] * (draws - 1)
            rank = int(place)
            after = min(rank + 1, draws - 1)
            first, before = 0, 0
            while before + counts[first] <= rank:
                before += counts[first]
                first += 1
            last, through = first, before + counts[first]
            while through <= after:
                last += 1
                through += counts[last]
            size, bins_beyond = 0, last - first
            # Without a branch: a number that is not kept is written over by the next.
            for j in range(draws):
                near[size] = row[j]
                size += 1 if 0 <= bins[j] - first <= bins_beyond else 0
            kept = near[:size]
            kept.sort()
            lower, upper = kept[rank - before], kept[after - before]
            found[k, i] = lower + (place - rank) * (upper - lower)

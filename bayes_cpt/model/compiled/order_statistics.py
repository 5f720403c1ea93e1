"""Mean, standard deviation and quantiles of many draws at once, by Numba.

Quantiles are those of `numpy.quantile`, at a fraction of its cost: draws are counted in bins, and only
those in the bins that hold a wanted one are sorted.
"""

import numba
import numpy as np

BINS, LANES = 1024, 64
# Spread of draws of which BINS bins still have a width whose inverse is a number.
NARROWEST = np.float32(1e-30)
# Sums may be taken in any order.
ANY_ORDER = {"contract", "nsz", "nnan", "ninf", "reassoc"}


@numba.njit(cache=True, error_model="numpy", fastmath=ANY_ORDER, nogil=True)
def add_moments(means, variances, totals):  # type: ignore[no-untyped-def]
    """Add to totals: means, their squares, and the variances about them."""
    first, second, third = 0.0, 0.0, 0.0
    for j in range(means.size):
        mean = np.float64(means[j])
        first += mean
        second += mean * mean
        third += np.float64(variances[j])
    totals[0] += first
    totals[1] += second
    totals[2] += third


@numba.njit(cache=True, error_model="numpy", fastmath=ANY_ORDER, nogil=True)
def _ends(values):  # type: ignore[no-untyped-def]
    # Many ends at once, for the compiler makes vector instructions of loops and not of one running end.
    lows, highs = np.full(LANES, values[0]), np.full(LANES, values[0])
    whole = values.size // LANES * LANES
    for first in range(0, whole, LANES):
        for k in range(LANES):
            value = values[first + k]
            lows[k] = value if value < lows[k] else lows[k]
            highs[k] = value if value > highs[k] else highs[k]
    for j in range(whole, values.size):
        lows[0] = min(lows[0], values[j])
        highs[0] = max(highs[0], values[j])
    return lows.min(), highs.max()


@numba.njit(cache=True, error_model="numpy", fastmath=ANY_ORDER, nogil=True)
def _fill_bins(values, low, scale, bins):  # type: ignore[no-untyped-def]
    for j in range(values.size):
        bins[j] = np.int16((values[j] - low) * scale)


@numba.njit(cache=True, error_model="numpy", nogil=True)
def fill_quantiles(values, fractions, bins, counts, places, kept, found):  # type: ignore[no-untyped-def]
    """Fill in quantiles, interpolated between draws as `numpy.quantile` does.

    Parameters
    ----------
    values : ndarray of float32, shape (draws,)
    fractions : ndarray, shape (quantiles,)
        Each from 0 to 1.
    bins : ndarray of int16, shape (draws,)
        Room to work in, like the next three.
    counts : ndarray of int32, shape (BINS + 1,)
    places : ndarray of int32, shape (BINS,)
    kept : ndarray of float32, shape (2·quantiles, draws)
    found : ndarray, shape (quantiles,)
    """
    draws = values.size
    low, high = _ends(values)
    if not high > low:
        found[:] = low
        return
    # All fall into one bin where the width of bins is beyond single precision.
    scale = np.float32(0.0)
    if high - low > NARROWEST:
        scale = np.float32(BINS) / (high - low) * np.float32(1.0 - 1e-6)
    _fill_bins(values, low, scale, bins)
    counts[:] = 0
    for j in range(draws):
        counts[bins[j] + 1] += 1
    for b in range(BINS):
        counts[b + 1] += counts[b]
    # Each bin that holds a wanted draw gets a row of `kept`.
    places[:] = -1
    rows = 0
    for q in range(fractions.size):
        for rank in _neighbours(fractions[q], draws):
            b = _bin_of(rank, counts)
            if places[b] < 0:
                places[b] = rows
                rows += 1
    sizes = np.zeros(rows, dtype=np.int64)
    for j in range(draws):
        row = places[bins[j]]
        if row >= 0:
            kept[row, sizes[row]] = values[j]
            sizes[row] += 1
    for row in range(rows):
        kept[row, : sizes[row]].sort()
    for q in range(fractions.size):
        below, above = _neighbours(fractions[q], draws)
        lower, upper = _bin_of(below, counts), _bin_of(above, counts)
        start = kept[places[lower], below - counts[lower]]
        end = kept[places[upper], above - counts[upper]]
        share = fractions[q] * (draws - 1) - below
        found[q] = start + share * (end - start)


@numba.njit(cache=True, error_model="numpy", nogil=True)
def _neighbours(fraction, draws):  # type: ignore[no-untyped-def]
    below = min(int(fraction * (draws - 1)), draws - 1)
    return below, min(below + 1, draws - 1)


@numba.njit(cache=True, error_model="numpy", nogil=True)
def _bin_of(rank, counts):  # type: ignore[no-untyped-def]
    """Return the bin of the draw of a rank; `counts` holds how many draws lie below each bin."""
    first, last = 0, BINS - 1
    while first < last:
        middle = (first + last + 1) // 2
        if counts[middle] <= rank:
            first = middle
        else:
            last = middle - 1
    return first

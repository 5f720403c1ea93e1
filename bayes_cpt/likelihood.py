"""The likelihood of curves, and its derivatives in the same pass: O(points).

The residual model of `bayes_cpt.residuals` needs a recursion along each curve and a small elimination per
curve, written out here with the derivative of each.
"""

from typing import Any

import numba
import numpy as np

# Sums may be taken in any order, and products contracted into them: twice as fast, and no less exact.
COMPILED: dict[str, Any] = {
    "cache": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz"},
}


@numba.njit(**COMPILED)
def _invert(matrix, root):  # type: ignore[no-untyped-def]
    """Invert a positive definite matrix in place; return half the log of its determinant."""
    size = matrix.shape[0]
    total = 0.0
    for a in range(size):
        for b in range(a + 1):
            left = matrix[a, b]
            for c in range(b):
                left -= matrix[a, c] * matrix[b, c]
            matrix[a, b] = np.sqrt(left) if a == b else left / matrix[b, b]
        total += np.log(matrix[a, a])
    for a in range(size):
        root[a, a] = 1.0 / matrix[a, a]
        for b in range(a):
            left = 0.0
            for c in range(b, a):
                left -= matrix[a, c] * root[c, b]
            root[a, b] = left / matrix[a, a]
    for a in range(size):
        for b in range(a + 1):
            left = 0.0
            for c in range(a, size):
                left += root[c, a] * root[c, b]
            matrix[a, b] = left
            matrix[b, a] = left
    return total


@numba.njit(**COMPILED)
def _whiten(  # type: ignore[no-untyped-def]
    start, residual, fluctuation, memory, misfit, offset, gap, follows, ramps, levels,
    scaled, white, rho, spread, precision, projection,
):  # fmt: skip
    """Fill in the white columns of one curve and their products; return its log density without misfit.

    Column 0 is the residual, then `levels` offset columns (1 or none), then those of the misfit.
    """
    count, width = white.shape
    size = width - 1
    for a in range(size):
        projection[a] = 0.0
        for b in range(size):
            precision[a, b] = 0.0
    total = -0.5 * count * np.log(2.0 * np.pi)
    for k in range(count):
        i = start + k
        per_sd = 1.0 / fluctuation[i]
        scaled[k, 0] = residual[i] * per_sd
        if levels:
            scaled[k, 1] = offset[i] * per_sd
        size_of_misfit = misfit[i] * per_sd
        for j in range(size - levels):
            scaled[k, 1 + levels + j] = size_of_misfit * ramps[i, j]
        fall = np.expm1(-gap[i] / memory[i])
        rho[k] = 1.0 + fall
        spread[k] = np.sqrt(-fall * (2.0 + fall))
        total -= np.log(fluctuation[i] * spread[k])
        carried = rho[k] * follows[i]
        before = k - 1 if k > 0 else 0
        for j in range(width):
            white[k, j] = (scaled[k, j] - carried * scaled[before, j]) / spread[k]
        for a in range(size):
            projection[a] += white[k, 0] * white[k, 1 + a]
            for b in range(a + 1):
                precision[a, b] += white[k, 1 + a] * white[k, 1 + b]
        total -= 0.5 * white[k, 0] ** 2
    for a in range(size):
        precision[a, a] += 1.0
    return total


@numba.njit(**COMPILED)
def _slopes(  # type: ignore[no-untyped-def]
    start, fluctuation, memory, gap, follows, ramps, levels, scaled, white, rho, spread, inverse,
    weights, d_white, passed_back, d_residual, d_fluctuation, d_memory, d_misfit, d_offset,
):  # fmt: skip
    """Fill in the slopes of one curve's log density, from its last point to its first."""
    count, width = white.shape
    size = width - 1
    for j in range(width):
        passed_back[j] = 0.0
    for k in range(count - 1, -1, -1):
        i = start + k
        innovation = white[k, 0]
        for a in range(size):
            innovation -= weights[a] * white[k, 1 + a]
        d_white[0] = -innovation
        for a in range(size):
            d_white[1 + a] = weights[a] * innovation
        for b in range(size):
            own = white[k, 1 + b]
            for a in range(size):
                d_white[1 + a] -= inverse[b, a] * own
        per_spread, per_sd = 1.0 / spread[k], 1.0 / fluctuation[i]
        before = k - 1 if k > 0 else 0
        carried = rho[k] * follows[i] * per_spread
        d_spread, d_rho, d_size, d_columns = -1.0, 0.0, 0.0, 1.0
        for j in range(width):
            d_scaled = d_white[j] * per_spread + passed_back[j]
            d_spread -= d_white[j] * white[k, j]
            d_rho -= d_white[j] * scaled[before, j]
            passed_back[j] = -carried * d_white[j]
            d_columns += d_scaled * scaled[k, j]
            d_white[j] = d_scaled
        for j in range(size - levels):
            d_size += d_white[1 + levels + j] * ramps[i, j]
        d_rho = d_rho * follows[i] * per_spread - d_spread * per_spread * rho[k] * per_spread
        d_residual[i] = d_white[0] * per_sd
        d_offset[i] = d_white[1] * per_sd if levels else 0.0
        d_misfit[i] = d_size * per_sd
        d_fluctuation[i] = -d_columns * per_sd
        if gap[i] < np.inf:
            d_memory[i] = d_rho * rho[k] * gap[i] / memory[i] ** 2


@numba.njit(**COMPILED)
def curve_log_likelihoods(  # type: ignore[no-untyped-def]
    residual, fluctuation, memory, misfit, offset, gap, follows, ramps, floating, first, last
):
    """Return the log likelihood of each curve and its derivatives by the five varying inputs.

    Along a curve, ``white_i = (scaled_i - rho_i·scaled_{i-1})/q_i`` turns residual, offset column and
    misfit columns (divided by the fluctuation's sd) into independent ones. With p and P the products
    of the white columns with the white residual and with each other, integrating out the standard
    normal weights leaves the square ``white·white - p'(1 + P)^-1 p`` and the factor ``det(1 + P)``.
    """
    points, knots = ramps.shape
    curves = first.shape[0]
    value = np.zeros(curves)
    d_residual, d_fluctuation = np.zeros(points), np.zeros(points)
    d_memory, d_misfit, d_offset = np.zeros(points), np.zeros(points), np.zeros(points)
    longest = 0
    for curve in range(curves):
        longest = max(longest, last[curve] - first[curve])
    every_scaled, every_white = np.empty((longest, knots + 2)), np.empty((longest, knots + 2))
    rho, spread = np.empty(longest), np.empty(longest)
    every_matrix, every_root = np.empty((knots + 1, knots + 1)), np.empty((knots + 1, knots + 1))
    projection, weights = np.empty(knots + 1), np.empty(knots + 1)
    d_white, passed_back = np.empty(knots + 2), np.empty(knots + 2)
    for curve in range(curves):
        start, stop = first[curve], last[curve]
        count = stop - start
        levels = 1 if floating[start] > 0.0 else 0
        # Steps rise along a curve, so its last point has all the ramps that the curve has.
        used = knots
        while used > 0 and ramps[stop - 1, used - 1] == 0.0:
            used -= 1
        size = used + levels
        scaled, white = every_scaled[:count, : size + 1], every_white[:count, : size + 1]
        matrix, root = every_matrix[:size, :size], every_root[:size, :size]
        total = _whiten(
            start, residual, fluctuation, memory, misfit, offset, gap, follows, ramps, levels,
            scaled, white, rho, spread, matrix, projection[:size],
        )  # fmt: skip
        total -= _invert(matrix, root)
        for a in range(size):
            weights[a] = 0.0
            for b in range(size):
                weights[a] += matrix[a, b] * projection[b]
            total += 0.5 * projection[a] * weights[a]
        value[curve] = total
        _slopes(
            start, fluctuation, memory, gap, follows, ramps, levels, scaled, white, rho, spread,
            matrix, weights, d_white, passed_back, d_residual, d_fluctuation, d_memory, d_misfit,
            d_offset,
        )  # fmt: skip
    return value, d_residual, d_fluctuation, d_memory, d_misfit, d_offset


@numba.njit(**COMPILED)
def total_log_likelihood(  # type: ignore[no-untyped-def]
    residual, fluctuation, memory, misfit, offset, gap, follows, ramps, floating, first, last
):
    """Return the sum of `curve_log_likelihoods` over the curves, and its derivatives."""
    values, d_residual, d_fluctuation, d_memory, d_misfit, d_offset = curve_log_likelihoods(
        residual, fluctuation, memory, misfit, offset, gap, follows, ramps, floating, first, last
    )
    total = np.asarray(values.sum())
    return total, d_residual, d_fluctuation, d_memory, d_misfit, d_offset

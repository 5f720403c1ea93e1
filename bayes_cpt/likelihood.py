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
def _factor(matrix, lowest):  # type: ignore[no-untyped-def]
    """Take a positive definite matrix to its Cholesky root; return half the log of its determinant.

    Left of column ``lowest[a]`` a row of the matrix has nothing, and neither has the root: O(size·width²).
    """
    total = 0.0
    for a in range(matrix.shape[0]):
        for b in range(lowest[a], a + 1):
            left = matrix[a, b]
            for c in range(max(lowest[a], lowest[b]), b):
                left -= matrix[a, c] * matrix[b, c]
            matrix[a, b] = np.sqrt(left) if a == b else left / matrix[b, b]
        total += np.log(matrix[a, a])
    return total


@numba.njit(**COMPILED)
def _solve(root, lowest, values):  # type: ignore[no-untyped-def]
    """Solve with the matrix of a Cholesky root in place; return the values' square under its inverse."""
    size = root.shape[0]
    square = 0.0
    for a in range(size):
        for b in range(lowest[a], a):
            values[a] -= root[a, b] * values[b]
        values[a] /= root[a, a]
        square += values[a] ** 2
    for a in range(size - 1, -1, -1):
        values[a] /= root[a, a]
        for b in range(lowest[a], a):
            values[b] -= root[a, b] * values[a]
    return square


@numba.njit(**COMPILED)
def _invert(root, lowest, levels, inverse):  # type: ignore[no-untyped-def]
    """Fill in the inverse of a Cholesky root's matrix where the root is not 0: Takahashi's recursion.

    The last of the rows reaches all columns if there is a level.
    """
    size = root.shape[0]
    knots = size - levels
    for b in range(size - 1, -1, -1):
        per_root = 1.0 / root[b, b]
        top = b
        while top + 1 < knots and lowest[top + 1] <= b:
            top += 1
        reached = top - b + (levels if b < knots else 0)
        for m in range(reached):
            a = b + 1 + m if b + 1 + m <= top else size - 1
            left = 0.0
            for c in range(b + 1, top + 1):
                left -= root[c, b] * inverse[a, c]
            if levels and b < knots:
                left -= root[size - 1, b] * inverse[a, size - 1]
            inverse[a, b] = left * per_root
            inverse[b, a] = inverse[a, b]
        own = per_root
        for m in range(reached):
            a = b + 1 + m if b + 1 + m <= top else size - 1
            own -= root[a, b] * inverse[a, b]
        inverse[b, b] = own * per_root


@numba.njit(**COMPILED)
def _expect(place, levels, carried, precision, lowest, projection):  # type: ignore[no-untyped-def]
    """Fill in the precision of a curve's weights before its data, whose determinant is 1.

    The misfit at the knots, each in units of its innovation, is an autoregression; the level is a standard
    normal.
    Room is made for the knots that the data couple: those beside a point and beside the one before it.
    """
    size = precision.shape[0]
    for a in range(size):
        lowest[a] = max(a - 1, 0)
        projection[a] = 0.0
    for k in range(1, place.shape[0]):
        first = max(int(place[k - 1]), 1) - 1
        for a in range(first, int(place[k]) + 1):
            lowest[a] = min(lowest[a], first)
    if levels:
        lowest[size - 1] = 0
    for a in range(size):
        for b in range(lowest[a], a):
            precision[a, b] = 0.0
        precision[a, a] = 1.0
    for a in range(1, size - levels):
        precision[a - 1, a - 1] += carried[a] ** 2
        precision[a, a - 1] = -carried[a]


@numba.njit(**COMPILED)
def _active(levels, size, before, below, columns):  # type: ignore[no-untyped-def]
    """List the columns that count at a white point, return how many: the knots' and the level's.

    The hats of a point are those of the knots `below` and above it; those of the point before it, the
    knots `before` and above, come in when it is white. Knot 0, where the misfit is 0, has no column.
    """
    count = 0
    for knot in range(max(before, 1), below + 2):
        columns[count] = knot
        count += 1
    if levels:
        columns[count] = size
        count += 1
    return count


@numba.njit(**COMPILED)
def _whiten(  # type: ignore[no-untyped-def]
    residual, fluctuation, memory, misfit, offset, gap, place, levels, innovation,
    scaled, white, rho, spread, columns, precision, projection,
):  # fmt: skip
    """Fill in the white columns of one curve and their products; return its log density without misfit.

    Column 0 is the residual, then come those of the knots, then `levels` offset columns (1 or none).
    """
    count, size = residual.shape[0], precision.shape[0]
    total = -0.5 * count * np.log(2.0 * np.pi)
    for k in range(count):
        below = int(place[k])
        share = place[k] - below
        before = int(place[k - 1]) if k > 0 else below
        active = _active(levels, size, before, below, columns)
        per_sd = 1.0 / fluctuation[k]
        for m in range(active):
            scaled[k, columns[m]] = 0.0
            if k > 0 and before + 1 < columns[m] <= below + 1:
                scaled[k - 1, columns[m]] = 0.0
        scaled[k, 0] = residual[k] * per_sd
        if levels:
            scaled[k, size] = offset[k] * per_sd
        if below > 0:
            scaled[k, below] = innovation[below - 1] * misfit[k] * per_sd * (1.0 - share)
        scaled[k, below + 1] = innovation[below] * misfit[k] * per_sd * share
        if k > 0 and gap[k] == gap[k - 1] and memory[k] == memory[k - 1]:
            rho[k], spread[k] = rho[k - 1], spread[k - 1]
        else:
            fall = np.expm1(-gap[k] / memory[k])
            rho[k] = 1.0 + fall
            spread[k] = np.sqrt(-fall * (2.0 + fall))
        total -= np.log(fluctuation[k] * spread[k])
        per_spread = 1.0 / spread[k]
        carried = rho[k] if k > 0 else 0.0
        earlier = k - 1 if k > 0 else 0
        own = (scaled[k, 0] - carried * scaled[earlier, 0]) * per_spread
        white[k, 0] = own
        total -= 0.5 * own**2
        for m in range(active):
            a = columns[m]
            white[k, a] = (scaled[k, a] - carried * scaled[earlier, a]) * per_spread
            projection[a - 1] += own * white[k, a]
            for other in range(m + 1):
                b = columns[other]
                precision[a - 1, b - 1] += white[k, a] * white[k, b]
    return total


@numba.njit(**COMPILED)
def _slopes(  # type: ignore[no-untyped-def]
    fluctuation, memory, gap, place, levels, innovation, scaled, white, rho, spread, columns, inverse,
    weights, d_white, passed_back, d_residual, d_fluctuation, d_memory, d_misfit, d_offset,
):  # fmt: skip
    """Fill in the slopes of one curve's log density, from its last point to its first."""
    count, size = d_residual.shape[0], inverse.shape[0]
    for j in range(passed_back.shape[0]):
        passed_back[j] = 0.0
    for k in range(count - 1, -1, -1):
        below = int(place[k])
        share = place[k] - below
        before = int(place[k - 1]) if k > 0 else below
        active = _active(levels, size, before, below, columns)
        unexplained = white[k, 0]
        for m in range(active):
            unexplained -= weights[columns[m] - 1] * white[k, columns[m]]
        for m in range(active):
            a = columns[m]
            left = weights[a - 1] * unexplained
            for other in range(active):
                left -= inverse[a - 1, columns[other] - 1] * white[k, columns[other]]
            d_white[a] = left
        d_white[0] = -unexplained
        per_spread, per_sd = 1.0 / spread[k], 1.0 / fluctuation[k]
        earlier = k - 1 if k > 0 else 0
        carried = rho[k] * per_spread if k > 0 else 0.0
        d_spread, d_rho, d_columns = -1.0, 0.0, 1.0
        for m in range(-1, active):
            j = columns[m] if m >= 0 else 0
            d_spread -= d_white[j] * white[k, j]
            d_rho -= d_white[j] * scaled[earlier, j]
            d_scaled = d_white[j] * per_spread + passed_back[j]
            d_columns += d_scaled * scaled[k, j]
            passed_back[j] = -carried * d_white[j]
            d_white[j] = d_scaled
        if k == 0:
            d_rho = 0.0
        d_rho = d_rho * per_spread - d_spread * per_spread * rho[k] * per_spread
        d_residual[k] = d_white[0] * per_sd
        d_offset[k] = d_white[size] * per_sd if levels else 0.0
        d_size = innovation[below] * d_white[below + 1] * share
        if below > 0:
            d_size += innovation[below - 1] * d_white[below] * (1.0 - share)
        d_misfit[k] = d_size * per_sd
        d_fluctuation[k] = -d_columns * per_sd
        d_memory[k] = d_rho * rho[k] * gap[k] / memory[k] ** 2 if gap[k] < np.inf else 0.0


@numba.njit(**COMPILED)
def workspace(place, first, last):  # type: ignore[no-untyped-def]
    """Return the arrays that `curve_log_likelihood` needs, large enough for each of some curves."""
    longest, knots = 0, 0
    for curve in range(first.shape[0]):
        longest = max(longest, last[curve] - first[curve])
        knots = max(knots, int(place[last[curve] - 1]) + 1)
    width = knots + 2
    return (
        np.empty((longest, width)),
        np.empty((longest, width)),
        np.empty(longest),
        np.empty(longest),
        np.empty((width, width)),
        np.empty((width, width)),
        np.empty(width),
        np.empty(width),
        np.empty(width),
        np.empty(width, dtype=np.int64),
        np.empty(width, dtype=np.int64),
    )


@numba.njit(**COMPILED)
def curve_log_likelihood(  # type: ignore[no-untyped-def]
    residual, fluctuation, memory, misfit, offset, gap, place, floating, carried, innovation, room,
    d_residual, d_fluctuation, d_memory, d_misfit, d_offset,
):  # fmt: skip
    """Return the log likelihood of one curve, and fill in its derivatives by the five varying inputs.

    Along a curve, ``white_i = (scaled_i - rho_i·scaled_{i-1})/q_i`` turns residual, offset column and
    misfit columns (divided by the fluctuation's sd) into independent ones. With p and P the products
    of the white columns with the white residual and with each other, and Q the precision of the columns'
    normal weights (of determinant 1), integrating the weights out leaves the square
    ``white·white - p'(Q + P)^-1 p`` and the factor ``det(Q + P)``.
    """
    scaled, white, rho, spread, every_root, every_inverse, sums, d_white, back, columns, reach = (
        room
    )
    levels = 1 if floating > 0.0 else 0
    # Steps rise along a curve, so its last point has the last knots.
    size = int(place[-1]) + 1 + levels
    root, inverse = every_root[:size, :size], every_inverse[:size, :size]
    weights, lowest = sums[:size], reach[:size]
    _expect(place, levels, carried, root, lowest, weights)
    total = _whiten(
        residual, fluctuation, memory, misfit, offset, gap, place, levels, innovation,
        scaled, white, rho, spread, columns, root, weights,
    )  # fmt: skip
    total -= _factor(root, lowest)
    total += 0.5 * _solve(root, lowest, weights)
    _invert(root, lowest, levels, inverse)
    _slopes(
        fluctuation, memory, gap, place, levels, innovation, scaled, white, rho, spread, columns,
        inverse, weights, d_white, back, d_residual, d_fluctuation, d_memory, d_misfit, d_offset,
    )  # fmt: skip
    return total


@numba.njit(**COMPILED)
def curve_log_likelihoods(  # type: ignore[no-untyped-def]
    residual,
    fluctuation,
    memory,
    misfit,
    offset,
    gap,
    place,
    floating,
    first,
    last,
    knot_first,
    knot_carried,
    knot_innovation,
):
    """Return the log likelihood of each curve and its derivatives by the five varying inputs."""
    curves, points = first.shape[0], residual.shape[0]
    value, slopes = np.zeros(curves), np.zeros((5, points))
    room = workspace(place, first, last)
    for curve in range(curves):
        own = slice(first[curve], last[curve])
        knots = slice(knot_first[curve], knot_first[curve + 1])
        value[curve] = curve_log_likelihood(
            residual[own], fluctuation[own], memory[own], misfit[own], offset[own], gap[own],
            place[own], floating[first[curve]], knot_carried[knots], knot_innovation[knots],
            room,
            slopes[0, own], slopes[1, own], slopes[2, own], slopes[3, own], slopes[4, own],
        )  # fmt: skip
    return value, slopes[0], slopes[1], slopes[2], slopes[3], slopes[4]


@numba.njit(**COMPILED)
def total_log_likelihood(*arguments):  # type: ignore[no-untyped-def]
    """Return the sum of `curve_log_likelihoods` over the curves, and its derivatives."""
    values, d_residual, d_fluctuation, d_memory, d_misfit, d_offset = curve_log_likelihoods(
        *arguments
    )
    total = np.asarray(values.sum())
    return total, d_residual, d_fluctuation, d_memory, d_misfit, d_offset

"""The log likelihood of one curve's residuals, and its derivatives in the same pass: O(points).

The residual model of `bayes_cpt.model.residuals` needs a recursion along the curve and the elimination
of its normal weights, written out here with the derivative of each. The weights' matrix is banded, but
for a last row that reaches all columns where the curve has an unknown level: each knot of the misfit is
coupled to those near it.
"""

from typing import Any

import numba
import numpy as np

# Sums may be taken in any order, and products contracted into them: twice as fast, and no less exact.
# Functions are inlined: a law that calls one kept on disk is other code than the law just compiled, and the
# same seed would give other draws.
COMPILED: dict[str, Any] = {
    "cache": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz"},
    "forceinline": True,
}
# Factors of a determinant that are multiplied before a logarithm is taken.
FACTORS = 16


@numba.njit(**COMPILED)
def factor(matrix, lowest, per_root):  # type: ignore[no-untyped-def]
    """Take a matrix to its Cholesky root, filling in 1 over the diagonal; return half the log determinant.

    Left of column ``lowest[a]`` a row of the matrix has nothing, and neither has the root: O(size·width²).
    """
    total, determinant = 0.0, 1.0
    for a in range(matrix.shape[0]):
        for b in range(lowest[a], a):
            left = matrix[a, b]
            for c in range(max(lowest[a], lowest[b]), b):
                left -= matrix[a, c] * matrix[b, c]
            matrix[a, b] = left * per_root[b]
        left = matrix[a, a]
        for c in range(lowest[a], a):
            left -= matrix[a, c] ** 2
        per_root[a] = 1.0 / np.sqrt(left)
        matrix[a, a] = left * per_root[a]
        determinant *= per_root[a]
        if a % FACTORS == FACTORS - 1:
            total -= np.log(determinant)
            determinant = 1.0
    return total - np.log(determinant)


@numba.njit(**COMPILED)
def solve(root, lowest, per_root, values):  # type: ignore[no-untyped-def]
    """Solve with the matrix of a Cholesky root in place; return the values' square under its inverse."""
    size = root.shape[0]
    square = 0.0
    for a in range(size):
        left = values[a]
        for b in range(lowest[a], a):
            left -= root[a, b] * values[b]
        values[a] = left * per_root[a]
        square += values[a] ** 2
    for a in range(size - 1, -1, -1):
        values[a] *= per_root[a]
        for b in range(lowest[a], a):
            values[b] -= root[a, b] * values[a]
    return square


@numba.njit(**COMPILED)
def invert(root, lowest, per_root, levels, inverse):  # type: ignore[no-untyped-def]
    """Fill in the inverse of a Cholesky root's matrix where the root is not 0: Takahashi's recursion.

    `levels` is 1 if the last of the rows reaches all columns, else 0.
    """
    size = root.shape[0]
    knots = size - levels
    for b in range(size - 1, -1, -1):
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
            inverse[a, b] = left * per_root[b]
            inverse[b, a] = inverse[a, b]
        entry = per_root[b]
        for m in range(reached):
            a = b + 1 + m if b + 1 + m <= top else size - 1
            entry -= root[a, b] * inverse[a, b]
        inverse[b, b] = entry * per_root[b]


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


# What a pass along a curve keeps of a point. Scaled, divided by the fluctuation's sd: the residual and the
# columns of the level and of the knots below and above. White, with the point before taken off: residual,
# level, and the knots from the one below the point before to the one above, four at the most. Then the
# correlation with the point before, 1 over the spread about it, and 1 over the fluctuation's sd.
(RESIDUAL, LEVEL, BELOW, ABOVE, WHITE, WHITE_LEVEL, HATS, RHO, PER_SPREAD, PER_SD, KEPT) = (
    *range(7), *range(10, 14),
)  # fmt: skip


@numba.njit(**COMPILED)
def _whiten(  # type: ignore[no-untyped-def]
    residual, fluctuation, memory, misfit, offset, gap, place, height, levels, innovation,
    kept, precision, projection,
):  # fmt: skip
    """Fill in the white columns of one curve and their products; return its log density without misfit.

    Products of points between the same knots are summed up before they enter the precision. Knot 0, where
    the misfit is 0, has no column.
    """
    count, last = residual.shape[0], precision.shape[0] - 1
    total, determinant = -0.5 * count * np.log(2.0 * np.pi), 1.0
    below_below, below_above, above_above = 0.0, 0.0, 0.0
    below_white, above_white, below_level, above_level = 0.0, 0.0, 0.0, 0.0
    level_level, level_white = 0.0, 0.0
    current = int(place[0])
    rho, per_spread, carried = 0.0, 0.0, 0.0
    earlier_residual, earlier_level, earlier_below, earlier_above = 0.0, 0.0, 0.0, 0.0
    for k in range(count):
        knot = int(place[k])
        share = place[k] - knot
        per_sd = 1.0 / fluctuation[k]
        size = misfit[k] * height[k] * per_sd
        own_residual = residual[k] * per_sd
        own_level = offset[k] * per_sd if levels else 0.0
        own_below = innovation[knot - 1] * size * (1.0 - share) if knot > 0 else 0.0
        own_above = innovation[knot] * size * share
        if k == 0 or gap[k] != gap[k - 1] or memory[k] != memory[k - 1]:
            fall = np.expm1(-gap[k] / memory[k])
            rho, per_spread = 1.0 + fall, 1.0 / np.sqrt(-fall * (2.0 + fall))
        kept[k, RESIDUAL], kept[k, LEVEL], kept[k, BELOW] = own_residual, own_level, own_below
        kept[k, ABOVE], kept[k, RHO], kept[k, PER_SPREAD] = own_above, rho, per_spread
        kept[k, PER_SD] = per_sd
        determinant *= per_sd * per_spread
        if k % FACTORS == FACTORS - 1:
            total += np.log(determinant)
            determinant = 1.0
        carried = rho if k > 0 else 0.0
        white = (own_residual - carried * earlier_residual) * per_spread
        level = (own_level - carried * earlier_level) * per_spread
        below_left, above_left = carried * earlier_below, carried * earlier_above
        earlier_residual, earlier_level = own_residual, own_level
        earlier_below, earlier_above = own_below, own_above
        kept[k, WHITE], kept[k, WHITE_LEVEL] = white, level
        total -= 0.5 * white**2
        level_level += level**2
        level_white += level * white
        if knot == current:
            below = (own_below - below_left) * per_spread
            above = (own_above - above_left) * per_spread
            kept[k, HATS], kept[k, HATS + 1] = below, above
            below_below += below**2
            below_above += below * above
            above_above += above**2
            below_white += below * white
            above_white += above * white
            below_level += below * level
            above_level += above * level
            continue
        _add_pair(
            current, levels, precision, projection, below_below, below_above, above_above,
            below_white, above_white, below_level, above_level,
        )  # fmt: skip
        below_below, below_above, above_above = 0.0, 0.0, 0.0
        below_white, above_white, below_level, above_level = 0.0, 0.0, 0.0, 0.0
        # Between this point and the last there are no knots but those beside them.
        beyond = knot - current
        for m in range(4):
            kept[k, HATS + m] = 0.0
        kept[k, HATS] = -below_left * per_spread
        kept[k, HATS + 1] = -above_left * per_spread
        kept[k, HATS + beyond] += own_below * per_spread
        kept[k, HATS + beyond + 1] += own_above * per_spread
        for m in range(1 if current == 0 else 0, beyond + 2):
            a = current + m - 1
            projection[a] += kept[k, HATS + m] * white
            if levels:
                precision[last, a] += kept[k, HATS + m] * level
            for other in range(1 if current == 0 else 0, m + 1):
                precision[a, current + other - 1] += kept[k, HATS + m] * kept[k, HATS + other]
        current = knot
    _add_pair(
        current, levels, precision, projection, below_below, below_above, above_above,
        below_white, above_white, below_level, above_level,
    )  # fmt: skip
    if levels:
        precision[last, last] += level_level
        projection[last] += level_white
    return total + np.log(determinant)


@numba.njit(**COMPILED)
def _add_pair(  # type: ignore[no-untyped-def]
    knot, levels, precision, projection, below_below, below_above, above_above,
    below_white, above_white, below_level, above_level,
):  # fmt: skip
    """Add sums of products of the columns of a knot, and of the one above it, to all products."""
    last = precision.shape[0] - 1
    precision[knot, knot] += above_above
    projection[knot] += above_white
    if levels:
        precision[last, knot] += above_level
    if knot > 0:
        precision[knot - 1, knot - 1] += below_below
        precision[knot, knot - 1] += below_above
        projection[knot - 1] += below_white
        if levels:
            precision[last, knot - 1] += below_level


@numba.njit(**COMPILED)
def _slopes(  # type: ignore[no-untyped-def]
    memory, gap, place, height, levels, innovation, kept, inverse, weights,
    d_residual, d_fluctuation, d_memory, d_misfit, d_offset,
):  # fmt: skip
    """Fill in the slopes of one curve's log density, from its last point to its first."""
    count, last = d_residual.shape[0], inverse.shape[0] - 1
    level_weight = weights[last] if levels else 0.0
    level_variance = inverse[last, last] if levels else 0.0
    # Of the knots below and above: weights, their covariances with each other and with the level.
    loaded = -1
    weight, covariance, with_level = np.zeros(4), np.zeros((4, 4)), np.zeros(4)
    d_hats = np.zeros(4)
    # What the point after passes back to residual, level, and knots below and above.
    back, back_level, back_below, back_above = 0.0, 0.0, 0.0, 0.0
    for k in range(count - 1, -1, -1):
        earlier = k - 1 if k > 0 else 0
        knot = int(place[k])
        share = place[k] - knot
        lowest = int(place[k - 1]) if k > 0 else knot
        beyond = knot - lowest
        if beyond > 0 or loaded != knot:
            for m in range(beyond + 2):
                a = lowest + m - 1
                weight[m] = weights[a] if a >= 0 else 0.0
                with_level[m] = inverse[a, last] if levels and a >= 0 else 0.0
                for other in range(beyond + 2):
                    b = lowest + other - 1
                    covariance[m, other] = inverse[a, b] if a >= 0 and b >= 0 else 0.0
            loaded = knot if beyond == 0 else -1
        white, level = kept[k, WHITE], kept[k, WHITE_LEVEL]
        below, above = kept[k, HATS], kept[k, HATS + 1]
        unexplained = white - level_weight * level - weight[0] * below - weight[1] * above
        for m in range(2, beyond + 2):
            unexplained -= weight[m] * kept[k, HATS + m]
        d_level = level_weight * unexplained - level_variance * level
        d_level -= with_level[0] * below + with_level[1] * above
        first = weight[0] * unexplained - with_level[0] * level
        first -= covariance[0, 0] * below + covariance[0, 1] * above
        second = weight[1] * unexplained - with_level[1] * level
        second -= covariance[1, 0] * below + covariance[1, 1] * above
        d_spread = unexplained * white - 1.0
        d_below, d_above = first, second
        # Where a knot lies between this point and the one before, three or four act on it.
        if beyond > 0:
            for m in range(2, beyond + 2):
                hat = kept[k, HATS + m]
                d_level -= with_level[m] * hat
                first -= covariance[0, m] * hat
                second -= covariance[1, m] * hat
                along = weight[m] * unexplained - with_level[m] * level
                for other in range(beyond + 2):
                    along -= covariance[m, other] * kept[k, HATS + other]
                d_hats[m] = along
                d_spread -= along * hat
            d_hats[1] = second
            d_below, d_above = d_hats[beyond], d_hats[beyond + 1]
        if not levels:
            d_level = 0.0
        d_spread -= first * below + second * above + d_level * level
        per_spread, per_sd, rho = kept[k, PER_SPREAD], kept[k, PER_SD], kept[k, RHO]
        d_scaled = back - unexplained * per_spread
        d_level_scaled = d_level * per_spread + back_level
        d_below = d_below * per_spread + back_below
        d_above = d_above * per_spread + back_above
        d_rho, carried = 0.0, 0.0
        if k > 0:
            carried = rho * per_spread
            d_rho = unexplained * kept[earlier, RESIDUAL] - d_level * kept[earlier, LEVEL]
            d_rho -= first * kept[earlier, BELOW] + second * kept[earlier, ABOVE]
        back, back_level = carried * unexplained, -carried * d_level
        back_below, back_above = -carried * first, -carried * second
        d_rho = (d_rho - d_spread * per_spread * rho) * per_spread
        d_columns = 1.0 + d_scaled * kept[k, RESIDUAL] + d_level_scaled * kept[k, LEVEL]
        d_columns += d_below * kept[k, BELOW] + d_above * kept[k, ABOVE]
        d_size = innovation[knot] * d_above * share
        if knot > 0:
            d_size += innovation[knot - 1] * d_below * (1.0 - share)
        d_residual[k] = d_scaled * per_sd
        d_offset[k] = d_level_scaled * per_sd
        d_misfit[k] = d_size * height[k] * per_sd
        d_fluctuation[k] = -d_columns * per_sd
        d_memory[k] = d_rho * rho * gap[k] / memory[k] ** 2 if gap[k] < np.inf else 0.0


@numba.njit(**COMPILED)
def workspace(place, first, last):  # type: ignore[no-untyped-def]
    """Return the arrays that `curve_log_likelihood` needs, large enough for each of some curves."""
    longest, knots = 0, 0
    for curve in range(first.shape[0]):
        longest = max(longest, int(last[curve] - first[curve]))
        knots = max(knots, int(place[int(last[curve]) - 1]) + 1)
    width = knots + 1
    return (
        np.zeros((longest, KEPT)),
        np.empty((width, width)),
        np.empty((width, width)),
        np.empty(width),
        np.empty(width, dtype=np.int64),
        np.empty(width),
    )


@numba.njit(**COMPILED)
def curve_log_likelihood(  # type: ignore[no-untyped-def]
    residual, fluctuation, memory, misfit, offset, gap, place, height, floating, carried, innovation,
    room,
    d_residual, d_fluctuation, d_memory, d_misfit, d_offset,
):  # fmt: skip
    """Return the log likelihood of one curve, and fill in its derivatives by the five varying inputs.

    Along a curve, ``white_i = (scaled_i - rho_i·scaled_{i-1})/q_i`` turns residual, offset column and
    misfit columns (divided by the fluctuation's sd) into independent ones. With p and P the products
    of the white columns with the white residual and with each other, and Q the precision of the columns'
    normal weights (of determinant 1), integrating the weights out leaves the square
    ``white·white - p'(Q + P)^-1 p`` and the factor ``det(Q + P)``.
    """
    kept, every_root, every_inverse, sums, reach, every_per_root = room
    levels = 1 if floating > 0.0 else 0
    # Steps rise along a curve, so its last point has the last knots.
    size = int(place[-1]) + 1 + levels
    root, inverse = every_root[:size, :size], every_inverse[:size, :size]
    weights, lowest, per_root = sums[:size], reach[:size], every_per_root[:size]
    _expect(place, levels, carried, root, lowest, weights)
    total = _whiten(
        residual, fluctuation, memory, misfit, offset, gap, place, height, levels, innovation,
        kept, root, weights,
    )  # fmt: skip
    total -= factor(root, lowest, per_root)
    total += 0.5 * solve(root, lowest, per_root, weights)
    invert(root, lowest, per_root, levels, inverse)
    _slopes(
        memory, gap, place, height, levels, innovation, kept, inverse, weights,
        d_residual, d_fluctuation, d_memory, d_misfit, d_offset,
    )  # fmt: skip
    return total

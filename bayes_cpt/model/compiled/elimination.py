"""Elimination of the normal weights of one curve: a banded matrix, whose last row may reach all columns.

Of the knots of a misfit each is coupled to those near it, and all of them to the level of a curve that has
one.
"""

from typing import Any

import numpy as np

from bayes_cpt.jit import numba

# Sums may be taken in any order, and products contracted into them: twice as fast, and no less exact.
COMPILED: dict[str, Any] = {
    "cache": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz"},
}
# Factors of a determinant that are multiplied before a logarithm is taken.
FACTORS = 16


@numba.njit(**COMPILED)
def factor(matrix, lowest, per_root):  # type: ignore[no-untyped-def]
    """Take a positive definite matrix to its Cholesky root; return half the log of its determinant.

    Left of column ``lowest[a]`` a row of the matrix has nothing, and neither has the root: O(size·width²).

    Parameters
    ----------
    matrix : ndarray, shape (size, size)
    lowest : ndarray of int, shape (size,)
    per_root : ndarray, shape (size,)
        Filled in with 1 over the root's diagonal.
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
    """Solve with the matrix of a Cholesky root in place; return the values' square under its inverse.

    Parameters
    ----------
    root, lowest, per_root : ndarray
        From `factor`.
    values : ndarray, shape (size,)
    """
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

    Parameters
    ----------
    root, lowest, per_root : ndarray
        From `factor`.
    levels : int
        1 if the last of the rows reaches all columns, else 0.
    inverse : ndarray, shape (size, size)
        Filled in.
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

"""Tables as one array: each array of a model costs its samplers a second of compilation."""

from collections.abc import Sequence

import numba
import numpy as np
from numba import carray  # type: ignore[attr-defined]

from bayes_cpt.arrays import Floats


def packed(tables: Sequence[Floats]) -> Floats:
    """Return tables as one array: how many rows and columns each has, a vector one row; then all numbers.

    Examples
    --------
    >>> packed([np.eye(2), np.zeros(1)]).tolist()
    [2.0, 2.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0]
    """
    each = [np.atleast_2d(np.asarray(table, dtype=np.float64)) for table in tables]
    shapes = [np.array(table.shape, dtype=np.float64) for table in each]
    return np.concatenate([*shapes, *(table.ravel() for table in each)])


@numba.njit(cache=True, error_model="numpy")
def unpacked(numbers, count, which):  # type: ignore[no-untyped-def]
    """Return one of the so many tables that `packed` joined, as a view."""
    start = 2 * count
    for k in range(which):
        start += int(numbers[2 * k]) * int(numbers[2 * k + 1])
    rows, columns = int(numbers[2 * which]), int(numbers[2 * which + 1])
    return numbers[start : start + rows * columns].reshape((rows, columns))


@numba.njit(cache=True)
def packed_at(place, count):  # type: ignore[no-untyped-def]
    """Return the array that `packed` made of so many tables, of which a pointer is given."""
    size = 2 * count
    for k in range(count):
        size += int(place[2 * k]) * int(place[2 * k + 1])
    return carray(place, (size,))

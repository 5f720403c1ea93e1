"""A density as one array of numbers, as nutpie hands it to compiled code, and views of its parts.

Numba writes out what a slice does wherever one is taken, and takes longer to do so than for all else of a
density: each kind of view is a function, compiled once.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.jit import numba


def packed(
    floats: Sequence[Any], integers: Sequence[Any], places: Any, head: Sequence[float]
) -> Floats:
    """Return all that `evaluate` needs in one array, integers as they lie in memory.

    Parameters
    ----------
    floats, integers : sequence of array
        In the order in which `evaluate` takes them.
    places : ndarray of int32
        That of the likelihood.
    head : sequence of float
        The numbers that the array begins with, after its own size.
    """
    narrow = np.zeros(places.size + places.size % 2, dtype=np.int32)
    narrow[: places.size] = places
    parts = [np.ascontiguousarray(part, dtype=np.float64).ravel() for part in floats]
    parts += [np.array(part, dtype=np.int64).ravel().view(np.float64) for part in integers]
    parts.append(narrow.view(np.float64))
    return np.concatenate([[1 + len(head) + sum(part.size for part in parts), *head], *parts])


@numba.njit(cache=True, error_model="numpy")
def vector(block, at, size):  # type: ignore[no-untyped-def]
    """Return numbers of a block.

    Parameters
    ----------
    block : ndarray
        From `packed`.
    at, size : int
        Where they begin, and how many there are.
    """
    return block[at : at + size]


@numba.njit(cache=True, error_model="numpy")
def matrix(block, at, rows, columns):  # type: ignore[no-untyped-def]
    """Return rows of numbers of a block.

    Parameters
    ----------
    block : ndarray
        From `packed`.
    at, rows, columns : int
        Where they begin, and how many there are.
    """
    return vector(block, at, rows * columns).reshape((rows, columns))


@numba.njit(cache=True, error_model="numpy")
def integers(block, at, size):  # type: ignore[no-untyped-def]
    """Return integers of a block.

    Parameters
    ----------
    block : ndarray
        From `packed`.
    at, size : int
        Where they begin, and how many there are.
    """
    return vector(block, at, size).view(np.int64)


@numba.njit(cache=True, error_model="numpy")
def integer_rows(block, at, rows, columns):  # type: ignore[no-untyped-def]
    """Return rows of integers of a block.

    Parameters
    ----------
    block : ndarray
        From `packed`.
    at, rows, columns : int
        Where they begin, and how many there are.
    """
    return integers(block, at, rows * columns).reshape((rows, columns))


# All of them, each before those that call it.
COMPILED = (vector, matrix, integers, integer_rows)

"""A study's arrays as two: every array that a model holds costs its samplers a second of compilation."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from bayes_cpt.jit import numba

VECTOR, MATRIX, PLACES = "vector", "matrix", "places"
# The form of each array of `bayes_cpt.model.likelihood_data.likelihood_data` but the loss, in its order.
FORMS = {
    "reference": VECTOR,
    "curve_domain": PLACES,
    "curve_member": MATRIX,
    "curve_shared": MATRIX,
    "base_known": VECTOR,
    "base_loss": VECTOR,
    "point_columns": MATRIX,
    "base_columns": MATRIX,
    "area_level": MATRIX,
    "area_forward": MATRIX,
    "point_area": PLACES,
    "base_area": PLACES,
    "base_first": PLACES,
    "point_gap": VECTOR,
    "point_place": VECTOR,
    "point_height": VECTOR,
    "point_floating": VECTOR,
    "curve_first": PLACES,
    "curve_last": PLACES,
    "knot_first": PLACES,
    "knot_carried": VECTOR,
    "knot_innovation": VECTOR,
}
# Numbers by which the places say of each array where it starts, how long it is, and how wide its rows are.
KEYS = 3
# The array that has a member for each curve.
COUNTED = tuple(FORMS).index("curve_first")
# PyMC hands over its data as arrays that may not be written to, and as 32-bit integers. Compiled for these
# alone, the code takes others as well, and is compiled once.
NUMBERS = types.Array(types.float64, 1, "C", readonly=True)
SIGNATURE = (NUMBERS, NUMBERS, NUMBERS, types.Array(types.int32, 1, "C", readonly=True))


def packed(
    arrays: Mapping[str, NDArray[Any]],
) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Return the arrays of a study as one of numbers and one of places.

    Parameters
    ----------
    arrays : mapping of str to ndarray
        Those of `FORMS`, in its order.

    Returns
    -------
    numbers : ndarray, shape (n,)
        All vectors and matrices, row by row, one after the other.
    places : ndarray of int, shape (m,)
        `KEYS` numbers for every array; then the arrays of places, one after the other.
    """
    if tuple(arrays) != tuple(FORMS):
        raise ValueError(f"the arrays are {', '.join(arrays)}, not {', '.join(FORMS)}")
    keys: list[tuple[int, int, int]] = []
    parts: dict[bool, list[NDArray[Any]]] = {True: [], False: []}
    lengths = {True: KEYS * len(FORMS), False: 0}
    for name, array in arrays.items():
        is_places = FORMS[name] == PLACES
        keys.append((lengths[is_places], array.size, array.shape[-1]))
        parts[is_places].append(array.ravel())
        lengths[is_places] += array.size
    return (
        np.concatenate(parts[False]).astype(np.float64),
        np.concatenate([np.ravel(keys), *parts[True]]).astype(np.int32),
    )


def length(places: NDArray[np.int32], name: str) -> int:
    """Return how many members an array has that is packed with others.

    Parameters
    ----------
    places : ndarray of int, shape (m,)
        From `packed`.
    name : str
        One of `FORMS`.
    """
    return int(places[KEYS * tuple(FORMS).index(name) + 1])


@numba.njit(cache=True)
def vector(holder, places, index):  # type: ignore[no-untyped-def]
    """Return the array of that index, a vector, as a view of what holds it.

    Parameters
    ----------
    holder : ndarray, shape (n,)
        Of numbers or of places.
    places : ndarray of int, shape (m,)
    index : int
        Of the array, in the order of `FORMS`.
    """
    start, size = np.int64(places[KEYS * index]), np.int64(places[KEYS * index + 1])
    return holder[start : start + size]


@numba.njit(cache=True)
def matrix(holder, places, index):  # type: ignore[no-untyped-def]
    """Return the array of that index, a matrix, as a view of what holds it.

    Parameters
    ----------
    holder : ndarray, shape (n,)
        Of numbers or of places.
    places : ndarray of int, shape (m,)
    index : int
        Of the array, in the order of `FORMS`.
    """
    width = np.int64(places[KEYS * index + 2])
    flat = vector(holder, places, index)
    return flat.reshape((flat.size // width, width))


def unpacking() -> str:
    """Return code that calls ``law_log_likelihoods`` with the arrays that are packed in two."""
    arguments = []
    for k, form in enumerate(FORMS.values()):
        holder = "places" if form == PLACES else "numbers"
        # As a number of this type the index is no constant that the code is compiled for anew.
        arguments.append(f"{MATRIX if form == MATRIX else VECTOR}({holder}, places, np.int64({k}))")
    return (
        "def packed_log_likelihoods(law, tables, loss, values, numbers, places, totals, slopes):\n"
        "    law_log_likelihoods(\n        law,\n        tables,\n        loss,\n        values,\n"
        + "".join(f"        {argument},\n" for argument in arguments)
        + "        totals,\n        slopes,\n    )\n"
    )

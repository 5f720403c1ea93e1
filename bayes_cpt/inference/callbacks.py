"""The log density as a C function: NUTS calls it without Python, so chains run side by side."""

import math
from typing import Any

import numba
import numpy as np
from numba import carray, types  # type: ignore[attr-defined]

from bayes_cpt.inference.coordinates import evaluated, slopes_in_white
from bayes_cpt.model.law_kernel import log_likelihoods
from bayes_cpt.model.packing import packed_at, unpacked

NUMBERS: Any = types.CPointer(types.float64)  # type: ignore[no-untyped-call]
# As nutpie calls them: how many numbers, where they are, where results go, and what is handed through.
DENSITY = types.int64(types.uint64, NUMBERS, NUMBERS, NUMBERS, NUMBERS)
EXPANSION = types.int64(types.uint64, types.uint64, NUMBERS, NUMBERS, types.voidptr)
# Tables handed through: those of `coordinates`, losses, the study's, and where likelihood and law are.
TABLES = 8
FINE, NOT_FINITE = 0, 1


@numba.cfunc(DENSITY, cache=True, error_model="numpy")
def log_density(size, white, gradient, total, data):  # type: ignore[no-untyped-def]
    """Fill in log density and gradient at white coordinates.

    ``data`` are the tables.
    """
    given, position = packed_at(data, TABLES), carray(white, (size,))
    metric, bends = unpacked(given, TABLES, 0), unpacked(given, TABLES, 1)
    priors, template = unpacked(given, TABLES, 2), unpacked(given, TABLES, 3)[0]
    tables = (metric, bends, priors, template, unpacked(given, TABLES, 4))
    found = evaluated(position, tables)
    loss, study = unpacked(given, TABLES, 5)[0], unpacked(given, TABLES, 6)[0]
    places = unpacked(given, TABLES, 7)[0].view(np.int64)
    by_curve, slopes = log_likelihoods(places[0], places[1], loss, found[1], study)
    total[0] = found[0] + by_curve.sum()
    finite = math.isfinite(total[0])
    for k, slope in enumerate(slopes_in_white(position, tables, found, slopes.sum(axis=0))):
        gradient[k] = slope
        finite = finite and math.isfinite(slope)
    if finite:
        return FINE
    # Sums of what overflows may come out as infinite evidence.
    total[0] = math.nan
    return NOT_FINITE


@numba.cfunc(EXPANSION, cache=True)
def as_they_are(size, expanded, white, kept, data):  # type: ignore[no-untyped-def]
    """Fill in what is kept of a draw: its white coordinates."""
    for k in range(size):
        kept[k] = white[k]
    return FINE

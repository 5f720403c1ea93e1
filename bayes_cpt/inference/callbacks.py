"""The log density as a C function: NUTS calls it without Python, so chains run side by side."""

import math
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import carray, types  # type: ignore[attr-defined]
from numba.extending import intrinsic

from bayes_cpt.inference.coordinates import evaluated, slopes_in_white
from bayes_cpt.model.law_kernel import NUMBERS
from bayes_cpt.model.packing import packed_at, unpacked

PLACES: Any = types.CPointer(NUMBERS)  # type: ignore[no-untyped-call]
# As nutpie calls them: how many numbers, where they are, where results go, and what is handed through.
DENSITY = types.int64(types.uint64, NUMBERS, NUMBERS, NUMBERS, PLACES)
EXPANSION = types.int64(types.uint64, types.uint64, NUMBERS, NUMBERS, types.voidptr)
# Tables that are handed through: those of `coordinates`, and what the log likelihoods are before the call.
TABLES = 6
FINE, NOT_FINITE = 0, 1


@intrinsic
def _fill_in(typing_context, law, values, study, by_curve, slopes):  # type: ignore[no-untyped-def]
    """Call the law of a model, `bayes_cpt.model.law_kernel` says how: it is other code for each."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        arrays = [
            context.make_array(signature.args[k])(context, builder, arguments[k]) for k in (1, 3, 4)
        ]
        of_values, likelihoods, of_slopes = (array.data for array in arrays)
        given = [arrays[0].nitems, of_values, arguments[2], likelihoods, of_slopes]
        kind = ir.FunctionType(ir.VoidType(), [each.type for each in given])
        builder.call(builder.bitcast(arguments[0], kind.as_pointer()), given)
        return context.get_dummy_value()

    return types.void(law, values, study, by_curve, slopes), generate


@numba.cfunc(DENSITY, cache=True, error_model="numpy")
def log_density(size, white, gradient, total, data):  # type: ignore[no-untyped-def]
    """Fill in log density and gradient at white coordinates.

    ``data`` holds where the law is, the tables, and what the law takes of the study.
    """
    given, position = packed_at(data[1], TABLES), carray(white, (size,))
    metric, bends = unpacked(given, TABLES, 0), unpacked(given, TABLES, 1)
    priors, template = unpacked(given, TABLES, 2), unpacked(given, TABLES, 3)[0]
    tables = (metric, bends, priors, template, unpacked(given, TABLES, 4))
    found = evaluated(position, tables)
    by_curve = unpacked(given, TABLES, 5)[0].copy()
    slopes = np.zeros((by_curve.size, template.size))
    _fill_in(data[0], found[1], data[2], by_curve, slopes)  # type: ignore[call-arg]
    total[0] = found[0] + by_curve.sum()
    finite = math.isfinite(total[0])
    for k, slope in enumerate(slopes_in_white(position, tables, found, slopes.sum(axis=0))):
        gradient[k] = slope
        finite = finite and math.isfinite(slope)
    return FINE if finite else NOT_FINITE


@numba.cfunc(EXPANSION, cache=True)
def as_they_are(size, expanded, white, kept, data):  # type: ignore[no-untyped-def]
    """Fill in what is kept of a draw: its white coordinates."""
    for k in range(size):
        kept[k] = white[k]
    return FINE

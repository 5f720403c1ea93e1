"""The log likelihood of a study's curves under a law, and its slopes, in loops that Numba compiles.

Everything about a study arrives in tables of numbers (`bayes_cpt.model.likelihood_tables`),
everything about a law in the code that `bayes_cpt.model.printed_law` prints from its terms.
"""

import math
from functools import cache
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from bayes_cpt.laws.areas import SMALLEST
from bayes_cpt.model import likelihood_tables as at
from bayes_cpt.model.packing import unpacked
from bayes_cpt.model.residual_kernel import COMPILED, curve_log_likelihood, workspace

VECTOR, TABLE = types.float64[:], types.float64[:, :]
# A law in C: the kind of a curve, parameters, reference, what the curve shares, columns and areas of its
# points, and where values and slopes go.
LAW: Any = types.void(types.int64, VECTOR, VECTOR, VECTOR, TABLE, TABLE, TABLE, TABLE)
# `law_log_likelihoods` in C, where the law is first.
WHOLE = types.float64[::1]
LIKELIHOOD: Any = types.void(types.intp, WHOLE, WHOLE, WHOLE, WHOLE, types.float64[:, ::1])
# Rows of each series as the printed code takes them: value and slope in PT, value and slope in CPT.
ROWS = 4


@numba.njit(**COMPILED)
def evaluate_series(number, series, table, values):  # type: ignore[no-untyped-def]
    """Fill in what a series is at each row of a table, and its slope, shape (2, rows)."""
    nodes, first = int(series[at.NODES]), int(series[at.NODE_FIRST])
    wave, slope = np.ones(nodes), np.zeros(nodes)
    if nodes > 1:
        # Levels are series in log(1 - lambda), which is -log of the memory.
        place = -math.log(number) if series[at.IN_LOGARITHM] > 0.0 else number
        inner = -1.0 / number if series[at.IN_LOGARITHM] > 0.0 else 1.0
        angle = math.acos((place - series[at.MIDDLE]) / series[at.HALF_WIDTH])
        for k in range(nodes):
            wave[k] = math.cos(k * angle)
            slope[k] = inner * k * math.sin(k * angle) / math.sin(angle) / series[at.HALF_WIDTH]
    for i in range(table.shape[0]):
        value, rise = 0.0, 0.0
        for k in range(nodes):
            value += table[i, first + k] * wave[k]
            rise += table[i, first + k] * slope[k]
        # A level may be raised to a power.
        values[0, i] = max(value, SMALLEST) if series[at.OF_PHASES] > 0.0 else value
        values[1, i] = rise


# By its place, so that what calls a law is compiled once for all laws.
@intrinsic
def _call(typing_context, place, given):  # type: ignore[no-untyped-def]
    """Call the function in C at a place with a tuple of what it is given."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values = cgutils.unpack_tuple(builder, arguments[1])  # type: ignore[no-untyped-call]
        kind = ir.FunctionType(ir.VoidType(), [value.type for value in values])
        builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), values)
        return context.get_dummy_value()

    return types.void(place, given), generate


call: Any = _call


def law_log_likelihoods(law, loss, values, study, totals, gradients):  # type: ignore[no-untyped-def]
    """Fill in the log likelihood of each curve, and its slopes by the values, 0 so far.

    ``law`` is where the function `LAW` is, which fills in `bayes_cpt.model.printed_law.OUTPUTS` and their
    slopes at the points of a curve, given its kind: twice its validation set, and one more in PT. Values
    are in the order of `bayes_cpt.model.setup.elements`; ``study`` is `likelihood_tables`, packed.
    """
    places, points = unpacked(study, at.TABLES, 0), unpacked(study, at.TABLES, 1)
    curves, areas = unpacked(study, at.TABLES, 2), unpacked(study, at.TABLES, 3)
    knots, series = unpacked(study, at.TABLES, 4), unpacked(study, at.TABLES, 5)
    reference = unpacked(study, at.TABLES, 6)[0]
    count, width, outputs = curves.shape[0], places.shape[1], 6
    domains = places.shape[0] // 6
    slope_outputs, slope_inputs = places[domains:], places[3 * domains :]
    place, height = points[at.PLACE], points[at.HEIGHT]
    floating, gap = points[at.FLOATING], points[at.GAP]
    columns = points[at.POINT_HEAD :]
    several, of_series = series.shape[0], places[5 * domains :]
    evaluated = np.empty((domains * several, 2, areas.shape[0]))
    evaluation = np.empty((domains, several), dtype=np.int64)
    for k in range(domains):
        for s in range(several):
            chosen = int(of_series[k, s])
            # What validation sets share is evaluated once.
            shared_series = k > 0 and chosen == int(of_series[0, s])
            evaluation[k, s] = s if shared_series else k * several + s
            if not shared_series:
                number = values[chosen] if chosen >= 0 else 1.0
                evaluate_series(number, series[s], areas, evaluated[evaluation[k, s]])
    room = workspace(place, curves[:, at.FIRST], curves[:, at.LAST])
    longest = room[0].shape[0]
    every_area, base_area = np.zeros((ROWS * several, longest)), np.zeros((ROWS * several, 1))
    every_value, every_slope = np.empty((outputs, longest)), np.empty((width, longest))
    base_value, base_slope = np.empty((outputs, 1)), np.empty((width, 1))
    every_back, every_residual = np.empty((outputs, longest)), np.empty(longest)
    parameters, own_places = np.empty(width), np.zeros(width, dtype=np.int64)
    members = at.CURVE_HEAD + columns.shape[0]
    for c in range(count):
        start, stop = int(curves[c, at.FIRST]), int(curves[c, at.LAST])
        size, domain = stop - start, int(curves[c, at.DOMAIN])
        known = curves[c, at.BASE_KNOWN] > 0.0
        given, residual = every_area[:, :size], every_residual[:size]
        results, slopes, back = every_value[:, :size], every_slope[:, :size], every_back[:, :size]
        for k in range(width):
            chosen = int(places[domain, k])
            if chosen < 0 and reference[0] > 0.0:
                chosen = int(curves[c, members - 1 - chosen])
            own_places[k] = max(chosen, 0)
            parameters[k] = values[own_places[k]]
        shared = curves[c, members + int(reference[0]) :]
        pretraining = curves[c, at.PRETRAINING] > 0.0
        of_base = 2 * domain + 1
        kind = of_base if pretraining else 2 * domain
        for s in range(several):
            # The level of PT is one along a curve of CPT, and that of CPT is not asked for in PT.
            later = series[s, at.OF_PHASES] > 0.0 and not pretraining
            for d in range(2):
                row, own = given[ROWS * s + (2 if later else 0) + d], evaluation[domain, s]
                for i in range(size):
                    row[i] = evaluated[own, d, int(points[at.AREA, start + i])]
                if later:
                    given[ROWS * s + d, 0] = evaluated[own, d, int(curves[c, at.BASE_AREA])]
        # A law that stops at an error leaves them so.
        results[0] = np.nan
        own_columns = columns[:, start:stop]
        call(law, (kind, parameters, reference[1:], shared, own_columns, given, results, slopes))
        distance = 0.0
        if known:
            for s in range(several):
                for d in range(2):
                    own = evaluation[domain, s]
                    base_area[ROWS * s + d, 0] = evaluated[own, d, int(curves[c, at.BASE_AREA])]
            base_value[0] = np.nan
            columns_there = curves[c : c + 1, at.CURVE_HEAD : members].T
            at_base = (columns_there, base_area, base_value, base_slope)
            call(law, (of_base, parameters, reference[1:], shared, *at_base))
            distance = curves[c, at.BASE_LOSS] - base_value[0, 0]
        for i in range(size):
            residual[i] = loss[start + i] - results[0, i] - distance * results[1, i]
            results[5, i] *= floating[start + i]
        own_knots = slice(int(curves[c, at.KNOT_FIRST]), int(curves[c, at.KNOT_LAST]))
        totals[c] = curve_log_likelihood(
            residual, results[2], results[3], results[4], results[5], gap[start:stop], place[start:stop],
            height[start:stop], floating[start], knots[0, own_knots], knots[1, own_knots], room,
            back[1], back[2], back[3], back[4], back[5],
        )  # fmt: skip
        through_base = 0.0
        for i in range(size):
            back[0, i] = -back[1, i]
            through_base += back[1, i] * results[1, i]
            back[1, i] = back[0, i] * distance
            back[5, i] *= floating[start + i]
        for k in range(width):
            output = int(slope_outputs[kind, k])
            if output >= 0:
                along = 0.0
                for i in range(size):
                    along += back[output, i] * slopes[k, i]
                gradients[c, own_places[int(slope_inputs[kind, k])]] += along
            if known and slope_outputs[of_base, k] == 0.0:
                by = own_places[int(slope_inputs[of_base, k])]
                gradients[c, by] += through_base * base_slope[k, 0]


@cache
def likelihood_in_c() -> Any:
    """Return `law_log_likelihoods` as a function in C, compiled by the first call on a machine."""
    return numba.cfunc(LIKELIHOOD, **COMPILED | {"forceinline": False})(law_log_likelihoods)


@numba.njit(cache=True)
def room_for_results(values, study):  # type: ignore[no-untyped-def]
    """Return room for what `law_log_likelihoods` fills in."""
    curves = unpacked(study, at.TABLES, 2).shape[0]
    return np.full(curves, np.nan), np.zeros((curves, values.size))


@numba.njit(cache=True, nogil=True)
def log_likelihoods(likelihood, law, loss, values, study):  # type: ignore[no-untyped-def]
    """Return what `law_log_likelihoods` fills in; likelihood and law are addresses of C functions."""
    totals, gradients = room_for_results(values, study)
    # C takes arrays as if they had no gaps.
    whole = (np.ascontiguousarray(loss), np.ascontiguousarray(values), np.ascontiguousarray(study))
    call(likelihood, (law, *whole, totals, gradients))
    return totals, gradients

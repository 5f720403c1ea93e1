"""The log likelihood of curves under a law, and its slopes, in loops that Numba compiles.

`law_log_likelihoods` is compiled once for all laws, and calls the equations of one by their address, which
`bayes_cpt.model.compiled.symbolic` writes (see `bayes_cpt.model.compiled.compilation`). Everything about a
law and a study arrives in arrays.
"""

import math

import numpy as np

from bayes_cpt.jit import numba
from bayes_cpt.laws.areas import SMALLEST
from bayes_cpt.model.compiled.elimination import COMPILED
from bayes_cpt.model.compiled.likelihood import curve_log_likelihood, workspace
from bayes_cpt.model.compiled.native import EQUATIONS, call_law
from bayes_cpt.model.likelihood_data import AREAS, MOMENTUM, MULTI_POWER, SPANS, WEIGHTED

# The parameter that forward areas depend on.
POWER = "forward_power"


@numba.njit(**COMPILED)
def _waves(number, middle, half_width, wave, slope):  # type: ignore[no-untyped-def]
    """Fill in the Chebyshev basis at a number, and its slope by the number."""
    if wave.size == 1:
        wave[0], slope[0] = 1.0, 0.0
        return
    angle = math.acos((number - middle) / half_width)
    for k in range(wave.size):
        wave[k] = math.cos(k * angle)
        slope[k] = k * math.sin(k * angle) / math.sin(angle) / half_width


@numba.njit(**COMPILED)
def _products(coefficients, waves, sums):  # type: ignore[no-untyped-def]
    """Fill in the products of each row of coefficients with two waves, shape (2, rows).

    Two rows at a time, so that what is read serves several sums; the last of an odd number twice.
    """
    rows, nodes = coefficients.shape
    first, second = waves[0], waves[1]
    for i in range(0, rows, 2):
        j = min(i + 1, rows - 1)
        a = b = c = d = 0.0
        for k in range(nodes):
            x, y = coefficients[i, k], coefficients[j, k]
            a += x * first[k]
            b += x * second[k]
            c += y * first[k]
            d += y * second[k]
        sums[0, i], sums[1, i] = a, b
        sums[0, j], sums[1, j] = c, d


@numba.njit(**COMPILED)
def _momentum_waves(paces, spans, waves):  # type: ignore[no-untyped-def]
    """Fill in the basis of levels by one or two momenta, and its slopes by memory, slow memory, share."""
    memory, slow, share = paces[0], paces[1], paces[2]
    middle, half_width = spans[0], spans[1]
    _waves(-math.log(memory), middle, half_width, waves[0], waves[1])
    if slow > 0.0:
        _waves(-math.log(slow), middle, half_width, waves[2], waves[3])
    for k in range(waves.shape[1]):
        fast, rise, late, late_rise = waves[0, k], waves[1, k], waves[2, k], waves[3, k]
        waves[0, k] = (1.0 - share) * fast + share * late
        waves[1, k] = -(1.0 - share) * rise / memory
        waves[2, k] = -share * late_rise / slow if slow > 0.0 else 0.0
        waves[3, k] = late - fast if slow > 0.0 else 0.0


@numba.njit(**COMPILED)
def _weighted_waves(paces, spans, waves):  # type: ignore[no-untyped-def]
    """Fill in the basis of weighted levels, and its slopes by memory and weight: rows of a product."""
    weights = int(spans[5])
    momenta = waves.shape[1] // weights
    first, first_slope = np.empty(momenta), np.empty(momenta)
    second, second_slope = np.empty(weights), np.empty(weights)
    _waves(-math.log(paces[0]), spans[0], spans[1], first, first_slope)
    _waves(paces[1], spans[3], spans[4], second, second_slope)
    for m in range(weights):
        for j in range(momenta):
            k = m * momenta + j
            waves[0, k] = second[m] * first[j]
            waves[1, k] = -second[m] * first_slope[j] / paces[0]
            waves[2, k] = second_slope[m] * first[j]
            waves[3, k] = 0.0


@numba.njit(**COMPILED)
def _levels_of_falls(paces, table, levels):  # type: ignore[no-untyped-def]
    """Fill in `bayes_cpt.laws.multi_power.fall_levels` and its slopes by C, beta and gamma."""
    rate, beta, gamma = paces[0], paces[1], paces[2]
    falls = table.shape[1] // 3
    for i in range(table.shape[0]):
        level, by_rate, by_beta, by_gamma = table[i, 0], 0.0, 0.0, 0.0
        for k in range(falls):
            size = table[i, 1 + k]
            if size == 0.0:
                continue
            log_rate = table[i, 1 + falls + k]
            moved = math.exp(table[i, 1 + 2 * falls + k] - gamma * log_rate)
            log_left = math.log1p(rate * moved)
            left = math.exp(-beta * log_left)
            level -= size * (1.0 - left)
            # Of C·moved its log has the slope that gamma and C act by.
            through = size * beta * left * rate * moved / (1.0 + rate * moved)
            by_rate -= through / rate
            by_beta -= size * left * log_left
            by_gamma += through * log_rate
        levels[0, i], levels[1, i], levels[2, i], levels[3, i] = level, by_rate, by_beta, by_gamma


@numba.njit(**COMPILED)
def learning_rate_levels(paces, spans, table, levels):  # type: ignore[no-untyped-def]
    """Fill in the level and its slopes by the parameters of the memory, shape (4, rows).

    The level is that of `bayes_cpt.laws.areas.AreaForm.levels`; series are in log(1 - lambda), which is
    -log of the memory, and in epsilon.

    Parameters
    ----------
    paces : ndarray, shape (3,)
        Memories in steps, and the share of the slow one: without a slow memory, 0, there is no share. Or
        memory and 1 + epsilon; or C, beta and gamma of the multi-power law.
    spans : ndarray, shape (6,)
        Middle and half-width of the interval of the momenta; which memory it is: `MOMENTUM`, `WEIGHTED` or
        `MULTI_POWER`; middle, half-width and nodes of the interval of 1 + epsilon.
    table : ndarray, shape (rows, columns)
        From `bayes_cpt.laws.areas.AreaForm.level_table`.
    levels : ndarray, shape (4, rows)
        Filled in.
    """
    if spans[2] == MULTI_POWER:
        _levels_of_falls(paces, table, levels)
        return
    waves = np.zeros((4, table.shape[1]))
    weighted = spans[2] == WEIGHTED
    if weighted:
        _weighted_waves(paces, spans, waves)
    else:
        _momentum_waves(paces, spans, waves)
    _products(table, waves[:2], levels[:2])
    if weighted or paces[1] > 0.0:
        _products(table, waves[2:], levels[2:])
    else:
        levels[2:] = 0.0
    if not weighted:
        for i in range(levels.shape[1]):
            levels[0, i] = max(levels[0, i], SMALLEST)


@numba.njit(**COMPILED)
def log_forward_areas(power, middle, half_width, coefficients, areas):  # type: ignore[no-untyped-def]
    """Fill in the log of the forward area and its slope by the forward power, shape (2, rows).

    Parameters
    ----------
    power : float
    middle, half_width : float
        Of the interval of the series.
    coefficients : ndarray, shape (rows, nodes)
    areas : ndarray, shape (2, rows)
        Filled in.
    """
    waves = np.empty((2, coefficients.shape[1]))
    _waves(power, middle, half_width, waves[0], waves[1])
    _products(coefficients, waves, areas)


@numba.njit(inline="always", **COMPILED)
def evaluate(  # type: ignore[no-untyped-def]
    law, kind, parameters, reference, curve, columns, areas, values, slopes
):
    """Fill in what the equations of a law give at the points of one curve.

    They give `bayes_cpt.model.compiled.symbolic.OUTPUTS`, and the slopes of these by the parameters of the
    curve's validation set.

    Parameters
    ----------
    law : int
        Address of its record.
    kind : int
        Of the curve: twice the validation set, and one more in PT.
    parameters : ndarray, shape (parameters,)
        Of the curve's validation set.
    reference : ndarray, shape (5,)
        Learning rate, forward areas of PT and of CPT, steps, unique steps.
    curve : ndarray
        What all points of the curve share.
    columns : ndarray, shape (columns, points)
        What differs between them.
    areas : ndarray, shape (AREAS, points)
        What of this depends on momenta and forward power.
    values : ndarray, shape (6, points)
        Filled in.
    slopes : ndarray, shape (slopes, points)
        Filled in; from row to row as far as `values`, as are the areas.
    """
    row, column_row = values.strides[0] // values.itemsize, columns.strides[0] // columns.itemsize
    arrays = (parameters, reference, curve, columns, areas, values, slopes)
    given = (kind, *arrays, values.shape[1], row, column_row)
    call_law(law, EQUATIONS, given)  # type: ignore[call-arg]


def law_log_likelihoods(  # type: ignore[no-untyped-def]
    law, tables, loss, values, numbers, domain, member, shared, known, base_loss, columns, base_columns,
    area_level, area_forward, point_area, base_area, base_first, gap, place, height, floating, first, last,
    knot_first, knot_carried, knot_innovation, totals, gradients,
):  # fmt: skip
    """Fill in the log likelihood of each curve, and its slopes by the values.

    The arrays are those of `bayes_cpt.model.likelihood_data.likelihood_data`. Loops in place of array
    expressions compile several times faster.

    Parameters
    ----------
    law : int
        Address of its record.
    tables : tuple of ndarray of int
        Which values the law of each validation set takes (below 0 the first, second ... of those of the
        curve's groups); which output, and which of these values, each slope of a kind of curves belongs to
        (-1 where there is none); where the values of the memory and of `POWER` stand (-1 where the law has
        none).
    loss : ndarray, shape (points,)
        Measured, nats/token.
    values : ndarray, shape (values,)
        Of the law's parameters, in the order of `bayes_cpt.model.elements.elements`.
    numbers : ndarray
        ``reference``.
    domain, member, shared : ndarray, a row per curve
        ``curve_domain``, ``curve_member`` and ``curve_shared``.
    known, base_loss : ndarray, shape (curves,)
        Whether the curve starts at a measured loss, and which.
    columns, base_columns : ndarray, a column per point, and per curve
        ``point_columns``, and the same at the base.
    area_level, area_forward : ndarray, a row per step of a schedule
        Coefficients of levels and of log forward areas.
    point_area, base_area : ndarray of int, shape (points,) and (curves,)
        Which of these rows belongs to each point, and to each curve's base.
    base_first : ndarray of int, shape (curves,)
        Of each curve the first one whose base the law sees alike.
    gap, place, height, floating : ndarray, shape (points,)
        ``point_gap``, ``point_place``, ``point_height`` and ``point_floating``.
    first, last : ndarray of int, shape (curves,)
        Which points a curve has.
    knot_first : ndarray of int, shape (curves + 1,)
        Which knots of the misfit it has.
    knot_carried, knot_innovation : ndarray, shape (knots,)
    totals : ndarray, shape (curves,)
        Filled in.
    gradients : ndarray, shape (curves, values), or (curves, 0) where they are not wanted
        Filled in.
    """
    parameter_places, slope_outputs, slope_inputs, pace_places = tables
    count, slope_count, sloped = first.size, slope_outputs.shape[1], gradients.shape[1] > 0
    reference, spans = numbers[:5], numbers[SPANS:]
    level, area = np.empty((4, area_level.shape[0])), np.empty((2, area_level.shape[0]))
    paces = np.zeros(3)
    for k in range(3):
        if pace_places[k] >= 0:
            paces[k] = values[pace_places[k]]
    power = values[pace_places[3]] if pace_places[3] >= 0 else 1.0
    learning_rate_levels(paces, spans, area_level, level)
    # Of one memory there is one slope.
    level_rows = 2 if spans[2] == MOMENTUM and paces[1] == 0.0 else 4
    log_forward_areas(power, numbers[5], numbers[6], area_forward, area)
    room = workspace(place, first, last)
    longest = room[0].shape[0]
    every_area, base_areas = np.zeros((AREAS, longest)), np.zeros((AREAS, count))
    every_value, every_slope = np.empty((6, longest)), np.empty((slope_count, longest))
    base_value, base_slope = np.empty((6, count)), np.empty((slope_count, count))
    every_back, every_residual = np.empty((6, longest)), np.empty(longest)
    parameters = np.empty(parameter_places.shape[1])
    places_here = np.empty(parameter_places.shape[1], dtype=np.int64)
    seen = np.zeros(count, dtype=np.bool_)
    gradients[:] = 0.0
    for c in range(count):
        start, stop, d = first[c], last[c], domain[c]
        size, knots = stop - start, slice(knot_first[c], knot_first[c + 1])
        areas, results, slopes = every_area[:, :size], every_value[:, :size], every_slope[:, :size]
        back, residual = every_back[:, : size if sloped else 0], every_residual[:size]
        for k in range(parameter_places.shape[1]):
            places_here[k] = parameter_places[d, k]
            if places_here[k] < 0:
                places_here[k] = np.int64(member[c, -1 - places_here[k]])
            parameters[k] = values[places_here[k]]
        continual = shared[c, 2] == 0.0
        pretrained = 2 * d + 1
        phase = 2 * d if continual else pretrained
        # The level of PT is one along a curve of CPT, and that of CPT is not asked for in PT.
        for row in range(level_rows):
            levels_here = areas[2 * row + (1 if continual else 0)]
            for i in range(size):
                levels_here[i] = level[row, point_area[start + i]]
            if continual:
                areas[2 * row, 0] = level[row, base_area[c]]
        for row in range(2):
            for i in range(size):
                areas[8 + row, i] = area[row, point_area[start + i]]
        given = columns[:, start:stop]
        evaluate(law, phase, parameters, reference, shared[c], given, areas, results, slopes)
        distance, b = 0.0, base_first[c]
        if known[c] > 0.0:
            if not seen[b]:
                seen[b] = True
                for row in range(level_rows):
                    base_areas[2 * row, b] = level[row, base_area[b]]
                for row in range(2):
                    base_areas[8 + row, b] = area[row, base_area[b]]
                of_base = slice(b, b + 1)
                evaluate(
                    law, pretrained, parameters, reference, shared[b], base_columns[:, of_base],
                    base_areas[:, of_base], base_value[:, of_base], base_slope[:, of_base],
                )  # fmt: skip
            distance = base_loss[c] - base_value[0, b]
        for i in range(size):
            residual[i] = loss[start + i] - results[0, i] - distance * results[1, i]
            results[5, i] *= floating[start + i]
        totals[c] = curve_log_likelihood(
            residual, results[2], results[3], results[4], results[5], gap[start:stop], place[start:stop],
            height[start:stop], floating[start], knot_carried[knots], knot_innovation[knots], room,
            back[1], back[2], back[3], back[4], back[5],
        )  # fmt: skip
        if not sloped:
            continue
        through_base = 0.0
        for i in range(size):
            back[0, i] = -back[1, i]
            through_base += back[1, i] * results[1, i]
            back[1, i] = back[0, i] * distance
            back[5, i] *= floating[start + i]
        for s in range(slope_count):
            output = slope_outputs[phase, s]
            if output >= 0:
                along = 0.0
                for i in range(size):
                    along += back[output, i] * slopes[s, i]
                gradients[c, places_here[slope_inputs[phase, s]]] += along
            if known[c] > 0.0 and slope_outputs[pretrained, s] == 0:
                gradients[c, places_here[slope_inputs[pretrained, s]]] += (
                    through_base * base_slope[s, b]
                )

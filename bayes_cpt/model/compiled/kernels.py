"""The log density and its gradient, in loops that Numba compiles.

`log_density` is compiled together with the law of a specification, `evaluate`, which
`bayes_cpt.model.compiled.symbolic` writes (see `bayes_cpt.model.compiled.compilation`). Everything else
about a study arrives in arrays.
"""

import math
from typing import Any

import numba
import numpy as np

from bayes_cpt.model.compiled.coordinates import join_slopes, separate_paces
from bayes_cpt.model.compiled.likelihood import COMPILED, curve_log_likelihood, workspace

# How a parameter is sampled.
NORMAL, LOG_NORMAL, LOGIT_NORMAL, BOUNDED = range(4)
# Parameters that the annealing areas depend on.
PACES = ("memory", "slow_memory", "slow_share")


@numba.njit(cache=True, error_model="numpy")
def constrain(unconstrained, kind, center, spread, lower, upper, value, slope, density_slope):  # type: ignore[no-untyped-def]
    """Fill in each parameter's value and its slopes; return the log density of the priors.

    A bounded log-normal is sampled as the logit of where it lies between its bounds.
    """
    total = 0.0
    for j in range(unconstrained.shape[0]):
        u = unconstrained[j]
        if kind[j] == BOUNDED:
            share = 1.0 / (1.0 + math.exp(-u))
            width = upper[j] - lower[j]
            value[j] = lower[j] + width * share
            slope[j] = width * share * (1.0 - share)
            log_value = math.log(value[j])
            scaled = (log_value - center[j]) / spread[j]
            high = (math.log(upper[j]) - center[j]) / spread[j]
            low = (math.log(lower[j]) - center[j]) / spread[j]
            root = math.sqrt(0.5)
            mass = 0.5 * (math.erf(high * root) - math.erf(low * root))
            total += math.log(slope[j]) - log_value - math.log(mass)
            density_slope[j] = 1.0 - 2.0 * share - (1.0 + scaled / spread[j]) * slope[j] / value[j]
        else:
            scaled = (u - center[j]) / spread[j]
            density_slope[j] = -scaled / spread[j]
            if kind[j] == NORMAL:
                value[j], slope[j] = u, 1.0
            elif kind[j] == LOG_NORMAL:
                value[j] = math.exp(u)
                slope[j] = value[j]
            else:
                value[j] = 1.0 / (1.0 + math.exp(-u))
                slope[j] = value[j] * (1.0 - value[j])
        total -= 0.5 * scaled**2 + math.log(spread[j]) + 0.5 * math.log(2.0 * math.pi)
    return total


@numba.njit(**COMPILED)
def _waves(memory, middle, half_width, wave, slope):  # type: ignore[no-untyped-def]
    """Fill in the Chebyshev basis of S2 over the memory, and its slope by the memory."""
    angle = math.acos((-math.log(memory) - middle) / half_width)
    for k in range(wave.size):
        wave[k] = math.cos(k * angle)
        slope[k] = -k * math.sin(k * angle) / math.sin(angle) / half_width / memory


@numba.njit(**COMPILED)
def _products(coefficients, waves, areas):  # type: ignore[no-untyped-def]
    """Fill in the products of each point's coefficients with four waves, shape (4, points).

    Two points at a time, so that what is read serves several sums; the last of an odd number twice.
    """
    points, nodes = coefficients.shape
    first, second, third, fourth = waves[0], waves[1], waves[2], waves[3]
    for i in range(0, points, 2):
        j = min(i + 1, points - 1)
        a = b = c = d = e = f = g = h = 0.0
        for k in range(nodes):
            x, y = coefficients[i, k], coefficients[j, k]
            a += x * first[k]
            b += x * second[k]
            c += x * third[k]
            d += x * fourth[k]
            e += y * first[k]
            f += y * second[k]
            g += y * third[k]
            h += y * fourth[k]
        areas[0, i], areas[1, i], areas[2, i], areas[3, i] = a, b, c, d
        areas[0, j], areas[1, j], areas[2, j], areas[3, j] = e, f, g, h


@numba.njit(**COMPILED)
def annealing_areas(memory, slow, share, middle, half_width, coefficients, areas):  # type: ignore[no-untyped-def]
    """Fill in S2 and its slopes by memory, slow memory and share, shape (4, points).

    S2 is that of `bayes_cpt.laws.momentum.annealing_basis`, from Chebyshev coefficients, shape (points,
    nodes). Without a slow memory, 0, there is no share.
    """
    nodes = coefficients.shape[1]
    waves = np.zeros((4, nodes))
    _waves(memory, middle, half_width, waves[0], waves[1])
    if slow > 0.0:
        _waves(slow, middle, half_width, waves[2], waves[3])
    for k in range(nodes):
        fast, rise, late, late_rise = waves[0, k], waves[1, k], waves[2, k], waves[3, k]
        mixed = (1.0 - share) * fast + share * late
        waves[0, k] = memory * mixed
        waves[1, k] = mixed + memory * (1.0 - share) * rise
        waves[2, k] = memory * share * late_rise
        waves[3, k] = memory * (late - fast) if slow > 0.0 else 0.0
    _products(coefficients, waves, areas)


def evaluate(
    kind: Any, parameters: Any, reference: Any, curve: Any, columns: Any, values: Any, slopes: Any
) -> None:
    """Stand for the law of a specification, which the generated module defines under this name.

    It fills in `bayes_cpt.model.compiled.symbolic.OUTPUTS` at the points of one curve, shape (6, points),
    and their slopes by the parameters of the curve's validation set. A kind of curves is twice the
    validation set, and one more in PT.
    """
    raise NotImplementedError(
        "log_density runs in the modules that bayes_cpt.model.compiled.compilation writes"
    )


def log_density(z, metric, priors, law, curves, design):  # type: ignore[no-untyped-def]
    """Return the log density at white coordinates z, and its gradient.

    The groups of arrays are those of `bayes_cpt.model.density.Density`. Loops in place of array expressions
    compile several times faster.
    """
    center, factor = metric
    kind, prior_center, prior_spread, lower, upper, fixed = priors
    indices, outputs, inputs, reference, middle, half_width, paces, pace_offset = law
    domain, shared, known, base_loss, columns, base_columns, own_area, base_area, loss = curves
    gap, place, floating, first, last, knot_first, knot_carried, knot_innovation = design
    size, points, count, slope_count = z.size, loss.size, first.size, outputs.shape[1]
    value = np.empty(size + fixed.size)
    for j in range(fixed.size):
        value[size + j] = fixed[j]
    position, slope, density_slope = np.empty(size), np.empty(size), np.empty(size)
    for a in range(size):
        position[a] = center[a]
        for b in range(size):
            position[a] += factor[a, b] * z[b]
    separate_paces(position, paces, pace_offset)
    total = constrain(
        position, kind, prior_center, prior_spread, lower, upper, value, slope, density_slope
    )

    area, level = np.empty((4, points)), np.empty((4, count))
    memory = value[paces[0]]
    slow = value[paces[1]] if paces[1] >= 0 else 0.0
    share = value[paces[2]] if paces[2] >= 0 else 0.0
    annealing_areas(memory, slow, share, middle, half_width, own_area, area)
    annealing_areas(memory, slow, share, middle, half_width, base_area, level)
    room = workspace(place, first, last)
    longest = room[0].shape[0]
    every_row, base_row = np.zeros((longest, 12)), np.zeros((1, 12))
    every_value, every_slope = np.empty((6, longest)), np.empty((slope_count, longest))
    base_value, base_slope = np.empty((6, 1)), np.empty((slope_count, 1))
    every_back, every_residual = np.empty((6, longest)), np.empty(longest)
    parameters, gathered = np.empty(indices.shape[1]), np.zeros(value.size)
    for c in range(count):
        start, stop, d = first[c], last[c], domain[c]
        own, knots = stop - start, slice(knot_first[c], knot_first[c + 1])
        rows, values, slopes = every_row[:own], every_value[:, :own], every_slope[:, :own]
        back, residual = every_back[:, :own], every_residual[:own]
        for k in range(indices.shape[1]):
            parameters[k] = value[indices[d, k]]
        continual = shared[c, 1] == 0.0
        pretrained = 2 * d + 1
        phase = 2 * d if continual else pretrained
        for i in range(own):
            for k in range(4):
                rows[i, k] = columns[start + i, k]
            for row in range(4):
                here = area[row, start + i]
                rows[i, 4 + 2 * row] = level[row, c] if continual else here
                rows[i, 5 + 2 * row] = here if continual else 0.0
        evaluate(phase, parameters, reference, shared[c], rows, values, slopes)
        distance = 0.0
        if known[c] > 0.0:
            for k in range(4):
                base_row[0, k] = base_columns[c, k]
            for row in range(4):
                base_row[0, 4 + 2 * row] = level[row, c]
            evaluate(pretrained, parameters, reference, shared[c], base_row, base_value, base_slope)
            distance = base_loss[c] - base_value[0, 0]
        for i in range(own):
            residual[i] = loss[start + i] - values[0, i] - distance * values[1, i]
        total += curve_log_likelihood(
            residual, values[2], values[3], values[4], values[5], gap[start:stop], place[start:stop],
            floating[start], knot_carried[knots], knot_innovation[knots], room,
            back[1], back[2], back[3], back[4], back[5],
        )  # fmt: skip
        through_base = 0.0
        for i in range(own):
            back[0, i] = -back[1, i]
            through_base += back[1, i] * values[1, i]
            back[1, i] = back[0, i] * distance
        for s in range(slope_count):
            output = outputs[phase, s]
            if output >= 0:
                along = 0.0
                for i in range(own):
                    along += back[output, i] * slopes[s, i]
                gathered[indices[d, inputs[phase, s]]] += along
            if known[c] > 0.0 and outputs[pretrained, s] == 0:
                gathered[indices[d, inputs[pretrained, s]]] += through_base * base_slope[s, 0]
    for a in range(size):
        density_slope[a] += gathered[a] * slope[a]
    join_slopes(density_slope, position, paces, pace_offset)
    gradient = np.zeros(size)
    for a in range(size):
        for b in range(size):
            gradient[b] += density_slope[a] * factor[a, b]
    return total, gradient

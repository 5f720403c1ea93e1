"""The log density and its gradient, in loops that Numba compiles.

`log_density` is compiled together with the law of a specification, `evaluate`, which `bayes_cpt.symbolic`
writes (see `bayes_cpt.compilation`). Everything else about a study arrives in arrays.
"""

import math
from typing import Any

import numba
import numpy as np

from bayes_cpt.likelihood import curve_log_likelihoods

# How a parameter is sampled.
NORMAL, LOG_NORMAL, LOGIT_NORMAL, BOUNDED, FIXED = range(5)


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


@numba.njit(cache=True, error_model="numpy")
def annealing_areas(memory, middle, half_width, coefficients, area, slope):  # type: ignore[no-untyped-def]
    """Fill in S2 and its slope by the memory from Chebyshev coefficients, shape (points, nodes)."""
    nodes = coefficients.shape[1]
    angle = math.acos((-math.log(memory) - middle) / half_width)
    wave = np.empty(nodes)
    rise = np.empty(nodes)
    for k in range(nodes):
        wave[k] = memory * math.cos(k * angle)
        rise[k] = math.cos(k * angle) - k * math.sin(k * angle) / math.sin(angle) / half_width
    for i in range(coefficients.shape[0]):
        total, slopes = 0.0, 0.0
        for k in range(nodes):
            total += coefficients[i, k] * wave[k]
            slopes += coefficients[i, k] * rise[k]
        area[i], slope[i] = total, slopes


def evaluate(
    domain: Any, parameters: Any, reference: Any, curve: Any, columns: Any, values: Any, slopes: Any
) -> None:
    """Stand for the law of a specification, which the generated module defines under this name.

    It fills in `bayes_cpt.symbolic.OUTPUTS` at the points of one curve, shape (points, 6), and their slopes
    by the parameters of the curve's validation set.
    """
    raise NotImplementedError("log_density runs in the modules that bayes_cpt.compilation writes")


def log_density(z, metric, priors, law, curves, design):  # type: ignore[no-untyped-def]
    """Return the log density at white coordinates z, and its gradient.

    The groups of arrays are those of `bayes_cpt.density.Density`. Loops in place of array expressions
    compile several times faster.
    """
    center, factor = metric
    kind, prior_center, prior_spread, lower, upper, fixed = priors
    indices, outputs, inputs, reference, middle, half_width, memory_index = law
    domain, shared, known, base_loss, columns, base_columns, own_area, base_area, loss = curves
    gap, follows, ramps, floating, first, last = design
    size, points, count, slope_count = z.size, loss.size, first.size, outputs.shape[1]
    value = np.empty(size + fixed.size)
    for j in range(fixed.size):
        value[size + j] = fixed[j]
    position, slope, density_slope = np.empty(size), np.empty(size), np.empty(size)
    for a in range(size):
        position[a] = center[a]
        for b in range(size):
            position[a] += factor[a, b] * z[b]
    total = constrain(
        position, kind, prior_center, prior_spread, lower, upper, value, slope, density_slope
    )

    rows, base_rows = np.zeros((points, 8)), np.zeros((count, 8))
    area, area_slope = np.empty(points), np.empty(points)
    level, level_slope = np.empty(count), np.empty(count)
    memory = value[memory_index]
    annealing_areas(memory, middle, half_width, own_area, area, area_slope)
    annealing_areas(memory, middle, half_width, base_area, level, level_slope)
    values, slopes = np.empty((points, 6)), np.empty((points, slope_count))
    base_values, base_slopes = np.zeros((count, 6)), np.zeros((count, slope_count))
    residual, fluctuation, correlation = np.empty(points), np.empty(points), np.empty(points)
    misfit, offset = np.empty(points), np.empty(points)
    parameters = np.empty(indices.shape[1])
    for c in range(count):
        start, stop, d = first[c], last[c], domain[c]
        for k in range(indices.shape[1]):
            parameters[k] = value[indices[d, k]]
        continual = shared[c, 1] == 0.0
        for i in range(start, stop):
            for k in range(4):
                rows[i, k] = columns[i, k]
            rows[i, 4] = level[c] if continual else area[i]
            rows[i, 6] = level_slope[c] if continual else area_slope[i]
            if continual:
                rows[i, 5], rows[i, 7] = area[i], area_slope[i]
        evaluate(
            d, parameters, reference, shared[c], rows[start:stop], values[start:stop],
            slopes[start:stop],
        )  # fmt: skip
        distance = 0.0
        if known[c] > 0.0:
            for k in range(4):
                base_rows[c, k] = base_columns[c, k]
            base_rows[c, 4], base_rows[c, 6] = level[c], level_slope[c]
            one = slice(c, c + 1)
            evaluate(
                d, parameters, reference, shared[c], base_rows[one], base_values[one],
                base_slopes[one],
            )  # fmt: skip
            distance = base_loss[c] - base_values[c, 0]
        for i in range(start, stop):
            residual[i] = loss[i] - values[i, 0] - distance * values[i, 1]
            fluctuation[i], correlation[i] = values[i, 2], values[i, 3]
            misfit[i], offset[i] = values[i, 4], values[i, 5]

    likelihoods, d_residual, d_fluctuation, d_correlation, d_misfit, d_offset = (
        curve_log_likelihoods(
            residual, fluctuation, correlation, misfit, offset,
            gap, follows, ramps, floating, first, last,
        )
    )  # fmt: skip

    gathered = np.zeros(value.size)
    back = np.empty(6)
    for c in range(count):
        total += likelihoods[c]
        d = domain[c]
        distance = base_loss[c] - base_values[c, 0] if known[c] > 0.0 else 0.0
        through_base = 0.0
        for i in range(first[c], last[c]):
            back[0] = -d_residual[i]
            back[1] = back[0] * distance
            back[2], back[3] = d_fluctuation[i], d_correlation[i]
            back[4], back[5] = d_misfit[i], d_offset[i]
            through_base -= back[0] * values[i, 1]
            for s in range(slope_count):
                if outputs[d, s] >= 0:
                    gathered[indices[d, inputs[d, s]]] += back[outputs[d, s]] * slopes[i, s]
        if known[c] > 0.0:
            for s in range(slope_count):
                if outputs[d, s] == 0:
                    gathered[indices[d, inputs[d, s]]] += through_base * base_slopes[c, s]
    gradient = np.zeros(size)
    for a in range(size):
        along = gathered[a] * slope[a] + density_slope[a]
        for b in range(size):
            gradient[b] += along * factor[a, b]
    return total, gradient

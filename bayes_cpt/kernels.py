"""The log density and its gradient, in loops that Numba compiles.

`log_density` is compiled together with the law of a specification, `evaluate`, which `bayes_cpt.symbolic`
writes (see `bayes_cpt.compilation`). Everything else about a study arrives in arrays.
"""

import math
from typing import Any

import numba
import numpy as np

from bayes_cpt.likelihood import total_log_likelihood

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

    The groups of arrays are those of `bayes_cpt.density.Density`.
    """
    center, factor = metric
    kind, prior_center, prior_spread, lower, upper, fixed = priors
    indices, outputs, inputs, reference, middle, half_width, memory_index = law
    domain, shared, known, base_loss, columns, base_columns, own_area, base_area, loss = curves
    gap, follows, ramps, floating, first, last = design
    size, points, count = z.shape[0], loss.shape[0], first.shape[0]
    value = np.empty(size + fixed.shape[0])
    value[size:] = fixed
    slope, density_slope = np.empty(size), np.empty(size)
    position = center + np.dot(factor, z)
    total = constrain(
        position, kind, prior_center, prior_spread, lower, upper, value, slope, density_slope
    )

    rows, base_rows = columns.copy(), base_columns.copy()
    area, area_slope = np.empty(points), np.empty(points)
    level, level_slope = np.empty(count), np.empty(count)
    memory = value[memory_index]
    annealing_areas(memory, middle, half_width, own_area, area, area_slope)
    annealing_areas(memory, middle, half_width, base_area, level, level_slope)
    values, slopes = np.empty((points, 6)), np.empty((points, outputs.shape[1]))
    base_values, base_slopes = np.empty((count, 6)), np.empty((count, outputs.shape[1]))
    scales = np.empty((5, points))
    for c in range(count):
        start, stop, d = first[c], last[c], domain[c]
        continual = shared[c, 1] == 0.0
        for i in range(start, stop):
            rows[i, 4] = level[c] if continual else area[i]
            rows[i, 5] = area[i] if continual else 0.0
            rows[i, 6] = level_slope[c] if continual else area_slope[i]
            rows[i, 7] = area_slope[i] if continual else 0.0
        base_rows[c, 4], base_rows[c, 6] = level[c], level_slope[c]
        base_rows[c, 5], base_rows[c, 7] = 0.0, 0.0
        own = value[indices[d]]
        evaluate(
            d, own, reference, shared[c], rows[start:stop], values[start:stop], slopes[start:stop]
        )
        offset = 0.0
        if known[c] > 0.0:
            evaluate(
                d,
                own,
                reference,
                shared[c],
                base_rows[c : c + 1],
                base_values[c : c + 1],
                base_slopes[c : c + 1],
            )
            offset = base_loss[c] - base_values[c, 0]
        for i in range(start, stop):
            scales[0, i] = loss[i] - values[i, 0] - offset * values[i, 1]
            for k in range(2, 6):
                scales[k - 1, i] = values[i, k]

    likelihood = total_log_likelihood(
        scales[0], scales[1], scales[2], scales[3], scales[4],
        gap, follows, ramps, floating, first, last,
    )  # fmt: skip
    total += likelihood[0].item()

    gathered = np.zeros(value.shape[0])
    back = np.empty(6)
    for c in range(count):
        d = domain[c]
        offset = base_loss[c] - base_values[c, 0] if known[c] > 0.0 else 0.0
        through_base = 0.0
        for i in range(first[c], last[c]):
            back[0] = -likelihood[1][i]
            back[1] = back[0] * offset
            back[2], back[3] = likelihood[2][i], likelihood[3][i]
            back[4], back[5] = likelihood[4][i], likelihood[5][i]
            through_base -= back[0] * values[i, 1]
            for s in range(outputs.shape[1]):
                if outputs[d, s] >= 0:
                    gathered[indices[d, inputs[d, s]]] += back[outputs[d, s]] * slopes[i, s]
        if known[c] > 0.0:
            for s in range(outputs.shape[1]):
                if outputs[d, s] == 0:
                    gathered[indices[d, inputs[d, s]]] += through_base * base_slopes[c, s]
    gradient = gathered[:size] * slope + density_slope
    return total, np.dot(gradient, factor)

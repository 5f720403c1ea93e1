"""Areas and levels run along one schedule, for many exponents at once, in loops that Numba compiles."""

from typing import Any

import numba
import numpy as np

COMPILED: dict[str, Any] = {"cache": True, "error_model": "numpy", "nogil": True}
FLOATS = numba.types.Array(numba.float64, 1, "C")
READ_ONLY = numba.types.Array(numba.float64, 1, "C", readonly=True)
INTEGERS = numba.types.Array(numba.int64, 1, "C", readonly=True)
TABLE = numba.types.Array(numba.float64, 2, "C")


@numba.njit(numba.void(READ_ONLY, READ_ONLY, INTEGERS, TABLE), **COMPILED)
def fill_forward_areas(rates, powers, points, table):  # type: ignore[no-untyped-def]
    """Fill a table with `bayes_cpt.laws.areas.forward_areas` after rising steps."""
    areas, added = np.zeros(powers.size), np.zeros(powers.size)
    rate, step = np.nan, 0
    for i in range(points.size):
        while step < points[i]:
            if rates[step] != rate:
                rate = rates[step]
                log_rate = np.log(rate) if rate > 0.0 else -np.inf
                for p in range(powers.size):
                    added[p] = np.exp(powers[p] * log_rate)
            for p in range(powers.size):
                areas[p] += added[p]
            step += 1
        for p in range(powers.size):
            table[i, p] = areas[p]


@numba.njit(numba.void(READ_ONLY, READ_ONLY, FLOATS, READ_ONLY, INTEGERS, TABLE), **COMPILED)
def fill_levels(rates, paces, levels, log_momenta, points, table):  # type: ignore[no-untyped-def]
    """Fill a table with `bayes_cpt.laws.areas.run_levels` after rising steps, in O(steps) of the schedule.

    ``levels`` are e_0 for each momentum, and left as e after the last of the points.
    """
    taken = -np.expm1(log_momenta)
    pace, step = 1.0, 0
    for i in range(points.size):
        while step < points[i]:
            if paces[step] != pace:
                pace = paces[step]
                for j in range(taken.size):
                    taken[j] = -np.expm1(pace * log_momenta[j])
            for j in range(taken.size):
                levels[j] += taken[j] * (rates[step] - levels[j])
            step += 1
        for j in range(taken.size):
            table[i, j] = levels[j]

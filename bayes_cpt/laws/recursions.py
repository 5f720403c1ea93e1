"""Areas and levels run along one schedule, for many exponents at once, in loops that Numba compiles."""

import numba
import numpy as np

FLOATS = numba.types.Array(numba.float64, 1, "C")
READ_ONLY = numba.types.Array(numba.float64, 1, "C", readonly=True)
INTEGERS = numba.types.Array(numba.int64, 1, "C", readonly=True)
TABLE = numba.types.Array(numba.float64, 2, "C")


@numba.njit(
    numba.void(READ_ONLY, READ_ONLY, INTEGERS, TABLE),
    cache=True,
    error_model="numpy",
    nogil=True,
)
def fill_forward_areas(rates, powers, points, table):  # type: ignore[no-untyped-def]
    """Fill in the sum of the learning rates to each power after some steps.

    Parameters
    ----------
    rates : ndarray, shape (steps,)
        Learning rate of each step.
    powers : ndarray, shape (powers,)
        Above 0.
    points : ndarray of int, shape (points,)
        Rising steps; 0 is before the first.
    table : ndarray, shape (points, powers)
        Filled in.
    """
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


@numba.njit(
    numba.void(READ_ONLY, READ_ONLY, FLOATS, READ_ONLY, INTEGERS, TABLE),
    cache=True,
    error_model="numpy",
    nogil=True,
)
def fill_levels(rates, paces, levels, log_momenta, points, table):  # type: ignore[no-untyped-def]
    """Fill in the level after some steps for each momentum, in O(steps) of the schedule.

    Parameters
    ----------
    rates : ndarray, shape (steps,)
        Learning rate of each step.
    paces : ndarray, shape (steps,)
        How far the memory's clock moves in each step; 1 for a memory in steps.
    levels : ndarray, shape (nodes,)
        e_0 for each momentum; left as e after the last of the points.
    log_momenta : ndarray, shape (nodes,)
    points : ndarray of int, shape (points,)
        Rising steps; 0 is before the first.
    table : ndarray, shape (points, nodes)
        Filled in.
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

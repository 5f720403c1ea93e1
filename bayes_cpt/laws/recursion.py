"""The annealing memory run along a schedule, for many momenta at once (docs/law.md, "Areas"), by Numba."""

import numba
import numpy as np

FLOATS = numba.types.Array(numba.float64, 1, "C")
READ_ONLY = numba.types.Array(numba.float64, 1, "C", readonly=True)
INTEGERS = numba.types.Array(numba.int64, 1, "C", readonly=True)
TABLE = numba.types.Array(numba.float64, 2, "C")


@numba.njit(
    numba.void(READ_ONLY, numba.float64, READ_ONLY, FLOATS, INTEGERS, TABLE),
    cache=True,
    error_model="numpy",
    nogil=True,
)
def fill_annealing(rates, before, momenta, memories, points, areas):  # type: ignore[no-untyped-def]
    """Fill in S2 after some steps for each momentum, in O(steps) of the schedule.

    Parameters
    ----------
    rates : ndarray, shape (steps,)
        Learning rate of each step.
    before : float
        eta_0.
    momenta : ndarray, shape (nodes,)
    memories : ndarray, shape (nodes,)
        m_0 for each momentum; left as m after the last of the points.
    points : ndarray of int, shape (points,)
        Rising steps; 0 is before the first.
    areas : ndarray, shape (points, nodes)
        Filled in.
    """
    total = np.zeros(momenta.size)
    step = 0
    for i in range(points.size):
        while step < points[i]:
            fall = before - rates[step]
            before = rates[step]
            for j in range(momenta.size):
                memories[j] = momenta[j] * memories[j] + fall
                total[j] += memories[j]
            step += 1
        for j in range(momenta.size):
            areas[i, j] = total[j]


@numba.njit(FLOATS(READ_ONLY, numba.float64), cache=True, error_model="numpy", nogil=True)
def fading_sum(falls, momentum):  # type: ignore[no-untyped-def]
    """Return the memory after each of the falls, from none: ``m_i = momentum·m_{i-1} + fall_i``.

    Parameters
    ----------
    falls : ndarray, shape (steps,)
    momentum : float
    """
    memories = np.empty(falls.size)
    memory = 0.0
    for i in range(falls.size):
        memory = momentum * memory + falls[i]
        memories[i] = memory
    return memories

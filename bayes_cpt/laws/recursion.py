"""The level of the learning rate run along a schedule, for many momenta at once, by Numba.

See docs/law.md, "Areas".
"""

import numba
import numpy as np

FLOATS = numba.types.Array(numba.float64, 1, "C")
READ_ONLY = numba.types.Array(numba.float64, 1, "C", readonly=True)
INTEGERS = numba.types.Array(numba.int64, 1, "C", readonly=True)
TABLE = numba.types.Array(numba.float64, 2, "C")


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


# Up to this, a series to the tenth power gives expm1 to 1e-11, and compilers run it for many nodes at once.
SERIES_TO = 0.5


@numba.njit(cache=True, error_model="numpy", nogil=True, fastmath={"contract"})
def _fill_taken(pace, log_momenta, taken):  # type: ignore[no-untyped-def]
    """Fill in what one step of the memory's clock takes of the level, ``1 - lambda^pace``."""
    # The shortest memory comes last or first, whichever way the nodes run.
    if -pace * min(log_momenta[0], log_momenta[-1]) > SERIES_TO:
        for j in range(taken.size):
            taken[j] = -np.expm1(pace * log_momenta[j])
        return
    for j in range(taken.size):
        x = pace * log_momenta[j]
        rest = 1.0 + x / 10.0
        for k in range(9, 1, -1):
            rest = 1.0 + x / k * rest
        taken[j] = -x * rest


@numba.njit(cache=True, error_model="numpy", nogil=True)
def _decayed(shape, share):  # type: ignore[no-untyped-def]
    """Return what is left of a decay after a share of its steps, 1 to 0 (linear, cosine, 1 - sqrt)."""
    if shape == 0:
        return 1.0 - share
    if shape == 1:
        return 0.5 * (1.0 + np.cos(np.pi * share))
    return 1.0 - np.sqrt(share)


@numba.njit(cache=True, error_model="numpy", nogil=True)
def _add_step(rate, count, clock, powers, log_momenta, taken, areas, levels):  # type: ignore[no-untyped-def]
    """Go some steps at one learning rate; return how far the memory's clock went in one of them."""
    log_rate = np.log(rate) if rate > 0.0 else -np.inf
    for p in range(powers.size):
        if powers[p] == 1.0:
            areas[p] += count * rate
        elif powers[p] == 0.0:
            areas[p] += count
        elif rate > 0.0:
            areas[p] += count * np.exp(powers[p] * log_rate)
    pace = 1.0 if clock[1] == 0.0 else (rate / clock[0]) ** clock[1]
    if count == 1.0:
        _fill_taken(pace, log_momenta, taken)
    else:
        for j in range(taken.size):
            taken[j] = -np.expm1(pace * count * log_momenta[j])
    for j in range(taken.size):
        levels[j] += taken[j] * (rate - levels[j])
    return pace * count


@numba.njit(cache=True, error_model="numpy", nogil=True)
def fill_ends(schedules, clock, powers, log_momenta, areas, levels, paced):  # type: ignore[no-untyped-def]
    """Fill in the areas after the last step of schedules that are held and then decay.

    Parameters
    ----------
    schedules : ndarray, shape (schedules, 7)
        Initial rate, peak, last rate, steps of warm-up, of decay and in all, and shape of the decay: its
        place in `bayes_cpt.laws.schedule_batch.DECAYS`.
    clock : ndarray, shape (2,)
        Reference learning rate and power of the memory's clock.
    powers : ndarray, shape (powers,)
    log_momenta : ndarray, shape (nodes,)
        Rising or falling.
    areas : ndarray, shape (schedules, powers)
        Filled in with the sums of the learning rates to each power.
    levels : ndarray, shape (schedules, nodes)
        Before the first step; left as after the last.
    paced : ndarray, shape (schedules,)
        Filled in with the steps of the memory's clock.
    """
    taken = np.empty(log_momenta.size)
    for s in range(schedules.shape[0]):
        initial, peak, last = schedules[s, 0], schedules[s, 1], schedules[s, 2]
        warmup, decay, steps = schedules[s, 3], schedules[s, 4], schedules[s, 5]
        shape = int(schedules[s, 6])
        area, level = areas[s], levels[s]
        for p in range(powers.size):
            area[p] = 0.0
        total = 0.0
        for i in range(int(warmup)):
            rate = initial + (peak - initial) * (i + 1.0) / warmup
            total += _add_step(rate, 1.0, clock, powers, log_momenta, taken, area, level)
        held = steps - warmup - decay
        if held > 0.0:
            total += _add_step(peak, held, clock, powers, log_momenta, taken, area, level)
        for i in range(int(decay)):
            share = (i + 1.0) / decay
            if shape == 3:
                rate = peak * np.exp(share * np.log(last / peak))
            else:
                rate = last + (peak - last) * _decayed(shape, share)
            total += _add_step(rate, 1.0, clock, powers, log_momenta, taken, area, level)
        paced[s] = total


@numba.njit(cache=True, error_model="numpy", nogil=True)
def level_slopes(rates, counts, paces, by_rate, log_momenta, levels, slopes):  # type: ignore[no-untyped-def]
    """Run the level to the end of a schedule in stretches, and fill in its slope by each learning rate.

    Parameters
    ----------
    rates, counts : ndarray, shape (stretches,)
        Learning rates, and for how many steps each is held.
    paces, by_rate : ndarray, shape (stretches,)
        How far the memory's clock moves in a step of each, and the slope of that by the learning rate.
    log_momenta : ndarray, shape (draws,)
    levels : ndarray, shape (draws,)
        Before the first step; left as after the last.
    slopes : ndarray, shape (draws, stretches)
        Filled in.
    """
    for d in range(levels.size):
        level = levels[d]
        for k in range(rates.size):
            far = counts[k] * log_momenta[d]
            left = np.exp(far * paces[k])
            slopes[d, k] = 1.0 - left + (level - rates[k]) * left * far * by_rate[k]
            level = rates[k] + left * (level - rates[k])
        back = 1.0
        for k in range(rates.size - 1, -1, -1):
            slopes[d, k] *= back
            back *= np.exp(counts[k] * log_momenta[d] * paces[k])
        levels[d] = level

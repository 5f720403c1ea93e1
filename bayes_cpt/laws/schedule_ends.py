"""Areas along schedules in loops that Numba compiles, and at the ends of many schedules at once.

Sums over many steps of a smooth schedule are taken at few of them, by Gauss quadrature of discrete
sums: over a panel of N steps the nodes and weights are those of the Gram polynomials, orthogonal on the
steps themselves, so that the sum of a polynomial of degree below 2·`NODES` is exact. Nodes lie between
steps.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

import numba
import numpy as np

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.laws.areas import SMALLEST, AreaForm
from bayes_cpt.study.schedules import Schedule, warmup_stable_decay

NODES = 8
# Panels have as many steps as a power of 2: each from the shortest to the longest.
SHORTEST, LONGEST = 16, 4096


@lru_cache(maxsize=1)
def panels() -> tuple[Floats, ...]:
    """Return panels by length: steps, nodes (the first step is 1), weights of sums, sums to each node."""
    lengths = SHORTEST * 2 ** np.arange(round(np.log2(LONGEST / SHORTEST)) + 1)
    nodes, weights, sums_to = zip(*[_panel(int(length)) for length in lengths], strict=True)
    return lengths.astype(np.float64), np.stack(nodes), np.stack(weights), np.stack(sums_to)


def _panel(steps: int) -> tuple[Floats, Floats, Floats]:
    """Return nodes, weights and the matrix of sums up to each node for a panel."""
    order = np.arange(1, NODES)
    beside = 0.5 * order * np.sqrt((steps**2 - order**2) / (4.0 * order**2 - 1.0))
    middle = 0.5 * (steps - 1)
    jacobi = np.diag(np.full(NODES, middle)) + np.diag(beside, 1) + np.diag(beside, -1)
    places, vectors = np.linalg.eigh(jacobi)
    vectors *= np.sign(vectors[0])
    roots = vectors[0] * np.sqrt(steps)
    # The orthonormal polynomials at every step, from their recurrence; then their sums up to each, which
    # are polynomials too. The next polynomial is 0 at the nodes, so that these determine them there.
    every = np.arange(steps, dtype=np.float64)
    polynomials = np.empty((NODES, steps))
    polynomials[0] = steps**-0.5
    polynomials[1] = (every - middle) * polynomials[0] / beside[0]
    for k in range(2, NODES):
        polynomials[k] = (
            (every - middle) * polynomials[k - 1] - beside[k - 2] * polynomials[k - 2]
        ) / beside[k - 1]
    expanded = np.cumsum(polynomials, axis=1) @ polynomials.T
    sums_to = (vectors / roots).T @ expanded.T @ (vectors * roots)
    return places + 1.0, roots**2, sums_to


# Up to this, a series to the tenth power gives expm1 to 1e-11, and compilers run it for many nodes at once.
SERIES_TO = 0.5
# 1/k: a division takes longer than all else in a term.
INVERSE = tuple(1.0 / max(k, 1) for k in range(11))


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
        rest = 1.0 + x * INVERSE[10]
        for k in range(9, 1, -1):
            rest = 1.0 + x * INVERSE[k] * rest
        taken[j] = -x * rest


@numba.njit(cache=True, error_model="numpy", nogil=True)
def _rate(phase, share):  # type: ignore[no-untyped-def]
    """Return the learning rate after a share of the steps of a phase: from, to, and shape."""
    first, last, shape = phase[0], phase[1], phase[2]
    if shape == 0:
        return first + (last - first) * share
    if shape == 1:
        return last + (first - last) * 0.5 * (1.0 + np.cos(np.pi * share))
    if shape == 2:
        return last + (first - last) * (1.0 - np.sqrt(share))
    return first * np.exp(share * np.log(last / first))


@numba.njit(cache=True, error_model="numpy", nogil=True)
def _pace(log_rate, clock):  # type: ignore[no-untyped-def]
    """Return how far the memory's clock goes in a step."""
    return 1.0 if clock[1] == 0.0 else np.exp(clock[1] * (log_rate - clock[0]))


@numba.njit(cache=True, error_model="numpy", nogil=True)
def _add_steps(rate, count, clock, powers, log_momenta, taken, areas, levels):  # type: ignore[no-untyped-def]
    """Go some steps at one learning rate; return how far the memory's clock went."""
    log_rate = np.log(rate) if rate > 0.0 else -np.inf
    for p in range(powers.size):
        # A learning rate of 0 to the power 0 is a step all the same.
        areas[p] += count * (np.exp(powers[p] * log_rate) if powers[p] > 0.0 else 1.0)
    paced = count * _pace(log_rate, clock)
    _fill_taken(paced, log_momenta, taken)
    for j in range(taken.size):
        levels[j] += taken[j] * (rate - levels[j])
    return paced


# Halvings of an exponent, and the terms of the series for what is left: 1e-11 up to `MOST_FADED`.
HALVINGS, TERMS = 6, 8


@numba.njit(cache=True, error_model="numpy", nogil=True, fastmath={"contract"})
def _fill_left(paced, log_momenta, left):  # type: ignore[no-untyped-def]
    """Fill in what steps of the memory's clock leave of the level, ``lambda^paced``, many nodes at once."""
    scale = paced / 2.0**HALVINGS
    for j in range(left.size):
        x = scale * log_momenta[j]
        rest = 1.0 + x * INVERSE[TERMS]
        for k in range(TERMS - 1, 0, -1):
            rest = 1.0 + x * INVERSE[k] * rest
        for _ in range(HALVINGS):
            rest *= rest
        left[j] = rest


@numba.njit(cache=True, error_model="numpy", nogil=True, fastmath={"contract"})
def _add_panel(log_rates, paces, weights, sums_to, log_momenta, work, levels):  # type: ignore[no-untyped-def]
    """Go the steps of a panel, from what is known at its nodes; return how far the memory's clock went."""
    left, taken = work[0], work[1]
    paced = 0.0
    for q in range(paces.size):
        paced += weights[q] * paces[q]
    _fill_left(paced, log_momenta, left)
    for j in range(levels.size):
        levels[j] *= left[j]
    for q in range(paces.size):
        after = paced
        for k in range(paces.size):
            after -= sums_to[q, k] * paces[k]
        _fill_left(after, log_momenta, left)
        _fill_taken(paces[q], log_momenta, taken)
        weighted = weights[q] * np.exp(log_rates[q])
        for j in range(levels.size):
            levels[j] += weighted * left[j] * taken[j]
    return paced


# What the shortest memory may fade in a panel, as an exponent, for its nodes to tell how.
MOST_FADED = 6.0


@numba.njit(cache=True, error_model="numpy", nogil=True)
def _go(phase, panels, clock, powers, log_momenta, work, areas, levels):  # type: ignore[no-untyped-def]
    """Go through a phase; return how far the memory's clock went.

    Panels get shorter towards the end, whose learning rates the level still feels most, and where they may
    fall to 0; and towards a start that is as steep.
    """
    steps, every, weights, sums_to = panels
    count = phase[3]
    steepest = -min(log_momenta[0], log_momenta[-1])
    rises = phase[1] > phase[0]
    rough_start = phase[2] == 2 or rises
    log_rates, paces = np.empty(every.shape[1]), np.empty(every.shape[1])
    total, step = 0.0, 0.0
    while step < count:
        most = 0.5 * (count - step)
        if rough_start:
            most = min(most, step)
        length = steps.size - 1
        while length >= 0 and steps[length] > most:
            length -= 1
        while length >= 0:
            highest = _rate(phase, (step + (steps[length] if rises else 1.0)) / count)
            if steps[length] * steepest * _pace(np.log(highest), clock) <= MOST_FADED:
                break
            length -= 1
        if length < 0:
            step += 1.0
            rate = _rate(phase, step / count)
            total += _add_steps(rate, 1.0, clock, powers, log_momenta, work[0], areas, levels)
            continue
        for q in range(paces.size):
            log_rates[q] = np.log(_rate(phase, (step + every[length, q]) / count))
            paces[q] = _pace(log_rates[q], clock)
            for p in range(powers.size):
                areas[p] += weights[length, q] * np.exp(powers[p] * log_rates[q])
        total += _add_panel(
            log_rates, paces, weights[length], sums_to[length], log_momenta, work, levels
        )
        step += steps[length]
    return total


@numba.njit(cache=True, error_model="numpy", nogil=True)
def fill_ends(schedules, panels, clock, powers, log_momenta, areas, levels, paced):  # type: ignore[no-untyped-def]
    """Fill in the areas after the last step of schedules that are held and then decay.

    Rows of `schedules` are the fields of `ScheduleBatch`, `panels` is of `panels`, the clock the log of the
    reference learning rate and the power of the memory's clock. `areas` are sums of learning rates to each
    power; `levels` are those before the first step, and left as after the last.
    """
    work, phase = np.empty((2, log_momenta.size)), np.empty(4)
    for s in range(schedules.shape[0]):
        initial, peak, last = schedules[s, 0], schedules[s, 1], schedules[s, 2]
        warmup, decay, steps = schedules[s, 3], schedules[s, 4], schedules[s, 5]
        area, level = areas[s], levels[s]
        area[:] = 0.0
        phase[0], phase[1], phase[2], phase[3] = initial, peak, 0.0, warmup
        total = _go(phase, panels, clock, powers, log_momenta, work, area, level)
        held = steps - warmup - decay
        if held > 0.0:
            total += _add_steps(peak, held, clock, powers, log_momenta, work[0], area, level)
        phase[0], phase[1], phase[2], phase[3] = peak, last, schedules[s, 6], decay
        paced[s] = total + _go(phase, panels, clock, powers, log_momenta, work, area, level)


DECAYS = ("linear", "cosine", "one_minus_sqrt", "exponential")


@dataclass(frozen=True, eq=False)
class ScheduleBatch:
    """Schedules that go in a line to a peak, stay there, and decay; all arrays of shape (schedules,)."""

    initial: Floats  # raw learning rate before the first step: in CPT the last PT learning rate
    # Learning rates that are held, and of the last step; `final` is not used without a decay, and is above
    # 0 where that is exponential
    peak: Floats
    final: Floats
    # Lengths of the line from `initial` to `peak` and of the decay; either may be 0
    warmup_steps: Ints
    decay_steps: Ints
    steps: Ints  # all steps, at least 1 and at least `warmup_steps` + `decay_steps`
    shape: Ints  # place of the decay's shape in `DECAYS`

    def take(self, rows: Ints) -> Self:
        """Return some of the schedules."""
        return replace(self, **{name: values[rows] for name, values in vars(self).items()})

    def schedule(self, index: int) -> Schedule:
        """Return one of the schedules."""
        return warmup_stable_decay(
            self.steps[index],
            self.peak[index],
            self.final[index],
            decay_steps=self.decay_steps[index],
            warmup_steps=self.warmup_steps[index],
            start=self.initial[index],
            decay_shape=DECAYS[self.shape[index]],
        )

    def distinct(self) -> tuple[Ints, Ints]:
        """Return one schedule of each kind, shape (kinds,), and which of these each is like."""
        table = np.column_stack(list(vars(self).values())).astype(np.float64)
        _, first, place = np.unique(table, axis=0, return_index=True, return_inverse=True)
        return first, place

    @property
    def last_rate(self) -> Floats:
        """Learning rate of the last step."""
        return np.where(self.decay_steps > 0, self.final, self.peak)

    def ends(self, form: AreaForm, levels: Floats, forward: Floats) -> "Ends":
        """Return the areas after the last step of each schedule, given level and S1 before the first."""
        powers, shift = form.powers, form.shift_powers
        # Runs that differ in replay, data or base alone share one schedule.
        first, place = self.distinct()
        areas, driven, paced = (filled[place] for filled in self.take(first)._filled(form))
        # The level is linear in what it was before the first step: this is what is left of that.
        left = np.exp(paced[:, None] * np.log(form.node_momenta()))
        reached = driven + left * levels
        log_forward = np.log(np.maximum(areas[:, : powers.nodes] + forward, SMALLEST))
        of_shift = np.maximum(areas[:, powers.nodes : -2], SMALLEST)
        scale = (1.0 - shift.at_nodes()) * np.log(form.reference_rate)
        return Ends(
            log_forward=powers.series(log_forward),
            level=form.momenta.series(reached),
            log_shift=shift.series(scale + np.log(of_shift)),
            forward=areas[:, -2],
            squared_area=areas[:, -1],
            paced_steps=paced,
        )

    def _filled(self, form: AreaForm) -> tuple[Floats, Floats, Floats]:
        """Return S1_cpt at the nodes of rho, of the shift, at 1 and 2, levels, paced steps, on all cores.

        Levels are those that the learning rate leads to from none.
        """
        from joblib import cpu_count

        # `fill_ends` takes them in the order of the fields.
        columns = {**vars(self), "final": self.last_rate}
        table = np.column_stack(list(columns.values())).astype(np.float64)
        clock = np.array([np.log(form.reference_rate), form.memory_clock])
        powers = np.concatenate([form.powers.at_nodes(), form.shift_powers.at_nodes(), [1.0, 2.0]])
        log_momenta = np.log(form.node_momenta())
        areas, paced = np.empty((len(table), powers.size)), np.empty(len(table))
        reached = np.zeros((len(table), log_momenta.size))
        nodes = panels()

        def fill(part: slice) -> None:
            outputs = (areas[part], reached[part], paced[part])
            fill_ends(table[part], nodes, clock, powers, log_momenta, *outputs)

        cores = cpu_count()
        edges = np.linspace(0, len(table), cores + 1).astype(int).tolist()
        with ThreadPoolExecutor(cores) as pool:
            list(pool.map(fill, map(slice, edges[:-1], edges[1:])))
        return areas, reached, paced


@dataclass(frozen=True, eq=False)
class Ends:
    """Areas after the last step of some CPT schedules."""

    # Series as in `bayes_cpt.laws.phase_areas.PhaseAreas`, of shape (schedules, nodes)
    log_forward: Floats
    log_shift: Floats
    level: Floats
    # S1_cpt, LR·steps, S3_cpt, LR^2·steps, and steps of the memory's clock, of shape (schedules,)
    forward: Floats
    squared_area: Floats
    paced_steps: Floats

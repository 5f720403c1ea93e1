"""Areas at the last step of many schedules of one form at once (docs/law.md, "Areas").

`bayes_cpt.laws.phase_areas` runs along one schedule of any form and is the definition; a search over
schedules wants the end of 100,000 that are held and then decay. Here only the steps of warm-up and decay
are run through, and no schedule twice.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.laws.areas import SMALLEST, AreaForm
from bayes_cpt.study.schedules import Schedule
from bayes_cpt.study.segments import Segment

type Floats = NDArray[np.float64]

DECAYS = ("linear", "cosine", "one_minus_sqrt", "exponential")


@dataclass(frozen=True, eq=False)
class ScheduleBatch:
    """Schedules that go in a line to a peak, stay there, and decay; all arrays of shape (schedules,).

    Parameters
    ----------
    initial : ndarray
        Raw learning rate before the first step: in CPT the last PT learning rate.
    peak, final : ndarray
        Learning rates that are held, and of the last step; `final` is not used without a decay, and is
        above 0 where that is exponential.
    warmup_steps, decay_steps : ndarray of int
        Lengths of the line from `initial` to `peak` and of the decay; either may be 0.
    steps : ndarray of int
        All steps, at least 1 and at least `warmup_steps` + `decay_steps`.
    shape : ndarray of int
        Place of the decay's shape in `DECAYS`.
    """

    initial: Floats
    peak: Floats
    final: Floats
    warmup_steps: NDArray[np.int64]
    decay_steps: NDArray[np.int64]
    steps: NDArray[np.int64]
    shape: NDArray[np.int64]

    def schedule(self, index: int) -> Schedule:
        """Return one of the schedules.

        Parameters
        ----------
        index : int
            From 0.
        """
        initial, peak, final = (
            float(values[index]) for values in (self.initial, self.peak, self.final)
        )
        warmup, decay = int(self.warmup_steps[index]), int(self.decay_steps[index])
        parts = (
            ("linear", warmup, initial, peak),
            ("constant", int(self.steps[index]) - warmup - decay, peak, peak),
            (DECAYS[self.shape[index]], decay, peak, final),
        )
        return Schedule(tuple(Segment(*part) for part in parts if part[1]))

    @property
    def last_rate(self) -> Floats:
        """Learning rate of the last step."""
        return np.where(self.decay_steps > 0, self.final, self.peak)

    def ends(self, form: AreaForm, levels: Floats, forward: Floats) -> "Ends":
        """Return the areas after the last step of each schedule.

        Parameters
        ----------
        form : AreaForm
        levels : ndarray, shape (schedules, momentum nodes)
            Before the first step, from `bayes_cpt.laws.phase_areas.TransferState`.
        forward : ndarray, shape (schedules, power nodes)
            S1 before the first step.
        """
        momenta, powers = form.momenta.interval, form.powers.interval
        places = np.concatenate([powers.at_nodes(), [form.shift_power]])
        columns = (self.initial, self.peak, self.last_rate, self.warmup_steps, self.decay_steps,
                   self.steps, self.shape)  # fmt: skip
        table = np.column_stack([*columns, levels]).astype(np.float64)
        distinct, place = np.unique(table, axis=0, return_inverse=True)
        areas = np.empty((len(distinct), places.size))
        reached = np.ascontiguousarray(distinct[:, len(columns) :])
        paced = np.empty(len(distinct))
        _in_threads(
            distinct, len(columns), places, np.log(form.momenta.node_momenta()), form,
            areas, reached, paced,
        )  # fmt: skip
        place = place.reshape(-1)
        log_forward = np.log(np.maximum(areas[place, :-1] + forward, SMALLEST))
        scale = form.reference_rate ** (1.0 - form.shift_power)
        return Ends(
            log_forward=powers.series(log_forward),
            level=momenta.series(reached[place]),
            forward=scale * areas[place, -1],
            paced_steps=paced[place],
        )


@dataclass(frozen=True, eq=False)
class Ends:
    """Areas after the last step of some CPT schedules.

    Parameters
    ----------
    log_forward, level : ndarray, shape (schedules, nodes)
        Series as in `bayes_cpt.laws.phase_areas.PhaseAreas`.
    forward, paced_steps : ndarray, shape (schedules,)
        S1_cpt as the shift sees it, LR·steps, and steps of the memory's clock.
    """

    log_forward: Floats
    level: Floats
    forward: Floats
    paced_steps: Floats


def _in_threads(
    table: Floats, given: int, powers: Floats, log_momenta: Floats, form: AreaForm, *filled: Floats
) -> None:
    """Fill in areas, levels and paced steps of the schedules of a table, on all cores."""
    from joblib import cpu_count

    from bayes_cpt.laws.recursion import fill_ends

    schedules = np.ascontiguousarray(table[:, :given])
    clock = np.array([form.reference_rate, form.memory_clock])
    parts = [part for part in np.array_split(np.arange(len(table)), cpu_count()) if part.size]

    def fill(rows: NDArray[np.int64]) -> None:
        part = slice(int(rows[0]), int(rows[-1]) + 1)
        fill_ends(schedules[part], clock, powers, log_momenta, *(own[part] for own in filled))

    run: Callable[..., object] = fill
    with ThreadPoolExecutor(len(parts)) as pool:
        list(pool.map(run, parts))

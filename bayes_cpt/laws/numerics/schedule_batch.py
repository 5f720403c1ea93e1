"""Areas at the last step of many schedules of one form at once (docs/law.md, "Areas").

`bayes_cpt.laws.phase_areas` runs along one schedule of any form and is the definition; a search over
schedules wants the end of 100,000 that are held and then decay. Here warm-up and decay are summed at few
steps (`bayes_cpt.laws.numerics.panels`).
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.laws.areas import SMALLEST, AreaForm
from bayes_cpt.study.schedules import Schedule, Segment

DECAYS = ("linear", "cosine", "one_minus_sqrt", "exponential")


@dataclass(frozen=True, eq=False)
class BySchedule:
    """Arrays with a row for each schedule."""

    def take(self, rows: Ints) -> Self:
        """Return the rows of some of the schedules.

        Parameters
        ----------
        rows : ndarray of int
            Which, in this order.
        """
        return replace(self, **{name: values[rows] for name, values in vars(self).items()})


@dataclass(frozen=True, eq=False)
class ScheduleBatch(BySchedule):
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
    warmup_steps: Ints
    decay_steps: Ints
    steps: Ints
    shape: Ints

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

    def distinct(self) -> tuple[Ints, Ints]:
        """Return one schedule of each kind, and which of these each schedule is like.

        Returns
        -------
        first : ndarray of int, shape (kinds,)
        place : ndarray of int, shape (schedules,)
        """
        table = np.column_stack(list(vars(self).values())).astype(np.float64)
        _, first, place = np.unique(table, axis=0, return_index=True, return_inverse=True)
        return first, place

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
        # Runs that differ in replay, data or base alone share one schedule.
        first, place = self.distinct()
        areas, driven, paced = (filled[place] for filled in self.take(first)._filled(form))
        # The level is linear in what it was before the first step: this is what is left of that.
        left = np.exp(paced[:, None] * np.log(form.momenta.node_momenta()))
        reached = driven + left * levels
        log_forward = np.log(np.maximum(areas[:, :-1] + forward, SMALLEST))
        scale = form.reference_rate ** (1.0 - form.shift_power)
        return Ends(
            log_forward=powers.series(log_forward),
            level=momenta.series(reached),
            forward=scale * areas[:, -1],
            paced_steps=paced,
        )

    def _filled(self, form: AreaForm) -> tuple[Floats, Floats, Floats]:
        """Return S1_cpt at the nodes of rho and of the shift, levels, and paced steps, on all cores.

        Levels are those that the learning rate leads to from none.
        """
        from joblib import cpu_count

        from bayes_cpt.laws.numerics.panels import panels
        from bayes_cpt.laws.numerics.recursion import fill_ends

        columns = (self.initial, self.peak, self.last_rate, self.warmup_steps, self.decay_steps,
                   self.steps, self.shape)  # fmt: skip
        table = np.column_stack(columns).astype(np.float64)
        clock = np.array([np.log(form.reference_rate), form.memory_clock])
        powers = np.append(form.powers.interval.at_nodes(), form.shift_power)
        log_momenta = np.log(form.momenta.node_momenta())
        areas, paced = np.empty((len(table), powers.size)), np.empty(len(table))
        reached = np.zeros((len(table), log_momenta.size))
        nodes = tuple(vars(panels()).values())

        def fill(part: slice) -> None:
            outputs = (areas[part], reached[part], paced[part])
            fill_ends(table[part], nodes, clock, powers, log_momenta, *outputs)

        cores = cpu_count()
        edges = np.linspace(0, len(table), cores + 1).astype(int).tolist()
        with ThreadPoolExecutor(cores) as pool:
            list(pool.map(fill, map(slice, edges[:-1], edges[1:])))
        return areas, reached, paced


@dataclass(frozen=True, eq=False)
class Ends(BySchedule):
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

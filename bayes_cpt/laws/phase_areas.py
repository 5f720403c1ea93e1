"""The areas of PT and CPT runs at chosen steps (docs/law.md, "Areas"), in any schedule.

Areas depend on numbers that are estimated, lambda and the forward power rho, and come as series in them
(`bayes_cpt.laws.series`).
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.laws.areas import SMALLEST, AreaForm, forward_areas, log_areas, run_levels
from bayes_cpt.study.schedules import Schedule

# Bases whose areas are kept: many runs start from each.
BASES_KEPT = 128


@dataclass(frozen=True, eq=False)
class PhaseAreas:
    """Areas and learning rate of one run at chosen steps, on both sides of the transfer.

    Each is an array of shape (points,), a series one of shape (points, nodes).
    """

    steps: Ints  # steps inside the run's own phase; 0 is the base itself
    # Raw learning rate of each of the steps; at step 0 the one before the first step
    learning_rates: Floats
    log_forward: Floats  # series in rho of the log of S1_pt + S1_cpt, LR^rho·steps
    # Series in rho_s of the log of S1_cpt as the shift sees it, LR·steps. In a PT run that is next to 0.
    log_shift: Floats
    # Learning rate from which S2_pt counts, and series in lambda of the level at the end of PT so far
    start_pt: Floats
    level_pt: Floats
    # The same of S2_cpt: the base's last learning rate, and the level in CPT. In a PT run that is the level
    # of PT, and S2_cpt is 0. A level that is carried over is itself where S2_cpt counts from.
    start_cpt: Floats
    level_cpt: Floats
    paced_steps: Floats  # steps of CPT by the memory's clock
    squared_area: Floats  # sum of squared learning rates of CPT, LR^2·steps
    # 1 where the level is carried across the transfer, from where S2_cpt then counts, and in PT; else 0
    carried: Floats
    # Log of the highest learning rate of PT so far, as a share of the reference one; a warm-up counts as if
    # it had ended. 0 where the base's schedule is not known.
    log_peak_pt: Floats


def pretraining_areas(schedule: Schedule, steps: ArrayLike, form: AreaForm) -> PhaseAreas:
    """Return the areas of a PT run at steps of its schedule (docs/law.md, "Areas")."""
    points = _points(schedule, steps)
    rates = schedule.learning_rates()
    start, levels = _pretraining_levels(schedule, form, points)
    table = form.momenta.series(levels)
    nothing = np.zeros(points.size)
    return PhaseAreas(
        steps=points,
        learning_rates=_at(rates, points, rates[0]),
        log_forward=log_areas(form.powers, rates, points),
        log_shift=log_areas(
            form.shift_powers, rates, np.zeros_like(points), unit=form.reference_rate
        ),
        start_pt=np.full(points.size, start),
        level_pt=table,
        start_cpt=nothing + SMALLEST,
        level_cpt=table,
        paced_steps=nothing,
        squared_area=nothing,
        carried=nothing + 1.0,
        log_peak_pt=_log_peaks(schedule, form)[points],
    )


def continual_areas(
    base: Schedule | None,
    schedule: Schedule,
    steps: ArrayLike,
    form: AreaForm,
    *,
    reset: bool = False,
) -> PhaseAreas:
    """Return the areas of a CPT run on its base, which is its step 0; else as `pretraining_areas`.

    Without a base's schedule S1_pt, S2_pt and eta_0 are given as 0, and the law's own parameters stand for
    them. After a reset, by a new optimiser, the memory of the annealing starts anew, whatever the form
    says.
    """
    points = _points(schedule, steps)
    rates = schedule.learning_rates()
    start = transfer_state(base, form)
    carried = form.carry_memory and not reset
    paces = form.paces(rates)
    initial = start.initial_levels(carried=carried)
    levels = run_levels(rates, paces, initial, form.node_momenta(), points)
    interval = form.momenta
    return PhaseAreas(
        steps=points,
        learning_rates=_at(rates, points, start.learning_rate),
        log_forward=log_areas(form.powers, rates, points, start.forward),
        log_shift=log_areas(form.shift_powers, rates, points, unit=form.reference_rate),
        start_pt=np.full(points.size, start.start),
        level_pt=np.broadcast_to(interval.series(start.levels), (points.size, interval.nodes)),
        start_cpt=np.full(points.size, max(start.learning_rate, SMALLEST)),
        level_cpt=interval.series(levels),
        paced_steps=_at(np.cumsum(paces), points),
        squared_area=_at(np.cumsum(rates**2), points),
        carried=np.full(points.size, float(carried)),
        log_peak_pt=np.full(points.size, start.log_peak),
    )


def _pretraining_levels(schedule: Schedule, form: AreaForm, points: Ints) -> tuple[float, Floats]:
    """Return the learning rate that S2_pt counts from, and the level at each node, (points, nodes)."""
    rates, momenta = schedule.learning_rates(), form.node_momenta()
    first, initial, start = 0, 0.0, form.reference_rate
    if not form.count_warmup:
        first = schedule.warmup_steps
        initial = start = float(rates[max(first - 1, 0)])
    counted, before = rates[first:], np.full(momenta.size, initial)
    since = np.maximum(points - first, 0)
    return start, run_levels(counted, form.paces(counted), before, momenta, since)


@dataclass(frozen=True, eq=False)
class TransferState:
    """What a CPT run finds at the transfer."""

    learning_rate: float  # eta_0, the base's last one, raw
    start: float  # learning rate from which S2_pt counts
    forward: Floats  # S1_pt at each node of rho, (power nodes,)
    levels: Floats  # the base's level at each node of lambda, (momentum nodes,)
    log_peak: float  # log of the highest learning rate of its PT, as a share of the reference one

    def initial_levels(self, *, carried: bool) -> Floats:
        """Return the level before the first step of CPT at each node, shape (nodes,)."""
        return self.levels if carried else np.full_like(self.levels, self.learning_rate)


@lru_cache(maxsize=BASES_KEPT)
def transfer_state(base: Schedule | None, form: AreaForm) -> TransferState:
    """Return what a CPT run finds at the transfer from a base; zeros where its schedule is not known."""
    powers = form.powers.at_nodes()
    if base is None:
        nothing = np.zeros(form.momenta.nodes)
        return TransferState(0.0, SMALLEST, np.zeros(powers.size), nothing, 0.0)
    start, (levels,) = _pretraining_levels(base, form, np.array([base.steps]))
    rates = base.learning_rates()
    (forward,) = forward_areas(rates, powers, np.array([rates.size]))
    return TransferState(base.final, start, forward, levels, float(_log_peaks(base, form)[-1]))


def _points(schedule: Schedule, steps: ArrayLike) -> Ints:
    points = np.atleast_1d(np.asarray(steps, dtype=np.int64))
    if np.any((points < 0) | (points > schedule.steps)):
        raise ValueError(
            f"steps {points.min()} to {points.max()} are asked for: the schedule has steps 0 to "
            f"{schedule.steps}; ask inside it or lengthen it"
        )
    return points


def _log_peaks(schedule: Schedule, form: AreaForm) -> Floats:
    """Return the log of the highest learning rate up to each of the steps 0, 1, ..., over the reference."""
    rates = schedule.learning_rates()
    warm = rates[: max(schedule.warmup_steps, 1)].max()
    peaks = np.maximum(np.maximum.accumulate(rates), max(warm, SMALLEST))
    return np.log(_at(peaks, np.arange(rates.size + 1), peaks[0]) / form.reference_rate)


def _at(curve: Floats, points: Ints, before: float = 0.0) -> Floats:
    """Return the curve of steps 1, 2, ... at the points, `before` at step 0."""
    return np.concatenate([[before], curve])[points]

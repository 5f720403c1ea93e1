"""Forward area S1 and annealing area S2 (docs/law.md, "Areas"): the only place they are computed.

Areas are in raw learning rate times steps. The annealing area depends on the momentum lambda, and comes as
a series in it (`bayes_cpt.laws.momentum`).
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayes_cpt.laws.momentum import (
    MomentumInterpolant,
    MomentumRange,
    annealing_basis,
    chebyshev_basis,
)
from bayes_cpt.study.schedules import Schedule
from bayes_cpt.study.segments import FloatArray

__all__ = [
    "MomentumInterpolant",
    "MomentumRange",
    "PhaseAreas",
    "annealing_area",
    "annealing_basis",
    "annealing_memory",
    "chebyshev_basis",
    "continual_areas",
    "forward_area",
    "pretraining_areas",
]

type IntArray = NDArray[np.int64]

WIDE = MomentumRange()
# Bases whose areas are kept: many runs start from each.
BASES_KEPT = 128


def forward_area(learning_rates: ArrayLike) -> FloatArray:
    """Return the forward area S1 after each step (docs/law.md, "Areas").

    Parameters
    ----------
    learning_rates : array_like, shape (steps,)
        Raw learning rate of each step.

    Returns
    -------
    ndarray, shape (steps,)
        S1 in LR·steps.

    Examples
    --------
    >>> forward_area([0.5, 0.25, 0.25]).tolist()
    [0.5, 0.75, 1.0]
    """
    return np.cumsum(np.asarray(learning_rates, dtype=np.float64))


def _annealing_at(
    learning_rates: ArrayLike,
    before: float,
    momenta: FloatArray,
    memories: FloatArray,
    points: IntArray,
) -> FloatArray:
    """Return S2 at steps in any order, shape (points, momenta); leave m after the last in `memories`."""
    from bayes_cpt.laws.recursion import fill_annealing

    rates = np.ascontiguousarray(learning_rates, dtype=np.float64)
    areas = np.empty((points.size, momenta.size))
    if np.all(points[1:] >= points[:-1]):
        fill_annealing(rates, before, momenta, memories, points, areas)
        return areas
    steps, place = np.unique(points, return_inverse=True)
    fill_annealing(rates, before, momenta, memories, steps, areas)
    return areas[place]


def annealing_area(
    learning_rates: ArrayLike,
    momentum: float,
    initial_learning_rate: float,
    initial_memory: float = 0.0,
) -> FloatArray:
    """Return the annealing area S2 after each step (Eq. 1 of arXiv 2505.07796).

    Parameters
    ----------
    learning_rates : array_like, shape (steps,)
        Raw learning rate of each step.
    momentum : float
        lambda, from 0 up to but not including 1.
    initial_learning_rate : float
        eta_0, the rate before the first step: in CPT the last PT learning rate.
    initial_memory : float
        m_0; 0 unless the memory is carried across the transfer.

    Returns
    -------
    ndarray, shape (steps,)
        S2 in LR·steps; negative after a re-warm-up.

    Raises
    ------
    ValueError
        If the momentum is outside [0, 1).

    Examples
    --------
    >>> annealing_area([0.5, 0.5], momentum=0.5, initial_learning_rate=1.0).tolist()
    [0.5, 0.75]
    """
    areas, _ = _annealing(learning_rates, momentum, initial_learning_rate, initial_memory)
    return areas


def annealing_memory(
    learning_rates: ArrayLike,
    momentum: float,
    initial_learning_rate: float,
    initial_memory: float = 0.0,
) -> float:
    """Return m after the last step, to carry over (arguments as in `annealing_area`).

    Parameters
    ----------
    learning_rates, momentum, initial_learning_rate, initial_memory
        As for `annealing_area`.
    """
    return _annealing(learning_rates, momentum, initial_learning_rate, initial_memory)[1]


def _annealing(
    learning_rates: ArrayLike, momentum: float, before: float, initial_memory: float
) -> tuple[FloatArray, float]:
    """Return S2 after each step, and the last m."""
    if not 0.0 <= momentum < 1.0:
        raise ValueError(f"momentum is {momentum}: give a number from 0 up to but not including 1")
    memory = np.array([initial_memory], dtype=np.float64)
    every = np.arange(1, np.size(learning_rates) + 1)
    areas = _annealing_at(learning_rates, before, np.array([momentum]), memory, every)
    return areas[:, 0], float(memory[0])


@dataclass(frozen=True, eq=False)
class PhaseAreas:
    """Areas and learning rate of one run at chosen steps, on both sides of the transfer.

    Parameters
    ----------
    steps : ndarray of int, shape (points,)
        Steps inside the run's own phase; 0 is the base itself.
    learning_rates : ndarray, shape (points,)
        Raw learning rate of each of the steps; at step 0 the one before the first step.
    forward_pt, forward_cpt : ndarray, shape (points,)
        S1_pt and S1_cpt in LR·steps. In a PT run S1_cpt is 0.
    annealing_pt, annealing_cpt : MomentumInterpolant
        S2_pt and S2_cpt at the points. In a PT run S2_cpt is 0.
    """

    steps: IntArray
    learning_rates: FloatArray
    forward_pt: FloatArray
    annealing_pt: MomentumInterpolant
    forward_cpt: FloatArray
    annealing_cpt: MomentumInterpolant


def pretraining_areas(
    schedule: Schedule,
    steps: ArrayLike,
    momentum_range: MomentumRange = WIDE,
) -> PhaseAreas:
    """Return the areas of a PT run: its warm-up counts in S1, not in S2 (docs/law.md, "Areas").

    Parameters
    ----------
    schedule : Schedule
        Of the PT run, from its first step.
    steps : array_like of int, shape (points,)
        Between 0 and the schedule's length.
    momentum_range : MomentumRange
        Where the annealing areas will be evaluated.

    Raises
    ------
    ValueError
        If a step lies outside the schedule.
    """
    points = _points(schedule, steps)
    nothing = np.zeros(points.size)
    return PhaseAreas(
        steps=points,
        learning_rates=_at(schedule.learning_rates(), points, schedule.learning_rates()[0]),
        forward_pt=_at(forward_area(schedule.learning_rates()), points),
        annealing_pt=_pretraining_interpolant(schedule, points, momentum_range),
        forward_cpt=nothing,
        annealing_cpt=_zero_interpolant(points, momentum_range),
    )


def continual_areas(
    base: Schedule | None,
    schedule: Schedule,
    steps: ArrayLike,
    *,
    carry_memory: bool = False,
    momentum_range: MomentumRange = WIDE,
) -> PhaseAreas:
    """Return the areas of a CPT run on its base (docs/law.md, "Areas").

    Parameters
    ----------
    base : Schedule or None
        The base's whole PT schedule, whose last learning rate is eta_0. None for an unknown base: S1_pt,
        S2_pt and eta_0 are then given as 0, and the law's own parameters stand for them.
    schedule : Schedule
        Of the CPT run.
    steps : array_like of int, shape (points,)
        Between 0, the base itself, and the schedule's length.
    carry_memory : bool
        Whether m starts at the PT's last m (its decay after the transfer adds to S2_cpt) or at 0.
    momentum_range : MomentumRange
        Where the annealing areas will be evaluated.

    Raises
    ------
    ValueError
        If a step lies outside the schedule.
    """
    points = _points(schedule, steps)
    rates = schedule.learning_rates()
    start = _start(base, momentum_range)
    memories = start.memories.copy() if carry_memory else np.zeros(momentum_range.nodes)
    momenta = momentum_range.node_momenta()
    areas = _annealing_at(rates, start.learning_rate, momenta, memories, points)
    shape = (points.size, momentum_range.nodes)
    return PhaseAreas(
        steps=points,
        learning_rates=_at(rates, points, start.learning_rate),
        forward_pt=np.full(points.size, start.forward),
        annealing_pt=MomentumInterpolant(np.broadcast_to(start.annealing, shape), momentum_range),
        forward_cpt=_at(forward_area(rates), points),
        annealing_cpt=MomentumInterpolant.from_areas(areas, momentum_range),
    )


@dataclass(frozen=True, eq=False)
class _Start:
    """What a CPT run finds at the transfer: eta_0, S1_pt, the series of S2_pt, and m at each node."""

    learning_rate: float
    forward: float
    annealing: FloatArray
    memories: FloatArray


@lru_cache(maxsize=BASES_KEPT)
def _start(base: Schedule | None, momentum_range: MomentumRange) -> _Start:
    memories = np.zeros(momentum_range.nodes)
    if base is None:
        return _Start(0.0, 0.0, np.zeros(momentum_range.nodes), memories)
    rates, initial_rate = _after_warmup(base)
    last = np.array([rates.size])
    areas = _annealing_at(rates, initial_rate, momentum_range.node_momenta(), memories, last)
    series = MomentumInterpolant.from_areas(areas, momentum_range).coefficients[0]
    forward = float(forward_area(base.learning_rates())[-1])
    return _Start(base.final, forward, series, memories)


def _points(schedule: Schedule, steps: ArrayLike) -> IntArray:
    points = np.atleast_1d(np.asarray(steps, dtype=np.int64))
    if np.any((points < 0) | (points > schedule.steps)):
        raise ValueError(
            f"steps {points.min()} to {points.max()} are asked for: the schedule has steps 0 to "
            f"{schedule.steps}; ask inside it or lengthen it"
        )
    return points


def _at(curve: FloatArray, points: IntArray, before: float = 0.0) -> FloatArray:
    """Return the curve of steps 1, 2, ... at the points, `before` at step 0."""
    return np.concatenate([[before], curve])[points]


def _after_warmup(schedule: Schedule) -> tuple[FloatArray, float]:
    """Return the PT rates that anneal and eta_0 before them: a warm-up does not count in S2."""
    rates = schedule.learning_rates()
    warmup = schedule.warmup_steps
    return rates[warmup:], float(rates[max(warmup - 1, 0)])


def _pretraining_interpolant(
    schedule: Schedule, points: IntArray, momentum_range: MomentumRange
) -> MomentumInterpolant:
    rates, initial_rate = _after_warmup(schedule)
    after_warmup = np.maximum(points - schedule.warmup_steps, 0)
    memories = np.zeros(momentum_range.nodes)
    momenta = momentum_range.node_momenta()
    areas = _annealing_at(rates, initial_rate, momenta, memories, after_warmup)
    return MomentumInterpolant.from_areas(areas, momentum_range)


def _zero_interpolant(points: IntArray, momentum_range: MomentumRange) -> MomentumInterpolant:
    shape = (points.size, momentum_range.nodes)
    return MomentumInterpolant(np.broadcast_to(0.0, shape), momentum_range)

"""S1 and S2 at the last step of many schedules at once, in closed form (docs/law.md, "Areas").

`bayes_cpt.laws.areas` runs along one schedule of any form and is the definition; a search over schedules
wants the end of 100,000 schedules of one form. Their areas follow from geometric sums: with the falls
``d_k = eta_{k-1} - eta_k``, and m_0 = 0,

    (1 - lambda)·S2(T) = sum_k d_k·(1 - lambda^(T-k+1)) = eta_0 - eta_T - lambda·W

where ``W = sum_k d_k·lambda^(T-k)`` is what has not yet faded of the falls.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayes_cpt.laws.areas import MomentumInterpolant, MomentumRange
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

    def forward_area(self) -> Floats:
        """Return S1 at the last step, LR·steps."""
        warmup = self.warmup_steps
        stable = self.steps - warmup - self.decay_steps
        rise = (self.peak - self.initial) * 0.5 * (warmup + 1.0)
        area = np.where(warmup > 0, warmup * self.initial + rise, 0.0) + stable * self.peak
        return area + self._by_shape(_decay_forward)

    def annealing_area(self, momentum: float, initial_memory: ArrayLike = 0.0) -> Floats:
        """Return S2 at the last step, LR·steps.

        Parameters
        ----------
        momentum : float
            lambda, between 0 and 1.
        initial_memory : float or ndarray
            m_0, where the memory is carried across the transfer.
        """
        warmup, rest = self.warmup_steps, 1.0 - momentum
        left = momentum ** (self.steps - np.maximum(warmup, 1))
        # Without a warm-up the learning rate jumps to the peak at the first step.
        spread = np.where(
            warmup > 0, -np.expm1(warmup * np.log(momentum)) / (np.maximum(warmup, 1) * rest), 1.0
        )
        fading = (self.initial - self.peak) * spread * left
        fading = fading + self._by_shape(partial(_decay_fading, momentum))
        carried = np.asarray(initial_memory) * momentum * (1.0 - momentum**self.steps)
        return np.asarray((self.initial - self.last_rate - momentum * fading + carried) / rest)

    def annealing_series(
        self, momentum_range: MomentumRange, initial_memories: ArrayLike = 0.0
    ) -> MomentumInterpolant:
        """Return S2 at the last step as a function of lambda, one row per schedule.

        Parameters
        ----------
        momentum_range : MomentumRange
        initial_memories : float or ndarray, shape (schedules, nodes)
            m_0 at each node of the range.
        """
        momenta = momentum_range.node_momenta()
        memories = np.broadcast_to(initial_memories, (self.steps.size, momenta.size))
        areas = [
            self.annealing_area(float(momentum), memories[:, node])
            for node, momentum in enumerate(momenta)
        ]
        return MomentumInterpolant.from_areas(np.stack(areas, axis=1), momentum_range)

    def _by_shape(self, area: Any) -> Floats:
        """Return the area of each decay, by ``area(shape, decay_steps, peak, final)``."""
        found = np.zeros(self.steps.size)
        for index, shape in enumerate(DECAYS):
            rows = np.flatnonzero((self.shape == index) & (self.decay_steps > 0))
            if rows.size:
                found[rows] = area(shape, self.decay_steps[rows], self.peak[rows], self.final[rows])
        return found


def _decay_forward(shape: str, steps: NDArray[np.int64], peak: Floats, final: Floats) -> Floats:
    """Return S1 of decays."""
    fall = peak - final
    if shape == "exponential":
        rate = np.log(final / peak) / steps
        even = rate == 0.0
        safe = np.where(even, -1.0, rate)
        ratio = np.where(even, steps, np.exp(safe) * np.expm1(safe * steps) / np.expm1(safe))
        return np.asarray(peak * ratio)
    if shape == "one_minus_sqrt":
        roots = np.cumsum(np.sqrt(np.arange(steps.max() + 1.0)))[steps]
        return np.asarray(steps * peak - fall * roots / np.sqrt(steps))
    # The sums of i/n and of (1 - cos(pi·i/n))/2 are the same.
    return np.asarray(steps * final + fall * 0.5 * (steps - 1.0))


def _decay_fading(
    momentum: float, shape: str, steps: NDArray[np.int64], peak: Floats, final: Floats
) -> Floats:
    """Return W of decays that end at the last step: ``sum_i d_i·lambda^(n-i)``."""
    fall, rest = peak - final, 1.0 - momentum
    if shape == "linear":
        return np.asarray(fall / steps * -np.expm1(steps * np.log(momentum)) / rest)
    if shape == "cosine":
        # With z = exp(i·pi/n) the sum is (1 + lambda^n)/2·Re[(z - 1)/(z - lambda)].
        wave = np.sin(0.5 * np.pi / steps) ** 2
        share = (1.0 + momentum) * wave / (rest**2 + 4.0 * momentum * wave)
        return np.asarray(fall * (1.0 + momentum**steps) * share)
    if shape == "one_minus_sqrt":
        # i falls by sqrt(i) - sqrt(i - 1), whatever n is: one recursion serves every length.
        from bayes_cpt.laws.recursion import fading_sum

        falls = np.diff(np.sqrt(np.arange(steps.max() + 1.0)), prepend=0.0)
        return np.asarray(fall * fading_sum(falls, momentum)[steps] / np.sqrt(steps))
    # The ratio per step q and lambda give (lambda^n - q^n)/(lambda - q), written to survive q = lambda.
    ratio = np.log(final / peak) / steps
    larger, apart = np.maximum(ratio, np.log(momentum)), np.abs(ratio - np.log(momentum))
    even = apart == 0.0
    safe = np.where(even, 1.0, apart)
    terms = np.where(even, steps, np.expm1(-safe * steps) / np.expm1(-safe))
    return np.asarray(peak * -np.expm1(ratio) * np.exp(larger * (steps - 1.0)) * terms)

"""Schedules of any falling shape, and the best cosine and the best hold-and-decay beside them.

After a line from the base's learning rate to its own first one, a free schedule is any non-increasing
sequence below a cap: straight lines between some 40 knots, closer together towards the end, each lower
than the one before by a part that is 0 or more. What is minimised is the posterior mean of the
objective (`bayes_cpt.decisions.schedule.schedule_end`), with its slope by every learning rate written out,
as Luo et al. (ICLR 2025, arXiv 2503.12811) minimise that of a point fit.

Knots are several steps apart, so that nothing falls at once: the multi-power term reckons a fall by the
learning rate that it ends at, and so promises more of one step than of ten that fall as far.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats
from bayes_cpt.decisions.schedule.schedule_end import Criterion, ScheduleEnd
from bayes_cpt.study.schedules import Schedule, cosine, warmup_stable_decay

KNOTS = 40
# Steps between knots, at least.
APART = 8
# Length of the line from the base's learning rate, as in the spaces of `decide`.
WARMUP_SHARE = 0.02
DECAYS = ("linear", "one_minus_sqrt", "cosine")
# Where the search for the best peak (of the cap), decay (of the steps) and last LR (of the peak) starts.
PEAKS, SHARES, FINALS = (0.1, 0.3, 1.0), (0.03, 0.1, 0.3), (0.0, 0.1)
LOWEST_PEAK, SHORTEST = 0.01, 0.005
# A start of the search has no learning rate below this share of the cap, where slopes are very steep.
LIFTED = 1e-3
# Stretches of one learning rate that stand for a run while its schedule is optimised: 30 to a knot, and
# more in its first line, that the first steps from a learning rate of 0 are told apart.
STRETCHES, EARLY = 1200, 200
# Changes of the objective that are none, nats, and of a choice.
TOLERANCE, NEAR = 1e-8, 3e-3
ITERATIONS = 300

type Build = Callable[[Floats], Schedule]


@dataclass(frozen=True, eq=False)
class Shapes:
    """Schedules of a run, up to a highest learning rate.

    Parameters
    ----------
    end : ScheduleEnd
        What is minimised.
    cap : float
        The highest learning rate allowed, raw.
    """

    end: ScheduleEnd
    cap: float

    @property
    def warmup(self) -> int:
        """Steps of the line from the base's learning rate."""
        return min(round(WARMUP_SHARE * self.end.steps), self.end.steps - 1)

    def best_cosine(self, criterion: Criterion) -> Schedule:
        """Return the half-cosine over the whole run whose peak and last learning rate are best.

        Parameters
        ----------
        criterion : Criterion
            What is made least.
        """
        starts = [(peak, final) for peak in PEAKS for final in FINALS]
        return self._searched(criterion, self._cosine_at, starts)

    def best_wsd(self, criterion: Criterion) -> Schedule:
        """Return the schedule that is held and then decays whose four choices are best.

        Peak, length of the decay, last learning rate, and shape of the decay.

        Parameters
        ----------
        criterion : Criterion
            What is made least.
        """
        starts = [(peak, final, share) for peak in PEAKS for final in FINALS for share in SHARES]
        candidates = [
            self._searched(criterion, partial(self._wsd_at, shape), starts) for shape in DECAYS
        ]
        return self._better(criterion, candidates)

    def best_free(self, criterion: Criterion, starts: Sequence[Schedule]) -> Schedule:
        """Return the best falling schedule that is found from some others.

        Parameters
        ----------
        criterion : {"annealing", "multi_power", "both"}
        starts : sequence of Schedule
            The search begins at the falling schedule nearest to each.
        """
        return self._better(criterion, [self._descended(criterion, start) for start in starts])

    def held(self) -> Schedule:
        """Return the schedule that stays at the cap."""
        return warmup_stable_decay(
            self.end.steps,
            self.cap,
            decay_steps=0,
            warmup_steps=self.warmup,
            start=self.end.initial,
        )

    def _better(self, criterion: Criterion, schedules: Sequence[Schedule]) -> Schedule:
        return min(schedules, key=lambda schedule: self.end.expected(schedule, criterion))

    def _cosine_at(self, at: Floats) -> Schedule:
        peak, final = at.tolist()
        rate = peak * self.cap
        return cosine(
            self.end.steps, rate, final * rate, warmup_steps=self.warmup, start=self.end.initial
        )

    def _wsd_at(self, shape: str, at: Floats) -> Schedule:
        peak, final, share = at.tolist()
        rate, steps = peak * self.cap, self.end.steps
        return warmup_stable_decay(
            steps,
            rate,
            final * rate,
            decay_steps=max(round(share * (steps - self.warmup)), 1),
            warmup_steps=self.warmup,
            start=self.end.initial,
            decay_shape=shape,
        )

    def _searched(
        self, criterion: Criterion, build: Build, starts: Sequence[tuple[float, ...]]
    ) -> Schedule:
        from scipy.optimize import minimize

        def score(at: Floats) -> float:
            rates = np.add.reduceat(build(at).learning_rates(), self._firsts)
            return self.end.score(rates / self._counts, self._counts, criterion)

        first = min(starts, key=lambda start: score(np.array(start)))
        bounds = [(LOWEST_PEAK, 1.0), (0.0, 1.0), (SHORTEST, 1.0)][: len(first)]
        options = {"xatol": NEAR, "fatol": TOLERANCE, "maxfev": 50 * len(first)}
        best = minimize(score, first, method="Nelder-Mead", bounds=bounds, options=options)
        return build(best.x)

    @cached_property
    def _firsts(self) -> NDArray[np.int64]:
        """Steps before each of the stretches that stand for a run while it is optimised."""
        steps = self.end.steps
        shares = 1.0 - np.arange(STRETCHES) / STRETCHES
        early = np.geomspace(1.0, steps, EARLY)[:-1]
        edges = np.round(np.concatenate([steps * (1.0 - shares**2), early])).astype(np.int64)
        return np.unique(edges[edges < steps])

    @cached_property
    def _counts(self) -> Floats:
        """Steps of each of the stretches."""
        return np.diff(self._firsts, append=self.end.steps).astype(np.float64)

    def _knots(self) -> Floats:
        """Return the steps of the knots, from the end of the first line on."""
        steps = self.end.steps
        left = (steps - self.warmup) * (1.0 - np.arange(KNOTS + 1) / KNOTS) ** 2
        places, kept = steps - left[::-1], [float(steps)]
        for place in places:
            if kept[-1] - place >= APART:
                kept.append(float(place))
        kept[-1] = float(self.warmup)
        return np.array(kept[::-1])

    def _basis(self, at: Floats) -> tuple[Floats, Floats]:
        """Return what each part adds to the learning rates at some steps, and what is there without.

        The parts are the falls from each knot to the next, and last the learning rate of the last knot:
        each lifts its own knot and all before it. Shapes are (steps, knots) and (steps,).
        """
        knots = self._knots()
        hats = np.stack([np.interp(at, knots, row) for row in np.eye(knots.size)], axis=1)
        share = np.minimum(at / max(self.warmup, 1), 1.0)
        hats[:, 0] *= share
        return np.cumsum(hats, axis=1), self.end.initial * (1.0 - share)

    def _descended(self, criterion: Criterion, start: Schedule) -> Schedule:
        from scipy.optimize import minimize

        counts = self._counts
        middle = self._firsts + 0.5 * (counts + 1.0)
        basis, before = self._basis(middle)

        def score(parts: Floats) -> tuple[float, Floats]:
            rates = before + basis @ (self.cap * np.maximum(parts, 0.0))
            value, slopes = self.end.slopes(rates, counts, criterion)
            return value, self.cap * (slopes @ basis)

        rows = np.maximum(np.round(self._knots()).astype(np.int64) - 1, 0)
        knots = np.minimum.accumulate(start.learning_rates()[rows]) / self.cap
        knots = np.clip(knots, LIFTED, 1.0)
        optimum = minimize(
            score,
            np.append(-np.diff(knots), knots[-1]),
            jac=True,
            method="SLSQP",
            bounds=[(0.0, 1.0)] * knots.size,
            constraints={
                "type": "ineq",
                "fun": lambda parts: 1.0 - parts.sum(),
                "jac": lambda parts: -np.ones(parts.size),
            },
            options={"ftol": TOLERANCE, "maxiter": ITERATIONS},
        )
        parts = np.maximum(optimum.x, 0.0)
        basis, before = self._basis(np.arange(1.0, self.end.steps + 1.0))
        rates = before + basis @ (self.cap * parts / max(1.0, float(parts.sum())))
        return Schedule.from_log(np.arange(1, self.end.steps + 1), rates)

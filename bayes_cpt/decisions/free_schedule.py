"""Schedules of any falling shape, and the best cosine and the best hold-and-decay beside them.

After a line from the base's learning rate to its own first one, a free schedule is any non-increasing
sequence below a cap: straight lines between some 40 knots, closer together towards the end, each lower
than the one before by a part that is 0 or more. What is minimised is the posterior mean of the objective
after the last step, with its slope by every learning rate, as Luo et al. (ICLR 2025, arXiv 2503.12811)
minimise that of a point fit.

A schedule enters the law of a run by four numbers: the forward areas of the power and of the shift, the
steps of the memory's clock, and the level of the learning rate. Slopes of the loss by these are
differences; slopes of these by every learning rate are written out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.decisions.final_losses import BaseTable, FinalLosses
from bayes_cpt.forecast.evaluate import Draws, losses
from bayes_cpt.laws.areas import SMALLEST, AreaForm
from bayes_cpt.laws.schedule_ends import level_slopes
from bayes_cpt.model.groups import mixture_columns
from bayes_cpt.study.runs import Base
from bayes_cpt.study.schedules import Schedule, cosine, warmup_stable_decay

KNOTS = 40
# Steps between knots, at least.
APART = 8
# Length of the line from the base's learning rate, as in the spaces of `decide`.
WARMUP_SHARE = 0.02
DECAYS = ("linear", "one_minus_sqrt", "cosine")
# Where the search for the best peak (of the cap), decay (of the steps) and last LR (of the peak) starts.
PEAKS, SHARES, FINALS = (0.1, 0.3, 1.0), (0.1, 0.3), (0.0, 0.1)
LOWEST_PEAK = 0.01
# A start of the search has no learning rate below this share of the cap, where slopes are very steep.
LIFTED = 1e-3
# Learning rates below this have the slope of this one: at 0 it is infinite.
LOWEST_RATE = 1e-12
# Stretches of one learning rate that stand for a run while its schedule is optimised: 30 to a knot, and
# more in its first line, so that the first steps from a learning rate of 0 are told apart.
STRETCHES, EARLY = 1200, 200
# Changes of the objective that are none, nats, and of a choice.
TOLERANCE, NEAR = 1e-8, 3e-3
ITERATIONS = 300
# Draws that stand for all where a schedule is optimised.
FEW_DRAWS = 48
# Step of the slopes by areas and level, as a share of them.
STEP = 1e-4

type Build = Callable[[Floats], Schedule]


@dataclass(frozen=True, eq=False)
class EndAreas:
    """What the law takes of some schedules after their last steps, one per row."""

    log_forward: Floats  # series of the log of S1_pt + S1_cpt, (schedules, nodes)
    level: Floats  # series of the level of the learning rate, (schedules, nodes)
    shift: Floats  # S1_cpt as the shift sees it, (schedules,)
    paced: Floats  # steps of the memory's clock, (schedules,)

    @classmethod
    def of(cls, rates: Floats, counts: Floats, form: AreaForm, table: BaseTable) -> Self:
        """Return those of one schedule whose learning rates are held for some steps each."""
        paces = form.paces(rates)
        log_momenta = np.log(form.momenta.node_momenta())
        after = np.append(np.cumsum((counts * paces)[::-1])[::-1], 0.0)
        left = np.exp(log_momenta[:, None] * after)
        reached = table.initial[0] * left[:, 0] + np.diff(left, axis=1) @ rates
        log_rates = np.log(np.maximum(rates, LOWEST_RATE))
        powers = np.exp(log_rates[:, None] * form.powers.interval.at_nodes())
        relative = log_rates - np.log(form.reference_rate)
        return cls(
            form.powers.interval.series(np.log(counts @ powers + table.forward[0]))[None],
            form.momenta.interval.series(reached)[None],
            form.reference_rate * (counts @ np.exp(form.shift_power * relative))[None],
            (counts @ paces)[None],
        )

    def moved(self, form: AreaForm) -> Self:
        """Return these, and twice as many rows for each area: moved down by a small step, and up."""
        one = form.powers.interval.series(np.ones(self.log_forward.shape[-1]))
        moves: dict[str, tuple[Any, Any]] = {
            name: (own * (1.0 - STEP), own * (1.0 + STEP)) for name, own in vars(self).items()
        }
        moves["log_forward"] = (self.log_forward - STEP * one, self.log_forward + STEP * one)
        rows = {}
        for name, own in vars(self).items():
            every = [own]
            for other in vars(self):
                every += moves[name] if other == name else (own, own)
            rows[name] = np.concatenate(every)
        return type(self)(**rows)


@dataclass(frozen=True, eq=False)
class ScheduleEnd:
    """Runs of one length from one base of known schedule at one replay ratio, under one law."""

    model: FinalLosses
    base: Base
    replay: float
    steps: int
    weights: Floats  # of the objective, (domains,)
    # Share of each of several targets in the data that are not replay; empty where there is one.
    mixture: Mapping[str, float] = field(default_factory=dict)

    @property
    def initial(self) -> float:
        """Learning rate of the base."""
        return self.base.schedule.final if self.base.schedule else 0.0

    @property
    def draws(self) -> Draws:
        """The law in all draws."""
        return self.model.laws[0].draws

    @cached_property
    def few(self) -> Draws:
        """The draws in which schedules are optimised, spread evenly over all."""
        count = min(FEW_DRAWS, self.draws.count)
        return self.draws.take(np.linspace(0, self.draws.count - 1, count).round().astype(np.int64))

    @cached_property
    def _table(self) -> BaseTable:
        return self.model.tables((self.base,))[0]

    def objective(self, areas: EndAreas, draws: Draws) -> Floats:
        """Return the weighted sum of the losses over validation sets, shape (schedules, draws)."""
        starts, frame = self._table.curves, draws.frame
        sets, schedules = len(frame.domains), areas.shift.size
        curve = np.tile(np.arange(sets), schedules)
        mixed = [
            mixture_columns(self.mixture, frame.domains, index, self.replay)
            for index in range(sets)
        ]
        own: dict[str, Any] = {
            "steps": np.full(curve.size, float(self.steps)),
            "cpt_steps": np.full(curve.size, float(self.steps)),
            "learning_rate": np.zeros(curve.size),
            "target_share": np.full(curve.size, 1.0 - self.replay),
            "other_share": np.tile([share for share, _ in mixed], schedules),
            "mixture": np.tile([shares for _, shares in mixed], (schedules, 1)),
            "log_forward": np.repeat(areas.log_forward, sets, axis=0),
            "level_cpt": np.repeat(areas.level, sets, axis=0),
            "forward_cpt": np.repeat(areas.shift, sets),
            "paced_steps": np.repeat(areas.paced, sets),
        }
        points = starts.bases.map(lambda name, values: own.get(name, values[curve]))
        found = losses(replace(starts, points=points), draws).reshape(schedules, sets, -1)
        return np.asarray(np.tensordot(self.weights, found, axes=(0, 1)))

    def values(self, schedule: Schedule) -> Floats:
        """Return the objective after the last step of a schedule in every draw, shape (draws,)."""
        rates = schedule.learning_rates()
        areas = EndAreas.of(rates, np.ones(rates.size), self.draws.form, self._table)
        return np.asarray(self.objective(areas, self.draws)[0])

    def expected(self, schedule: Schedule) -> float:
        """Return the expected objective of a schedule, over `few` draws."""
        rates = schedule.learning_rates()
        return self.score(rates, np.ones(rates.size))

    def score(self, rates: Floats, counts: Floats) -> float:
        """Return the expected objective of learning rates that are held for some steps each."""
        areas = EndAreas.of(rates, counts, self.few.form, self._table)
        return float(self.objective(areas, self.few).mean())

    def slopes(self, rates: Floats, counts: Floats) -> tuple[float, Floats]:
        """Return the expected objective, and its slope by the learning rate of each stretch."""
        draws, form = self.few, self.few.form
        areas = EndAreas.of(rates, counts, form, self._table)
        values, *moved = self.objective(areas.moved(form), draws)
        # By the relative change of each area, and by that of the log of S1 itself.
        by = {
            name: (moved[2 * place + 1] - moved[2 * place]) / (2.0 * STEP)
            for place, name in enumerate(vars(areas))
        }
        safe = np.maximum(rates, LOWEST_RATE)
        log_rates = np.log(safe)
        powers = form.powers.interval.at_nodes()
        by_area = np.exp((powers[:, None] - 1.0) * log_rates) * powers[:, None] * counts
        sums = np.exp(log_rates[:, None] * powers).T @ counts + self._table.forward[0]
        by_area = form.powers.interval.series((by_area / sums[:, None]).T).T
        slopes = (draws.forward_basis @ by["log_forward"]) @ by_area

        paces = form.paces(safe)
        by_rate = form.memory_clock * paces / safe
        log_momenta = np.log(form.momenta.node_momenta())
        reached, each = self._table.initial[0].copy(), np.empty((log_momenta.size, rates.size))
        level_slopes(rates, counts, paces, by_rate, log_momenta, reached, each)
        by_level = form.momenta.interval.series(each.T).T
        level = areas.level[0] @ draws.level_basis
        # A level that is none has no slope.
        relative = np.where(level > SMALLEST, by["level"] / np.maximum(level, SMALLEST), 0.0)
        slopes += (draws.level_basis @ relative) @ by_level

        share = safe / form.reference_rate
        by_shift = form.shift_power * counts * share ** (form.shift_power - 1.0)
        slopes += by["shift"].sum() / areas.shift[0] * by_shift
        slopes += by["paced"].sum() / areas.paced[0] * counts * by_rate
        return float(values.mean()), slopes / draws.count


@dataclass(frozen=True, eq=False)
class Shapes:
    """Schedules of a run, up to a highest learning rate."""

    end: ScheduleEnd
    cap: float  # the highest learning rate allowed, raw
    shortest: float  # the shortest decay of a schedule that is held first, as a share of its steps

    @property
    def warmup(self) -> int:
        """Steps of the line from the base's learning rate."""
        return min(round(WARMUP_SHARE * self.end.steps), self.end.steps - 1)

    def best_cosine(self) -> Schedule:
        """Return the half-cosine over the whole run whose peak and last learning rate are best."""
        starts = [(peak, final) for peak in PEAKS for final in FINALS]
        return self._searched(self._cosine_at, starts)

    def best_wsd(self) -> Schedule:
        """Return the best schedule that is held and then decays: peak, decay, last LR, and shape."""
        starts = [(peak, final, share) for peak in PEAKS for final in FINALS for share in SHARES]
        candidates = [self._searched(partial(self._wsd_at, shape), starts) for shape in DECAYS]
        return min(candidates, key=self.end.expected)

    def best_free(self, starts: Sequence[Schedule]) -> Schedule:
        """Return the best falling schedule that is found from those nearest to some others."""
        return min([self._descended(start) for start in starts], key=self.end.expected)

    def held(self) -> Schedule:
        """Return the schedule that stays at the cap."""
        return warmup_stable_decay(
            self.end.steps,
            self.cap,
            decay_steps=0,
            warmup_steps=self.warmup,
            start=self.end.initial,
        )

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

    def _searched(self, build: Build, starts: Sequence[tuple[float, ...]]) -> Schedule:
        from scipy.optimize import minimize

        def score(at: Floats) -> float:
            rates = np.add.reduceat(build(at).learning_rates(), self._firsts)
            return self.end.score(rates / self._counts, self._counts)

        bounds = [(LOWEST_PEAK, 1.0), (0.0, 1.0), (self.shortest, 1.0)][: len(starts[0])]
        first = min(starts, key=lambda start: score(np.array(start)))
        options = {"xatol": NEAR, "fatol": TOLERANCE, "maxfev": 50 * len(first)}
        best = minimize(score, first, method="Nelder-Mead", bounds=bounds, options=options)
        return build(best.x)

    @cached_property
    def _firsts(self) -> Ints:
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

    def _descended(self, start: Schedule) -> Schedule:
        from scipy.optimize import minimize

        counts = self._counts
        middle = self._firsts + 0.5 * (counts + 1.0)
        basis, before = self._basis(middle)

        def score(parts: Floats) -> tuple[float, Floats]:
            rates = before + basis @ (self.cap * np.maximum(parts, 0.0))
            value, slopes = self.end.slopes(rates, counts)
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

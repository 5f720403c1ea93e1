"""Schedules of any falling shape, and the best cosine and the best hold-and-decay beside them.

After a line from the base's learning rate to its own first one, a free schedule is any non-increasing
sequence below a cap: straight lines between some 40 knots, closer together towards the end, each lower
than the one before by a part that is 0 or more. What is minimised is the posterior mean of the
objective (`bayes_cpt.decisions.free_schedule`), with its slope by every learning rate written out,
as Luo et al. (ICLR 2025, arXiv 2503.12811) minimise that of a point fit.

Knots are several steps apart, so that nothing falls at once: the multi-power term reckons a fall by the
learning rate that it ends at, and so promises more of one step than of ten that fall as far.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats
from bayes_cpt.decisions.final_losses import BaseTable, FinalLosses
from bayes_cpt.forecast.columns import Columns
from bayes_cpt.laws.areas import SMALLEST, AreaForm, learning_rate_level
from bayes_cpt.laws.law import gather
from bayes_cpt.laws.multi_power import SMALLEST as LOWEST_RATE
from bayes_cpt.laws.multi_power import Falls, MultiPower, reduced_at_end
from bayes_cpt.laws.numerics.ranges import momentum_parts
from bayes_cpt.laws.phase_areas import continual_areas
from bayes_cpt.model.groups.targets import mixture_columns
from bayes_cpt.study.runs import Base
from bayes_cpt.study.schedules import Schedule, cosine, warmup_stable_decay
from bayes_cpt.study.study import Study

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
# Draws that stand for all where a schedule is optimised.
FEW_DRAWS = 48
# Step of the slopes by areas and level, as a share of them.
STEP = 1e-4
# Numbers in memory at a time.
BLOCK = 2**22
# Medians of the authors' three fits, 25M to 400M parameters, which agree within 0.02. With both free, least
# squares takes gamma to 1 and beta to infinity, where the term is the annealing area once more.
BETA, GAMMA = 0.594, 0.641
POINTS = 12
# More falls than this are merged.
FALLS = 150
NODES = 17
# How far from the memory's own pace C is looked for, in logs.
REACH = 6.0


type Term = Literal["annealing", "multi_power"]


type Criterion = Literal["annealing", "multi_power", "both"]

TERMS: tuple[Term, ...] = ("annealing", "multi_power")


type Build = Callable[[Floats], Schedule]


@dataclass(frozen=True, eq=False)
class MultiPowerMatch:
    """Coefficients of the multi-power term for each momentum of the annealing area.

    By least squares over points spread evenly along every run of a study: at each momentum C and a factor b
    are such that ``b·sum_k (eta_{k-1} - eta_k)·G`` is the fall of the level of the learning rate. Both
    terms have the same gain per fall in each draw, so that this is the least-squares match of every draw.
    """

    momenta: Floats  # falling or alike, (nodes,)
    pace: Floats  # c and b, (nodes,)
    factor: Floats
    # Root mean square of what is left between the two, as a share of the highest learning rate: times the
    # gain of a full anneal it is in nats, (nodes,)
    misfit: Floats

    @classmethod
    def of(cls, study: Study, form: AreaForm) -> Self:
        """Return the match on the runs of a study over the momenta of a form."""
        distance = 1.0 - np.array([form.momenta.low, form.momenta.high])
        nodes = 1.0 - np.geomspace(distance.min(), distance.max(), NODES)
        courses = _courses(study, form)
        falls = [Falls.of(rates, before, steps, FALLS) for rates, before, steps in courses]
        highest = max(max(float(rates.max()), before) for rates, before, _ in courses)
        matches = []
        for momentum in nodes:
            fallen = [
                before - learning_rate_level(rates, momentum, before, form.paces(rates))[steps - 1]
                for rates, before, steps in courses
            ]
            target = np.concatenate(fallen)
            matches.append(_matched(falls, target, highest, float(1.0 - momentum)))
        pace, factor, misfit = np.array(matches).T
        return cls(nodes, pace, factor, misfit / highest)

    def at(self, momenta: Floats) -> tuple[Floats, Floats, Floats]:
        """Return pace, factor and misfit at momenta of the range, each of their shape."""
        place, nodes = np.log(1.0 - momenta), np.log(1.0 - self.momenta)
        return (
            np.exp(np.interp(place, nodes, np.log(self.pace))),
            np.interp(place, nodes, self.factor),
            np.interp(place, nodes, self.misfit),
        )


def _courses(study: Study, form: AreaForm) -> list[tuple[Floats, float, NDArray[np.int64]]]:
    """Return the learning rates of each run, the one before, and the steps that are compared.

    A PT run counts from the end of its warm-up, unless the warm-up counts in its annealing area.
    """
    courses = []
    for run in study.runs:
        rates, before = run.schedule.learning_rates(), 0.0
        if run.phase == "pt":
            warmup = 0 if form.count_warmup else run.schedule.warmup_steps
            before = 0.0 if form.count_warmup else float(rates[max(warmup - 1, 0)])
            rates = rates[warmup:]
        else:
            base: Schedule | None = study.base(str(run.base)).schedule
            before = base.final if base else 0.0
        if rates.size:
            shares = np.arange(1, POINTS + 1) / POINTS
            courses.append(
                (rates, before, np.unique(np.ceil(shares * rates.size).astype(np.int64)))
            )
    return courses


def _matched(
    falls: list[Falls], target: Floats, highest: float, distance: float
) -> tuple[float, float, float]:
    from scipy.optimize import minimize_scalar

    def reduced(log_pace: float) -> Floats:
        values = {"C_mp": np.exp(log_pace), "beta_mp": BETA, "gamma_mp": GAMMA}
        given = {name: np.array([value]) for name, value in values.items()}
        return np.concatenate([MultiPower().reduced(course, given, np) for course in falls])

    def factor(effect: Floats) -> float:
        square = float(effect @ effect)
        return float(effect @ target) / square if square > 0 else 1.0

    def misfit(log_pace: float) -> float:
        effect = reduced(log_pace)
        return float(np.mean((factor(effect) * effect - target) ** 2))

    middle = np.log(distance * highest ** (GAMMA - 1.0))
    best = minimize_scalar(misfit, bounds=(middle - REACH, middle + REACH), method="bounded")
    return float(np.exp(best.x)), factor(reduced(best.x)), float(np.sqrt(best.fun))


@dataclass(frozen=True, eq=False)
class EndAreas:
    """What the law takes of schedules after their last steps, in some draws."""

    log_area: Floats  # log of S1_pt + S1_cpt, (..., draws)
    shift: Floats  # s1_cpt as the shift sees it, the same in every draw, (..., draws)
    paced: Floats  # steps by the memory's clock, the same in every draw, (..., draws)
    level: Floats  # of the learning rate in CPT, raw LR, (..., draws)


@dataclass(frozen=True, eq=False)
class ScheduleEnd:
    """Runs of one length from one base at one replay ratio."""

    model: FinalLosses
    base: Base  # with a known schedule
    replay: float
    steps: int
    weights: Floats  # of the objective, (domains,)
    match: MultiPowerMatch  # of the fitted study
    # Share of each of several targets in the data that are not replay; empty where there is one
    mixture: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        model: FinalLosses,
        base: Base,
        replay: float,
        steps: int,
        weights: Floats,
        mixture: Mapping[str, float] | None = None,
    ) -> Self:
        """Return the runs, the multi-power term matched on the runs of the fitted study."""
        match = MultiPowerMatch.of(model.study, model.sample.form)
        return cls(model, base, replay, steps, weights, match, mixture or {})

    @property
    def initial(self) -> float:
        """Learning rate of the base."""
        return self.base.schedule.final if self.base.schedule else 0.0

    @cached_property
    def parts(self) -> list[tuple[Floats, Floats, Floats]]:
        """Momenta of each draw, the weight of the level of each, and that level at first, (draws,) each."""
        form = self.model.sample.form
        series = form.momenta.interval.series(self._table.initial[0])
        return [
            (momenta, weight, form.momenta.basis(momenta) @ series)
            for momenta, weight in momentum_parts(self.model.sample.coefficients)
        ]

    @cached_property
    def few(self) -> NDArray[np.int64]:
        """The draws in which schedules are optimised, spread evenly over all."""
        count = min(FEW_DRAWS, self.model.draws)
        return np.linspace(0, self.model.draws - 1, count).round().astype(np.int64)

    @cached_property
    def _every(self) -> NDArray[np.int64]:
        return np.arange(self.model.draws)

    @cached_property
    def _table(self) -> BaseTable:
        return self.model.bases((self.base,))

    @cached_property
    def sensitivity(self) -> Floats:
        """How the objective rises with the level half way to the reference LR, shape (draws,), per LR."""
        form = self.model.sample.form
        rates = np.full(self.steps, 0.5 * form.reference_rate)
        middle = self.areas(rates, np.ones(self.steps), self._every, rates[0])
        return self._slopes_by_areas(middle, self._every)[1]["level"]

    def areas(
        self, rates: Floats, counts: Floats, draws: NDArray[np.int64], level: Floats | float
    ) -> EndAreas:
        """Return the areas of learning rates that are held for some steps each, for given levels."""
        form = self.model.sample.form
        log_rates = np.log(np.maximum(rates, LOWEST_RATE))
        interval = form.powers.interval
        nodes = counts @ np.exp(log_rates[:, None] * interval.at_nodes()) + self._table.forward[0]
        relative = log_rates - np.log(form.reference_rate)
        shift = form.reference_rate * float(counts @ np.exp(form.shift_power * relative))
        return EndAreas(
            self._forward_basis[draws] @ interval.series(np.log(nodes)),
            np.full(draws.size, shift),
            np.full(draws.size, float(counts @ np.exp(form.memory_clock * relative))),
            np.maximum(level + np.zeros(draws.size), SMALLEST),
        )

    @cached_property
    def _forward_basis(self) -> Floats:
        """Basis of the series of log forward areas, shape (draws, nodes)."""
        sample = self.model.sample
        basis = np.asarray(sample.form.forward_basis(sample.coefficients))
        return np.broadcast_to(basis, (self.model.draws, basis.shape[-1]))

    def level(self, schedule: Schedule, term: Term) -> Floats:
        """Return the level after the last step under the law's own term or the multi-power one, (draws,).

        Of the multi-power term there is nothing but the run's own falls: what is carried over from PT
        fades as under the law's own.
        """
        sample = self.model.sample
        if term == "annealing":
            areas = continual_areas(self.base.schedule, schedule, [self.steps], sample.form)
            basis = sample.form.level_basis(sample.coefficients)
            return np.asarray(np.maximum(basis @ areas.level_cpt[0], SMALLEST))
        falls = Falls.of(schedule.learning_rates(), self.initial, np.array([self.steps]))
        paced = float(sample.form.paces(schedule.learning_rates()).sum())
        level = np.full(self.model.draws, self.initial)
        for momenta, weight, start in self.parts:
            pace, factor, _ = self.match.at(momenta)
            blocks = max(1, pace.size * falls.size.shape[1] // BLOCK + 1)
            reduced = [
                MultiPower().reduced(falls, _coefficients(paces[:, None]), np)[:, 0]
                for paces in np.array_split(pace, blocks)
            ]
            carried = (start - self.initial) * momenta**paced
            level += weight * (carried - factor * np.concatenate(reduced))
        return np.asarray(np.maximum(level, SMALLEST))

    def losses(self, areas: EndAreas, draws: NDArray[np.int64]) -> Floats:
        """Return losses at the end in some draws, shape (domains, ..., draws)."""
        table, law = self._table, self.model.sample.frame.law
        shape = np.broadcast_shapes(*(np.shape(area) for area in vars(areas).values()))
        log_area, shift, paced, level = (
            area if area.ndim == 1 else np.broadcast_to(area, shape).reshape(-1, draws.size)
            for area in (areas.log_area, areas.shift, areas.paced, areas.level)
        )
        one = np.ones((1, 1))
        losses = []
        drawn, offset = self._in_draws(draws)
        domains = self.model.domains
        for index in range(len(domains)):
            other_share, mixture = mixture_columns(self.mixture, domains, index, self.replay)
            end = Columns(
                domain_index=index,
                levels=(table.level[:, draws], np.atleast_2d(level)),
                log_area=np.atleast_2d(log_area),
                steps=self.steps * one,
                cpt_steps=self.steps * one,
                paced_steps=np.atleast_2d(paced),
                forward_cpt=np.atleast_2d(shift),
                start_pt=table.start[0] * one,
                log_peak_pt=table.log_peak[0] * one,
                start_cpt=max(self.initial, SMALLEST) * one,
                target_share=(1.0 - self.replay) * one,
                other_share=other_share * one,
                mixture=mixture[None],
                log_size=table.log_size[0] * one,
                learning_rate=0.0 * one,
                size_member=table.size_member[index],
            )
            coefficients = gather(end, drawn, np)
            losses.append(end.losses(law, coefficients, offset[index]).reshape(shape))
        return np.stack(losses)

    def _in_draws(self, draws: NDArray[np.int64]) -> tuple[dict[str, Floats], Floats]:
        """Return the law's coefficients in some draws, and the base's offset on each validation set."""
        return self._in_few if draws is self.few else self._taken(draws)

    @cached_property
    def _in_few(self) -> tuple[dict[str, Floats], Floats]:
        return self._taken(self.few)

    def _taken(self, draws: NDArray[np.int64]) -> tuple[dict[str, Floats], Floats]:
        coefficients = self.model.sample.coefficients
        drawn = {name: value[draws] for name, value in coefficients.items()}
        return drawn, np.asarray(self._table.offset[..., draws], dtype=np.float64)

    def objective(self, areas: EndAreas, draws: NDArray[np.int64]) -> Floats:
        """Return the weighted sum of `losses` over validation sets, shape (..., draws)."""
        return np.tensordot(self.weights, self.losses(areas, draws), 1)

    def values(self, schedule: Schedule, term: Term) -> Floats:
        """Return the objective after the last step of a schedule in every draw, shape (draws,)."""
        rates = schedule.learning_rates()
        level = self.level(schedule, term)
        areas = self.areas(rates, np.ones(rates.size), self._every, level)
        return self.objective(areas, self._every)

    def expected(self, schedule: Schedule, criterion: Criterion) -> float:
        """Return the expected objective of a schedule, over `few` draws."""
        rates = schedule.learning_rates()
        return self.score(rates, np.ones(rates.size), criterion)

    def score(self, rates: Floats, counts: Floats, criterion: Criterion) -> float:
        """Return the expected objective of learning rates that are held for some steps each."""
        levels = [self._level_at_end(term, rates, counts) for term in terms_of(criterion)]
        areas = self.areas(rates, counts, self.few, np.stack(levels))
        return float(self.objective(areas, self.few).mean())

    def slopes(self, rates: Floats, counts: Floats, criterion: Criterion) -> tuple[float, Floats]:
        """Return the expected objective, and its slope by the learning rate of each stretch."""
        form, terms = self.model.sample.form, terms_of(criterion)
        safe = np.maximum(rates, LOWEST_RATE)
        log_rates = np.log(safe)
        power = self.model.sample.coefficients.get("rho", np.ones(self.model.draws))[self.few]
        by_shift = (
            form.shift_power * counts * (safe / form.reference_rate) ** (form.shift_power - 1.0)
        )
        by_pace = form.memory_clock * counts * form.paces(safe) / safe
        levels, by_rates = zip(
            *[self._level_slopes(term, rates, counts) for term in terms], strict=True
        )
        areas = self.areas(rates, counts, self.few, np.stack(levels))
        values, by = self._slopes_by_areas(areas, self.few)
        by_area = counts * np.exp((power[:, None] - 1.0) * log_rates)
        slopes = (by["log_area"].sum(axis=0) * power / np.exp(areas.log_area)) @ by_area
        slopes = slopes + by["shift"].sum() * by_shift + by["paced"].sum() * by_pace
        for by_level, by_rate in zip(by["level"], by_rates, strict=True):
            slopes = slopes + by_level @ by_rate
        return float(values.mean()), slopes / values.size

    def _slopes_by_areas(
        self, areas: EndAreas, draws: NDArray[np.int64]
    ) -> tuple[Floats, dict[str, Floats]]:
        """Return the objective and its slope by each of the areas, shape (..., draws) each.

        All differences are taken at once: with few draws most of the time is that of calls.
        """
        given = vars(areas)
        places = {name: 1 + 2 * number for number, name in enumerate(given)}
        moved, steps = {}, {}
        for name, value in given.items():
            steps[name] = STEP * (np.ones(draws.size) if name == "log_area" else value)
            signs = np.zeros((1 + 2 * len(given), *np.ones(areas.level.ndim, dtype=np.int64)))
            signs[places[name]], signs[places[name] + 1] = -1.0, 1.0
            moved[name] = value + signs * steps[name]
        values = self.objective(EndAreas(**moved), draws)
        slopes = {
            name: (values[place + 1] - values[place]) / (2.0 * steps[name])
            for name, place in places.items()
        }
        return values[0], slopes

    def _level_at_end(self, term: Term, rates: Floats, counts: Floats) -> Floats:
        """Return the level at the end of stretches in `few` draws, shape (draws,)."""
        paced = counts * self.model.sample.form.paces(rates)
        after = np.append(np.cumsum(paced[::-1])[::-1], 0.0)
        level = np.zeros(self.few.size)
        for momenta, weight, start in self._few_parts:
            if term == "annealing":
                left = np.exp(np.log(momenta)[:, None] * after)
                reached = start * left[:, 0] + np.diff(left, axis=1) @ rates
            else:
                pace, factor, _ = self.match.at(momenta)
                reduced, _ = reduced_at_end(rates, counts, self.initial, pace, BETA, GAMMA)
                carried = (start - self.initial) * momenta ** after[0]
                reached = self.initial + carried - factor * reduced
            level += weight * reached
        return level

    @property
    def _few_parts(self) -> list[tuple[Floats, Floats, Floats]]:
        few = self.few
        return [(momenta[few], weight[few], start[few]) for momenta, weight, start in self.parts]

    def _level_slopes(self, term: Term, rates: Floats, counts: Floats) -> tuple[Floats, Floats]:
        """Return the level at the end in `few` draws, and its slope by each rate, (draws, stretches)."""
        from bayes_cpt.laws.numerics.recursion import level_slopes

        form = self.model.sample.form
        level, slopes = np.zeros(self.few.size), np.zeros((self.few.size, rates.size))
        paces = form.paces(rates)
        by_rate = form.memory_clock * paces / np.maximum(rates, LOWEST_RATE)
        for momenta, weight, start in self._few_parts:
            if term == "annealing":
                reached, each = start.copy(), np.empty(slopes.shape)
                level_slopes(rates, counts, paces, by_rate, np.log(momenta), reached, each)
            else:
                pace, factor, _ = self.match.at(momenta)
                reduced, by_pace = reduced_at_end(rates, counts, self.initial, pace, BETA, GAMMA)
                carried = (start - self.initial) * momenta ** float(counts @ paces)
                reached = self.initial + carried - factor * reduced
                each = (carried * np.log(momenta))[:, None] * (counts * by_rate)
                each = each - factor[:, None] * by_pace
            level, slopes = level + weight * reached, slopes + weight[:, None] * each
        # A level that is none has no slope.
        return level, np.where(level[:, None] > SMALLEST, slopes, 0.0)


def terms_of(criterion: Criterion) -> tuple[Term, ...]:
    """Return the terms that a criterion is the mean of."""
    return TERMS if criterion == "both" else (criterion,)


def _coefficients(pace: Floats) -> dict[str, Floats]:
    return {"C_mp": pace, "beta_mp": np.array([BETA]), "gamma_mp": np.array([GAMMA])}


@dataclass(frozen=True, eq=False)
class Shapes:
    """Schedules of a run, up to a highest learning rate."""

    end: ScheduleEnd  # what is minimised
    cap: float  # the highest learning rate allowed, raw

    @property
    def warmup(self) -> int:
        """Steps of the line from the base's learning rate."""
        return min(round(WARMUP_SHARE * self.end.steps), self.end.steps - 1)

    def best_cosine(self, criterion: Criterion) -> Schedule:
        """Return the half-cosine over the whole run whose peak and last learning rate are best."""
        starts = [(peak, final) for peak in PEAKS for final in FINALS]
        return self._searched(criterion, self._cosine_at, starts)

    def best_wsd(self, criterion: Criterion) -> Schedule:
        """Return the schedule that is held and then decays whose four choices are best.

        Peak, length of the decay, last learning rate, and shape of the decay.
        """
        starts = [(peak, final, share) for peak in PEAKS for final in FINALS for share in SHARES]
        candidates = [
            self._searched(criterion, partial(self._wsd_at, shape), starts) for shape in DECAYS
        ]
        return self._better(criterion, candidates)

    def best_free(self, criterion: Criterion, starts: Sequence[Schedule]) -> Schedule:
        """Return the best falling schedule that is found from some others."""
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

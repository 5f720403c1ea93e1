"""The objective after the last step of any schedule, in every draw, and its slope by every learning rate.

A schedule enters the law of a run by three numbers: the forward areas of the power and of the shift, and
the level of the learning rate at the end, or what the multi-power term has in its place.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats
from bayes_cpt.decisions.schedule.multi_power_match import BETA, GAMMA, MultiPowerMatch
from bayes_cpt.decisions.search.base_table import BaseTable
from bayes_cpt.decisions.search.evaluate import FinalLosses
from bayes_cpt.forecast.columns import Columns
from bayes_cpt.laws.areas import SMALLEST
from bayes_cpt.laws.law import gather
from bayes_cpt.laws.multi_power import SMALLEST as LOWEST_RATE
from bayes_cpt.laws.multi_power import Falls, MultiPower, reduced_at_end
from bayes_cpt.laws.numerics.ranges import momentum_parts
from bayes_cpt.laws.phase_areas import continual_areas
from bayes_cpt.model.groups.targets import mixture_columns
from bayes_cpt.study.runs import Base
from bayes_cpt.study.schedules import Schedule

type Term = Literal["annealing", "multi_power"]
type Criterion = Literal["annealing", "multi_power", "both"]

TERMS: tuple[Term, ...] = ("annealing", "multi_power")
# Draws that stand for all where a schedule is optimised.
FEW_DRAWS = 48
# Step of the slopes by areas and level, as a share of them.
STEP = 1e-4
# Numbers in memory at a time.
BLOCK = 2**22


@dataclass(frozen=True, eq=False)
class EndAreas:
    """What the law takes of schedules after their last steps, in some draws.

    Parameters
    ----------
    log_area : ndarray, shape (..., draws)
        Log of S1_pt + S1_cpt.
    shift : ndarray, shape (..., draws)
        S1_cpt as the shift sees it, the same in every draw.
    paced : ndarray, shape (..., draws)
        Steps by the memory's clock, the same in every draw.
    level : ndarray, shape (..., draws)
        Of the learning rate in CPT, raw LR.
    """

    log_area: Floats
    shift: Floats
    paced: Floats
    level: Floats


@dataclass(frozen=True, eq=False)
class ScheduleEnd:
    """Runs of one length from one base at one replay ratio.

    Parameters
    ----------
    model : FinalLosses
    base : Base
        With a known schedule.
    replay : float
    steps : int
    weights : ndarray, shape (domains,)
        Of the objective.
    match : MultiPowerMatch
        Of the fitted study.
    mixture : mapping of str to float
        Share of each of several targets in the data that are not replay; empty where there is one.
    """

    model: FinalLosses
    base: Base
    replay: float
    steps: int
    weights: Floats
    match: MultiPowerMatch
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
        """Return the areas of learning rates that are held for some steps each, for given levels.

        Parameters
        ----------
        rates, counts : ndarray, shape (stretches,)
        draws : ndarray of int
        level : float or ndarray, shape (..., draws)
        """
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
        """Return losses at the end in some draws, shape (domains, ..., draws).

        Parameters
        ----------
        areas : EndAreas
            In these draws.
        draws : ndarray of int
        """
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
        """Return the weighted sum of `losses` over validation sets, shape (..., draws).

        Parameters
        ----------
        areas : EndAreas
            In these draws.
        draws : ndarray of int
        """
        return np.tensordot(self.weights, self.losses(areas, draws), 1)

    def values(self, schedule: Schedule, term: Term) -> Floats:
        """Return the objective after the last step of a schedule in every draw, shape (draws,)."""
        rates = schedule.learning_rates()
        level = self.level(schedule, term)
        areas = self.areas(rates, np.ones(rates.size), self._every, level)
        return self.objective(areas, self._every)

    def expected(self, schedule: Schedule, criterion: Criterion) -> float:
        """Return the expected objective of a schedule, over `few` draws.

        Parameters
        ----------
        schedule : Schedule
        criterion : {"annealing", "multi_power", "both"}
            Which term is used; both stands for the mean of the two.
        """
        rates = schedule.learning_rates()
        return self.score(rates, np.ones(rates.size), criterion)

    def score(self, rates: Floats, counts: Floats, criterion: Criterion) -> float:
        """Return the expected objective of learning rates that are held for some steps each.

        Parameters
        ----------
        rates, counts : ndarray, shape (stretches,)
        criterion : {"annealing", "multi_power", "both"}
        """
        levels = [self._level_at_end(term, rates, counts) for term in terms_of(criterion)]
        areas = self.areas(rates, counts, self.few, np.stack(levels))
        return float(self.objective(areas, self.few).mean())

    def slopes(self, rates: Floats, counts: Floats, criterion: Criterion) -> tuple[float, Floats]:
        """Return the expected objective, and its slope by the learning rate of each stretch.

        Parameters
        ----------
        rates, counts : ndarray, shape (stretches,)
            Learning rates, and for how many steps each is held.
        criterion : {"annealing", "multi_power", "both"}
        """
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

"""The objective after the last step of any schedule, in every draw, and its slope by every learning rate.

With S1 the sum of the learning rates of the run, the law's loss in a draw is ``f(S1) - g·a``: annealing
enters by ``a`` alone, which is S2_cpt, or what the multi-power term has in its place. S2_cpt is linear
in the learning rates,

    S2(N) = eta_0·(1 - lambda^N)/(1 - lambda) - sum_j lambda^(N-j)·eta_j

(a weighted sum of two such where a share of the gain is slow),

so that for one S1 the expected loss is linear in them too, and its optimum among falling schedules is a
corner: hold the peak, drop, hold, drop to 0. That corner is a property of the term, not of any data.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.decisions.schedule.multi_power_match import BETA, GAMMA, MultiPowerMatch
from bayes_cpt.decisions.search.evaluate import FinalLosses
from bayes_cpt.decisions.search.layout import BaseTable
from bayes_cpt.forecast.columns import Columns
from bayes_cpt.laws.areas import PhaseAreas, continual_areas
from bayes_cpt.laws.law import gather
from bayes_cpt.laws.momentum import momentum_parts
from bayes_cpt.laws.multi_power import Falls, MultiPower, reduced_at_end
from bayes_cpt.study.runs import Base
from bayes_cpt.study.schedules import Schedule, constant

type Floats = NDArray[np.float64]
type Term = Literal["annealing", "multi_power"]
type Criterion = Literal["annealing", "multi_power", "both"]

TERMS: tuple[Term, ...] = ("annealing", "multi_power")
# Paces of the multi-power term that stand for those of all draws where a schedule is optimised.
PACES = 8
# Step of the slope by S1, as a share of it.
STEP = 1e-4
# Numbers in memory at a time.
BLOCK = 2**22


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
    """

    model: FinalLosses
    base: Base
    replay: float
    steps: int
    weights: Floats
    match: MultiPowerMatch

    @classmethod
    def of(cls, model: FinalLosses, base: Base, replay: float, steps: int, weights: Floats) -> Self:
        """Return the runs, the multi-power term matched on the runs of the fitted study."""
        momenta = [momentum for momentum, _ in momentum_parts(model.law.sample.coefficients)]
        match = MultiPowerMatch.of(model.study, np.concatenate(momenta))
        return cls(model, base, replay, steps, weights, match)

    @property
    def initial(self) -> float:
        """Learning rate of the base."""
        return self.base.schedule.final if self.base.schedule else 0.0

    @cached_property
    def parts(self) -> list[tuple[Floats, Floats]]:
        """Momenta of each draw and the weight of their S2 in the annealing area, shape (draws,) each."""
        return momentum_parts(self.model.law.sample.coefficients)

    @cached_property
    def _table(self) -> BaseTable:
        return self.model.bases((self.base,))[0]

    @cached_property
    def _matched(self) -> list[tuple[Floats, Floats]]:
        """C of each draw and part, and the area that a unit of what has taken effect stands for."""
        matched = []
        for momenta, weight in self.parts:
            pace, factor, _ = self.match.at(momenta)
            matched.append((pace, weight * factor / (1.0 - momenta)))
        return matched

    @cached_property
    def gain(self) -> Floats:
        """What a unit of S2_cpt takes off the objective, shape (draws,)."""
        middle = np.array([self.steps * self.model.law.sample.frame.reference.learning_rate])
        none = np.zeros((1, self.model.draws))
        return np.asarray((self.objective(middle, none) - self.objective(middle, none + 1.0))[0])

    @cached_property
    def _carried(self) -> Floats:
        """S2_cpt of a run that stays at the base's learning rate: 0 unless the memory is carried over."""
        areas = continual_areas(
            self.base.schedule,
            constant(self.steps, self.initial),
            [self.steps],
            carry_memory=self.model.law.sample.frame.spec.law.carry_memory,
            momentum_range=self.model.law.sample.momentum_range,
        )
        return self._of_draws(areas)

    def _of_draws(self, areas: PhaseAreas) -> Floats:
        """Return S2_cpt at the only one of the points, shape (draws,)."""
        areas_of_parts = [
            weight * areas.annealing_cpt.evaluate(momenta)[:, 0] for momenta, weight in self.parts
        ]
        return np.sum(areas_of_parts, axis=0)

    def area(self, schedule: Schedule, term: Term) -> Floats:
        """Return S2_cpt, or what the multi-power term has in its place, shape (draws,)."""
        if term == "annealing":
            areas = continual_areas(
                self.base.schedule,
                schedule,
                [self.steps],
                carry_memory=self.model.law.sample.frame.spec.law.carry_memory,
                momentum_range=self.model.law.sample.momentum_range,
            )
            return self._of_draws(areas)
        falls = Falls.of(schedule.learning_rates(), self.initial, np.array([self.steps]))
        area = self._carried
        for pace, scale in self._matched:
            blocks = max(1, pace.size * falls.size.shape[1] // BLOCK + 1)
            reduced = [
                MultiPower().reduced(falls, _coefficients(paces[:, None]), np)[:, 0]
                for paces in np.array_split(pace, blocks)
            ]
            area = area + scale * np.concatenate(reduced)
        return np.asarray(area)

    def losses(self, forward: Floats, areas: Floats) -> Floats:
        """Return losses, shape (domains, schedules, draws), from S1_cpt and areas, (schedules, draws)."""
        table, sample = self._table, self.model.law.sample
        law, rows = sample.frame.law, forward[:, None]
        losses = []
        for index in range(len(self.model.domains)):
            ends = Columns(
                domain_index=index,
                areas=(table.annealing, areas),
                steps=np.full_like(rows, self.steps),
                cpt_steps=np.full_like(rows, self.steps),
                forward_pt=np.full_like(rows, table.forward[0]),
                forward_cpt=rows,
                target_share=np.full_like(rows, 1.0 - self.replay),
                learning_rate=np.zeros_like(rows),
            )
            coefficients = gather(ends, sample.coefficients)
            losses.append(ends.losses(law, coefficients, table.offset[index]))
        return np.stack(losses)

    def objective(self, forward: Floats, areas: Floats) -> Floats:
        """Return the weighted sum of `losses` over validation sets, shape (schedules, draws)."""
        return np.asarray(np.tensordot(self.weights, self.losses(forward, areas), axes=1))

    def values(self, schedule: Schedule, term: Term) -> Floats:
        """Return the objective after the last step of a schedule in every draw, shape (draws,)."""
        forward = np.array([float(schedule.learning_rates().sum())])
        return np.asarray(self.objective(forward, self.area(schedule, term)[None])[0])

    def expected(self, schedule: Schedule, criterion: Criterion) -> float:
        """Return the expected objective of a schedule.

        Parameters
        ----------
        schedule : Schedule
        criterion : {"annealing", "multi_power", "both"}
            Which term is used; both stands for the mean of the two.
        """
        rates = schedule.learning_rates()
        forward = np.array([float(rates.sum())])
        value = float(self.objective(forward, np.zeros((1, self.model.draws))).mean())
        terms = terms_of(criterion)
        for term in terms:
            if term == "annealing":
                offset, by_rate = self._annealing_slopes
                taken = offset + float(by_rate @ rates)
            else:
                pace, weights = self._paces
                falls = Falls.of(rates, self.initial, np.array([self.steps]))
                reduced = MultiPower().reduced(falls, _coefficients(pace[:, None]), np)
                taken = float(weights @ reduced[:, 0])
            value -= taken / len(terms)
        return value

    def slopes(self, rates: Floats, counts: Floats, criterion: Criterion) -> tuple[float, Floats]:
        """Return the expected objective, and its slope by the learning rate of each stretch.

        Parameters
        ----------
        rates, counts : ndarray, shape (stretches,)
            Learning rates, and for how many steps each is held.
        criterion : {"annealing", "multi_power", "both"}
        """
        reference = self.model.law.sample.frame.reference.learning_rate
        forward = max(float(counts @ rates), STEP * self.steps * reference)
        around = forward * np.array([1.0 - STEP, 1.0, 1.0 + STEP])
        none = np.zeros((3, self.model.draws))
        below, here, above = self.objective(around, none).mean(axis=1)
        value, slopes = float(here), counts * (above - below) / (2.0 * STEP * forward)
        terms = terms_of(criterion)
        for term in terms:
            if term == "annealing":
                offset, each = self._annealing_slopes
                first = np.cumsum(counts) - counts
                by_rate = np.add.reduceat(each, first.astype(np.int64))
                taken = offset + float(by_rate @ rates)
            else:
                pace, weights = self._paces
                reduced, by_pace = reduced_at_end(rates, counts, self.initial, pace, BETA, GAMMA)
                taken, by_rate = float(weights @ reduced), weights @ by_pace
            value, slopes = value - taken / len(terms), slopes - by_rate / len(terms)
        return value, slopes

    @cached_property
    def _annealing_slopes(self) -> tuple[float, Floats]:
        """What S2 takes off the expected objective: the part of eta_0, and the slope by each rate."""
        left = np.arange(self.steps - 1.0, -1.0, -1.0)
        by_rate, offset = np.zeros(self.steps), float(np.mean(self.gain * self._carried))
        for momenta, weight in self.parts:
            gain = self.gain * weight
            for rows in np.array_split(
                np.arange(momenta.size), momenta.size * self.steps // BLOCK + 1
            ):
                fading = np.exp(np.outer(np.log(momenta[rows]), left))
                by_rate -= gain[rows] @ fading / momenta.size
            first = -np.expm1(self.steps * np.log(momenta)) / (1.0 - momenta)
            offset += float(np.mean(gain * self.initial * first))
        return offset, by_rate

    @cached_property
    def _paces(self) -> tuple[Floats, Floats]:
        """A few paces with the gains of the draws that they stand for, shape (PACES,) each.

        What is carried over is the same for every schedule, and left out.
        """
        pace = np.concatenate([part for part, _ in self._matched])
        scale = np.concatenate([part for _, part in self._matched])
        weights = np.tile(self.gain, len(self.parts)) * scale / self.model.draws
        groups = np.array_split(np.argsort(pace), min(PACES, pace.size))
        middle = [
            float(np.exp(np.average(np.log(pace[rows]), weights=np.abs(weights[rows]))))
            for rows in groups
        ]
        return np.array(middle), np.array([float(weights[rows].sum()) for rows in groups])


def terms_of(criterion: Criterion) -> tuple[Term, ...]:
    """Return the terms that a criterion is the mean of."""
    return TERMS if criterion == "both" else (criterion,)


def _coefficients(pace: Floats) -> dict[str, Floats]:
    return {"C_mp": pace, "beta_mp": np.array([BETA]), "gamma_mp": np.array([GAMMA])}

"""Candidates laid out for the law: arrays of candidates by posterior draws.

The terms of `bayes_cpt.laws` are elementwise: with points of shape (candidates, 1) and coefficients of
shape (draws,) they give losses of shape (candidates, draws).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.decisions.search.candidates import Candidates
from bayes_cpt.landmarks.trials import LawSample, Trial
from bayes_cpt.laws.areas import MomentumRange, annealing_basis, annealing_memory
from bayes_cpt.laws.law import gather
from bayes_cpt.model.residuals import ONSET_SHARE, misfit_variance
from bayes_cpt.study.runs import Base
from bayes_cpt.study.schedules import constant

type Floats = NDArray[np.floating]
type Ints = NDArray[np.int64]
type Losses = tuple[float | None, ...]


@dataclass(frozen=True, eq=False)
class Ends:
    """The last steps of some candidates on one validation set, as the law takes points.

    Shapes are (candidates, 1), of `areas` (candidates, draws).
    """

    domain_index: int
    areas: tuple[Floats, Floats]
    steps: Floats
    forward_pt: Floats
    forward_cpt: Floats
    target_share: Floats
    learning_rate: Floats

    @property
    def cpt_steps(self) -> Floats:
        """All steps are of CPT."""
        return self.steps

    def annealing_areas(self, coefficients: Any, xp: Any) -> tuple[Floats, Floats]:
        """Return S2_pt and S2_cpt in each draw."""
        return self.areas


@dataclass(frozen=True, eq=False)
class BaseTable:
    """What the law says of some bases at the transfer.

    Parameters
    ----------
    forward : ndarray, shape (bases,)
        S1_pt, 0 of an unknown base.
    annealing : ndarray, shape (bases, draws)
        S2_pt.
    loss, offset : ndarray, shape (domains, bases, draws)
        What was measured, else the law's loss; and how far it lies above the law's.
    known : ndarray of bool, shape (domains, bases)
        Whether it was measured.
    memories : ndarray, shape (bases, nodes)
        m at each node of the momenta, 0 unless it is carried across.
    """

    forward: Floats
    annealing: Floats
    loss: Floats
    offset: Floats
    known: NDArray[np.bool_]
    memories: Floats

    @classmethod
    def of(cls, sample: LawSample, bases: tuple[Base, ...], measured: list[Losses]) -> Self:
        """Return the table of bases with their measured losses, None where there is none."""
        frame, coefficients = sample.frame, sample.coefficients
        step = constant(1, frame.reference.learning_rate)
        trials = [
            Trial(base.schedule, step, 0.0, losses)
            for base, losses in zip(bases, measured, strict=True)
        ]
        _, points = sample.points(trials, [[]] * len(trials))
        table = (len(bases), len(frame.domains))
        law = np.asarray(frame.law.loss(points, gather(points, coefficients), np))
        annealing, _ = points.annealing_areas(coefficients, np)
        loss = np.where(points.base_known > 0, points.loss, law)
        memories = np.zeros((len(bases), sample.momentum_range.nodes))
        if frame.spec.law.carry_memory:
            memories = np.array([_memories(base, sample.momentum_range) for base in bases])
        return cls(
            forward=points.forward_pt.reshape(table)[:, 0],
            annealing=annealing.reshape(-1, *table)[..., 0].T,
            loss=loss.reshape(-1, *table).transpose(2, 1, 0),
            offset=(loss - law).reshape(-1, *table).transpose(2, 1, 0),
            known=points.base_known.reshape(table).T > 0,
            memories=memories,
        )


def _memories(base: Base, momentum_range: MomentumRange) -> list[float]:
    schedule = base.schedule
    if schedule is None:
        return [0.0] * momentum_range.nodes
    rates, warmup = schedule.learning_rates(), schedule.warmup_steps
    before = float(rates[max(warmup - 1, 0)])
    momenta = momentum_range.node_momenta()
    return [annealing_memory(rates[warmup:], float(own), before) for own in momenta]


@dataclass(frozen=True, eq=False)
class Layout:
    """Candidates with all that the law and the residuals take of them.

    Parameters
    ----------
    sample : LawSample
    parameters : dict of str to ndarray, shape (draws, ...)
        What was sampled.
    candidates : Candidates
    bases : BaseTable
        Of the candidates' bases.
    """

    sample: LawSample
    parameters: dict[str, NDArray[np.float64]]
    candidates: Candidates
    bases: BaseTable

    @property
    def domains(self) -> range:
        """Places of the validation sets."""
        return range(len(self.sample.frame.domains))

    @cached_property
    def columns(self) -> dict[str, Floats]:
        """What `Ends` hold, shape (candidates,)."""
        schedules = self.candidates.schedules
        reference = self.sample.frame.reference.learning_rate
        return {
            "steps": schedules.steps.astype(np.float64),
            "forward_pt": self.bases.forward[self.candidates.base],
            "forward_cpt": schedules.forward_area(),
            "target_share": 1.0 - self.candidates.replay,
            "learning_rate": schedules.last_rate / reference,
        }

    @cached_property
    def series(self) -> Floats:
        """The schedule's part of S2_cpt, shape (candidates, nodes)."""
        memories = self.bases.memories
        carried = memories[self.candidates.base] if memories.any() else 0.0
        schedules, momentum_range = self.candidates.schedules, self.sample.momentum_range
        return schedules.annealing_series(momentum_range, carried).coefficients

    @cached_property
    def basis(self) -> Floats:
        """The momentum's part of S2_cpt, shape (nodes, draws)."""
        basis = annealing_basis(self.sample.coefficients, self.sample.momentum_range)
        return np.ascontiguousarray(basis.T)

    def ends(self, rows: Ints, dtype: Any = np.float64) -> list[Ends]:
        """Return the ends of some candidates on each validation set."""
        before = self.bases.annealing[self.candidates.base[rows]]
        areas = (before.astype(dtype), (self.series[rows] @ self.basis).astype(dtype))
        columns = {name: own[rows, None].astype(dtype) for name, own in self.columns.items()}
        return [Ends(index, areas, **columns) for index in self.domains]

    def losses(self, rows: Ints) -> Floats:
        """Return the law's losses of some candidates, shape (domains, candidates, draws)."""
        law, found = self.sample.frame.law, []
        for own in self.ends(rows):
            coefficients = gather(own, self.sample.coefficients)
            loss = law.loss(own, coefficients, np)
            if law.base_offset is not None:
                offset = self.bases.offset[own.domain_index, self.candidates.base[rows]]
                loss = loss + offset * law.base_offset.kept(own, coefficients, np)
            found.append(loss)
        return np.stack(found)

    def noise(self, rows: Ints, dtype: Any = np.float64) -> Floats:
        """Return the sd of a single run about its expected loss, shape (domains, candidates, draws).

        Fluctuation and misfit at the last step; where the loss of the base was not measured also the
        unknown level of the curve (see `bayes_cpt.model.residuals`).
        """
        frame = self.sample.frame
        steps = self.candidates.schedules.steps[rows]
        onset = ONSET_SHARE * frame.reference.steps
        memory = frame.spec.residuals.misfit_memory
        innovations = misfit_variance(steps, onset, memory)[:, None].astype(dtype)
        parameters, coefficients = (
            {name: value.astype(dtype) for name, value in given.items()}
            for given in (self.parameters, self.sample.coefficients)
        )
        found = []
        own: Any
        for own in self.ends(rows, dtype):
            known = self.bases.known[own.domain_index, self.candidates.base[rows]][:, None]
            scales = frame.residual_scales(own, 0.0, parameters, coefficients, np)
            faded = np.where(known, np.exp(-2.0 * own.steps / scales.memory), 0.0)
            level = np.where(known, 0.0, scales.offset)
            variance = (1.0 - faded) * scales.fluctuation**2 + innovations * scales.misfit**2
            found.append(np.sqrt(variance + level**2))
        return np.stack(found)

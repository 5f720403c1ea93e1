"""Candidates laid out for the law: arrays of candidates by posterior draws.

See `bayes_cpt.forecast.columns`. Where there are many candidates the law is evaluated on arrays of single
precision: the same terms, in half the time, within 1e-5 nats.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.decisions.search.candidates import Candidates
from bayes_cpt.forecast.columns import Bases, Columns
from bayes_cpt.landmarks.trials import LawSample, Trial
from bayes_cpt.laws.areas import SMALLEST
from bayes_cpt.laws.law import gather
from bayes_cpt.laws.phase_areas import transfer_state
from bayes_cpt.laws.schedule_batch import Ends
from bayes_cpt.model.residuals import ONSET_SHARE, Placed, misfit_variance, predictive_variance
from bayes_cpt.study.runs import Base
from bayes_cpt.study.schedules import constant

type Floats = NDArray[np.floating]
type Ints = NDArray[np.int64]
type Losses = tuple[float | None, ...]

SINGLE = np.float32


@dataclass(frozen=True, eq=False)
class Block:
    """Final losses of some candidates.

    Parameters
    ----------
    rows : ndarray of int, shape (block,)
        Which candidates they are.
    losses : ndarray, shape (domains, block, draws)
        The law's expected losses, nats/token.
    noise : callable
        Returns the sd of a single run about them, of the same shape (see `Layout.noise`).
    """

    rows: Ints
    losses: Floats
    noise: Callable[[], Floats]


@dataclass(frozen=True, eq=False)
class BaseTable:
    """What the law says of some bases at the transfer.

    Parameters
    ----------
    start : ndarray, shape (bases,)
        Learning rate that S2_pt counts from, raw LR.
    level : ndarray, shape (bases, draws)
        Level of the learning rate at the end of PT, raw LR.
    loss, offset : ndarray, shape (domains, bases, draws)
        What was measured, else the law's loss; and how far it lies above the law's.
    known : ndarray of bool, shape (domains, bases)
        Whether it was measured.
    forward : ndarray, shape (bases, power nodes)
        S1_pt at each node of rho, 0 of an unknown base.
    initial : ndarray, shape (bases, momentum nodes)
        Level before the first step of CPT at each node of lambda.
    """

    start: Floats
    level: Floats
    loss: Floats
    offset: Floats
    known: NDArray[np.bool_]
    forward: NDArray[np.float64]
    initial: NDArray[np.float64]

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
        level, _ = points.learning_rate_levels(coefficients, np)
        loss = np.where(points.base_known > 0, points.loss, law)
        states = [transfer_state(base.schedule, sample.form) for base in bases]
        return cls(
            start=points.start_pt.reshape(table)[:, 0],
            level=level.reshape(-1, *table)[..., 0].T,
            loss=loss.reshape(-1, *table).transpose(2, 1, 0),
            offset=(loss - law).reshape(-1, *table).transpose(2, 1, 0),
            known=points.base_known.reshape(table).T > 0,
            forward=np.array([state.forward for state in states]),
            initial=np.array([state.initial_levels(sample.form) for state in states]),
        )


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
        """What `Columns` hold, shape (candidates,)."""
        schedules = self.candidates.schedules
        reference = self.sample.frame.reference.learning_rate
        steps = schedules.steps.astype(np.float64)
        return {
            "steps": steps,
            "cpt_steps": steps,
            "paced_steps": self.areas.paced_steps,
            "forward_cpt": self.areas.forward,
            "start_pt": self.bases.start[self.candidates.base],
            "start_cpt": np.maximum(schedules.initial, SMALLEST),
            "target_share": 1.0 - self.candidates.replay,
            "learning_rate": schedules.last_rate / reference,
        }

    @cached_property
    def areas(self) -> Ends:
        """The schedules' part of the areas after the last step."""
        bases, base = self.bases, self.candidates.base
        return self.candidates.schedules.ends(
            self.sample.form, bases.initial[base], bases.forward[base]
        )

    @cached_property
    def _precisions(self) -> dict[Any, "_Drawn"]:
        return {own: _Drawn.of(self, own) for own in (np.float64, SINGLE)}

    def prepare(self) -> None:
        """Compute what all candidates share: threads need not wait for each other then."""
        _ = self.columns, self.areas, self._precisions

    def block(self, rows: Ints) -> Block:
        """Return some candidates in single precision."""
        return Block(rows, self.losses(rows, SINGLE), lambda: self.noise(rows, SINGLE))

    def ends(self, rows: Ints, dtype: Any = np.float64) -> list[Columns]:
        """Return the last steps of some candidates on each validation set."""
        drawn = self._precisions[dtype]
        before = drawn.level[self.candidates.base[rows]]
        after = self.areas.level[rows].astype(dtype) @ drawn.bases.level
        levels = (before, np.maximum(after, dtype(SMALLEST)))
        log_area = self.areas.log_forward[rows].astype(dtype) @ drawn.bases.forward
        columns = {name: own[rows, None].astype(dtype) for name, own in self.columns.items()}
        return [Columns(index, levels, log_area, **columns) for index in self.domains]

    def losses(self, rows: Ints, dtype: Any = np.float64) -> Floats:
        """Return the law's losses of some candidates, shape (domains, candidates, draws)."""
        drawn = self._precisions[dtype]
        found = np.empty((len(self.domains), rows.size, self.sample.draws), dtype)
        for end in self.ends(rows, dtype):
            offset = drawn.offset[end.domain_index, self.candidates.base[rows]]
            coefficients = gather(end, drawn.coefficients)
            found[end.domain_index] = end.losses(self.sample.frame.law, coefficients, offset)
        return found

    def noise(self, rows: Ints, dtype: Any = np.float64) -> Floats:
        """Return the sd of a single run about its expected loss, shape (domains, candidates, draws).

        See `bayes_cpt.model.residuals.predictive_variance`.
        """
        frame, drawn = self.sample.frame, self._precisions[dtype]
        steps = self.candidates.schedules.steps[rows]
        onset = ONSET_SHARE * frame.reference.steps
        memory = frame.spec.residuals.misfit_memory
        misfit = misfit_variance(steps, onset, memory)[:, None].astype(dtype)
        found = np.empty((len(self.domains), rows.size, self.sample.draws), dtype)
        end: Any
        for end in self.ends(rows, dtype):
            known = self.bases.known[end.domain_index, self.candidates.base[rows]]
            floating = (~known)[:, None].astype(dtype)
            scales = frame.residual_scales(end, 0.0, drawn.parameters, drawn.coefficients, np)
            placed = Placed(scales, end.steps, floating, dtype(0.0))
            found[end.domain_index] = np.sqrt(predictive_variance(placed, misfit, np))
        return found


@dataclass(frozen=True, eq=False)
class _Drawn:
    """What depends on draws, in some precision: the bases of the series first, which need all digits."""

    parameters: dict[str, Floats]
    coefficients: dict[str, Floats]
    bases: Bases
    level: Floats
    offset: Floats

    @classmethod
    def of(cls, layout: Layout, dtype: Any) -> Self:
        parameters, coefficients = (
            {name: value.astype(dtype) for name, value in given.items()}
            for given in (layout.parameters, layout.sample.coefficients)
        )
        sample, table = layout.sample, layout.bases
        bases = Bases.of(sample.form, sample.coefficients)
        given = Bases(bases.level.astype(dtype), bases.forward.astype(dtype))
        return cls(
            parameters, coefficients, given, table.level.astype(dtype), table.offset.astype(dtype)
        )

"""Candidates laid out for the law: arrays of candidates by posterior draws.

See `bayes_cpt.forecast.columns`. Where there are many candidates the law is evaluated on arrays of single
precision: the same terms, in half the time, within 1e-5 nats.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.decisions.search.candidates import Candidates
from bayes_cpt.forecast.columns import Columns
from bayes_cpt.landmarks.trials import LawSample, Trial
from bayes_cpt.laws.areas import MomentumRange, annealing_basis, annealing_memory
from bayes_cpt.laws.law import gather
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
    """Candidates with all that one law and the residuals take of them.

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

    @cached_property
    def _precisions(self) -> dict[Any, "_Drawn"]:
        return {own: _Drawn.of(self, own) for own in (np.float64, SINGLE)}

    def prepare(self) -> None:
        """Compute what all candidates share: threads need not wait for each other then."""
        _ = self.columns, self.series, self._precisions

    def ends(self, rows: Ints, dtype: Any = np.float64) -> list[Columns]:
        """Return the last steps of some candidates on each validation set."""
        drawn = self._precisions[dtype]
        before = drawn.annealing[self.candidates.base[rows]]
        areas = (before, self.series[rows].astype(dtype) @ drawn.basis)
        columns = {name: own[rows, None].astype(dtype) for name, own in self.columns.items()}
        return [Columns(index, areas, **columns) for index in self.domains]

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
class PooledLayout:
    """Candidates laid out for each law of a fit; the draws of all stand side by side.

    Parameters
    ----------
    candidates : Candidates
    laws : tuple of Layout
    """

    candidates: Candidates
    laws: tuple[Layout, ...]

    def prepare(self) -> None:
        """Compute what all candidates share: threads need not wait for each other then."""
        for law in self.laws:
            law.prepare()

    def block(self, rows: Ints) -> Block:
        """Return some candidates in single precision.

        Parameters
        ----------
        rows : ndarray of int
            Which they are.
        """
        return Block(rows, self.losses(rows, SINGLE), lambda: self.noise(rows, SINGLE))

    def losses(self, rows: Ints, dtype: Any = np.float64) -> Floats:
        """Return the laws' losses of some candidates, shape (domains, candidates, draws).

        Parameters
        ----------
        rows : ndarray of int
            Which they are.
        dtype : dtype
            Precision.
        """
        return pooled([law.losses(rows, dtype) for law in self.laws])

    def noise(self, rows: Ints, dtype: Any = np.float64) -> Floats:
        """Return the sd of a single run about its expected loss (see `Layout.noise`), of the same shape.

        Parameters
        ----------
        rows, dtype
            As for `losses`.
        """
        return pooled([law.noise(rows, dtype) for law in self.laws])


def pooled(parts: Sequence[Floats]) -> Floats:
    """Return arrays of the draws of several laws, which come last, side by side.

    Parameters
    ----------
    parts : sequence of ndarray, shape (..., draws)
    """
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)


@dataclass(frozen=True, eq=False)
class _Drawn:
    """What depends on draws, in some precision: the momenta's basis first, which needs all digits."""

    parameters: dict[str, Floats]
    coefficients: dict[str, Floats]
    basis: Floats
    annealing: Floats
    offset: Floats

    @classmethod
    def of(cls, layout: Layout, dtype: Any) -> Self:
        parameters, coefficients = (
            {name: value.astype(dtype) for name, value in given.items()}
            for given in (layout.parameters, layout.sample.coefficients)
        )
        bases = layout.bases
        arrays = (own.astype(dtype) for own in (layout.basis, bases.annealing, bases.offset))
        return cls(parameters, coefficients, *arrays)

"""Candidates laid out for the law: arrays of candidates by posterior draws.

See `bayes_cpt.forecast.columns`. Where there are many candidates the law is evaluated on arrays of single
precision, the same terms in half the time; where there are very many, in few draws, which determine the
others (`bayes_cpt.forecast.skeleton`). Either is within 1e-5 nats, but for a few of very many: within 2e-5.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.decisions.search.base_table import BaseTable
from bayes_cpt.decisions.search.block import Block, Spread
from bayes_cpt.decisions.search.candidates import Candidates
from bayes_cpt.forecast.columns import Bases, Columns, shared
from bayes_cpt.forecast.skeleton import Skeleton, spread_out
from bayes_cpt.landmarks.trials import LawSample
from bayes_cpt.laws.areas import SMALLEST
from bayes_cpt.laws.law import gather
from bayes_cpt.laws.numerics.schedule_batch import Ends
from bayes_cpt.model.groups.targets import mixture_columns
from bayes_cpt.model.misfit.base_level import kept_level
from bayes_cpt.model.misfit.discrepancy import (
    OWN_SHARE,
    Combined,
    ErrorCorrelation,
    SharedMisfit,
)
from bayes_cpt.model.misfit.knots import unit_ramps
from bayes_cpt.model.residuals import ONSET_SHARE, Placed, Scales, predictive_parts

SINGLE = np.float32
# Of so many candidates it is worth while to choose draws, by so many along each of three quantities.
VERY_MANY, SAMPLED = 8192, 200


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
    misfit : SharedMisfit
        What the law misses as a function of the configuration.
    correlation : ErrorCorrelation
        Between the losses of a run.
    """

    sample: LawSample
    parameters: dict[str, NDArray[np.float64]]
    candidates: Candidates
    bases: BaseTable
    misfit: SharedMisfit
    correlation: ErrorCorrelation

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
            "log_peak_pt": self.bases.log_peak[self.candidates.base],
            "start_cpt": np.maximum(schedules.initial, SMALLEST),
            "target_share": 1.0 - self.candidates.replay,
            "log_size": self.bases.log_size[self.candidates.base],
            "learning_rate": schedules.last_rate / reference,
        }

    @cached_property
    def areas(self) -> Ends:
        """The schedules' part of the areas after the last step."""
        base, bases = self.candidates.base, self.bases
        return self.candidates.schedules.ends(
            self.sample.form, bases.initial[base], bases.forward[base]
        )

    @cached_property
    def _precisions(self) -> dict[Any, "_Drawn"]:
        return {dtype: _Drawn.of(self, dtype) for dtype in (np.float64, SINGLE)}

    @cached_property
    def features(self) -> Floats:
        """What the misfit depends on, shape (candidates, features)."""
        return self.candidates.configuration(self.areas.forward).features(
            self.sample.frame.reference
        )

    @cached_property
    def _lengths(self) -> tuple[Ints, Ints]:
        """The different numbers of steps, and the place of each candidate's among them."""
        lengths, place = np.unique(self.candidates.schedules.steps, return_inverse=True)
        return lengths, place

    @cached_property
    def _ramps(self) -> Floats:
        """What innovations of the misfit add after each number of steps, shape (lengths, knots)."""
        frame = self.sample.frame
        onset = ONSET_SHARE * frame.reference.steps
        return np.asarray(unit_ramps(self._lengths[0], onset, frame.spec.residuals.misfit_memory))

    @cached_property
    def _combined(self) -> Combined:
        return self.misfit.along(self._ramps)

    @cached_property
    def _few(self) -> tuple[Skeleton, "_Drawn"] | None:
        """The draws that determine the others, and all that depends on draws in them."""
        if len(self.candidates) < VERY_MANY:
            return None
        losses = self.losses(self._sample)
        skeleton = Skeleton.of(losses.reshape(-1, losses.shape[-1]))
        if skeleton is None:
            return None
        return skeleton, self._precisions[SINGLE].take(skeleton.draws)

    @property
    def _sample(self) -> Ints:
        """Candidates that are as different as all are, by what moves a loss most."""
        count = len(self.candidates)
        along = (
            self.columns["target_share"],
            self.columns["forward_cpt"],
            self.columns["learning_rate"],
        )
        chosen = [np.argsort(column)[spread_out(count, SAMPLED)] for column in along]
        return np.unique(np.concatenate(chosen))

    def prepare(self) -> None:
        """Compute what all candidates share: threads need not wait for each other then."""
        _ = (
            self._few,
            self.columns,
            self.areas,
            self._mixtures,
            self._precisions,
            self.features,
            self._combined,
        )

    def block(self, rows: Ints) -> Block:
        """Return some candidates in single precision.

        Parameters
        ----------
        rows : ndarray of int, shape (candidates,)
            Which of them.
        """
        return Block(
            rows,
            self.many(rows),
            lambda: self.missed(rows, SINGLE),
            lambda: self.spread(rows, SINGLE),
        )

    def ends(self, rows: Ints, drawn: "_Drawn") -> list[Columns]:
        """Return the last steps of some candidates on each validation set.

        Parameters
        ----------
        rows : ndarray of int, shape (candidates,)
            Which of them.
        drawn : _Drawn
            In which draws, and which precision.
        """
        dtype = drawn.dtype
        base = shared(self.candidates.base[rows])
        mixture_index = shared(self.candidates.mixture[rows])
        after = self.areas.level[rows].astype(dtype) @ drawn.bases.level
        levels = (drawn.level[base], np.maximum(after, dtype(SMALLEST)))
        log_area = self.areas.log_forward[rows].astype(dtype) @ drawn.bases.forward
        columns = {
            name: shared(column[rows, None]).astype(dtype) for name, column in self.columns.items()
        }
        ends = []
        for index in self.domains:
            others, mixture = self._mixtures[index]
            shares = {
                "other_share": columns["target_share"] * others[mixture_index, None].astype(dtype),
                "mixture": mixture[mixture_index].astype(dtype),
            }
            member = self.bases.size_member[index, base]
            ends.append(Columns(index, levels, log_area, size_member=member, **shares, **columns))
        return ends

    @cached_property
    def _mixtures(self) -> list[tuple[Floats, Floats]]:
        """Of each validation set, for each mixture, what `mixture_columns` says at replay 0."""
        domains = self.sample.frame.domains
        rows = [
            [mixture_columns(shares, domains, index, 0.0) for shares in self.candidates.mixtures]
            for index in self.domains
        ]
        return [
            (np.array([share for share, _ in row]), np.array([shares for _, shares in row]))
            for row in rows
        ]

    def losses(self, rows: Ints, dtype: Any = np.float64) -> Floats:
        """Return the law's losses of some candidates, shape (domains, candidates, draws).

        Parameters
        ----------
        rows : ndarray of int, shape (candidates,)
            Which of them.
        dtype : dtype
        """
        return self._losses(rows, self._precisions[dtype])

    def many(self, rows: Ints) -> Floats:
        """Return the same of a part of many candidates, in single precision.

        Parameters
        ----------
        rows : ndarray of int, shape (candidates,)
            Which of them.
        """
        if self._few is None:
            return self.losses(rows, SINGLE)
        skeleton, drawn = self._few
        few = self._losses(rows, drawn)
        losses: Floats = skeleton.factors(few) @ skeleton.product
        off = skeleton.off(few).any(axis=0)
        if off.any():
            losses[:, off] = self.losses(rows[off], SINGLE)
        return losses

    def _losses(self, rows: Ints, drawn: "_Drawn") -> Floats:
        losses = np.empty((len(self.domains), rows.size, drawn.draws), drawn.dtype)
        for end in self.ends(rows, drawn):
            offset = drawn.offset[end.domain_index, shared(self.candidates.base[rows])]
            coefficients = gather(end, drawn.coefficients, np)
            losses[end.domain_index] = end.losses(self.sample.frame.law, coefficients, offset)
        return losses

    def missed(self, rows: Ints, dtype: Any = np.float64) -> Floats:
        """Return draws of what the law misses of some candidates, shape (domains, candidates, draws).

        A function of the configuration in each draw (see `bayes_cpt.model.misfit.discrepancy`), whose mean
        over draws is 0: the law's own losses are expected, free of the Monte Carlo error of what is drawn.

        Parameters
        ----------
        rows : ndarray of int
            Which candidates.
        dtype : type
            Precision.
        """
        missed = self._combined.at(self.features[rows], self._lengths[1][rows]).astype(dtype)
        for end in self.ends(rows, self._precisions[dtype]):
            known = self.bases.known[end.domain_index, self.candidates.base[rows]]
            share = dtype(np.sqrt(1.0 - OWN_SHARE))
            missed[end.domain_index] *= share * self._scales(end, dtype).misfit
            if not known.all():
                level = self._levels(end, rows, dtype) * ~known[:, None]
                missed[end.domain_index] += level * self.misfit.levels[end.domain_index]
        # A single draw is a law, not a sample that has a mean.
        return missed - missed.mean(axis=-1, keepdims=True) if missed.shape[-1] > 1 else missed

    def spread(self, rows: Ints, dtype: Any = np.float64) -> Spread:
        """Return the sizes of what moves losses about the law's.

        See `bayes_cpt.model.residuals.predictive_parts`.

        Parameters
        ----------
        rows : ndarray of int
            Which candidates.
        dtype : type
            Precision.
        """
        squares = (self._ramps**2).sum(axis=1)
        misfit = squares[self._lengths[1][rows], None].astype(dtype)
        shape = (len(self.domains), rows.size, self.sample.draws)
        fluctuation, law, run_misfit = (np.empty(shape, dtype) for _ in range(3))
        level = np.zeros(shape, dtype)
        end: Any
        for end in self.ends(rows, self._precisions[dtype]):
            known = self.bases.known[end.domain_index, self.candidates.base[rows]]
            floating = (~known)[:, None].astype(dtype)
            scales = replace(self._scales(end, dtype), offset=dtype(0.0))
            if not known.all():
                level[end.domain_index] = self._levels(end, rows, dtype) * floating
            placed = Placed(scales, end.steps, floating, dtype(1.0) - floating, dtype(0.0))
            parts = predictive_parts(placed, placed, dtype(1.0 - OWN_SHARE) * misfit, np)
            for whole, part in zip((fluctuation, law), parts, strict=True):
                whole[end.domain_index] = np.sqrt(part)
            run_misfit[end.domain_index] = np.sqrt(dtype(OWN_SHARE) * misfit) * scales.misfit
        return Spread(law, level, run_misfit, fluctuation, self.correlation)

    @cached_property
    def _base_levels(self) -> Floats:
        """The sd of each base's loss if nobody measured it, shape (domains, bases, draws)."""
        return self.bases.unmeasured(self.sample.frame, self.parameters, self.candidates.bases)

    def _levels(self, end: Columns, rows: Ints, dtype: Any) -> Floats:
        """Return the sd of what is left at the end of the unknown level of a base."""
        levels = self._base_levels[end.domain_index, self.candidates.base[rows]].astype(dtype)
        coefficients = self._precisions[dtype].coefficients
        return np.asarray(levels * kept_level(self.sample.frame, end, coefficients))

    def _scales(self, end: Any, dtype: Any) -> Scales:
        drawn = self._precisions[dtype]
        frame = self.sample.frame
        return frame.residual_scales(end, 0.0, drawn.parameters, drawn.coefficients, np)


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

    @property
    def dtype(self) -> Any:
        """The precision."""
        return self.level.dtype.type

    @property
    def draws(self) -> int:
        """How many there are."""
        return int(self.level.shape[-1])

    def take(self, draws: Ints) -> Self:
        """Return some of the draws.

        Parameters
        ----------
        draws : ndarray of int
            Which of them.
        """
        parameters, coefficients = (
            {name: value[draws] for name, value in given.items()}
            for given in (self.parameters, self.coefficients)
        )
        level, offset = self.level[..., draws], self.offset[..., draws]
        return type(self)(parameters, coefficients, self.bases.take(draws), level, offset)

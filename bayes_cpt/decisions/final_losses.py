"""Final losses of many candidates in many posterior draws, block by block so that memory stays bounded."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.decisions.candidates import Candidates
from bayes_cpt.errors import SpecError
from bayes_cpt.forecast.columns import Bases, Columns, shared
from bayes_cpt.forecast.error_correlation import error_correlation
from bayes_cpt.forecast.evaluate import paired_normals
from bayes_cpt.forecast.skeleton import Skeleton, spread_out
from bayes_cpt.forecast.third_sets import ThirdSet, pooled, third_sets
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.landmarks.trials import LawSample, Trial, base_losses
from bayes_cpt.laws.areas import SMALLEST
from bayes_cpt.laws.law import gather
from bayes_cpt.laws.numerics.schedule_batch import Ends
from bayes_cpt.laws.phase_areas import transfer_state
from bayes_cpt.model.groups.targets import mixture_columns
from bayes_cpt.model.misfit.base_level import kept_level, unmeasured_level
from bayes_cpt.model.misfit.discrepancy import (
    OWN_SHARE,
    Combined,
    Configuration,
    ErrorCorrelation,
    SharedMisfit,
    correlated,
    variance_of_sum,
)
from bayes_cpt.model.misfit.knots import unit_ramps
from bayes_cpt.model.residuals import ONSET_SHARE, Placed, Scales, predictive_parts
from bayes_cpt.model.setup import Frame
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.schedules import constant
from bayes_cpt.study.study import Study
from bayes_cpt.threads import one_thread

DRAWS = 1000
# Losses in a block: few enough to stay near a core, so many that what is done once a block counts little.
BLOCK = 2**19
SINGLE = np.float32
# Of so many candidates it is worth while to choose draws, by so many along each of three quantities.
VERY_MANY, SAMPLED = 8192, 200


type Losses = tuple[float | None, ...]


def centred(drawn: Floats) -> Floats:
    """Return draws less their mean; a single draw is a law, not a sample that has a mean."""
    return drawn - drawn.mean(axis=-1, keepdims=True) if drawn.shape[-1] > 1 else drawn


@dataclass(frozen=True, eq=False)
class BaseTable:
    """What the law says of some bases at the transfer."""

    start: Floats  # learning rate that S2_pt counts from, raw LR, (bases,)
    # Log of the highest learning rate of PT, as a share of the reference one, (bases,)
    log_peak: Floats
    level: Floats  # level of the learning rate at the end of PT, raw LR, (bases, draws)
    # What was measured, else the law's loss; and how far it lies above the law's, (domains, bases, draws)
    loss: Floats
    offset: Floats
    known: NDArray[np.bool_]  # whether it was measured, (domains, bases)
    # S1_pt at each node of rho, 0 of an unknown base, (bases, power nodes)
    forward: NDArray[np.float64]
    # Level before the first step of CPT at each node of lambda, (bases, momentum nodes)
    initial: NDArray[np.float64]
    log_size: NDArray[np.float64]  # as in `bayes_cpt.model.points.Points`, (bases,)
    size_member: NDArray[np.int64]  # as in `bayes_cpt.model.points.Points`, (domains, bases)

    @classmethod
    def of(cls, sample: LawSample, bases: tuple[Base, ...], measured: list[Losses]) -> Self:
        """Return the table of bases with their measured losses, None where there is none."""
        frame, coefficients = sample.frame, sample.coefficients
        step = constant(1, frame.reference.learning_rate)
        trials = [
            Trial(base.schedule, step, 0.0, losses, base.model_size)
            for base, losses in zip(bases, measured, strict=True)
        ]
        _, points = sample.points(trials, [[]] * len(trials))
        table = (len(bases), len(frame.domains))
        law = np.asarray(frame.law.loss(points, gather(points, coefficients, np), np))
        level, _ = points.learning_rate_levels(coefficients, np)
        loss = np.where(points.base_known > 0, points.loss, law)
        states = [transfer_state(base.schedule, sample.form) for base in bases]
        return cls(
            start=points.start_pt.reshape(table)[:, 0],
            log_peak=points.log_peak_pt.reshape(table)[:, 0],
            level=level.reshape(-1, *table)[..., 0].T,
            loss=loss.reshape(-1, *table).transpose(2, 1, 0),
            offset=(loss - law).reshape(-1, *table).transpose(2, 1, 0),
            known=points.base_known.reshape(table).T > 0,
            forward=np.array([state.forward for state in states]),
            initial=np.array([state.initial_levels(sample.form) for state in states]),
            log_size=points.log_size.reshape(table)[:, 0],
            size_member=points.size_member.reshape(table).T,
        )

    def unmeasured(
        self, frame: Frame, parameters: dict[str, NDArray[np.float64]], bases: tuple[Base, ...]
    ) -> Floats:
        """Return the sd of the loss of each base about the law's, 0 where it was measured."""
        levels = np.zeros(self.loss.shape)
        for domain, index in np.argwhere(~self.known):
            schedule = bases[index].schedule
            if schedule is not None:
                end = (schedule.steps, schedule.final)
                levels[domain, index] = unmeasured_level(frame, parameters, int(domain), *end)
        return levels


@dataclass(frozen=True, eq=False)
class Spread:
    """What moves the losses of a run about the law's: standard deviations (domains, candidates, draws)."""

    # Of the law's discrepancy, which would come again in a run of the same configuration.
    law: Floats
    # Of what is left at the end of the level of a base that nobody measured, less that of what a loss is
    # counted from: all such bases lie off the law alike.
    level: Floats
    own: Floats  # of the discrepancy of the single run
    fluctuation: Floats  # of a single run about all that
    correlation: ErrorCorrelation  # between the validation sets

    def against(self, level: Floats) -> Self:
        """Return the sizes of what moves a rise from losses that are themselves not known."""
        return replace(self, level=self.level - level.astype(self.level.dtype))

    def single_run(self) -> Floats:
        """Return the sd of each loss of a single run, shape (domains, candidates, draws)."""
        return np.sqrt(self.law**2 + self.level**2 + self.chance() ** 2)

    def chance(self) -> Floats:
        """Return the sd of each loss of a run about its configuration's, shape of `own`."""
        return np.sqrt(self.own**2 + self.fluctuation**2)

    def about(self, generator: np.random.Generator) -> Floats:
        """Return draws of single runs about their configurations' losses, shape of `own`."""
        alike = self.correlation
        parts = ((self.own, alike.misfit), (self.fluctuation, alike.fluctuation))
        drawn = np.zeros(self.own.shape)
        for sizes, share in parts:
            drawn += sizes * correlated(generator.standard_normal(sizes.shape), share)
        return drawn

    def of_sum(self, weights: Floats, *, single_run: bool = True) -> Floats:
        """Return the sd of a weighted sum of the losses of a run, shape (candidates, draws)."""
        alike = self.correlation
        parts = [(self.law, alike.misfit), (self.level, alike.misfit)]
        if single_run:
            parts += [(self.own, alike.misfit), (self.fluctuation, alike.fluctuation)]
        variance = sum(variance_of_sum(sizes, share, weights) for sizes, share in parts)
        return np.sqrt(np.maximum(variance, 0.0))


@dataclass(frozen=True, eq=False)
class Block:
    """Final losses of some candidates."""

    rows: Ints  # which candidates they are, (block,)
    losses: Floats  # the law's expected losses, nats/token, (domains, block, draws)
    # Return the law's discrepancy in each draw, of the same shape, and the sizes of all that moves a loss
    # about the law's (see `CandidateEvaluator`).
    discrepancy: Callable[[], Floats]
    spread: Callable[[], "Spread"]


@dataclass(frozen=True, eq=False)
class CandidateEvaluator:
    """Candidates with all that the law and the residuals take of them."""

    sample: LawSample
    parameters: dict[str, NDArray[np.float64]]  # what was sampled, (draws, ...)
    candidates: Candidates
    bases: BaseTable  # of the candidates' bases
    misfit: SharedMisfit  # what the law misses as a function of the configuration
    correlation: ErrorCorrelation  # between the losses of a run

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
        """Return some candidates in single precision."""
        return Block(
            rows,
            self.many(rows),
            lambda: self.discrepancy(rows, SINGLE),
            lambda: self.spread(rows, SINGLE),
        )

    def ends(self, rows: Ints, drawn: "_Drawn") -> list[Columns]:
        """Return the last steps of some candidates on each validation set."""
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
        """Return the law's losses of some candidates, shape (domains, candidates, draws)."""
        return self._losses(rows, self._precisions[dtype])

    def many(self, rows: Ints) -> Floats:
        """Return the same of a part of many candidates, in single precision."""
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

    def discrepancy(self, rows: Ints, dtype: Any = np.float64) -> Floats:
        """Return draws of what the law misses of some candidates, shape (domains, candidates, draws).

        A function of the configuration in each draw (see `bayes_cpt.model.misfit.discrepancy`), whose mean
        over draws is 0: the law's own losses are expected, free of the Monte Carlo error of what is drawn.
        """
        discrepancy = self._combined.at(self.features[rows], self._lengths[1][rows]).astype(dtype)
        for end in self.ends(rows, self._precisions[dtype]):
            known = self.bases.known[end.domain_index, self.candidates.base[rows]]
            share = dtype(np.sqrt(1.0 - OWN_SHARE))
            discrepancy[end.domain_index] *= share * self._scales(end, dtype).misfit
            if not known.all():
                level = self._levels(end, rows, dtype) * ~known[:, None]
                discrepancy[end.domain_index] += level * self.misfit.levels[end.domain_index]
        return centred(discrepancy)

    def spread(self, rows: Ints, dtype: Any = np.float64) -> Spread:
        """Return the sizes of what moves losses about the law's.

        See `bayes_cpt.model.residuals.predictive_parts`.
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
    def of(cls, evaluator: CandidateEvaluator, dtype: Any) -> Self:
        parameters, coefficients = (
            {name: value.astype(dtype) for name, value in given.items()}
            for given in (evaluator.parameters, evaluator.sample.coefficients)
        )
        sample, table = evaluator.sample, evaluator.bases
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
        """Return some of the draws."""
        parameters, coefficients = (
            {name: value[draws] for name, value in given.items()}
            for given in (self.parameters, self.coefficients)
        )
        level, offset = self.level[..., draws], self.offset[..., draws]
        return type(self)(parameters, coefficients, self.bases.take(draws), level, offset)


@dataclass(frozen=True, eq=False)
class FinalLosses:
    """The law of a fit in some posterior draws, to be evaluated at the last step of candidates."""

    study: Study  # that was fitted
    sample: LawSample  # the law's coefficients
    # What was sampled, for the sizes of residuals, (draws, ...)
    parameters: dict[str, NDArray[np.float64]]
    # Returns the measured losses of a base on each validation set, None where there is none
    measured: Callable[[Base], Losses]
    correlation: ErrorCorrelation  # how alike the errors of the two losses of a run are
    misfit: SharedMisfit  # what the law misses as a function of the configuration, in each draw
    # Returns a third validation set of the study, by name, in the same draws
    third: Callable[[str], ThirdSet]

    @classmethod
    def of(cls, posterior: Posterior, draws: int = DRAWS, seed: int = 0) -> Self:
        """Return the law in about as many draws, spread evenly over the chains."""
        frame = posterior.frame
        if not frame.spec.law.continual:
            problem = "the law knows no CPT phase, so that there is nothing to decide"
            fix = "fit with --model cpt or cpt-replay"
            raise SpecError.at(f"model {frame.spec.name}", problem, fix)

        def measured(base: Base) -> Losses:
            if any(known.name == base.name for known in posterior.study.bases):
                return base_losses(posterior, posterior.study, base)
            return (None,) * len(frame.domains)

        sample = LawSample.of(posterior, draws)
        parameters = posterior.parameters(draws)
        correlation = error_correlation(posterior)
        misfit = SharedMisfit(sample.draws, correlation.misfit, len(frame.domains), seed)

        def third(name: str) -> ThirdSet:
            fitted = posterior.as_fitted
            return third_sets(fitted, (name,), fitted.parameters(draws), seed)[0]

        return cls(posterior.study, sample, parameters, measured, correlation, misfit, third)

    def innovations(self, base: Base, run: Run, knots: int) -> Floats:
        """Return the innovations of a run's misfit, shape (domains, draws, knots)."""
        configuration = Configuration.of(base.schedule, run.schedule, run.replay or 0.0)
        features = configuration.features(self.sample.frame.reference)
        return self.misfit.innovations(features, knots)[:, 0]

    @property
    def draws(self) -> int:
        """Number of posterior draws."""
        return self.sample.draws

    def normals(self, seed: int) -> NDArray[np.float64]:
        """Return what each draw's new run lies off the law by, in sds: as forecasts pair them."""
        return paired_normals(self.draws, seed)

    @property
    def domains(self) -> tuple[str, ...]:
        """The validation sets, general and target."""
        return self.sample.frame.domains

    def bases(self, bases: tuple[Base, ...]) -> BaseTable:
        """Return what the law says of bases at the transfer."""
        return BaseTable.of(self.sample, bases, [self.measured(base) for base in bases])

    @property
    def levels(self) -> Floats:
        """How far a base that nobody measured lies off the law, over its sd, shape (domains, draws)."""
        return self.misfit.levels

    def base_levels(self, bases: tuple[Base, ...]) -> Floats:
        """Return the sd of the loss of bases about the law's, 0 where measured, (domains, bases, draws)."""
        return self.bases(bases).unmeasured(self.sample.frame, self.parameters, bases)

    def evaluator(self, candidates: Candidates) -> CandidateEvaluator:
        """Return candidates laid out for the law; for few of them, it gives losses in double precision."""
        return CandidateEvaluator(
            self.sample,
            self.parameters,
            candidates,
            self.bases(candidates.bases),
            self.misfit,
            self.correlation,
        )

    def losses(self, candidates: Candidates) -> Floats:
        """Return the law's expected losses, shape (domains, candidates, draws), nats/token."""
        return self.evaluator(candidates).losses(np.arange(len(candidates)))

    def expected(self, candidates: Candidates) -> Floats:
        """Return the law's losses and what it misses, of the shape of `losses`."""
        evaluator, rows = self.evaluator(candidates), np.arange(len(candidates))
        return evaluator.losses(rows) + evaluator.discrepancy(rows)

    def map[T](
        self, candidates: Candidates, function: Callable[[Block], T], cores: int | None = None
    ) -> list[T]:
        """Return what a function makes of the losses of all candidates, block by block."""
        from joblib import cpu_count

        evaluator = self.evaluator(candidates)
        evaluator.prepare()
        size = max(BLOCK // self.draws, 1)
        # What depends on the base, or on the length, alone is computed once where a block has but one.
        rows = np.lexsort((candidates.schedules.steps, candidates.base))
        blocks = [rows[start : start + size] for start in range(0, rows.size, size)]
        # The threads of a matrix product would wait for those of the blocks.
        with (
            one_thread("blas"),
            ThreadPoolExecutor(cores or cpu_count()) as pool,
        ):
            return list(pool.map(lambda block: function(evaluator.block(block)), blocks))


def final_losses(posterior: Posterior, draws: int = DRAWS, seed: int = 0) -> FinalLosses:
    """Return the final losses that a fit of one law, or a stack, expects."""
    laws = [FinalLosses.of(law, count or draws, seed) for law, count in posterior.shares(draws)]
    return laws[0] if len(laws) == 1 else PooledLosses.of_laws(laws)


@dataclass(frozen=True, eq=False)
class PooledLosses(FinalLosses):
    """Final losses under several laws, whose draws stand side by side (see `Posterior.shares`).

    What only one law has is that of the first.
    """

    laws: tuple[FinalLosses, ...]

    @classmethod
    def of_laws(cls, laws: Sequence[FinalLosses]) -> Self:
        """Return the losses of some laws of one study side by side."""
        parts = vars(laws[0]) | {"third": lambda name: pooled([law.third(name) for law in laws])}
        return cls(**parts, laws=tuple(laws))

    @property
    def draws(self) -> int:
        """Number of posterior draws, of all laws together."""
        return sum(law.draws for law in self.laws)

    def normals(self, seed: int) -> NDArray[np.float64]:
        """Return those of each law, one law after the other."""
        return np.concatenate([law.normals(seed) for law in self.laws])

    def bases(self, bases: tuple[Base, ...]) -> BaseTable:
        """Return losses and offsets of bases under all laws; what else a table holds is of the first."""
        tables = [law.bases(bases) for law in self.laws]
        loss, offset = (
            _pooled([getattr(table, name) for table in tables]) for name in ("loss", "offset")
        )
        return replace(tables[0], loss=loss, offset=offset)

    def base_levels(self, bases: tuple[Base, ...]) -> Floats:
        """Return the sd of the loss of bases about each law's, of all laws side by side."""
        return _pooled([law.base_levels(bases) for law in self.laws])

    @property
    def levels(self) -> Floats:
        """How far a base that nobody measured lies off each law, over its sd."""
        return _pooled([law.levels for law in self.laws])

    def evaluator(self, candidates: Candidates) -> CandidateEvaluator:
        """Return candidates laid out for every law."""
        evaluators = [law.evaluator(candidates) for law in self.laws]
        shared = {
            name: getattr(evaluators[0], name) for name in CandidateEvaluator.__dataclass_fields__
        }
        return PooledEvaluator(**shared, laws=tuple(evaluators))


@dataclass(frozen=True, eq=False)
class PooledEvaluator(CandidateEvaluator):
    """Candidates laid out for several laws; what only one law has is that of the first."""

    laws: tuple[CandidateEvaluator, ...]

    def prepare(self) -> None:
        """Compute what all candidates share."""
        for law in self.laws:
            law.prepare()

    def losses(self, rows: Ints, dtype: Any = np.float64) -> Floats:
        """Return `CandidateEvaluator.losses` in the draws of all laws."""
        return _pooled([law.losses(rows, dtype) for law in self.laws])

    def many(self, rows: Ints) -> Floats:
        """Return `CandidateEvaluator.many` in the draws of all laws."""
        return _pooled([law.many(rows) for law in self.laws])

    def discrepancy(self, rows: Ints, dtype: Any = np.float64) -> Floats:
        """Return `CandidateEvaluator.discrepancy` in the draws of all laws."""
        return _pooled([law.discrepancy(rows, dtype) for law in self.laws])

    def spread(self, rows: Ints, dtype: Any = np.float64) -> Spread:
        """Return `CandidateEvaluator.spread` in the draws of all laws, correlated as under the first."""
        parts = [law.spread(rows, dtype) for law in self.laws]
        law, level, run_misfit, fluctuation = (
            _pooled([getattr(part, name) for part in parts])
            for name in ("law", "level", "own", "fluctuation")
        )
        return Spread(law, level, run_misfit, fluctuation, parts[0].correlation)


def _pooled(parts: Sequence[Floats]) -> Floats:
    """Return arrays of draws, which come last, side by side."""
    return np.concatenate(parts, axis=-1)

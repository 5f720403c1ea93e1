"""Final losses of candidates in posterior draws: points at their last steps for the one evaluator.

`bayes_cpt.model.evaluate` has the law and the noise of a new run at any points. Here candidates become
points, in blocks so that memory stays bounded, and the law's discrepancy as a function of the configuration
is drawn beside (`bayes_cpt.model.discrepancy`). Of a stack the draws of all laws stand side by side.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.checks import check_whole
from bayes_cpt.decisions.search_space import Candidates
from bayes_cpt.forecast.derived import check_continual
from bayes_cpt.forecast.error_correlation import error_correlation
from bayes_cpt.forecast.third_sets import Changes, ThirdSet, pooled, third_sets
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.landmarks.trials import Trial, base_losses, trial_curves
from bayes_cpt.laws.phase_areas import transfer_state
from bayes_cpt.laws.schedule_ends import Ends
from bayes_cpt.model.bases import check_starts
from bayes_cpt.model.discrepancy import (
    OWN_SHARE,
    Combined,
    Configuration,
    ErrorCorrelation,
    SharedMisfit,
    correlated,
    unit_ramps,
    variance_of_sum,
)
from bayes_cpt.model.evaluate import (
    Draws,
    in_threads,
    law_losses,
    losses,
    paired_normals,
    scales_of,
    variances,
)
from bayes_cpt.model.groups import mixture_columns
from bayes_cpt.model.points import Curves
from bayes_cpt.model.residuals import ONSET_SHARE
from bayes_cpt.model.setup import BoundModel
from bayes_cpt.model.simulate import Innovations, simulate
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.schedules import constant
from bayes_cpt.study.study import Study

DRAWS = 1000
# Losses in a block: few enough to stay near a core, so many that what is done once a block counts little.
BLOCK = 2**19

type Losses = tuple[float | None, ...]


def centred(drawn: Floats) -> Floats:
    """Return draws less their mean; a single draw is a law, not a sample that has a mean."""
    return drawn - drawn.mean(axis=-1, keepdims=True) if drawn.shape[-1] > 1 else drawn


@dataclass(frozen=True, eq=False)
class BaseTable:
    """What one law says of some bases at the transfer."""

    curves: Curves  # a curve from each base on each validation set, base by base
    loss: Floats  # what was measured, else the law's, (domains, bases, draws)
    offset: Floats  # how far that lies above the law's, of its shape
    level: Floats  # sd of the loss about the law's, 0 where it was measured, of its shape
    known: NDArray[np.bool_]  # whether it was measured, (domains, bases)
    initial: Floats  # level of the LR before the first step at each node of lambda, (bases, nodes)
    forward: Floats  # S1_pt at each node of rho, 0 of an unknown base, (bases, nodes)

    @classmethod
    def of(
        cls,
        draws: Draws,
        bases: tuple[Base, ...],
        measured: Sequence[Losses],
        tokens: float | None = None,
    ) -> Self:
        """Return the table of bases with their measured losses, None where there is none.

        `tokens` is the batch size of the runs, where the law compares it by model size.
        """
        frame = draws.frame
        step, targets = constant(1, frame.reference.learning_rate), frame.targets
        # Which of several targets a run has makes no difference before its first step.
        shares = dict.fromkeys(targets, 1.0 / len(targets)) if len(targets) > 1 else None
        trials = []
        for base, own in zip(bases, measured, strict=True):
            said: dict[str, Any] = {"model_size": base.model_size, "batch_tokens": tokens}
            run = Run("run", "cpt", step, base.name, 0.0, targets=shares, **said)
            trials.append(Trial(base, run, own))
        curves = trial_curves(draws, trials, [[1]] * len(trials))
        shape = (len(bases), len(frame.domains), draws.count)
        law = law_losses(curves.bases, draws).reshape(shape).swapaxes(0, 1)
        known = curves.bases.base_known.reshape(shape[:2]).T > 0
        for domain, own in zip(frame.domains, known, strict=True):
            places = [f"base {base.name}" for base in bases]
            check_starts(frame.spec.law, zip(places, [domain] * len(own), own, strict=True))
        loss = np.where(known[..., None], curves.bases.loss.reshape(shape[:2]).T[..., None], law)
        at_bases = scales_of(replace(curves, points=curves.bases), draws).offset
        level = np.where(known[..., None], 0.0, at_bases.T.reshape(shape).swapaxes(0, 1))
        states = [transfer_state(base.schedule, draws.form) for base in bases]
        return cls(
            curves,
            loss,
            loss - law,
            level,
            known,
            np.array([state.initial_levels(carried=frame.carries_memory) for state in states]),
            np.array([state.forward for state in states]),
        )


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

    def of_sum(self, weights: Floats, *, single_run: bool = True) -> Floats:
        """Return the sd of a weighted sum of the losses of a run, shape (candidates, draws)."""
        alike = self.correlation
        parts = [(self.law, alike.misfit), (self.level, alike.misfit)]
        if single_run:
            parts += [(self.own, alike.misfit), (self.fluctuation, alike.fluctuation)]
        variance = sum(variance_of_sum(sizes, share, weights) for sizes, share in parts)
        return np.sqrt(np.maximum(variance, 0.0))


@dataclass(frozen=True, eq=False)
class CandidateEvaluator:
    """Candidates under one law: their last steps as points, and the law's discrepancy there."""

    law: "OneLaw"
    draws: Draws  # those of the law, in the precision that is wanted
    candidates: Candidates
    bases: BaseTable

    @cached_property
    def areas(self) -> Ends:
        """The schedules' part of the areas after the last step."""
        base, schedules = self.candidates.base, self.candidates.schedules
        starts = self.bases.initial[base], self.bases.forward[base]
        return schedules.ends(self.draws.form, *starts)

    @cached_property
    def features(self) -> Floats:
        """What the discrepancy depends on, shape (candidates, features)."""
        configuration = self.candidates.configuration(self.areas.forward)
        return configuration.features(self.draws.frame.reference)

    @cached_property
    def _mixtures(self) -> tuple[Floats, Floats]:
        """What `mixture_columns` says at replay 0, of each mixture on each validation set in turn."""
        domains, mixtures = self.draws.frame.domains, self.candidates.mixtures
        places = product(range(len(domains)), mixtures)
        rows = [mixture_columns(own, domains, place, 0.0) for place, own in places]
        others, shares = map(np.array, zip(*rows, strict=True))
        return others, shares

    @cached_property
    def _unit(self) -> tuple[Combined, Floats, Ints]:
        """A discrepancy of size 1, its sd after each number of steps, and the place of each candidate's."""
        frame = self.draws.frame
        lengths, place = np.unique(self.candidates.schedules.steps, return_inverse=True)
        onset = ONSET_SHARE * frame.reference.steps
        ramps = np.asarray(unit_ramps(lengths, onset, frame.spec.residuals.misfit_memory))
        sd: Any = np.sqrt((ramps**2).sum(axis=1)).astype(np.float32)
        return self.law.misfit.along(ramps), sd, place

    def prepare(self) -> None:
        """Compute what all candidates share: threads need not wait for each other then."""
        _ = self.areas, self.features, self._mixtures, self._unit

    def curves(self, rows: Ints) -> Curves:
        """Return the last steps of some candidates as points, validation set by validation set."""
        candidates, areas, starts = self.candidates, self.areas, self.bases.curves
        sets = len(self.draws.frame.domains)
        domain, at = np.repeat(np.arange(sets), rows.size), np.tile(rows, sets)
        curve = candidates.base[at] * sets + domain
        mixture = domain * len(candidates.mixtures) + candidates.mixture[at]
        others, mixtures = (own[mixture] for own in self._mixtures)
        schedules, target_share = candidates.schedules.take(at), 1.0 - candidates.replay[at]
        steps = schedules.steps.astype(np.float64)
        own: dict[str, Any] = {
            "curve_index": curve,
            "domain_index": domain,
            "steps": steps,
            "cpt_steps": steps,
            "paced_steps": areas.paced_steps[at],
            "squared_area": areas.squared_area[at],
            "log_shift": areas.log_shift[at],
            "log_forward": areas.log_forward[at],
            "level_cpt": areas.level[at],
            "learning_rate": schedules.last_rate / self.draws.frame.reference.learning_rate,
            "target_share": target_share,
            "other_share": target_share * others,
            "mixture": mixtures,
        }
        points = starts.bases.map(lambda name, values: own.get(name, values[curve]))
        return replace(starts, points=points)

    def losses(self, rows: Ints) -> Floats:
        """Return the law's losses of some candidates, shape (domains, candidates, draws)."""
        return self._by_set(losses(self.curves(rows), self.draws))

    def spread(self, rows: Ints) -> Spread:
        """Return the sizes of what moves losses about the law's."""
        parts = map(self._by_set, variances(self.curves(rows), self.draws))
        fluctuation, misfit, extrapolation, level = parts
        # Of a base whose pre-training is not known it is not known what else it lies off by.
        unmeasured = self.bases.level.any(axis=-1)[:, self.candidates.base[rows], None]
        share = self.draws.dtype(OWN_SHARE)
        return Spread(
            law=np.sqrt((1 - share) * misfit + extrapolation),
            level=np.sqrt(level) * unmeasured,
            own=np.sqrt(share * misfit),
            fluctuation=np.sqrt(fluctuation),
            correlation=self.law.correlation,
        )

    def discrepancy(self, rows: Ints, spread: Spread) -> Floats:
        """Return draws of the law's discrepancy of some candidates, shape (domains, candidates, draws).

        A function of the configuration in each draw (see `bayes_cpt.model.discrepancy`), whose mean
        over draws is 0: the law's own losses are expected, free of the Monte Carlo error of what is drawn.
        """
        combined, sd, place = self._unit
        unit = combined.at(self.features[rows], place[rows]) / sd[place[rows], None]
        drawn = unit.astype(spread.law.dtype) * spread.law
        if spread.level.any():
            drawn += spread.level * self.law.misfit.levels[:, None].astype(drawn.dtype)
        return centred(drawn)

    def _by_set(self, found: Floats) -> Floats:
        return found.reshape(len(self.draws.frame.domains), -1, found.shape[-1])


@dataclass(frozen=True, eq=False)
class Block:
    """Some candidates in the draws of all laws: their losses, and on demand what moves them."""

    rows: Ints  # which candidates they are
    parts: Sequence[CandidateEvaluator]  # one for each law

    @cached_property
    def candidates(self) -> Candidates:
        """The candidates themselves."""
        return self.parts[0].candidates.take(self.rows)

    @cached_property
    def losses(self) -> Floats:
        """The law's losses, nats/token, shape (domains, candidates, draws)."""
        return _side_by_side([own.losses(self.rows) for own in self.parts])

    @cached_property
    def spread(self) -> Spread:
        """The sizes of what moves losses about the law's, correlated as under the first law."""
        joined: dict[str, Any] = {
            name: _side_by_side([getattr(spread, name) for spread in self._spreads])
            for name in ("law", "level", "own", "fluctuation")
        }
        return replace(self._spreads[0], **joined)

    @cached_property
    def discrepancy(self) -> Floats:
        """Draws of the law's discrepancy, shape of `losses`."""
        pairs = zip(self.parts, self._spreads, strict=True)
        return _side_by_side([own.discrepancy(self.rows, spread) for own, spread in pairs])

    @cached_property
    def _spreads(self) -> list[Spread]:
        return [own.spread(self.rows) for own in self.parts]


@dataclass(frozen=True, eq=False)
class OneLaw:
    """A law of a fit or a stack in its draws, with its discrepancy in each."""

    draws: Draws
    misfit: SharedMisfit
    correlation: ErrorCorrelation

    @classmethod
    def of(cls, posterior: Posterior, draws: int, seed: int) -> Self:
        """Return the law of a fit in about as many draws, spread evenly over the chains."""
        frame = posterior.frame
        check_continual(frame, "there is nothing to decide")
        own = Draws.of(frame, posterior.parameters(draws))
        alike = error_correlation(posterior)
        return cls(own, SharedMisfit(own.count, alike.misfit, len(frame.domains), seed), alike)

    @cached_property
    def single(self) -> Draws:
        """The draws in single precision, in which many losses are evaluated in half the time."""
        return self.draws.astype(np.float32)


@dataclass(frozen=True, eq=False)
class FinalLosses:
    """A fit in some posterior draws, to be evaluated at the last step of candidates.

    What only one law has, as `frame`, is of a stack that of the first.
    """

    study: Study  # that was fitted
    laws: tuple[OneLaw, ...]
    # Losses of a base on each validation set, None where there is none
    measured: Callable[[Base], Losses]
    # A third validation set of the study, by name, in the same draws
    third: Callable[[str], ThirdSet]
    batch: str = ""  # of every run, in words, where a law compares batches
    _tables: dict[Any, tuple[BaseTable, ...]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, posterior: Posterior, draws: int = DRAWS, seed: int = 0) -> Self:
        """Return a fit or a stack in about as many draws, in all."""
        check_whole(seed, draws=draws)
        shares = [(law, count or draws) for law, count in posterior.shares(draws)]
        laws = tuple(OneLaw.of(law, count, seed) for law, count in shares)
        measured = partial(_measured, posterior.study, posterior.frame.domains)
        batch = posterior.batch.label and posterior.batch.words
        return cls(posterior.study, laws, measured, partial(_third, shares, seed), batch)

    @property
    def draws(self) -> int:
        """Number of posterior draws, of all laws together."""
        return sum(law.draws.count for law in self.laws)

    @property
    def frame(self) -> BoundModel:
        """The frame of the fit."""
        return self.laws[0].draws.frame

    @property
    def domains(self) -> tuple[str, ...]:
        """The validation sets, general and target."""
        return self.frame.domains

    @property
    def levels(self) -> Floats:
        """How far a base that nobody measured lies off the law, over its sd, shape (domains, draws)."""
        return _side_by_side([law.misfit.levels for law in self.laws])

    def simulated(
        self,
        plan: Study,
        run: Run,
        steps: Sequence[int],
        generator: np.random.Generator,
        thirds: Iterable[ThirdSet] = (),
    ) -> Floats:
        """Return a curve that a run of a plan may show in each draw, set by set, shape (draws, points).

        Then the changes of third sets, where the run's base was measured on the law's.
        """
        curves = self.frame.curves(plan, lambda *_: steps, [run])
        shared = self.innovations(plan, run, generator) if run.phase == "cpt" else None
        law, parameters = self.laws[0], self.laws[0].draws.parameters
        inputs = self.frame, parameters, curves, None, generator, law.correlation, shared
        found = simulate(*inputs)
        if run.phase != "cpt" or not curves.bases.base_known.all():
            return found.loss
        along = Changes.of(self.frame, curves, found.slow)
        changes = [along.linear(own.weights) + own.drawn(along, generator) for own in thirds]
        return np.hstack([found.loss, *changes])

    def innovations(self, plan: Study, run: Run, generator: np.random.Generator) -> Innovations:
        """Return what gives the misfit of a run's curves, a part of which configurations like it share."""
        base = plan.base(str(run.base))
        configuration = Configuration.of(base.schedule, run.schedule, run.replay or 0.0)
        features = configuration.features(self.frame.reference)

        @cache
        def of_run(knots: int) -> Floats:
            normals = generator.standard_normal((len(self.domains), self.draws, knots))
            own = correlated(normals, self.laws[0].correlation.misfit)
            shared = self.laws[0].misfit.innovations(features, knots)[:, 0]
            return np.asarray(np.sqrt(1.0 - OWN_SHARE) * shared + np.sqrt(OWN_SHARE) * own)

        return lambda curve, knots: of_run(knots)[self.domains.index(curve.domain)]

    def normals(self, seed: int) -> Floats:
        """Return how far each draw's new run lies off the law, in sds: as forecasts pair them."""
        return np.concatenate([paired_normals(law.draws.count, seed) for law in self.laws])

    def tables(self, bases: tuple[Base, ...], tokens: float | None = None) -> tuple[BaseTable, ...]:
        """Return what each law says of bases at the transfer to runs of a batch size."""
        key = (tuple(base.name for base in bases), tokens)
        if key not in self._tables:
            found = [self.measured(base) for base in bases]
            tables = (BaseTable.of(law.draws, bases, found, tokens) for law in self.laws)
            self._tables[key] = tuple(tables)
        return self._tables[key]

    def base_losses(self, bases: tuple[Base, ...], tokens: float | None = None) -> Floats:
        """Return the losses of bases, the law's where nobody measured them, (domains, bases, draws)."""
        return _side_by_side([table.loss for table in self.tables(bases, tokens)])

    def base_levels(self, bases: tuple[Base, ...], tokens: float | None = None) -> Floats:
        """Return the sd of the loss of bases about the law's, 0 where measured, (domains, bases, draws)."""
        return _side_by_side([table.level for table in self.tables(bases, tokens)])

    def at(self, candidates: Candidates) -> Block:
        """Return candidates in double precision."""
        return Block(np.arange(len(candidates)), self._parts(candidates))

    def map[T](
        self, candidates: Candidates, function: Callable[[Block], T], cores: int | None = None
    ) -> list[T]:
        """Return what a function makes of all candidates, block by block in several threads at once.

        Losses are in single precision, within 1e-5 nats of those of `at`.
        """
        parts = self._parts(candidates, single=True)
        for own in parts:
            own.prepare()
        size = max(BLOCK // self.draws, 1)
        # What depends on the base, or on the length, alone is computed once where a block has but one.
        rows = np.lexsort((candidates.schedules.steps, candidates.base))
        blocks = [rows[start : start + size] for start in range(0, rows.size, size)]
        return in_threads(lambda block: function(Block(block, parts)), blocks, cores)

    def each(self, candidates: Candidates, function: Callable[[Block], Floats]) -> Floats:
        """Return what a function makes of every candidate, in their order, shape (candidates, ...)."""
        found = self.map(candidates, lambda block: (block.rows, function(block)))
        rows, parts = zip(*found, strict=True)
        return np.concatenate(parts)[np.argsort(np.concatenate(rows))]

    def _parts(self, candidates: Candidates, *, single: bool = False) -> list[CandidateEvaluator]:
        tables = self.tables(candidates.bases, candidates.batch.tokens)
        return [
            CandidateEvaluator(law, law.single if single else law.draws, candidates, table)
            for law, table in zip(self.laws, tables, strict=True)
        ]


def _measured(study: Study, domains: Sequence[str], base: Base) -> Losses:
    known = any(own.name == base.name for own in study.bases)
    return base_losses(study, base, domains) if known else (None,) * len(domains)


def _third(shares: Sequence[tuple[Posterior, int]], seed: int, name: str) -> ThirdSet:
    fits = [(law.as_fitted, count) for law, count in shares]
    found = [third_sets(f, (name,), f.parameters(own), seed)[0] for f, own in fits]
    return found[0] if len(found) == 1 else pooled(found)


def _side_by_side(parts: Sequence[Floats]) -> Floats:
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)

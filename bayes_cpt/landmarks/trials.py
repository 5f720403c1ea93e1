"""Runs that nobody trained, and the law's losses along them in every posterior draw."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from bayes_cpt.arrays import Floats
from bayes_cpt.errors import StudyError
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.laws.areas import AreaForm
from bayes_cpt.laws.phase_areas import NUMBERS, SERIES, PhaseAreas, continual_areas
from bayes_cpt.model.bases.unknown_base import GIVE_SCHEDULE, check_base
from bayes_cpt.model.groups.batches import run_batch
from bayes_cpt.model.groups.grouping import place
from bayes_cpt.model.groups.sizes import log_sizes
from bayes_cpt.model.groups.targets import mixture_columns
from bayes_cpt.model.points import Points
from bayes_cpt.model.priors.draws import draw_priors
from bayes_cpt.model.setup import Frame
from bayes_cpt.study.batches import Batch
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.schedules import Schedule
from bayes_cpt.study.study import Study

UNKNOWN = "the schedule of the base is not known"


@dataclass(frozen=True)
class Trial:
    """A CPT run on a base, trained or not.

    Parameters
    ----------
    pretraining : Schedule or None
        The base's whole PT schedule; None where it is unknown.
    schedule : Schedule
        Of the CPT run.
    replay : float
        Share of general data, 0 to 1.
    base_losses : tuple of float or None
        Measured loss of the base on each validation set of the fit, nats/token; None where the base is
        taken to lie on the law.
    model_size : float, optional
        Millions of parameters; the reference size unless given. Not used where the law has no size.
    mixture : mapping of str to float
        Share of each target in the data that are not replay. Where there is one it may be left out.
    batch : Batch, optional
        That most runs have unless given. Not used where the law does not compare batches.
    """

    pretraining: Schedule | None
    schedule: Schedule
    replay: float
    base_losses: tuple[float | None, ...]
    model_size: float | None = None
    mixture: Mapping[str, float] = field(default_factory=dict)
    batch: Batch | None = None

    @classmethod
    def of(cls, posterior: Posterior, plan: Study, run: Run) -> Self:
        """Return a run of a plan as a trial.

        Parameters
        ----------
        posterior : Posterior
        plan : Study
        run : Run
            A CPT run of the plan.

        Raises
        ------
        StudyError
            As `fitted_base`.
        """
        base = fitted_base(posterior, plan, run)
        return cls(
            pretraining=base.schedule,
            schedule=run.schedule,
            replay=run.replay or 0.0,
            base_losses=base_losses(posterior, plan, base),
            model_size=plan.model_size(run),
            mixture=plan.mixture(run),
            batch=run_batch(plan, run, posterior.frame.batches),
        )

    @property
    def initial(self) -> float:
        """Learning rate of the base."""
        return self.pretraining.final if self.pretraining else 0.0

    def with_schedule(self, schedule: Schedule) -> Self:
        """Return the trial with another CPT schedule.

        Parameters
        ----------
        schedule : Schedule
            Of CPT.
        """
        return replace(self, schedule=schedule)


def read_target(
    posterior: Posterior,
    plan: "Study | str | Path | None" = None,
    runs: Collection[str] | None = None,
) -> tuple[Study, list[Run]]:
    """Return a plan and its CPT runs on bases that the fit is about: of known schedule, or the unknown one.

    Parameters
    ----------
    posterior : Posterior
    plan : Study or path, optional
        As in `bayes_cpt.forecast.predict.predict`: None takes the fitted study.
    runs : collection of str, optional
        Names of the runs wanted; all CPT runs on such bases unless given.

    Raises
    ------
    PlanError, StudyError
        If there is no such run, or one that is named has no such base.
    """
    target = as_study(posterior, plan)
    if runs is not None:
        chosen = [target.run(name) for name in runs]
        for run in chosen:
            fitted_base(posterior, target, run)
        return target, chosen
    unknown = posterior.frame.spec.law.unknown_base
    chosen = [
        run
        for run in target.continual_runs
        if (target.base(str(run.base)).schedule is None) == unknown
    ]
    check_base(posterior.study, target, chosen)
    if not chosen:
        raise StudyError.at(
            f"plan {target.name}",
            "it has no CPT run on the base that was fitted"
            if unknown
            else "it has no CPT run on a base whose schedule is known",
            "start a run from that base" if unknown else GIVE_SCHEDULE,
        )
    return target, chosen


def as_study(posterior: Posterior, plan: "Study | str | Path | None") -> Study:
    """Return a plan, read if it is a path; the fitted study where there is none.

    Parameters
    ----------
    posterior : Posterior
    plan : Study, str, Path or None
    """
    if plan is None or isinstance(plan, Study):
        return plan or posterior.study
    from bayes_cpt.study.folder import read_plan

    return read_plan(plan, posterior.study)


def base_losses(posterior: Posterior, plan: Study, base: Base) -> tuple[float | None, ...]:
    """Return the measured losses of a base, where the plan has none those of the same base in the study.

    Parameters
    ----------
    posterior : Posterior
    plan : Study
    base : Base
        Of the plan.
    """
    losses = [plan.base_loss(base.name, domain) for domain in posterior.frame.domains]
    study = posterior.study
    if any(other.name == base.name and other.schedule == base.schedule for other in study.bases):
        fitted = [study.base_loss(base.name, domain) for domain in posterior.frame.domains]
        losses = [b if a is None else a for a, b in zip(losses, fitted, strict=True)]
    return tuple(losses)


def fitted_base(posterior: Posterior, plan: Study, run: Run) -> Base:
    """Return the base of a CPT run, which the fit must be about.

    Parameters
    ----------
    posterior : Posterior
    plan : Study
    run : Run
        Of the plan.

    Raises
    ------
    StudyError
        If it is a PT run, or its base's schedule is known where that of the fit is not, or the other way
        round.
    """
    place = f"run {run.name}"
    if run.phase != "cpt":
        problem = "this is a PT run, and landmarks are those of CPT"
        raise StudyError.at(place, problem, "name a CPT run")
    base = plan.base(str(run.base))
    if base.schedule is None and not posterior.frame.spec.law.unknown_base:
        raise StudyError.at(f"{place}, base {base.name}", UNKNOWN, GIVE_SCHEDULE)
    check_base(posterior.study, plan, [run])
    return base


@dataclass(frozen=True, eq=False)
class LawSample:
    """The law's coefficients in some posterior draws.

    Parameters
    ----------
    frame : Frame
        Of the fit.
    coefficients : dict of str to ndarray, shape (draws, domains) or (draws,)
        As from `Law.coefficients`.
    """

    frame: Frame
    coefficients: dict[str, Floats]

    @classmethod
    def of(cls, posterior: Posterior, draws: int) -> Self:
        """Return the coefficients in about as many draws, spread evenly over the chains.

        Parameters
        ----------
        posterior : Posterior
        draws : int
            About how many.

        Raises
        ------
        StudyError
            If the law knows no CPT phase.
        """
        frame = posterior.frame
        cls._check(frame)
        return cls(frame, frame.law.coefficients(posterior.parameters(draws), np))

    @classmethod
    def of_laws(cls, posterior: Posterior, draws: int) -> list[Self]:
        """Return the coefficients of each law behind the draws (see `Posterior.shares`).

        Parameters
        ----------
        posterior : Posterior
        draws : int
            In all.

        Raises
        ------
        StudyError
            As `of`.
        """
        return [cls.of(law, count or draws) for law, count in posterior.shares(draws)]

    @classmethod
    def of_prior(cls, frame: Frame, draws: int, seed: int = 0) -> Self:
        """Return the coefficients in draws of the prior, to see what the data add.

        Raises
        ------
        StudyError
            As `of`.

        Parameters
        ----------
        frame : Frame
        draws : int
        seed : int
        """
        cls._check(frame)
        # A coefficient on a ridge overflows in the far tail of its prior, where it is only large.
        with np.errstate(over="ignore", invalid="ignore"):
            return cls(frame, frame.law.coefficients(draw_priors(frame, draws, seed), np))

    @staticmethod
    def _check(frame: Frame) -> None:
        if not frame.spec.law.continual:
            raise StudyError.at(
                f"model {frame.spec.name}",
                "the law knows no CPT phase, and landmarks are those of CPT",
                "fit with --model cpt or cpt-replay",
            )

    @property
    def draws(self) -> int:
        """How many draws there are."""
        return int(self.coefficients["lambda"].shape[0])

    @cached_property
    def form(self) -> AreaForm:
        """How areas are reckoned, around these draws: fewer nodes than for all that the prior allows."""
        return self.frame.area_form.around(self.coefficients)

    def losses(self, trials: Sequence[Trial], steps: Sequence[ArrayLike]) -> Floats:
        """Return the law's losses, moved by what is kept of each measured base's offset.

        Parameters
        ----------
        trials : sequence of Trial
        steps : sequence of array_like of int, shape (points,)
            Where the losses of each trial are wanted, as many of each; 0 is the base.

        Returns
        -------
        ndarray, shape (draws, trials, domains, points)
            nats/token.
        """
        return self.losses_at(*self.points(trials, steps))

    def losses_at(self, points: Points, bases: Points) -> Floats:
        """Return the losses at points laid out as by `points` (see `losses`).

        Parameters
        ----------
        points : Points
            Where losses are wanted.
        bases : Points
            The base of each curve, at its last step.
        """
        loss = self.frame.law.curve_loss(points, bases, self.coefficients, np)
        trials = int(points.curve_index.max() + 1) // len(self.frame.domains)
        return np.asarray(loss).reshape(self.draws, trials, len(self.frame.domains), -1)

    def points(self, trials: Sequence[Trial], steps: Sequence[ArrayLike]) -> tuple[Points, Points]:
        """Return the points of `losses`, trial by trial and domain by domain, and a base per curve.

        Parameters
        ----------
        trials : sequence of Trial
        steps : sequence of array_like
            Steps of each trial.
        """
        columns: list[dict[str, Any]] = []
        bases: list[dict[str, Any]] = []
        for trial, wanted in zip(trials, steps, strict=True):
            areas = continual_areas(
                trial.pretraining, trial.schedule, np.append(0, wanted), self.form
            )
            for rows in self._rows(trial, areas, len(bases)):
                bases.append({name: values[:1] for name, values in rows.items()})
                columns.append({name: values[1:] for name, values in rows.items()})
        return self._joined(columns), self._joined(bases)

    def _rows(self, trial: Trial, areas: PhaseAreas, curves: int) -> Iterator[dict[str, Any]]:
        reference, sizes = self.frame.reference, self.frame.sizes
        size = (
            (self.frame.typical_size if trial.model_size is None else trial.model_size)
            if sizes
            else None
        )
        ones = np.ones(areas.steps.size)
        steps = areas.steps.astype(np.float64)
        for index, loss in enumerate(trial.base_losses):
            other_share, mixture = mixture_columns(
                trial.mixture, self.frame.domains, index, trial.replay
            )
            yield {
                "curve_index": np.full(ones.size, curves + index),
                "domain_index": np.full(ones.size, index),
                "steps": steps,
                "cpt_steps": steps,
                "learning_rate": areas.learning_rates / reference.learning_rate,
                **{name: getattr(areas, name) for name in (*NUMBERS, *SERIES)},
                "target_share": (1.0 - trial.replay) * ones,
                "other_share": other_share * ones,
                "mixture": np.tile(mixture, (ones.size, 1)),
                "log_size": log_sizes(size, reference.model_size, ones.size),
                "size_member": np.full(ones.size, place(sizes, size, index)),
                # Trials are of one batch (`Posterior.in_batch`).
                "batch_member": np.zeros(ones.size, dtype=np.int64),
                "loss": (0.0 if loss is None else loss) * ones,
                "base_known": float(loss is not None) * ones,
                "branched": 0.0 * ones,
            }

    def _joined(self, columns: list[dict[str, Any]]) -> Points:
        arrays: dict[str, Any] = {
            name: np.concatenate([column[name] for column in columns]) for name in columns[0]
        }
        return Points(**arrays, form=self.form)

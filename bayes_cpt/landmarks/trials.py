"""Runs that nobody trained, and the law's losses along them in every posterior draw."""

import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from bayes_cpt.arrays import Floats
from bayes_cpt.errors import StudyError, StudyWarning
from bayes_cpt.forecast.derived import check_continual
from bayes_cpt.forecast.plans import Plan, as_plan, with_base_losses
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.bases import GIVE_SCHEDULE, check_base, check_kind
from bayes_cpt.model.evaluate import Draws, losses
from bayes_cpt.model.groups import run_batch
from bayes_cpt.model.points import Curves
from bayes_cpt.model.setup import BoundModel
from bayes_cpt.model.spec import ROLES
from bayes_cpt.study.batches import Batch, batch_of
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.schedules import LoggedSegment, Schedule, Segment, constant, linear
from bayes_cpt.study.study import Study

# Length of a re-warm-up where the run that is varied has none, as a share of its steps.
REWARMUP_SHARE = 0.025
# As good as no learning rate, and one that a study takes.
STILL = 1e-12


def at_its_peak(run: Run) -> Schedule:
    """Return the schedule of a run from where it is at its own peak; of one that only rises, held there."""
    schedule, left = run.schedule, run.approach_steps
    if left == schedule.steps:
        return constant(schedule.steps, schedule.peak)
    kept: list[Segment | LoggedSegment] = []
    for segment in schedule.segments:
        rates = segment.learning_rates()[left:]
        if rates.size == segment.steps:
            kept.append(segment)
        elif rates.size:
            kept += Schedule.from_log(range(1, rates.size + 1), rates).segments
        left = max(left - segment.steps, 0)
    return Schedule(tuple(kept))


def started_at(run: Run, learning_rate: float) -> Schedule:
    """Return the run's shape from its peak on, over all its steps, starting from a learning rate.

    Examples
    --------
    >>> warm = linear(100, 0.0, 2e-3) + linear(900, 2e-3, 0.0)
    >>> run = Run("r", "cpt", warm, base="annealed", replay=0.1)
    >>> started_at(run, 1e-3) == linear(1000, 1e-3, 0.0)
    True
    """
    shape = at_its_peak(run).stretched(run.schedule.steps)
    return shape.scaled(learning_rate / shape.peak)


def rewarmed(run: Run, start: float, peak: float) -> Schedule:
    """Return the run's shape after a linear change from the base's learning rate to `peak`, as long in all.

    The run's own approach to its peak gives the length of the new one, a fortieth of its steps where it has
    none.
    """
    steps = run.schedule.steps
    if steps == 1:
        return constant(1, peak)
    approach = run.approach_steps
    if not 0 < approach < steps:
        approach = max(round(REWARMUP_SHARE * steps), 1)
    shape = at_its_peak(run).stretched(steps - approach)
    return linear(approach, start, peak) + shape.scaled(peak / shape.peak)


def held(run: Run, steps: int) -> Schedule:
    """Return the run's approach to its peak and then the peak, held to the last of `steps` steps."""
    approach = run.approach_steps
    if approach >= steps:
        return run.schedule.first(steps)
    if not approach:
        return constant(steps, run.peak)
    return run.schedule.first(approach) + constant(steps - approach, run.peak)


@dataclass(frozen=True)
class Trial:
    """A CPT run on a base, trained or not."""

    base: Base
    run: Run  # of the reference size unless it says its own, where the law has a size
    # Measured loss of the base on each validation set of the fit, nats/token; None where it is taken to lie
    # on the law
    base_losses: tuple[float | None, ...]
    batch: Batch | None = None  # that most runs have unless given, where the law compares batches

    @classmethod
    def of(cls, posterior: Posterior, plan: Study, run: Run) -> Self:
        """Return a CPT run of a plan as a trial."""
        base, frame = plan.base(str(run.base)), posterior.frame
        tokens = batch_of(plan, run).tokens
        size = plan.model_size(run)
        sized = replace(run, model_size=size, batch_tokens=tokens, branch=None)
        measured = base_losses(plan, base, frame.domains)
        return cls(base, sized, measured, run_batch(plan, run, frame.batches))

    def with_schedule(self, schedule: Schedule) -> Self:
        """Return the trial with another CPT schedule."""
        # One step of a schedule that falls to 0 is at 0, which no run of a study is throughout.
        still = not schedule.learning_rates().any()
        schedule = constant(schedule.steps, STILL) if still else schedule
        return replace(self, run=replace(self.run, schedule=schedule))


def read_target(
    posterior: Posterior, plan: Plan = None, runs: Collection[str] | None = None
) -> tuple[Study, list[Run]]:
    """Return a plan and its CPT runs on bases that the fit is about: of known schedule, or the unknown one.

    Refused if there is no such run, or one that is named has no such base.
    """
    check_continual(posterior.frame, "landmarks are those of CPT")
    target, unknown = as_study(posterior, plan), posterior.frame.spec.law.unknown_base
    if runs is None:
        every = target.continual_runs
        chosen = [r for r in every if (target.base(str(r.base)).schedule is None) == unknown]
    else:
        chosen = [target.run(name) for name in runs]
        for run in chosen:
            if run.phase != "cpt":
                problem = "this is a PT run, and landmarks are those of CPT"
                raise StudyError.at(f"run {run.name}", problem, "name a CPT run")
        check_kind(target, chosen, unknown=unknown)
    check_base(posterior.study, chosen)
    if not chosen:
        kind = "the base that was fitted" if unknown else "a base whose schedule is known"
        fix = "start a run from that base" if unknown else GIVE_SCHEDULE
        raise StudyError.at(f"plan {target.name}", f"it has no CPT run on {kind}", fix)
    return target, chosen


def as_study(posterior: Posterior, plan: Plan) -> Study:
    """Return a plan, with the losses that the study has of its bases; the fitted study without one."""
    return with_base_losses(posterior.study, posterior.frame.domains, as_plan(posterior, plan))


def base_losses(study: Study, base: Base, domains: Sequence[str]) -> tuple[float | None, ...]:
    """Return the measured losses of a base, None where there is none."""
    return tuple(study.base_loss(base.name, domain) for domain in domains)


def law_draws(posterior: Posterior, draws: int) -> list[Draws]:
    """Return about as many draws, spread evenly over the chains, of each law (see `Posterior.shares`).

    Refused if the law knows no CPT phase.
    """
    check_continual(posterior.frame, "landmarks are those of CPT")
    return [Draws.of(own.frame, own.parameters(n or draws)) for own, n in posterior.shares(draws)]


def trial_losses(draws: Draws, trials: Sequence[Trial], steps: Sequence[ArrayLike]) -> Floats:
    """Return the law's losses, moved by what is kept of each measured base's offset, nats/token.

    Of shape (draws, trials, domains, points): at as many steps of each trial, rising; 0 is the base.
    """
    curves = trial_curves(draws, trials, steps)
    return by_trial(losses(curves, draws), draws, len(trials))


def by_trial(found: Floats, draws: Draws, trials: int) -> Floats:
    """Return losses of `trial_curves`, shape (points, draws), as `trial_losses` has them."""
    return found.T.reshape(draws.count, trials, len(draws.frame.domains), -1)


def check_measured(frame: BoundModel, roles: Collection[str | None], what: str) -> None:
    """Raise StudyError if a fit of one validation set alone is asked about the loss on the other."""
    if frame.unmeasured in roles:
        about = (
            "the general and the target loss"
            if set(ROLES) <= set(roles)
            else f"the {frame.unmeasured} loss"
        )
        problem = f"{what} is about {about}, and the fit is of {frame.domains[0]} alone"
        fix = f"measure the {frame.unmeasured} loss, or ask predict and decide, which need not have both"
        raise StudyError.at(f"model {frame.spec.name}", problem, fix)


def trial_curves(draws: Draws, trials: Sequence[Trial], steps: Sequence[ArrayLike]) -> Curves:
    """Return the curves of trials, trial by trial and validation set by validation set."""
    frame = draws.frame
    bases: list[Base] = []
    runs: list[Run] = []
    rows: list[tuple[str, int, str, float]] = []
    for place, trial in enumerate(trials):
        name = f"trial {place}"
        size = (trial.run.model_size or frame.typical_size) if frame.sizes else None
        bases.append(replace(trial.base, name=name, run=None, model_size=None))
        runs.append(replace(trial.run, name=name, base=name, model_size=size))
        measured = zip(frame.domains, trial.base_losses, strict=True)
        rows += [(name, 0, domain, loss) for domain, loss in measured if loss is not None]
    told = pd.DataFrame(rows, columns=["run", "step", "domain", "loss"])
    # What is suspicious in a run is said of the run that these are made from.
    with warnings.catch_warnings(action="ignore", category=StudyWarning):
        parts = tuple(bases), tuple(runs), told
        plan = Study(
            "trial",
            frame.general,
            frame.targets or None,
            *parts,
            is_plan=True,
            rows_are_checked=True,
        )
    wanted = {run.name: np.atleast_1d(at) for run, at in zip(plan.runs, steps, strict=True)}
    return frame.curves(plan, lambda run, _: wanted[run.name], form=draws.form)

"""Plans: which runs to predict, from which bases, and at which steps."""

import warnings
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from bayes_cpt.errors import Problem, StudyError, StudyWarning
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.laws.areas import AreaForm
from bayes_cpt.model.bases import check_base, check_starts
from bayes_cpt.model.fitted_points import check_replays
from bayes_cpt.model.points import Curves
from bayes_cpt.model.setup import BoundModel
from bayes_cpt.study.batches import check_same_data
from bayes_cpt.study.runs import Base
from bayes_cpt.study.study import Run, Study
from bayes_cpt.study.trunks import branch_of

# By run and validation set.
type Steps = Mapping[tuple[str, str], Collection[int]]
type Kind = Literal["expected", "new_run", "known_run"]
# A plan or the path of one; None stands for the fitted study.
type Plan = Study | str | Path | None
# Run, domain and step where losses are wanted, or the path of their CSV.
type Points = pd.DataFrame | str | Path

KINDS = ("expected", "new_run", "known_run")
# Posterior draws that a forecast uses unless told otherwise.
DRAWS = 1000
GRID = 200


class PlanError(StudyError):
    """A plan, or points to predict at, that the fit cannot serve."""


def default_grid(run: Run) -> list[int]:
    """Return about 200 steps of a run, denser early, the last one always.

    A PT run has none in its warm-up and in its first hundredth, where the power law is far above any loss.

    Examples
    --------
    >>> from bayes_cpt.study.schedules import constant
    >>> grid = default_grid(Run("longer", "cpt", constant(3000, 1e-3), base="base", replay=0.5))
    >>> grid[0], grid[-1], len(grid) <= 200
    (1, 3000, True)
    """
    steps = run.schedule.steps
    first = max(run.schedule.warmup_steps, steps // 100) if run.phase == "pt" else 0
    left_out = min(first, steps - 1)
    return [left_out + step for step in denser_early(steps - left_out, GRID)]


def denser_early(steps: int, count: int) -> list[int]:
    """Return so many steps of a run, or all: even in the square root of the step, the last one always.

    The first steps of a run move fastest.

    Examples
    --------
    >>> denser_early(1000, 24)[:3], denser_early(1000, 24)[-1], denser_early(3, 24)
    ([2, 7, 16], 1000, [1, 2, 3])
    """
    share = np.linspace(0.0, 1.0, min(count, steps) + 1)[1:] ** 2
    return [int(step) for step in np.unique(np.ceil(share * steps))]


def first_step(posterior: Posterior, run: Run) -> float:
    """Return the step of a run up to which not all laws of a posterior hold, 0 in CPT."""
    return max(law.frame.first_step(posterior.study, run) for law in posterior.laws)


@dataclass(frozen=True, eq=False)
class Prepared:
    """Runs to predict, and where on them losses are wanted."""

    study: Study  # the plan, with the losses of its bases filled in
    fitted: Study  # what was fitted: the plan's runs may branch off its runs
    runs: tuple[Run, ...]
    steps: Steps  # where the law is evaluated, by run and validation set
    # Where losses are wanted: of third validation sets too, which need both of the law's losses
    asked: Steps

    @property
    def asked_runs(self) -> list[Run]:
        """The runs on which losses are wanted at all."""
        asked = {name for (name, _), steps in self.steps.items() if steps}
        return [run for run in self.runs if run.name in asked]

    def curves(
        self, frame: BoundModel, runs: Iterable[Run] | None = None, form: AreaForm | None = None
    ) -> Curves:
        """Return the curves of the runs, or of some of them (see `BoundModel.curves`)."""
        chosen = self.runs if runs is None else runs
        curves = frame.curves(
            self.study, lambda run, d: self.steps[run.name, d], chosen, form, self.fitted
        )
        starts = ((f"run {own.run}", own.domain, own.base_known) for own in curves.curves)
        check_starts(frame.spec.law, starts)
        return curves


def prepare(
    posterior: Posterior,
    plan: Plan = None,
    *,
    at: Points | None = None,
    known: bool = False,
    runs: Collection[str] | None = None,
    sets: Sequence[str] = (),
) -> Prepared:
    """Return a plan with its base losses filled in, and where losses are wanted; else a PlanError."""
    fitted = plan is None or known
    target = as_plan(posterior, plan)
    if fitted:
        target = _own_runs(posterior, target)
    target = with_base_losses(posterior.study, (*posterior.frame.domains, *sets), target)
    if runs is None:
        chosen = [run for run in target.runs if run.phase == "cpt" or fitted] or list(target.runs)
    else:
        chosen = [target.run(name) for name in runs]
    check_base(posterior.study, chosen)
    ratios = [(f"run {run.name}", run.replay) for run in chosen if run.phase == "cpt"]
    for law in posterior.laws:
        check_replays(law.frame.spec, posterior.study, ratios)
    if any("repeat_constant" in law.frame.spec.priors for law in posterior.laws):
        check_same_data(posterior.study, target)
    asked = _wanted_steps(posterior, sets, chosen, at)
    steps = _law_steps(target, posterior.frame.domains, sets, asked) if sets else asked
    return Prepared(target, posterior.study, tuple(chosen), steps, asked)


def observed_curves(posterior: Posterior, curves: Curves) -> Curves:
    """Return the fitted points of the same curves, in their order; a PlanError if one has none."""
    study, frame = posterior.study, posterior.frame
    runs = [study.run(name) for name in dict.fromkeys(curve.run for curve in curves.curves)]
    wanted = [(curve.run, curve.domain) for curve in curves.curves]
    steps = {(run, d): frame.fitted_steps(study, study.run(run), d) for run, d in wanted}
    if lost := [key for key, own in steps.items() if not len(own)]:
        raise PlanError(
            Problem(f"run {run}, domain {domain}", "it has no measured points", "use kind new_run")
            for run, domain in lost
        )
    return frame.curves(study, lambda run, d: steps.get((run.name, d), ()), runs)


def as_plan(posterior: Posterior, plan: Plan) -> Study:
    """Return a plan, read if it is a path; the fitted study without one."""
    if plan is None:
        return posterior.study
    if isinstance(plan, Study):
        return plan
    from bayes_cpt.study.folder import read_plan

    return read_plan(plan, posterior.study)


def _own_runs(posterior: Posterior, target: Study) -> Study:
    """Return the fitted study with the runs named, its own schedules and losses."""
    unknown = [run.name for run in target.runs if run.name not in posterior.study]
    if unknown:
        problem = "known_run is asked for, and the fitted study has no such run"
        fix = "use kind new_run, or name a run of the study"
        raise PlanError(Problem(f"run {name}", problem, fix) for name in unknown)
    study, continual = posterior.study, posterior.frame.spec.law.continual
    for run, own in ((run, study.run(run.name)) for run in target.runs):
        if (run.schedule, run.base, run.replay) != (own.schedule, own.base, own.replay):
            problem = "schedule, base or replay is not that of the fitted run, which is forecast"
            caution = Problem(f"run {run.name}", problem, "use kind new_run, or fit again")
            warnings.warn(str(caution), StudyWarning, stacklevel=2)
    chosen = [run.name for run in target.runs if continual or run.phase == "pt"]
    told = study.losses["domain"].isin(posterior.frame.domains) & (study.losses["step"] > 0)
    lost = {run.name for run in study.continual_runs} & {*chosen} - {*study.losses["run"][told]}
    for name in sorted(lost if len(lost) < len(chosen) else ()):
        problem = "it has no measured points and is left out"
        caution = Problem(f"run {name}", problem, "use kind new_run")
        warnings.warn(str(caution), StudyWarning, stacklevel=2)
        chosen.remove(name)
    return study.subset(chosen)


def with_base_losses(study: Study, domains: Iterable[str], plan: Study) -> Study:
    """Return the plan with losses of its bases at step 0 from the fitted study, where it has none."""
    fitted = {base.name: base.schedule for base in study.bases}
    users = {run.base: run.name for run in reversed(plan.continual_runs)}

    def measured(base: Base, domain: str) -> float | None:
        same = base.name in fitted and fitted[base.name] == base.schedule
        return study.base_loss(base.name, domain) if same else study.loss_on_run(base, domain)

    rows = [
        (users[base.name], 0, domain, loss)
        for base in plan.bases
        if base.name in users
        for domain in domains
        if plan.base_loss(base.name, domain) is None
        and (loss := measured(base, domain)) is not None
    ]
    return plan.with_runs((), rows) if rows else plan


def _law_steps(study: Study, domains: Sequence[str], sets: Sequence[str], asked: Steps) -> Steps:
    """Return where the law is needed: a third set needs both losses, and where it was measured itself."""
    every = defaultdict[str, set[int]](set)
    for (run, domain), steps in asked.items():
        every[run].update(steps)
        if domain in sets and run in study:
            measured = study.curve(run, domain)[0]
            every[run].update(int(step) for step in measured[measured > 0])
    return {(run, domain): steps for run, steps in every.items() for domain in domains}


def _wanted_steps(
    posterior: Posterior, sets: Sequence[str], runs: list[Run], at: Points | None
) -> Steps:
    fitted, domains = posterior.study, (*posterior.frame.domains, *sets)
    pairs = [(r, d) for r in runs for d in domains if r.phase == "cpt" or d not in sets]
    if at is None:
        grids = {}
        for run in runs:
            first = first_step(posterior, run)
            grids[run.name] = [step for step in default_grid(run) if step > first]
        return {(run.name, domain): grids[run.name] for run, domain in pairs}
    points = _points_table(at)
    lengths = {run.name: run.schedule.steps for run in runs}
    left = {run.name: branch_of(fitted, run) for run in runs if run.phase == "pt"}
    steps: dict[tuple[str, str], set[int]] = {(run.name, domain): set() for run, domain in pairs}
    problems = []
    for name, domain, step in points[["run", "domain", "step"]].itertuples(index=False):
        place = f"run {name}, step {step}"
        if name not in lengths:
            fix = f"name one of {', '.join(lengths)}"
            said = (f"run {name}", "the plan has no such run", fix)
        elif (name, domain) not in steps:
            fix = f"name one of {', '.join(domains)}; of others, ask for their forecast by name"
            said = (f"run {name}, domain {domain}", "the fit has no such validation set", fix)
        elif not 1 <= step <= lengths[name]:
            what = f"the run has steps 1 to {lengths[name]}"
            said = (place, what, "ask inside it, or lengthen its schedule")
        elif (branch := left.get(name)) and step <= branch.step:
            what = f"up to step {branch.step} the run is {branch.run}, which it branches off"
            said = (place, what, f"ask for {branch.run} there, or for later steps")
        else:
            steps[name, domain].add(int(step))
            continue
        problems.append(Problem(*said))
    if problems:
        raise PlanError(list(dict.fromkeys(problems)))
    return steps


def _points_table(at: Points) -> pd.DataFrame:
    place = "points" if isinstance(at, pd.DataFrame) else str(at)
    try:
        points = at if isinstance(at, pd.DataFrame) else pd.read_csv(at)
    except (OSError, ValueError) as error:
        problem = f"the points cannot be read: {error}"
        raise PlanError.at(place, problem, "give a CSV: run,domain,step") from None
    missing = [name for name in ("run", "domain", "step") if name not in points.columns]
    if missing or points.empty:
        what = f"there is no column {missing[0]}" if missing else "there is no point"
        raise PlanError.at(place, what, "give columns run, domain and step, between commas")
    steps = pd.to_numeric(points["step"], errors="coerce")
    if steps.isna().any() or (steps % 1 != 0).any():
        raise PlanError.at(place, "a step is not a whole number", "count steps from 1")
    return points.assign(step=steps.astype(int), run=points["run"].astype(str))

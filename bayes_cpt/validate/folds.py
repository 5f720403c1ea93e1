"""Folds: each run left out in turn, and the tail of each run in turn."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, product
from typing import Self

import numpy as np
import pandas as pd

from bayes_cpt.errors import StudyError, StudyWarning
from bayes_cpt.model.fitted_points import check_fits, observed_steps
from bayes_cpt.model.setup import Setup, build_setup
from bayes_cpt.model.spec import ModelSpec
from bayes_cpt.study.ranges import check_evidence
from bayes_cpt.study.study import Run, Study


@dataclass(frozen=True, eq=False)
class Question:
    """What a method is asked. It holds no loss that the method could look up."""

    study: Study  # to fit
    plan: Study  # runs to predict, with no losses but those of their bases, at step 0
    points: pd.DataFrame  # columns run, domain, step: where
    known: bool = False  # whether the runs are in the study, seen part-way


@dataclass(frozen=True, eq=False)
class Fold:
    """A question and the measured losses to score its answer against."""

    label: str  # names it; its seed comes from it
    seen: float  # share of the runs' steps that the fit sees; 0 where whole runs are left out
    question: Question
    # The question's points, with loss (nats/token), share (step over the run's last step) and ratio: step
    # over the last one that was fitted, of this run where it was seen, else of any of its phase
    measured: pd.DataFrame = field(repr=False)

    def at(self, measured: pd.DataFrame) -> Self:
        """Return the fold at some of its points, given as rows of `measured`."""
        question = replace(self.question, points=measured[["run", "domain", "step"]])
        return replace(self, question=question, measured=measured)


def held_out_folds(
    study: Study,
    spec: ModelSpec,
    runs: Iterable[str] | None = None,
    after: Sequence[float] = (0.0,),
) -> list[Fold]:
    """Return a fold per run and share of its steps: predict what follows, from all other runs too.

    Runs are the CPT runs, or PT runs where the law knows no CPT. After a share of 0 the whole run is left
    out; of another share a run that was not measured on both sides has no fold.
    """
    if not all(0 <= share < 1 for share in after):
        raise ValueError(f"shares are {list(after)}: give numbers from 0 on, below 1")
    check_fits(spec, study)
    whole, tested = _fitted_part(study, spec), spec.law.last_phase_runs(study)
    chosen = tested if runs is None else _chosen(study, tested, runs)
    if 0.0 in after and len(tested) < 2:
        problem = "it has fewer than two runs to leave out, and without one nothing to fit is left"
        fix = "leave out only tails of runs, or measure a second run"
        raise StudyError.at(f"study {study.name}", problem, fix)
    folds = []
    for share, run in product(dict.fromkeys(after), chosen):
        last = int(share * run.schedule.steps)
        others = (other.name for other in whole.runs if other.name != run.name)
        fitted = whole.truncated({run.name: last}) if share else whole.subset(others)
        label = f"{run.name} after {100 * share:g} %" if share else run.name
        folds += _fold(label, fitted, whole.subset([run.name]), spec, share, last)
    return folds


def fittable(spec: ModelSpec, study: Study) -> Setup:
    """Return what a fit of a study takes; raise where the study lacks what it needs."""
    setup = build_setup(spec, study)
    check_evidence(study, continual=spec.law.continual)
    return setup


def check_folds(folds: Sequence[Fold], spec: ModelSpec) -> None:
    """Raise where nothing is to be predicted, or a fold lacks what a fit needs: before long refits."""
    with warnings.catch_warnings(action="ignore", category=StudyWarning):
        for fold in folds:
            fittable(spec, fold.question.study)
    if not folds:
        problem = "there is nothing to predict: no point was measured where it is asked for"
        fix = "leave out whole runs, or other shares of --tails"
        raise StudyError.at("held-out runs", problem, fix)


def other_study(study: Study, other: Study, spec: ModelSpec) -> list[Fold]:
    """Return the fold that predicts all runs of another study from this one."""
    whole = _fitted_part(study, spec)
    if not set(domains := spec.law.domains(whole)) & set(other.domains):
        problem = f"its validation sets are {', '.join(other.domains)}, none of those of study {study.name}"
        fix = f"call them what they are there: {', '.join(domains)}"
        raise StudyError.at(f"study {other.name}", problem, fix)
    names = [run.name for run in spec.law.last_phase_runs(other)]
    return _fold(other.name, whole, other.subset(names), spec)


def _fitted_part(study: Study, spec: ModelSpec) -> Study:
    return study.subset(run.name for run in spec.law.fitted_runs(study))


def _chosen(study: Study, tested: Sequence[Run], runs: Iterable[str]) -> list[Run]:
    chosen = [study.run(name) for name in runs]
    for run in chosen:
        if run not in tested:
            problem = f"the model predicts no runs of phase {run.phase}"
            fix = f"name one of {', '.join(own.name for own in tested)}"
            raise StudyError.at(f"run {run.name}", problem, fix)
    return chosen


def _fold(
    label: str, fitted: Study, held_out: Study, spec: ModelSpec, seen: float = 0.0, after: int = 0
) -> list[Fold]:
    """Return the fold that predicts what was measured after a step; none where nothing was."""
    residuals = spec.residuals
    tables = []
    for run in spec.law.last_phase_runs(held_out):
        # What was fitted last is told by the run itself where it was seen.
        of_phase = [own for own in fitted.runs if own.phase == run.phase]
        sources = [fitted.run(run.name)] if after else of_phase
        for domain in spec.law.domains(fitted):
            fits = (observed_steps(fitted, own, domain, residuals) for own in sources)
            limit = max(chain.from_iterable(fits), default=0)
            steps, losses = held_out.curve(run.name, domain)
            wanted = observed_steps(held_out, run, domain, residuals)
            kept = np.isin(steps, wanted) & (steps > after)
            if not limit or not kept.any():
                continue
            points = {"run": run.name, "domain": domain, "step": steps[kept], "loss": losses[kept]}
            points |= {"share": steps[kept] / run.schedule.steps, "ratio": steps[kept] / limit}
            tables.append(pd.DataFrame(points))
    if not tables:
        return []
    measured = pd.concat(tables, ignore_index=True)
    points = measured[["run", "domain", "step"]]
    question = Question(fitted, held_out.without_losses(), points, known=after > 0)
    return [Fold(label, seen, question, measured)]

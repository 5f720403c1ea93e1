"""Forecasts of held-out runs: methods answer the questions of folds, and are scored.

The log score is the log of the density that a posterior predictive distribution has at what was measured.
Points of a curve are not independent, nor are the two curves of a run: a run is one observation, and its
score is that of all its points together.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from bayes_cpt.arrays import Floats
from bayes_cpt.forecast.drawn import point_table
from bayes_cpt.forecast.plans import Kind, Prepared, Steps, prepare
from bayes_cpt.inference.posterior import Posterior, stack
from bayes_cpt.model.fitted_points import thinned
from bayes_cpt.model.log_densities import log_densities
from bayes_cpt.model.points import Curves
from bayes_cpt.model.residuals import ONSET_SHARE
from bayes_cpt.model.spec import ModelSpec
from bayes_cpt.validate.folds import Fold, Question
from bayes_cpt.validate.scores import DrawsError, by_horizon, score_points, summarize
from bayes_cpt.validate.tasks import TASK, Pool, Progress, Records, in_words, run_tasks, task_seed

TABLES = ("points", "refits")
# What a comparison of laws keeps of a fold: quantiles of the draws at each point, from which draws of a
# mixture can be had, and the log score.
MIXTURE_TABLES = ("quantiles", "log_scores", "refits")
# Of the quantiles: middles of equal masses, and decimals of a nat.
LEVELS, DECIMALS = 100, 6
OURS = "bayes_cpt"
# Draws whose whitened curves are in memory at once.
BLOCK = 250


class LogScore(NamedTuple):
    """The log score of what was held out."""

    value: float  # log density, of losses in nats/token; larger is better
    # How many posterior draws the density is an average over: few of them may predict the run best
    effective_draws: float


class Answer(NamedTuple):
    """What a method predicts."""

    draws: Floats  # of the loss, nats/token, (draws, points)
    problems: tuple[str, ...] = ()  # why the fit is not to be trusted; empty where it is
    attempts: int = 1  # how often it was sampled until its diagnostics held
    # Returns the `LogScore` of measured losses; None where there is no density
    log_score: "Callable[[pd.DataFrame], LogScore] | None" = None


type Method = Callable[[Question, int], Answer]


def package_method(
    question: Question,
    seed: int,
    *,
    specs: Sequence[ModelSpec],
    weights: Sequence[float] = (1.0,),
    draws: int | None = None,
    cores: int | None = None,
) -> Answer:
    """Answer by a fit of this package, of several laws by their stack: a new run's curve, or a known one's.

    `draws` and `cores` are as `fit` takes them.
    """
    from bayes_cpt.forecast.predict import draws_at
    from bayes_cpt.inference.fitting import fit

    laws = {spec.name: fit(question.study, spec, seed, draws=draws, cores=cores) for spec in specs}
    (posterior, *others) = laws.values()
    if others:
        posterior = stack(laws, dict(zip(laws, weights, strict=True)), seed)
    kind: Kind = "known_run" if question.known else "new_run"
    points = question.points
    forecast = posterior.predict(question.plan, kind=kind, at=points, seed=seed)
    attempts = int(posterior.tree.attrs["attempts"])
    scored = partial(log_score, posterior, question)
    return Answer(draws_at(forecast["loss"], points), posterior.problems, attempts, scored)


def log_score(posterior: Posterior, question: Question, measured: pd.DataFrame) -> LogScore:
    """Return the log score of all that a fold held out, taken as one observation.

    Long logs count with some of their points, as in a fit (`bayes_cpt.model.fitted_points.thinned`).
    """
    known = posterior.with_new_groups(question.plan, question.plan.runs)
    parts = [_of_law(law, law.parameters(n), question, measured) for law, n in known.shares()]
    densities = np.concatenate(parts)
    relative = np.exp(densities - densities.max())
    value = densities.max() + np.log(relative.mean())
    return LogScore(float(value), float(relative.sum() ** 2 / (relative**2).sum()))


def _of_law(
    law: Posterior, parameters: dict[str, Floats], question: Question, measured: pd.DataFrame
) -> Floats:
    """Return the log density of all that was held out in each draw of one law, shape (draws,)."""
    frame, onset = law.frame, ONSET_SHARE * law.frame.reference.steps
    tail = {
        (str(run), str(domain)): thinned(sorted(rows["step"]), onset)
        for (run, domain), rows in measured.groupby(["run", "domain"], sort=False)
    }
    prepared = prepare(law, question.plan, at=question.points, known=question.known)
    losses = measured.set_index(["run", "domain", "step"])["loss"]
    if not question.known:
        return _density(law, parameters, _curves(law, prepared, tail, losses))
    study = prepared.study
    head = {(run, d): frame.fitted_steps(study, study.run(run), d) for run, d in tail}
    whole = _curves(law, prepared, {key: head[key] + tail[key] for key in tail}, losses)
    seen = _curves(law, prepared, head, losses)
    last = float(whole.points.steps.max())
    return _density(law, parameters, whole, last) - _density(law, parameters, seen, last)


def _curves(law: Posterior, prepared: Prepared, steps: Steps, losses: pd.Series) -> Curves:
    """Return curves with their losses: those of the study, and what was held out of it."""
    asked = prepared.study, lambda run, d: steps.get((run.name, d), ()), prepared.runs
    curves = law.frame.curves(*asked, trunks=law.study)
    where = pd.MultiIndex.from_frame(point_table(curves)[losses.index.names])
    measured = np.where(np.isnan(curves.points.loss), losses.reindex(where), curves.points.loss)
    return replace(curves, points=replace(curves.points, loss=measured))


def _density(
    law: Posterior, parameters: dict[str, Floats], curves: Curves, last: float | None = None
) -> Floats:
    parts = []
    for start in range(0, len(next(iter(parameters.values()))), BLOCK):
        some = {name: value[start : start + BLOCK] for name, value in parameters.items()}
        parts.append(log_densities(law.frame, some, curves, last).sum(axis=1))
    return np.concatenate(parts)


def score_folds(
    folds: Sequence[Fold],
    methods: Mapping[str, Method],
    seed: int = 0,
    *,
    pool: Pool | None = None,
    records: Records | None = None,
    progress: Progress | None = None,
) -> tuple[pd.DataFrame, ...]:
    """Let methods answer the questions of folds, each with a seed of its label, and score the answers.

    Returned are the tables of the records, rows in the order of the tasks; `TABLES` unless given:
    ``points``, `bayes_cpt.validate.scores.score_points` of each point with method, fold, seen, share and
    ratio; and ``refits``, a row per fold and method: trustworthy, problems, attempts (0 without an answer)
    and seconds.
    """
    kept = records or Records.open(None, {}, TABLES)
    tasks = {f"{name}: {fold.label}": (name, fold) for name in methods for fold in folds}
    outcome = partial(_outcome, methods=methods, seed=seed, wanted=kept.names)
    run_tasks(outcome, tasks, pool, kept, progress)
    return tuple(kept.in_order(name, list(tasks)).drop(columns=TASK) for name in kept.names)


def _outcome(
    task: tuple[str, Fold], methods: Mapping[str, Method], seed: int, wanted: Sequence[str]
) -> dict[str, pd.DataFrame]:
    from bayes_cpt.inference.metric import SamplingError

    method, fold = task
    labels = {"method": method, "fold": fold.label, "seen": fold.seen}
    began = time.perf_counter()
    tables: dict[str, pd.DataFrame] = {}
    try:
        answer = methods[method](fold.question, task_seed(seed, fold.label))
        # Draws that are not finite are refused here, whatever is kept of them.
        tables["points"] = score_points(fold.measured, answer.draws)
        if "quantiles" in wanted:
            levels = np.quantile(answer.draws, (np.arange(LEVELS) + 0.5) / LEVELS, axis=0)
            tables["quantiles"] = pd.DataFrame(levels.T.round(DECIMALS)).add_prefix("q")
        if "log_scores" in wanted and answer.log_score is not None:
            tables["log_scores"] = pd.DataFrame([answer.log_score(fold.measured)._asdict()])
    except (SamplingError, DrawsError) as error:
        answer, tables = Answer(np.empty((0, 0)), (str(error),), attempts=0), {}
    refit = labels | {
        "trustworthy": not answer.problems,
        "problems": in_words(answer.problems),
        "attempts": answer.attempts,
        "seconds": round(time.perf_counter() - began, 2),
    }
    kept = {name: tables[name].assign(**labels) for name in wanted if name in tables}
    return kept | {"refits": pd.DataFrame([refit])}


def score_table(points: pd.DataFrame) -> pd.DataFrame:
    """Return `bayes_cpt.validate.scores.summarize` of one method's points, by share seen (column seen)."""
    return summarize(points, ["seen"]).sort_values("seen", kind="stable", ignore_index=True)


def horizon_table(points: pd.DataFrame) -> pd.DataFrame:
    """Return scores by horizon: whole runs by the place in the run, tails by how far they reach.

    Columns are axis (share or ratio), domain, horizon, runs and the scores.
    """
    axes = np.where(points["seen"] == 0, "share", "ratio")
    parts = [
        by_horizon(rows.assign(axis=axis), axis, ["axis", "domain"])
        for axis, rows in points.groupby(axes, sort=False)
    ]
    return pd.concat(parts, ignore_index=True)

"""Forecasts of what no fit saw: methods answer the questions of folds, and are scored."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.model.spec import ModelSpec
from bayes_cpt.validate.folds import Fold, Question
from bayes_cpt.validate.parallel import Pool, task_seed
from bayes_cpt.validate.records import Records, in_words
from bayes_cpt.validate.scores import DrawsError, by_horizon, score_points, summarize

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.inference.posterior import Posterior
    from bayes_cpt.validate.comparison.log_scores import LogScore

type Progress = Callable[[str, float], None]

TABLES = ("points", "refits")
# What a comparison of laws keeps of a fold: quantiles of the draws at each point, from which draws of a
# mixture can be had, and the log score.
MIXTURE_TABLES = ("quantiles", "log_scores", "refits")
# Of the quantiles: middles of equal masses, and decimals of a nat.
LEVELS, DECIMALS = 100, 6
OURS, PAPER = "bayes_cpt", "paper"


class Answer(NamedTuple):
    """What a method predicts.

    Parameters
    ----------
    draws : ndarray, shape (draws, points)
        Of the loss, nats/token.
    problems : tuple of str
        Why the fit is not to be trusted; empty where it is.
    attempts : int
        How often it was sampled until its diagnostics held.
    log_score : callable, optional
        Returns the `LogScore` of measured losses; None where there is no density.
    """

    draws: Floats
    problems: tuple[str, ...] = ()
    attempts: int = 1
    log_score: "Callable[[pd.DataFrame], LogScore] | None" = None


type Method = Callable[[Question, int], Answer]


def package_method(
    question: Question,
    seed: int,
    *,
    spec: ModelSpec,
    draws: int | None = None,
    cores: int | None = None,
) -> Answer:
    """Answer by a fit of this package: a new run's curve, or that of a run seen part-way.

    Parameters
    ----------
    question : Question
    seed : int
    spec : ModelSpec
    draws : int, optional
        Kept in each chain; as `fit` does unless given.
    cores : int, optional
        Chains sampled at once.
    """
    from bayes_cpt.inference.fitting import fit

    return answer_by(fit(question.study, spec, seed, draws=draws, cores=cores), question, seed)


def stack_method(
    question: Question,
    seed: int,
    *,
    specs: Sequence[ModelSpec],
    weights: Sequence[float],
    draws: int | None = None,
    cores: int | None = None,
) -> Answer:
    """Answer as `package_method` by a stack of laws, each fitted anew, with given weights.

    Parameters
    ----------
    question : Question
    seed : int
    specs : sequence of ModelSpec
    weights : sequence of float
        Of each; they add up to 1.
    draws, cores
        As in `package_method`.
    """
    from bayes_cpt.inference.fitting import fit
    from bayes_cpt.inference.stacked import stack

    laws = {spec.name: fit(question.study, spec, seed, draws=draws, cores=cores) for spec in specs}
    shares = {spec.name: weight for spec, weight in zip(specs, weights, strict=True)}
    return answer_by(stack(laws, shares, seed), question, seed)


def answer_by(posterior: "Posterior", question: Question, seed: int) -> Answer:
    """Answer by a posterior: a new run's curve, or that of a run seen part-way.

    Parameters
    ----------
    posterior : Posterior
        Of the question's study.
    question : Question
    seed : int
        Of the forecast.
    """
    from bayes_cpt.forecast.predict import draws_at
    from bayes_cpt.validate.comparison.log_scores import log_score

    kind = "known_run" if question.known else "new_run"
    points = question.points
    forecast = posterior.predict(question.plan, kind=kind, at=points, seed=seed)
    attempts = int(posterior.tree.attrs["attempts"])
    scored = partial(log_score, posterior, question)
    return Answer(draws_at(forecast["loss"], points), posterior.problems, attempts, scored)


def paper_answer(question: Question, seed: int) -> Answer:
    """Answer by the paper's method (see `bayes_cpt.validate.paper_method`).

    Parameters
    ----------
    question : Question
    seed : int
    """
    from bayes_cpt.validate import paper_method

    draws = paper_method.predict(question.study, question.plan, question.points, seed=seed)
    return Answer(draws)


def _final_loss_answer(question: Question, seed: int, *, law: str) -> Answer:
    """Answer by a law of final losses (see `bayes_cpt.validate.final_losses.final_losses`)."""
    from bayes_cpt.validate.final_losses.final_losses import LAWS, predict

    return Answer(predict(LAWS[law], question.study, question.plan, question.points, seed=seed))


FINAL_LOSS_ANSWERS: dict[str, Method] = {
    name: partial(_final_loss_answer, law=name) for name in ("d-cpt", "data-mixing")
}


class _Task(NamedTuple):
    label: str
    method: str
    answer: Method
    fold: Fold
    seed: int
    tables: tuple[str, ...]


class _Outcome(NamedTuple):
    task: str
    tables: "dict[str, pd.DataFrame]"


def score_folds(
    folds: Sequence[Fold],
    methods: Mapping[str, Method],
    seed: int = 0,
    *,
    pool: Pool | None = None,
    records: Records | None = None,
    progress: Progress | None = None,
) -> "tuple[pd.DataFrame, ...]":
    """Let methods answer the questions of folds, and score the answers.

    Parameters
    ----------
    folds : sequence of Fold
    methods : mapping
        By name.
    seed : int
        Each fold draws its own from it and its label.
    pool : Pool, optional
        Where; on all cores of this machine unless given.
    records : Records, optional
        What is done already, with `TABLES` or `MIXTURE_TABLES`; it grows.
    progress : callable, optional
        Called with a stage and the share of it that is done.

    Returns
    -------
    tuple of DataFrame
        The tables of the records, rows in the order of the tasks; `TABLES` unless others are given:
    points : DataFrame
        `bayes_cpt.validate.scores.score_points` of each point, with method, fold, seen, share and ratio.
    refits : DataFrame
        One row per fold and method: trustworthy, problems, attempts (0 without an answer) and seconds.
    """
    kept = records or Records.open(None, {}, TABLES)
    tasks = [
        _Task(
            f"{name}: {fold.label}",
            name,
            method,
            fold,
            task_seed(seed, fold.label),
            tuple(kept.tables),
        )
        for name, method in methods.items()
        for fold in folds
    ]
    wanted = [task.label for task in tasks]
    left = [task for task in tasks if task.label not in kept.done]
    report = progress or (lambda stage, share: None)
    stage = f"refitting, {len(tasks)} times"
    report(stage, 1.0 - len(left) / max(1, len(tasks)))
    for number, outcome in enumerate((pool or Pool()).run(_outcome, left), start=1):
        kept.add(outcome.task, outcome.tables)
        report(stage, 1.0 - (len(left) - number) / len(tasks))
    return tuple(_ordered(table, wanted) for table in kept.tables.values())


def _outcome(task: _Task) -> _Outcome:
    import pandas as pd

    from bayes_cpt.inference.geometry.whitening import SamplingError
    from bayes_cpt.validate.paper_method import BaselineError

    fold = task.fold
    labels = {"method": task.method, "fold": fold.label, "seen": fold.seen}
    began = time.perf_counter()
    tables: dict[str, pd.DataFrame] = {}
    problems: tuple[str, ...]
    attempts = 0
    try:
        answer = task.answer(fold.question, task.seed)
        tables, problems = _scored(fold, answer, task.tables), answer.problems
        attempts = answer.attempts
        for table in tables.values():
            for position, (name, value) in enumerate(labels.items()):
                table.insert(position, name, value)
    except (SamplingError, BaselineError, DrawsError) as error:
        problems = (str(error),)
    refit = labels | {
        "trustworthy": not problems,
        "problems": in_words(problems),
        "attempts": attempts,
        "seconds": round(time.perf_counter() - began, 2),
    }
    return _Outcome(task.label, tables | {"refits": pd.DataFrame([refit])})


def _scored(fold: Fold, answer: Answer, wanted: Sequence[str]) -> "dict[str, pd.DataFrame]":
    """Return the tables of an answer that are wanted."""
    import pandas as pd

    tables = {}
    # Draws that are not finite are refused here, whatever is kept of them.
    scored = score_points(fold.measured, answer.draws)
    if "points" in wanted:
        tables["points"] = scored
    if "quantiles" in wanted:
        levels = np.quantile(answer.draws, (np.arange(LEVELS) + 0.5) / LEVELS, axis=0)
        tables["quantiles"] = pd.DataFrame(levels.T.round(DECIMALS)).rename(columns=level_name)
    if "log_scores" in wanted and answer.log_score is not None:
        tables["log_scores"] = pd.DataFrame([answer.log_score(fold.measured)._asdict()])
    return tables


def level_name(level: int) -> str:
    """Return the column of a quantile.

    Parameters
    ----------
    level : int
        From 0.

    Examples
    --------
    >>> level_name(7)
    'q07'
    """
    return f"q{level:02d}"


def _ordered(table: "pd.DataFrame", tasks: Sequence[str]) -> "pd.DataFrame":
    """Return the rows of some tasks in their order, whatever order they were done in."""
    place = table["task"].map({task: number for number, task in enumerate(tasks)})
    order = place.dropna().sort_values(kind="stable").index
    return table.loc[order].drop(columns="task").reset_index(drop=True)


def score_table(points: "pd.DataFrame") -> "pd.DataFrame":
    """Return `bayes_cpt.validate.scores.summarize` for each share seen and method.

    Parameters
    ----------
    points : DataFrame
        From `score_folds`.

    Returns
    -------
    DataFrame
        Columns seen, run, domain, method and the scores; methods stand together under each run.
    """
    import pandas as pd

    parts = []
    for (seen, method), rows in points.groupby(["seen", "method"], sort=False):
        part = summarize(rows)
        part.insert(2, "method", method)
        part.insert(0, "seen", seen)
        parts.append(part)
    table = pd.concat(parts, ignore_index=True)
    return _together(table, ["seen", "run", "domain"])


def horizon_table(points: "pd.DataFrame") -> "pd.DataFrame":
    """Return scores by horizon: whole runs by the place in the run, tails by how far they reach.

    Parameters
    ----------
    points : DataFrame
        From `score_folds`.

    Returns
    -------
    DataFrame
        Columns axis (share or ratio), domain, method, horizon, runs and the scores.
    """
    import pandas as pd

    keys = ["domain", "method"]
    parts = []
    for axis, rows in (
        ("share", points[points["seen"] == 0]),
        ("ratio", points[points["seen"] > 0]),
    ):
        if len(rows):
            part = by_horizon(rows, axis, keys)
            part.insert(0, "axis", axis)
            parts.append(part)
    return _together(pd.concat(parts, ignore_index=True), ["axis", "horizon", "domain"])


def _together(table: "pd.DataFrame", keys: list[str]) -> "pd.DataFrame":
    """Return rows of the same keys one after the other, in the order in which they first come."""
    labels = list(table[keys].itertuples(index=False, name=None))
    order = {label: place for place, label in enumerate(dict.fromkeys(labels))}
    place = [order[label] for label in labels]
    return table.iloc[np.argsort(place, kind="stable")].reset_index(drop=True)

"""Scores of laws on held-out runs, each run one observation, and of a stack of the laws.

A stack is scored with weights that the other runs give: weights that have seen a run would predict it too
well.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pandas as pd

from bayes_cpt.arrays import Floats
from bayes_cpt.errors import ProblemError
from bayes_cpt.validate.folds import Fold
from bayes_cpt.validate.scores import means_of_runs, score_points

STACK = "stack"
# Draws that a stack is scored by.
DRAWS = 1000
# A log score that fewer draws than this carry is not known well.
FEW_DRAWS = 5.0
# What is scored, by column; of the log score more is better.
LOG_SCORE, CRPS = "log_score", "crps"
# A smaller weight is none: no forecast would have a draw of it.
SMALLEST_WEIGHT = 1e-4
# The least log density beside the best law's of the same observation: its exponential must not be 0.
LEAST_LOG = -690.0
# How often an observation stands in the sum of scores that weights are searched by.
REPEATS = 100


def differences(scores: pd.DataFrame, best: str) -> pd.DataFrame:
    """Return by how much the scores of methods lie above those of the best, with its standard error.

    Scores have a row per observation and a column per method, what is returned a row per method: mean, and
    error (NaN for one observation).

    Examples
    --------
    >>> differences(pd.DataFrame({"one": [0.0, 0.0], "other": [1.0, 3.0]}), "one").loc["other"].to_dict()
    {'mean': 2.0, 'error': 1.0}
    """
    gaps = scores.sub(scores[best], axis=0)
    return pd.DataFrame({"mean": gaps.mean(), "error": gaps.sem()})


def stacking_weights(log_densities: pd.DataFrame) -> pd.Series:
    """Return the weights of the mixture with the largest mean log density, by ArviZ and by model.

    Yao, Vehtari, Simpson and Gelman 2018, doi:10.1214/17-BA1091, section 3. Densities have a row per
    observation, none of which the models were fitted to, and a column per model; -inf where one holds it
    for impossible.

    Examples
    --------
    >>> stacking_weights(pd.DataFrame({"one": [0.0, 0.0], "other": [-3.0, -2.0]})).round(6).to_dict()
    {'one': 1.0, 'other': 0.0}
    """
    from arviz_stats import compare as arviz_compare
    from arviz_stats.utils import ELPDData
    from xarray import DataArray

    # Weights do not depend on the unit of an observation, and densities of whole runs overflow.
    best = log_densities.max(axis="columns")
    if not np.isfinite(best).all():
        raise ValueError("an observation has no finite density under any model")
    relative = log_densities.sub(best, axis="index").clip(lower=LEAST_LOG)
    unknown: dict[str, Any] = dict.fromkeys(("se", "p", "good_k"), math.nan)
    unknown |= {"n_samples": 0, "scale": "log", "warning": False}
    scores = {}
    for model, own in relative.items():
        # ArviZ ends its search where the sum of scores changes by less than 1e-6.
        each = DataArray(np.repeat(own.to_numpy(), REPEATS), dims="observation")
        scores[model] = ELPDData(elpd=own.sum(), n_data_points=each.size, elpd_i=each, **unknown)
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        table = arviz_compare(scores, method="stacking", round_to="none")
    weights = table["weight"].astype(np.float64)[list(scores)]
    kept = weights.where(weights >= SMALLEST_WEIGHT, 0.0)
    return kept / kept.sum()


def mixture_draws(quantiles: Floats, weights: Floats, draws: int) -> Floats:
    """Return draws of mixtures of distributions that are given by their quantiles, shape (draws, points).

    Quantiles, of shape (models, levels, points), are at the middles of equal masses, rising; draws are
    evenly spread over each distribution: at middles of equal masses again.
    """
    from bayes_cpt.inference.posterior import apportioned

    # Hazen's quantiles of a sample are those whose values at the middles of equal masses it is.
    parts = [
        np.quantile(own, (np.arange(count) + 0.5) / max(count, 1), axis=0, method="hazen")
        for own, count in zip(quantiles, apportioned(np.asarray(weights), draws), strict=True)
    ]
    return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class LawScores:
    """Scores of laws and their stack on held-out runs."""

    laws: tuple[str, ...]
    # `bayes_cpt.validate.scores.score_points` of every point, with method (a law, or ``stack``), fold,
    # seen, share and ratio. All are scored by draws from quantiles, so that a stack of one law scores as
    # that law does.
    points: pd.DataFrame = field(repr=False)
    # One row per fold: fold, seen, run, and the log score of each law and the stack
    log_scores: pd.DataFrame
    # One row per fold and law, as from `bayes_cpt.validate.held_out.score_folds`
    refits: pd.DataFrame
    weights: dict[str, float]  # of the stack, from all runs
    fold_weights: pd.DataFrame  # of the stack as it was scored: one row per run, from all others
    effective_draws: float  # the least number of draws behind a log score of a whole run

    @classmethod
    def of(
        cls,
        folds: Sequence[Fold],
        quantiles: pd.DataFrame,
        log_scores: pd.DataFrame,
        refits: pd.DataFrame,
        laws: tuple[str, ...],
    ) -> Self:
        """Return the scores of laws from what `score_folds` left with its `MIXTURE_TABLES`."""
        from scipy.special import logsumexp

        labels = [fold.label for fold in folds]
        scores = log_scores.pivot_table(index="fold", columns="method", values="value")
        scores = scores.reindex(index=labels, columns=list(laws)).dropna()
        kept = [fold for fold in folds if fold.label in scores.index]
        whole = [fold.label for fold in kept if fold.seen == 0]
        if len(whole) < 2:
            _fail(refits, laws)
        weights = stacking_weights(scores.loc[whole])
        others = pd.DataFrame(
            {left: stacking_weights(scores.loc[whole].drop(index=left)) for left in whole}
        ).T
        rows, points = [], []
        for fold in kept:
            run = str(fold.measured["run"].iloc[0])
            weights_here = others.loc[run] if run in others.index else weights
            own = scores.loc[fold.label]
            row = {"fold": fold.label, "seen": fold.seen, "run": run, **own}
            rows.append(row | {STACK: float(logsumexp(own, b=weights_here))})
            mixtures = {law: {law: 1.0} for law in laws} | {STACK: weights_here.to_dict()}
            points.append(_scored_mixture(fold, quantiles, mixtures))
        of_whole = log_scores["fold"].isin(whole)
        return cls(
            laws=laws,
            points=pd.concat(points, ignore_index=True),
            log_scores=pd.DataFrame(rows),
            refits=refits,
            weights=weights.to_dict(),
            fold_weights=others,
            effective_draws=float(log_scores.loc[of_whole, "effective_draws"].min()),
        )

    @property
    def methods(self) -> tuple[str, ...]:
        """The laws and the stack."""
        return (*self.laws, STACK)

    @property
    def problems(self) -> tuple[str, ...]:
        """Which refits fail their diagnostics, the law named first."""
        bad = self.refits[~self.refits["trustworthy"].astype(bool)]
        fold = bad["fold"].astype(str)
        left_out = fold.where(bad["seen"] > 0, "without " + fold)
        return tuple(bad["method"] + ", " + left_out + ": " + bad["problems"])

    def of_runs(self, score: str, seen: float = 0.0) -> pd.DataFrame:
        """Return ``log_score``, or a mean column of `points` such as ``crps``, of every method, by run."""
        if score == LOG_SCORE:
            rows = self.log_scores[self.log_scores["seen"] == seen]
            return rows.set_index("run")[list(self.methods)]
        points = self.points[self.points["seen"] == seen]
        means = points.groupby(["fold", "run", "method"], sort=False)[score].mean()
        return means.unstack("method").droplevel("fold")[list(self.methods)]

    @property
    def best(self) -> str:
        """The law with the largest log score of whole runs."""
        return str(self.of_runs(LOG_SCORE)[list(self.laws)].mean().idxmax())

    def table(self) -> pd.DataFrame:
        """Return one row per share seen and method.

        Columns are method, seen, weight (in the stack that is delivered); log_score (nats per run, mean
        over runs), and for it and crps the _difference to the best law and its _error; and means over runs
        of all scores (`bayes_cpt.validate.scores.means_of_runs`).
        """
        parts = []
        for seen in sorted(self.log_scores["seen"].unique()):
            columns: dict[str, Any] = {"seen": seen, "weight": pd.Series(self.weights)}
            columns[LOG_SCORE] = self.of_runs(LOG_SCORE, seen).mean()
            for score in (LOG_SCORE, CRPS):
                gap = differences(self.of_runs(score, seen), self.best)
                columns |= {f"{score}_difference": gap["mean"], f"{score}_error": gap["error"]}
            parts.append(pd.DataFrame(columns).loc[list(self.methods)])
        means = means_of_runs(self.points, ["seen", "method"])
        table = pd.concat(parts).rename_axis("method").reset_index()
        return table.merge(means, on=["seen", "method"])


def _scored_mixture(
    fold: Fold, quantiles: pd.DataFrame, mixtures: Mapping[str, Mapping[str, float]]
) -> pd.DataFrame:
    """Return the scores of mixtures of methods at a fold's points."""
    of_fold = quantiles[quantiles["fold"] == fold.label]
    values = {
        str(method): rows.filter(regex=r"^q\d+$").to_numpy().T
        for method, rows in of_fold.groupby("method")
    }
    tables = []
    for name, weights in mixtures.items():
        parts = np.stack([values[method] for method in weights])
        drawn = mixture_draws(parts, np.array(list(weights.values())), DRAWS)
        scored = score_points(fold.measured, drawn)
        tables.append(scored.assign(method=name, fold=fold.label, seen=fold.seen))
    return pd.concat(tables, ignore_index=True)


def _fail(refits: pd.DataFrame, laws: Sequence[str]) -> None:
    """Say which law has no forecasts."""
    answered = refits[refits["attempts"] > 0].groupby("method").size()
    counts = {law: int(answered.get(law, 0)) for law in laws}
    worst = min(counts, key=lambda law: counts[law])
    problem = f"only {counts[worst]} of its refits gave a forecast, too few to compare it by"
    fix = "leave it out of the comparison, or look at a fit of it alone: bayes-cpt fit --model"
    raise ProblemError.at(f"model {worst}", problem, fix)

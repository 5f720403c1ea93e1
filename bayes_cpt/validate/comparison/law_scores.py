"""Scores of laws on what no fit saw, and of the stack of them, each run one observation.

The stack is scored with weights that the other runs give: weights that have seen a run would predict it too
well.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np

from bayes_cpt.errors import BayesCPTError, Problem
from bayes_cpt.validate.comparison.stacking import (
    Difference,
    difference,
    held_out_weights,
    mixture_draws,
    mixture_log_density,
    stacking_weights,
)
from bayes_cpt.validate.folds import Fold
from bayes_cpt.validate.held_out import LEVELS, level_name
from bayes_cpt.validate.scores import score_points

if TYPE_CHECKING:
    import pandas as pd


STACK = "stack"
# Draws that a stack is scored by.
DRAWS = 1000
# Fewer draws than this carry a log score that is not known well.
FEW_DRAWS = 5.0
# What is scored, by column; of the log score more is better.
LOG_SCORE, CRPS = "log_score", "crps"


class ComparisonError(BayesCPTError):
    """Laws that cannot be compared, and why."""

    def __init__(self, problem: Problem) -> None:
        self.problems = (problem,)
        super().__init__(str(problem))

    def __reduce__(self) -> tuple[type["ComparisonError"], tuple[Problem]]:
        """Pickle by the problem: joblib workers send errors back to their caller."""
        return type(self), self.problems


@dataclass(frozen=True, eq=False)
class LawScores:
    """Scores of laws and their stack.

    Parameters
    ----------
    laws : tuple of str
    points : DataFrame
        `bayes_cpt.validate.scores.score_points` of every point, with method (a law, or ``stack``), fold,
        seen, share and ratio. All are scored by draws from quantiles, so that a stack of one law scores
        as that law does.
    log_scores : DataFrame
        One row per fold: fold, seen, run, and the log score of each law and the stack.
    refits : DataFrame
        One row per fold and law, as from `bayes_cpt.validate.held_out.score_folds`.
    weights : dict of str to float
        Of the stack, from all runs.
    fold_weights : DataFrame
        Of the stack as it was scored: one row per run, from all others.
    effective_draws : float
        The least number of draws behind a log score of a whole run.
    """

    laws: tuple[str, ...]
    points: "pd.DataFrame" = field(repr=False)
    log_scores: "pd.DataFrame"
    refits: "pd.DataFrame"
    weights: dict[str, float]
    fold_weights: "pd.DataFrame"
    effective_draws: float

    @classmethod
    def of(
        cls,
        folds: Sequence[Fold],
        quantiles: "pd.DataFrame",
        log_scores: "pd.DataFrame",
        refits: "pd.DataFrame",
        laws: tuple[str, ...],
    ) -> Self:
        """Return the scores of laws from what their refits left.

        Parameters
        ----------
        folds : sequence of Fold
        quantiles, log_scores, refits : DataFrame
            Of `bayes_cpt.validate.held_out.score_folds` with its `MIXTURE_TABLES`.
        laws : tuple of str

        Raises
        ------
        ComparisonError
            If fewer than two whole runs have a forecast by every law.
        """
        import pandas as pd

        labels = [fold.label for fold in folds]
        scores = log_scores.pivot_table(index="fold", columns="method", values="value")
        scores = scores.reindex(index=labels, columns=list(laws)).dropna()
        kept = [fold for fold in folds if fold.label in scores.index]
        whole = [fold.label for fold in kept if fold.seen == 0]
        if len(whole) < 2:
            _fail(refits, laws)
        values = scores.loc[whole].to_numpy()
        weights = dict(zip(laws, stacking_weights(values).tolist(), strict=True))
        others = pd.DataFrame(held_out_weights(values), index=whole, columns=list(laws))
        rows, points = [], []
        for fold in kept:
            run = str(fold.measured["run"].iloc[0])
            weights_here = others.loc[run] if run in others.index else pd.Series(weights)
            shares, log_densities = weights_here.to_numpy(), scores.loc[fold.label].to_numpy()
            value = mixture_log_density(log_densities[None], shares)[0]
            row = {"fold": fold.label, "seen": fold.seen, "run": run}
            rows.append(row | dict(zip(laws, log_densities, strict=True)) | {STACK: value})
            alone = {law: {law: 1.0} for law in laws}
            stacked = {STACK: dict(zip(laws, shares, strict=True))}
            points.append(scored_mixture(fold, quantiles, alone | stacked))
        of_whole = log_scores["fold"].isin(whole)
        return cls(
            laws=laws,
            points=pd.concat(points, ignore_index=True),
            log_scores=pd.DataFrame(rows),
            refits=refits,
            weights=weights,
            fold_weights=others,
            effective_draws=float(log_scores.loc[of_whole, "effective_draws"].min()),
        )

    @property
    def methods(self) -> tuple[str, ...]:
        """The laws and the stack."""
        return (*self.laws, STACK)

    @property
    def problems(self) -> tuple[str, ...]:
        """Which refits fall short, the law named first."""
        bad = self.refits[~self.refits["trustworthy"].astype(bool)]
        return tuple(
            f"{row['method']}, without {row['fold']}: {row['problems']}"
            if row["seen"] == 0
            else f"{row['method']}, {row['fold']}: {row['problems']}"
            for row in bad.to_dict("records")
        )

    def of_runs(self, score: str, seen: float = 0.0) -> "pd.DataFrame":
        """Return a score of every method, one row per run.

        Parameters
        ----------
        score : str
            ``log_score``, or a column of `points`, such as ``crps`` and ``covered_90``: its mean over the
            run's points.
        seen : float
            Share of the run's steps that the fit saw.
        """
        if score == LOG_SCORE:
            rows = self.log_scores[self.log_scores["seen"] == seen]
            return rows.set_index("run")[list(self.methods)]
        points = self.points[self.points["seen"] == seen]
        means = points.groupby(["fold", "run", "method"], sort=False)[score].mean()
        return means.unstack("method").droplevel("fold")[list(self.methods)]

    @property
    def seen(self) -> list[float]:
        """Shares of the runs' steps that fits saw; 0 for whole runs left out."""
        return sorted(self.log_scores["seen"].unique().tolist())

    @property
    def best(self) -> str:
        """The law with the largest log score of whole runs."""
        return str(self.of_runs(LOG_SCORE)[list(self.laws)].mean().idxmax())

    def against_best(self, method: str, score: str, seen: float = 0.0) -> Difference:
        """Return by how much a method's score is above that of the best law, per run.

        Parameters
        ----------
        method, score, seen
            As for `of_runs`.
        """
        values = self.of_runs(score, seen)
        return difference(values[method].to_numpy(), values[self.best].to_numpy())

    def table(self) -> "pd.DataFrame":
        """Return one row per share seen and method.

        Returns
        -------
        DataFrame
            Columns seen, method, weight (in the stack that is delivered), runs; log_score and crps (nats
            per run, nats/token; means over runs), each with _difference to the best law and its _error;
            coverage_50, coverage_90 and coverage_90_error (shares); width_90.
        """
        import pandas as pd

        rows = []
        for seen in self.seen:
            tables = {
                name: self.of_runs(name, seen)
                for name in (LOG_SCORE, CRPS, "covered_50", "covered_90", "width_90")
            }
            for method in self.methods:
                row = {
                    "seen": seen,
                    "method": method,
                    "weight": self.weights.get(method),
                    "runs": len(tables[CRPS]),
                }
                for score in (LOG_SCORE, CRPS):
                    gap = self.against_best(method, score, seen)
                    row |= {
                        score: tables[score][method].mean(),
                        f"{score}_difference": gap.mean,
                        f"{score}_error": gap.error,
                    }
                rows.append(
                    row
                    | {
                        "coverage_50": tables["covered_50"][method].mean(),
                        "coverage_90": tables["covered_90"][method].mean(),
                        "coverage_90_error": tables["covered_90"][method].sem(),
                        "width_90": tables["width_90"][method].mean(),
                    }
                )
        return pd.DataFrame(rows)


def scored_mixture(
    fold: Fold, quantiles: "pd.DataFrame", mixtures: Mapping[str, Mapping[str, float]]
) -> "pd.DataFrame":
    """Return the scores of methods and mixtures of them at the points of a fold.

    Parameters
    ----------
    fold : Fold
    quantiles : DataFrame
        Of the methods' forecasts, as `bayes_cpt.validate.held_out.score_folds` leaves them.
    mixtures : mapping of str to mapping of str to float
        By name, the weight of each method. One without a forecast of the fold is left out.

    Returns
    -------
    DataFrame
        `bayes_cpt.validate.scores.score_points`, with method, fold and seen.
    """
    import pandas as pd

    of_fold = quantiles[quantiles["fold"] == fold.label]
    columns = [level_name(level) for level in range(LEVELS)]
    values = {str(method): rows[columns].to_numpy().T for method, rows in of_fold.groupby("method")}
    tables = []
    for name, weights in mixtures.items():
        if not values.keys() >= weights.keys():
            continue
        parts = np.stack([values[method] for method in weights])
        drawn = mixture_draws(parts, np.array(list(weights.values())), DRAWS)
        scored = score_points(fold.measured, drawn)
        tables.append(scored.assign(method=name, fold=fold.label, seen=fold.seen))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def _fail(refits: "pd.DataFrame", laws: Sequence[str]) -> None:
    """Say which law has no forecasts."""
    answered = refits[refits["attempts"] > 0].groupby("method").size()
    counts = {law: int(answered.get(law, 0)) for law in laws}
    worst = min(counts, key=lambda law: counts[law])
    raise ComparisonError(
        Problem(
            f"model {worst}",
            f"only {counts[worst]} of its refits gave a forecast, too few to compare it by",
            "leave it out of the comparison, or look at a fit of it alone: bayes-cpt fit --model",
        )
    )

"""Laws compared, in plain words: which to use, how sure that is, and what would change it."""

from typing import Any

import pandas as pd

from bayes_cpt.report.words import Words, render
from bayes_cpt.validate.comparison import Comparison
from bayes_cpt.validate.law_scores import FEW_DRAWS, LOG_SCORE, STACK, LawScores, differences

# Standard errors within which two scores do not differ.
ERRORS = 2.0
# Weight from which a stack is as good as its heaviest law, and which deserves to be named.
ALONE, NAMED = 0.99, 0.005


def comparison_words(comparison: Comparison, rows: pd.DataFrame | None = None) -> Words:
    """Return which law to use, how sure, and what would change it; `Comparison.table` where at hand."""
    scores, loo = comparison.scores, comparison.curve_loo
    facts: dict[str, Any] = {
        "scored": scores is not None,
        "stacked": False,
        "reason": loo if isinstance(loo, str) else "",
        "doubtful": {},
        "problems": comparison.problems,
    }
    if not isinstance(loo, str):
        gaps = loo.differences().drop(loo.best)
        facts |= {"loo_best": loo.best, "loo": gaps.to_dict("index"), "best": loo.best}
        facts |= {"doubtful": {law: count for law, count in loo.doubtful.items() if count}}
        facts |= _beside(gaps, gaps["mean"].abs().idxmin())
    return render("compare.txt", facts if scores is None else facts | _with_refits(scores, rows))


def _beside(gaps: pd.DataFrame, nearest: Any) -> dict[str, Any]:
    """Return which law comes nearest to the best, and which do not differ from it detectably."""
    apart = gaps["mean"].abs() > ERRORS * gaps["error"]
    return {"nearest": nearest, "lead": gaps.loc[nearest], "level": gaps.index[~apart].tolist()}


def _with_refits(scores: LawScores, table: pd.DataFrame | None) -> dict[str, Any]:
    best, others = scores.best, [law for law in scores.laws if law != scores.best]
    tables = {
        seen: rows.set_index("method", drop=False).to_dict("index")
        for seen, rows in (scores.table() if table is None else table).groupby("seen")
    }
    gaps = differences(scores.of_runs(LOG_SCORE), best)
    of_laws, stack = gaps.loc[others], gaps.loc[STACK]
    weights = sorted(scores.weights.items(), key=lambda pair: -pair[1])
    return {
        "best": best,
        "others": others,
        "whole": tables.pop(0.0),
        "tails": tables,
        # The stack is to be used where no law has all the weight and it scores above the best.
        "stacked": weights[0][1] < ALONE and stack["mean"] > 0,
        "alone": scores.weights[best] >= ALONE,
        "weights": {law: weight for law, weight in weights if weight >= NAMED},
        "no_worse": stack["mean"] >= -stack["error"],
        "few": f"{scores.effective_draws:.0f}" if scores.effective_draws < FEW_DRAWS else "",
        **_beside(of_laws, of_laws["mean"].idxmax()),
    }

"""Laws compared, in plain words: which to use, how sure that is, and what would change it."""

from typing import TYPE_CHECKING, Any

from bayes_cpt.report.numbers import fixed, listed, percent
from bayes_cpt.report.rendering import Words, render

if TYPE_CHECKING:
    from bayes_cpt.validate.comparison import Comparison
    from bayes_cpt.validate.law_scores import Difference, LastLosses, LawScores

# Standard errors within which two scores are not told apart.
ERRORS = 2.0
# Weight from which a stack is as good as its heaviest law, and which deserves to be named.
ALONE, NAMED = 0.99, 0.005
# Problems that are named one by one.
MOST = 4


def words(comparison: "Comparison") -> Words:
    """Return what a comparison of laws comes to.

    Parameters
    ----------
    comparison : Comparison
    """
    facts: dict[str, Any] = {"scored": comparison.scores is not None, "stacked": False}
    facts["last"] = None if comparison.last_losses is None else _last(comparison.last_losses)
    facts |= _first_answer(comparison)
    problems = list(comparison.problems)
    facts["problems"] = [listed(problems, MOST)] if problems else []
    if comparison.scores is not None:
        facts |= _of_scores(comparison.scores)
    return render("comparison.txt", facts)


def _uses_stack(scores: "LawScores") -> bool:
    """Return whether the stack is what to use: no law has all the weight, and it scores above the best."""
    from bayes_cpt.validate.law_scores import LOG_SCORE, STACK

    alone = max(scores.weights.values()) >= ALONE
    return not alone and scores.against_best(STACK, LOG_SCORE).mean > 0


def _last(last: "LastLosses") -> dict[str, Any]:
    """Return how laws of final losses do beside the best law, at the ends of runs."""
    table = last.table().set_index("method")
    told = []
    for name in last.baselines:
        row = table.loc[name]
        size, error = (
            fixed(abs(row[key]), row["crps_error"]) for key in ("crps_difference", "crps_error")
        )
        way = "lower" if row["crps_difference"] < 0 else "higher"
        told.append(
            f"{name}'s CRPS is {size} ± {error} {way}, "
            f"and its 90 % bands hold {percent(row['coverage_90'])}"
        )
    best = table.loc[last.best]
    return {
        "runs": last.runs,
        "best": last.best,
        "crps": fixed(best["crps"], best["crps"]),
        "covered": percent(best["coverage_90"]),
        "told": told,
    }


def _first_answer(comparison: "Comparison") -> dict[str, Any]:
    loo = comparison.curve_loo
    if isinstance(loo, str):
        return {"loo": None, "reason": loo, "doubtful": []}
    gaps = {law: gap for law, gap in loo.differences().items() if law != loo.best}
    told = [f"{law} by {_size(gap)} nats per run" for law, gap in gaps.items()]
    nearest = min(gaps, key=lambda law: abs(gaps[law].mean))
    return {
        "loo": told,
        "loo_best": loo.best,
        "best": loo.best,
        "told": told,
        "nearest": f"it leads {nearest}, the nearest, by {_size(gaps[nearest])} nats per run",
        "level": [law for law, gap in gaps.items() if not _is_told(gap)],
        "doubtful": [f"{n} curves of {law}" for law, n in loo.doubtful.items() if n],
    }


def _of_scores(scores: "LawScores") -> dict[str, Any]:
    from bayes_cpt.validate.law_scores import FEW_DRAWS, LOG_SCORE, STACK

    others = [law for law in scores.laws if law != scores.best]
    gaps = {law: scores.against_best(law, LOG_SCORE) for law in others}
    table = scores.table()
    whole = table[table["seen"] == 0].set_index("method")
    shares = sorted(scores.weights.items(), key=lambda pair: -pair[1])
    stack = scores.against_best(STACK, LOG_SCORE)
    nearest = max(gaps, key=lambda law: gaps[law].mean)
    few = scores.effective_draws < FEW_DRAWS
    return {
        "best": scores.best,
        "stacked": _uses_stack(scores),
        "alone": scores.best if scores.weights[scores.best] >= ALONE else "",
        "level": [law for law, gap in gaps.items() if not _is_told(gap)],
        "told": [_told(scores, law, 0.0) for law in others],
        "nearest": f"it leads {nearest}, the nearest, by {_size(gaps[nearest])} nats per run in log score",
        "runs": int(whole["runs"].iloc[0]),
        "shares": [f"{percent(weight)} {law}" for law, weight in shares if weight >= NAMED],
        "gain": _told(scores, STACK, 0.0),
        "no_worse": stack.mean >= -stack.error,
        "coverage": [
            f"{100 * row['coverage_90']:.0f} ± {percent(row['coverage_90_error'])} ({method})"
            for method, row in whole.iterrows()
        ],
        "tails": [_tail(scores, seen) for seen in scores.seen if seen > 0],
        "few": f"{scores.effective_draws:.0f}" if few else "",
    }


def _tail(scores: "LawScores", seen: float) -> dict[str, Any]:
    from bayes_cpt.validate.law_scores import LOG_SCORE

    others = [law for law in scores.laws if law != scores.best]
    return {
        "seen": percent(seen),
        "best": str(scores.of_runs(LOG_SCORE, seen)[list(scores.laws)].mean().idxmax()),
        "told": [_told(scores, law, seen) for law in others],
    }


def _told(scores: "LawScores", method: str, seen: float) -> str:
    """Return how a law or the stack scores beside the best law."""
    from bayes_cpt.validate.law_scores import CRPS, LOG_SCORE

    gap = scores.against_best(method, LOG_SCORE, seen)
    crps = scores.against_best(method, CRPS, seen)
    place = "above" if gap.mean > 0 else "below"
    way = "lower" if crps.mean < 0 else "higher"
    return (
        f"{method} lies {_size(gap)} nats per run {place} {scores.best} in log score, "
        f"its CRPS is {_size(crps)} {way}"
    )


def _is_told(gap: "Difference") -> bool:
    return abs(gap.mean) > ERRORS * gap.error


def _size(gap: "Difference") -> str:
    return f"{fixed(abs(gap.mean), gap.error)} ± {fixed(gap.error, gap.error)}"

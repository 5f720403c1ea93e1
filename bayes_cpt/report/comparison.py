"""Laws compared, in plain words: which to use, how sure that is, and what would change it."""

from typing import TYPE_CHECKING, Any

from bayes_cpt.report.numbers import fixed, listed, percent
from bayes_cpt.report.words import Words, render

if TYPE_CHECKING:
    from bayes_cpt.validate.comparison import Comparison
    from bayes_cpt.validate.law_scores import Difference, LastLosses, LawScores

# Standard errors within which two scores do not differ.
ERRORS = 2.0
# Weight from which a stack is as good as its heaviest law, and which deserves to be named.
ALONE, NAMED = 0.99, 0.005
# Problems that are named one by one.
MOST = 4


def comparison_words(comparison: "Comparison") -> Words:
    """Return which law to use, how sure that is, and what would change it."""
    scores, last = comparison.scores, comparison.last_losses
    facts: dict[str, Any] = {
        "scored": scores is not None,
        "stacked": False,
        "last": None if last is None else _last(last),
        "problems": [listed(comparison.problems, MOST)] if comparison.problems else [],
        **_without_refits(comparison),
    }
    if scores is not None:
        facts |= _with_refits(scores)
    return render("compare.txt", facts)


def _last(last: "LastLosses") -> dict[str, Any]:
    """Return how laws of final losses do beside the best law, at the ends of runs."""
    table = last.table().set_index("method")
    gaps = []
    for name in last.baselines:
        row = table.loc[name]
        size, error = (
            fixed(abs(row[key]), row["crps_error"]) for key in ("crps_difference", "crps_error")
        )
        way = "lower" if row["crps_difference"] < 0 else "higher"
        gaps.append(
            f"{name}'s CRPS is {size} ± {error} {way}, "
            f"and its 90 % bands hold {percent(row['coverage_90'])}"
        )
    best = table.loc[last.best]
    return {
        "runs": last.runs,
        "best": last.best,
        "crps": fixed(best["crps"], best["crps"]),
        "covered": percent(best["coverage_90"]),
        "gaps": gaps,
    }


def _without_refits(comparison: "Comparison") -> dict[str, Any]:
    loo = comparison.curve_loo
    if isinstance(loo, str):
        return {"loo": None, "reason": loo, "doubtful": []}
    gaps = {law: gap for law, gap in loo.differences().items() if law != loo.best}
    nearest = min(gaps, key=lambda law: abs(gaps[law].mean))
    return {
        "loo": [f"{law} by {_size(gap)} nats per run" for law, gap in gaps.items()],
        "loo_best": loo.best,
        "best": loo.best,
        "nearest": f"it leads {nearest}, the nearest, by {_size(gaps[nearest])} nats per run",
        "level": [law for law, gap in gaps.items() if not _differs(gap)],
        "doubtful": [f"{n} curves of {law}" for law, n in loo.doubtful.items() if n],
    }


def _with_refits(scores: "LawScores") -> dict[str, Any]:
    from bayes_cpt.validate.law_scores import FEW_DRAWS, LOG_SCORE, STACK

    others = [law for law in scores.laws if law != scores.best]
    gaps = {law: scores.against_best(law, LOG_SCORE) for law in others}
    table = scores.table()
    whole = table[table["seen"] == 0].set_index("method")
    shares = sorted(scores.weights.items(), key=lambda pair: -pair[1])
    stack = scores.against_best(STACK, LOG_SCORE)
    nearest = max(gaps, key=lambda law: gaps[law].mean)
    alone = scores.weights[scores.best] >= ALONE
    return {
        "best": scores.best,
        # The stack is to be used where no law has all the weight and it scores above the best.
        "stacked": max(scores.weights.values()) < ALONE and stack.mean > 0,
        "alone": scores.best if alone else "",
        "level": [law for law, gap in gaps.items() if not _differs(gap)],
        "gaps": [_gap(scores, law, 0.0) for law in others],
        "nearest": f"it leads {nearest}, the nearest, by {_size(gaps[nearest])} nats per run in log score",
        "runs": int(whole["runs"].iloc[0]),
        "shares": [f"{percent(weight)} {law}" for law, weight in shares if weight >= NAMED],
        "gain": _gap(scores, STACK, 0.0),
        "no_worse": stack.mean >= -stack.error,
        "coverage": [
            f"{100 * row['coverage_90']:.0f} ± {percent(row['coverage_90_error'])} ({method})"
            for method, row in whole.iterrows()
        ],
        "tails": [
            {
                "seen": percent(seen),
                "best": str(scores.of_runs(LOG_SCORE, seen)[list(scores.laws)].mean().idxmax()),
                "gaps": [_gap(scores, law, seen) for law in others],
            }
            for seen in scores.seen
            if seen > 0
        ],
        "few": f"{scores.effective_draws:.0f}" if scores.effective_draws < FEW_DRAWS else "",
    }


def _gap(scores: "LawScores", method: str, seen: float) -> str:
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


def _differs(gap: "Difference") -> bool:
    return abs(gap.mean) > ERRORS * gap.error


def _size(gap: "Difference") -> str:
    return f"{fixed(abs(gap.mean), gap.error)} ± {fixed(gap.error, gap.error)}"

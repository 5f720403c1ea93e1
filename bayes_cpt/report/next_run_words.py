"""The next run in plain words: which, what it would change, whether it pays, and what it would tell."""

from typing import TYPE_CHECKING

import numpy as np

from bayes_cpt.forecast.derived import MEANINGS
from bayes_cpt.report.decision_words import QUANTITIES, configuration
from bayes_cpt.report.landmark_words import chance

if TYPE_CHECKING:
    from bayes_cpt.decisions.next_run.run_values import RunValues
    from bayes_cpt.study.runs import Run

# Monte Carlo errors within which two numbers are not told apart.
ERRORS = 2.0
# Runs that are named one by one, and shares of variance that are worth a word.
NAMED, TOLD = 4, 0.1


def advise(found: "RunValues", interval: float = 0.9) -> list[str]:
    """Return what the values of some runs come to, one paragraph per question.

    Parameters
    ----------
    found : RunValues
    interval : float
        Mass of the intervals in brackets.
    """
    parts = [
        _which(found),
        _change(found, interval),
        _worth(found),
        _others(found),
        _information(found),
        _cautions(found),
    ]
    return [paragraph for paragraph in parts if paragraph]


def described(run: "Run") -> str:
    """Return a short run in words."""
    rates = run.schedule
    course = (
        f"at up to {rates.peak:.3g}"
        if rates.final >= 0.95 * rates.peak
        else f"from {rates.peak:.3g} down to {rates.final:.2g}"
    )
    origin = (
        f" from {run.base} with {100 * (run.replay or 0.0):.3g} % general data" if run.base else ""
    )
    return f"{run.schedule.steps} steps{origin}, {course}"


def _which(found: "RunValues") -> str:
    name = found.order[0]
    run, value = found.affordable.plan.run(name), found.values[name]
    perfect, error = found.perfect
    share = f": the run brings {_percent(value.value / perfect)} of that" if perfect > 0 else ""
    return (
        f"Next run: {name}, {described(run)}, for {found.affordable.cost(run):g} steps. Choosing with its "
        f"curves at hand lowers the objective by {value.value:.5f} ± {value.error:.5f} nats on average. To "
        f"know the law exactly would lower it by {perfect:.5f} ± {error:.5f}{share}."
    )


def _change(found: "RunValues", interval: float) -> str:
    name = found.order[0]
    now, moved = found.candidates.take(slice(found.now, found.now + 1)), found.changes(name)
    text = (
        f"What it would change: as things stand the choice is {configuration(now, 0)}. With probability "
        f"{chance(moved)} the run makes it another one, well apart"
    )
    parts = []
    for quantity in found.space.searched:
        after, before = found.after(name, quantity), now.column(quantity)[0]
        if not np.issubdtype(after.dtype, np.number):
            other = float(np.mean(after != before))
            if other >= 0.01:
                parts.append(f"another {quantity.replace('_', ' ')} than {before}: {chance(other)}")
            continue
        lower, upper = np.quantile(after, [0.5 - interval / 2, 0.5 + interval / 2])
        if upper > lower:
            _, what, unit = QUANTITIES.get(quantity, ("", quantity, ""))
            parts.append(f"{what} {lower:.3g} to {upper:.3g}{unit} (now {before:.3g})")
    if not parts:
        return f"{text}; no quantity would move."
    return f"{text}. After it, in {100 * interval:g} % of the outcomes: {'; '.join(parts)}."


def _worth(found: "RunValues") -> str:
    name = found.order[0]
    value, hurdle = found.values[name], found.hurdle(name)
    cost = found.affordable.cost(found.affordable.plan.run(name))
    if found.price(name):
        why = f"the objective charges {hurdle:.5f} nats for it"
    else:
        why = (
            f"the same {cost:g} steps spent on the run that is chosen would lower its loss by "
            f"{hurdle:.5f} nats"
        )
    margin, error = value.value - hurdle, ERRORS * value.error
    if margin > error:
        verdict = "Yes"
    elif margin < -error:
        verdict = "No"
        if found.perfect[0] < hurdle:
            why += (
                ", and no run of that cost can be worth as much: the choice is settled well enough"
            )
    else:
        verdict = "These draws cannot tell, use more"
    return f"Is it worth its cost? {verdict}: {why}."


def _others(found: "RunValues") -> str:
    name = found.order[0]
    others = found.as_good(name, ERRORS)
    if len(found.runs) == 1:
        return ""
    if not others:
        return f"Other runs: none of the {len(found.runs) - 1} is worth as much for its cost."
    shown = ", ".join(others[:NAMED])
    more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
    return f"Other runs: within Monte Carlo error as much for their cost are worth {shown}{more}."


def _information(found: "RunValues") -> str:
    """Return which run tells most about each effect, or about each quantity where few are asked about."""
    table = found.information_table()
    effects = table["quantity"].isin(list(MEANINGS))
    if effects.any() and not effects.all():
        table = table[effects]
    best = table.loc[table.groupby(["quantity", "domain"])["per_1000_steps"].idxmax()]
    least = np.maximum(TOLD, ERRORS * best["error"])
    best = best[best["variance"] >= least].sort_values("variance", ascending=False)
    if best.empty:
        return "What the runs would tell: hardly anything that the study does not tell already."
    parts = []
    for name, rows in best.groupby("run", sort=False):
        what = [
            f"{row['quantity'].replace('_', ' ')} on {row['domain']} ({_percent(row['variance'])})"
            for row in rows.to_dict("records")
        ]
        parts.append(f"{name} about {', '.join(what)}")
    return (
        "What the runs would tell, for their cost, with the share of its variance that is expected to go: "
        f"most {'; '.join(parts)}."
    )


def _cautions(found: "RunValues") -> str:
    notes = ["values are those of a rule that could be followed, so that they are rather too low"]
    outside = found.outside[found.order[0]]
    if outside:
        notes.append(f"{found.order[0]} extrapolates: {outside}")
    if found.valuation.objective.constraints:
        notes.append("what breaks a constraint now is taken to break it after the run as well")
    return f"Mind: {'; '.join(notes)}."


def _percent(share: float) -> str:
    return f"{100 * max(share, 0.0):.0f} %"

"""The next run in plain words: which, what it would change, whether it pays, and what it would tell."""

from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_cpt.forecast.derived import MEANINGS
from bayes_cpt.report.configurations import (
    QUANTITIES,
    configuration,
    in_short,
    quantity_text,
    short_run,
)
from bayes_cpt.report.numbers import percent, with_error
from bayes_cpt.report.rendering import Words, render

if TYPE_CHECKING:
    from bayes_cpt.decisions.next_run import RunValues

# Monte Carlo errors within which two numbers are not told apart.
ERRORS = 2.0
# Runs that are named one by one, and shares of variance that are worth a word.
NAMED, TOLD = 4, 0.1


def words(values: "RunValues", interval: float = 0.9) -> Words:
    """Return what the values of some runs come to.

    Parameters
    ----------
    values : RunValues
    interval : float
        Mass of the intervals.
    """
    name = values.order[0]
    run, worth = values.affordable.plan.run(name), values.values[name]
    perfect, error = values.perfect
    now = values.candidates.take(slice(values.now, values.now + 1))
    return render(
        "next_run.txt",
        {
            "name": name,
            "run": short_run(run),
            "cost": f"{values.affordable.cost(run):g}",
            "worth": with_error(worth.value, worth.error),
            "hurdle": f"{values.hurdle(name):.2g}",
            "pays": pays(values, name),
            "is_price": bool(values.price(name)),
            "hopeless": perfect < values.hurdle(name),
            "perfect": with_error(perfect, error),
            "share": percent(worth.value / perfect) if perfect > 0 else "",
            "now": configuration(now, 0),
            "now_in_short": in_short(now, 0),
            "changes": values.changes(name),
            "mass": f"{100 * interval:g} %",
            "moves": _moves(values, name, interval),
            "runs": len(values.runs),
            "as_good": values.as_good(name, ERRORS),
            "named": NAMED,
            "told": _told(values),
            "outside": values.outside[name],
            "constrained": bool(values.valuation.objective.chances),
        },
    )


def pays(values: "RunValues", name: str) -> bool | None:
    """Return whether a run is worth its cost; None where the Monte Carlo error leaves that open.

    Parameters
    ----------
    values : RunValues
    name : str
        Of the run.
    """
    worth = values.values[name]
    margin = worth.value - values.hurdle(name)
    return None if abs(margin) <= ERRORS * worth.error else bool(margin > 0)


def _moves(values: "RunValues", name: str, interval: float) -> list[str]:
    """Return where the quantities that may be chosen would go after a run."""
    now = values.candidates.take(slice(values.now, values.now + 1))
    moves = []
    for quantity in values.space.searched:
        after, before = values.after(name, quantity), now.column(quantity)[0]
        if not np.issubdtype(after.dtype, np.number):
            other = float(np.mean(after != before))
            if other >= 0.01:
                what = quantity.replace("_", " ")
                moves.append(f"another {what} than {before} with probability {percent(other)}")
            continue
        lower, upper = np.quantile(after, [0.5 - interval / 2, 0.5 + interval / 2])
        if upper > lower:
            _, what, unit = QUANTITIES.get(quantity, ("", quantity, ""))
            ends = f"{quantity_text(float(lower), 2)} to {quantity_text(float(upper), 2)}"
            moves.append(f"{what} {ends}{unit} (now {quantity_text(float(before))})")
    return moves


def _told(values: "RunValues") -> list[dict[str, Any]]:
    """Return which run tells most about each effect, or about each quantity where few are asked about."""
    table = values.information_table()
    effects = table["quantity"].isin(list(MEANINGS))
    if effects.any() and not effects.all():
        table = table[effects]
    best = table.loc[table.groupby(["quantity", "domain"])["per_1000_steps"].idxmax()]
    least = np.maximum(TOLD, ERRORS * best["error"])
    best = best[best["variance"] >= least].sort_values("variance", ascending=False)
    return [
        {
            "run": name,
            "about": [
                f"{row['quantity'].replace('_', ' ')} on {row['domain']} ({percent(row['variance'])})"
                for row in rows.to_dict("records")
            ],
        }
        for name, rows in best.groupby("run", sort=False)
    ]

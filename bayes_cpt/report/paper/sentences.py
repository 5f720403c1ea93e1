"""Sentences that are ready for a paper: estimates with their credible intervals, and no needless digit."""

from typing import TYPE_CHECKING

from bayes_cpt.report.configurations import QUANTITIES, quantity_text
from bayes_cpt.report.numbers import SURE, chance, fixed

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.decisions.decision import Decision


def optimum_sentences(decision: "Decision", interval: float = 0.9) -> list[str]:
    """Return what the best choice is, a sentence per quantity that was searched.

    Parameters
    ----------
    decision : Decision
    interval : float
        Mass of the central credible intervals.

    Returns
    -------
    list of str
        As in "Optimal replay ratio 0.33 (90 % credible interval 0.29 to 0.38)."; an optimum at an end of
        what was searched is said to be one.
    """
    table = decision.optimum_table(interval)
    sentences = []
    for name, rows in table.groupby("quantity", sort=False):
        _, what, unit = QUANTITIES.get(str(name), ("", str(name).replace("_", " "), ""))
        numeric = rows["value"].isna().all()
        sentences.append(
            _number(rows.iloc[0], what, unit, interval) if numeric else _named(rows, what)
        )
    return sentences


def _number(row: "pd.Series", what: str, unit: str, interval: float) -> str:
    median, lower, upper = _alike([row[name] for name in ("median", "lower", "upper")])
    ends = {"lowest": row["at_lowest"], "highest": row["at_highest"]}
    end, share = max(ends.items(), key=lambda pair: pair[1])
    edge = (
        f"; the {end} value that was allowed in {chance(share)} of the draws"
        if share > 1.0 - SURE
        else ""
    )
    return (
        f"Optimal {what} {median}{unit} ({100 * interval:g} % credible interval {lower} to "
        f"{upper}{edge})."
    )


def _alike(values: list[float]) -> list[str]:
    """Return values in two digits, all with the decimals of the one that has most.

    Examples
    --------
    >>> _alike([0.312, 0.2, 0.414]), _alike([12000.0, 11000.0, 13000.0])
    (['0.31', '0.20', '0.41'], ['12000', '11000', '13000'])
    """
    texts = [quantity_text(value, 2) for value in values]
    if any("e" in text for text in texts):
        return texts
    places = max(len(text.partition(".")[2]) for text in texts)
    return [f"{float(text):.{places}f}" for text in texts]


def _named(rows: "pd.DataFrame", what: str) -> str:
    """Return how probably each value that is no number is the best."""
    likely = rows.sort_values("probability", ascending=False)
    first = likely.iloc[0]
    others = [
        f"{row['value']}: {chance(row['probability'])}"
        for row in likely.iloc[1:].to_dict("records")
        if row["probability"] >= 0.01
    ]
    rest = f"; {', '.join(others)}" if others else ""
    return f"Best {what} {first['value']} (posterior probability {chance(first['probability'])}{rest})."


def forecast_sentences(bands: "pd.DataFrame") -> list[str]:
    """Return where each run of a forecast ends.

    Parameters
    ----------
    bands : DataFrame
        Of `bayes_cpt.forecast.bands.bands`, with its attribute ``interval``.

    Returns
    -------
    list of str
        As in "Run long_r25 is forecast to end at 2.79 nats/token on general after 12000 steps (90 %
        predictive interval 2.74 to 2.84).".
    """
    mass = 100 * float(bands.attrs["interval"])
    kind = "predictive" if (bands["kind"] != "expected").all() else "credible"
    sentences = []
    for row in bands.groupby(["run", "domain"], sort=False).tail(1).to_dict("records"):
        median, lower, upper = (
            fixed(row[name], row["sd"]) for name in ("median", "lower", "upper")
        )
        outside = " This leaves what was fitted: " + row["outside"] + "." if row["outside"] else ""
        sentences.append(
            f"Run {row['run']} is forecast to end at {median} nats/token on {row['domain']} after "
            f"{row['step']} steps ({mass:g} % {kind} interval {lower} to {upper}).{outside}"
        )
    return sentences

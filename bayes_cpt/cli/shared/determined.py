"""Tables of what runs do not determine, shared by the verbs before and after a fit."""

from typing import TYPE_CHECKING, Any

from bayes_cpt.cli.output import Output, columns

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.study.study import Study

# A run that raises the contraction by less is hardly worth its cost.
WORTH = 0.1
UNTRIED = "no two runs differ in it: the law's form alone says it"


def show_undetermined(written: Output, table: "pd.DataFrame", kinds: tuple[str, ...]) -> None:
    """Print what is not identified, what it moves with, and the run that would tell.

    Parameters
    ----------
    table : DataFrame
        Of `bayes_cpt.identify`: from `identify.identifiability` or `determination.determination`.
    """
    weak = table[table["kind"].isin(kinds) & ~table["identified"]]
    if weak.empty:
        written.heading("All of them can be identified.")
    else:
        written.heading("Not identified, and what run would change that")
        shown = columns("quantity", "on", "moves with", "add")
        last = None
        for row in weak.to_dict("records"):
            first = "" if row["quantity"] == last else row["quantity"]
            shown.add_row(first, row["domain"], _strongest(row), _advice(row))
            last = row["quantity"]
        written.table(shown)
    untried = table[~table["tried"].astype(bool)].drop_duplicates("quantity")
    if not untried.empty:
        written.heading(f"Not tried: {UNTRIED}")
        shown = columns("effect", "add")
        for row in untried.to_dict("records"):
            shown.add_row(row["quantity"], row["advice"])
        written.table(shown)


def show_effects(
    written: Output, study: "Study", effects: "pd.DataFrame", heading: str, after: bool
) -> None:
    """Print the effects of a study's typical run: how well they will be, or are, known."""
    from bayes_cpt.forecast.derived import MEANINGS, Typical

    written.heading(heading)
    if study.continual_runs:
        written.text(f"Typical: {Typical.of(study).words}.")
    headers = ("effect", "on", "mean", "lower", "upper") if after else ("effect", "on", "±")
    table = columns(*headers, "contraction", numbers=len(headers) - 1)
    last = None
    for row in effects.to_dict("records"):
        numbers = [row[name] for name in (("mean", "lower", "upper") if after else ("sd",))]
        mark = " " if row["identified"] and row["tried"] else "*"
        table.add_row(
            "" if row["quantity"] == last else row["quantity"],
            row["domain"],
            *(f"{value:+.3f}" if after else f"{value:.3f}" for value in numbers),
            f"{row['contraction']:.2f} {mark}",
        )
        last = row["quantity"]
    written.table(table)
    written.text()
    meanings = columns("effect", "what it is, nats/token")
    for quantity in effects["quantity"].unique():
        meanings.add_row(quantity, MEANINGS[quantity])
    written.table(meanings)


def _strongest(row: dict[Any, Any]) -> str:
    if not row["moves_with"]:
        return "-"
    name, domain, correlation = row["moves_with"][0]
    return f"{name}{'' if domain == row['domain'] else f' ({domain})'} {correlation:+.2f}"


def _advice(row: dict[Any, Any]) -> str:
    from bayes_cpt.identify.determination import IDENTIFIED

    before, after = row["contraction"], row["with_advice"]
    rise = f"({before:.2f} -> {after:.2f})"
    if after >= IDENTIFIED:
        return f"{row['advice']} {rise}"
    if after - before >= WORTH:
        return f"several runs, first {row['advice']} {rise}"
    return f"no one run tells much; the best makes it {after:.2f}"

"""Tables of prior sensitivity: what rests on the prior."""

from typing import TYPE_CHECKING

from bayes_cpt.cli.output import Output, columns, number

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

HEADING = "Prior sensitivity (power scaling, doi 10.1007/s11222-023-10366-5)"
CONCLUSIONS = ("last loss", "effect")
EXPLAINED = (
    "if doubled: change of the mean, to first order, if the prior counted twice",
    "prior, data: how far it moves as the one or the other counts for more; below 0.05 is no matter",
)


def show_sensitivity(written: Output, table: "pd.DataFrame", kinds: tuple[str, ...]) -> None:
    """Print what scaling the prior moves, and name the priors that do it."""
    from bayes_cpt.identify.sensitivity import CONFLICT, STRONG

    written.heading(HEADING)
    losses = table[table["kind"] == "last loss"]
    firm = int((losses["diagnosis"] == "").sum())
    written.text(f"{firm} of {len(losses)} last losses do not rest on the prior.")
    shown = table[table["kind"].isin((*CONCLUSIONS, *kinds)) & (table["diagnosis"] != "")]
    if shown.empty:
        return
    # What is decided on comes first.
    order = {kind: place for place, kind in enumerate((*CONCLUSIONS, *kinds))}
    shown = shown.sort_values("kind", key=lambda names: names.map(order), kind="stable")
    said = {
        CONFLICT: "both pull at it, and not the same way",
        STRONG: "the prior decides, the data hardly do",
    }
    for diagnosis, meaning in said.items():
        rows = shown[shown["diagnosis"] == diagnosis]
        if not rows.empty:
            written.heading(f"{diagnosis.capitalize()}: {meaning}")
            written.table(_table(rows))
    written.text()
    for line in EXPLAINED:
        written.text(f" {line}")


def _table(rows: "pd.DataFrame") -> "Table":
    headers = ("quantity", "on", "priors that move it most", "sd", "if doubled", "prior", "data")
    table = columns(*headers, numbers=4)
    last = None
    for row in rows.to_dict("records"):
        table.add_row(
            "" if row["quantity"] == last else row["quantity"],
            row["domain"],
            row["rests_on"] or "several, a little each",
            number(row["sd"], 2),
            f"{row['if_doubled']:+.2g}",
            f"{row['prior']:.2f}",
            f"{row['likelihood']:.2f}",
        )
        last = row["quantity"]
    return table

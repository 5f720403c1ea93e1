"""Tables of what runs do not determine, before and after a fit, and of what rests on the prior."""

from typing import TYPE_CHECKING

from bayes_cpt.cli.output import Output, Row

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.study.study import Study

# A run that raises the contraction by less is hardly worth its cost.
WORTH = 0.1
UNTRIED = "no two runs differ in it: the law's form alone says it"
HEADING = "Prior sensitivity (power scaling, doi 10.1007/s11222-023-10366-5)"
SENSITIVE = (
    "quantity | on=domain | priors that move it most=rests_on | sd:.2g | if doubled=if_doubled:+.2g | "
    "prior:.2f | data=likelihood:.2f"
)
CONCLUSIONS = ("last loss", "effect")
EXPLAINED = (
    "if doubled: change of the mean, to first order, if the prior counted twice",
    "prior, data: how far it moves as the one or the other counts for more; below 0.05 is no matter",
)


def show_undetermined(written: Output, table: "pd.DataFrame", kinds: tuple[str, ...]) -> None:
    """Print what is not identified, what it moves with, and the run that would determine it.

    The table is that of `bayes_cpt.identify.determination`: of `identifiability` or of `determination`.
    """
    weak = table[table["kind"].isin(kinds) & ~table["identified"]]
    if weak.empty:
        written.heading("All of them can be identified.")
    else:
        written.heading("Not identified, and what run would change that")
        shown = weak.assign(strongest=[*map(_strongest, weak.to_dict("records"))])
        shown["add"] = [*map(_advice, weak.to_dict("records"))]
        cells = "quantity | on=domain | moves with=strongest | add"
        written.table(shown, cells, group="quantity")
    untried = table[~table["tried"].astype(bool)].drop_duplicates("quantity")
    if not untried.empty:
        written.heading(f"Not tried: {UNTRIED}")
        written.table(untried, "effect=quantity | add=advice")


def _strongest(row: Row) -> str:
    if not row["moves_with"]:
        return "-"
    name, domain, correlation = row["moves_with"][0]
    return f"{name}{'' if domain == row['domain'] else f' ({domain})'} {correlation:+.2f}"


def _advice(row: Row) -> str:
    from bayes_cpt.identify.determination import IDENTIFIED

    before, after = row["contraction"], row["with_advice"]
    rise = f"({before:.2f} -> {after:.2f})"
    if after >= IDENTIFIED:
        return f"{row['advice']} {rise}"
    if after - before >= WORTH:
        return f"several runs, first {row['advice']} {rise}"
    return f"no one run tells much; the best makes it {after:.2f}"


def show_effects(
    written: Output, study: "Study", effects: "pd.DataFrame", heading: str, after: bool
) -> None:
    """Print the effects of a study's typical run: how well they will be, or are, known."""
    from bayes_cpt.forecast.derived import MEANINGS, Typical

    written.heading(heading)
    if study.continual_runs:
        written.text(f"Typical: {Typical.of(study).words}.")

    firm = effects["identified"].astype(bool) & effects["tried"].astype(bool)
    shares = effects["contraction"].map("{:.2f} ".format) + firm.map({True: " ", False: "*"})
    estimates = "mean:+.3f | lower:+.3f | upper:+.3f" if after else "±=sd:.3f"
    cells = f"effect=quantity | on=domain | {estimates} | contraction=shares:text"
    written.table(effects.assign(shares=shares), cells, group="effect")
    written.text()
    meanings = effects[["quantity"]].drop_duplicates()
    meanings["meaning"] = meanings["quantity"].map(MEANINGS)
    written.table(meanings, "effect=quantity | what it is, nats/token=meaning")


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
    shown["rests_on"] = shown["rests_on"].replace("", "several, a little each")
    meanings = {
        CONFLICT: "both pull at it, and not the same way",
        STRONG: "the prior decides, the data hardly do",
    }
    for diagnosis, meaning in meanings.items():
        rows = shown[shown["diagnosis"] == diagnosis]
        if not rows.empty:
            written.heading(f"{diagnosis.capitalize()}: {meaning}")
            written.table(rows, SENSITIVE, group="quantity")
    written.text()
    for line in EXPLAINED:
        written.text(f" {line}")

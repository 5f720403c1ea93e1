"""Tables of what runs do not determine, before and after a fit, and of what rests on the prior."""

from typing import TYPE_CHECKING

from bayes_cpt.cli.output import Part, heading
from bayes_cpt.report.tables import Row, Table, columns

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


def undetermined(table: "pd.DataFrame", kinds: tuple[str, ...]) -> list[Part]:
    """Return what is not identified, what it moves with, and the run that would determine it.

    The table is that of `bayes_cpt.identify.determination`: of `identifiability` or of `determination`.
    """
    weak = table[table["kind"].isin(kinds) & ~table["identified"]]
    parts: list[Part] = []
    if weak.empty:
        parts.append(heading("All of them can be identified."))
    else:
        cells = columns("quantity | on=domain") | {"moves with": "strongest", "add": "run"}
        rows = weak.to_dict("records")
        shown = weak.assign(strongest=[*map(_strongest, rows)], run=[*map(_advice, rows)])
        title = "Not identified, and what run would change that"
        parts.append(Table(title, shown, cells, group="quantity"))
    untried = table[~table["tried"].astype(bool)].drop_duplicates("quantity")
    if not untried.empty:
        parts.append(Table(f"Not tried: {UNTRIED}", untried, "effect=quantity | add=advice"))
    return parts


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


def effects_in_detail(
    study: "Study", effects: "pd.DataFrame", title: str, *, after: bool
) -> list[Part]:
    """Return the effects of a study's typical run: how well they will be, or are, known."""
    from bayes_cpt.forecast.derived import MEANINGS, Typical
    from bayes_cpt.identify.determination import settled

    typical = [f"Typical: {Typical.of(study).words}."] if study.continual_runs else []
    marks = settled(effects).map({True: " ", False: "*"})
    shares = effects["contraction"].map("{:.2f} ".format) + marks
    estimates = "mean:+.3f | lower:+.3f | upper:+.3f" if after else "±=sd:.3f"
    cells = f"effect=quantity | on=domain | {estimates} | contraction=shares:text"
    meanings = effects[["quantity"]].drop_duplicates()
    meanings["meaning"] = meanings["quantity"].map(MEANINGS)
    return [
        heading(title),
        *typical,
        Table("", effects.assign(shares=shares), cells, group="effect"),
        "",
        Table("", meanings, "effect=quantity | what it is, nats/token=meaning"),
    ]


def resting_on_priors(table: "pd.DataFrame", kinds: tuple[str, ...]) -> list[Part]:
    """Return what scaling the prior moves, and the priors that do it."""
    from bayes_cpt.identify.sensitivity import CONFLICT, STRONG

    losses = table[table["kind"] == "last loss"]
    firm = int((losses["diagnosis"] == "").sum())
    parts: list[Part] = [
        heading(HEADING),
        f"{firm} of {len(losses)} last losses do not rest on the prior.",
    ]
    shown = table[table["kind"].isin((*CONCLUSIONS, *kinds)) & (table["diagnosis"] != "")]
    if shown.empty:
        return parts
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
            title = f"{diagnosis.capitalize()}: {meaning}"
            parts.append(Table(title, rows, SENSITIVE, group="quantity"))
    return [*parts, "", *(f" {line}" for line in EXPLAINED)]

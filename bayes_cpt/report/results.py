"""The tables of results: what runs there are, what a fit says, and where forecast and chosen runs end."""

from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from bayes_cpt.report.numbers import NONE, fixed, held, left_out, listed, signed
from bayes_cpt.report.tables import Table, columns, span, with_interval
from bayes_cpt.report.words import notation
from bayes_cpt.study.batches import batch_of
from bayes_cpt.study.ranges import describe
from bayes_cpt.study.runs import mixture_words

if TYPE_CHECKING:
    from bayes_cpt.decisions.decision import Decision
    from bayes_cpt.inference.posterior import Posterior
    from bayes_cpt.model.setup import BoundModel
    from bayes_cpt.study.study import Study

# What a run takes of data, time and money, and the heading of each.
TAKEN = {
    "general_epochs": "general\nepochs",
    "target_epochs": "target\nepochs",
    "gpu_hours": "GPU-\nhours",
    "money": "money",
}
# Runs that a note names one by one.
NAMED = 8


def effects_table(posterior: "Posterior", determined: pd.DataFrame, interval: float = 0.9) -> Table:
    """Return what moves the last loss of a typical run, of `identify.determination` with that interval."""
    from bayes_cpt.forecast.derived import ANNEAL, APPROACH, typical_words
    from bayes_cpt.identify.determination import settled

    effects, called = determined[determined["kind"] == "effect"], notation()["effects"]
    firm = settled(effects)
    cells = [with_interval(row, "mean", "change") for row in effects.to_dict("records")]
    marked = effects.assign(cell=cells + firm.map({True: "  ", False: " *"}))
    wide = marked.pivot_table("cell", "quantity", "domain", "first", sort=False)
    notes = [
        f"Of a run of {typical_words(posterior.frame, posterior.study)}",
        "Of the law's curves: what these miss of runs is not in the intervals",
    ]
    if "decay_effect" in set(effects["quantity"]):
        way = f"in a straight line over the first {100 * APPROACH:.0f} % of its steps"
        notes.append(f"From a base at another learning rate a run goes to its peak {way}")
    if "base_effect" in set(effects["quantity"]):
        notes.append(f"The annealed base has {100 * ANNEAL:.0f} % more PT steps")
    if not firm.all():
        notes.append("* left open: the prior decides, or no two runs differ in it")
    return Table.of(
        "effects",
        wide.rename(index=lambda name: called[name]["comparison"])
        .rename_axis("effect")
        .reset_index()
        .fillna(""),
        {"effect": "effect"} | {on: (on, "text") for on in effects["domain"].unique()},
        numbers=effects.drop(columns=["moves_with"], errors="ignore").assign(interval=interval),
        interval=interval,
        notes=". ".join(notes),
    )


def quantities_table(posterior: "Posterior", rows: pd.DataFrame, interval: float) -> Table:
    """Return coefficients or parameters with their intervals, of `Posterior.summary` with that interval."""
    from bayes_cpt.inference.posterior import LOWEST_CONTRACTION

    printed, batches = bool((rows["kind"] == "coefficient").all()), posterior.frame.batches
    weak = rows["contraction"] < LOWEST_CONTRACTION
    shown = rows.assign(
        ess=rows[["ess_bulk", "ess_tail"]].min(axis=1),
        known=rows["contraction"].map(partial(fixed, spread=0.05))
        + weak.map({True: " *", False: "  "}),
    )
    return Table.of(
        "coefficients" if printed else "parameters",
        shown,
        numbers=rows.assign(interval=interval),
        interval=interval,
        fitted=f"{posterior.frame.spec.name} fitted to {posterior.study.name}",
        weak="; *: the quantity rests on its prior" if weak.any() else "",
        batch=f". B, E and beta are of the {batches[0].words}" if printed and batches else "",
    )


def letters_table(frame: "BoundModel") -> Table:
    """Return what the letters of the law's equations are."""
    from bayes_cpt.report.equation import letter_meanings

    said = letter_meanings(frame).items()
    return Table.of("letters", pd.DataFrame(said, columns=["letter", "meaning"]))


def choices_table(decision: "Decision", table: pd.DataFrame) -> Table:
    """Return the contenders of a decision, of `Decision.table`, the recommendation first."""
    valuation = decision.valuation
    change = partial(signed, spread=float(decision.contenders.values.std(axis=1).min()))
    targets = " | targets" if "targets" in decision.space.searched else ""
    names = f"option | base{targets} | replay:.2f | peak LR=peak:.3g | steps:6"
    # Said where contenders differ in it: they can be alike in all else.
    ends = {"decay_shape": "decay", "decay_steps": "decay\nsteps", "final": "last LR"}
    forms = {"decay_shape": "", "decay_steps": "", "final": ".2g"}
    apart = {ends[own]: (own, forms[own]) for own in ends if table[own].nunique() > 1}
    shown = columns(names) | apart | taken_columns(table)
    for domain in (*valuation.model.domains, *valuation.thirds):
        shown[domain] = (f"{domain}_change", change)
    shown |= {name: (f"{name}_change", "+.3f") for name in valuation.links}
    tolerance = f"{decision.criterion.tolerance:g}"
    shown |= {
        "regret": ("regret", partial(fixed, spread=decision.information[1])),
        f"within\n{tolerance}": ("p_within", "chance"),
    }
    for index, own in enumerate(valuation.chances, 1):
        shown[own.heading] = (f"breach_{index}", "chance")
    reference = valuation.reference.name if valuation.reference else "its own base"
    named = {"objective": valuation.objective.name, "reference": reference}
    named["batch"] = f"All have a {batch}. " if (batch := valuation.model.batch) else ""
    beyond = beyond_words(table, "option")
    return Table.of("choices", table, shown, tolerance=tolerance, beyond=beyond, **named)


def forecast_table(bands: pd.DataFrame) -> Table:
    """Return where the runs of `bayes_cpt.forecast.bands.bands` end."""
    interval = float(bands.attrs["interval"])
    final = bands.groupby(["run", "domain"], sort=False).tail(1)
    kind = str(bands["kind"].iloc[0])
    return Table.of(
        "forecast",
        final,
        numbers=final.assign(interval=interval),
        interval=interval,
        whose={"new_run": "a new run", "known_run": "each run"}.get(kind, "the law"),
        about="credible" if kind == "expected" else "predictive",
        beyond=beyond_words(bands),
    )


def beyond_words(rows: pd.DataFrame, named: str = "run") -> str:
    """Return where runs, or options, lie outside the fitted range, and which these are."""
    runs = rows.drop_duplicates(named)
    alike = runs[runs["outside"] != ""].groupby("outside", sort=False)[named]
    return listed([f"{why} ({', '.join(names)})" for why, names in alike], NAMED)


def scores_table(
    scores: pd.DataFrame, column: str = "left out", title: str = "Forecasts of held-out points"
) -> Table:
    """Return coverage and CRPS by a column of scores (see `bayes_cpt.validate.scores.summarize`)."""
    rows = scores.assign(held=[held(row) for row in scores.to_dict("records")])
    if column not in rows:
        rows[column] = rows["seen"].map(left_out)
    return Table.of("calibration", rows, numbers=scores, title=title, column=column)


def runs_table(study: "Study") -> Table:
    """Return the runs of a study, with targets, model sizes and batches where runs differ in them."""
    rows, others = pd.json_normalize(describe(study)["runs"]), study.third_domains
    rows["targets"] = [mixture_words(run.mixture) for run in study.runs]
    rows["size"] = [f"{study.model_size(run) or 0:g}M" for run in study.runs]
    rows["batch"] = [batch_of(study, run).label for run in study.runs]
    kinds = rows.groupby("phase")[["targets", "size", "batch"]].nunique().max()
    apart = "".join(f"{name} | " for name in kinds.index[kinds > 1])
    whole = (rows["measured_steps"] == rows["steps"]).all()
    seen = "" if whole else "measured\nto=measured_steps:4 | "
    shown = columns(
        f"run=name | phase | base | {apart}replay:4 | steps:4 | {seen}peak LR=peak_learning_rate:4 | "
        "final LR=final_learning_rate:4"
    )
    shown |= taken_columns(rows)
    shown |= {f"points\n{domain}": (f"points.{domain}", "4") for domain in study.trained_domains}
    if others:
        shown["points\nothers"] = lambda row: span([row[f"points.{name}"] for name in others])
    return Table.of("runs", rows.fillna({"base": NONE}), shown)


def bases_table(study: "Study") -> Table:
    """Return the checkpoints that the CPT runs of a study start from."""
    rows = pd.json_normalize(describe(study)["bases"])
    shown = columns(
        "base=name | on run | PT\nsteps=steps:4 | peak LR=peak_learning_rate:4 | "
        "final LR=final_learning_rate:4 | potential=loss_potential:4"
    )
    shown |= {f"loss\n{domain}": (f"losses.{domain}", "4") for domain in study.trained_domains}
    shown["CPT\nruns"] = lambda row: str(len(row["runs"]))
    rows["name"] += rows["known"].map({True: "", False: " (PT unknown)"})
    rows["on run"] = rows["run"].fillna(NONE)
    return Table.of("bases", rows, shown)


def priors_table(frame: "BoundModel", interval: float = 0.9, *, reasons: bool = True) -> Table:
    """Return the priors of a model, with `reasons`; one line where all validation sets have the same."""
    from bayes_cpt.model.joint_priors import prior_table

    priors = prior_table(frame, interval)
    by_parameter = priors.groupby("parameter", sort=False)["distribution"]
    alike = (by_parameter.transform("nunique") == 1) & (by_parameter.transform("size") > 1)
    shown = priors.assign(domain=priors["domain"].where(~alike, "all"))
    rows = shown.drop_duplicates(["parameter", "domain"])
    unit = rows["unit"].map(lambda unit: "" if unit == "1" else f", {unit}")
    why = (rows["meaning"] + unit + ". " + rows["reason"]).mask(rows["parameter"].duplicated(), "")
    pairs = [f"{' and '.join(own.between)} ({own.value:+.2f})" for own in frame.spec.correlations]
    return Table.of(
        "priors",
        rows.assign(why=why),
        numbers=priors,
        model=frame.spec.name,
        interval=interval,
        why=" | what it is, and why=why" if reasons else "",
        correlated=f"Correlated are {', '.join(pairs)}" if pairs else "",
    )


def taken_columns(rows: pd.DataFrame) -> dict[str, Any]:
    """Return the columns of what runs take of data, time and money, where that is known."""
    return {title: (name, "3") for name, title in TAKEN.items() if name in rows}

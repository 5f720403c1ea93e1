"""`bayes-cpt decide`: a fit, an objective and a space in, what to train out."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayes_cpt.cli.console import Output, columns, number
from bayes_cpt.cli.fit import about_fit, show_verdict
from bayes_cpt.cli.options import FitFile, Interval, Json, Objective, Quiet, Seed
from bayes_cpt.cli.targets import Results, check_new_folder

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.decisions.decision import Decision
    from bayes_cpt.inference.posterior import Posterior


class Kind(StrEnum):
    """What a careful measure of risk is about."""

    expected = "expected"
    new_run = "new_run"


def decide(
    fit: FitFile,
    objective: Objective = "balanced",
    space: Annotated[
        Path | None,
        typer.Option(
            metavar="TOML",
            help=r"What may be chosen \[default: base, replay 0 to 0.8, peak LR; see below].",
            show_default=False,
        ),
    ] = None,
    risk: Annotated[
        str,
        typer.Option(
            metavar="MEASURE",
            help="expected, quantile:Q, cvar:Q, mean-sd:K, worst, expected-regret, max-regret, best or "
            "beat:RUN.",
        ),
    ] = "expected",
    kind: Annotated[
        Kind,
        typer.Option(
            help="Whether the risk is of the expected loss or of what a new run may show."
        ),
    ] = Kind.expected,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="Folder to write tables (CSV), the figure (PNG), the words and the plan (TOML) into.",
            show_default=False,
        ),
    ] = None,
    tolerance: Annotated[
        float, typer.Option(min=0.0, help="Nats of the objective that make no difference.")
    ] = 0.005,
    candidates: Annotated[
        int, typer.Option(min=1, help="Configurations looked at first; then more near the best.")
    ] = 8192,
    interval: Interval = 0.9,
    draws: Annotated[int, typer.Option(min=4, help="Posterior draws to use.")] = 1000,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    r"""Choose base, replay ratio, learning rate and length of a run under the posterior of a fit.

    Every configuration of the space is judged by its final losses in all posterior draws. Printed are the
    best one by the chosen risk and well separated runners-up, each with its expected regret and how often
    it is the best; where the best of each draw lies; and in words what to train, what it trades for what,
    whether further runs could change the choice, and where it leaves what was fitted.

    \b
    An objective (all keys but weights may be left out):
    \[weights]                     shares of the losses (Eq. 5); also a mixture's name
    general = 0.3
    target = 0.7
    \[mixtures.code]               a third validation set by its weights of Eq. 6
    general = -0.1
    target = 1.1
    \[\[constraints]]               a chance constraint: P(rise above the base) at most
    domain = "general"
    rise = 0.02                   or limit = 3.1, a loss
    probability = 0.1

    Before its first table may stand preset = "balanced", reference = "BASE" (what changes are counted
    from), measure = "absolute", cost_per_1000_steps or cost_per_billion_tokens (nats of the objective).

    \b
    A space (each a number, a list, or a range):
    bases = ["stable_12k", "annealed_0pct"]
    replay = { low = 0.0, high = 0.8 }
    relative_peak = { low = 0.1, high = 1.0, scale = "log" }   or peak, raw
    warmup_share = 0.02           or warmup_steps, from the base's last LR to the peak
    decay_shape = ["cosine", "linear", "one_minus_sqrt"]
    decay_share = 1.0             of the steps after the re-warm-up
    relative_final = 0.1          or final, raw
    steps = [3000, 12000]         or tokens
    loss_potential = [0.0, 0.5]   other ends of the anneal of a single base

    \b
    Example:
    bayes-cpt decide fit.nc --objective general-preserving --risk cvar -o decision
    bayes-cpt predict fit.nc --plan decision/plan.toml -o forecast.csv

    \b
    Exit codes:
    0  done
    1  done, but no configuration keeps the constraints, or the fit falls short of its diagnostics
    2  bad input: nothing is written
    """
    from bayes_cpt.decisions.decision import decide as choose
    from bayes_cpt.inference.posterior import load

    written = Output(quiet, json)
    check_new_folder(output)
    posterior = load(fit)
    with written.cautions():
        found = choose(
            posterior,
            objective,
            space,
            risk,
            kind=kind.value,
            draws=draws,
            candidates=candidates,
            tolerance=tolerance,
            seed=seed,
        )
    tables = {
        "contenders": found.table(interval),
        "optimum": found.optimum_table(interval),
        "front": found.front_table(interval),
    }
    sentences = found.sentences(interval)
    show_verdict(written, posterior)
    _show(written, posterior, found, tables, sentences, interval)
    files = _write(written, output, found, tables, sentences) if output else {}
    content = about_fit(fit, posterior) | _content(found, tables, sentences)
    written.result(content | {"seed": seed, "interval": interval, "files": files})
    return 0 if found.feasible and posterior.trustworthy else 1


def _show(
    written: Output,
    posterior: "Posterior",
    found: "Decision",
    tables: "dict[str, pd.DataFrame]",
    sentences: list[str],
    interval: float,
) -> None:
    name = posterior.frame.spec.name
    written.text(f"Decision by {name}, fitted to {posterior.study.name}", "bold")
    objective = found.valuation.objective
    if objective.question:
        written.text(f"{objective.name}: {objective.question}")
    if not found.feasible:
        # Also for those who read nothing else.
        written.error("No configuration of the space keeps the constraints; these come nearest.")
    written.heading("What to train")
    written.table(_configurations(tables["contenders"]))
    reference = found.valuation.reference
    against = f"change from {reference.name}" if reference else "change from its own base"
    percent = f"{100 * interval:g} %"
    written.heading(
        f"What it comes to: {against}, nats/token; the objective with {percent} intervals"
    )
    written.table(_outcomes(tables["contenders"], found))
    if not tables["optimum"].empty:
        written.heading(f"Where the best of each draw lies, with {percent} intervals")
        written.table(_optimum(tables["optimum"]))
    written.words(sentences)


def _configurations(table: "pd.DataFrame") -> Any:
    headers = (
        "option",
        "base",
        "decay",
        "",
        "replay",
        "steps",
        "re-warm-up",
        "peak LR",
        "final LR",
    )
    found = columns(*headers, numbers=5)
    for row in table.to_dict("records"):
        outside = row["outside"] != ""
        found.add_row(
            row["option"],
            row["base"],
            row["decay_shape"],
            "outside" if outside else "",
            *(number(row[name]) for name in ("replay", "steps", "warmup_steps", "peak", "final")),
            style="yellow" if outside else "",
        )
    return found


def _outcomes(table: "pd.DataFrame", decision: "Decision") -> Any:
    domains, constraints = (
        decision.valuation.model.domains,
        decision.valuation.objective.constraints,
    )
    broken = [f"P(breach {index})" for index in range(1, len(constraints) + 1)]
    within = f"within\n{decision.trait.tolerance:g} nats"
    headers = ("option", *domains, "objective", "lower", "upper", "regret", "best", within, *broken)
    found = columns(*headers, numbers=len(headers) - 1)
    for row in table.to_dict("records"):
        found.add_row(
            row["option"],
            *(f"{row[f'{domain}_change']:+.3f}" for domain in domains),
            *(f"{row[name]:.4f}" for name in ("objective", "objective_lower", "objective_upper")),
            f"{row['regret']:.4f}",
            *(_share(row[name]) for name in ("p_best", "p_within")),
            *(_share(row[f"breach_{index}"]) for index in range(1, len(constraints) + 1)),
        )
    return found


def _optimum(table: "pd.DataFrame") -> Any:
    headers = ("quantity", "value", "draws", "median", "lower", "upper", "at lowest", "at highest")
    found = columns(*headers, "recommended", numbers=7)
    last = None
    for row in table.to_dict("records"):
        named = isinstance(row["value"], str)
        found.add_row(
            "" if row["quantity"] == last else row["quantity"].replace("_", " "),
            row["value"] if named else "",
            _share(row["probability"]) if named else "",
            *("" if named else number(row[name]) for name in ("median", "lower", "upper")),
            *("" if named else _share(row[name]) for name in ("at_lowest", "at_highest")),
            ("yes" if row["recommended"] else "") if named else number(row["recommended"]),
        )
        last = row["quantity"]
    return found


def _share(probability: float) -> str:
    return f"{100 * probability:.0f} %"


def _write(
    written: Output,
    folder: Path,
    found: "Decision",
    tables: "dict[str, pd.DataFrame]",
    sentences: list[str],
) -> dict[str, str]:
    """Write tables, figure, words and plan, and return what was written."""
    from bayes_cpt.study.writer import settings_text

    results = Results(folder)
    results.tables(tables)
    results.text("plan.toml", settings_text(found.plan()))
    results.words(sentences)
    results.figure("figure", found.plot(), "decision.png")
    return results.shown(written)


def _content(
    found: "Decision",
    tables: "dict[str, pd.DataFrame]",
    sentences: list[str],
) -> dict[str, Any]:
    valuation = found.valuation
    return {
        "objective": valuation.objective.model_dump(mode="json"),
        "reference": valuation.reference.name if valuation.reference else None,
        "space": {name: own.model_dump() for name, own in found.space.quantities.items()}
        | {"bases": [base.name for base in found.space.bases], "decay_shape": found.space.shapes},
        "searched": list(found.space.searched),
        "risk": str(found.trait.measure),
        "kind": "new_run" if found.trait.new_run else "expected",
        "tolerance": found.trait.tolerance,
        "draws": valuation.model.draws,
        "candidates": len(found.search.candidates),
        "feasible": found.feasible,
        "value_of_perfect_information": dict(
            zip(("nats", "error"), found.information, strict=True)
        ),
        **{name: table.to_dict("records") for name, table in tables.items()},
        "edges": found.edges,
        "notes": list(found.space.notes),
        "sentences": sentences,
    }

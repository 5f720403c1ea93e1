"""`bayes-cpt decide`: a fit, an objective and a space in, what to train out."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayes_cpt.cli.shared.console import TAKEN, Output, columns, number
from bayes_cpt.cli.shared.frame import Answer, OutputFile, Section, footnote, marked, share
from bayes_cpt.cli.shared.options import (
    FitFile,
    Interval,
    Json,
    Objective,
    Quiet,
    ScoresFile,
    Seed,
    Verbose,
    option,
    output_option,
)
from bayes_cpt.cli.shared.outputs import (
    NUMBERS,
    Results,
    check_new_folder,
    check_target,
    write_numbers,
)
from bayes_cpt.report.paper.tables import SUFFIXES, WRITERS

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.decisions.decision import Decision

# What is shown of a quantity that was searched, and its heading.
SHOWN = {
    "base": ("base", "base"),
    "loss_potential": ("loss_potential", "loss\npotential"),
    "replay": ("replay", "replay"),
    "targets": ("targets", "targets"),
    "peak": ("peak", "peak LR"),
    "relative_peak": ("peak", "peak LR"),
    "warmup_steps": ("warmup_steps", "re-warm-up"),
    "warmup_share": ("warmup_steps", "re-warm-up"),
    "decay_shape": ("decay_shape", "decay"),
    "decay_share": ("decay_steps", "decay\nsteps"),
    "final": ("final", "final LR"),
    "relative_final": ("final", "final LR"),
    "steps": ("steps", "steps"),
    "tokens": ("steps", "steps"),
}

# Of the table of choices: as a paper shows it, and all its numbers.
TABLES = (*SUFFIXES, *NUMBERS)


class Kind(StrEnum):
    """What a careful measure of risk is about."""

    expected = "expected"
    new_run = "new_run"


def decide(
    fit: FitFile,
    objective: Objective = "balanced",
    space: Annotated[
        Path | None,
        option(
            "TOML", "What may be chosen.", default="base, replay, peak LR near what CPT runs tried"
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
    scores: ScoresFile = None,
    output: Annotated[
        Path | None,
        output_option(
            "OUT",
            "Folder to write tables (CSV), the figure (PNG), the words and the plan (TOML) into; "
            "or a file for the table of choices: .csv, .md, or .tex for a paper (booktabs), "
            ".parquet or .json for programs.",
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
    verbose: Verbose = False,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    r"""Choose base, replay ratio, learning rate and length of a run under the posterior of a fit.

    Every configuration of the space is judged by its final losses in all posterior draws. Printed are what
    to train, how sure that is and what would change it; then well separated runners-up, each with its
    expected regret. With --verbose also where the best of each draw lies, and in words what is traded for
    what, whether further runs could change the choice, and where it leaves what was fitted.

    \b
    An objective (all keys but weights may be left out):
    \[weights]                     shares of the losses (Eq. 5); also other sets of the study, by name
    general = 0.3
    target = 0.7
    \[mixtures.code]               a set that the study has not, by its weights of Eq. 6
    general = -0.1
    target = 1.1
    \[\[constraints]]               a chance constraint: P(rise above the base) at most
    domain = "general"
    rise = 0.02                   or limit = 3.1, a loss
    probability = 0.1

    With --scores (losses and scores of checkpoints), scores are told and may be constrained:
    \[\[score_constraints]]         P(score falls below the base's by more than) at most
    benchmark = "mmlu"
    fall = 0.01                   or least = 0.3, a score
    probability = 0.1

    Before its first table may stand preset = "balanced", reference = "BASE" (what changes are counted
    from), measure = "absolute", cost_per_1000_steps, cost_per_billion_tokens, cost_per_1000_gpu_hours or
    cost_per_1000_spent (nats of the objective).

    \b
    \[limits]                      the most that a run may take
    target_epochs = 4             general_epochs, gpu_hours, money

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
    unique_tokens = { target = 2e9 }   with tokens_per_step: epochs are then counted
    compute = { seconds_per_step = 1.8, gpus = 64, price = 2.5 }

    \b
    Example:
    bayes-cpt decide fit.nc --objective general-preserving --risk cvar -o decision
    bayes-cpt predict fit.nc --plan decision/plan.toml -o forecast.csv
    bayes-cpt decide fit.nc -o choices.tex

    \b
    Exit codes:
    0  done
    1  done, but no configuration keeps the constraints, or the fit falls short of its diagnostics
    2  bad input: nothing is written
    """
    from bayes_cpt.decisions.decision import decide as choose
    from bayes_cpt.inference.posterior import load

    written = Output(quiet, json)
    is_table = output is not None and output.suffix in TABLES
    if output is not None and is_table:
        check_target(output, TABLES, inputs=(fit,))
    else:
        check_new_folder(output)
    posterior = load(fit)
    with written.cautions():
        decision = choose(
            posterior,
            objective,
            space,
            risk,
            kind=kind.value,
            scores=scores,
            draws=draws,
            candidates=candidates,
            tolerance=tolerance,
            seed=seed,
        )
    tables = {
        "contenders": decision.table(interval),
        "optimum": decision.optimum_table(interval),
        "front": decision.front_table(interval),
    }
    answer = Answer(written, fit, posterior, decision, interval)
    if not decision.feasible:
        # Also for those who read nothing else.
        written.error("No configuration of the space keeps the constraints; these come nearest.")
    answer.show(
        [_main(tables["contenders"], decision)],
        lambda: _detail(tables, decision, interval),
        verbose=verbose,
        footnotes=footnote(tables["contenders"]["outside"]),
    )
    files = {}
    if output is not None:
        write = _write_table if is_table else _write
        files = write(answer, output, decision, tables)
    answer.tell({**_content(decision, tables), "seed": seed, "files": files})
    return 0 if decision.feasible and posterior.trustworthy else 1


def _main(table: "pd.DataFrame", decision: "Decision") -> Section:
    """Return what was chosen among, the recommendation first."""
    from bayes_cpt.report.numbers import fixed, signed

    valuation = decision.valuation
    domains = (*valuation.model.domains, *valuation.thirds)
    benchmarks = tuple(valuation.links)
    constraints = valuation.objective.chances
    quantities = [SHOWN[name] for name in decision.space.searched]
    outcomes = (
        *domains,
        *benchmarks,
        "objective",
        "regret",
        f"within\n{decision.trait.tolerance:g}",
    )
    broken = [f"P(breach\n{index})" for index in range(1, len(constraints) + 1)]
    titles = [title for _, title in quantities]
    taken = {name: title for name, title in TAKEN.items() if name in table}
    shown = columns(
        "option",
        *titles,
        *taken.values(),
        *outcomes,
        *broken,
        numbers=len(taken) + len(outcomes) + len(broken),
    )
    spread = float(decision.contenders.values.std(axis=1).min())
    error = decision.information[1]
    for row in table.to_dict("records"):
        cells = [row[name] for name, _ in quantities]
        shown.add_row(
            marked(row["option"], row["outside"]),
            *(cell if isinstance(cell, str) else number(cell, 3) for cell in cells),
            *(number(row[name], 3) for name in taken),
            *(signed(row[f"{domain}_change"], spread) for domain in domains),
            *(f"{row[f'{name}_change']:+.3f}" for name in benchmarks),
            signed(row["objective"], spread),
            fixed(row["regret"], error),
            share(row["p_within"]),
            *(share(row[f"breach_{index}"]) for index in range(1, len(constraints) + 1)),
            style="yellow" if row["outside"] else "",
        )
    reference = valuation.reference.name if valuation.reference else "its own base"
    return f"Choices by {valuation.objective.name}: change from {reference}, nats/token", shown


def _detail(
    tables: "dict[str, pd.DataFrame]", decision: "Decision", interval: float
) -> list[Section]:
    percent = f"{100 * interval:g} %"
    sections = [
        ("The configurations", _configurations(tables["contenders"])),
        (f"The objective, with {percent} intervals", _objective(tables["contenders"])),
    ]
    if not tables["optimum"].empty:
        heading = f"Where the best of each draw lies, with {percent} intervals"
        sections.append((heading, _optimum(tables["optimum"])))
    return sections


def _configurations(table: "pd.DataFrame") -> Any:
    mixture = ("targets",) if "targets" in table else ()
    headers = ("option", "base", "decay", *mixture, "replay", "steps", "re-warm-up", "peak LR")
    shown = columns(*headers, "final LR", numbers=5)
    for row in table.to_dict("records"):
        shown.add_row(
            row["option"],
            row["base"],
            row["decay_shape"],
            *(row[name] for name in mixture),
            *(number(row[name]) for name in ("replay", "steps", "warmup_steps", "peak", "final")),
        )
    return shown


def _objective(table: "pd.DataFrame") -> Any:
    shown = columns("option", "median", "lower", "upper", "regret", "is the best", numbers=5)
    for row in table.to_dict("records"):
        shown.add_row(
            row["option"],
            *(f"{row[name]:.4f}" for name in ("objective", "objective_lower", "objective_upper")),
            f"{row['regret']:.4f}",
            share(row["p_best"]),
        )
    return shown


def _optimum(table: "pd.DataFrame") -> Any:
    headers = ("quantity", "value", "draws", "median", "lower", "upper", "at lowest", "at highest")
    shown = columns(*headers, "recommended", numbers=7)
    last = None
    for row in table.to_dict("records"):
        named = isinstance(row["value"], str)
        shown.add_row(
            "" if row["quantity"] == last else row["quantity"].replace("_", " "),
            row["value"] if named else "",
            share(row["probability"]) if named else "",
            *("" if named else number(row[name]) for name in ("median", "lower", "upper")),
            *("" if named else share(row[name]) for name in ("at_lowest", "at_highest")),
            ("yes" if row["recommended"] else "") if named else number(row["recommended"]),
        )
        last = row["quantity"]
    return shown


def _write(
    answer: Answer, folder: Path, decision: "Decision", tables: "dict[str, pd.DataFrame]"
) -> dict[str, str]:
    """Write tables, figure, words and plan, and return what was written."""
    from bayes_cpt.study.writers.folder import settings_text

    results = Results(folder)
    results.tables(tables)
    results.text("plan.toml", settings_text(decision.plan()))
    answer.words(results)
    results.figure("figure", decision.plot(), "decision.png")
    return results.shown(answer.written)


def _write_table(
    answer: Answer, target: Path, decision: "Decision", tables: "dict[str, pd.DataFrame]"
) -> dict[str, str]:
    """Write the table of choices, for a paper or for programs, and return what was written."""
    from bayes_cpt.report.paper.result_tables import choices_table

    file = OutputFile(target)
    with file.partial() as partial:
        if target.suffix in NUMBERS:
            write_numbers(tables["contenders"], partial)
        else:
            text = WRITERS[target.suffix](choices_table(decision, answer.interval))
            partial.write_text(text, encoding="utf-8")
    file.say(answer.written)
    return {"contenders": str(target)}


def _content(decision: "Decision", tables: "dict[str, pd.DataFrame]") -> dict[str, Any]:
    valuation, space = decision.valuation, decision.space
    return {
        "objective": valuation.objective.model_dump(mode="json"),
        "reference": valuation.reference.name if valuation.reference else None,
        "space": {name: quantity.model_dump() for name, quantity in space.quantities.items()}
        | {"bases": [base.name for base in space.bases], "decay_shape": space.shapes},
        "searched": list(space.searched),
        "risk": str(decision.trait.measure),
        "kind": "new_run" if decision.trait.new_run else "expected",
        "tolerance": decision.trait.tolerance,
        "draws": valuation.model.draws,
        "candidates": len(decision.search.candidates),
        "feasible": decision.feasible,
        "value_of_perfect_information": dict(
            zip(("nats", "error"), decision.information, strict=True)
        ),
        **{name: table.to_dict("records") for name, table in tables.items()},
        "edges": decision.edges,
        "notes": list(space.notes),
    }

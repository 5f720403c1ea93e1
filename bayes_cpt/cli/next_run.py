"""`bayes-cpt next-run`: which short run would sharpen a decision most for its cost."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayes_cpt.cli.shared.console import Output, columns, number
from bayes_cpt.cli.shared.frame import Answer, Section, footnote, marked, share
from bayes_cpt.cli.shared.options import (
    FitFile,
    Interval,
    Json,
    Objective,
    Quiet,
    Seed,
    SpaceFile,
    Verbose,
    option,
    output_option,
)
from bayes_cpt.cli.shared.outputs import Results, check_new_folder

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.decisions.next_run.run_values import RunValues

# Runs that are printed, and with --verbose; all are written.
SHOWN, MORE = 6, 20


def next_run(
    fit: FitFile,
    runs: Annotated[
        Path | None,
        option(
            "PLAN",
            "Runs that could be trained: a study folder or one TOML file, each with an optional "
            "cost.",
            default="see below",
        ),
    ] = None,
    objective: Objective = "balanced",
    space: SpaceFile = None,
    about: Annotated[
        list[str] | None,
        option(
            "NAME",
            "Coefficient or effect to tell of, as summary names them; may be repeated.",
            default="all",
        ),
    ] = None,
    steps: Annotated[
        int | None,
        option("N", "Length of the default runs.", default="a third of the typical CPT run"),
    ] = None,
    output: Annotated[
        Path | None,
        output_option(
            "FOLDER", "Folder to write tables (CSV), the figure (PNG) and the words into."
        ),
    ] = None,
    candidates: Annotated[
        int, typer.Option(min=1, help="Configurations looked at first; then more near the best.")
    ] = 4096,
    interval: Interval = 0.9,
    draws: Annotated[
        int, typer.Option(min=50, help="Posterior draws to use: more, smaller errors.")
    ] = 2000,
    seed: Seed = 0,
    verbose: Verbose = False,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    r"""Find the short run that would sharpen a decision most for its cost.

    The curves that each run may show are simulated from the posterior, and a regression tells how well the
    configurations of the space could be chosen with them at hand. Runs are ranked by the expected value of
    that (expected value of sample information, nats of the objective) per cost; none is worth more than to
    know the law exactly. Beside it stands what each run tells about coefficients and effects.

    A run pays if it is worth more than its price in the objective, or, without a price, than the same
    steps would gain if they lengthened the run that is chosen now.

    \b
    PLAN, besides what study.toml says of runs:
    \[runs.probe]
    phase = "cpt"
    base = "stable_12k"
    replay = 0.5
    schedule = \[ { shape = "cosine", steps = 1000, start = 0.002, end = 0 } ]
    cost = 1500                   in steps of the long run; its own steps unless given

    Without a PLAN: from every base, at replay 0, 0.25, 0.5 and 0.75, to the PT peak and then annealed to 0
    or held there.

    \b
    Example:
    bayes-cpt next-run fit.nc --objective general-preserving -o next
    bayes-cpt next-run fit.nc --runs probes.toml --about replay_effect --about B

    \b
    Exit codes:
    0  done
    1  done, but the fit falls short of its diagnostics
    2  bad input: nothing is written
    """
    from bayes_cpt.decisions.next_run.next_run import next_run as value
    from bayes_cpt.inference.posterior import load

    written = Output(quiet, json)
    check_new_folder(output)
    posterior = load(fit)
    with written.cautions():
        values = value(
            posterior,
            objective,
            space,
            runs,
            about=tuple(about or ()),
            steps=steps,
            draws=draws,
            candidates=candidates,
            seed=seed,
        )
    tables = {"runs": values.table(), "information": values.information_table()}
    answer = Answer(written, fit, posterior, values, interval)
    shown = tables["runs"].head(SHOWN)
    left = len(tables["runs"]) - len(shown)
    more = [f"{left} more are in --json and in what -o writes."] if left else []
    answer.show(
        [_worth(shown, values)],
        lambda: [_told(tables["runs"].head(MORE))],
        verbose=verbose,
        footnotes=[*footnote(shown["outside"]), *more],
    )
    files = _write(answer, output, values, tables) if output else {}
    perfect = dict(zip(("nats", "error"), values.perfect, strict=True))
    answer.tell(
        {
            "objective": values.valuation.objective.model_dump(mode="json"),
            "seed": seed,
            "draws": values.valuation.model.draws,
            "value_of_perfect_information": perfect,
            **{name: table.to_dict("records") for name, table in tables.items()},
            "as_good_as_the_first": values.as_good(values.order[0]),
            "files": files,
        }
    )
    return 0 if posterior.trustworthy else 1


def _worth(table: "pd.DataFrame", values: "RunValues") -> Section:
    """Return what each run is worth and must be worth, in thousandths of a nat."""
    from bayes_cpt.report.numbers import decimals

    headers = ("run", "cost", "worth", "must be", "changes the choice")
    shown = columns(*headers, numbers=4)
    for row in table.to_dict("records"):
        digits = decimals(1000.0 * row["error"])
        value, error = (f"{1000.0 * row[name]:.{digits}f}" for name in ("value", "error"))
        shown.add_row(
            marked(row["run"], row["outside"]),
            f"{row['cost']:g}",
            f"{value} ± {error}",
            number(1000.0 * row["hurdle"], 2),
            share(row["changes"]),
            style="yellow" if row["outside"] else "",
        )
    name = values.valuation.objective.name
    return f"What runs are worth to {name}, 0.001 nats, the most for its cost first", shown


def _told(table: "pd.DataFrame") -> Section:
    shown = columns("run", "tells most about", "per 1,000 steps\n(0.001 nats)", numbers=1)
    for row in table.to_dict("records"):
        about = f"{row['about'].replace('_', ' ')} on {row['on']}"
        shown.add_row(row["run"], about, f"{1000.0 * row['per_1000_steps']:.2g}")
    return "What each tells most about", shown


def _write(
    answer: Answer, folder: Path, values: "RunValues", tables: "dict[str, pd.DataFrame]"
) -> dict[str, str]:
    """Write tables, figure and words, and return what was written."""
    results = Results(folder)
    results.tables(tables)
    answer.words(results)
    results.figure("figure", values.plot(), "next_run.png")
    return results.shown(answer.written)

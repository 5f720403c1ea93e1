"""`bayes-cpt next-run`: which short run would sharpen a decision most for its cost."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayes_cpt.cli.console import Output, columns
from bayes_cpt.cli.fit import about_fit, show_verdict
from bayes_cpt.cli.options import FitFile, Interval, Json, Objective, Quiet, Seed
from bayes_cpt.cli.targets import Results, check_new_folder

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.decisions.next_run.run_values import RunValues
    from bayes_cpt.inference.posterior import Posterior

# Runs that are printed; all are written.
SHOWN = 12


def next_run(
    fit: FitFile,
    runs: Annotated[
        Path | None,
        typer.Option(
            metavar="PLAN",
            help="Runs that could be trained: a study folder or one TOML file, each with an optional "
            r"cost \[default: see below].",
            show_default=False,
        ),
    ] = None,
    objective: Objective = "balanced",
    space: Annotated[
        Path | None,
        typer.Option(
            metavar="TOML",
            help=r"What may be chosen in the end, as in bayes-cpt decide \[default: its default].",
            show_default=False,
        ),
    ] = None,
    about: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help=r"Coefficient or effect to tell of, as summary names them; may be repeated "
            r"\[default: all].",
            show_default=False,
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help=r"Length of the default runs \[default: a third of the typical CPT run].",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="Folder to write tables (CSV), the figure (PNG) and the words into.",
            show_default=False,
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
        found = value(
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
    tables = {"runs": found.table(), "information": found.information_table()}
    sentences = found.sentences(interval)
    show_verdict(written, posterior)
    _show(written, posterior, found, tables["runs"], sentences)
    files = _write(written, output, found, tables, sentences) if output else {}
    perfect = dict(zip(("nats", "error"), found.perfect, strict=True))
    written.result(
        {
            **about_fit(fit, posterior),
            "objective": found.valuation.objective.model_dump(mode="json"),
            "seed": seed,
            "draws": found.valuation.model.draws,
            "value_of_perfect_information": perfect,
            **{name: table.to_dict("records") for name, table in tables.items()},
            "as_good_as_the_first": found.as_good(found.order[0]),
            "sentences": sentences,
            "files": files,
        }
    )
    return 0 if posterior.trustworthy else 1


def _show(
    written: Output,
    posterior: "Posterior",
    found: "RunValues",
    table: "pd.DataFrame",
    sentences: list[str],
) -> None:
    name = posterior.frame.spec.name
    written.text(f"Next run by {name}, fitted to {posterior.study.name}", "bold")
    value, error = found.perfect
    written.text(
        f"Objective {found.valuation.objective.name}; value of perfect information {value:.5f} ± "
        f"{error:.5f} nats."
    )
    written.heading("What each run is worth, nats of the objective, the most for its cost first")
    written.table(_values(table.head(SHOWN)))
    if len(table) > SHOWN:
        written.text(f"{len(table) - SHOWN} more are in --json and in what -o writes.")
    written.words(sentences)


def _values(table: "pd.DataFrame") -> Any:
    headers = ("run", "", "tells most about", "cost", "worth", "±", "per 1,000", "must be")
    found = columns(*headers, "changes", numbers=6)
    for row in table.to_dict("records"):
        found.add_row(
            row["run"],
            "outside" if row["outside"] else "",
            f"{row['about']} on {row['on']}",
            f"{row['cost']:g}",
            *(f"{row[name]:.5f}" for name in ("value", "error", "per_1000_steps", "hurdle")),
            f"{100 * row['changes']:.0f} %",
            style="yellow" if row["outside"] else "",
        )
    return found


def _write(
    written: Output,
    folder: Path,
    found: "RunValues",
    tables: "dict[str, pd.DataFrame]",
    sentences: list[str],
) -> dict[str, str]:
    """Write tables, figure and words, and return what was written."""
    from bayes_cpt import plots

    results = Results(folder)
    results.tables(tables)
    results.words(sentences)
    results.figure("figure", plots.next_run(found), "next_run.png")
    return results.shown(written)

"""`bayes-cpt landmarks`: what a fit says beside its curves, in tables, figures and plain words."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayes_cpt.cli.console import Output, columns
from bayes_cpt.cli.fit import about_fit, show_verdict
from bayes_cpt.cli.options import FitFile, Interval, Json, Quiet
from bayes_cpt.cli.targets import Results, check_new_folder

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from bayes_cpt.inference.posterior import Posterior
    from bayes_cpt.landmarks import Survey

COURSES = {"stretched": "drawn out", "held": "held at peak"}


def landmarks(
    fit: FitFile,
    plan: Annotated[
        Path | None,
        typer.Option(
            metavar="PLAN",
            help=r"Runs: a study folder, or one TOML file \[default: the fitted runs].",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="Folder to write tables (CSV), figures (PNG) and the words into.",
            show_default=False,
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=r"The run whose base and peak are varied \[default: the first that anneals].",
            show_default=False,
        ),
    ] = None,
    balance: Annotated[
        float,
        typer.Option(
            min=0.0, max=1.0, help="Weight of the general loss in the balance with the target loss."
        ),
    ] = 0.5,
    interval: Interval = 0.9,
    draws: Annotated[int, typer.Option(min=4, help="Posterior draws to use.")] = 500,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    r"""Say which base to start from, how high to re-warm, and whether general loss comes back.

    Everything is computed draw by draw, of the law's curve, without the noise of a measured run:

    \b
    turning length      CPT steps until a loss that rose is back at its base's, as the run is drawn out
                        and as it is held at its peak; with the probability that it never is
    critical point      PT steps past which general loss does not all come back
    loss potential      last losses from bases annealed to different learning rates
    peak learning rate  last losses at different peaks
    bases               last losses from each base of known history

    A fit of a base of unknown history has the first and the fourth alone.

    \b
    Example:
    bayes-cpt landmarks fit.nc --plan plan.toml -o landmarks

    \b
    Exit codes:
    0  done
    1  done, but the fit falls short of its diagnostics
    2  bad input: nothing is written
    """
    from bayes_cpt.inference.posterior import load
    from bayes_cpt.landmarks import survey

    written = Output(quiet, json)
    check_new_folder(output)
    posterior = load(fit)
    with written.cautions():
        found = survey(posterior, plan, run, balance=balance, draws=draws)
    tables, sentences = found.tables(interval), found.sentences(interval)
    show_verdict(written, posterior)
    _show(written, posterior, found, tables, sentences, interval)
    files = _write(written, output, posterior, found, tables, sentences, draws) if output else {}
    written.result(
        {
            **about_fit(fit, posterior),
            "plan": plan and str(plan),
            "run": found.run.name,
            "interval": interval,
            "horizon": found.turning.draws.attrs["horizon"],
            **{name: table.to_dict("records") for name, table in tables.items()},
            "sentences": sentences,
            "files": files,
        }
    )
    return 0 if posterior.trustworthy else 1


def _show(
    written: Output,
    posterior: "Posterior",
    found: "Survey",
    tables: "dict[str, pd.DataFrame]",
    sentences: list[str],
    interval: float,
) -> None:
    name = posterior.frame.spec.name
    written.text(
        f"Landmarks of {found.plan.name} by {name}, fitted to {posterior.study.name}", "bold"
    )
    written.text(f"Medians, with central {100 * interval:g} % intervals.")
    written.heading("Turning length: steps until a loss that rose above its base's is back")
    written.table(_turning(tables["turning_length"]))
    if "critical_point" in tables:
        written.heading("Critical point: PT steps past which general loss does not all come back")
        written.table(_critical(tables["critical_point"]))
    for key, title in (
        ("loss_potential", "loss potential of the base"),
        ("peak_learning_rate", "peak learning rate"),
        ("bases", "base"),
    ):
        if key in tables:
            written.heading(f"Last loss of {found.run.name} against {title}")
            written.table(_response(tables[key]))
    written.words(sentences)


def _turning(table: "pd.DataFrame") -> Any:
    headers = ("run", "schedule", "loss", "never\nrises", "comes\nback", "never\nback")
    found = columns(*headers, "after\nsteps", "lower", "upper", numbers=6)
    last = None
    for row in table.to_dict("records"):
        weight = row["balance"]
        found.add_row(
            "" if row["run"] == last else row["run"],
            COURSES[row["course"]],
            "general" if weight == 1.0 else f"{weight:g} general",
            *(_share(row[name]) for name in ("never_rises", "returns", "never_returns")),
            *(_steps(row[name]) for name in ("median", "lower", "upper")),
            style="yellow" if row["outside"] else "",
        )
        last = row["run"]
    return found


def _critical(table: "pd.DataFrame") -> Any:
    found = columns(
        "replay", "", "rise of general\nloss (nats)", "exists", "steps", "lower", "upper", numbers=5
    )
    for row in table.to_dict("records"):
        found.add_row(
            f"{row['replay']:g}",
            "outside" if row["outside"] else "",
            f"{row['rise']:.4f}",
            _share(row["exists"]),
            *(_steps(row[name]) for name in ("median", "lower", "upper")),
            style="yellow" if row["outside"] else "",
        )
    return found


def _response(table: "pd.DataFrame") -> Any:
    twice = table["rewarmed"].nunique() > 1
    headers = ("on", "re-warmed", "", "value", "base", "last", "lower", "upper", "best")
    found = columns(*(h for h in headers if twice or h != "re-warmed"), numbers=6)
    for row in table.to_dict("records"):
        value = row["value"]
        cells = [
            row["domain"],
            ("yes" if row["rewarmed"] else "no"),
            "outside" if row["outside"] else "",
            value if isinstance(value, str) else f"{value:.4g}",
            *(f"{row[name]:.4f}" for name in ("start", "median", "lower", "upper")),
            _share(row["best"]),
        ]
        found.add_row(
            *(
                cell
                for header, cell in zip(headers, cells, strict=True)
                if twice or header != "re-warmed"
            ),
            style="yellow" if row["outside"] else "",
        )
    return found


def _share(probability: float) -> str:
    return f"{100 * probability:.0f} %"


def _steps(count: float) -> str:
    """Return a number of steps for a table: a dash where there is none, and none with a false digit."""
    if count != count:
        return "-"
    if count == float("inf"):
        return "none"
    return f"{count:.0f}" if count < 1e6 else f"{count:.0e}"


def _write(
    written: Output,
    folder: Path,
    posterior: "Posterior",
    found: "Survey",
    tables: "dict[str, pd.DataFrame]",
    sentences: list[str],
    draws: int,
) -> dict[str, str]:
    """Write tables, figures and words, and return what was written."""
    results = Results(folder)
    results.tables(tables)
    for name, figure in _figures(posterior, found, draws).items():
        results.figure(f"{name}_figure", figure, f"{name}.png")
    results.words(sentences)
    return results.shown(written)


def _figures(posterior: "Posterior", found: "Survey", draws: int) -> "dict[str, Figure]":
    from bayes_cpt import plots
    from bayes_cpt.landmarks import hidden_curves

    name, own = found.run.name, found.choices
    choices = {}
    if own is not None:
        choices = {
            "critical_point": plots.critical_point(own.critical),
            "loss_potential": plots.response(own.direct, own.rewarmed),
            "bases": plots.response(own.bases),
        }
    return choices | {
        "turning_length": plots.turning_length(found.turning),
        "peak_learning_rate": plots.response(found.peaks),
        "hidden_curves": plots.hidden_curves(hidden_curves(posterior, found.plan, [name], draws)),
        "decomposition": plots.decomposition(posterior, found.plan, name),
    }

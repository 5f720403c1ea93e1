"""`bayes-cpt landmarks`: what a fit says beside its curves, in tables, figures and plain words."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayes_cpt.cli.shared.console import Output, columns
from bayes_cpt.cli.shared.frame import SAME, Answer, Section, footnote, marked, share
from bayes_cpt.cli.shared.options import (
    FitFile,
    Interval,
    Json,
    Quiet,
    Target,
    Verbose,
    option,
    output_option,
)
from bayes_cpt.cli.shared.outputs import Results, check_new_folder

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from bayes_cpt.inference.posterior import Posterior
    from bayes_cpt.landmarks import Survey

# Rows of each main table at the most: all of them fit on one screen.
RUNS, REPLAYS, CHOICES = 8, 4, 8
# Shares of draws below which nobody asks after how many steps.
WORTH_A_WORD = 0.05
COURSES = {"stretched": "drawn out", "held": "held at peak"}


def landmarks(
    fit: FitFile,
    plan: Annotated[
        Path | None,
        option("PLAN", "Runs: a study folder, or one TOML file.", default="the fitted runs"),
    ] = None,
    output: Annotated[
        Path | None,
        output_option("FOLDER", "Folder to write tables (CSV), figures (PNG) and the words into."),
    ] = None,
    run: Annotated[
        str | None,
        option("NAME", "The run whose base and peak are varied.", default="the first that anneals"),
    ] = None,
    target: Target = None,
    balance: Annotated[
        float,
        typer.Option(
            min=0.0, max=1.0, help="Weight of the general loss in the balance with the target loss."
        ),
    ] = 0.5,
    interval: Interval = 0.9,
    draws: Annotated[int, typer.Option(min=4, help="Posterior draws to use.")] = 500,
    verbose: Verbose = False,
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

    Of several targets name one: what is told is of runs on it alone.

    A fit of a base of unknown history has the first and the fourth alone. Printed is what they come to;
    --verbose prints all of them, and -o writes them.

    \b
    Example:
    bayes-cpt landmarks fit.nc --plan plan.toml -o landmarks

    \b
    Exit codes:
    0  done
    1  done, but the fit falls short of its diagnostics
    2  bad input: nothing is written
    """
    from bayes_cpt.inference.one_target import in_target
    from bayes_cpt.inference.posterior import load
    from bayes_cpt.landmarks import survey

    written = Output(quiet, json)
    check_new_folder(output)
    posterior = in_target(load(fit), target, "a survey of landmarks")
    with written.cautions():
        landmarks = survey(posterior, plan, run, balance=balance, draws=draws)
    tables = landmarks.tables(interval)
    answer = Answer(written, fit, posterior, landmarks, interval)
    turning = general_rows(tables["turning_length"]).head(RUNS)
    answer.show(
        _main(landmarks, tables, turning, interval),
        lambda: _detail(landmarks, tables, interval),
        verbose=verbose,
        footnotes=[f"{SAME} no difference that can be told", *footnote(turning["outside"])],
    )
    files = _write(answer, output, landmarks, tables, draws) if output else {}
    answer.tell(
        {
            "plan": plan and str(plan),
            "run": landmarks.run.name,
            "horizon": landmarks.turning.draws.attrs["horizon"],
            **{name: table.to_dict("records") for name, table in tables.items()},
            "past_critical_point": _past(landmarks),
            "files": files,
        }
    )
    return 0 if posterior.trustworthy else 1


def _past(landmarks: "Survey") -> dict[str, Any] | None:
    past = landmarks.past()
    if past is None:
        return None
    return {
        "base": landmarks.base.name,
        "replay": landmarks.run.replay or 0.0,
        "probability": past[0],
        "probability_by_prior": past[1],
    }


def _main(
    landmarks: "Survey",
    tables: "dict[str, pd.DataFrame]",
    turning: "pd.DataFrame",
    interval: float,
) -> list[Section]:
    """Return what fits on one screen: effects of the choices, and what becomes of general loss."""
    percent = f"{100 * interval:g} %"
    heading = (
        f"What a choice does to the last losses of {landmarks.run.name}, nats ({percent} intervals)"
    )
    sections = [(heading, _effects(landmarks, interval))]
    left = tables["turning_length"]["run"].nunique() - len(turning)
    more = f" ({left} more runs with --verbose)" if left else ""
    sections.append((f"Does general loss come back to that of its base?{more}", _returns(turning)))
    if "critical_point" in tables:
        heading = "Critical point: PT steps past which general loss does not all come back"
        sections.append((heading, _critical_in_short(tables["critical_point"].head(REPLAYS))))
    return sections


def general_rows(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return what becomes of general loss alone as each run is drawn out."""
    return table[(table["balance"] == 1.0) & (table["course"] == "stretched")]


def _effects(landmarks: "Survey", interval: float) -> Any:
    from bayes_cpt.report.words.landmark import effects

    rows = effects(landmarks, interval)
    shown = columns("choice", *map(str, landmarks.peaks.draws["domain"].to_numpy()), numbers=2)
    for choice, changes in rows[:CHOICES]:
        shown.add_row(
            choice,
            *(f"{change.change if change.is_told else SAME} ({change.band})" for change in changes),
        )
    return shown


def _returns(table: "pd.DataFrame") -> Any:
    from bayes_cpt.report.numbers import MANY, signed, steps

    headers = ("run", "steps", "change then", "back\nthen", "back if\ndrawn out", "after steps")
    shown = columns(*headers, numbers=5)
    for row in table.to_dict("records"):
        spread = (row["change_upper"] - row["change_lower"]) / 3.0
        lower, upper = (signed(row[f"change_{end}"], spread) for end in ("lower", "upper"))
        after = f"{steps(row['lower'])} to {steps(row['upper'])}"
        if row["lower"] > MANY:
            after = steps(row["lower"])
        shown.add_row(
            marked(row["run"], row["outside"]),
            f"{row['planned_steps']}",
            f"{signed(row['change'], spread)} ({lower} to {upper})",
            share(row["back"]),
            share(1.0 - row["never_returns"]),
            after if row["returns"] >= WORTH_A_WORD else "-",
            style="yellow" if row["outside"] else "",
        )
    return shown


def _critical_in_short(table: "pd.DataFrame") -> Any:
    from bayes_cpt.report.numbers import steps

    shown = columns("replay", "exists", "by the prior alone", "PT steps", numbers=4)
    for row in table.to_dict("records"):
        median, lower, upper = (steps(row[name]) for name in ("median", "lower", "upper"))
        shown.add_row(
            f"{row['replay']:g}",
            share(row["exists"]),
            share(row["exists_prior"]),
            median if lower == upper else f"{median} ({lower} to {upper})",
        )
    return shown


def _detail(
    landmarks: "Survey", tables: "dict[str, pd.DataFrame]", interval: float
) -> list[Section]:
    title = f"Turning length: steps until a loss that rose is back ({100 * interval:g} % intervals)"
    sections = [(title, _turning(tables["turning_length"]))]
    if "critical_point" in tables:
        title = "Critical point: PT steps past which general loss does not all come back"
        sections.append((title, _critical(tables["critical_point"])))
    for key, title in (
        ("loss_potential", "loss potential of the base"),
        ("peak_learning_rate", "peak learning rate"),
        ("bases", "base"),
    ):
        if key in tables:
            heading = f"Last loss of {landmarks.run.name} against {title}"
            sections.append((heading, _response(tables[key])))
    return sections


def _turning(table: "pd.DataFrame") -> Any:
    headers = ("run", "schedule", "loss", "never\nrises", "comes\nback", "never\nback")
    shown = columns(*headers, "after\nsteps", "lower", "upper", numbers=6)
    last = None
    for row in table.to_dict("records"):
        weight = row["balance"]
        shown.add_row(
            "" if row["run"] == last else row["run"],
            COURSES[row["course"]],
            "general" if weight == 1.0 else f"{weight:g} general",
            *(share(row[name]) for name in ("never_rises", "returns", "never_returns")),
            *(_steps(row[name]) for name in ("median", "lower", "upper")),
            style="yellow" if row["outside"] else "",
        )
        last = row["run"]
    return shown


def _critical(table: "pd.DataFrame") -> Any:
    shown = columns(
        "replay",
        "",
        "rise of general\nloss (nats)",
        "exists",
        "by prior",
        "steps",
        "lower",
        "upper",
        numbers=6,
    )
    for row in table.to_dict("records"):
        shown.add_row(
            f"{row['replay']:g}",
            "outside" if row["outside"] else "",
            f"{row['rise']:.4f}",
            share(row["exists"]),
            share(row["exists_prior"]),
            *(_steps(row[name]) for name in ("median", "lower", "upper")),
            style="yellow" if row["outside"] else "",
        )
    return shown


def _response(table: "pd.DataFrame") -> Any:
    twice = table["rewarmed"].nunique() > 1
    headers = ("on", "re-warmed", "", "value", "base", "last", "lower", "upper", "best")
    shown = columns(*(h for h in headers if twice or h != "re-warmed"), numbers=6)
    for row in table.to_dict("records"):
        value = row["value"]
        cells = [
            row["domain"],
            ("yes" if row["rewarmed"] else "no"),
            "outside" if row["outside"] else "",
            value if isinstance(value, str) else f"{value:.4g}",
            *(f"{row[name]:.4f}" for name in ("start", "median", "lower", "upper")),
            share(row["best"]),
        ]
        shown.add_row(
            *(
                cell
                for header, cell in zip(headers, cells, strict=True)
                if twice or header != "re-warmed"
            ),
            style="yellow" if row["outside"] else "",
        )
    return shown


def _steps(count: float) -> str:
    """Return a number of steps for a table: a dash where there is none, and none with a false digit."""
    if count != count:
        return "-"
    if count == float("inf"):
        return "none"
    return f"{count:.0f}" if count < 1e6 else f"{count:.0e}"


def _write(
    answer: Answer,
    folder: Path,
    landmarks: "Survey",
    tables: "dict[str, pd.DataFrame]",
    draws: int,
) -> dict[str, str]:
    """Write tables, figures and words, and return what was written."""
    results = Results(folder)
    results.tables(tables)
    for name, figure in _figures(answer.posterior, landmarks, draws).items():
        results.figure(f"{name}_figure", figure, f"{name}.png")
    answer.words(results)
    return results.shown(answer.written)


def _figures(posterior: "Posterior", landmarks: "Survey", draws: int) -> "dict[str, Figure]":
    from bayes_cpt import plots
    from bayes_cpt.landmarks import hidden_curves

    name, plan, choices = landmarks.run.name, landmarks.plan, landmarks.choices
    figures = {}
    if choices is not None:
        figures = {
            "critical_point": plots.critical_point(choices.critical),
            "loss_potential": plots.response(choices.direct, choices.rewarmed),
            "bases": plots.response(choices.bases),
        }
    return figures | {
        "turning_length": plots.turning_length(landmarks.turning),
        "peak_learning_rate": plots.response(landmarks.peaks),
        "hidden_curves": plots.hidden_curves(hidden_curves(posterior, plan, [name], draws)),
        "decomposition": plots.decomposition(posterior, plan, name),
    }

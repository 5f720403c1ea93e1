"""`bayes-cpt landmarks`: what a fit says beside its curves, in tables, figures and plain words."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayes_cpt.cli.options import (
    FitFile,
    Interval,
    Json,
    Quiet,
    Target,
    Verbose,
    option,
    output_option,
)
from bayes_cpt.cli.output import Output, Row, check_folder, footnote, share, starred
from bayes_cpt.cli.running import SAME, Answer, Section

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
CRITICAL = "Critical point: PT steps past which general loss does not all come back"
RESPONSES = {
    "loss_potential": "loss potential of the base",
    "peak_learning_rate": "peak learning rate",
    "bases": "base",
}


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
    from bayes_cpt.inference.posterior import load
    from bayes_cpt.landmarks import survey

    written = Output(quiet, json)
    check_folder(output, new=True)
    posterior = load(fit).of_target(target, "a survey of landmarks")
    with written.cautions():
        found = survey(posterior, plan, run, balance=balance, draws=draws)
    tables = found.tables(interval)
    answer = Answer(written, fit, posterior, found, interval)
    answer.write(output, tables, _figures(posterior, found, draws) if output else {})
    turning = tables["turning_length"]
    drawn_out = (turning["balance"] == 1.0) & (turning["course"] == "stretched")
    turning = turning[drawn_out].head(RUNS)
    answer.show(
        _main(found, tables, turning, interval),
        lambda: _detail(found, tables, interval),
        verbose=verbose,
        footnotes=[f"{SAME} no detectable difference", *footnote(turning["outside"])],
    )
    past = found.past()
    return answer.finish(
        {
            "plan": plan and str(plan),
            "run": found.run.name,
            "horizon": found.turning.draws.attrs["horizon"],
            **tables,
            "past_critical_point": past
            and {
                "base": found.base.name,
                "replay": found.run.replay or 0.0,
                "probability": past[0],
                "probability_by_prior": past[1],
            },
        }
    )


def _main(
    found: "Survey", tables: "dict[str, pd.DataFrame]", turning: "pd.DataFrame", interval: float
) -> list[Section]:
    """Return what fits on one screen: effects of the choices, and what becomes of general loss."""
    left = tables["turning_length"]["run"].nunique() - len(turning)
    more = f" ({left} more runs with --verbose)" if left else ""
    title = f"Does general loss come back to that of its base?{more}"
    sections = [_effects(found, interval), _returns(title, turning)]
    if "critical_point" in tables:
        sections.append(_critical_in_short(tables["critical_point"].head(REPLAYS)))
    return sections


def _effects(found: "Survey", interval: float) -> Section:
    import pandas as pd

    from bayes_cpt.report.landmarks import effects

    domains = [str(domain) for domain in found.peaks.draws["domain"].to_numpy()]
    rows = [
        [choice]
        + [
            f"{change.change if change.is_detectable else SAME} ({change.band})"
            for change in changes
        ]
        for choice, changes in effects(found, interval)[:CHOICES]
    ]
    cells: dict[str, Any] = {"choice": "choice"} | {domain: (domain, str) for domain in domains}
    title = f"What a choice does to the last losses of {found.run.name}, nats"
    table = pd.DataFrame(rows, columns=["choice", *domains])
    return Section(f"{title} ({100 * interval:g} % intervals)", table, cells)


def _returns(title: str, table: "pd.DataFrame") -> Section:
    from bayes_cpt.report.numbers import MANY, signed, steps

    def change(row: Row) -> str:
        spread = (row["change_upper"] - row["change_lower"]) / 3.0
        middle, lower, upper = (
            signed(row[name], spread) for name in ("change", "change_lower", "change_upper")
        )
        return f"{middle} ({lower} to {upper})"

    def after(row: Row) -> str:
        if row["returns"] < WORTH_A_WORD:
            return "-"
        lower = steps(row["lower"])
        return lower if row["lower"] > MANY else f"{lower} to {steps(row['upper'])}"

    cells = {
        "run": "run",
        "steps": ("planned_steps", str),
        "change then": change,
        "back\nthen": ("back", share),
        "back if\ndrawn out": lambda row: share(1.0 - row["never_returns"]),
        "after steps": after,
    }
    return Section(title, starred(table, "run"), cells, {"marked": table["outside"]})


def _critical_in_short(table: "pd.DataFrame") -> Section:
    from bayes_cpt.report.numbers import steps

    def interval(row: Row) -> str:
        median, lower, upper = (steps(row[name]) for name in ("median", "lower", "upper"))
        return median if lower == upper else f"{median} ({lower} to {upper})"

    cells = {
        "replay": ("replay", "g"),
        "exists": ("exists", share),
        "by the prior alone": ("exists_prior", share),
        "PT steps": interval,
    }
    return Section(CRITICAL, table, cells)


def _detail(found: "Survey", tables: "dict[str, pd.DataFrame]", interval: float) -> list[Section]:
    title = f"Turning length: steps until a loss that rose is back ({100 * interval:g} % intervals)"
    sections = [_turning(title, tables["turning_length"])]
    if "critical_point" in tables:
        sections.append(_critical(tables["critical_point"]))
    for name, choice in RESPONSES.items():
        if name in tables:
            heading = f"Last loss of {found.run.name} against {choice}"
            sections.append(_response(heading, tables[name]))
    return sections


def _turning(title: str, table: "pd.DataFrame") -> Section:
    cells = {"run": "run", "schedule": "schedule", "loss": "loss"}
    cells |= {
        "never\nrises": ("never_rises", share),
        "comes\nback": ("returns", share),
        "never\nback": ("never_returns", share),
        "after\nsteps": ("median", _steps),
        "lower": ("lower", _steps),
        "upper": ("upper", _steps),
    }
    loss = ["general" if weight == 1.0 else f"{weight:g} general" for weight in table["balance"]]
    rows = table.assign(schedule=table["course"].map(COURSES), loss=loss)
    return Section(title, rows, cells, {"marked": table["outside"], "group": "run"})


def _critical(table: "pd.DataFrame") -> Section:
    cells = {
        "replay": ("replay", "g"),
        "": lambda row: "outside" if row["outside"] else "",
        "rise of general\nloss (nats)": ("rise", ".4f"),
        "exists": ("exists", share),
        "by prior": ("exists_prior", share),
        "steps": ("median", _steps),
        "lower": ("lower", _steps),
        "upper": ("upper", _steps),
    }
    return Section(CRITICAL, table, cells, {"marked": table["outside"]})


def _response(heading: str, table: "pd.DataFrame") -> Section:
    cells: dict[str, Any] = {"on": "domain"}
    if table["rewarmed"].nunique() > 1:
        cells["re-warmed"] = "again"
    cells |= {"": "beyond", "value": "value", "base": ("start", ".4f"), "last": ("median", ".4f")}
    cells |= {"lower": ("lower", ".4f"), "upper": ("upper", ".4f"), "best": ("best", share)}
    rows = table.assign(
        again=table["rewarmed"].map({True: "yes", False: "no"}),
        beyond=["outside" if outside else "" for outside in table["outside"]],
    )
    return Section(heading, rows, cells, {"marked": table["outside"]})


def _steps(count: float) -> str:
    """Return a number of steps for a table: a dash where there is none, and none with a false digit."""
    if count != count:
        return "-"
    if count == float("inf"):
        return "none"
    return f"{count:.0f}" if count < 1e6 else f"{count:.0e}"


def _figures(posterior: "Posterior", found: "Survey", draws: int) -> "dict[str, Figure]":
    from bayes_cpt import plots
    from bayes_cpt.landmarks import hidden_curves

    name, plan, choices = found.run.name, found.plan, found.choices
    figures = {
        "landmarks": plots.landmarks(found.turning, choices.critical if choices else None),
        "peak_learning_rate": plots.response(found.peaks),
        "hidden_curves": plots.hidden_curves(hidden_curves(posterior, plan, [name], draws)),
        "decomposition": plots.decomposition(posterior, plan, name),
    }
    if choices is not None:
        figures["loss_potential"] = plots.response(choices.direct, choices.rewarmed)
        figures["bases"] = plots.response(choices.bases)
    return figures

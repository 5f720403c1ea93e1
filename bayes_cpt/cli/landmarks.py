"""`bayes-cpt landmarks`: what a fit says beside its curves, in tables, figures and plain words."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayes_cpt.cli.options import (
    Draws,
    FitFile,
    Interval,
    Json,
    Plan,
    Quiet,
    ResultFolder,
    Target,
    Verbose,
    option,
)
from bayes_cpt.cli.output import Output, Row, check_folder, footnote, starred, with_beyond
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
TURNING = (
    "run | schedule | loss | never\nrises=never_rises:% | comes\nback=returns:% | "
    "never\nback=never_returns:% | after\nsteps=median:3 | lower:3 | upper:3"
)
CRITICAL_CELLS = (
    "replay:g | =beyond | rise of general\nloss (nats)=rise:.4f | exists:% | by prior=exists_prior:% | "
    "steps=median:3 | lower:3 | upper:3"
)
RESPONSE = (
    "on=domain | re-warmed=rewarmed:text | =beyond | value | base=start:.4f | last=median:.4f | "
    "lower:.4f | upper:.4f | best:%"
)
RESPONSES = {
    "loss_potential": "loss potential of the base",
    "peak_learning_rate": "peak learning rate",
    "bases": "base",
}


def landmarks(
    fit: FitFile,
    plan: Plan = None,
    output: ResultFolder = None,
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
    draws: Draws = 500,
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
    cells: dict[str, Any] = {"choice": "choice"} | {domain: (domain, "text") for domain in domains}
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

    rows = starred(table, "run").assign(drawn_out=1.0 - table["never_returns"])
    rows["then"] = [change(row) for row in table.to_dict("records")]
    rows["after"] = [after(row) for row in table.to_dict("records")]
    cells = (
        "run | steps=planned_steps:text | change then=then:text | back\nthen=back:% | "
        "back if\ndrawn out=drawn_out:% | after steps=after:text"
    )
    return Section(title, rows, cells, table["outside"])


def _critical_in_short(table: "pd.DataFrame") -> Section:
    from bayes_cpt.report.numbers import steps

    def interval(row: Row) -> str:
        median, lower, upper = (steps(row[name]) for name in ("median", "lower", "upper"))
        return median if lower == upper else f"{median} ({lower} to {upper})"

    cells = {"replay": ("replay", "g"), "exists": ("exists", "%")}
    cells |= {"by the prior alone": ("exists_prior", "%")}
    return Section(CRITICAL, table, cells | {"PT steps": interval})


def _detail(found: "Survey", tables: "dict[str, pd.DataFrame]", interval: float) -> list[Section]:
    turning = tables["turning_length"]
    weights = turning["balance"].map("{:g} general".format).replace("1 general", "general")
    turning = turning.assign(schedule=turning["course"].map(COURSES), loss=weights)
    title = f"Turning length: steps until a loss that rose is back ({100 * interval:g} % intervals)"
    sections = [Section(title, turning, TURNING, turning["outside"], group="run")]
    if "critical_point" in tables:
        critical = with_beyond(tables["critical_point"])
        sections.append(Section(CRITICAL, critical, CRITICAL_CELLS, critical["outside"]))
    for name, choice in RESPONSES.items():
        if name in tables:
            heading = f"Last loss of {found.run.name} against {choice}"
            rows = with_beyond(tables[name])
            sections.append(Section(heading, rows, RESPONSE, rows["outside"]))
    return sections


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

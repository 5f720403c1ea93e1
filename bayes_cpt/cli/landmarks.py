"""`bayes-cpt landmarks`: what a fit says beside its curves, in tables, figures and plain words."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayes_cpt.cli.options import command
from bayes_cpt.cli.output import Answer, Results
from bayes_cpt.cli.running import SAME, advised
from bayes_cpt.report.tables import Row, Table, columns, star, starred

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
RESPONSE = (
    "on=domain | re-warmed=rewarmed:text | value | base=start:.4f | last=median:.4f | "
    "lower:.4f | upper:.4f | best:%"
)
RESPONSES = {
    "loss_potential": "loss potential of the base",
    "peak_learning_rate": "peak learning rate",
    "bases": "base",
}


@command
def landmarks(
    fit: Path,
    *,
    plan: Path | None = None,
    output: Path | None = None,
    run: str | None = None,
    target: str | None = None,
    balance: Annotated[float, typer.Option(min=0.0, max=1.0)] = 0.5,
    interval: float = 0.9,
    draws: int = 500,
    verbose: bool = False,
) -> Answer:
    r"""Say which base to start from, how high to re-warm, and whether general loss comes back.

    Everything is computed draw by draw, of the law's curve, without the noise of a measured run:

    \b
    turning length      CPT steps after which a loss that rose is back at its base's and stays so, as the
                        run is drawn out and as it is held at its peak; with the probability of never
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

    Parameters
    ----------
    run : NAME
        The run whose base and peak are varied [default: the first that anneals].
    balance
        Weight of the general loss in the balance with the target loss.
    """
    from bayes_cpt.inference.posterior import load
    from bayes_cpt.landmarks import survey

    results = Results(output)
    posterior = load(fit).of_target(target, "a survey of landmarks")
    found = survey(posterior, plan, run, balance=balance, draws=draws)
    tables, past = found.tables(interval), found.past()
    content = {
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
    return advised(
        fit,
        posterior,
        found,
        interval,
        results,
        content,
        tables=tables,
        figures=_figures(posterior, found, draws),
        main=_main(found, tables, interval, verbose=verbose),
        detail=lambda: _detail(found, tables, interval),
        verbose=verbose,
    )


def _main(
    found: "Survey", tables: "dict[str, pd.DataFrame]", interval: float, *, verbose: bool
) -> list[Table]:
    """Return effects of the choices, and what becomes of general loss; without verbose on one screen."""
    turning = tables["turning_length"]
    drawn_out = (turning["balance"] == 1.0) & (turning["course"] == "stretched")
    left = 0 if verbose else turning["run"].nunique() - RUNS
    more = f" ({left} more runs with --verbose)" if left > 0 else ""
    title = f"Does general loss come back to that of its base?{more}"
    rows, critical = turning[drawn_out], tables.get("critical_point")
    shown = [_effects(found, interval), _returns(title, rows if verbose else rows.head(RUNS))]
    if critical is not None:
        shown.append(_critical(critical if verbose else critical.head(REPLAYS)))
    return shown


def _effects(found: "Survey", interval: float) -> Table:
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
    return Table(
        f"What a choice does to the last losses of {found.run.name}, nats ({100 * interval:g} % intervals)",
        pd.DataFrame(rows, columns=["choice", *domains]),
        {"choice": "choice"} | {domain: (domain, "text") for domain in domains},
        note=f"{SAME} no detectable difference",
    )


def _returns(title: str, table: "pd.DataFrame") -> Table:
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

    cells = columns("run | steps=planned_steps:text") | {"change then": change}
    cells |= columns("back\nthen=back:% | back if\ndrawn out=drawn_out:%") | {"after steps": after}
    rows = starred(table, "run").assign(drawn_out=1.0 - table["never_returns"])
    return Table(title, rows, cells, note=star(table["outside"]), marked=table["outside"])


def _critical(table: "pd.DataFrame") -> Table:
    from bayes_cpt.report.numbers import steps

    def interval(row: Row) -> str:
        median, lower, upper = (steps(row[name]) for name in ("median", "lower", "upper"))
        return median if lower == upper else f"{median} ({lower} to {upper})"

    cells = columns("replay:g | exists:% | by the prior alone=exists_prior:%")
    return Table(CRITICAL, table, cells | {"PT steps": interval})


def _detail(found: "Survey", tables: "dict[str, pd.DataFrame]", interval: float) -> list[Table]:
    turning = tables["turning_length"]
    weights = turning["balance"].map("{:g} general".format).replace("1 general", "general")
    turning = turning.assign(schedule=turning["course"].map(COURSES), loss=weights)
    title = f"Turning length: steps until a loss that rose is back ({100 * interval:g} % intervals)"
    shown = [(title, starred(turning, "run"), TURNING, "run")]
    for name, choice in RESPONSES.items():
        if name in tables:
            title = f"Last loss of {found.run.name} against {choice}"
            shown.append((title, starred(tables[name], "domain"), RESPONSE, ""))
    return [
        Table(title, rows, cells, note=star(rows["outside"]), marked=rows["outside"], group=group)
        for title, rows, cells, group in shown
    ]


def _figures(
    posterior: "Posterior", found: "Survey", draws: int
) -> "dict[str, Callable[[], Figure]]":
    from bayes_cpt import plots
    from bayes_cpt.landmarks import hidden_curves

    name, plan, choices = found.run.name, found.plan, found.choices

    def curves() -> "Figure":
        return plots.hidden_curves(hidden_curves(posterior, plan, [name], draws))

    figures: dict[str, Callable[[], Figure]] = {
        "landmarks": lambda: plots.landmarks(found.turning, choices.critical if choices else None),
        "peak_learning_rate": lambda: plots.response(found.peaks),
        "hidden_curves": curves,
        "decomposition": lambda: plots.decomposition(posterior, plan, name),
    }
    if choices is not None:
        figures["loss_potential"] = lambda: plots.response(choices.direct, choices.rewarmed)
        figures["bases"] = lambda: plots.response(choices.bases)
    return figures

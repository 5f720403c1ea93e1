"""`bayes-cpt landmarks`: what a fit says beside its curves, in tables, figures and plain words."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import bayes_cpt
from bayes_cpt.cli.options import command
from bayes_cpt.cli.output import Answer, Results
from bayes_cpt.cli.running import advised
from bayes_cpt.report.tables import Table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from bayes_cpt.inference.posterior import Posterior
    from bayes_cpt.landmarks import Survey

# Runs, and replay ratios, that are printed: all fits on one screen, and the rest is written.
RUNS, REPLAYS = 8, 4
# Shares of draws below which nobody asks after how many steps.
WORTH_A_WORD = 0.05


@command
def landmarks(
    fit: Path,
    *,
    plan: Path | None = None,
    output: Path | None = None,
    run: str | None = None,
    target: str | None = None,
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

    A fit of a base of unknown history has the first and the fourth alone. Printed is what they come to; -o
    and --json have all of them.

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
    """
    from bayes_cpt.landmarks import survey

    results = Results(output)
    posterior = bayes_cpt.load(fit).of_target(target, "a survey of landmarks")
    found = survey(posterior, plan, run, draws=draws)
    tables, past = found.tables(interval), found.past()
    content = {
        "run": found.run.name,
        "horizon": found.turning.draws.attrs["horizon"],
        "past_critical_point": past
        and {
            "base": found.base.name,
            "replay": found.run.replay or 0.0,
            "probability": past[0],
            "probability_by_prior": past[1],
        },
    }
    return advised(
        posterior,
        found,
        interval,
        results,
        content,
        tables=tables,
        figures=_figures(posterior, found, draws),
        parts=_shown(found, tables, interval),
        verbose=verbose,
    )


def _shown(found: "Survey", tables: "dict[str, pd.DataFrame]", interval: float) -> list[Table]:
    """Return what the choice of a base does, else of a peak, and what becomes of general loss."""
    turning = tables["turning_length"]
    general = turning[turning["course"] == "stretched"]
    rows = general.assign(drawn_out=1.0 - general["never_returns"])
    rows["median"] = rows["median"].where(rows["returns"] >= WORTH_A_WORD)
    left = len(rows) - RUNS
    more = f" ({left} more runs in --json and in what -o writes)" if left > 0 else ""
    choice = tables["bases" if "bases" in tables else "peak_learning_rate"]
    shown = [_response(found, choice, interval), Table.of("turning", rows.head(RUNS), more=more)]
    if (critical := tables.get("critical_point")) is not None:
        shown.append(Table.of("critical", critical.head(REPLAYS)))
    return shown


def _response(found: "Survey", table: "pd.DataFrame", interval: float) -> Table:
    """Return the last losses of a run against one choice."""
    values = table["value"].map(lambda own: own if isinstance(own, str) else f"{own:.3g}")
    named = {"run": found.run.name, "choice": table["choice"].iloc[0]}
    return Table.of("response", table.assign(value=values), interval=interval, **named)


def _figures(
    posterior: "Posterior", found: "Survey", draws: int
) -> "dict[str, Callable[[], Figure]]":
    from bayes_cpt.landmarks import hidden_curves

    plots, name, plan, choices = bayes_cpt.plots, found.run.name, found.plan, found.choices
    figures: dict[str, Callable[[], Figure]] = {
        "landmarks": lambda: plots.landmarks(found.turning, choices.critical if choices else None),
        "peak_learning_rate": lambda: plots.response(found.peaks),
        "hidden_curves": lambda: plots.hidden_curves(hidden_curves(posterior, plan, [name], draws)),
        "decomposition": lambda: plots.decomposition(posterior, plan, name),
    }
    if choices is not None:
        figures["loss_potential"] = lambda: plots.response(choices.direct, choices.rewarmed)
        figures["bases"] = lambda: plots.response(choices.bases)
    return figures

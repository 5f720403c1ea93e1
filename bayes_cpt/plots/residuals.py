"""What the expected curves leave of measured losses: along the runs, and in each part of a run."""

from typing import TYPE_CHECKING

import numpy as np

from bayes_cpt.forecast.bands import bands
from bayes_cpt.forecast.quality import STAGES, systematic
from bayes_cpt.forecast.quality import residuals as residual_table
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.plots import panels
from bayes_cpt.plots.style import GREY, INK, colour, dress, new_figure, styled
from bayes_cpt.study.ranges import SLACK
from bayes_cpt.study.study import Study

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MASS = 0.9
DRAWS = 400
WIDTH, HEIGHT = 4.2, 2.5
BEYOND = "#E69F00"


@styled
def residuals(posterior: Posterior, study: Study | None = None) -> "Figure":
    """Return a figure of measured losses less the expected curves.

    Parameters
    ----------
    posterior : Posterior
    study : Study, optional
        Other runs, that the fit never saw; the fitted study unless given.

    Returns
    -------
    matplotlib.figure.Figure
        One column per validation set. Above: a line per run, and the 90 % band that the fit has for them,
        the widest and the narrowest of any of these runs. Below: the mean over runs in each part of a run
        with 2 standard errors, filled where it is off to one side; in yellow beyond the fitted steps.
    """
    table = residual_table(posterior, study, DRAWS)
    widths = _widths(posterior, study, table)
    domains = posterior.frame.domains
    figure = new_figure(WIDTH * len(domains), 2.0 * HEIGHT + 0.4)
    grid = figure.subplots(2, len(domains), squeeze=False, sharey="row")
    for i, domain in enumerate(domains):
        measured = table[table["domain"] == domain]
        _draw_runs(grid[0, i], measured, widths[widths["domain"] == domain], i)
        _draw_stages(grid[1, i], measured, i)
        grid[0, i].set_title(f"validation set: {domain}", color=colour(i), fontweight="bold")
    grid[0, 0].set_ylabel("measured less expected\n(nats/token)")
    grid[1, 0].set_ylabel("mean over runs\n(nats/token)")
    entries = {
        "a run": panels.line(INK, linewidth=0.8),
        "its 90 % predictive band, widest and narrowest": panels.line(
            GREY, linestyle="--", linewidth=0.8
        ),
        "is off to one side": panels.line(GREY, marker="o", linestyle=""),
        "does not": panels.line(GREY, marker="o", markerfacecolor="white", linestyle=""),
    }
    if (table["ratio"] > SLACK).any():
        entries["beyond the fitted steps"] = panels.line(BEYOND, marker="o", linestyle="")
    panels.legend(figure, entries)
    return figure


def _widths(posterior: Posterior, study: Study | None, table: "pd.DataFrame") -> "pd.DataFrame":
    """Return half the width of the 90 % band of a new run at each point."""
    points = table[["run", "domain", "step"]]
    run_bands = bands(posterior, study, at=points, interval=MASS, draws=DRAWS)
    return run_bands.assign(half=0.5 * (run_bands["upper"] - run_bands["lower"]))


def _draw_runs(axes: "Axes", measured: "pd.DataFrame", widths: "pd.DataFrame", index: int) -> None:
    for _, run in measured.groupby("run", sort=False):
        axes.plot(run["step"], run["residual"], color=colour(index), linewidth=0.8, alpha=0.6)
    ordered = widths.sort_values("step")
    # Widest and narrowest of the runs at hand over a tenth of a decade.
    groups = ordered.groupby(np.round(10.0 * np.log10(ordered["step"])))
    steps = groups["step"].mean()
    for edge in (groups["half"].max(), groups["half"].min()):
        for side in (-1.0, 1.0):
            axes.plot(steps, side * edge, color=GREY, linestyle="--", linewidth=0.8)
    axes.axhline(0.0, color=INK, linewidth=0.6)
    axes.set_xscale("log")
    axes.set_xlabel("step (logarithmic axis)")
    dress(axes)


def _draw_stages(axes: "Axes", measured: "pd.DataFrame", index: int) -> None:
    inside = measured["ratio"] <= SLACK
    parts = [(systematic(measured[inside]), colour(index))]
    if not inside.all():
        parts.append((systematic(measured[~inside]), BEYOND))
    for side, (table, shade) in enumerate(parts):
        places = [
            STAGES.index(stage) + 0.16 * (side - 0.5 * (len(parts) - 1)) for stage in table["stage"]
        ]
        for place, row in zip(places, table.to_dict("records"), strict=True):
            axes.errorbar(
                place,
                row["mean"],
                2.0 * np.nan_to_num(row["error"]),
                fmt="o",
                markersize=4.0,
                linewidth=1.0,
                color=shade,
                markerfacecolor=shade if row["systematic"] else "white",
            )
    axes.axhline(0.0, color=INK, linewidth=0.6)
    axes.set_xticks(range(len(STAGES)), [stage.replace(" of ", "\nof ") for stage in STAGES])
    axes.set_xlim(-0.5, len(STAGES) - 0.5)
    dress(axes)

"""A fit beside its runs: the law's curves with their bands, and what they leave of the measured losses."""

from collections.abc import Collection

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayes_cpt.forecast.bands import bands as forecast_bands
from bayes_cpt.forecast.quality import STAGES, systematic
from bayes_cpt.forecast.quality import residuals as residual_table
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.plots import panels
from bayes_cpt.plots.style import (
    BAND,
    GREY,
    INK,
    PALETTE,
    WIDE_BAND,
    colour,
    dress,
    new_figure,
    styled,
)
from bayes_cpt.study.ranges import SLACK
from bayes_cpt.study.study import Study

MASS = 0.9
DRAWS = 400
# Panels in a row of a block: with many validation sets one, so that the figure is as wide as a page.
COLUMNS, MANY_SETS = 2, 3
# Least height of a panel, nats/token.
SPAN = 0.2
# Inches of a panel of residuals, and the colour of what lies beyond the fitted steps.
WIDTH, HEIGHT, BEYOND = 4.2, 2.5, PALETTE[4]


@styled
def fitted(
    posterior: Posterior,
    runs: Collection[str] | None = None,
) -> Figure:
    """Return a figure of measured losses over the law's curves, one panel per run.

    Parameters
    ----------
    posterior : Posterior
    runs : collection of str, optional
        Names of runs of the study; its CPT runs unless given (its PT runs where it has no others).

    Returns
    -------
    matplotlib.figure.Figure
        One block of panels per validation set. The pale band is about another run trained like this one: it
        shows whether the fit allows for what was measured.

    Raises
    ------
    StudyError
        If a run is not in the study.
    """
    study, domains = posterior.study, posterior.frame.domains
    default = posterior.frame.spec.law.last_phase_runs(study)
    shown = default if runs is None else tuple(study.run(name) for name in runs)
    plan = study.subset([run.name for run in shown])
    bands = posterior.predict(plan, kind="new_run", draws=DRAWS)
    columns = min(COLUMNS if len(domains) < MANY_SETS else 1, len(shown))
    figure, axes = panels.blocks(domains, len(shown), columns, (2.4, 1.55))
    for i, domain in enumerate(domains):
        for j, (panel, run) in enumerate(zip(axes[i], shown, strict=True)):
            own = bands.sel(run=run.name, domain=domain)
            steps, loss = panels.draws_of(own["loss"])
            panels.band(panel, steps, loss, MASS, color=colour(i))
            law = panels.draws_of(own["expected"])
            panels.curve(panel, *law, (MASS,), color=colour(i), alpha=BAND)
            # A base's own loss, at step 0, belongs to its CPT run.
            panels.dots(panel, *study.curve(run.name, domain), after=steps[0] - 2)
            panels.widen(panel, SPAN)
            panels.run_axis(panel, run, lowest=j >= len(shown) - columns)
    panels.legend(
        figure,
        {
            "measured": panels.line(INK, marker="o", markersize=3, linestyle=""),
            "law's curve, median": panels.line(GREY),
            f"law's curve, {MASS * 100:.0f} % credible": panels.patch(GREY, 2 * BAND),
            f"a new run like this one, {MASS * 100:.0f} % predictive": panels.patch(
                GREY, 2 * WIDE_BAND
            ),
        },
    )
    return figure


@styled
def residuals(posterior: Posterior, study: Study | None = None) -> Figure:
    """Return a figure of measured losses less the expected curves.

    Parameters
    ----------
    posterior : Posterior
    study : Study, optional
        Held-out runs; the fitted study unless given.

    Returns
    -------
    matplotlib.figure.Figure
        One column per validation set. Above: a line per run, and the 90 % band that the fit has for them,
        the widest and the narrowest of any of these runs. Below: the mean over runs in each part of a run
        with 2 standard errors, filled where it is off to one side; in yellow beyond the fitted steps.
    """
    table = residual_table(posterior, study, DRAWS)
    points = table[["run", "domain", "step"]]
    bands = forecast_bands(posterior, study, at=points, interval=MASS, draws=DRAWS)
    widths = bands.assign(half=0.5 * (bands["upper"] - bands["lower"]))
    domains = posterior.frame.domains
    figure = new_figure(WIDTH * len(domains), 2.0 * HEIGHT + 0.4)
    grid = figure.subplots(2, len(domains), squeeze=False, sharey="row")
    for i, domain in enumerate(domains):
        measured = table[table["domain"] == domain]
        _draw_runs(grid[0, i], measured, widths[widths["domain"] == domain], i)
        _draw_stages(grid[1, i], measured, i)
        panels.name_set(grid[0, i], domain, i)
    grid[0, 0].set_ylabel("measured less expected\n(nats/token)")
    grid[1, 0].set_ylabel("mean over runs\n(nats/token)")
    entries = {
        "a run": panels.line(INK, linewidth=0.8),
        "its 90 % predictive band, widest and narrowest": panels.line(
            GREY, linestyle="--", linewidth=0.8
        ),
        "is off to one side": panels.line(GREY, marker="o", linestyle=""),
        "is not": panels.line(GREY, marker="o", markerfacecolor="white", linestyle=""),
    }
    if (table["ratio"] > SLACK).any():
        entries["beyond the fitted steps"] = panels.line(BEYOND, marker="o", linestyle="")
    panels.legend(figure, entries)
    return figure


def _draw_runs(axes: Axes, measured: pd.DataFrame, widths: pd.DataFrame, index: int) -> None:
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
    dress(axes, xscale="log", xlabel="step (logarithmic axis)")


def _draw_stages(axes: Axes, measured: pd.DataFrame, index: int) -> None:
    inside = measured["ratio"] <= SLACK
    parts = [(systematic(measured[inside]), colour(index))]
    if not inside.all():
        parts.append((systematic(measured[~inside]), BEYOND))
    for side, (table, shade) in enumerate(parts):
        beside = 0.16 * (side - 0.5 * (len(parts) - 1))
        for row in table.to_dict("records"):
            axes.errorbar(
                STAGES.index(row["stage"]) + beside,
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
    dress(axes, xlim=(-0.5, len(STAGES) - 0.5))

"""The forecast of one run from its log: what was measured, and bands of the ways that it may go on."""

from typing import TYPE_CHECKING

from bayes_cpt.plots import panels
from bayes_cpt.plots.style import INK, LOSS, WIDE_BAND, colour, dress, new_figure, styled

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from bayes_cpt.watch.log_forecast import LogForecast

SIZE = (6.4, 2.9)
STRIP = 0.3


@styled
def log_forecast(found: "LogForecast", later: "pd.DataFrame | None" = None) -> "Figure":
    """Return a figure of one run: losses, bands of each way on, and the learning rates below.

    Parameters
    ----------
    found : LogForecast
    later : DataFrame, optional
        What the run showed after the forecast, drawn hollow: columns step, domain and loss.

    Returns
    -------
    matplotlib.figure.Figure
        One row per validation set.
    """
    domains = list(found.on_priors)
    rows = len(domains) + 1
    figure = new_figure(SIZE[0], SIZE[1] * len(domains) + 1.5)
    grid = figure.add_gridspec(rows, 1, height_ratios=[1.0] * len(domains) + [STRIP])
    last = max(schedule.steps for schedule in found.ways.values())
    for place, domain in enumerate(domains):
        axes = figure.add_subplot(grid[place, 0])
        dress(axes, ticks=6)
        measured = found.measured[found.measured["domain"] == domain]
        panels.dots(axes, measured["step"].to_numpy(), measured["loss"].to_numpy())
        if later is not None:
            own = later[later["domain"] == domain]
            axes.plot(own["step"], own["loss"], "o", color=INK, mfc="none", markersize=4)
        of_set = found.curves[found.curves["domain"] == domain]
        for i, way in enumerate(found.ways):
            own = of_set[of_set["way"] == way]
            axes.fill_between(
                own["step"],
                own["lower"],
                own["upper"],
                color=colour(i),
                alpha=WIDE_BAND,
                linewidth=0,
            )
            axes.plot(own["step"], own["median"], color=colour(i))
        panels.step_axis(axes, last)
        axes.tick_params(labelbottom=False)
        axes.set_ylabel(f"{domain}\n{LOSS}")
    strip = figure.add_subplot(grid[-1, 0])
    dress(strip, grid=False)
    for i, schedule in enumerate(found.ways.values()):
        strip.plot(range(1, schedule.steps + 1), schedule.learning_rates(), color=colour(i))
    panels.step_axis(strip, last, panels.step_label(found.run.phase))
    strip.set_ylim(bottom=0.0)
    strip.set_ylabel("LR", rotation=0, ha="right", va="center")
    mass = f"{100 * float(found.curves['interval'].iloc[0]):g} %"
    entries = {"measured": panels.line(INK, marker="o", markersize=3, linestyle="")}
    if later is not None:
        entries["measured later"] = panels.line(
            INK, marker="o", markerfacecolor="none", markersize=4, linestyle=""
        )
    for i, way in enumerate(found.ways):
        entries[f"{way}, {mass} band"] = panels.line(colour(i))
    panels.legend(figure, entries)
    return figure

"""After how many steps a loss is back at that of its base."""

from typing import TYPE_CHECKING

import numpy as np

from bayes_cpt.landmarks import TurningLength
from bayes_cpt.plots import panels
from bayes_cpt.plots.style import GREY, INK, PALETTE, SMALL, dress, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, ROW, HEAD = 5.6, 0.21, 1.5
MASSES, WIDTHS = (0.9, 0.5), (1.2, 3.2)
NAMES = {"stretched": "drawn out", "held": "held at its peak"}
# The first step of the axis: what never rises lies there.
FIRST = 1.0


@styled
def turning_length(result: TurningLength) -> "Figure":
    """Return a figure of the posterior of turning lengths, one row per run, course and balance.

    Parameters
    ----------
    result : TurningLength

    Returns
    -------
    matplotlib.figure.Figure
        Medians with central credible intervals of 50 and 90 %, on a logarithmic axis of steps. A triangle
        at the left edge is a loss that never rises above that of its base, one at the right edge a loss
        that needs longer than the horizon or never comes back. Beside each row stands how probable it is
        that the loss is back at the planned length, which is a thin line. Steps beyond the longest run that
        was fitted are
        shaded.
    """
    draws = result.draws
    names = [str(run) for run in draws["run"].to_numpy()]
    courses = [str(course) for course in draws["course"].to_numpy()]
    balances = draws["balance"].to_numpy().tolist()
    rows = len(courses) * len(balances)
    figure = new_figure(WIDTH, (ROW * rows + 0.3) * len(names) + HEAD)
    figure.suptitle("Does the loss come back, and when?", fontsize="large", fontweight="bold")
    grid = figure.subplots(len(names), 1, squeeze=False, sharex=True)[:, 0]
    horizon = float(draws.attrs["horizon"])
    labels = [
        f"{_loss_name(balance)}, {NAMES.get(course, course)}"
        for course in courses
        for balance in balances
    ]
    for run, axes in enumerate(grid):
        _panel(axes, result, run, horizon)
        axes.set_yticks(range(rows)[::-1], labels)
        axes.set_title(names[run], loc="left", fontweight="bold")
        axes.set_title("back at planned length", loc="right", fontsize=SMALL, color=GREY)
    grid[-1].set_xlabel("steps until the loss is back at that of its base (logarithmic)")
    entries = {
        NAMES.get(course, course): panels.line(PALETTE[j], marker="o", markersize=4)
        for j, course in enumerate(courses)
    }
    entries["50 % credible"] = panels.line(GREY, linewidth=WIDTHS[1])
    entries["90 % credible"] = panels.line(GREY, linewidth=WIDTHS[0])
    entries["never above its base"] = panels.line(GREY, linestyle="", marker="<", markersize=6)
    entries["beyond the axis, or never"] = panels.line(GREY, linestyle="", marker=">", markersize=6)
    entries["planned length"] = panels.line(INK, linewidth=0.8, linestyle=":")
    entries["longer than any fitted run"] = panels.patch(GREY, 0.12)
    panels.legend(figure, entries)
    return figure


def _loss_name(balance: float) -> str:
    return "general" if balance == 1.0 else f"{balance:g} general + {1.0 - balance:g} target"


def _panel(axes: "Axes", result: TurningLength, run: int, horizon: float) -> None:
    draws = result.draws
    lengths = draws["length"].to_numpy()[:, run]
    planned = float(draws["steps"][run])
    axes.set_xscale("log")
    axes.axvspan(result.longest, horizon, color=GREY, alpha=0.12, linewidth=0.0, zorder=0)
    axes.axvline(planned, color=INK, linewidth=0.8, linestyle=":")
    courses, balances = lengths.shape[1:]
    for row, (course, balance) in enumerate(np.ndindex(courses, balances)):
        place = courses * balances - 1 - row
        steps, shade = lengths[:, course, balance], PALETTE[course]
        for mass, width in zip(MASSES, WIDTHS, strict=True):
            ends = np.quantile(steps, [0.5 - mass / 2, 0.5 + mass / 2], method="inverted_cdf")
            axes.hlines(place, *np.clip(ends, FIRST, horizon), color=shade, linewidth=width)
        median = float(np.quantile(steps, 0.5, method="inverted_cdf"))
        mark, size = ("<", 6) if median <= FIRST else (">", 6) if median >= horizon else ("o", 4)
        axes.plot(
            np.clip(median, FIRST, horizon),
            place,
            mark,
            color=shade,
            markersize=size,
            clip_on=False,
        )
        axes.annotate(
            f"{100 * np.mean(steps <= planned):.0f} %",
            (1.0, place),
            xycoords=("axes fraction", "data"),
            xytext=(6, 0),
            textcoords="offset points",
            fontsize=SMALL,
            va="center",
        )
    axes.set_xlim(FIRST, horizon)
    axes.set_ylim(-0.6, courses * balances - 0.4)
    dress(axes, grid=False)

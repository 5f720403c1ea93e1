"""The critical point at each replay ratio, beside the bases there are."""

from typing import TYPE_CHECKING

import numpy as np

from bayes_cpt.landmarks import CriticalPoint
from bayes_cpt.plots import panels
from bayes_cpt.plots.style import GREY, INK, PALETTE, SMALL, dress, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MASSES = (0.9, 0.5)
WIDTHS = (1.2, 3.2)
# Shares of the shortest and of the longest base: beyond them an arrow is drawn.
REACH = (1e-3, 1e3)
# Room beside what is drawn.
MARGIN = 3.0


@styled
def critical_point(result: CriticalPoint) -> "Figure":
    """Return a figure of the critical point, in PT steps, per replay ratio.

    Parameters
    ----------
    result : CriticalPoint

    Returns
    -------
    matplotlib.figure.Figure
        Medians with intervals of 50 and 90 %, up to a thousand times the PT of the bases. Vertical
        lines are the known bases of the study: at replay ratios whose point lies left of a line, the
        general loss of that base does not all come back.
    """
    draws = result.draws
    replays = draws["replay"].to_numpy()
    rate = float(draws.attrs["learning_rate"])
    bases = {
        base.name: float(base.schedule.learning_rates().sum()) / rate
        for base in result.study.bases
        if base.schedule is not None
    }
    steps = draws["steps"].to_numpy()
    shortest, longest = min(bases.values()), max(bases.values())
    low = max(min(np.quantile(steps, 0.05, method="lower"), shortest) / MARGIN, shortest * REACH[0])
    high = min(max(np.quantile(steps, 0.95, method="lower"), longest) * MARGIN, longest * REACH[1])
    figure = new_figure(6.2, 0.34 * replays.size + 1.9)
    axes = figure.add_subplot()
    axes.set_xscale("log")
    for place, base_steps in enumerate(steps.T):
        _interval(axes, base_steps, place, low, high)
    for area in bases.values():
        axes.axvline(area, color=INK, linewidth=0.8, linestyle=":", zorder=1)
    first, last = min(bases, key=lambda name: bases[name]), max(bases, key=lambda name: bases[name])
    _name(axes, bases[first], first, "right")
    if last != first:
        _name(axes, bases[last], last, "left")
    axes.set_xlim(low, high)
    axes.set_ylim(-0.6, replays.size - 0.4)
    dress(axes, grid=False)
    axes.set_yticks(range(replays.size), [f"{replay:g}" for replay in replays])
    axes.set_ylabel("replay ratio")
    axes.set_xlabel(f"pre-training at {rate:g} (steps, logarithmic)")
    figure.suptitle(
        "Critical point: past it general loss does not all come back",
        fontsize="large",
        fontweight="bold",
    )
    panels.legend(
        figure,
        {
            "median": panels.line(PALETTE[0], marker="o", markersize=4, linestyle=""),
            "50 % credible": panels.line(PALETTE[0], linewidth=WIDTHS[1]),
            "90 % credible": panels.line(PALETTE[0], linewidth=WIDTHS[0]),
            "bases of the study": panels.line(INK, linewidth=0.8, linestyle=":"),
        },
    )
    return figure


def _interval(axes: "Axes", steps: np.ndarray, place: int, low: float, high: float) -> None:
    for mass, width in zip(MASSES, WIDTHS, strict=True):
        edges = np.quantile(steps, [0.5 - mass / 2, 0.5 + mass / 2], method="inverted_cdf")
        axes.hlines(place, *np.clip(edges, low, high), color=PALETTE[0], linewidth=width)
    median = float(np.quantile(steps, 0.5, method="inverted_cdf"))
    if low < median < high:
        axes.plot(median, place, "o", color=PALETTE[0], markersize=4)
        return
    side, mark = (high, ">") if median >= high else (low, "<")
    axes.plot(side, place, mark, color=PALETTE[0], markersize=6, clip_on=False)
    known = "there is none" if np.isinf(median) else f"median {median:.0e}"
    axes.annotate(
        known,
        xy=(side, place),
        xytext=(-8 if side == high else 8, 4),
        textcoords="offset points",
        ha="right" if side == high else "left",
        va="bottom",
        fontsize=SMALL,
        color=GREY,
    )


def _name(axes: "Axes", area: float, name: str, side: str) -> None:
    axes.annotate(
        name,
        xy=(area, 1.0),
        xycoords=("data", "axes fraction"),
        xytext=(-2 if side == "right" else 2, 2),
        textcoords="offset points",
        ha=side,
        va="bottom",
        fontsize=SMALL,
        color=INK,
    )

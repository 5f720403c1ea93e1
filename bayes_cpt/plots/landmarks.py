"""Whether a loss comes back to that of its base, and the critical point past which it does not."""

from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.landmarks import CriticalPoint, TurningLength
from bayes_cpt.plots import panels
from bayes_cpt.plots.style import GREY, INK, PALETTE, SMALL, dress, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, ROW, HEAD = 6.2, 0.3, 1.0
MASSES, WIDTHS = (0.9, 0.5), (1.2, 3.2)
NAMES = {"stretched": "general loss, drawn out", "held": "general loss, held at its peak"}
# The first step of the axis: what never rises lies there.
FIRST = 1.0
# Runs that are drawn, and how far the courses of one lie apart.
RUNS, APART = 12, 0.3
# Beyond these shares of the shortest and the longest base a triangle is drawn; room beside what is drawn.
REACH, MARGIN = (1e-3, 1e3), 3.0


@styled
def landmarks(turning: TurningLength, critical: CriticalPoint | None = None) -> "Figure":
    """Return a figure of turning lengths and, where the base is known, of the critical point.

    Parameters
    ----------
    turning : TurningLength
    critical : CriticalPoint, optional

    Returns
    -------
    matplotlib.figure.Figure
        Medians with central credible intervals of 50 and 90 %, on logarithmic axes of steps. Above, a row
        per run: the steps after which general loss is back at that of its base, as the run is drawn out and
        as it is held at its peak. A triangle at the left edge is a loss that never rises, one at the right
        edge a loss that needs longer than the horizon or never comes back; a tick is the planned length,
        with the probability beside it that the loss is back by then; steps beyond the longest fitted run
        are shaded. Below, a row per replay ratio: the pre-training past which general loss does not all
        come back, up to a thousand times that of the bases, which are the vertical lines.
    """
    runs = min(turning.draws.sizes["run"], RUNS)
    heights = [ROW * runs + HEAD]
    if critical is not None:
        heights.append(ROW * critical.draws.sizes["replay"] + HEAD)
    figure = new_figure(WIDTH, sum(heights) + 0.6)
    grid = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
    _turning(grid[0], turning, runs)
    entries: dict[str, Any] = {
        name: panels.line(PALETTE[place], marker="o", markersize=4)
        for place, name in enumerate(NAMES.values())
    }
    entries["50 and 90 % credible"] = panels.line(GREY, linewidth=WIDTHS[1])
    entries["beyond the axis, or never"] = panels.line(GREY, linestyle="", marker=">", markersize=6)
    entries["planned length"] = panels.line(INK, marker="|", markersize=8, linestyle="")
    entries["longer than any fitted run"] = panels.patch(GREY, 0.12)
    if critical is not None:
        _critical(grid[1], critical)
        entries["bases of the study"] = panels.line(INK, linewidth=0.8, linestyle=":")
    panels.legend(figure, entries)
    return figure


def _turning(axes: "Axes", turning: TurningLength, runs: int) -> None:
    draws = turning.draws
    courses = [str(course) for course in draws["course"].to_numpy()]
    lengths = draws["length"].sel(balance=1.0).transpose("run", "course", "draw").to_numpy()
    planned, horizon = draws["steps"].to_numpy(), float(draws.attrs["horizon"])
    axes.set_xscale("log")
    axes.axvspan(turning.longest, horizon, color=GREY, alpha=0.12, linewidth=0.0, zorder=0)
    for run in range(runs):
        row = runs - 1 - run
        for course in range(len(courses)):
            place = row + APART * (0.5 * (len(courses) - 1) - course)
            steps = lengths[run, course]
            _interval(axes, steps, place, (FIRST, horizon), PALETTE[course])
        axes.plot(planned[run], row, "|", color=INK, markersize=12, zorder=4)
        back = np.mean(lengths[run, courses.index("stretched")] <= planned[run])
        axes.annotate(
            f"{100 * back:.0f} %",
            (1.0, row),
            xycoords=("axes fraction", "data"),
            xytext=(6, 0),
            textcoords="offset points",
            fontsize=SMALL,
            va="center",
        )
    axes.set_xlim(FIRST, horizon)
    axes.set_ylim(-0.6, runs - 0.4)
    dress(axes, grid=False)
    axes.set_yticks(range(runs)[::-1], [str(run) for run in draws["run"].to_numpy()[:runs]])
    axes.set_title(
        "Turning length: is the loss back at that of its base?", loc="left", weight="bold"
    )
    axes.set_title("back as planned", loc="right", fontsize=SMALL, color=GREY)
    axes.set_xlabel("CPT steps (logarithmic)")


def _critical(axes: "Axes", critical: CriticalPoint) -> None:
    draws = critical.draws
    replays, steps = draws["replay"].to_numpy(), draws["steps"].to_numpy()
    rate = float(draws.attrs["learning_rate"])
    bases = {
        base.name: float(base.schedule.learning_rates().sum()) / rate
        for base in critical.study.bases
        if base.schedule is not None
    }
    first, last = min(bases, key=lambda name: bases[name]), max(bases, key=lambda name: bases[name])
    lowest, highest = np.quantile(steps, [0.05, 0.95], method="lower")
    low = max(min(lowest, bases[first]) / MARGIN, bases[first] * REACH[0])
    high = min(max(highest, bases[last]) * MARGIN, bases[last] * REACH[1])
    axes.set_xscale("log")
    for place, of_replay in enumerate(steps.T):
        median = _interval(axes, of_replay, place, (low, high), PALETTE[0])
        if median >= high:
            known = "there is none" if np.isinf(median) else "far beyond any base"
            axes.annotate(
                known,
                xy=(high, place),
                xytext=(-8, 3),
                textcoords="offset points",
                ha="right",
                va="bottom",
                fontsize=SMALL,
                color=GREY,
            )
    for name in bases:
        axes.axvline(bases[name], color=INK, linewidth=0.8, linestyle=":", zorder=1)
    for name, side in (
        {first: "right", last: "left"}.items() if first != last else ((first, "right"),)
    ):
        axes.annotate(
            name,
            xy=(bases[name], 0.0),
            xycoords=("data", "axes fraction"),
            xytext=(-2 if side == "right" else 2, 2),
            textcoords="offset points",
            ha=side,
            va="bottom",
            fontsize=SMALL,
        )
    axes.set_xlim(low, high)
    axes.set_ylim(-1.0, replays.size - 0.4)
    dress(axes, grid=False)
    axes.set_yticks(range(replays.size), [f"{replay:g}" for replay in replays])
    axes.set_ylabel("replay ratio")
    axes.set_title(
        "Critical point: past it general loss does not all come back", loc="left", weight="bold"
    )
    axes.set_xlabel(f"PT steps at learning rate {rate:g} (logarithmic)")


def _interval(
    axes: "Axes", steps: Floats, place: float, ends: tuple[float, float], shade: str
) -> float:
    """Draw median and intervals of steps, which may be infinite, and return the median."""
    for mass, width in zip(MASSES, WIDTHS, strict=True):
        edges = np.quantile(steps, [0.5 - mass / 2, 0.5 + mass / 2], method="inverted_cdf")
        axes.hlines(place, *np.clip(edges, *ends), color=shade, linewidth=width)
    median = float(np.quantile(steps, 0.5, method="inverted_cdf"))
    mark, size = ("<", 6) if median <= ends[0] else (">", 6) if median >= ends[1] else ("o", 4)
    axes.plot(np.clip(median, *ends), place, mark, color=shade, markersize=size, clip_on=False)
    return median

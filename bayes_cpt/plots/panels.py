"""Small multiples: panels in blocks, step axes, bands, titles and legends."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from bayes_cpt.arrays import Floats
from bayes_cpt.plots.style import (
    BAND,
    GREY,
    INK,
    LARGE,
    LONGEST,
    LOSS,
    SMALL,
    WIDE_BAND,
    called,
    colour,
    dress,
    new_figure,
)
from bayes_cpt.study.runs import Run, mixture_words

# Steps are marked where the square-root axis has its quarters.
TICK_SHARES = (0.0, 0.3, 0.55, 0.78)
PAD = 0.02
# About what legend entries take, inches.
MARK_WIDTH, LETTER_WIDTH = 0.55, 0.066
# Letters to an inch, of a title and of the notes below it.
BOLD, NOTES = 11, 14
# Points of a curve that stand apart in a panel.
CROWD = 80
# Of lines for intervals of 90 and of 50 %.
INTERVAL_WIDTHS = (1.2, 3.2)


def blocks(
    domains: Sequence[str],
    general: str | None,
    runs: Sequence[Run],
    size: tuple[float, float],
    columns: int = 2,
) -> tuple[Figure, list[tuple[Axes, Run, str, str]]]:
    """Return a figure with a block per validation set of a panel per run, of that size.

    Each panel comes with its run, its validation set and the colour of that. It has its own loss axis: a
    fit is judged against the spread of its own curve.
    """
    columns = min(columns, len(runs))
    rows = math.ceil(len(runs) / columns)
    figure = new_figure(size[0] * columns * len(domains), size[1] * rows + 0.7)
    every = []
    parts = figure.subfigures(1, len(domains), wspace=0.02, squeeze=False)[0]
    # The colour of the general set is no other set's.
    first = int(general not in domains)
    for index, (part, domain) in enumerate(zip(parts, domains, strict=True), first):
        for i, run in enumerate(runs):
            panel = part.add_subplot(rows, columns, i + 1)
            dress(panel)
            targets = mixture_words(run.mixture)
            title(panel, run.name, origin(run.replay, run.base, targets, size[0]), size[0])
            lowest = i >= len(runs) - columns
            step_axis(panel, run.schedule.steps, run.phase if lowest else "")
            every.append((panel, run, domain, colour(index)))
        name = f"validation set: {called(domain)}"
        part.suptitle(name, color=colour(index), fontsize=LARGE, fontweight="bold")
        # Beside one row of panels there is no room for more.
        part.supylabel(LOSS if rows > 1 else "loss (nats/token)", fontsize="medium")
    return figure, every


def step_axis(axes: Axes, steps: int, phase: str = "") -> None:
    """Make the horizontal axis the square root of the step, from the transfer to the last step.

    The axis is named where a phase is given.
    """
    axes.set_xscale(
        "function", functions=(lambda x: np.sign(x) * np.sqrt(np.abs(x)), lambda x: x * np.abs(x))
    )
    axes.set_xlim(-steps * PAD**2, steps * (1 + PAD))
    places = [f"{steps * share**2:e}" for share in TICK_SHARES]
    # Two digits of what begins with 1, which one would move far.
    marks = [round(float(f"{float(own):.{2 if own[0] == '1' else 1}g}")) for own in places]
    marks.append(steps)
    names = [f"{mark / 1000:.3g}k" if mark >= 1000 else f"{mark}" for mark in marks]
    axes.set_xticks(marks, names, minor=False)
    axes.set_xticks([], minor=True)
    if phase:
        axes.set_xlabel(f"{phase.upper()} step (square-root axis)")


def band(
    axes: Axes, steps: ArrayLike, draws: Floats, mass: float, **options: Any
) -> tuple[Floats, Floats]:
    """Shade the central interval of draws of shape (draws, steps), and return its edges."""
    lower, upper = np.quantile(draws, [0.5 - mass / 2, 0.5 + mass / 2], axis=0)
    options = {"linewidth": 0.0, "alpha": BAND if mass < 0.8 else WIDE_BAND} | options
    axes.fill_between(steps, lower, upper, **options)
    return lower, upper


def curve(
    axes: Axes,
    steps: ArrayLike,
    draws: Floats,
    masses: Sequence[float] = (0.9, 0.5),
    *,
    color: str,
    alpha: float | None = None,
    **line: Any,
) -> None:
    """Draw the median of draws of shape (draws, steps) over their central intervals."""
    for mass in masses:
        band(axes, steps, draws, mass, color=color, **({} if alpha is None else {"alpha": alpha}))
    axes.plot(steps, np.median(draws, axis=0), color=color, **line)


def intervals(
    axes: Axes,
    places: ArrayLike,
    draws: Floats,
    color: str,
    upright: bool = False,
    within: tuple[float, float] | None = None,
    **options: Any,
) -> None:
    """Draw the central intervals of draws of shape (draws, places): thin of 90 %, thick of 50 %.

    Draws of steps may be infinite: their intervals are cut off at the ends `within` which they are drawn.
    """
    draw = axes.vlines if upright else axes.hlines
    method: Literal["linear", "inverted_cdf"] = "linear" if within is None else "inverted_cdf"
    for mass, width in zip((0.9, 0.5), INTERVAL_WIDTHS, strict=True):
        ends = np.quantile(draws, [0.5 - mass / 2, 0.5 + mass / 2], axis=0, method=method)
        cut = ends if within is None else np.clip(ends, *within)
        draw(places, *cut, color=color, linewidth=width, **options)


def beside(axes: Axes, text: str, place: float, x: float | None = None, **options: Any) -> None:
    """Write small beside a point, or at the right of a panel at a height of its vertical axis."""
    style: dict[str, Any] = {"xytext": (4, 0), "va": "center", "fontsize": SMALL}
    if x is None:
        style["xycoords"] = ("axes fraction", "data")
    at = (1.0 if x is None else x, place)
    axes.annotate(text, at, textcoords="offset points", **(style | options))


def by_set(
    domains: Sequence[str], width: float, height: float, title: str, rows: int = 1, **shared: Any
) -> tuple[Figure, Any]:
    """Return a figure with a column of panels per validation set, its name above in its colour."""
    figure = new_figure(width * len(domains), height, title)
    grid = figure.subplots(rows, len(domains), squeeze=False, **shared)
    for index, (panel, domain) in enumerate(zip(grid[0], domains, strict=True)):
        name = f"validation set: {called(domain)}"
        panel.set_title(name, color=colour(index), fontweight="bold")
    return figure, grid


def draws_of(curve: xr.DataArray) -> tuple[Floats, Floats]:
    """Return the steps at which a curve is known, and its draws there, shape (draws, steps)."""
    draws = curve.transpose(..., "step").to_numpy().reshape(-1, curve.sizes["step"])
    known = np.isfinite(draws[0])
    return curve["step"].to_numpy()[known], draws[:, known]


def rows(axes: Axes, labels: Sequence[str], **properties: Any) -> None:
    """Give axes a row for each label, the first one on top, at the height of its place in reverse."""
    dress(axes, grid=False, **properties)
    axes.set_yticks(range(len(labels))[::-1], list(map(called, labels)))
    axes.set_ylim(-0.6, len(labels) - 0.4)


def dots(
    axes: Axes, steps: ArrayLike, losses: ArrayLike, after: float = -1.0, **options: Any
) -> None:
    """Draw measured losses after step `after`: a band of PT begins after the warm-up."""
    late = np.asarray(steps) > after
    if not late.any():
        return
    # Where they crowd they are smaller and let through what they are compared with.
    across = np.sqrt(np.asarray(steps)[late])
    reach = np.ptp(across) / across.max() if across.size > 1 else 1.0
    share = min(1.0, CROWD * reach / across.size)
    style: dict[str, Any] = {"s": 7.0 * max(share, 0.2), "alpha": max(share, 0.5)}
    style |= {"color": INK, "linewidths": 0.0, "label": "measured"}
    drawn = {"clip_on": False, "zorder": 3.0} | style | options
    axes.scatter(np.asarray(steps)[late], np.asarray(losses)[late], **drawn)


def title(axes: Axes, run: str, notes: Sequence[str], width: float) -> None:
    """Write a run's name over its panel of that width, inches, and small lines between the two."""
    name = called(run, min(int(BOLD * width), LONGEST))
    axes.set_title(name, loc="left", fontweight="bold", pad=4 + 9.5 * len(notes))
    small: dict[str, Any] = {"color": GREY, "va": "bottom", "linespacing": 1.15}
    beside(axes, "\n".join(notes), 1.0, 0.0, xycoords="axes fraction", xytext=(0, 3), **small)


def origin(replay: float | None, base: str | None, targets: str, width: float) -> list[str]:
    """Return in lines of that width where a CPT run starts and what it trains on; nothing for a PT run."""
    rest = f", the rest {targets}".replace("$", r"\$") if targets else ""
    return fold(f"replay {replay:g}{rest}, from {called(base)}", width) if base else []


def fold(note: str, width: float) -> list[str]:
    """Return the lines of a note over a panel of that width, inches."""
    return textwrap.wrap(note, int(NOTES * width))


def rate_strip(axes: Axes, steps: int, phase: str, *, named: bool = True) -> None:
    """Dress the low panel of learning rates under panels of losses."""
    dress(axes, grid=False)
    step_axis(axes, steps, phase)
    axes.tick_params(labelleft=named)
    if named:
        axes.set_ylabel("LR", rotation=0, ha="right", va="center")


def legend(figure: Figure, entries: Mapping[str, Any] = MappingProxyType({})) -> None:
    """Put one legend under all panels, in as many rows as it needs: labels there, then `entries`."""
    marks: dict[str, Any] = {}
    for axes in figure.axes:
        handles, labels = axes.get_legend_handles_labels()
        marks |= zip(labels, handles, strict=True)
    marks |= entries
    width, widths = figure.get_figwidth(), [MARK_WIDTH + LETTER_WIDTH * len(text) for text in marks]
    columns = len(marks) if sum(widths) <= width else max(int(width // max(widths)), 1)
    figure.legend(list(marks.values()), list(marks), loc="outside lower center", ncols=columns)


def patch(shade: str, alpha: float) -> Any:
    """Return a legend mark for a band."""
    return Patch(facecolor=shade, alpha=alpha, linewidth=0.0)


def line(shade: str, **options: Any) -> Any:
    """Return a legend mark for a line."""
    return Line2D([], [], color=shade, **options)


def layout(width: float, height: float) -> dict[str, Any]:
    """Return what ArviZ's plots take for a figure of that size, inches."""
    return {"figsize": (width, height), "layout": "constrained"}


def of_arviz(drawn: Any) -> Figure:
    """Return the figure of one of ArviZ's plots, without empty panels, its ticks as in all figures."""
    from matplotlib import pyplot

    figure: Figure = drawn.viz["figure"].item()
    # Else a notebook shows it twice.
    pyplot.close(figure)
    for axes in figure.axes:
        if not axes.has_data():
            axes.remove()
            continue
        dress(axes, grid=False)
        axes.xaxis.set_major_locator(MaxNLocator(2, steps=[1, 2, 5, 10]))
    return figure

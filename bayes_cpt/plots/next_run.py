"""What runs would be worth for their cost, and what they would tell of the law."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.decisions.next_run.run_values import RunValues
from bayes_cpt.forecast.derived import MEANINGS
from bayes_cpt.plots import panels
from bayes_cpt.plots.style import GREY, INK, PALETTE, SMALL, dress, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

type Floats = NDArray[np.float64]

WIDTH, ROW, HEAD = 8.6, 0.2, 2.1
# Runs and quantities that are shown, the best first.
MOST, QUANTITIES = 16, 12
# As high as for so many, that the scale has room.
FEWEST = 8
ERRORS = 2.0


@styled
def next_run(found: RunValues) -> "Figure":
    """Return a figure of the values of the runs, and of what they tell.

    Parameters
    ----------
    found : RunValues

    Returns
    -------
    matplotlib.figure.Figure
        Left, value per 1,000 steps with two Monte Carlo errors each way; the triangle is what a run must be
        worth to pay. Right, the share of the variance of each quantity that a run takes away; effects of a
        typical run are shown where there are any, else coefficients.
    """
    names = found.order[:MOST]
    figure = new_figure(WIDTH, ROW * max(len(names), FEWEST) + HEAD)
    shown = f" The best {len(names)} of {len(found.order)}" if len(found.order) > MOST else ""
    figure.suptitle(f"Which run next?{shown}", fontsize="large", fontweight="bold")
    left, right = figure.subplots(1, 2, width_ratios=(1.0, 1.15))
    _values(left, found, names)
    _told(figure, right, found, names)
    panels.legend(
        figure,
        {
            "value of sample information": panels.line(PALETTE[0], marker="o", markersize=4),
            "must be worth, to pay": panels.line(
                PALETTE[1], marker="|", markersize=8, linestyle="", markeredgewidth=1.6
            ),
            "value of perfect information": panels.line(GREY, linestyle="--", linewidth=0.9),
        },
    )
    return figure


def _values(axes: "Axes", found: RunValues, names: list[str]) -> None:
    places = np.arange(len(names))[::-1]
    costs = np.array([found.affordable.cost(found.affordable.plan.run(name)) for name in names])
    scale = 1000.0 / costs
    value = scale * np.array([found.values[name].value for name in names])
    error = scale * np.array([found.values[name].error for name in names])
    axes.hlines(
        places, value - ERRORS * error, value + ERRORS * error, color=PALETTE[0], linewidth=1.2
    )
    axes.plot(value, places, "o", color=PALETTE[0], markersize=4)
    hurdle = scale * np.array([found.hurdle(name) for name in names])
    axes.plot(hurdle, places, "|", color=PALETTE[1], markersize=8, markeredgewidth=1.6)
    axes.plot(scale * found.perfect[0], places, "--", color=GREY, linewidth=0.9)
    axes.axvline(0.0, color=INK, linewidth=0.6)
    dress(axes, grid=False)
    axes.set_yticks(places, names, fontsize=SMALL)
    axes.set_ylim(-0.7, len(names) - 0.3)
    _around_zero(axes, _threshold(value, error))
    axes.set_xlabel("nats per 1,000 steps of cost")
    axes.set_title("worth", loc="left", fontweight="bold")


def _around_zero(axes: "Axes", threshold: float) -> None:
    """Make the horizontal axis linear near 0 and logarithmic beyond, with marks that do not touch."""
    from matplotlib.ticker import NullLocator

    low, high = axes.get_xlim()
    axes.set_xscale("symlog", linthresh=threshold)
    axes.set_xlim(low, high)
    powers = 10.0 ** np.arange(np.ceil(np.log10(3.0 * threshold)), 3.0)
    marks = np.r_[-powers[::-1], 0.0, powers]
    marks = marks[(marks >= low) & (marks <= high)]
    axes.set_xticks(marks, [_number(mark) for mark in marks])
    axes.xaxis.set_minor_locator(NullLocator())


def _number(mark: float) -> str:
    if mark == 0:
        return "0"
    size = abs(mark)
    text = f"{size:g}" if size >= 1e-3 else f"$10^{{{np.log10(size):.0f}}}$"
    return f"−{text}" if mark < 0 else text


def _threshold(value: Floats, error: Floats) -> float:
    """Return up to where the axis is linear: what cannot be told from 0 lies there."""
    return float(max(np.median(ERRORS * error), 1e-3 * np.abs(value).max(), 1e-9))


def _told(figure: "Figure", axes: "Axes", found: RunValues, names: list[str]) -> None:
    effects = [i for i, (name, _) in enumerate(found.quantities) if name in MEANINGS]
    columns = np.array(effects or range(len(found.quantities)))
    shares = np.stack([found.told[name].share for name in names])
    order = np.argsort(-shares[:, columns].max(axis=0), kind="stable")[:QUANTITIES]
    columns = columns[np.sort(order)]
    picture = axes.pcolormesh(
        100.0 * np.clip(shares[:, columns], 0.0, 1.0)[::-1], cmap="Blues", vmin=0.0
    )
    labels = [
        f"{found.quantities[i][0].replace('_', ' ')}, {found.quantities[i][1]}" for i in columns
    ]
    axes.set_xticks(np.arange(len(labels)) + 0.5, labels, rotation=90, fontsize=SMALL)
    axes.set_yticks([])
    axes.tick_params(length=0)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.set_title("tells", loc="left", fontweight="bold")
    bar = figure.colorbar(picture, ax=axes, pad=0.02, aspect=30)
    bar.set_label("% of variance expected to go", fontsize=SMALL)
    bar.ax.tick_params(labelsize=SMALL, length=2)
    bar.outline.set_visible(False)

"""The best cosine and WSD beside a free schedule, and what they gain."""

from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_cpt.decisions.schedule_choice import COSINE, FAMILIES, FREE, WSD, ScheduleChoice
from bayes_cpt.plots import panels
from bayes_cpt.plots.style import INK, PALETTE, dress, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE = (6.8, 5.0)
SHADES = {FREE: INK, COSINE: PALETTE[1], WSD: PALETTE[2]}
LABELS = {FREE: "free", COSINE: "best cosine", WSD: "best WSD"}
# Shares of the first learning rate that the end of a run is shown in.
LOWEST = 1e-4
BINS = 24


@styled
def free_schedule(choice: ScheduleChoice) -> "Figure":
    """Return a figure of the schedules, whole and at their end, and of the gains draw by draw.

    Parameters
    ----------
    choice : ScheduleChoice

    Returns
    -------
    matplotlib.figure.Figure
        Where a schedule ends below the axis it is at 0. Gains are positive where the first of the two
        ends lower.
    """
    figure = new_figure(*SIZE)
    figure.suptitle(
        f"{choice.steps} steps from {choice.base.name}, replay {choice.replay:g}",
        fontsize="large",
        fontweight="bold",
    )
    (whole, last), (cosine, wsd) = figure.subplots(2, 2)
    _whole(whole, choice)
    _last(last, choice)
    for axes, family, against in ((cosine, WSD, COSINE), (wsd, FREE, WSD)):
        _gains(axes, choice, family, against)
    entries: dict[str, Any] = {LABELS[family]: panels.line(SHADES[family]) for family in FAMILIES}
    panels.legend(figure, entries)
    return figure


def _whole(axes: "Axes", choice: ScheduleChoice) -> None:
    from matplotlib.ticker import MaxNLocator

    steps = np.arange(1, choice.steps + 1)
    for family in reversed(FAMILIES):
        rates = choice.schedules[family].learning_rates()
        axes.plot(steps, rates, color=SHADES[family])
    dress(axes)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.set_title("schedules", loc="left", fontweight="bold")
    axes.set_xlabel("CPT step")
    axes.set_ylabel("learning rate")
    axes.set_ylim(bottom=0.0)


def _last(axes: "Axes", choice: ScheduleChoice) -> None:
    """Draw the end of the schedules against the steps that are left, both on log scales."""
    togo = np.arange(choice.steps, 0, -1)
    first = choice.schedules[FREE].peak
    for family in reversed(FAMILIES):
        rates = choice.schedules[family].learning_rates()
        axes.plot(togo, rates, color=SHADES[family])
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(choice.steps, 1)
    axes.set_ylim(LOWEST * first, 1.5 * first)
    dress(axes, grid=False)
    axes.set_title("towards the end", loc="left", fontweight="bold")
    axes.set_xlabel("steps to go (logarithmic)")
    axes.set_ylabel("learning rate (logarithmic)")


def _gains(axes: "Axes", choice: ScheduleChoice, family: str, against: str) -> None:
    from matplotlib.ticker import MaxNLocator

    gains = 1000.0 * choice.gains(family, against)
    low, high = float(gains.min()), float(gains.max())
    edges = np.linspace(low, high, BINS + 1) if high > low else np.array([low - 0.1, low + 0.1])
    axes.hist(gains, edges.tolist(), color=SHADES[family], alpha=0.5, linewidth=0.0)
    if low < 0 < high or min(abs(low), abs(high)) < high - low:
        axes.axvline(0.0, color=INK, linewidth=0.8)
    dress(axes, grid=False)
    axes.set_yticks([])
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    title = f"gain of {LABELS[family]} over {LABELS[against]}"
    axes.set_title(title, loc="left", fontweight="bold")
    # In thousandths, marks are short and do not touch.
    axes.set_xlabel("0.001 nats of the objective")
    axes.set_ylabel("posterior draws")

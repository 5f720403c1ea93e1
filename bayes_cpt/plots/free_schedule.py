"""The best cosine and WSD beside a free schedule, and what they gain."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bayes_cpt.decisions.schedule_choice import COSINE, FAMILIES, FREE, WSD, ScheduleChoice
from bayes_cpt.plots import panels
from bayes_cpt.plots.style import INK, PALETTE, dress, new_figure, styled

SIZE = (6.8, 5.0)
SHADES = {FREE: INK, COSINE: PALETTE[1], WSD: PALETTE[2]}
LABELS = {FREE: "free", COSINE: "best cosine", WSD: "best WSD"}
# Shares of the first learning rate that the end of a run is shown in.
LOWEST = 1e-4
BINS = 24


@styled
def free_schedule(choice: ScheduleChoice) -> Figure:
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
    title = f"{choice.steps} steps from {choice.base.name}, replay {choice.replay:g}"
    figure = new_figure(*SIZE, title)
    (whole, last), (cosine, wsd) = figure.subplots(2, 2)
    steps = np.arange(1, choice.steps + 1)
    for family in reversed(FAMILIES):
        rates = choice.schedules[family].learning_rates()
        whole.plot(steps, rates, color=SHADES[family])
        last.plot(steps[::-1], rates, color=SHADES[family])
    dress(whole, title="schedules", xlabel="CPT step", ylabel="learning rate", ylim=(0, None))
    whole.xaxis.set_major_locator(MaxNLocator(4))
    first = choice.schedules[FREE].peak
    dress(
        last,
        grid=False,
        title="towards the end",
        xlabel="steps to go (logarithmic)",
        ylabel="learning rate (logarithmic)",
        xscale="log",
        yscale="log",
        xlim=(choice.steps, 1),
        ylim=(LOWEST * first, 1.5 * first),
    )
    for axes, family, against in ((cosine, WSD, COSINE), (wsd, FREE, WSD)):
        _gains(axes, choice, family, against)
    entries: dict[str, Any] = {LABELS[family]: panels.line(SHADES[family]) for family in FAMILIES}
    panels.legend(figure, entries)
    return figure


def _gains(axes: Axes, choice: ScheduleChoice, family: str, against: str) -> None:
    gains = 1000.0 * choice.gains(family, against)
    low, high = float(gains.min()), float(gains.max())
    edges = np.linspace(low, high, BINS + 1) if high > low else np.array([low - 0.1, low + 0.1])
    axes.hist(gains, edges.tolist(), color=SHADES[family], alpha=0.5, linewidth=0.0)
    if low < 0 < high or min(abs(low), abs(high)) < high - low:
        axes.axvline(0.0, color=INK, linewidth=0.8)
    # In thousandths, marks are short and do not touch.
    dress(
        axes,
        grid=False,
        title=f"gain of {LABELS[family]} over {LABELS[against]}",
        xlabel="0.001 nats of the objective",
        ylabel="posterior draws",
        yticks=[],
    )
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))

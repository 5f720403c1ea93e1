"""How probable it is that a loss is back at its base's, against the length of the run."""

import math
from typing import TYPE_CHECKING

import numpy as np

from bayes_cpt.landmarks import TurningLength
from bayes_cpt.plots import panels
from bayes_cpt.plots.style import GREY, PALETTE, dress, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 4
SIZE = (3.0, 2.2)
DASHES = ("-", "--", ":", "-.")
NAMES = {"stretched": "schedule drawn out", "held": "held at its peak"}


@styled
def turning_length(found: TurningLength) -> "Figure":
    """Return a figure of the posterior of turning lengths, one panel per run.

    Parameters
    ----------
    found : TurningLength

    Returns
    -------
    matplotlib.figure.Figure
        Probability that the turning length is at most so many steps, per course and balance. At the left
        edge it is the probability that the loss never rises above its base, at the right edge what is
        missing to 1 is that it needs longer or never comes back. Steps beyond the longest run that was
        fitted are shaded; a thin line marks the planned length.
    """
    draws = found.draws
    names = [str(run) for run in draws["run"].to_numpy()]
    columns = min(COLUMNS, len(names))
    rows = math.ceil(len(names) / columns)
    figure = new_figure(max(SIZE[0] * columns, 5.2), SIZE[1] * rows + 0.8)
    figure.suptitle("Does the loss come back, and when?", fontsize="large", fontweight="bold")
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    horizon = float(draws.attrs["horizon"])
    for k, axes in enumerate(grid.flat):
        if k >= len(names):
            axes.remove()
            continue
        _panel(axes, found, k, horizon)
        axes.set_title(names[k], loc="left", fontweight="bold")
        below = k + columns >= len(names)
        axes.tick_params(labelbottom=below)
        if below:
            axes.set_xlabel("length of the run (steps)")
        if k % columns == 0:
            axes.set_ylabel("probability of being back")
    entries = {
        NAMES.get(course, course): panels.line(PALETTE[j])
        for j, course in enumerate(map(str, draws["course"].to_numpy()))
    }
    for i, balance in enumerate(draws["balance"].to_numpy().tolist()):
        name = "general loss" if balance == 1.0 else f"balance, {balance:g} general"
        entries[name] = panels.line(GREY, linestyle=DASHES[i % len(DASHES)])
    entries["planned length"] = panels.line(GREY, linewidth=0.8)
    entries["longer than any fitted run"] = panels.patch(GREY, 0.12)
    panels.legend(figure, entries)
    return figure


def _panel(axes: "Axes", found: TurningLength, run: int, horizon: float) -> None:
    draws = found.draws
    axes.set_xscale("log")
    axes.axvspan(found.longest, horizon, color=GREY, alpha=0.12, linewidth=0.0, zorder=0)
    axes.axvline(float(draws["steps"][run]), color=GREY, linewidth=0.8)
    steps = np.geomspace(1.0, horizon, 400)
    for j in range(draws.sizes["course"]):
        for i in range(draws.sizes["balance"]):
            lengths = np.sort(draws["length"].to_numpy()[:, run, j, i])
            share = np.searchsorted(lengths, steps, side="right") / lengths.size
            axes.plot(steps, share, color=PALETTE[j], linestyle=DASHES[i % len(DASHES)])
    axes.set_xlim(1.0, horizon)
    axes.set_ylim(-0.03, 1.03)
    dress(axes)
    axes.set_yticks([0.0, 0.5, 1.0], ["0", "0.5", "1"])

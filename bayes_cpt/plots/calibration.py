"""Simulation-based calibration: how the ranks of every quantity's truth are spread."""

import math
from typing import TYPE_CHECKING

from bayes_cpt.plots import panels
from bayes_cpt.plots.style import GREY, PALETTE, SMALL, WIDE_BAND, dress, new_figure, styled
from bayes_cpt.validate.calibration import (
    EDGE,
    FAILS,
    FALSE_ALARM,
    HOLDS,
    RANKED,
    ecdf,
    ecdf_bands,
    family_mass,
    judge,
    transforms,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

COLUMNS = 6
SIZE = (1.5, 1.15)
SHADES = {HOLDS: PALETTE[0], EDGE: PALETTE[4], FAILS: "#b00020"}


@styled
def calibration(ranks: "pd.DataFrame", draws: int = RANKED) -> "Figure":
    """Return a figure of the ECDF of each quantity's ranks, less that of uniform ranks.

    Parameters
    ----------
    ranks : DataFrame
        A row per simulation, a column per quantity: from `bayes_cpt.validate.calibration.quantity_ranks`.
    draws : int
        How many posterior draws each truth was ranked among.

    Returns
    -------
    matplotlib.figure.Figure
        One panel per quantity. The inner band holds the whole curve of a calibrated quantity 95 % of the
        time, the outer one those of all quantities at once. A curve that rises at first: truths lie low,
        posteriors too high. One that rises at both ends and sinks between them: posteriors too narrow.

    Raises
    ------
    ValueError
        If there are fewer than two simulations.
    """
    count = len(ranks)
    if count < 2:
        raise ValueError(f"there are {count} simulations with ranks: give at least two")
    values, verdicts = transforms(ranks, draws), judge(ranks, draws)["verdict"]
    alone = ecdf_bands(count, 1.0 - FALSE_ALARM)
    together = ecdf_bands(count, family_mass(ranks.shape[1]))
    columns = min(COLUMNS, ranks.shape[1])
    rows = math.ceil(ranks.shape[1] / columns)
    figure = new_figure(max(7.0, SIZE[0] * columns), max(2.6, SIZE[1] * rows + 1.0))
    (part,) = panels.halves(figure, 1)
    grid = part.add_gridspec(rows, columns)
    curves = [ecdf(values[name]) - alone[0] for name in values]
    height = 1.08 * max(
        abs(curve).max() for curve in (*curves, *(b - alone[0] for b in together[1:]))
    )
    for i, (name, curve) in enumerate(zip(values, curves, strict=True)):
        axes = part.add_subplot(grid[divmod(i, columns)])
        for points, lower, upper in (together, alone):
            axes.fill_between(
                points, lower - points, upper - points, color=GREY, alpha=WIDE_BAND, linewidth=0.0
            )
        axes.step(alone[0], curve, where="post", color=SHADES[verdicts[i]], linewidth=1.0)
        dress(axes, grid=False, ticks=3)
        axes.set_xlim(0, 1)
        axes.set_ylim(-height, height)
        axes.set_xticks([0, 0.5, 1], ["0", "½", "1"])
        if i % columns:
            axes.tick_params(labelleft=False)
        if i < (rows - 1) * columns:
            axes.tick_params(labelbottom=False)
        quantity, _, member = str(name).rstrip("]").partition("[")
        axes.set_title(quantity, loc="left", fontsize=SMALL, fontweight="bold", pad=13)
        panels.note(axes, member or "shared")
    part.supxlabel(
        f"rank of the truth among {draws} posterior draws, as a share", fontsize="medium"
    )
    part.supylabel("ECDF less uniform", fontsize="medium")
    panels.legend(
        figure,
        {
            "holds": panels.line(SHADES[HOLDS]),
            "at the edge": panels.line(SHADES[EDGE]),
            "fails": panels.line(SHADES[FAILS]),
            f"{count} simulations: 95 %, this quantity": panels.patch(GREY, 2.4 * WIDE_BAND),
            "95 %, all at once": panels.patch(GREY, WIDE_BAND),
        },
    )
    return figure

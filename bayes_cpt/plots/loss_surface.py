"""Final losses over two quantities of a run: the paper's Figure 4, with how sure each place is."""

from typing import TYPE_CHECKING

import numpy as np

from bayes_cpt.decisions.contenders import Surface
from bayes_cpt.plots import panels
from bayes_cpt.plots.decision import LABELS, _is_logarithmic
from bayes_cpt.plots.style import COLUMN, INK, SMALL, colour, dress, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.contour import QuadContourSet
    from matplotlib.figure import Figure

    from bayes_cpt.decisions.decision import Decision

HEIGHT = 2.15
# Shares of the surface below its levels: where it is steep, equal steps of loss would lie on one another.
LEVELS = (0.03, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97)
MASS = 0.9
# How many times the widest interval black would be: levels stay legible on the darkest shade.
PALE = 3.0
# Of a panel's sides, in which a label would be cut.
MARGIN = 0.08


@styled
def loss_surface(decision: "Decision", surface: Surface | None = None) -> "Figure":
    """Return a figure of the final losses over two quantities, at the width of a column.

    Parameters
    ----------
    decision : Decision
        Whose recommendation fixes all else.
    surface : Surface
        The losses; those over the first two ranges that were searched unless given.

    Returns
    -------
    matplotlib.figure.Figure
        One panel per validation set. Lines are levels of the posterior mean of the law's final loss, shades
        half the width of its central 90 % credible interval. The recommendation is a star.
    """
    drawn = decision.surface() if surface is None else surface
    domains = decision.valuation.model.domains
    figure = new_figure(COLUMN, HEIGHT * len(domains) + 0.35)
    grid = figure.subplots(len(domains), 1, squeeze=False)[:, 0]
    first, second = drawn.axis(0), drawn.axis(1)
    ends = [0.5 - MASS / 2, 0.5 + MASS / 2]
    lower, upper = np.quantile(drawn.losses, ends, axis=-1)
    widest = float((0.5 * (upper - lower)).max())
    for index, (axes, domain) in enumerate(zip(grid, domains, strict=True)):
        half = 0.5 * (upper[index] - lower[index])
        shades = axes.pcolormesh(
            first,
            second,
            half.T,
            cmap="Greys",
            vmin=0.0,
            vmax=PALE * widest,
            shading="gouraud",
            rasterized=True,
        )
        mean = drawn.losses[index].mean(axis=-1)
        levels = np.unique(np.quantile(mean, LEVELS).round(2))
        lines = axes.contour(
            first, second, mean.T, levels=levels, colors=colour(index), linewidths=0.9
        )
        _star(axes, decision, drawn)
        _scales(axes, decision, drawn)
        axes.clabel(lines, _legible(axes, lines)[::2], fontsize=SMALL, fmt="%.2f")
        dress(axes, grid=False)
        axes.set_title(f"loss on {domain} (nats/token)", color=colour(index), fontweight="bold")
        axes.set_ylabel(_label(decision, drawn.names[1]))
        bar = figure.colorbar(shades, ax=axes, pad=0.02, aspect=18)
        bar.set_label(f"half the {100 * MASS:g} % credible\ninterval (nats/token)", fontsize=SMALL)
        bar.ax.tick_params(labelsize=SMALL, length=2)
        bar.ax.set_ylim(0.0, widest)
        bar.outline.set_visible(False)
    grid[-1].set_xlabel(_label(decision, drawn.names[0]))
    panels.legend(
        figure,
        {
            "posterior mean": panels.line(INK, linewidth=0.9),
            "recommended": panels.line(INK, marker="*", markersize=8, linestyle=""),
        },
    )
    return figure


def _star(axes: "Axes", decision: "Decision", surface: Surface) -> None:
    chosen = decision.contenders.candidates
    place = [float(chosen.column(name)[0]) for name in surface.names]
    axes.plot(*[[value] for value in place], "*", color=INK, markersize=9, clip_on=False, zorder=5)


def _legible(axes: "Axes", lines: "QuadContourSet") -> list[float]:
    """Return the levels whose labels would lie inside: in the middle of their longest line."""
    inside = []
    for level, path in zip(lines.levels, lines.get_paths(), strict=True):
        parts = [np.asarray(part) for part in path.to_polygons(closed_only=False)]
        if not parts:
            continue
        longest = max(parts, key=len)
        place = axes.transData.transform(longest[len(longest) // 2])
        x, y = axes.transAxes.inverted().transform(place)
        if MARGIN < x < 1.0 - MARGIN and MARGIN < y < 1.0 - MARGIN:
            inside.append(float(level))
    return inside


def _label(decision: "Decision", name: str) -> str:
    scale = " (logarithmic)" if _is_logarithmic(decision, name) else ""
    return f"{LABELS[name]}{scale}"


def _scales(axes: "Axes", decision: "Decision", surface: Surface) -> None:
    """Make an axis logarithmic where its quantity was searched so, with marks that are plain numbers."""
    from matplotlib.ticker import NullFormatter, NullLocator

    for name, axis, set_scale, set_ticks in zip(
        surface.names,
        (axes.xaxis, axes.yaxis),
        (axes.set_xscale, axes.set_yscale),
        (axes.set_xticks, axes.set_yticks),
        strict=True,
    ):
        if not _is_logarithmic(decision, name):
            continue
        values = surface.axis(surface.names.index(name))
        set_scale("log")
        axis.set_minor_locator(NullLocator())
        axis.set_minor_formatter(NullFormatter())
        marks = [values[0], float(f"{np.sqrt(values[0] * values[-1]):.1g}"), values[-1]]
        set_ticks(marks, [f"{mark:.3g}" for mark in marks])

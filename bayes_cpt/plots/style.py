"""The look that all figures share: colours, sizes and bands in one place."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

LOSS = "validation loss (nats/token)"
# What all figures have in force while they are drawn.
SETTINGS = mpl.rc_params_from_file(Path(__file__).with_name("figures.mplstyle"), False, False)
INK, GREY, PALE = SETTINGS["text.color"], SETTINGS["axes.edgecolor"], "#b8b8b8"
# Okabe and Ito's palette: it stays distinct under every common colour blindness.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
BAND, WIDE_BAND = 0.38, 0.16
SMALL, LARGE = 7.0, 9.5
# Letters of a name that is kept whole.
LONGEST = 28
# Width of a column of a paper, inches: figures of this width are printed as they are.
COLUMN = 3.25


def styled[**P](draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Return the plotting function with the common settings in force, and only while it draws."""

    @wraps(draw)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with mpl.rc_context(SETTINGS):
            return draw(*args, **kwargs)

    return wrapped


def new_figure(width: float, height: float, title: str = "") -> Figure:
    """Return an empty figure that is laid out by itself, under a title; sizes in inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    if title:
        figure.suptitle(title, fontsize="large", fontweight="bold")
    return figure


def dress(
    axes: Axes, grid: bool = True, ticks: int = 4, title: str = "", **properties: Any
) -> None:
    """Give axes the common ticks, `ticks` of them on the vertical axis at the most, with lines if `grid`.

    Ticks are made when a figure is drawn, after the settings have gone: they are named here. The title
    stands at the left; `properties` are those of `matplotlib.axes.Axes.set`, such as labels and limits.
    """
    axes.set(**properties)
    if title:
        axes.set_title(title, loc="left", fontweight="bold")
    axes.tick_params(labelsize=SMALL, colors=GREY, labelcolor=INK, width=0.6, length=2.5)
    if grid:
        axes.grid(axis="y", color="#e6e6e6", linewidth=0.6)
        axes.yaxis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 2.5, 5, 10], min_n_ticks=2))


def called(name: str, longest: int = LONGEST) -> str:
    r"""Return a user's name as figures write it: shortened in its middle, no `$` of it opening a formula.

    Examples
    --------
    >>> called("lr=$x_$"), called("sweep-lr3e-4-bs1024-repay0.50-seed17")
    ('lr=\\$x_\\$', 'sweep-lr3e-4-b…ay0.50-seed17')
    """
    half = longest // 2
    short = name if len(name) <= longest else f"{name[:half]}…{name[1 - half :]}"
    return short.replace("$", r"\$")


def colour(index: int) -> str:
    """Return the colour of a validation set, by its place in the fit."""
    return PALETTE[index % len(PALETTE)]

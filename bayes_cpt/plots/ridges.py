"""The ridges of a law: coefficients that the data pin down together, and hardly one by one."""

from typing import TYPE_CHECKING

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.plots import panels
from bayes_cpt.plots.style import COLUMN, PALE, SMALL, colour, dress, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Pairs that lie on ridges (docs/law.md, "What is sampled"), and whether each is drawn in logarithms.
PAIRS = (("A", "alpha"), ("E", "beta"), ("C2", "C1"))
SIGNS = {"alpha": "α", "beta": "β", "C1": "C1", "C2": "C2"}
HEIGHT = 1.35
DRAWS = 400
# The central mass of the posterior that a panel shows, and how much room there is about it.
MASS, ROOM = 0.99, 0.6


@styled
def ridges(posterior: Posterior) -> "Figure":
    """Return a figure of pairs of coefficients, at the width of a column.

    Parameters
    ----------
    posterior : Posterior

    Returns
    -------
    matplotlib.figure.Figure
        One row per pair and one column per validation set, on logarithmic axes: draws of the posterior
        over draws of the prior, with the posterior's rank correlation.

    Raises
    ------
    ValueError
        If the law has none of the pairs.
    """
    known = posterior.tree["posterior"].data_vars
    pairs = [pair for pair in PAIRS if all(name in known for name in pair)]
    if not pairs:
        raise ValueError(f"the law of {posterior.frame.spec.name} has no coefficients on a ridge")
    domains = posterior.frame.domains
    figure = new_figure(COLUMN * max(1.0, len(domains) / 2), HEIGHT * len(pairs) + 0.7)
    grid = figure.subplots(len(pairs), len(domains), squeeze=False)
    for row, (first, second) in enumerate(pairs):
        for index, domain in enumerate(domains):
            axes = grid[row, index]
            _pair(axes, posterior, (first, second), domain, colour(index))
            axes.set_xlabel(SIGNS.get(first, first), labelpad=1)
            if index == 0:
                axes.set_ylabel(SIGNS.get(second, second))
            if row == 0:
                axes.set_title(domain, color=colour(index), fontweight="bold", pad=12)
    panels.legend(
        figure,
        {
            "prior draws": panels.line(PALE, marker="o", markersize=3, linestyle=""),
            "posterior draws": panels.line(colour(0), marker="o", markersize=3, linestyle=""),
            "all axes logarithmic": panels.line("none"),
        },
    )
    return figure


def _pair(
    axes: "Axes", posterior: Posterior, names: tuple[str, str], domain: str, shade: str
) -> None:
    draws = [posterior.draws(name, domain).ravel() for name in names]
    priors = [posterior.prior_draws(name, domain) for name in names]
    kept = np.linspace(0, draws[0].size - 1, min(DRAWS, draws[0].size)).astype(int)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.plot(
        *[values[:DRAWS] for values in priors],
        "o",
        color=PALE,
        markersize=1.0,
        zorder=1,
        rasterized=True,
    )
    axes.plot(
        *[values[kept] for values in draws],
        "o",
        color=shade,
        markersize=1.2,
        alpha=0.5,
        zorder=2,
        rasterized=True,
    )
    axes.set_xlim(*_limits(draws[0]))
    axes.set_ylim(*_limits(draws[1]))
    _plain_ticks(axes)
    panels.note(axes, f"rank correlation {_rank_correlation(*draws):+.2f}".replace("-", "−"))


def _limits(draws: Floats) -> tuple[float, float]:
    low, high = np.log(np.quantile(draws, [0.5 - MASS / 2, 0.5 + MASS / 2]))
    room = ROOM * (high - low) + 1e-6
    return float(np.exp(low - room)), float(np.exp(high + room))


def _rank_correlation(first: Floats, second: Floats) -> float:
    ranks = np.argsort(np.argsort([first, second], axis=1), axis=1)
    matrix: Floats = np.asarray(np.corrcoef(np.asarray(ranks, dtype=np.float64)))
    return float(matrix[0, 1])


def _plain_ticks(axes: "Axes") -> None:
    """Mark each axis at two round numbers inside it."""
    from matplotlib.ticker import NullFormatter, NullLocator

    dress(axes, grid=False)
    for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        low, high = np.log(limits)
        marks = [float(f"{np.exp(low + share * (high - low)):.1g}") for share in (0.2, 0.8)]
        axis.set_minor_locator(NullLocator())
        axis.set_minor_formatter(NullFormatter())
        axis.set_ticks(marks, [f"{mark:g}" for mark in marks], fontsize=SMALL)

"""How a posterior was sampled: energies, and the ranks of each chain."""

from typing import TYPE_CHECKING

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.plots import panels
from bayes_cpt.plots.style import (
    COLUMN,
    GREY,
    INK,
    PALETTE,
    WIDE_BAND,
    dress,
    new_figure,
    styled,
)
from bayes_cpt.validate.calibration import ecdf, ecdf_bands

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


ROW = 1.35
# Parameters whose ranks are drawn: those with the largest R-hat.
WORST = 3
BINS = 30
MASS = 0.95
# Draws of a chain whose ranks are drawn.
FEWEST, MOST = 20, 100


@styled
def sampling(posterior: Posterior, summary: "pd.DataFrame | None" = None) -> "Figure":
    """Return a figure of energies and ranks, at the width of a column.

    Parameters
    ----------
    posterior : Posterior
    summary : DataFrame, optional
        Of `Posterior.summary`, where it is at hand.

    Returns
    -------
    matplotlib.figure.Figure
        Above, where the sampler keeps energies: the density of the energy and of its change from draw to
        draw, each about its mean (Betancourt 2016, arXiv 1604.00695), with the smallest E-BFMI of the
        chains as ArviZ computes it; left out where the file has no energies. Below, for the parameters
        with the largest R-hat, the ECDF of each chain's ranks among all draws, less that of uniform
        ranks, with a simultaneous 95 % band; chains are thinned to their effective sample size.
    """
    table = posterior.summary() if summary is None else summary
    sampled = table[table["kind"] == "parameter"].sort_values("r_hat", ascending=False)
    worst = sampled.head(WORST)
    energies = posterior.tree["sample_stats"].get("energy")
    rows = len(worst) + (energies is not None)
    figure = new_figure(COLUMN, ROW * rows + 0.75)
    grid = figure.subplots(rows, 1, squeeze=False)[:, 0]
    entries = {}
    if energies is not None:
        _energy(grid[0], posterior, np.asarray(energies))
        entries = {
            "energy": panels.patch(PALETTE[0], 0.55),
            "its change": panels.patch(PALETTE[1], 0.55),
        }
    for axes, row in zip(grid[rows - len(worst) :], worst.to_dict("records"), strict=True):
        draws = posterior.draws(row["quantity"], row["domain"])
        _ranks(axes, draws, min(row["ess_bulk"], row["ess_tail"]))
        place = "" if row["domain"] == "all" else f", {row['domain']}"
        axes.set_title(
            f"{row['quantity'].replace('_', ' ')}{place}: R-hat {row['r_hat']:.3f}", loc="left"
        )
    grid[-1].set_xlabel("rank among all draws, as a share")
    chains = posterior.tree["posterior"].sizes["chain"]
    entries |= {
        f"chain 1 to {chains}": panels.line(GREY),
        f"{100 * MASS:g} % band of uniform ranks": panels.patch(GREY, 2 * WIDE_BAND),
    }
    panels.legend(figure, entries)
    return figure


def _energy(axes: "Axes", posterior: Posterior, energies: Floats) -> None:
    from arviz_stats import bfmi

    changes = np.diff(energies, axis=1).ravel()
    centred = (energies - energies.mean()).ravel()
    reach = float(max(np.abs(centred).max(), np.abs(changes).max()))
    edges = np.linspace(-reach, reach, BINS + 1)
    for values, shade in ((centred, PALETTE[0]), (changes - changes.mean(), PALETTE[1])):
        heights, _ = np.histogram(values, edges, density=True)
        outline = np.append(heights, heights[-1])
        axes.fill_between(edges, outline, step="post", color=shade, alpha=0.55, linewidth=0.0)
    smallest = float(np.min(np.asarray(bfmi(posterior.tree)["energy"])))
    axes.set_title(f"energy: smallest E-BFMI {smallest:.2f}", loc="left")
    axes.set_xlabel("from its mean (nats)")
    axes.set_yticks([])
    dress(axes, grid=False)
    axes.set_yticks([])


def _ranks(axes: "Axes", draws: Floats, effective: float) -> None:
    """Draw the ECDF of the ranks of each chain, less that of uniform ranks."""
    chains, length = draws.shape
    count = int(np.clip(effective / chains, min(FEWEST, length), min(MOST, length)))
    kept = np.linspace(0, length - 1, count).round().astype(int)
    thinned = draws[:, kept]
    ranks = np.argsort(np.argsort(thinned.ravel())).reshape(chains, count)
    points, lower, upper = ecdf_bands(count, MASS)
    axes.fill_between(
        points, lower - points, upper - points, color=GREY, alpha=WIDE_BAND, linewidth=0.0
    )
    for chain in range(chains):
        uniform = (ranks[chain] + 0.5) / ranks.size
        axes.step(
            points,
            ecdf(uniform) - points,
            where="post",
            color=PALETTE[chain % len(PALETTE)],
            linewidth=0.9,
        )
    axes.axhline(0.0, color=INK, linewidth=0.5)
    axes.set_xlim(0, 1)
    dress(axes, ticks=3)
    axes.set_ylabel("ECDF less\nuniform")

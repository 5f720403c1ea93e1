"""How a posterior was sampled, and the ridges it lies on; drawn by ArviZ."""

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.figure import Figure

from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.plots import panels
from bayes_cpt.plots.style import COLUMN, PALETTE, styled

# Coefficients that lie on ridges, pair by pair (docs/law.md, "What is sampled").
RIDGES = ("A", "alpha", "E", "beta", "C2", "C1")
# Parameters whose ranks are drawn: those with the largest R-hat.
WORST = 3
MASS = 0.95
# Height of a panel of ranks, inches.
RANKS = 1.6


@styled
def ridges(posterior: Posterior, domain: str | None = None) -> Figure:
    """Return pairs of coefficients that the data determine together, and hardly alone; two columns wide.

    Parameters
    ----------
    posterior : Posterior
    domain : str, optional
        Validation set; the last of the fit unless given.

    Returns
    -------
    matplotlib.figure.Figure
        Of `arviz_plots.plot_pair`.

    Raises
    ------
    ValueError
        If the law has none of the pairs.
    """
    from arviz_plots import plot_pair

    domain = domain or posterior.frame.domains[-1]
    known = posterior.tree["posterior"].data_vars
    pairs = zip(RIDGES[::2], RIDGES[1::2], strict=True)
    # What a law fixes lies on no ridge.
    varying = [
        name for name in RIDGES if name in known and np.ptp(posterior.draws(name, domain)) > 0
    ]
    names = [name for pair in pairs if set(pair) <= set(varying) for name in pair]
    if not names:
        raise ValueError(f"the law of {posterior.frame.spec.name} has no coefficients on a ridge")
    tree = _tree(posterior, [(name, domain) for name in names], [f"log {name}" for name in names])
    drawn = plot_pair(
        tree.map_over_datasets(np.log10),
        backend="matplotlib",
        visuals={"scatter": {"color": PALETTE[0], "alpha": 0.4, "size": 4.0, "rasterized": True}},
        figure_kwargs=panels.layout(2 * COLUMN, 2 * COLUMN),
    )
    figure = panels.of_arviz(drawn)
    title = f"Ridges of {posterior.frame.spec.name} on {domain}, decimal logarithms"
    figure.suptitle(title, fontweight="bold")
    return figure


@styled
def sampling(posterior: Posterior, summary: pd.DataFrame | None = None) -> Figure:
    """Return the ranks of each chain for the parameters with the largest R-hat, at the width of a column.

    Parameters
    ----------
    posterior : Posterior
    summary : DataFrame, optional
        Of `Posterior.summary`, where it is at hand.

    Returns
    -------
    matplotlib.figure.Figure
        Of `arviz_plots.plot_rank`: the ECDF of the ranks less that of uniform ranks, a line per chain. They
        stay near 0 where chains agree; p is the probability of such ranks if they do.
    """
    from arviz_plots import plot_rank

    table = posterior.summary() if summary is None else summary
    sampled = table[table["kind"] == "parameter"].sort_values("r_hat", ascending=False)
    worst = sampled.head(WORST)
    places = list(zip(worst["quantity"], worst["domain"], strict=True))
    titles = [
        f"{name.replace('_', ' ')}{'' if domain == 'all' else f', {domain}'}\nR-hat {rhat:.3f}"
        for (name, domain), rhat in zip(places, worst["r_hat"], strict=True)
    ]
    drawn = plot_rank(
        _tree(posterior, places, titles),
        envelope_prob=MASS,
        backend="matplotlib",
        visuals={"xlabel": {"text": "rank among all draws"}},
        col_wrap=1,
        figure_kwargs=panels.layout(COLUMN, RANKS * len(worst)),
    )
    return panels.of_arviz(drawn)


def _tree(posterior: Posterior, places: list[tuple[str, str]], titles: list[str]) -> xr.DataTree:
    """Return draws of quantities, by title, as ArviZ takes them."""
    draws = {
        title: (("chain", "draw"), posterior.draws(name, domain))
        for title, (name, domain) in zip(titles, places, strict=True)
    }
    sizes = posterior.tree["posterior"].sizes
    labels = {name: range(sizes[name]) for name in ("chain", "draw")}
    return xr.DataTree.from_dict({"posterior": xr.Dataset(draws, labels)})

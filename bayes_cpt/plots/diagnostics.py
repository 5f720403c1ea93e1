"""How a posterior was sampled; drawn by ArviZ."""

import pandas as pd
import xarray as xr
from matplotlib.figure import Figure

from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.plots import panels
from bayes_cpt.plots.style import COLUMN, styled

# Parameters whose ranks are drawn: those with the largest R-hat.
WORST = 3
MASS = 0.95
# Height of a panel of ranks, inches.
RANKS = 1.6


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
    draws = {}
    for name, domain, rhat in worst[["quantity", "domain", "r_hat"]].itertuples(index=False):
        where = "" if domain == "all" else f", {domain}"
        title = f"{name.replace('_', ' ')}{where}\nR-hat {rhat:.3f}"
        draws[title] = (("chain", "draw"), posterior.draws(name, domain))
    sizes = posterior.tree["posterior"].sizes
    labels = {name: range(sizes[name]) for name in ("chain", "draw")}
    drawn = plot_rank(
        xr.DataTree.from_dict({"posterior": xr.Dataset(draws, labels)}),
        envelope_prob=MASS,
        backend="matplotlib",
        visuals={"xlabel": {"text": "rank among all draws"}},
        col_wrap=1,
        figure_kwargs=panels.layout(COLUMN, RANKS * len(worst)),
    )
    return panels.of_arviz(drawn)

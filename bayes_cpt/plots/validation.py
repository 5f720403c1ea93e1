"""How a fit was sampled, drawn by ArviZ, and how forecasts of held-out runs turned out, law by law."""

from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayes_cpt.arrays import chance
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.plots import panels
from bayes_cpt.plots.style import (
    COLUMN,
    GREY,
    INK,
    LARGE,
    PALETTE,
    SMALL,
    called,
    colour,
    dress,
    new_figure,
    styled,
)
from bayes_cpt.validate.comparison import Comparison
from bayes_cpt.validate.law_scores import CRPS, LOG_SCORE, STACK
from bayes_cpt.validate.scores import HORIZONS, MASSES, by_horizon

# Of coverage: inches of a bin of horizons and of the two rows; how far lines of a bin lie apart, of the
# distance of two bins; and the bars of a histogram.
BIN, COVERAGE_HEIGHT, PIT_HEIGHT = 1.15, 2.2, 1.4
SPREAD, BARS = 0.15, 10
MARKERS = ("o", "s", "^")
WORDS = {"share": "place in the run, by steps", "ratio": "step over the last one that was fitted"}
# Of laws: inches of a row, and how far its dots are spread, of its height.
ROW, DOTS = 0.42, 0.25
TITLES = {
    LOG_SCORE: "log score less that of {best}\n(nats per run; right is better)",
    CRPS: "CRPS less that of {best}\n(nats/token; left is better)",
}
PROMISED: dict[str, Any] = {"color": INK, "linestyle": "--", "linewidth": 0.8}
# Parameters whose ranks are drawn: those with the largest R-hat.
WORST = 3
MASS = 0.95
# Height of a panel of ranks, inches.
RANKS = 1.6


@styled
def comparison(result: Comparison) -> Figure:
    """Return a figure of the scores of laws and their stack on runs that were left out.

    A row per law: log score and CRPS of each run left out (dots) beside those of the best law, with mean
    and standard error.

    Parameters
    ----------
    result : Comparison

    Raises
    ------
    ValueError
        If no run was left out.
    """
    scores = result.scores
    if scores is None:
        raise ValueError("no run was left out: compare without quick")
    shares = scores.weights.items()
    labels = [f"{called(law)}\n{chance(weight)} of the stack" for law, weight in shares]
    figure = new_figure(6.4, ROW * (len(labels) + 1) + 1.8)
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, score in ((left, LOG_SCORE), (right, CRPS)):
        values = scores.of_runs(score)
        axes.axvline(0.0, color=GREY, linewidth=0.8)
        for row, method in enumerate(values):
            gaps, shade = values[method] - values[scores.best], colour(row)
            spread = row + np.linspace(-DOTS, DOTS, gaps.size)
            axes.plot(gaps, spread, ".", alpha=0.5, markersize=4, color=shade)
            style: Any = {"fmt": "o", "markersize": 5, "capsize": 3, "color": shade}
            axes.errorbar(gaps.mean(), row, xerr=gaps.sem(), **style)
        dress(axes, grid=False, ylim=(len(labels) + 0.5, -0.5))
        axes.locator_params(axis="x", nbins=4)
        axes.set_title(TITLES[score].format(best=called(scores.best)))
    left.set_yticks(range(len(labels) + 1), [*labels, STACK], fontsize=SMALL)
    entries = {
        "one run left out": panels.line(GREY, linestyle="", marker=".", markersize=4, alpha=0.5),
        "mean, ± 1 standard error": panels.line(GREY, marker="o", markersize=5),
    }
    panels.legend(figure, entries)
    return figure


@styled
def coverage(points: pd.DataFrame, axis: Literal["share", "ratio"] = "share") -> Figure:
    """Return a figure of coverage and PIT histograms of held-out points.

    One block per validation set. Above: the share of points inside the bands against what the bands
    promise, with 90 % intervals that take each run as one observation. Below: the density of the PIT of all
    points, flat where a forecast is calibrated, high at both ends where it is too narrow.

    Parameters
    ----------
    points : DataFrame
        From `bayes_cpt.validate.held_out.score_folds`: columns run, domain, pit, covered_M and the axis.
    axis : {"share", "ratio"}
        What splits points: their place in the run, or how far they lie beyond what was fitted.

    Raises
    ------
    ValueError
        If there is no point.
    """
    if points.empty:
        raise ValueError("there are no scored points: nothing to draw")
    found = by_horizon(points, axis, ["domain"])
    bins = [name for name in HORIZONS[axis] if name in found["horizon"].to_numpy()]
    domains = list(points["domain"].unique())
    width = BIN * max(len(bins), 3) * len(domains) + 1.0
    figure = new_figure(width, COVERAGE_HEIGHT + PIT_HEIGHT + 0.8)
    parts = figure.subfigures(1, len(domains), wspace=0.02, squeeze=False)[0]
    for part, domain in zip(parts, domains, strict=True):
        part.suptitle(f"validation set: {called(domain)}", fontsize=LARGE, fontweight="bold")
        scores = found[found["domain"] == domain].set_index("horizon").reindex(bins)
        top, bottom = part.subplots(2, 1, height_ratios=(COVERAGE_HEIGHT, PIT_HEIGHT))
        _coverage(top, scores)
        labels = [f"{name}\n{count:g} points" for name, count in scores["points"].fillna(0).items()]
        top.set(xticks=range(len(bins)), xticklabels=labels, xlabel=WORDS[axis])
        pits = points.loc[points["domain"] == domain, "pit"]
        density, edges = np.histogram(pits, BARS, (0.0, 1.0), density=True)
        bottom.stairs(density, edges, color=colour(0), fill=True, alpha=0.6)
        bottom.axhline(1.0, label="what the bands promise, and a flat PIT", **PROMISED)
        label = "PIT: the predictive probability of less than was measured"
        dress(bottom, grid=False, xlim=(0, 1), xlabel=label, ylabel="density")
    panels.legend(figure)
    return figure


def _coverage(axes: Axes, scores: pd.DataFrame) -> None:
    for place, (mass, marker) in enumerate(zip(MASSES, MARKERS, strict=True)):
        axes.axhline(mass, **PROMISED)
        panels.beside(axes, f"{mass} %", mass, color=GREY)
        # Side by side, so that intervals do not hide each other.
        where = np.arange(len(scores)) + SPREAD * (place - 1)
        shares = 100 * scores[f"coverage_{mass}"]
        half = 164.5 * scores[f"coverage_{mass}_error"].fillna(0.0)
        errors = [np.minimum(half, shares), np.minimum(half, 100 - shares)]
        style: Any = {"marker": marker, "markersize": 3.5, "linewidth": 1.0, "elinewidth": 0.7}
        style["label"] = f"inside the {mass} % band"
        axes.errorbar(where, shares, errors, color=colour(place), **style)
    label = "points inside the band (%)"
    dress(axes, ylabel=label, xlim=(-0.5, len(scores) - 0.5), ylim=(0, 103))


@styled
def sampling(posterior: Posterior, summary: pd.DataFrame | None = None) -> Figure:
    """Return the ranks of each chain for the parameters with the largest R-hat, at the width of a column.

    Of `arviz_plots.plot_rank`: the ECDF of the ranks less that of uniform ranks, a line per chain. They
    stay near 0 where chains agree; dots mark what speaks against that, where a test finds that they do not.

    Parameters
    ----------
    posterior : Posterior
    summary : DataFrame, optional
        Of `Posterior.summary`, where it is at hand.
    """
    from arviz_base.labels import MapLabeller
    from arviz_plots import plot_rank

    table = posterior.summary() if summary is None else summary
    sampled = table[table["kind"] == "parameter"].sort_values("r_hat", ascending=False)
    worst = sampled.head(WORST)
    draws: dict[str, Any] = {}
    titles: dict[Any, Any] = {}
    for name, domain, rhat in worst[["quantity", "domain", "r_hat"]].itertuples(index=False):
        where = "" if domain == "all" else f"{called(domain)}, "
        # A name of ArviZ's has no slash, that of a validation set may have one.
        key = str(len(draws))
        titles[key] = f"{name.replace('_', ' ')}\n{where}R-hat {rhat:.3f}"
        draws[key] = (("chain", "draw"), posterior.draws(name, domain))
    sizes = posterior.tree["posterior"].sizes
    labels = {name: range(sizes[name]) for name in ("chain", "draw")}
    drawn = plot_rank(
        xr.DataTree.from_dict({"posterior": xr.Dataset(draws, labels)}),
        envelope_prob=MASS,
        labeller=MapLabeller(titles),
        backend="matplotlib",
        visuals={"xlabel": {"text": "rank among all draws"}, "remove_axis": False},
        # Black is for the dots.
        color=list(PALETTE[:-1]),
        col_wrap=1,
        figure_kwargs=panels.layout(COLUMN, RANKS * len(worst)),
    )
    figure = panels.of_arviz(drawn)
    # Each panel's p, which ArviZ always writes: that of the worst of many parameters is small by chance.
    for text in [text for axes in figure.axes for text in axes.texts]:
        text.remove()
    for axes in figure.axes:
        axes.axhline(0.0, color=GREY, linewidth=0.8, zorder=0)
        axes.set_xlabel(axes.get_xlabel() if axes is figure.axes[-1] else "")
    figure.supylabel("ECDF of the ranks less the uniform one", fontsize="medium")
    return figure

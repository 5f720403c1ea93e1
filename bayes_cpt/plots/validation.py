"""How forecasts of held-out runs turned out, law by law, and how simulated truths rank."""

import math
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayes_cpt.plots import panels
from bayes_cpt.plots.style import GREY, INK, LARGE, SMALL, colour, dress, new_figure, styled
from bayes_cpt.validate.calibration import RANKED
from bayes_cpt.validate.comparison import Comparison
from bayes_cpt.validate.law_scores import CRPS, LOG_SCORE, STACK
from bayes_cpt.validate.scores import MASSES, horizons, mean_scores

# Of coverage: inches of a bin of horizons and of the two rows; how far lines of a bin are spread, of the
# distance of two bins; and the bars of a histogram.
BIN, COVERAGE_HEIGHT, PIT_HEIGHT = 1.15, 2.2, 1.4
SPREAD, BARS = 0.4, 10
MARKERS = ("o", "s", "^")
WORDS = {
    "share": "place in the run, by steps",
    "ratio": "step over the last one that was fitted",
}
# Of the ranks of simulated truths: panels in a row and their inches, and the mass of the envelope.
COLUMNS, SIZE, ENVELOPE = 5, (1.7, 1.5), 0.95
# Of laws: inches of a row, how far its dots are spread and the two bands lie off it, of its height.
ROW, DOTS, APART = 0.42, 0.25, 0.12
TITLES = {
    LOG_SCORE: "log score less that of {best}\n(nats per run; right is better)",
    CRPS: "CRPS less that of {best}\n(nats/token; left is better)",
}
PROMISED: dict[str, Any] = {"color": INK, "linestyle": "--", "linewidth": 0.8}


@styled
def comparison(result: Comparison) -> Figure:
    """Return a figure of the scores of laws and their stack.

    Parameters
    ----------
    result : Comparison

    Returns
    -------
    matplotlib.figure.Figure
        A row per law. Left and middle: log score and CRPS of each run left out (dots) beside those of the
        best law, with mean and standard error. Right: the share of a run's points in the bands of 50 and
        90 %, with its standard error; lines are what the bands promise. Where no run was left out: log
        scores of curves by importance sampling.

    Raises
    ------
    ValueError
        If there is nothing to draw.
    """
    scores, loo = result.scores, result.curve_loo
    if scores is None and isinstance(loo, str):
        raise ValueError(f"there is nothing to draw: {loo}")
    marks = [
        panels.dot(GREY, marker=".", markersize=4, alpha=0.5),
        panels.line(GREY, marker="o", markersize=5),
    ]
    means = "mean, ± 1 standard error"
    if scores is None:
        assert not isinstance(loo, str)
        figure = new_figure(5.2, ROW * len(loo.of_runs.columns) + 1.8)
        title = "by importance sampling: " + TITLES[LOG_SCORE].format(best=loo.best)
        _differences(figure.subplots(), list(loo.of_runs), loo.of_runs, loo.best, title)
        panels.legend(figure, dict(zip(("one curve", means), marks, strict=True)))
        return figure
    laws = [f"{law}\n{100 * weight:.0f} % of the stack" for law, weight in scores.weights.items()]
    labels = [*laws, STACK]
    figure = new_figure(8.6, ROW * len(labels) + 1.8)
    left, middle, right = figure.subplots(1, 3, sharey=True)
    for axes, score in ((left, LOG_SCORE), (middle, CRPS)):
        title = TITLES[score].format(best=scores.best)
        _differences(axes, labels, scores.of_runs(score), scores.best, title)
    for mass, marker, off in ((50, "s", -APART), (90, "o", APART)):
        right.axvline(mass, **PROMISED)
        covered = 100 * scores.of_runs(f"covered_{mass}")
        for row, method in enumerate(scores.methods):
            shares, where = covered[method], row + off
            style: Any = {"fmt": marker, "color": colour(row), "capsize": 3}
            right.errorbar(shares.mean(), where, xerr=shares.sem(), **style)
    title = "points of a run in its 50 % (squares)\nand 90 % bands (dots), %"
    dress(right, grid=False, xlim=(0, 100))
    right.set_title(title)
    entries = dict(zip(("one run left out", means), marks, strict=True))
    panels.legend(figure, entries | {"what the bands promise": panels.mark(**PROMISED)})
    return figure


def _differences(
    axes: Axes, labels: list[str], scores: pd.DataFrame, best: str, title: str
) -> None:
    axes.axvline(0.0, color=GREY, linewidth=0.8)
    for row, method in enumerate(scores):
        values = scores[method] - scores[best]
        spread, shade = np.linspace(-DOTS, DOTS, values.size), colour(row)
        axes.plot(values, row + spread, ".", alpha=0.5, markersize=4, color=shade)
        error = values.sem() if values.size > 1 else 0.0
        style: Any = {"fmt": "o", "markersize": 5, "capsize": 3, "color": shade}
        axes.errorbar(values.mean(), row, xerr=error, **style)
    dress(axes, grid=False, ylim=(len(labels) - 0.5, -0.5))
    axes.set_title(title)
    axes.set_yticks(range(len(labels)), labels, fontsize=SMALL)


@styled
def coverage(points: pd.DataFrame, axis: Literal["share", "ratio"] = "share") -> Figure:
    """Return a figure of coverage and PIT histograms of held-out points.

    Parameters
    ----------
    points : DataFrame
        From `bayes_cpt.validate.held_out.score_folds`: columns method, run, domain, pit, covered_M and the
        axis.
    axis : {"share", "ratio"}
        What splits points: their place in the run, or how far they lie beyond what was fitted.

    Returns
    -------
    matplotlib.figure.Figure
        One block per validation set. Above: the share of points inside the bands of each method against
        what the bands promise, with 90 % intervals that take each run as one observation. Below: the
        density of the PIT of all points, flat where a forecast is calibrated, high at both ends where it
        is too narrow.

    Raises
    ------
    ValueError
        If there is no point.
    """
    if points.empty:
        raise ValueError("there are no scored points: nothing to draw")
    found = horizons(points[axis], axis).remove_unused_categories()
    binned, bins = points.assign(bin=found.astype(str)), list(found.categories)
    methods, domains = list(binned["method"].unique()), list(binned["domain"].unique())
    width = BIN * max(len(bins), 3) * len(domains) + 1.0
    figure = new_figure(width, COVERAGE_HEIGHT + PIT_HEIGHT + 0.8)
    for part, domain in zip(panels.halves(figure, len(domains)), domains, strict=True):
        part.suptitle(f"validation set: {domain}", fontsize=LARGE, fontweight="bold")
        rows = binned[binned["domain"] == domain]
        top, bottom = part.subplots(2, 1, height_ratios=(COVERAGE_HEIGHT, PIT_HEIGHT))
        _coverage(top, rows, methods, bins)
        counts = [rows[rows["bin"] == place].groupby("method").size().max() for place in bins]
        labels = [f"{name}\n{count} points" for name, count in zip(bins, counts, strict=True)]
        top.set(xticks=range(len(bins)), xticklabels=labels, xlabel=WORDS[axis])
        _histograms(bottom, rows, methods)
    entries = {method: panels.line(colour(place)) for place, method in enumerate(methods)}
    for mass, marker in zip(MASSES, MARKERS, strict=True):
        entries[f"inside the {mass} % band"] = panels.dot(GREY, marker=marker, markersize=3.5)
    entries["what the bands promise, and a flat PIT"] = panels.mark(**PROMISED)
    panels.legend(figure, entries)
    return figure


def _coverage(axes: Axes, rows: pd.DataFrame, methods: list[str], bins: list[str]) -> None:
    for mass in MASSES:
        axes.axhline(mass, **PROMISED)
        panels.beside(axes, f"{mass} %", mass, color=GREY)
    lines = [(method, mass) for method in methods for mass in MASSES]
    for number, (method, mass) in enumerate(lines):
        scored = rows[rows["method"] == method]
        # Side by side, so that intervals do not hide each other.
        shift = SPREAD * (number / (len(lines) - 1) - 0.5)
        covered = mean_scores(scored, ["bin"])
        shares = 100 * covered[f"coverage_{mass}"]
        half = 164.5 * covered[f"coverage_{mass}_error"].fillna(0.0)
        places = [bins.index(place) + shift for place in covered["bin"]]
        errors = [np.minimum(half, shares), np.minimum(half, 100 - shares)]
        style: Any = {"marker": MARKERS[MASSES.index(mass)], "markersize": 3.5, "linewidth": 1.0}
        shade = colour(methods.index(method))
        axes.errorbar(places, shares, errors, color=shade, elinewidth=0.7, **style)
    label = "points inside the band (%)"
    dress(axes, ylabel=label, xlim=(-0.5, len(bins) - 0.5), ylim=(0, 103))


def _histograms(axes: Axes, rows: pd.DataFrame, methods: list[str]) -> None:
    """Draw the density of the PIT of each method."""
    for place, method in enumerate(methods):
        pit = rows.loc[rows["method"] == method, "pit"].to_numpy()
        heights, edges = np.histogram(pit, BARS, (0.0, 1.0), density=True)
        alpha = 1.0 if place else 0.6
        axes.stairs(heights, edges, color=colour(place), fill=place == 0, alpha=alpha)
    axes.axhline(1.0, **PROMISED)
    axes.set(xlim=(0, 1), ylim=(0.0, None))
    label = "PIT: the predictive probability of less than was measured"
    dress(axes, grid=False, xlabel=label, ylabel="density")


@styled
def calibration(ranks: pd.DataFrame) -> Figure:
    """Return the ECDF of each quantity's ranks, less that of uniform ranks, with a 95 % envelope.

    Parameters
    ----------
    ranks : DataFrame
        A row per simulation, a column per quantity: from `bayes_cpt.validate.calibration.quantity_ranks`.

    Returns
    -------
    matplotlib.figure.Figure
        Of `arviz_plots.plot_ecdf_pit`, a panel per quantity. A curve that rises at first: truths lie low,
        posteriors too high. One that rises at both ends and sinks between them: posteriors too narrow.

    Raises
    ------
    ValueError
        If there are fewer than two simulations.
    """
    from arviz_base import rc_context
    from arviz_plots import plot_ecdf_pit

    count = len(ranks)
    if count < 2:
        raise ValueError(f"there are {count} simulations with ranks: give at least two")
    shares = ((ranks + 0.5) / (RANKED + 1)).rename_axis("simulation")
    titled = shares.rename(columns=lambda name: str(name).replace("[", "\n["))
    columns = min(COLUMNS, len(titled.columns))
    rows = math.ceil(len(titled.columns) / columns)
    with rc_context({"plot.max_subplots": None}):
        drawn = plot_ecdf_pit(
            xr.DataTree.from_dict({"prior_sbc": titled.to_xarray()}),
            sample_dims=["simulation"],
            envelope_prob=ENVELOPE,
            backend="matplotlib",
            visuals={"xlabel": {"text": f"rank of the truth / {RANKED + 1}"}},
            col_wrap=columns,
            figure_kwargs=panels.layout(max(SIZE[0] * columns, 5.0), SIZE[1] * rows + 0.4),
        )
    return panels.of_arviz(drawn)

"""How forecasts of held-out points turned out, and whether simulated truths rank as they should."""

import math
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayes_cpt.plots import panels
from bayes_cpt.plots.style import GREY, INK, LARGE, colour, dress, new_figure, styled
from bayes_cpt.validate.calibration import RANKED
from bayes_cpt.validate.scores import HORIZONS, MASSES, horizon_bins, mean_scores

BARS = 10
# Inches of a bin of horizons, and of the two rows.
BIN, COVERAGE_HEIGHT, PIT_HEIGHT = 1.15, 2.2, 1.4
# Width that the lines of a bin are spread over; bins are 1 apart.
SPREAD = 0.4
MARKERS = ("o", "s", "^")
WORDS = {
    "share": "place in the run, by steps",
    "ratio": "step over the last one that was fitted",
}
# Of the ranks of simulated truths: panels in a row and their inches, and the mass of the envelope.
COLUMNS, SIZE, ENVELOPE = 5, (1.7, 1.5), 0.95


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
    binned = points.assign(bin=horizon_bins(points[axis], axis))
    bins = sorted(binned["bin"].unique())
    methods, domains = list(binned["method"].unique()), list(binned["domain"].unique())
    width = BIN * max(len(bins), 3) * len(domains) + 1.0
    figure = new_figure(width, COVERAGE_HEIGHT + PIT_HEIGHT + 0.8)
    for part, domain in zip(panels.halves(figure, len(domains)), domains, strict=True):
        part.suptitle(f"validation set: {domain}", fontsize=LARGE, fontweight="bold")
        rows = binned[binned["domain"] == domain]
        top, bottom = part.subplots(2, 1, height_ratios=(COVERAGE_HEIGHT, PIT_HEIGHT))
        _coverage(top, rows, methods, bins)
        counts = [rows[rows["bin"] == place].groupby("method").size().max() for place in bins]
        names = [HORIZONS[axis][place][1] for place in bins]
        labels = [f"{name}\n{count} points" for name, count in zip(names, counts, strict=True)]
        top.set(xticks=range(len(bins)), xticklabels=labels, xlabel=WORDS[axis])
        _histograms(bottom, rows, methods)
    entries: dict[str, Any] = {
        method: panels.line(colour(place)) for place, method in enumerate(methods)
    }
    for mass, marker in zip(MASSES, MARKERS, strict=True):
        mark = panels.line(GREY, marker=marker, markersize=3.5, linestyle="")
        entries[f"inside the {mass} % band"] = mark
    entries["what the bands promise, and a flat PIT"] = panels.line(
        INK, linestyle="--", linewidth=0.8
    )
    panels.legend(figure, entries)
    return figure


def _coverage(axes: Axes, rows: pd.DataFrame, methods: list[str], bins: list[int]) -> None:
    for mass in MASSES:
        axes.axhline(mass, color=INK, linestyle="--", linewidth=0.8)
        panels.beside(axes, f"{mass} %", mass, color=GREY)
    lines = [(method, mass) for method in methods for mass in MASSES]
    for number, (method, mass) in enumerate(lines):
        scored = rows[rows["method"] == method]
        # Side by side, so that intervals do not hide each other.
        shift = SPREAD * (number / (len(lines) - 1) - 0.5)
        covered = mean_scores(scored, ["bin"])
        shares = 100 * covered[f"coverage_{mass}"]
        half = 164.5 * covered[f"coverage_{mass}_error"].fillna(0.0)
        axes.errorbar(
            [bins.index(place) + shift for place in covered["bin"]],
            shares,
            [np.minimum(half, shares), np.minimum(half, 100 - shares)],
            color=colour(methods.index(method)),
            marker=MARKERS[MASSES.index(mass)],
            markersize=3.5,
            linewidth=1.0,
            elinewidth=0.7,
        )
    label = "points inside the band (%)"
    dress(axes, ylabel=label, xlim=(-0.5, len(bins) - 0.5), ylim=(0, 103))


def _histograms(axes: Axes, rows: pd.DataFrame, methods: list[str]) -> None:
    """Draw the density of the PIT of each method."""
    for place, method in enumerate(methods):
        pit = rows.loc[rows["method"] == method, "pit"].to_numpy()
        heights, edges = np.histogram(pit, BARS, (0.0, 1.0), density=True)
        axes.stairs(
            heights, edges, color=colour(place), fill=place == 0, alpha=0.6 if place == 0 else 1.0
        )
    axes.axhline(1.0, color=INK, linestyle="--", linewidth=0.8)
    dress(
        axes,
        grid=False,
        ticks=3,
        xlabel="PIT: the predictive probability of less than was measured",
        ylabel="density",
        xlim=(0, 1),
        ylim=(0.0, None),
    )


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
            figure_kwargs={
                "figsize": (max(SIZE[0] * columns, 5.0), SIZE[1] * rows + 0.4),
                "layout": "constrained",
            },
        )
    return panels.of_arviz(drawn)

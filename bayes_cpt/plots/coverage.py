"""How forecasts of held-out points turned out: coverage of bands, and the PIT, by horizon."""

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from bayes_cpt.plots import panels
from bayes_cpt.plots.style import GREY, INK, LARGE, PALE, SMALL, colour, dress, new_figure, styled
from bayes_cpt.validate.scores import HORIZONS, MASSES, horizon_bins

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

BARS = 10
PANEL = 1.15
# Width that the lines of a bin are spread over; bins are 1 apart.
SPREAD = 0.4
MARKERS = ("o", "s", "^")
COVERAGE_HEIGHT, PIT_HEIGHT = 2.1, 1.15
WORDS = {
    "share": "place in the run, by steps",
    "ratio": "step over the last one that was fitted",
}


@styled
def coverage(points: "pd.DataFrame", axis: Literal["share", "ratio"] = "share") -> "Figure":
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
        what the bands promise, with 90 % intervals that take each run as one observation. Below: histograms
        of the PIT, flat where a forecast is calibrated; high at both ends where it is too narrow.

    Raises
    ------
    ValueError
        If there is no point.
    """
    if points.empty:
        raise ValueError("there are no scored points: nothing to draw")
    binned = points.assign(bin=horizon_bins(points[axis], axis))
    shown = sorted(binned["bin"].unique())
    words = [HORIZONS[axis][i][1] for i in shown]
    methods = list(binned["method"].unique())
    domains = list(binned["domain"].unique())
    height = COVERAGE_HEIGHT + PIT_HEIGHT * len(methods) + 0.8
    figure = new_figure(PANEL * max(len(shown), 3) * len(domains) + 1.0, height)
    for part, domain in zip(panels.halves(figure, len(domains)), domains, strict=True):
        part.suptitle(f"validation set: {domain}", fontsize=LARGE, fontweight="bold")
        rows = binned[binned["domain"] == domain]
        _block(part, rows, methods, shown, words, axis)
    entries = {method: panels.line(colour(k)) for k, method in enumerate(methods)}
    for mass, marker in zip(MASSES, MARKERS, strict=True):
        mark = panels.line(GREY, marker=marker, markersize=3.5, linestyle="")
        entries[f"inside the {mass} % band"] = mark
    entries["what the bands promise, and a flat PIT"] = panels.line(
        INK, linestyle="--", linewidth=0.8
    )
    panels.legend(figure, entries)
    return figure


def _block(
    part: "SubFigure",
    rows: "pd.DataFrame",
    methods: list[str],
    bins: list[int],
    words: list[str],
    axis: str,
) -> None:
    ratios = [COVERAGE_HEIGHT, *[PIT_HEIGHT] * len(methods)]
    grid = part.add_gridspec(1 + len(methods), len(bins), height_ratios=ratios)
    top = part.add_subplot(grid[0, :])
    _coverage(top, rows, methods, bins)
    top.set_xticks(range(len(bins)), words)
    top.set_xlabel(WORDS[axis])
    heights: list[float] = []
    histograms: list[Axes] = []
    for k, method in enumerate(methods):
        for j, place in enumerate(bins):
            axes = part.add_subplot(grid[1 + k, j])
            scored = rows[(rows["method"] == method) & (rows["bin"] == place)]
            heights.append(_histogram(axes, scored, colour(k)))
            histograms.append(axes)
            if j == 0:
                axes.set_ylabel(f"{method}\ndensity of PIT", fontsize=SMALL)
            else:
                axes.tick_params(labelleft=False)
            if k < len(methods) - 1:
                axes.tick_params(labelbottom=False)
    for axes in histograms:
        axes.set_ylim(0, 1.05 * max(heights))


def _coverage(axes: "Axes", rows: "pd.DataFrame", methods: list[str], bins: list[int]) -> None:
    for mass in MASSES:
        axes.axhline(mass, color=INK, linestyle="--", linewidth=0.8)
        axes.annotate(
            f"{mass} %",
            xy=(1, mass),
            xycoords=("axes fraction", "data"),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=SMALL,
            color=GREY,
        )
    lines = [(method, mass) for method in methods for mass in MASSES]
    for number, (method, mass) in enumerate(lines):
        scored = rows[rows["method"] == method]
        # Side by side, so that intervals do not hide each other.
        shift = SPREAD * (number / (len(lines) - 1) - 0.5)
        places, shares, errors = [], [], []
        for j, place in enumerate(bins):
            here = scored[scored["bin"] == place]
            if len(here):
                share, half = 100 * here[f"covered_{mass}"].mean(), 100 * _half_interval(here, mass)
                places.append(j + shift)
                shares.append(share)
                errors.append((min(half, share), min(half, 100 - share)))
        axes.errorbar(
            places,
            shares,
            np.transpose(errors),
            color=colour(methods.index(method)),
            marker=MARKERS[MASSES.index(mass)],
            markersize=3.5,
            linewidth=1.0,
            elinewidth=0.7,
        )
    dress(axes)
    axes.set_ylim(0, 103)
    axes.set_xlim(-0.5, len(bins) - 0.5)
    axes.set_ylabel("points inside the band (%)")


def _half_interval(rows: "pd.DataFrame", mass: int) -> float:
    """Return half a 90 % interval of a coverage; points of one run depend on each other, runs do not."""
    shares = rows.groupby("run")[f"covered_{mass}"].mean()
    return 1.645 * float(shares.std()) / math.sqrt(len(shares)) if len(shares) > 1 else 0.0


def _histogram(axes: "Axes", rows: "pd.DataFrame", shade: str) -> float:
    """Draw a density of the PIT and return its height."""
    counts, edges = np.histogram(rows["pit"].to_numpy(), BARS, (0.0, 1.0))
    heights = counts * (BARS / max(1, len(rows)))
    axes.bar(edges[:-1], heights, np.diff(edges), align="edge", color=shade, alpha=0.6, linewidth=0)
    axes.axhline(1.0, color=INK, linestyle="--", linewidth=0.8)
    dress(axes, grid=False, ticks=2)
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.5, 1], ["0", "½", "1"])
    runs = rows["run"].nunique()
    panels.note(axes, f"{len(rows)} points, {runs} run{'s' * (runs != 1)}", color=GREY)
    axes.spines["bottom"].set_color(PALE)
    return float(max(heights.max(), 1.0))

"""Take scores of forecasts of real held-out runs into the documentation.

Run ``python docs/make_held_out.py NAME=FOLDER ...``; each folder has the points.csv that ``bayes-cpt
validate forecast -o FOLDER`` or ``python -m testbench.held_out --out FOLDER`` wrote. Draws
docs/images/held-out.png and prints the table of docs/results/held-out.md.
"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from make_images import ROOT, save

from bayes_cpt.plots import panels
from bayes_cpt.plots.style import GREY, INK, PALE, PALETTE, dress, new_figure, styled
from bayes_cpt.validate.held_out import OURS, PAPER
from bayes_cpt.validate.scores import ALL_DOMAINS, ALL_RUNS, MASSES, summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# What docs/results/held-out.md calls well calibrated, by the mass of the band.
GOALS = {50: (42.0, 58.0), 90: (85.0, 95.0)}
COLOURS = {PAPER: GREY, OURS: PALETTE[0]}
APART = 0.16
COLUMNS = (
    "runs held out",
    "runs",
    "points",
    "method",
    "in 50 %",
    "in 80 %",
    "in 90 %",
    "CRPS",
    "MAE",
)


def main() -> None:
    """Draw the figure and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sets", nargs="+", metavar="NAME=FOLDER", help="what a folder holds")
    scores = pd.concat([_scores(*own.split("=", 1)) for own in parser.parse_args().sets])
    save(figure(scores), ROOT / "docs" / "images" / "held-out.png")
    lines = [f"| {' | '.join(COLUMNS)} |", "| --- " * len(COLUMNS) + "|"]
    lines += [_line(row) for row in scores.to_dict("records")]
    sys.stdout.write("\n".join(lines) + "\n")


def _scores(name: str, folder: str) -> pd.DataFrame:
    """Return the scores of whole runs by each method, all points of a set counting alike."""
    points = pd.read_csv(Path(folder) / "points.csv")
    whole = points[points["seen"] == 0]
    rows = []
    for method in COLOURS:
        own = whole[whole["method"] == method]
        if len(own):
            table = summarize(own).set_index(["run", "domain"])
            pooled = table.loc[(ALL_RUNS, ALL_DOMAINS)].to_dict()
            rows.append({"name": name, "method": method, "runs": own["run"].nunique()} | pooled)
    return pd.DataFrame(rows)


def _line(row: dict[str, Any]) -> str:
    shares = [
        f"{100 * row[f'coverage_{mass}']:.0f} ± {100 * row[f'coverage_{mass}_error']:.0f} %"
        for mass in MASSES
    ]
    cells = (row["name"], row["runs"], f"{row['points']:.0f}", row["method"], *shares)
    return f"| {' | '.join(map(str, cells))} | {row['crps']:.4f} | {row['mae']:.4f} |"


@styled
def figure(scores: pd.DataFrame) -> "Figure":
    """Return coverage of 50 and 90 % bands, and CRPS as a share of the paper's, a row per set."""
    names = list(scores["name"].unique())
    drawn = new_figure(8.6, 0.42 * len(names) + 1.5)
    grid = drawn.subplots(1, 3, sharey=True)
    for axes, (mass, goal) in zip(grid, GOALS.items(), strict=False):
        axes.axvspan(*goal, color=PALE, alpha=0.45, linewidth=0)
        axes.axvline(mass, color=INK, linestyle="--", linewidth=0.8)
        for method, place in _places(scores, names):
            own = scores[scores["method"] == method]
            values, errors = (100 * own[f"coverage_{mass}{end}"] for end in ("", "_error"))
            look = {"color": COLOURS[method], "marker": "o", "markersize": 4, "linestyle": ""}
            axes.errorbar(values, place, xerr=errors, **look)
        axes.set_xlim(0, 103)
        axes.set_xlabel(f"points in the {mass} % band (%)")
    _draw_ratios(grid[2], scores, names)
    grid[0].set_yticks(range(len(names)), names)
    grid[0].set_ylim(len(names) - 0.5, -0.5)
    for axes in grid:
        dress(axes, grid=False)
    entries = {
        method: panels.line(COLOURS[method], marker="o", markersize=4, linestyle="")
        for method in COLOURS
    }
    entries["nominal"] = panels.line(INK, linestyle="--", linewidth=0.8)
    panels.legend(drawn, entries)
    return drawn


def _places(scores: pd.DataFrame, names: list[str]) -> list[tuple[str, list[float]]]:
    """Return the heights of each method's marks."""
    found = []
    for method, shift in zip(COLOURS, (-APART, APART), strict=True):
        own = scores.loc[scores["method"] == method, "name"]
        found.append((method, [names.index(name) + shift for name in own]))
    return found


def _draw_ratios(axes: "Axes", scores: pd.DataFrame, names: list[str]) -> None:
    crps = scores.pivot_table(index="name", columns="method", values="crps").reindex(names)
    ratios = 100 * crps[OURS] / crps[PAPER]
    axes.barh(range(len(names)), ratios, height=0.5, color=COLOURS[OURS])
    for place, ratio in enumerate(ratios):
        axes.text(ratio + 2, place, f"{ratio:.0f}", va="center")
    axes.axvline(100, color=GREY, linewidth=0.8)
    axes.set_xlim(0, 115)
    axes.set_xlabel("CRPS, % of that of the paper's method")


if __name__ == "__main__":
    main()

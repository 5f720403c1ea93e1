"""Draw docs/images/held-out.png from docs/results/held-out.csv: ``python docs/make_held_out.py``."""

from typing import TYPE_CHECKING

import pandas as pd
from make_images import ROOT, save

from bayes_cpt.plots import panels
from bayes_cpt.plots.style import GREY, INK, PALE, PALETTE, dress, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# What docs/results/held-out.md calls well calibrated, by the mass of the band.
GOALS = {50: (42.0, 58.0), 90: (85.0, 95.0)}
# How columns of the file start by method, and where its marks are: above or below the middle of a row.
METHODS = {"paper": ("paper_", GREY, -0.16), "bayes_cpt": ("", PALETTE[0], 0.16)}


def main() -> None:
    """Draw the figure."""
    sets = pd.read_csv(ROOT / "docs" / "results" / "held-out.csv")
    # The last sets count runs alike, and have no CRPS in nats.
    shown = sets[sets["crps"].notna() & (sets["weight"] == "points") & sets["in_90_error"].notna()]
    save(figure(shown.set_index("set")), ROOT / "docs" / "images" / "held-out.png")


@styled
def figure(sets: pd.DataFrame) -> "Figure":
    """Return coverage of 50 and 90 % bands, and CRPS as a share of the paper's, a row per set."""
    drawn = new_figure(8.6, 0.42 * len(sets) + 1.5)
    grid = drawn.subplots(1, 3, sharey=True)
    for axes, (mass, goal) in zip(grid, GOALS.items(), strict=False):
        axes.axvspan(*goal, color=PALE, alpha=0.45, linewidth=0)
        axes.axvline(mass, color=INK, linestyle="--", linewidth=0.8)
        for prefix, colour, shift in METHODS.values():
            column = f"{prefix}in_{mass}"
            if column in sets:
                look = {"color": colour, "marker": "o", "markersize": 4, "linestyle": ""}
                places = [place + shift for place in range(len(sets))]
                axes.errorbar(sets[column], places, xerr=sets[f"{column}_error"], **look)
        axes.set_xlim(0, 103)
        axes.set_xlabel(f"points in the {mass} % band (%)")
    _draw_ratios(grid[2], 100 * sets["crps"] / sets["paper_crps"])
    grid[0].set_yticks(range(len(sets)), sets.index)
    grid[0].set_ylim(len(sets) - 0.5, -0.5)
    for axes in grid:
        dress(axes, grid=False)
    entries = {
        method: panels.line(colour, marker="o", markersize=4, linestyle="")
        for method, (_, colour, _) in METHODS.items()
    }
    entries["nominal"] = panels.line(INK, linestyle="--", linewidth=0.8)
    panels.legend(drawn, entries)
    return drawn


def _draw_ratios(axes: "Axes", ratios: "pd.Series[float]") -> None:
    axes.barh(range(len(ratios)), ratios, height=0.5, color=PALETTE[0])
    for place, ratio in enumerate(ratios):
        axes.text(ratio + 2, place, f"{ratio:.0f}", va="center")
    axes.axvline(100, color=GREY, linewidth=0.8)
    axes.set_xlim(0, 115)
    axes.set_xlabel("CRPS, % of that of the paper's method")


if __name__ == "__main__":
    main()

"""Tables and a figure of what so many short runs of some length are worth."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayes_cpt.plots.style import GREY, PALETTE, dress, new_figure, styled
from testbench.decision_report import SCALE, UNIT, mean_and_error
from testbench.one_decision import OURS, RULE
from testbench.report import markdown_table

NOTES = {
    "scores": f"Forecasts of long runs: CRPS, {UNIT} = 0.001 nats/token, mean ± standard error over "
    "truths; in brackets how many points the 90 % bands cover. A row per number of short runs, a column "
    "per length.",
    "regrets": f"Regret of the replay ratio and peak learning rate chosen for the long run, {UNIT}, mean ± "
    "standard error over truths.",
    "fits": "Fits: largest R-hat in the median and at most, fewest effective draws in the median.",
}


def grid(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return means and standard errors over truths, a row per number and length of runs.

    Returns
    -------
    DataFrame
        Columns number, steps, mean and error.
    """
    own = table.groupby(["number", "steps", "truth"])[column].mean()
    rows = [
        (number, steps, *mean_and_error(values))
        for (number, steps), values in own.groupby(level=["number", "steps"])
    ]
    return pd.DataFrame(rows, columns=["number", "steps", "mean", "error"])


def wide(cells: pd.DataFrame) -> pd.DataFrame:
    """Return a row per number of runs and a column per length, of a table with the column `cell`."""
    found = cells.pivot_table(index="number", columns="steps", values="cell", aggfunc="first")
    found.columns = [f"{steps} steps" for steps in found.columns]
    return found.rename_axis("runs").reset_index()


def _plus_minus(cells: pd.DataFrame) -> pd.Series:
    mean, error = SCALE * cells["mean"], SCALE * cells["error"]
    return mean.map("{:.1f}".format) + " ± " + error.map("{:.1f}".format)


def markdown(tables: dict[str, pd.DataFrame]) -> str:
    """Return the report."""
    parts = [NOTES["scores"]]
    for domain, own in tables["scores"].groupby("domain", sort=False):
        cells = grid(own, "crps")
        covered = grid(own, "coverage_90")["mean"].map(" ({:.0%})".format)
        parts += [
            f"Loss: {domain}",
            markdown_table(wide(cells.assign(cell=_plus_minus(cells) + covered))),
        ]
    parts.append(NOTES["regrets"])
    for objective, own in tables["regrets"].groupby("objective", sort=False):
        cells = grid(own[own["method"] == OURS], "regret")
        rule = grid(own[own["method"] == RULE], "regret")["mean"].iloc[0]
        parts += [
            f"Objective: {objective}. The common rule, a quarter of replay at the PT peak: "
            f"{SCALE * rule:.1f}.",
            markdown_table(wide(cells.assign(cell=_plus_minus(cells)))),
        ]
    fits = tables["fits"]
    parts.append(
        f"{len(fits)} fits of {fits['truth'].nunique()} truths. {NOTES['fits']} "
        f"{fits['rhat'].median():.3f}, {fits['rhat'].max():.3f}, {fits['ess'].median():.0f}."
    )
    return "\n\n".join(parts) + "\n"


@styled
def figure(tables: dict[str, pd.DataFrame]) -> Figure:
    """Return CRPS of both losses and regret against the number of runs, a line per length."""
    domains = list(tables["scores"]["domain"].unique())
    ours = tables["regrets"][tables["regrets"]["method"] == OURS]
    rule = tables["regrets"][tables["regrets"]["method"] == RULE]
    objectives = list(ours["objective"].unique())
    drawn = new_figure(2.9 * max(len(domains), len(objectives)), 5.6)
    grid_of_axes = drawn.subplots(2, max(len(domains), len(objectives)), squeeze=False)
    for axes, domain in zip(grid_of_axes[0], domains, strict=False):
        own = tables["scores"][tables["scores"]["domain"] == domain]
        _draw(axes, grid(own, "crps"), f"Forecast of {domain} loss", "CRPS of long runs")
    for axes, objective in zip(grid_of_axes[1], objectives, strict=False):
        own = ours[ours["objective"] == objective]
        _draw(axes, grid(own, "regret"), f"Choice for {objective}", "mean regret")
        common = SCALE * rule["regret"][rule["objective"] == objective].mean()
        if common <= axes.get_ylim()[1]:
            axes.axhline(common, color=GREY, lw=0.8, ls=(0, (4, 3)))
        words = f"common rule: {common:.1f}"
        axes.text(0.98, 0.96, words, transform=axes.transAxes, ha="right", va="top", color=GREY)
    spare = grid_of_axes[0][len(domains) :]
    for axes in spare:
        axes.set_axis_off()
    handles, labels = grid_of_axes[1][0].get_legend_handles_labels()
    place = {"loc": "center", "bbox_to_anchor": (0.5, 0.5)} if len(spare) else {"loc": "best"}
    (spare[0] if len(spare) else grid_of_axes[0][0]).legend(
        handles, labels, title="steps of each short run", **place
    )
    return drawn


def _draw(axes: Axes, cells: pd.DataFrame, title: str, what: str) -> None:
    numbers = sorted(cells["number"].unique())
    for index, (steps, own) in enumerate(cells.groupby("steps")):
        places = [numbers.index(number) + 0.06 * (index - 1.5) for number in own["number"]]
        axes.errorbar(
            places,
            SCALE * own["mean"],
            SCALE * own["error"].fillna(0.0),
            fmt="o-",
            ms=3.5,
            lw=1.0,
            color=PALETTE[index],
            label=f"{steps:,}",
        )
    axes.set_xticks(range(len(numbers)), [str(number) for number in numbers])
    axes.set_xlabel("short runs")
    axes.set_ylabel(f"{what} ({UNIT})")
    axes.set_ylim(bottom=0.0)
    axes.set_title(title)
    dress(axes)

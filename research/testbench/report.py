"""What benches share: the options of their command lines, and tables and figures of held-out scores."""

import argparse
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from bayes_cpt.validate.scores import ALL_RUNS, EQUAL_RUNS

COLUMNS = {
    "run": "run",
    "domain": "validation set",
    "method": "method",
    "points": "points",
    "coverage_50": "in 50 %",
    "coverage_80": "in 80 %",
    "coverage_90": "in 90 %",
    "crps": "CRPS",
    "mae": "MAE",
    "bias": "bias",
    "width_90": "width of 90 %",
}
COVERAGE = [name for name in COLUMNS if name.startswith("coverage")]


def options_of(bench: str, description: str | None) -> argparse.ArgumentParser:
    """Return the command line of a bench, with the options that all have."""
    parser = argparse.ArgumentParser(
        prog=f"python -m testbench.{bench}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    return parser


def public_options(bench: str, description: str | None) -> argparse.ArgumentParser:
    """Return the command line of a bench over public studies."""
    parser = options_of(bench, description)
    parser.add_argument("folder", type=Path, help="folder of public studies")
    parser.add_argument("-o", "--out", type=Path, required=True, help="folder for the results")
    return parser


def markdown_table(table: pd.DataFrame) -> str:
    """Return a Markdown table; numbers with four decimals."""
    cells = [list(table.columns), ["---"] * table.shape[1]]
    cells += [
        [f"{value:.4f}" if isinstance(value, float) else str(value) for value in row]
        for row in table.itertuples(index=False)
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def markdown_report(summary: pd.DataFrame, seconds: Mapping[str, float], ours: str) -> str:
    """Return all scores, the CRPS of one method over that of each other, and the run times."""
    rows = summary.assign(**{name: _percent(summary, name) for name in COVERAGE})
    # Methods come one after the other; here they stand together under each run.
    labels = list(zip(rows["run"], rows["domain"], strict=True))
    order = list(dict.fromkeys(labels))
    rows = rows.assign(place=[order.index(label) for label in labels])
    rows = rows.sort_values("place", kind="stable")
    parts = [markdown_table(rows[list(COLUMNS)].rename(columns=COLUMNS))]
    ratios = crps_ratios(summary, ours)
    if len(ratios):
        words = {name: f"CRPS {ours} / {name}" for name in ratios} | COLUMNS
        parts.append(markdown_table(ratios.rename(columns=words)))
    parts.append("Seconds: " + ", ".join(f"{name} {s:.0f}" for name, s in seconds.items()))
    return "\n\n".join(parts)


def crps_ratios(summary: pd.DataFrame, ours: str) -> pd.DataFrame:
    """Return the CRPS of a method over that of each other one, per validation set and pooling.

    Of rows of `summarize` with a column method. Columns run (the pooling), domain and one per other method;
    below 1 where ours is the better. Empty where there is nothing to compare.
    """
    pooled = summary[summary["run"].isin([ALL_RUNS, EQUAL_RUNS])]
    scores = pooled.set_index(["run", "domain", "method"])["crps"].unstack("method", sort=False)
    if ours not in scores or len(scores.columns) < 2:
        return pd.DataFrame()
    ratios = scores.drop(columns=ours).rdiv(scores[ours], axis=0)
    ratios.columns.name = None
    return ratios.reset_index()


def _percent(summary: pd.DataFrame, name: str) -> pd.Series:
    """Return shares in per cent, with their standard errors where several runs count."""
    errors = (100 * summary[f"{name}_error"]).map(" ± {:.0f}".format)
    shown = errors.where(summary[f"{name}_error"].notna(), "")
    return (100 * summary[name]).map("{:.0f}".format) + shown + " %"


def draw_bands(scored: pd.DataFrame) -> Figure:
    """Return bands and data of one validation set: a row per run, a column per method."""
    runs, methods = scored["run"].unique(), scored["method"].unique()
    figure = Figure(figsize=(4.5 * len(methods), 2.8 * len(runs)), layout="constrained")
    grid = figure.subplots(len(runs), len(methods), sharex="row", sharey="row", squeeze=False)
    for row, run in zip(grid, runs, strict=True):
        for axes, method in zip(row, methods, strict=True):
            curve = scored[(scored["run"] == run) & (scored["method"] == method)]
            for mass, shade in ((90, 0.2), (50, 0.4)):
                axes.fill_between(
                    curve["step"],
                    curve[f"lower_{mass}"],
                    curve[f"upper_{mass}"],
                    color="tab:blue",
                    alpha=shade,
                    linewidth=0,
                    label=f"{mass} % band",
                )
            axes.plot(curve["step"], curve["median"], color="tab:blue", label="median")
            axes.plot(curve["step"], curve["loss"], "k.", markersize=3, label="measured")
            axes.set_title(f"{run}, {method}", fontsize="small")
        row[0].set_ylabel("loss (nats/token)")
    for axes in grid[-1]:
        axes.set_xlabel("step")
    grid[0][0].legend(fontsize="x-small")
    figure.suptitle(str(scored["domain"].iloc[0]))
    return figure

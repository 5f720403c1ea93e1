"""Where the law misses: residuals by the part of a run, and a figure of them (docs/results/misfit.md)."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bayes_cpt.forecast.bands import bands
from bayes_cpt.forecast.quality import DRAWS, residuals
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.plots import panels
from bayes_cpt.plots.style import GREY, INK, PALETTE, colour, dress, styled
from bayes_cpt.study.ranges import SLACK
from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study

# Parts of a run, in order; one that is re-warmed has no other start.
STAGES = ("start", "re-warm-up", "plateau", "decay", "end of decay")
# Of its steps; of its peak learning rate.
START, PLATEAU, END = 0.05, 0.9, 0.2
# What lies beyond the fitted steps.
BEYOND = PALETTE[4]
DOT: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 6}


def staged(posterior: Posterior, study: Study | None = None, draws: int = DRAWS) -> pd.DataFrame:
    """Return `bayes_cpt.forecast.quality.residuals` with the stage of each point, and its ratio.

    The ratio is of its step to the last fitted one of any run.
    """
    table = residuals(posterior, study, draws)
    measured = posterior.study if study is None else study
    last = max(
        run.schedule.steps for run in posterior.frame.spec.law.last_phase_runs(posterior.study)
    )
    of_runs = [
        pd.Series(stages(measured.run(str(run)), rows.to_numpy()), rows.index)
        for run, rows in table.groupby("run", sort=False)["step"]
    ]
    return table.assign(ratio=table["step"] / last, stage=pd.concat(of_runs))


def stages(run: Run, steps: NDArray[np.int64]) -> NDArray[np.object_]:
    """Return the part of a run that each of its steps lies in, of `STAGES`.

    The re-warm-up is a rise of the learning rate at the start, whatever its length; the start of a run
    without one is its first twentieth. Then come the plateau, while the learning rate is above 0.9 of its
    peak, the decay, and its end, below a fifth of the peak.

    Parameters
    ----------
    run : Run
    steps : ndarray of int, shape (points,)
        From 1 to the run's last.
    """
    rate = run.schedule.learning_rates()[np.asarray(steps) - 1] / run.schedule.peak
    warm = run.schedule.warmup_steps
    first, last = ("re-warm-up", warm) if warm else ("start", START * run.schedule.steps)
    parts = {first: steps <= last, "end of decay": rate < END, "plateau": rate >= PLATEAU}
    return np.select(list(parts.values()), list(parts), "decay").astype(object)


def systematic(table: pd.DataFrame) -> pd.DataFrame:
    """Return where residuals are systematic: their means over runs, each run one observation.

    Parameters
    ----------
    table : DataFrame
        From `staged`.

    Returns
    -------
    DataFrame
        Columns domain, stage, runs, mean and error (its standard error; nan for one run), size (root mean
        square of single points) and systematic: whether the mean is more than twice its error.
    """
    groups = ["domain", "stage"]
    sizes = table.assign(size=table["residual"] ** 2).groupby(groups, sort=False, observed=True)
    means = table.groupby([*groups, "run"], sort=False, observed=True)["residual"].mean()
    of_runs = means.groupby(groups, sort=False, observed=True)
    found = of_runs.agg(runs="size", mean="mean", error="sem").assign(
        size=np.sqrt(sizes["size"].mean())
    )
    return found.assign(systematic=found["mean"].abs() > 2.0 * found["error"]).reset_index()


@styled
def draw_residuals(posterior: Posterior, study: Study | None = None) -> Figure:
    """Return a figure of measured losses less the expected curves.

    Parameters
    ----------
    posterior : Posterior
    study : Study, optional
        Held-out runs; the fitted study unless given.

    Returns
    -------
    matplotlib.figure.Figure
        One column per validation set. Above: a line per run, and the 90 % band that the fit has for them,
        the widest and the narrowest of any of these runs. Below: the mean over runs in each part of a run
        with 2 standard errors, filled where it is off to one side; in yellow beyond the fitted steps.
    """
    table = staged(posterior, study)
    points = table[["run", "domain", "step"]]
    widths = bands(posterior, study, at=points, interval=0.9, draws=DRAWS)
    widths["half"] = 0.5 * (widths["upper"] - widths["lower"])
    domains = posterior.frame.domains
    figure, grid = panels.by_set(domains, 4.2, 5.4, "", 2, sharey="row")
    for i, domain in enumerate(domains):
        measured = table[table["domain"] == domain]
        _draw_runs(grid[0, i], measured, widths[widths["domain"] == domain], i)
        _draw_stages(grid[1, i], measured, i)
    grid[0, 0].set_ylabel("measured less expected\n(nats/token)")
    grid[1, 0].set_ylabel("mean over runs\n(nats/token)")
    dashed = panels.line(GREY, linestyle="--", linewidth=0.8)
    entries = {
        "a run": panels.line(INK, linewidth=0.8),
        "its 90 % predictive band, widest and narrowest": dashed,
        "is off to one side": panels.line(GREY, **DOT),
        "is not": panels.line(GREY, **DOT, markerfacecolor="white"),
    }
    if (table["ratio"] > SLACK).any():
        entries["beyond the fitted steps"] = panels.line(BEYOND, **DOT)
    panels.legend(figure, entries)
    return figure


def _draw_runs(axes: Axes, measured: pd.DataFrame, widths: pd.DataFrame, index: int) -> None:
    for _, run in measured.groupby("run", sort=False):
        axes.plot(run["step"], run["residual"], color=colour(index), linewidth=0.8, alpha=0.6)
    ordered = widths.sort_values("step")
    # Widest and narrowest of the runs at hand over a tenth of a decade.
    groups = ordered.groupby(np.round(10.0 * np.log10(ordered["step"])))
    steps = groups["step"].mean()
    for edge in (groups["half"].max(), groups["half"].min()):
        for side in (-1.0, 1.0):
            axes.plot(steps, side * edge, color=GREY, linestyle="--", linewidth=0.8)
    axes.axhline(0.0, color=INK, linewidth=0.6)
    dress(axes, xscale="log", xlabel="step (logarithmic axis)")


def _draw_stages(axes: Axes, measured: pd.DataFrame, index: int) -> None:
    inside = measured["ratio"] <= SLACK
    parts = [(systematic(measured[inside]), colour(index))]
    if not inside.all():
        parts.append((systematic(measured[~inside]), BEYOND))
    for side, (table, shade) in enumerate(parts):
        beside = 0.16 * (side - 0.5 * (len(parts) - 1))
        for row in table.to_dict("records"):
            face = shade if row["systematic"] else "white"
            place, error = STAGES.index(row["stage"]) + beside, 2.0 * np.nan_to_num(row["error"])
            style: Any = {"fmt": "o", "markersize": 4.0, "linewidth": 1.0, "markerfacecolor": face}
            axes.errorbar(place, row["mean"], error, color=shade, **style)
    axes.axhline(0.0, color=INK, linewidth=0.6)
    axes.set_xticks(range(len(STAGES)), [stage.replace(" of ", "\nof ") for stage in STAGES])
    dress(axes, xlim=(-0.5, len(STAGES) - 0.5))

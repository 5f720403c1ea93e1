"""Curves over steps: priors, fits and forecasts beside what was measured."""

import math
import textwrap
from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayes_cpt.forecast.drawn import gridded, point_table
from bayes_cpt.forecast.plans import default_grid
from bayes_cpt.identify.prior_predictive import above_zero, draw_at_bases
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.setup import BoundModel
from bayes_cpt.model.simulate import expected_loss
from bayes_cpt.plots import panels
from bayes_cpt.plots.style import (
    BAND,
    GREY,
    INK,
    LOSS,
    PALE,
    WIDE_BAND,
    called,
    colour,
    dress,
    new_figure,
    styled,
)
from bayes_cpt.study.logs.naming import TRAIN
from bayes_cpt.study.study import Study

if TYPE_CHECKING:
    from bayes_cpt.watch.log_forecast import LogForecast

# Posterior draws of a fit's curves; prior draws, of which some are drawn as curves.
DRAWS, PRIOR_DRAWS, CURVES = 400, 1000, 25
# Inches of a panel among small multiples; with many validation sets one stands in a row of a block.
SMALL_PANEL, MANY_SETS = (2.4, 1.55), 3
# Least height of a panel, nats/token, so that noise is not blown up.
SPAN = 0.2
# Of a forecast: panels in a row, inches of a panel, and height of learning rates as a share of that.
COLUMNS, PANEL, STRIP = 4, (3.2, 2.1), 0.22
# Of one in a paper, inches: a page less its caption, the lowest panel, what a row of runs takes beside its
# panels, and the name of an axis; and letters to a line of a set's name.
PAGE, LEAST, BESIDE, NAMED, LETTERS = 8.2, 0.6, 1.0, 2.0, 14
# What a band is about, in a legend.
KINDS = {
    "expected": "credible band",
    "new_run": "predictive band",
    "known_run": "predictive band given its points",
}


@styled
def prior_predictive(frame: BoundModel, plan: Study, seed: int = 0) -> Figure:
    """Return a figure of the law's curves under the priors, at the level of the measured bases.

    One block of panels per validation set: some curves over the 50 and 90 % bands. A curve starts at the
    measured loss of its base where that is known.

    Parameters
    ----------
    frame : BoundModel
        Of a fit, or from `bayes_cpt.model.setup.build_setup` for a study that was not fitted.
    plan : Study
        Whose CPT runs are shown, the PT runs where the law knows no others. Measured losses, where it has
        them, are drawn over the curves.
    seed : int
        Of the prior draws.
    """
    shown = frame.spec.law.last_phase_runs(plan)
    curves = frame.curves(plan, lambda run, _: default_grid(run), shown)
    with np.errstate(over="ignore", invalid="ignore"):
        losses = expected_loss(frame, draw_at_bases(frame, plan, PRIOR_DRAWS, seed), curves)
    drawn = {"loss": losses[above_zero(losses)]}
    curves_of = gridded(point_table(curves), frame.domains, drawn)["loss"]
    figure, every = panels.blocks(frame.domains, plan.general, shown, SMALL_PANEL)
    for panel, run, domain, shade in every:
        steps, loss = panels.draws_of(curves_of.sel(run=run.name, domain=domain))
        ends = panels.band(panel, steps, loss, 0.9, color=shade)
        panels.band(panel, steps, loss, 0.5, color=shade, alpha=1.5 * WIDE_BAND)
        panel.plot(steps, loss[:CURVES].T, color=shade, linewidth=0.5, alpha=0.6)
        measured = plan.curve(run.name, domain)
        panels.dots(panel, *measured, s=4.0)
        # Bands and measured losses are seen whole; single curves may leave the panel.
        seen = np.concatenate([*ends, measured[1]])
        panel.set_ylim(seen.min() - 0.05 * np.ptp(seen), seen.max() + 0.05 * np.ptp(seen))
    entries = {
        f"{CURVES} curves drawn from the priors": panels.line(GREY, linewidth=0.8),
        "50 % of prior draws": panels.patch(GREY, 3 * WIDE_BAND),
        "90 % of prior draws": panels.patch(GREY, 1.5 * WIDE_BAND),
    }
    panels.legend(figure, entries)
    return figure


@styled
def fitted(posterior: Posterior, runs: Collection[str] | None = None) -> Figure:
    """Return a figure of measured losses over the law's curves, one panel per run.

    One block of panels per validation set. The pale band is about another run trained like this one: it
    shows whether the fit allows for what was measured.

    Parameters
    ----------
    posterior : Posterior
    runs : collection of str, optional
        Names of runs of the study; its CPT runs unless given (its PT runs where it has no others).

    Raises
    ------
    StudyError
        If a run is not in the study.
    """
    study, domains = posterior.study, posterior.frame.domains
    default = posterior.frame.spec.law.last_phase_runs(study)
    shown = default if runs is None else tuple(study.run(name) for name in runs)
    plan = study.subset([run.name for run in shown])
    bands = posterior.predict(plan, kind="new_run", draws=DRAWS)
    columns = 2 if len(domains) < MANY_SETS else 1
    figure, every = panels.blocks(domains, study.general, shown, SMALL_PANEL, columns)
    for panel, run, domain, shade in every:
        own = bands.sel(run=run.name, domain=domain)
        steps, loss = panels.draws_of(own["loss"])
        panels.band(panel, steps, loss, 0.9, color=shade)
        panels.curve(panel, *panels.draws_of(own["expected"]), (0.9,), color=shade, alpha=BAND)
        # A base's own loss, at step 0, belongs to its CPT run.
        panels.dots(panel, *study.curve(run.name, domain), after=steps[0] - 2)
        low, high = panel.get_ylim()
        apart = max(SPAN - (high - low), 0.0)
        panel.set_ylim(low - apart / 2, high + apart / 2)
    entries = {
        "measured": panels.line(INK, marker="o", markersize=2.6, linestyle=""),
        "law's curve, median": panels.line(GREY),
        "law's curve, 90 % credible": panels.patch(GREY, 2 * BAND),
        "a new run like this one, 90 % predictive": panels.patch(GREY, 2 * WIDE_BAND),
    }
    panels.legend(figure, entries)
    return figure


@styled
def forecast(
    posterior: Posterior,
    dataset: xr.Dataset,
    measured: Study | None = None,
    width: float | None = None,
) -> Figure:
    """Return a figure of predictive bands, one column per run and one row per validation set.

    Bands of 50 and 90 %; below each column the learning rate. What is beyond the fitted range is noted over
    the column.

    Parameters
    ----------
    posterior : Posterior
        That the bands come from.
    dataset : xarray.Dataset
        From `Posterior.predict`.
    measured : Study, optional
        Losses of the same runs, to be drawn over the bands; runs that it has not are left bare.
    width : float, optional
        Of a paper's column, inches: the figure has that width, from three runs on that of two columns, and
        fits on a page, which holds the first runs where there are many. As large as it needs unless given.
    """
    names = [str(name) for name in dataset["run"].to_numpy()]
    domains = [str(name) for name in dataset["domain"].to_numpy()]
    known = set() if measured is None else {run.name for run in measured.runs}
    fitted_runs = {run.name for run in posterior.study.runs}
    seen = "measured" if fitted_runs.issuperset(names) else "measured, not fitted"
    count, columns, size = _arranged(len(names), len(domains), width)
    cut = f"The first {count} of {len(names)} runs" if count < len(names) else ""
    names, rows, deep = names[:count], math.ceil(count / columns), len(domains) + 1
    figure, wide = new_figure(*size, cut), size[0] / columns
    ratios = [*[1.0] * len(domains), STRIP] * rows
    grid = figure.add_gridspec(rows * deep, columns, height_ratios=ratios)
    # One name for all panels; of one panel its own, that it may not run down beside the learning rates.
    alone = rows * len(domains) == 1
    if width is not None and not alone:
        figure.supylabel(LOSS, fontsize="medium")
    shared: dict[str, Axes] = {}
    first = int(posterior.study.general not in domains)
    notes = [_notes(dataset.sel(run=name), wide) for name in names]
    lines = max(len(note) for note in notes)
    top = float(np.nanmax(dataset["learning_rate"]))
    for k, name in enumerate(names):
        row, column = divmod(k, columns)
        run_curves = dataset.sel(run=name)
        rate = run_curves["learning_rate"].dropna("step")
        last = int(rate["step"][-1])
        for i, domain in enumerate(domains):
            label = called(domain) if width is None else textwrap.fill(called(domain), LETTERS)
            label += f"\n{LOSS}" if width is None else "\nloss (nats/token)" * alone
            axes = figure.add_subplot(grid[row * deep + i, column], sharey=shared.get(domain))
            shared.setdefault(domain, axes)
            steps, loss = panels.draws_of(run_curves["loss"].sel(domain=domain))
            panels.curve(axes, steps, loss, color=colour(first + i))
            if measured is not None and name in known:
                panels.dots(axes, *measured.curve(name, domain), after=steps[0] - 2, label=seen)
            dress(axes, ticks=6, ylabel="" if column else label)
            panels.step_axis(axes, last)
            axes.tick_params(labelbottom=False, labelleft=column == 0)
            if i == 0:
                panels.title(axes, name, notes[k] + [""] * (lines - len(notes[k])), wide)
        strip = figure.add_subplot(grid[row * deep + len(domains), column])
        strip.fill_between(rate["step"], rate, color=PALE, linewidth=0.0)
        # Names of axes that are side by side would run into each other.
        phase = "" if column and wide < NAMED else str(run_curves["phase"].item())
        panels.rate_strip(strip, last, phase, named=column == 0)
        strip.set(ylim=(0, 1.1 * top), yticks=[0, top], yticklabels=["0", f"{top:.3g}"])
    words = KINDS[dataset.attrs["kind"]]
    entries = {
        "median": panels.line(GREY),
        f"50 % {words}": panels.patch(GREY, 2 * BAND),
        f"90 % {words}": panels.patch(GREY, 2 * WIDE_BAND),
    }
    panels.legend(figure, entries)
    return figure


def _arranged(runs: int, sets: int, width: float | None) -> tuple[int, int, tuple[float, float]]:
    """Return how many runs are shown, in how many columns, and the inches of the figure."""
    if width is None:
        columns = min(COLUMNS, runs)
        height = (PANEL[1] * (sets + STRIP) + 0.6) * math.ceil(runs / columns) + 0.4
        return runs, columns, (max(PANEL[0] * columns, 5.0), height)
    # The legend has more rows, and panels are lower.
    foot, least = 0.7, LEAST * (sets + STRIP) + BESIDE
    shown = min(runs, COLUMNS * max(int((PAGE - foot) / least), 1))
    rows = shown if shown < 3 else math.ceil(shown / COLUMNS)
    columns = math.ceil(shown / rows)
    height = (0.75 * PANEL[1] * (sets + STRIP) + 0.6) * rows + foot
    whole = width if columns == 1 else 2 * width
    return shown, columns, (whole, min(height, PAGE))


def _notes(run_curves: xr.Dataset, width: float) -> list[str]:
    """Return what a run trains on, and where it is outside the fitted range, in lines of a width."""
    base, targets = (str(run_curves[name].item()) for name in ("base", "targets"))
    notes = panels.origin(float(run_curves["replay"]), base, targets, width)
    if outside := str(run_curves["outside"].item()):
        notes += panels.fold(f"extrapolates: {outside}".replace("$", r"\$"), width)
    return notes


def _settled(measured: pd.DataFrame, phase: str) -> pd.Series:
    """Return the losses of a run; of PT without its first twentieth, where it falls by several nats."""
    late = measured["step"] > measured["step"].max() / 20
    return measured["loss"][late] if phase == "pt" else measured["loss"]


@styled
def log_forecast(found: "LogForecast") -> Figure:
    """Return a figure of one run, a row per validation set, the learning rates of its ways on below."""
    domains = list(found.on_priors)
    figure = new_figure(6.4, 2.9 * len(domains) + 1.5)
    *above, strip = figure.subplots(len(domains) + 1, 1, height_ratios=[*[1.0] * len(domains), 0.3])
    last = max(schedule.steps for schedule in found.ways.values())
    mass = f"{100 * float(found.curves['interval'].iloc[0]):g} %"
    for axes, domain in zip(above, domains, strict=True):
        measured = found.measured[found.measured["domain"] == domain]
        panels.dots(axes, measured["step"], measured["loss"])
        for i, way in enumerate(found.ways):
            own = found.curves[(found.curves["domain"] == domain) & (found.curves["way"] == way)]
            ends = (own["lower"], own["upper"])
            axes.fill_between(own["step"], *ends, color=colour(i), alpha=WIDE_BAND, linewidth=0)
            axes.plot(own["step"], own["median"], color=colour(i))
        own = found.curves[found.curves["domain"] == domain]
        seen = np.concatenate([own["lower"], own["upper"], _settled(measured, found.run.phase)])
        axes.set_ylim(seen.min() - 0.05 * np.ptp(seen), seen.max() + 0.05 * np.ptp(seen))
        kind = "training loss (nats/token)" if domain == TRAIN else f"{called(domain)}\n{LOSS}"
        dress(axes, ticks=6, ylabel=kind)
        panels.step_axis(axes, last)
        axes.tick_params(labelbottom=False)
    for i, (way, schedule) in enumerate(found.ways.items()):
        steps, rates = range(1, schedule.steps + 1), schedule.learning_rates()
        strip.plot(steps, rates, color=colour(i), label=f"{way}, {mass} band")
    strip.set_ylim(bottom=0.0)
    panels.rate_strip(strip, last, found.run.phase)
    panels.legend(figure)
    return figure

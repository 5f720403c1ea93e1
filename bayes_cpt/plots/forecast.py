"""Predictive bands of planned runs, with what was measured where the run was trained after all."""

import math
import textwrap

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.plots import panels
from bayes_cpt.plots.style import (
    BAND,
    GREY,
    INK,
    LOSS,
    PALE,
    WIDE_BAND,
    colour,
    dress,
    new_figure,
    styled,
)
from bayes_cpt.study.study import Study

COLUMNS = 4
NOTE_WIDTH = 50
SHORT_LOSS = "loss (nats/token)"
# What a band is about, in a legend.
KINDS = {
    "expected": "credible band",
    "new_run": "predictive band",
    "known_run": "predictive band given its points",
}
SIZE = (3.2, 2.1)
# Height of a panel at a given width, as a share of what it is otherwise.
LOWER = 0.75
STRIP = 0.22


@styled
def forecast(
    posterior: Posterior,
    dataset: xr.Dataset,
    measured: Study | None = None,
    width: float | None = None,
) -> Figure:
    """Return a figure of predictive bands, one column per run and one row per validation set.

    Parameters
    ----------
    posterior : Posterior
        That the bands come from.
    dataset : xarray.Dataset
        From `Posterior.predict`.
    measured : Study, optional
        Losses of the same runs, to be drawn over the bands; runs that it has not are left bare.
    width : float, optional
        Of the figure, inches; runs then stand below one another. As wide as they need unless given.

    Returns
    -------
    matplotlib.figure.Figure
        Bands of 50 and 90 %; below each column the learning rate. What is beyond the fitted range is
        noted over the column.
    """
    names = [str(name) for name in dataset["run"].to_numpy()]
    domains = [str(name) for name in dataset["domain"].to_numpy()]
    known = set() if measured is None else {run.name for run in measured.runs}
    columns = min(COLUMNS, len(names)) if width is None else 1
    rows = math.ceil(len(names) / columns)
    height = len(domains) + STRIP
    tall = SIZE[1] if width is None else SIZE[1] * LOWER
    figure = new_figure(
        width or max(SIZE[0] * columns, 5.0),
        (tall * height + 0.6) * rows + (0.4 if width is None else 0.7),
    )
    grid = figure.add_gridspec(
        rows * (len(domains) + 1), columns, height_ratios=[*[1.0] * len(domains), STRIP] * rows
    )
    shared: dict[str, Axes] = {}
    notes = [_notes(dataset.sel(run=name)) for name in names]
    lines = max(len(note) for note in notes)
    for k, name in enumerate(names):
        row, column = divmod(k, columns)
        run_curves = dataset.sel(run=name)
        rate = run_curves["learning_rate"].dropna("step")
        last = int(rate["step"][-1])
        for i, domain in enumerate(domains):
            axes = figure.add_subplot(
                grid[row * (len(domains) + 1) + i, column], sharey=shared.get(domain)
            )
            shared.setdefault(domain, axes)
            dress(axes, ticks=6)
            steps, loss = panels.draws_of(run_curves["loss"].sel(domain=domain))
            panels.curve(axes, steps, loss, color=colour(i))
            if name in known and measured is not None:
                panels.dots(axes, *measured.curve(name, domain), after=steps[0] - 2)
            panels.step_axis(axes, last)
            axes.tick_params(labelbottom=False, labelleft=column == 0)
            if column == 0:
                axes.set_ylabel(f"{domain}\n{LOSS if width is None else SHORT_LOSS}")
            if i == 0:
                panels.title(axes, name, notes[k] + [""] * (lines - len(notes[k])))
        strip = figure.add_subplot(grid[row * (len(domains) + 1) + len(domains), column])
        dress(strip, grid=False)
        strip.fill_between(rate["step"], rate, color=PALE, linewidth=0.0)
        panels.step_axis(strip, last, panels.step_label(str(run_curves["phase"].item())))
        top = float(np.nanmax(dataset["learning_rate"]))
        strip.set_ylim(0, 1.1 * top)
        strip.set_yticks([0, top], ["0", f"{top:.3g}"])
        strip.tick_params(labelleft=column == 0)
        if column == 0:
            strip.set_ylabel("LR", rotation=0, ha="right", va="center")
    entries = {
        "median": panels.line(GREY),
        f"50 % {KINDS[dataset.attrs['kind']]}": panels.patch(GREY, 2 * BAND),
        f"90 % {KINDS[dataset.attrs['kind']]}": panels.patch(GREY, 2 * WIDE_BAND),
    }
    if known.intersection(names):
        fitted = {run.name for run in posterior.study.runs}
        entries["measured" if fitted.issuperset(names) else "measured, not fitted"] = panels.line(
            INK, marker="o", markersize=3, linestyle=""
        )
    panels.legend(figure, entries)
    return figure


def _notes(run_curves: xr.Dataset) -> list[str]:
    """Return replay and base of a run, and where it leaves what was fitted."""
    notes = panels.origin(float(run_curves["replay"]), str(run_curves["base"].item()))
    if outside := str(run_curves["outside"].item()):
        notes += textwrap.wrap(f"extrapolates: {outside}", NOTE_WIDTH)
    return notes

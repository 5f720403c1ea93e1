"""What a run's loss is made of: the law's terms, step by step."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.landmarks import decompose
from bayes_cpt.landmarks.trials import as_study
from bayes_cpt.plots import panels
from bayes_cpt.plots.style import BAND, GREY, INK, LOSS, PALETTE, colour, dress, new_figure, styled
from bayes_cpt.study.study import Study

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MASS = 0.9
BASE = ("power", "annealing_pt", "peak")
# Name and colour of the parts; a term that is not listed has its own name.
PARTS = {
    "annealing_cpt": ("CPT annealing", PALETTE[2]),
    "shift": ("distribution shift", PALETTE[3]),
    "adaptation": ("adaptation", PALETTE[4]),
    "base_offset": ("base offset", PALETTE[5]),
}


@styled
def decomposition(
    posterior: Posterior, plan: "Study | str | Path | None" = None, run: str | None = None
) -> "Figure":
    """Return a figure of what a run's expected loss is the sum of.

    Parameters
    ----------
    posterior : Posterior
    plan : Study or path, optional
        As in `bayes_cpt.forecast.predict.predict`: None takes the fitted study.
    run : str, optional
        A run of the plan; its first CPT run unless given.

    Returns
    -------
    matplotlib.figure.Figure
        One column per validation set. Above, the expected loss and the base's share of it, which is the
        power of the forward area, PT's and CPT's, with the annealing of PT. Below,
        all that is added to the base. Bands are 90 %.

    Raises
    ------
    PlanError, StudyError
        Naming what cannot be decomposed.
    """
    whole = as_study(posterior, plan)
    chosen = whole.run(run) if run else (whole.continual_runs or whole.runs)[0]
    name, phase = chosen.name, chosen.phase
    parts = decompose(posterior, plan, [name]).sel(run=name)
    steps = parts["step"].to_numpy()
    domains = [str(domain) for domain in parts["domain"].to_numpy()]
    base = (
        parts[[part for part in BASE if part in parts]].to_dataarray().sum("variable", skipna=False)
    )
    added = [part for part in parts.attrs["parts"] if part not in BASE and parts[part].any()]

    rows = 2 if added else 1
    figure = new_figure(max(4.2 * len(domains), 5.0), 2.3 * rows + 0.6)
    figure.suptitle(
        f"What the expected loss of {name} is made of", fontsize="large", fontweight="bold"
    )
    grid = figure.add_gridspec(rows, len(domains))
    entries = {
        "expected loss": panels.line(INK),
        "base: forward area and PT annealing": panels.line(GREY, linestyle="--"),
    }
    shared = None
    for i, domain in enumerate(domains):
        upper = figure.add_subplot(grid[0, i])
        upper.set_title(f"validation set: {domain}", color=colour(i), fontweight="bold")
        for curve, shade, dashes in ((parts["expected"], INK, "-"), (base, GREY, "--")):
            draws = curve.sel(domain=domain).transpose("draw", "step").to_numpy()
            panels.band(upper, steps, draws, MASS, color=shade, alpha=BAND / 2)
            upper.plot(steps, np.median(draws, axis=0), color=shade, linestyle=dashes)
        column = [upper]
        if added:
            shared = figure.add_subplot(grid[1, i], sharey=shared)
            shared.tick_params(labelleft=i == 0)
            column.append(shared)
            entries |= _added(shared, parts.sel(domain=domain), added)
        for axes in column:
            dress(axes, ticks=6)
            lowest = axes is column[-1]
            panels.step_axis(axes, int(steps[-1]), panels.step_label(phase) if lowest else "")
            axes.tick_params(labelbottom=lowest)
        if i == 0:
            for axes, label in zip(column, (LOSS, "added to the base (nats/token)"), strict=False):
                axes.set_ylabel(label)
    entries[f"{100 * MASS:.0f} % credible band"] = panels.patch(GREY, BAND)
    panels.legend(figure, entries)
    return figure


def _added(axes: "Axes", parts: "xr.Dataset", names: list[str]) -> dict[str, Any]:
    """Draw what is added to the base and return the legend's entries."""
    entries = {}
    steps = parts["step"].to_numpy()
    axes.axhline(0.0, color=GREY, linewidth=0.7)
    for k, name in enumerate(names):
        label, shade = PARTS.get(name, (name, PALETTE[k % len(PALETTE)]))
        draws = parts[name].transpose("draw", "step").to_numpy()
        panels.band(axes, steps, draws, MASS, color=shade, alpha=BAND)
        axes.plot(steps, np.median(draws, axis=0), color=shade)
        entries[label] = panels.line(shade)
    return entries

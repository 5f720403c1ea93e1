"""A run between the two hidden curves: never left the general data, and the shift all there."""

from typing import TYPE_CHECKING

import numpy as np

from bayes_cpt.plots import panels
from bayes_cpt.plots.style import BAND, GREY, INK, LOSS, PALETTE, colour, dress, new_figure, styled

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

MASS = 0.9
SIZE = (3.6, 2.7)
CURVES = {
    "never_left": ("hidden: never left the general data", GREY, "--"),
    "arrived": ("hidden: the shift all there", PALETTE[2], "--"),
    "expected": ("the run", INK, "-"),
}


@styled
def hidden_curves(curves: "xr.Dataset", run: str | None = None) -> "Figure":
    """Return a figure of a run's curve and the two hidden curves, one panel per validation set.

    Parameters
    ----------
    curves : xarray.Dataset
        From `bayes_cpt.landmarks.hidden_curves`.
    run : str, optional
        The first one unless given.

    Returns
    -------
    matplotlib.figure.Figure
        Medians with 90 % bands of the law's curves.
    """
    name = run or str(curves["run"].to_numpy()[0])
    one_run = curves.sel(run=name)
    domains = [str(domain) for domain in one_run["domain"].to_numpy()]
    figure = new_figure(SIZE[0] * len(domains), SIZE[1] + 0.6)
    figure.suptitle(f"{name} between its hidden curves", fontsize="large", fontweight="bold")
    for i, axes in enumerate(figure.subplots(1, len(domains), squeeze=False)[0]):
        here = one_run.sel(domain=domains[i]).dropna("step")
        steps = here["step"].to_numpy()
        axes.set_title(f"validation set: {domains[i]}", color=colour(i), fontweight="bold")
        for key, (_, shade, dashes) in CURVES.items():
            draws = here[key].transpose("draw", "step").to_numpy()
            panels.band(axes, steps, draws, MASS, color=shade, alpha=BAND / 2)
            axes.plot(steps, np.median(draws, axis=0), color=shade, linestyle=dashes)
        dress(axes, ticks=6)
        panels.step_axis(axes, int(steps[-1]), panels.step_label("cpt"))
        if i == 0:
            axes.set_ylabel(LOSS)
    entries = {
        label: panels.line(shade, linestyle=dashes) for label, shade, dashes in CURVES.values()
    }
    panels.legend(figure, entries | {"90 % credible band": panels.patch(GREY, BAND)})
    return figure

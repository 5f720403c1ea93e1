"""What priors expect: curves drawn from them, beside what was measured."""

from collections.abc import Collection

import numpy as np
from matplotlib.figure import Figure

from bayes_cpt.forecast.plans import default_grid
from bayes_cpt.identify.prior_predictive import above_zero, draw_at_bases
from bayes_cpt.model.setup import BoundModel
from bayes_cpt.model.simulate import expected_loss
from bayes_cpt.plots import panels
from bayes_cpt.plots.style import (
    GREY,
    INK,
    WIDE_BAND,
    colour,
    styled,
)
from bayes_cpt.study.study import Study

# Prior draws, of which some are drawn as curves; panels in a row of a block.
DRAWS, CURVES, CURVE_COLUMNS = 1000, 25, 2


@styled
def prior_predictive(
    frame: BoundModel,
    plan: Study,
    runs: Collection[str] | None = None,
    seed: int = 0,
) -> Figure:
    """Return a figure of the law's curves under the priors, at the level of the measured bases.

    Parameters
    ----------
    frame : BoundModel
        Of a fit, or from `bayes_cpt.model.setup.build_setup` for a study that was not fitted.
    plan : Study
        Runs to draw curves of. Measured losses, where it has them, are drawn over the curves.
    runs : collection of str, optional
        Names of the runs to show; the CPT runs unless given (the PT runs where it has no others).
    seed : int
        Of the prior draws.

    Returns
    -------
    matplotlib.figure.Figure
        One block of panels per validation set: some curves over the 50 and 90 % bands. A curve starts
        at the measured loss of its base where that is known.
    """
    default = frame.spec.law.last_phase_runs(plan)
    shown = list(default) if runs is None else [plan.run(name) for name in runs]
    curves = frame.curves(plan, lambda run, _: default_grid(run), shown)
    with np.errstate(over="ignore", invalid="ignore"):
        losses = expected_loss(frame, draw_at_bases(frame, plan, DRAWS, seed), curves)
    losses = losses[above_zero(losses)]

    figure, axes = panels.blocks(frame.domains, len(shown), CURVE_COLUMNS, (2.4, 1.55))
    columns = min(CURVE_COLUMNS, len(shown))
    names = [run.name for run in shown]
    for index, curve in enumerate(curves.curves):
        i, j = frame.domains.index(curve.domain), names.index(curve.run)
        panel, run = axes[i][j], shown[j]
        rows = np.flatnonzero(curves.points.curve_index == index)
        steps, run_losses = curves.points.steps[rows], losses[:, rows]
        lower, upper = panels.band(panel, steps, run_losses, 0.9, color=colour(i))
        panels.band(panel, steps, run_losses, 0.5, color=colour(i), alpha=1.5 * WIDE_BAND)
        panel.plot(steps, run_losses[:CURVES].T, color=colour(i), linewidth=0.5, alpha=0.6)
        measured = plan.curve(run.name, curve.domain)
        panels.dots(panel, *measured, s=4.0)
        # Bands and measured losses are seen whole; single curves may leave the panel.
        seen = np.concatenate([lower, upper, measured[1]])
        panel.set_ylim(seen.min() - 0.05 * np.ptp(seen), seen.max() + 0.05 * np.ptp(seen))
        panels.run_axis(panel, run, lowest=j >= len(shown) - columns)
    panels.legend(
        figure,
        {
            f"{CURVES} curves drawn from the priors": panels.line(GREY, linewidth=0.8),
            "50 % of prior draws": panels.patch(GREY, 3 * WIDE_BAND),
            "90 % of prior draws": panels.patch(GREY, 1.5 * WIDE_BAND),
            "measured": panels.line(INK, marker="o", markersize=3, linestyle=""),
        },
    )
    return figure

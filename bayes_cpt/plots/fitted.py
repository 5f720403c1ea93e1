"""The law's curves and predictive bands on the runs that were fitted."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Literal

import numpy as np

from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.plots import panels
from bayes_cpt.plots.style import BAND, GREY, INK, WIDE_BAND, colour, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MASS = 0.9
DRAWS = 400
# Panels in a row of a block: with many validation sets one, so that the figure is as wide as a page.
COLUMNS, MANY_SETS = 2, 3
# Least height of a panel, nats/token.
SPAN = 0.2
WORDS = {"new_run": "a new run like this one", "known_run": "this run, given its points"}


@styled
def fitted(
    posterior: Posterior,
    runs: Collection[str] | None = None,
    kind: Literal["new_run", "known_run"] = "new_run",
) -> "Figure":
    """Return a figure of measured losses over the law's curves, one panel per run.

    Parameters
    ----------
    posterior : Posterior
    runs : collection of str, optional
        Names of runs of the study; its CPT runs unless given (its PT runs where it has no others).
    kind : {"new_run", "known_run"}
        What the pale 90 % band is about: another run trained like this one, which shows whether the fit
        allows for what was measured, or this very run between its measured points.

    Returns
    -------
    matplotlib.figure.Figure
        One block of panels per validation set.

    Raises
    ------
    StudyError
        If a run is not in the study.
    """
    if kind not in WORDS:
        raise ValueError(f"kind is {kind!r}: give one of {', '.join(WORDS)}")
    study, domains = posterior.study, posterior.frame.domains
    continual = posterior.frame.spec.law.continual
    default = study.continual_runs if continual else study.pretraining_runs
    shown = default if runs is None else tuple(study.run(name) for name in runs)
    plan = study.subset([run.name for run in shown])
    bands = posterior.predict(plan, kind=kind, draws=DRAWS)
    steps = bands["step"].to_numpy()

    columns = min(COLUMNS if len(domains) < MANY_SETS else 1, len(shown))
    figure, axes = panels.blocks(domains, len(shown), columns, (2.4, 1.55))
    for i, domain in enumerate(domains):
        for j, (panel, run) in enumerate(zip(axes[i], shown, strict=True)):
            curve_draws = bands.sel(run=run.name, domain=domain).stack(sample=("chain", "draw"))
            loss = curve_draws["loss"].transpose("sample", "step").to_numpy()
            expected = curve_draws["expected"].transpose("sample", "step").to_numpy()
            kept = np.isfinite(loss[0])
            panels.band(panel, steps[kept], loss[:, kept], MASS, color=colour(i))
            panels.band(panel, steps[kept], expected[:, kept], MASS, color=colour(i), alpha=BAND)
            panel.plot(steps[kept], np.median(expected[:, kept], axis=0), color=colour(i))
            # A base's own loss, at step 0, belongs to its CPT run.
            panels.dots(panel, *study.curve(run.name, domain), after=steps[kept][0] - 2)
            panels.title(panel, run.name, panels.origin(run.replay, run.base))
            panels.widen(panel, SPAN)
            last = j >= len(shown) - columns
            panels.step_axis(
                panel, run.schedule.steps, panels.step_label(run.phase) if last else ""
            )
    panels.legend(
        figure,
        {
            "measured": panels.line(INK, marker="o", markersize=3, linestyle=""),
            "law's curve, median": panels.line(GREY),
            f"law's curve, {MASS * 100:.0f} % credible": panels.patch(GREY, 2 * BAND),
            f"{WORDS[kind]}, {MASS * 100:.0f} % predictive": panels.patch(GREY, 2 * WIDE_BAND),
        },
    )
    return figure

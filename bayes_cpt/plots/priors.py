"""What a study has taught: prior and posterior of every quantity, and the curves that priors expect."""

import math
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.forecast.predict import default_grid, planned_curves
from bayes_cpt.identify.prior_predictive import above_zero, draw_at_bases
from bayes_cpt.inference.posterior import LOWEST_CONTRACTION, Posterior
from bayes_cpt.model.setup import BoundModel
from bayes_cpt.model.simulate import expected_loss
from bayes_cpt.plots import panels
from bayes_cpt.plots.style import (
    BAND,
    GREY,
    INK,
    SMALL,
    WIDE_BAND,
    colour,
    dress,
    new_figure,
    styled,
)
from bayes_cpt.study.study import Study

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

type Transform = Callable[[Any], Any]

MASS = 0.99
# Positive quantities whose posterior spans more than this ratio are shown on a logarithmic axis.
LOG_RATIO = 4.0
POINTS = 160
RESTS = "#b00020"
COLUMNS = 4
SIZE = (1.45, 1.12)
# Prior draws, of which some are drawn as curves; panels in a row of a block.
DRAWS, CURVES, CURVE_COLUMNS = 1000, 25, 2


@styled
def prior_posterior(
    posterior: Posterior, kind: Literal["parameters", "coefficients"] = "parameters"
) -> "Figure":
    """Return a figure of prior and posterior densities.

    Parameters
    ----------
    posterior : Posterior
    kind : {"parameters", "coefficients"}
        What is sampled, or the coefficients of the printed equation.

    Returns
    -------
    matplotlib.figure.Figure
        One block of panels per validation set; quantities that validation sets share come last in one
        of them. A panel covers the central 99 % of the posterior; the share of the prior in the same range
        and the contraction (see `bayes_cpt.inference.posterior.contraction`) stand over it, in red where
        the quantity rests on its prior.
    """
    import pandas as pd

    if kind not in ("parameters", "coefficients"):
        raise ValueError(f"kind is {kind!r}: give parameters or coefficients")
    summary = posterior.summary()
    summary = summary[summary["kind"] == kind.removesuffix("s")]
    domains = posterior.frame.domains
    shown = [summary[summary["domain"] == domain] for domain in domains]
    shortest = int(np.argmin([len(quantities) for quantities in shown]))
    shown[shortest] = pd.concat([shown[shortest], summary[summary["domain"] == "all"]])
    rows = math.ceil(max(len(quantities) for quantities in shown) / COLUMNS)
    figure = new_figure(SIZE[0] * COLUMNS * len(domains), SIZE[1] * rows + 0.8)
    parts = panels.halves(figure, len(domains))
    logarithmic = False
    for i, (part, domain, quantities) in enumerate(zip(parts, domains, shown, strict=True)):
        panels.head(part, domain, i)
        grid = part.add_gridspec(rows, COLUMNS)
        for k, row in enumerate(quantities.itertuples(index=False)):
            axes = part.add_subplot(grid[divmod(k, COLUMNS)])
            shade = colour(i) if row.domain == domain else INK
            share = _densities(axes, posterior, str(row.quantity), str(row.domain), shade)
            _head(axes, row, share)
            logarithmic |= axes.get_xscale() == "log"
    marks = {"log: logarithmic axis": panels.line("none")} if logarithmic else {}
    panels.legend(
        figure,
        {
            "posterior, central 99 %": panels.patch(GREY, 2 * BAND),
            "prior, same range": panels.line(INK, linestyle="--", linewidth=1.0),
            "c: contraction, 1 is learnt, 0 is not": panels.line("none"),
            "p: share of the prior in the range": panels.line("none"),
            "red: rests on its prior": panels.line("none"),
        }
        | marks,
    )
    return figure


def _head(axes: "Axes", row: "pd.Series", share: float) -> None:
    shared = " (shared)" if row.domain == "all" else ""
    rests = row.contraction < LOWEST_CONTRACTION
    axes.set_title(f"{row.quantity}{shared}", loc="left", fontsize=SMALL, fontweight="bold", pad=14)
    scale = "   log" if axes.get_xscale() == "log" else ""
    text = f"c {row.contraction:.2f}   p {_percent(share)}{scale}"
    panels.note(axes, text, color=RESTS if rests else GREY)


def _percent(share: float) -> str:
    return "<1 %" if share < 0.01 else f"{100 * share:.0f} %"


def _densities(axes: "Axes", posterior: Posterior, quantity: str, domain: str, shade: str) -> float:
    """Draw both densities and return the share of the prior in the range shown."""
    prior = posterior.prior_draws(quantity, domain)
    prior = prior[np.isfinite(prior)]
    draws = posterior.draws(quantity, domain).ravel()
    low, high = np.quantile(draws, [0.5 - MASS / 2, 0.5 + MASS / 2])
    logarithmic = bool(draws.min() > 0 and prior.min() > 0 and high / low > LOG_RATIO)
    straight, back, slope = _scale(prior, draws)
    grid = np.linspace(straight(low), straight(high), POINTS)
    place = back(grid)
    # Per unit of the axis: of the quantity, or of its logarithm.
    weight = slope(place) * (place if logarithmic else 1.0)
    after = density(straight(draws), grid) * weight
    before = density(straight(prior), grid) * weight
    axes.fill_between(place, after, color=shade, alpha=BAND, linewidth=0.0)
    axes.plot(place, after, color=shade, linewidth=1.0)
    axes.plot(place, before, color=INK, linestyle="--", linewidth=1.0)
    dress(axes, grid=False)
    axes.set_ylim(0, 1.08 * max(after.max(), before.max()))
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    _horizontal(axes, low, high, logarithmic)
    return float(np.mean((prior >= low) & (prior <= high)))


def _scale(*samples: Floats) -> tuple[Transform, Transform, Transform]:
    """Return a scale on which a quantity has no bounds, its inverse and its slope."""
    low, high = min(s.min() for s in samples), max(s.max() for s in samples)
    if low > 0 and high < 1:
        return (
            lambda x: np.log(x) - np.log1p(-x),
            lambda z: 1.0 / (1.0 + np.exp(-z)),
            lambda x: 1.0 / (x * (1.0 - x)),
        )
    if low > 0:
        return np.log, np.exp, lambda x: 1.0 / x
    return np.asarray, np.asarray, np.ones_like


def _horizontal(axes: "Axes", low: float, high: float, logarithmic: bool) -> None:
    from matplotlib.ticker import MaxNLocator, NullLocator

    if logarithmic:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
        middle = math.sqrt(low * high)
        marks = [
            float(f"{mark:.1g}") for mark in (math.sqrt(low * middle), math.sqrt(middle * high))
        ]
        axes.set_xticks(marks, [f"{mark:g}" for mark in marks])
    else:
        axes.xaxis.set_major_locator(MaxNLocator(2, min_n_ticks=2))
    axes.set_xlim(low, high)


def density(draws: Floats, grid: Floats) -> Floats:
    """Return a kernel density of draws on a grid; its width does not mind far tails."""
    quartiles = np.quantile(draws, [0.25, 0.75])
    spread = min(draws.std(), (quartiles[1] - quartiles[0]) / 1.34)
    width = 1.06 * spread * draws.size**-0.2
    kernels = np.exp(-0.5 * ((grid[:, None] - draws) / width) ** 2)
    return np.asarray(kernels.sum(axis=1) / (draws.size * width * math.sqrt(2.0 * math.pi)))


@styled
def prior_predictive(
    source: BoundModel | Posterior,
    plan: Study | None = None,
    runs: Collection[str] | None = None,
    seed: int = 0,
) -> "Figure":
    """Return a figure of the law's curves under the priors, at the level of the measured bases.

    Parameters
    ----------
    source : BoundModel or Posterior
        What is to be shown of a posterior are its priors alone. `bayes_cpt.model.setup.build_setup` gives
        the frame of a specification and a study that was not fitted.
    plan : Study, optional
        Runs to draw curves of; the fitted study unless given, which a BoundModel does not have. Measured
        losses, where it has them, are drawn over the curves.
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
    frame = source.frame if isinstance(source, Posterior) else source
    if isinstance(source, Posterior):
        study = source.study if plan is None else plan
    elif plan is None:
        raise ValueError("plan is missing: a BoundModel has no study, so give the runs to draw")
    else:
        study = plan
    default = study.continual_runs if frame.spec.law.continual else study.pretraining_runs
    shown = list(default) if runs is None else [study.run(name) for name in runs]
    if isinstance(source, Posterior):
        _, curves = planned_curves(source, plan, runs=[run.name for run in shown])
    else:
        curves = frame.curves(study, lambda run, _: default_grid(run), shown)
    with np.errstate(over="ignore", invalid="ignore"):
        losses = expected_loss(frame, draw_at_bases(frame, study, DRAWS, seed), curves)
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
        measured = study.curve(run.name, curve.domain)
        panels.dots(panel, *measured, s=4.0)
        _limits(panel, lower, upper, measured[1])
        panels.title(panel, run.name, panels.origin(run.replay, run.base))
        last = j >= len(shown) - columns
        panels.step_axis(panel, run.schedule.steps, panels.step_label(run.phase) if last else "")
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


def _limits(axes: "Axes", *values: Floats) -> None:
    """Show the bands and the measured losses; single curves may leave the panel."""
    low, high = np.concatenate(values).min(), np.concatenate(values).max()
    axes.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))

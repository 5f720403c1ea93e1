"""A decision: where the optimum may lie, what is traded for what, and what it costs to choose otherwise."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bayes_cpt.decisions.contenders import Slice
from bayes_cpt.decisions.decision import Decision
from bayes_cpt.decisions.search import traded
from bayes_cpt.plots import panels
from bayes_cpt.plots.style import (
    BAND,
    GREY,
    INK,
    PALE,
    PALETTE,
    SMALL,
    colour,
    dress,
    new_figure,
    styled,
)

LABELS = {
    "base": "base",
    "loss_potential": "loss potential of the base",
    "replay": "replay ratio",
    "targets": "mixture of targets",
    "peak": "peak LR",
    "relative_peak": "peak LR / PT peak",
    "warmup_steps": "re-warm-up (steps)",
    "warmup_share": "re-warm-up / steps",
    "decay_shape": "decay shape",
    "decay_share": "decay / steps after re-warm-up",
    "final": "final LR",
    "relative_final": "final LR / peak LR",
    "steps": "steps",
}
# Which quantities are shown first where there are more than there is room for.
ORDER = ("replay", "targets", "relative_peak", "peak", "steps", "loss_potential", "base")
MOST, SLICES = 4, 2
BINS, PAD = 24, 0.02
SIZE = (2.7, 2.2)
OPTIMUM, FRONT = PALETTE[0], PALETTE[2]


@styled
def decision(decision: Decision) -> Figure:
    """Return a figure of a decision.

    Parameters
    ----------
    decision : Decision

    Returns
    -------
    matplotlib.figure.Figure
        Above, the posterior of the optimum: in which share of the draws the best configuration has which
        value. Below, the Pareto front of general and target loss, with intervals of the law's curve as
        recommended, and what it costs to leave the recommendation in one quantity. The recommendation is
        marked throughout.
    """
    searched = sorted(decision.space.searched, key=_place)[:MOST]
    slices = sorted(decision.slices, key=lambda across: _place(across.name))
    shown = [across for across in slices if np.issubdtype(across.values.dtype, np.number)][:SLICES]
    rows = 2 if searched else 1
    objective, criterion = decision.valuation.objective, decision.criterion
    title = f"Objective {objective.name}, by {criterion.measure.meaning}"
    figure = new_figure(SIZE[0] * (MOST if searched else 2), SIZE[1] * rows + 1.0, title)
    parts = figure.subfigures(rows, 1, squeeze=False, hspace=0.04)[:, 0]
    if searched:
        for axes, name in zip(
            parts[0].subplots(1, len(searched), squeeze=False)[0], searched, strict=True
        ):
            _optimum(axes, decision, name)
    ratios = [2.0, *[1.0] * len(shown)]
    lower = parts[-1].subplots(1, len(ratios), squeeze=False, width_ratios=ratios)[0]
    _front(lower[0], decision)
    for axes, across in zip(lower[1:], shown, strict=True):
        _slice(axes, decision, across)
        axes.sharey(lower[1])
        axes.tick_params(labelleft=axes is lower[1])
    if shown:
        lower[1].set_ylabel("cost of choosing otherwise (nats)")
    panels.legend(figure, _entries(decision, bool(searched), bool(shown)))
    return figure


def _place(name: str) -> int:
    return ORDER.index(name) if name in ORDER else len(ORDER)


def _optimum(axes: Axes, decision: Decision, name: str) -> None:
    """Draw how often the best has which value."""
    values, chosen = decision.optimum.column(name), decision.contenders.candidates.column(name)[0]
    whole = decision.search.candidates.column(name)
    if name not in decision.space.ranges:
        _shares(axes, values, chosen, np.unique(whole), LABELS[name])
        return
    dress(axes, xlabel=LABELS[name], ylabel="share of the draws")
    low, high = float(whole.min()), float(whole.max())
    logarithmic = decision.space.quantities[name].scale == "log"
    edges = np.geomspace(low, high, BINS + 1) if logarithmic else np.linspace(low, high, BINS + 1)
    near = decision.near.column(name)
    axes.axvspan(near.min(), near.max(), color=PALE, alpha=BAND, linewidth=0.0, zorder=0)
    counts, _ = np.histogram(values, np.r_[edges[:-1], edges[-1] * (1 + 1e-9)])
    axes.stairs(counts / values.size, edges, fill=True, color=OPTIMUM, alpha=2 * BAND)
    axes.axvline(float(chosen), color=INK, linestyle="--", linewidth=1.0)
    _horizontal(axes, low, high, logarithmic)


def _shares(axes: Axes, values: Any, chosen: Any, listed: Any, label: str) -> None:
    """Draw a bar for each listed value, the recommended one marked."""
    places = np.arange(listed.size)
    axes.barh(
        places, [np.mean(values == choice) for choice in listed], color=OPTIMUM, alpha=2 * BAND
    )
    names = [choice if isinstance(choice, str) else f"{choice:g}" for choice in listed.tolist()]
    axes.set_yticks(places, names)
    axes.plot(0.03, np.flatnonzero(listed == chosen)[0], "*", color=INK, markersize=9)
    axes.set(xlim=(0, 1), ylim=(-0.6, listed.size - 0.4))
    dress(axes, grid=False, xlabel="share of the draws", ylabel=label)


def _front(axes: Axes, decision: Decision) -> None:
    """Draw the front of expected losses, and the contenders; intervals are those of the recommendation."""
    front, domains = decision.front, decision.valuation.model.domains
    if len(domains) == 1:
        axes.set_axis_off()
        said = f"{domains[0]} alone was measured:\nnothing is traded"
        axes.text(0.5, 0.5, said, ha="center", va="center", color=GREY, transform=axes.transAxes)
        return
    x, y = traded(front.losses).mean(axis=2)
    axes.plot(x, y, color=FRONT, marker="o", markersize=2.5)
    draws = traded(decision.contenders.losses)
    losses = draws.mean(axis=2)
    panels.intervals(axes, losses[1, 0], draws[0, 0], PALE, zorder=1)
    panels.intervals(axes, losses[0, 0], draws[1, 0], PALE, upright=True, zorder=1)
    axes.plot(*losses[:, 1:], "o", color=INK, markersize=4, markerfacecolor="white", zorder=4)
    axes.plot(*losses[:, :1], "*", color=INK, markersize=11, zorder=5)
    dress(axes, ticks=6)
    axes.set_xlabel(f"loss on {domains[0]} (nats/token)", color=colour(0))
    target = domains[1] if len(domains) == 2 else "targets, mean"
    axes.set_ylabel(f"loss on {target} (nats/token)", color=colour(1))
    # Ends that are alike are named once.
    named = {f"replay {100 * front.candidates.replay[row]:.3g} %": row for row in (0, -1)}
    for text, row in named.items():
        axes.annotate(
            text,
            (x[row], y[row]),
            xytext=(4, 2),
            textcoords="offset points",
            fontsize=SMALL,
            color=GREY,
        )


def _slice(axes: Axes, decision: Decision, across: Slice) -> None:
    """Draw what it costs to leave the recommendation in one quantity."""
    values = across.values.astype(np.float64)
    costs = across.costs.T.astype(np.float64)
    is_range = across.name in decision.space.ranges
    if is_range:
        for mass in (0.9, 0.5):
            panels.band(axes, values, costs, mass, color=OPTIMUM)
    else:
        panels.intervals(axes, values, costs, OPTIMUM, upright=True)
    dots: dict[str, Any] = {"marker": "o", "markersize": 4, "linestyle": ""}
    axes.plot(values, costs.mean(axis=0), color=OPTIMUM, **({} if is_range else dots))
    if not across.allowed.all():
        broken = np.where(across.allowed, np.nan, 0.0)
        axes.plot(values, broken, color=PALETTE[1], linewidth=3.0, solid_capstyle="butt")
    axes.axhline(decision.criterion.tolerance, color=GREY, linestyle=":", linewidth=1.0)
    chosen = float(decision.contenders.candidates.column(across.name)[0])
    axes.axvline(chosen, color=INK, linestyle="--", linewidth=1.0)
    dress(axes, ticks=5, xlabel=LABELS[across.name])
    low, high = float(values.min()), float(values.max())
    _horizontal(axes, low, high, decision.space.quantities[across.name].scale == "log")


def _horizontal(axes: Axes, low: float, high: float, logarithmic: bool) -> None:
    if logarithmic:
        panels.log_axis(axes, np.array([low, float(f"{np.sqrt(low * high):.1g}"), high]), digits=3)
        axes.set_xlim(low * (low / high) ** PAD, high * (high / low) ** PAD)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
        axes.set_xlim(low - PAD * (high - low), high + PAD * (high - low))


def _entries(decision: Decision, optimum: bool, slices: bool) -> dict[str, Any]:
    entries: dict[str, Any] = {
        "recommended": panels.line(INK, marker="*", markersize=9, linestyle="--")
    }
    if several := len(decision.valuation.model.domains) > 1:
        entries |= {
            "front of expected losses": panels.line(FRONT, marker="o", markersize=3),
            "losses as recommended, 50 and 90 % credible": panels.line(PALE, linewidth=3.2),
        }
    if several and len(decision.contenders) > 1:
        entries["runners-up"] = panels.line(
            INK, marker="o", markersize=4, markerfacecolor="white", linestyle=""
        )
    if optimum:
        entries["each draw's own best"] = panels.patch(OPTIMUM, 2 * BAND)
        entries[f"within {decision.criterion.tolerance:g} nats of the best"] = panels.patch(
            PALE, BAND
        )
    if slices:
        entries["mean cost, 50 and 90 % credible"] = panels.line(OPTIMUM)
        entries[f"{decision.criterion.tolerance:g} nats"] = panels.line(GREY, linestyle=":")
        if any(not across.allowed.all() for across in decision.slices):
            entries["breaks a constraint"] = panels.line(PALETTE[1], linewidth=3.0)
    return entries

"""Decisions: where the best lies, which run comes next, which schedule."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator

from bayes_cpt.decisions.decision import Decision
from bayes_cpt.decisions.next_run import RunValues
from bayes_cpt.decisions.schedule_choice import COSINE, FAMILIES, WSD, ScheduleChoice
from bayes_cpt.decisions.search import Slice, traded
from bayes_cpt.plots import panels
from bayes_cpt.plots.style import (
    BAND,
    GREY,
    INK,
    LONGEST,
    PALE,
    PALETTE,
    called,
    colour,
    dress,
    new_figure,
    styled,
)

# Quantities that may be chosen, on axes.
LABELS = {
    "base": "base",
    "replay": "replay ratio",
    "targets": "mixture of targets",
    "peak": "peak LR",
    "relative_peak": "peak LR / PT peak",
    "warmup_steps": "re-warm-up (steps)",
    "warmup_share": "re-warm-up / steps",
    "decay_shape": "decay shape",
    "decay_share": "decay / steps\nafter re-warm-up",
    "final": "final LR",
    "relative_final": "final LR / peak LR",
    "steps": "steps",
}
# Which quantities are shown first where there are more than there is room for.
ORDER = ("replay", "targets", "relative_peak", "peak", "steps", "base")
MOST_PANELS, MOST_SLICES = 4, 2
BINS, PAD = 24, 0.02
OPTIMUM, FRONT, BROKEN = PALETTE[0], PALETTE[2], PALETTE[3]
EACH_BEST: Any = {"label": "each draw's own best", "color": OPTIMUM, "alpha": 2 * BAND}
# Next runs that are shown, the best first.
MOST_RUNS = 16
SCHEDULES = {COSINE: ("best cosine", PALETTE[1]), WSD: ("best WSD", PALETTE[2])}


@styled
def decision(decision: Decision) -> Figure:
    """Return a figure of a decision.

    Above, the posterior of the optimum: in which share of the draws the best configuration has which value.
    Below, the Pareto front of general and target loss, with intervals of the law's curve as recommended,
    and what it costs to leave the recommendation in one quantity. The recommendation is marked throughout.

    Parameters
    ----------
    decision : Decision
    """
    searched = sorted(decision.space.searched, key=_place)[:MOST_PANELS]
    slices = sorted(decision.slices, key=lambda across: _place(across.name))
    numeric = [own for own in slices if np.issubdtype(own.values.dtype, np.number)][:MOST_SLICES]
    rows = 2 if searched else 1
    objective = called(decision.valuation.objective.name)
    title = f"Objective {objective}, by {decision.criterion.measure.meaning}"
    width = 2.7 * (MOST_PANELS if searched else 2)
    figure = new_figure(width, 2.2 * rows + 1.0, title)
    parts = figure.subfigures(rows, 1, squeeze=False, hspace=0.04)[:, 0]
    if searched:
        above = parts[0].subplots(1, len(searched), squeeze=False)[0]
        for axes, name in zip(above, searched, strict=True):
            _optimum(axes, decision, name)
    # One set has no front: its place is left out where there is another panel to draw.
    fronts = int(len(decision.valuation.model.domains) > 1 or not numeric)
    ratios = [2.0] * fronts + [1.0] * len(numeric)
    lower = parts[-1].subplots(1, len(ratios), squeeze=False, width_ratios=ratios)[0]
    if fronts:
        _front(lower[0], decision)
    for axes, across in zip(lower[fronts:], numeric, strict=True):
        _slice(axes, decision, across)
        axes.sharey(lower[fronts])
        axes.tick_params(labelleft=axes is lower[fronts])
    if numeric:
        lower[fronts].set_ylabel("cost of choosing\notherwise (nats)")
    recommended = panels.line(INK, marker="*", markersize=9, linestyle="--")
    panels.legend(figure, {"recommended": recommended})
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
    edges = (np.geomspace if logarithmic else np.linspace)(low, high, BINS + 1)
    near = decision.near.column(name)
    band: dict[str, Any] = {"color": PALE, "alpha": BAND, "linewidth": 0.0, "zorder": 0}
    within = f"within {decision.criterion.tolerance:g} nats of the best"
    axes.axvspan(near.min(), near.max(), label=within, **band)
    counts, _ = np.histogram(values, np.r_[edges[:-1], edges[-1] * (1 + 1e-9)])
    axes.stairs(counts / values.size, edges, fill=True, **EACH_BEST)
    axes.axvline(float(chosen), color=INK, linestyle="--", linewidth=1.0)
    _horizontal(axes, low, high, logarithmic)


def _shares(axes: Axes, values: Any, chosen: Any, listed: Any, label: str) -> None:
    """Draw a bar for each listed value, the recommended one marked."""
    places, shares = np.arange(listed.size), [np.mean(values == choice) for choice in listed]
    axes.barh(places, shares, **EACH_BEST)
    names = [_kind(own) if isinstance(own, str) else f"{own:g}" for own in listed.tolist()]
    axes.set_yticks(places, names)
    axes.plot(0.03, np.flatnonzero(listed == chosen)[0], "*", color=INK, markersize=9)
    axes.set(xlim=(0, 1), ylim=(-0.6, listed.size - 0.4))
    # Beside the names a label would stand against the next panel.
    dress(axes, grid=False, xlabel=f"share of the draws, by {label}")


def _kind(name: str) -> str:
    """Return a base, a shape or a mixture as figures write it: names are shortened, shares are not.

    Examples
    --------
    >>> _kind("50 % C++, 25 % law_eu, 25 % R&D newspapers")
    '50 % C++, 25 % law_eu, 25 % R&…papers'
    """
    parts = name.split(", ")
    return ", ".join(called(part, LONGEST // min(len(parts), 2)) for part in parts)


def _front(axes: Axes, decision: Decision) -> None:
    """Draw the front of expected losses, and the contenders; intervals are those of the recommendation."""
    front, domains = decision.front, list(map(called, decision.valuation.model.domains))
    if len(domains) == 1:
        axes.set_axis_off()
        said = f"{domains[0]} alone was measured:\nnothing is traded"
        axes.text(0.5, 0.5, said, ha="center", va="center", color=GREY, transform=axes.transAxes)
        return
    x, y = traded(front.losses).mean(axis=2)
    if x.size > 1:
        axes.plot(x, y, color=FRONT, marker="o", markersize=2.5, label="front of expected losses")
    draws = traded(decision.contenders.losses)
    losses = draws.mean(axis=2)
    # The star is open and lies below, as it is larger than the rest where a front is long.
    cross: dict[str, Any] = {"label": "losses as recommended, 50 and 90 % credible", "zorder": 4}
    panels.intervals(axes, losses[1, 0], draws[0, 0], OPTIMUM, **cross)
    panels.intervals(axes, losses[0, 0], draws[1, 0], OPTIMUM, upright=True, **cross)
    ring: dict[str, Any] = {"color": INK, "markersize": 3, "markerfacecolor": "white", "zorder": 5}
    if len(decision.contenders.candidates) > 1:
        axes.plot(*losses[:, 1:], "o", label="runners-up", **ring)
    axes.plot(*losses[:, :1], "*", color=INK, markersize=15, markerfacecolor="white", zorder=3)
    dress(axes, ticks=6)
    axes.set_xlabel(f"loss on {domains[0]} (nats/token)", color=colour(0))
    target = domains[1] if len(domains) == 2 else "targets, mean"
    axes.set_ylabel(f"loss on {target} (nats/token)", color=colour(1))
    replay = front.candidates.replay
    for row in (0, -1) if replay[0] != replay[-1] else ():
        text = f"replay {100 * replay[row]:.3g} %"
        panels.beside(axes, text, y[row], x[row], xytext=(4, 2), color=GREY)


def _slice(axes: Axes, decision: Decision, across: Slice) -> None:
    """Draw what it costs to leave the recommendation in one quantity."""
    values = across.values.astype(np.float64)
    costs = across.costs.T.astype(np.float64)
    dots: dict[str, Any] = {}
    if across.name in decision.space.ranges:
        for mass in (0.9, 0.5):
            panels.band(axes, values, costs, mass, color=OPTIMUM)
    else:
        panels.intervals(axes, values, costs, OPTIMUM, upright=True)
        dots = {"marker": "o", "markersize": 4, "linestyle": ""}
    mean = "mean cost, 50 and 90 % credible"
    axes.plot(values, costs.mean(axis=0), color=OPTIMUM, label=mean, **dots)
    if not across.allowed.all():
        broken = np.where(across.allowed, np.nan, 0.0)
        bar: dict[str, Any] = {"color": BROKEN, "linewidth": 3.0, "solid_capstyle": "butt"}
        axes.plot(values, broken, label="breaks a constraint", **bar)
    tolerance = decision.criterion.tolerance
    label = f"{tolerance:g} nats"
    axes.axhline(tolerance, color=GREY, linestyle=":", linewidth=1.0, label=label)
    chosen = float(decision.contenders.candidates.column(across.name)[0])
    axes.axvline(chosen, color=INK, linestyle="--", linewidth=1.0)
    axes.plot(chosen, 0.0, "*", color=INK, markersize=9, clip_on=False)
    dress(axes, ticks=5, xlabel=LABELS[across.name])
    logarithmic = decision.space.quantities[across.name].scale == "log"
    _horizontal(axes, float(values.min()), float(values.max()), logarithmic)


def _horizontal(axes: Axes, low: float, high: float, logarithmic: bool) -> None:
    if logarithmic:
        ticks = [low, float(f"{np.sqrt(low * high):.1g}"), high]
        axes.set(xscale="log", xlabel=f"{axes.get_xlabel()} (logarithmic)")
        axes.set_xticks(ticks, [f"{tick:.3g}" for tick in ticks])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlim(low * (low / high) ** PAD, high * (high / low) ** PAD)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
        axes.set_xlim(low - PAD * (high - low), high + PAD * (high - low))


@styled
def next_run(result: RunValues) -> Figure:
    """Return a figure of the values of the runs.

    Value per 1,000 steps of cost, with two Monte Carlo errors each way, and what a run must be worth to
    pay.

    Parameters
    ----------
    result : RunValues
    """
    names = result.order[:MOST_RUNS]
    left_out = len(result.order) > MOST_RUNS
    shown = f" The best {len(names)} of {len(result.order)}" if left_out else ""
    figure = new_figure(6.4, 0.2 * len(names) + 1.6, f"Which run next?{shown}")
    axes = figure.subplots()
    rows, places = result.table().set_index("run").loc[names], np.arange(len(names))[::-1]
    scale = 1000.0 / rows["cost"]
    style: dict[str, Any] = {"fmt": "o", "color": PALETTE[0], "markersize": 4, "linewidth": 1.2}
    style["label"] = "value, ± 2 Monte Carlo errors"
    axes.errorbar(scale * rows["value"], places, xerr=2.0 * scale * rows["error"], **style)
    bar: dict[str, Any] = {"color": PALETTE[1], "markersize": 8, "markeredgewidth": 1.6}
    axes.plot(scale * rows["hurdle"], places, "|", label="must be worth, to pay", **bar)
    axes.axvline(0.0, color=GREY, linewidth=0.8)
    panels.rows(axes, names, xlabel="nats per 1,000 steps of cost")
    panels.legend(figure)
    return figure


@styled
def schedules(choice: ScheduleChoice) -> Figure:
    """Return a figure of the schedules, whole and at their end.

    Where a schedule ends below the axis it is at 0.

    Parameters
    ----------
    choice : ScheduleChoice
    """
    run, count = choice.run, choice.run.schedule.steps
    title = f"{count} steps from {called(str(run.base))}, replay {run.replay:g}"
    figure = new_figure(6.8, 2.9, title)
    whole, last = figure.subplots(1, 2)
    steps = np.arange(1, count + 1)
    for family in reversed(FAMILIES):
        rates = choice.plan.run(family).schedule.learning_rates()
        name, shade = SCHEDULES[family]
        whole.plot(steps, rates, color=shade, label=name)
        last.plot(steps[::-1], rates, color=shade)
    dress(whole, title="schedules", xlabel="CPT step", ylabel="learning rate", ylim=(0, None))
    whole.xaxis.set_major_locator(MaxNLocator(4))
    first = choice.plan.run(WSD).schedule.peak
    last.set(xscale="log", yscale="log", xlim=(count, 1), ylim=(1e-4 * first, 1.5 * first))
    last.set(xlabel="steps to go (logarithmic)", ylabel="learning rate (logarithmic)")
    dress(last, grid=False, title="towards the end")
    panels.legend(figure)
    return figure

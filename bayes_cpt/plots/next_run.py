"""What runs would be worth for their cost, and what they would say about the law."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayes_cpt.arrays import Floats
from bayes_cpt.decisions.next_run import RunValues
from bayes_cpt.forecast.derived import MEANINGS
from bayes_cpt.plots import panels
from bayes_cpt.plots.style import GREY, PALETTE, SMALL, new_figure, styled

WIDTH, ROW, HEAD = 8.6, 0.2, 2.1
# Runs and quantities that are shown, the best first.
MOST, QUANTITIES = 16, 12
# As high as for so many, that the scale has room.
FEWEST = 8
ERRORS = 2.0
# How far the scale of values reaches down at the most; shares of a price that are told, per cent.
DECADES, LEAST_SHARE = 1e6, 0.1


@styled
def next_run(result: RunValues) -> Figure:
    """Return a figure of the values of the runs, and of what they tell.

    Parameters
    ----------
    result : RunValues

    Returns
    -------
    matplotlib.figure.Figure
        Left, value per 1,000 steps on a logarithmic axis, with two Monte Carlo errors each way, and what a
        run must be worth to pay; what is not above 0 lies at the edge. Right, the share of the variance of
        each quantity that a run takes away; effects of a typical run are shown where there are any, else
        coefficients.
    """
    names = result.order[:MOST]
    shown = f" The best {len(names)} of {len(result.order)}" if len(result.order) > MOST else ""
    height = ROW * max(len(names), FEWEST) + HEAD
    figure = new_figure(WIDTH, height, f"Which run next?{shown}")
    left, right = figure.subplots(1, 2, width_ratios=(1.0, 1.15))
    _values(left, result, names)
    _told(figure, right, result, names)
    panels.legend(
        figure,
        {
            "value, ± 2 Monte Carlo errors": panels.line(PALETTE[0], marker="o", markersize=4),
            "must be worth, to pay": panels.line(
                PALETTE[1], marker="|", markersize=8, linestyle="", markeredgewidth=1.6
            ),
            "value of perfect information": panels.line(GREY, linestyle="--", linewidth=0.9),
        },
    )
    return figure


def _values(axes: Axes, result: RunValues, names: list[str]) -> None:
    """Draw the value of each run beside its price, and what share of the price it is."""
    places = np.arange(len(names))[::-1]
    costs = np.array([result.affordable.cost(result.affordable.plan.run(name)) for name in names])
    scale = 1000.0 / costs
    value = scale * np.array([result.values[name].value for name in names])
    error = scale * np.array([result.values[name].error for name in names])
    hurdle = scale * np.array([result.hurdle(name) for name in names])
    perfect = scale * result.perfect[0]
    low, high = _ends(value, np.concatenate([value, hurdle, perfect]))
    axes.tick_params(axis="x", which="minor", labelbottom=False)
    ends = np.clip([value - ERRORS * error, value + ERRORS * error], low, high)
    axes.hlines(places, *ends, color=PALETTE[0], linewidth=1.2)
    axes.plot(np.maximum(value, low), places, "o", color=PALETTE[0], markersize=4, clip_on=False)
    axes.plot(
        np.maximum(hurdle, low), places, "|", color=PALETTE[1], markersize=8, markeredgewidth=1.6
    )
    axes.plot(np.maximum(perfect, low), places, "--", color=GREY, linewidth=0.9)
    for place, worth, price in zip(places, value, hurdle, strict=True):
        panels.beside(axes, _share(worth, price), place)
    panels.note(axes, "right: the value as a share of what it must be")
    label = "nats per 1,000 steps of cost (logarithmic)"
    panels.rows(axes, names, xlabel=label, xscale="log", xlim=(low, high))
    axes.set_title("worth", loc="left", fontweight="bold", pad=14)


def _ends(value: Floats, every: Floats) -> tuple[float, float]:
    """Return the ends of a logarithmic axis; what is not above 0 lies at the lower one."""
    above = value[value > 0]
    high = 2.0 * float(max(every.max(), 1e-9))
    low = 0.4 * float(above.min()) if above.size else high / DECADES
    # A decade holds a power of ten, which alone is told.
    return min(max(low, high / DECADES), high / 10.0), high


def _share(value: float, price: float) -> str:
    if price <= 0:
        return "free"
    share = 100.0 * max(value, 0.0) / price
    if share < LEAST_SHARE:
        return f"< {LEAST_SHARE:g} %"
    return f"{share:.0f} %" if share >= 10.0 else f"{share:.1f} %"


def _told(figure: Figure, axes: Axes, result: RunValues, names: list[str]) -> None:
    effects = [i for i, (name, _) in enumerate(result.quantities) if name in MEANINGS]
    columns = np.array(effects or range(len(result.quantities)))
    shares = np.stack([result.told[name].share for name in names])
    order = np.argsort(-shares[:, columns].max(axis=0), kind="stable")[:QUANTITIES]
    columns = columns[np.sort(order)]
    picture = axes.pcolormesh(
        100.0 * np.clip(shares[:, columns], 0.0, 1.0)[::-1], cmap="Blues", vmin=0.0
    )
    labels = [
        f"{result.quantities[i][0].replace('_', ' ')}, {result.quantities[i][1]}" for i in columns
    ]
    axes.set_xticks(np.arange(len(labels)) + 0.5, labels, rotation=90, fontsize=SMALL)
    axes.set_yticks([])
    axes.tick_params(length=0)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.set_title("tells", loc="left", fontweight="bold", pad=14)
    bar = figure.colorbar(picture, ax=axes, pad=0.02, aspect=30)
    bar.set_label("% of variance expected to go", fontsize=SMALL)
    bar.ax.tick_params(labelsize=SMALL, length=2)
    bar.outline.set_visible(False)

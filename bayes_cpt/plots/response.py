"""Final losses against one choice: loss potential, peak learning rate, or the base."""

from typing import TYPE_CHECKING

import numpy as np

from bayes_cpt.landmarks import Response
from bayes_cpt.plots import panels
from bayes_cpt.plots.style import (
    BAND,
    GREY,
    INK,
    LOSS,
    PALETTE,
    WIDE_BAND,
    colour,
    dress,
    new_figure,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABELS = {
    "loss potential": "loss potential (final over peak learning rate of PT)",
    "peak learning rate": "peak learning rate of CPT",
}
MASSES = (0.9, 0.5)
SIZE = (3.6, 2.7)
# Ratio of learning rates whose names do not touch.
APART = 1.7


@styled
def response(*responses: Response) -> "Figure":
    """Return a figure of the last loss against a choice, one panel per validation set.

    Parameters
    ----------
    *responses : Response
        Of one choice, as with and without a re-warm-up; differently coloured.

    Returns
    -------
    matplotlib.figure.Figure
        Medians with bands of 50 and 90 %, of bases dots with intervals. Dashed or open is the loss of the
        base, before the run; what was not studied is shaded.
    """
    first = responses[0].draws
    widest = max(responses, key=lambda each: each.draws.sizes["value"])
    choice, run = first.attrs["choice"], first.attrs["run"]
    domains = [str(domain) for domain in first["domain"].to_numpy()]
    count = first.sizes["value"]
    height = 0.32 * count + 1.4 if choice == "base" else SIZE[1]
    figure = new_figure(SIZE[0] * len(domains), height)
    figure.suptitle(f"{run}: last loss against {choice}", fontsize="large", fontweight="bold")
    axes_row = figure.subplots(1, len(domains), squeeze=False)[0]
    for i, (axes, domain) in enumerate(zip(axes_row, domains, strict=True)):
        axes.set_title(f"validation set: {domain}", color=colour(i), fontweight="bold")
        if choice == "base":
            _bases(axes, responses[0], domain, i)
            axes.tick_params(labelleft=i == 0)
            continue
        for k, each in enumerate(responses):
            _curve(axes, each, domain, PALETTE[2 + k] if len(responses) > 1 else colour(i))
        start = widest.draws["start"].sel(domain=domain).median("draw")
        axes.plot(start["value"], start, color=INK, linestyle="--", linewidth=0.9)
        _unstudied(axes, widest)
        dress(axes, ticks=6)
        axes.set_xlabel(LABELS[choice])
        if choice == "peak learning rate":
            _rates(axes, responses[0])
        if i == 0:
            axes.set_ylabel(LOSS)
    panels.legend(figure, _entries(responses))
    return figure


def _curve(axes: "Axes", response: Response, domain: str, shade: str) -> None:
    values = response.draws["value"].to_numpy()
    loss = response.draws["loss"].sel(domain=domain).to_numpy()
    for mass in MASSES:
        panels.band(axes, values, loss, mass, color=shade)
    axes.plot(values, np.median(loss, axis=0), color=shade, marker="o", markersize=2.5)


def _bases(axes: "Axes", response: Response, domain: str, index: int) -> None:
    loss = response.draws["loss"].sel(domain=domain).to_numpy()
    start = response.draws["start"].sel(domain=domain).median("draw").to_numpy()
    places = np.arange(loss.shape[1])[::-1]
    for mass, width in zip(MASSES, (1.2, 3.2), strict=True):
        edges = np.quantile(loss, [0.5 - mass / 2, 0.5 + mass / 2], axis=0)
        axes.hlines(places, *edges, color=colour(index), linewidth=width)
    axes.plot(np.median(loss, axis=0), places, "o", color=colour(index), markersize=4)
    axes.plot(start, places, "o", color=INK, markersize=4, markerfacecolor="none")
    dress(axes, grid=False)
    axes.set_yticks(places, response.draws["value"].to_numpy().tolist())
    axes.set_ylim(-0.6, places[0] + 0.6)
    axes.set_xlabel(LOSS)


def _unstudied(axes: "Axes", response: Response) -> None:
    """Shade the values that lie outside what was fitted, half-way to the next one inside."""
    values = response.draws["value"].to_numpy()
    outside = response.draws["outside"].to_numpy() != ""
    edges = np.concatenate([[values[0]], 0.5 * (values[1:] + values[:-1]), [values[-1]]])
    for k in np.flatnonzero(outside):
        axes.axvspan(edges[k], edges[k + 1], color=GREY, alpha=0.12, linewidth=0.0, zorder=0)


def _rates(axes: "Axes", response: Response) -> None:
    from matplotlib.ticker import NullFormatter, NullLocator

    values = response.draws["value"].to_numpy()
    axes.set_xscale("log")
    axes.set_xlabel(f"{axes.get_xlabel()} (logarithmic)")
    kept = [values[-1]]
    for value in values[::-1]:
        if kept[-1] / value > APART:
            kept.append(value)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xticks(kept, [f"{value:.2g}" for value in kept])


def _entries(responses: tuple[Response, ...]) -> dict[str, object]:
    first = responses[0].draws
    base = first.attrs["choice"] == "base"
    start = {"marker": "o", "markerfacecolor": "none", "linestyle": ""} if base else {}
    entries: dict[str, object] = {}
    if len(responses) > 1:
        for k, each in enumerate(responses):
            name = (
                "re-warmed to the run's peak" if each.draws.attrs["rewarmed"] else "not re-warmed"
            )
            entries[f"last loss, {name}"] = panels.line(PALETTE[2 + k])
    else:
        entries["last loss, median"] = panels.line(GREY, marker="o", markersize=3)
    entries["of the base"] = panels.line(INK, **(start or {"linestyle": "--"}))
    if base:
        entries |= {
            "50 % credible": panels.line(GREY, linewidth=3.2),
            "90 % credible": panels.line(GREY, linewidth=1.2),
        }
    else:
        entries |= {
            "50 % credible band": panels.patch(GREY, 2 * BAND),
            "90 % credible band": panels.patch(GREY, 2 * WIDE_BAND),
        }
    if not base and any((each.draws["outside"] != "").any() for each in responses):
        entries["not studied"] = panels.patch(GREY, 0.12)
    return entries

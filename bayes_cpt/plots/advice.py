"""What priors expect of replay and peak learning rate before any run."""

from typing import TYPE_CHECKING

import numpy as np

from bayes_cpt.plots import panels
from bayes_cpt.plots.style import GREY, colour, dress, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bayes_cpt.decisions.advice import Advice

SIZE = (7.2, 3.4)
# Between the intervals of one replay ratio.
APART = 0.16


@styled
def advice(found: "Advice") -> "Figure":
    """Return a figure of the change of each loss, by replay ratio and peak learning rate.

    Parameters
    ----------
    found : Advice

    Returns
    -------
    matplotlib.figure.Figure
        Medians and central intervals of the mass that was asked for.
    """
    figure = new_figure(*SIZE)
    domains = list(dict.fromkeys(found.ends["domain"]))
    replays = sorted(set(found.ends["replay"]))
    peaks = sorted(set(found.ends["peak"]))
    for place, domain in enumerate(domains):
        axes = figure.add_subplot(1, len(domains), place + 1)
        dress(axes, ticks=6)
        axes.axhline(0.0, color=GREY, linewidth=0.8)
        for i, peak in enumerate(peaks):
            rows = found.ends[(found.ends["domain"] == domain) & (found.ends["peak"] == peak)]
            rows = rows.sort_values("replay")
            at = np.arange(len(replays)) + APART * (i - (len(peaks) - 1) / 2)
            axes.vlines(at, rows["lower"], rows["upper"], color=colour(i), linewidth=1.2)
            axes.plot(at, rows["median"], "o", color=colour(i), markersize=4)
        axes.set_xticks(range(len(replays)), [f"{100 * replay:.0f} %" for replay in replays])
        axes.set_xlabel("replay ratio")
        axes.set_ylabel(f"change of {domain} loss (nats/token)")
    mass = f"{100 * found.about['interval']:g} %"
    entries = {
        f"{100 * peak:.0f} % of the peak": panels.line(colour(i), marker="o", markersize=4)
        for i, peak in enumerate(peaks)
    }
    panels.legend(figure, entries | {f"{mass} interval": panels.line(GREY)})
    return figure

"""Laws beside each other: what their forecasts of held-out runs score, run by run."""

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayes_cpt.plots import panels
from bayes_cpt.plots.style import GREY, INK, SMALL, colour, dress, new_figure, styled
from bayes_cpt.validate.comparison import Comparison
from bayes_cpt.validate.law_scores import CRPS, LOG_SCORE, STACK, LawScores

ROW, WIDTH, TOP = 0.42, 8.6, 1.8
# How far dots of one row are spread, of the distance of two rows.
SPREAD = 0.5
# How far the two bands of a law lie off its row.
APART = 0.12
TITLES = {
    LOG_SCORE: "log score less that of {best}\n(nats per run; right is better)",
    CRPS: "CRPS less that of {best}\n(nats/token; left is better)",
}


@styled
def comparison(result: Comparison) -> Figure:
    """Return a figure of the scores of laws and their stack.

    Parameters
    ----------
    result : Comparison

    Returns
    -------
    matplotlib.figure.Figure
        A row per law. Left and middle: log score and CRPS of each run left out (dots) beside those of the
        best law, with mean and standard error. Right: the share of a run's points in the bands of 50 and
        90 %, with its standard error; lines are what the bands promise. Where no run was left out: log
        scores of curves by importance sampling.

    Raises
    ------
    ValueError
        If there is nothing to draw.
    """
    scores, loo = result.scores, result.curve_loo
    if scores is None and isinstance(loo, str):
        raise ValueError(f"there is nothing to draw: {loo}")
    if scores is None:
        assert not isinstance(loo, str)
        laws = list(loo.of_runs)
        figure = new_figure(0.6 * WIDTH, ROW * len(laws) + TOP)
        axes = figure.subplots()
        _differences(axes, laws, loo.of_runs, loo.best)
        axes.set_title("by importance sampling: " + TITLES[LOG_SCORE].format(best=loo.best))
        panels.legend(figure, _marks("one curve"))
        return figure
    laws = [f"{law}\n{100 * weight:.0f} % of the stack" for law, weight in scores.weights.items()]
    labels = [*laws, STACK]
    figure = new_figure(WIDTH, ROW * len(labels) + TOP)
    left, middle, right = figure.subplots(1, 3, sharey=True)
    for axes, score in ((left, LOG_SCORE), (middle, CRPS)):
        _differences(axes, labels, scores.of_runs(score), scores.best)
        axes.set_title(TITLES[score].format(best=scores.best))
    _coverage(right, scores)
    promised = {"what the bands promise": panels.line(INK, linestyle="--", linewidth=0.8)}
    panels.legend(figure, _marks("one run left out") | promised)
    return figure


def _marks(one: str) -> dict[str, Artist]:
    return {
        one: panels.line(GREY, linestyle="", marker=".", markersize=4, alpha=0.5),
        "mean, ± 1 standard error": panels.line(GREY, marker="o", markersize=5),
    }


def _differences(axes: Axes, labels: list[str], scores: pd.DataFrame, best: str) -> None:
    axes.axvline(0.0, color=GREY, linewidth=0.8)
    for row, method in enumerate(scores):
        values = scores[method] - scores[best]
        spread = np.linspace(-SPREAD / 2, SPREAD / 2, values.size)
        axes.plot(values, row + spread, ".", color=colour(row), alpha=0.5, markersize=4)
        error = values.sem() if values.size > 1 else 0.0
        axes.errorbar(
            values.mean(), row, xerr=error, fmt="o", color=colour(row), markersize=5, capsize=3
        )
    dress(axes, grid=False, ylim=(len(labels) - 0.5, -0.5))
    axes.set_yticks(range(len(labels)), labels, fontsize=SMALL)


def _coverage(axes: Axes, scores: LawScores) -> None:
    for mass, marker, off in ((50, "s", -APART), (90, "o", APART)):
        axes.axvline(mass, color=INK, linestyle="--", linewidth=0.8)
        covered = 100 * scores.of_runs(f"covered_{mass}")
        for row, method in enumerate(scores.methods):
            shares = covered[method]
            axes.errorbar(
                shares.mean(),
                row + off,
                xerr=shares.sem(),
                fmt=marker,
                color=colour(row),
                capsize=3,
            )
    axes.set_title("points of a run in its 50 % (squares)\nand 90 % bands (dots), %")
    dress(axes, grid=False, xlim=(0, 100))

from functools import cache

import numpy as np
from figures import band_edges, check_figure, dots_of
from matplotlib.figure import Figure
from synthetic import lab, lab_posterior, practice

from bayes_cpt import plots
from bayes_cpt.plots.curves import CURVES

RUNS = ["r25_cos", "r75_wsd"]


@cache
def drawn() -> Figure:
    return plots.prior_predictive(lab_posterior().frame, lab().subset(RUNS))


def test_some_curves_of_each_run_are_drawn_over_nested_bands() -> None:
    figure = drawn()
    assert len(figure.axes) == 4
    for axes in figure.axes:
        assert len(axes.lines) == CURVES
        steps = np.asarray(axes.lines[0].get_xdata())
        wide, half = band_edges(axes, 0, steps), band_edges(axes, 1, steps)
        assert (wide[0] < half[0]).all()
        assert (half[1] < wide[1]).all()
    check_figure(figure)


def test_curves_start_at_the_measured_loss_of_their_base() -> None:
    axes = drawn().axes[0]
    base = lab().base_loss("stable_12k", "general")
    assert base is not None
    firsts = np.array([np.asarray(line.get_ydata())[0] for line in axes.lines])
    lasts = np.array([np.asarray(line.get_ydata())[-1] for line in axes.lines])
    assert np.median(np.abs(firsts - base)) < 0.05
    assert np.median(np.abs(firsts - base)) < 0.2 * np.median(np.abs(lasts - base))


def test_measured_losses_are_drawn_and_a_plan_has_only_its_base() -> None:
    figure = plots.prior_predictive(lab_posterior().frame, practice())
    steps, losses = practice().curve("r90_wsd_5k", "general")
    np.testing.assert_array_equal(dots_of(figure.axes[2]), np.column_stack([steps, losses]))
    bare = plots.prior_predictive(lab_posterior().frame, practice().without_losses())
    assert {int(step) for axes in bare.axes for step in dots_of(axes)[:, 0]} <= {0}
    check_figure(bare)

import numpy as np
from figures import band_edges, check_figure, dots_of
from synthetic import lab, lab_posterior, prior_as_posterior

from bayes_cpt import plots

RUNS = ["r25_cos", "r75_wsd", "r00_const"]


def test_each_run_has_a_panel_with_its_measured_points_on_each_validation_set() -> None:
    figure = plots.fitted(lab_posterior(), RUNS)
    assert [axes.get_title(loc="left") for axes in figure.axes] == RUNS * 2
    sets = ["validation set: general", "validation set: kernel"]
    assert [part.get_suptitle() for part in figure.subfigs] == sets
    for i, axes in enumerate(figure.axes):
        steps, losses = lab().curve(RUNS[i % 3], ("general", "kernel")[i // 3])
        np.testing.assert_array_equal(dots_of(axes), np.column_stack([steps, losses]))
        low, high = axes.get_ylim()
        assert low <= losses.min()
        assert losses.max() <= high
    assert [part.get_supylabel() for part in figure.subfigs] == ["validation loss (nats/token)"] * 2
    assert figure.axes[2].get_xlabel() == "CPT step (square-root axis)"
    check_figure(figure)


def test_all_cpt_runs_of_the_study_are_shown_by_default() -> None:
    figure = plots.fitted(lab_posterior())
    assert len(figure.axes) == 2 * len(lab().continual_runs)
    check_figure(figure)


def test_the_bands_hold_the_median_and_the_new_run_band_is_the_wider() -> None:
    sure = prior_as_posterior(lab(), spread=0.005)
    for axes in plots.fitted(sure, RUNS).axes:
        steps, median = axes.lines[0].get_data()
        steps, median = np.asarray(steps), np.asarray(median)
        low_new, high_new = band_edges(axes, 0, steps)
        low, high = band_edges(axes, 1, steps)
        assert (low <= median).all()
        assert (median <= high).all()
        assert (high_new - low_new).mean() > (high - low).mean()


def test_a_pretraining_fit_shows_pt_runs() -> None:
    figure = plots.fitted(lab_posterior("pretrain"))
    assert len(figure.axes) == len(lab().pretraining_runs)
    assert figure.axes[-1].get_xlabel() == "PT step (square-root axis)"
    check_figure(figure)

import numpy as np
import pytest
from figures import band_edges, check_figure, dots_of, legend_texts
from synthetic import lab, lab_posterior, prior_as_posterior

from bayes_cpt import plots
from bayes_cpt.errors import StudyError

RUNS = ["r25_cos", "r75_wsd", "r00_const"]


def test_each_run_has_a_panel_on_each_validation_set() -> None:
    figure = plots.fitted(lab_posterior(), RUNS)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == RUNS * 2
    assert [part.get_suptitle() for part in figure.subfigs] == [
        "validation set: general",
        "validation set: kernel",
    ]
    check_figure(figure)


def test_all_cpt_runs_of_the_study_are_shown_by_default() -> None:
    figure = plots.fitted(lab_posterior())
    assert len(figure.axes) == 2 * len(lab().continual_runs)
    check_figure(figure)


def test_every_measured_point_of_a_run_is_drawn_within_its_panel() -> None:
    figure = plots.fitted(lab_posterior(), RUNS)
    for i, axes in enumerate(figure.axes):
        steps, losses = lab().curve(RUNS[i % 3], ("general", "kernel")[i // 3])
        np.testing.assert_array_equal(dots_of(axes), np.column_stack([steps, losses]))
        low, high = axes.get_ylim()
        assert low <= losses.min()
        assert losses.max() <= high


def test_the_bands_hold_the_median_and_the_new_run_band_is_the_wider() -> None:
    sure = prior_as_posterior(lab(), spread=0.02)
    for axes in plots.fitted(sure, RUNS).axes:
        steps, median = axes.lines[0].get_data()
        steps, median = np.asarray(steps), np.asarray(median)
        low_new, high_new = band_edges(axes, 0, steps)
        low, high = band_edges(axes, 1, steps)
        assert (low <= median).all()
        assert (median <= high).all()
        assert (high_new - low_new).mean() > (high - low).mean()


def test_the_known_run_band_passes_through_the_points_and_says_so() -> None:
    figure = plots.fitted(lab_posterior(), ["r25_cos"], kind="known_run")
    last = np.array([3000.0])
    low, high = band_edges(figure.axes[0], 0, last)
    loss = lab().curve("r25_cos", "general")[1][-1]
    assert low[0] == pytest.approx(loss)
    assert high[0] == pytest.approx(loss)
    assert "this run, given its points, 90 % predictive" in legend_texts(figure)


def test_axes_are_labelled_with_units() -> None:
    figure = plots.fitted(lab_posterior(), RUNS)
    assert [part.get_supylabel() for part in figure.subfigs] == ["validation loss (nats/token)"] * 2
    assert [axes.get_xlabel() for axes in figure.axes[:3]] == [
        "",
        "CPT step (square-root axis)",
        "CPT step (square-root axis)",
    ]


def test_a_pretraining_fit_shows_pt_runs() -> None:
    figure = plots.fitted(lab_posterior("pretrain"))
    assert len(figure.axes) == len(lab().pretraining_runs)
    assert figure.axes[-1].get_xlabel() == "PT step (square-root axis)"
    check_figure(figure)


def test_an_unknown_run_and_an_unknown_kind_are_named() -> None:
    with pytest.raises(StudyError, match="r26_cos"):
        plots.fitted(lab_posterior(), ["r26_cos"])
    with pytest.raises(ValueError, match="give one of new_run, known_run"):
        plots.fitted(lab_posterior(), kind="expected")  # type: ignore[arg-type]

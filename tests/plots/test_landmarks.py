from functools import cache

import numpy as np
from figures import band_edges, check_figure, legend_texts
from printed import PEAK, printed_posterior, study
from synthetic import lab_posterior, practice

from bayes_cpt import plots
from bayes_cpt.arrays import chance
from bayes_cpt.landmarks import (
    TurningLength,
    base_response,
    critical_point,
    decompose,
    hidden_curves,
    loss_potential_response,
    peak_response,
    turning_length,
)
from bayes_cpt.study.schedules import constant, cosine


@cache
def lengths() -> TurningLength:
    return turning_length(
        lab_posterior(), practice(), balances=[1.0, 0.5], horizon=20_000, draws=40
    )


def test_turning_lengths_are_drawn_as_what_is_back_by_then() -> None:
    found = lengths()
    figure = plots.landmarks(found)
    (axes,) = figure.axes
    runs = [run.name for run in practice().runs]
    assert [label.get_text() for label in axes.get_yticklabels()] == runs
    draws = found.draws["length"].sel(balance=1.0).transpose("run", "course", "draw").to_numpy()
    expected = np.quantile(draws, 0.5, axis=-1, method="inverted_cdf").ravel()
    first, last = axes.get_xlim()
    assert first == 0.5 * min(
        found.draws["steps"].min(), expected.min(where=expected > 0, initial=np.inf)
    )
    medians = [line for line in axes.lines if line.get_marker() != "|"]
    drawn = [float(np.atleast_1d(line.get_xdata())[0]) for line in medians]
    np.testing.assert_allclose(drawn, np.clip(expected, first, last))
    marks = ["<" if own <= first else ">" if own >= last else "o" for own in expected]
    assert [line.get_marker() for line in medians] == marks
    planned = found.draws["steps"].to_numpy()
    shares = [chance(np.mean(draws[i, 0] <= planned[i])) for i in range(len(runs))]
    assert [text.get_text() for text in axes.texts] == [*shares, "back as\nplanned"]
    widest = [item.get_segments()[0] for item in axes.collections if hasattr(item, "get_segments")]
    ends = np.quantile(draws[0, 0], [0.05, 0.95], method="inverted_cdf")
    np.testing.assert_allclose(widest[0][:, 0], np.clip(ends, first, last))
    assert {"general loss, held at its peak", "50 and 90 % credible"} <= set(legend_texts(figure))
    check_figure(figure)


def test_one_turning_length_alone_makes_a_readable_figure() -> None:
    plan = study(cosine(10_000, PEAK), constant(5000, PEAK))
    # Over one and over several decades of steps.
    for horizon in (90_000, 1_000_000):
        found = turning_length(printed_posterior("moderate"), plan, horizon=horizon)
        check_figure(plots.landmarks(found))


def test_critical_points_lie_beside_the_bases() -> None:
    found = critical_point(lab_posterior(), draws=40)
    figure = plots.landmarks(lengths(), found)
    axes = figure.axes[1]
    labels = [text.get_text() for text in axes.get_yticklabels()]
    assert labels == ["0.75", "0.5", "0.25", "0.1", "0"]
    for place in range(5):
        median = np.quantile(found.draws["steps"].to_numpy()[:, place], 0.5, method="inverted_cdf")
        marks = [line for line in axes.lines if np.atleast_1d(line.get_ydata())[0] == place]
        (drawn,) = [line for line in marks if line.get_marker() in ("o", "<", ">")]
        low, high = axes.get_xlim()
        x = float(np.atleast_1d(np.asarray(drawn.get_xdata()))[0])
        np.testing.assert_allclose(x, np.clip(median, low, high))
    check_figure(figure)


def test_a_critical_point_that_is_not_there_is_said_so() -> None:
    figure = plots.landmarks(lengths(), critical_point(lab_posterior(), [0.0, 1.0]))
    assert "there is none" in [text.get_text() for text in figure.axes[1].texts]
    check_figure(figure)


def test_loss_potentials_are_drawn_with_and_without_a_rewarmup() -> None:
    direct, rewarmed = (
        loss_potential_response(lab_posterior(), practice(), rewarmed_to_peak=way, draws=40)
        for way in (False, True)
    )
    figure = plots.response(direct, rewarmed)
    for i, axes in enumerate(figure.axes):
        loss = direct.draws["loss"].to_numpy()[:, :, i]
        np.testing.assert_allclose(np.asarray(axes.lines[0].get_xdata()), np.median(loss, axis=0))
        widest, *_ = (own for own in axes.collections if hasattr(own, "get_segments"))
        ends = np.array(widest.get_segments())[:, :, 0].T
        np.testing.assert_allclose(ends, np.quantile(loss, [0.05, 0.95], axis=0))
    assert "last loss, re-warmed to the run's peak" in legend_texts(figure)
    check_figure(figure)


def test_peaks_that_were_not_studied_are_shaded() -> None:
    figure = plots.response(peak_response(lab_posterior(), practice(), draws=40))
    assert "not studied" in legend_texts(figure)
    check_figure(figure)
    inside = peak_response(lab_posterior(), practice(), peaks=[1e-3, 2e-3], draws=40)
    figure = plots.response(inside)
    assert "not studied" not in legend_texts(figure)
    check_figure(figure)


def test_bases_are_drawn_as_rows_with_their_own_losses() -> None:
    found = base_response(lab_posterior(), practice(), draws=40)
    figure = plots.response(found)
    names = found.draws["value"].to_numpy().tolist()
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == names
    losses, starts = figure.axes[1].lines[:2]
    expected = found.draws["loss"].sel(domain="kernel").median("draw")
    np.testing.assert_allclose(np.asarray(losses.get_xdata()), expected)
    expected = found.draws["start"].sel(domain="kernel").median("draw")
    np.testing.assert_allclose(np.asarray(starts.get_xdata()), expected)
    check_figure(figure)


def test_a_run_lies_between_its_hidden_curves() -> None:
    found = hidden_curves(lab_posterior(), practice(), draws=40)
    figure = plots.hidden_curves(found, "r60_lin05_a0_8k")
    axes = figure.axes[1]
    own = found.sel(run="r60_lin05_a0_8k", domain="kernel").dropna("step").median("draw")
    for line, name in zip(axes.lines, ("never_left", "arrived", "expected"), strict=True):
        np.testing.assert_allclose(np.asarray(line.get_ydata()), own[name])
    check_figure(figure)
    assert "r90_wsd_5k" in plots.hidden_curves(found.sel(run=["r90_wsd_5k"])).get_suptitle()


def test_what_is_drawn_are_medians_of_the_parts_inside_their_bands() -> None:
    figure = plots.decomposition(lab_posterior(), practice(), "r25_cos_12k")
    parts = decompose(lab_posterior(), practice(), ["r25_cos_12k"]).isel(run=0).sel(domain="kernel")
    upper, lower = figure.axes[1], figure.axes[3]
    np.testing.assert_allclose(
        np.asarray(upper.lines[0].get_ydata()), parts["expected"].median("draw")
    )
    base = (parts["power"] + parts["annealing_pt"]).median("draw")
    np.testing.assert_allclose(np.asarray(upper.lines[1].get_ydata()), base)
    check_figure(figure)
    assert len({line.get_color() for line in lower.lines}) == len(lower.lines)
    # The first line is the zero.
    for k, name in enumerate(["annealing_cpt", "shift", "damage", "base_offset"]):
        steps, median = (np.asarray(part) for part in lower.lines[k + 1].get_data())
        np.testing.assert_allclose(median, parts[name].median("draw"))
        low, high = band_edges(lower, k, steps)
        assert (low <= median).all()
        assert (median <= high).all()


def test_the_first_cpt_run_is_taken_where_none_is_named() -> None:
    assert "of r00_const is" in plots.decomposition(lab_posterior()).get_suptitle()
    figure = plots.decomposition(lab_posterior(), practice())
    assert f"of {practice().runs[0].name} is" in figure.get_suptitle()


def test_a_law_without_transfer_shows_only_its_own_terms() -> None:
    figure = plots.decomposition(lab_posterior("pretrain"), run="pt_cosine")
    parts = ["expected loss", "base: forward area and PT annealing"]
    assert legend_texts(figure) == [*parts, "90 % credible band"]
    assert len(figure.axes) == 1
    assert figure.axes[0].get_xlabel() == "PT step (square-root axis)"
    check_figure(figure)

"""Figures of curves: forecast, fitted, drawn from the prior; and of ranks."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from figures import band_edges, check_figure, dots_of, drawn_texts, legend_texts
from matplotlib.figure import Figure
from open_weights import open_study
from synthetic import lab, lab_posterior, practice, prior_as_posterior
from target_family import several

from bayes_cpt import plots
from bayes_cpt.plots.curves import CURVES, PAGE
from bayes_cpt.plots.style import COLUMN, PALETTE

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


def test_the_bands_hold_the_median_and_the_new_run_band_is_the_wider() -> None:
    for axes in plots.fitted(prior_as_posterior(lab(), spread=0.005), RUNS).axes:
        steps, median = axes.lines[0].get_data()
        steps, median = np.asarray(steps), np.asarray(median)
        low_new, high_new = band_edges(axes, 0, steps)
        low, high = band_edges(axes, 1, steps)
        assert (low <= median).all()
        assert (median <= high).all()
        assert (high_new - low_new).mean() > (high - low).mean()


@pytest.mark.parametrize(
    ("model", "phase", "sets"), [("cpt-replay", "CPT", 2), ("pretrain", "PT", 1)]
)
def test_all_runs_of_the_phase_of_the_law_are_shown(model: str, phase: str, sets: int) -> None:
    figure = plots.fitted(lab_posterior(model))
    assert len(figure.axes) == sets * sum(run.phase == phase.lower() for run in lab().runs)
    assert figure.axes[-1].get_xlabel() == f"{phase} step (square-root axis)"
    check_figure(figure)


@cache
def drawn() -> Figure:
    return plots.prior_predictive(lab_posterior().frame, lab().subset(RUNS[:2]))


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


def test_ranks_are_those_of_the_parameters_with_the_largest_rhat() -> None:
    posterior = lab_posterior()
    figure = plots.sampling(posterior)
    table = posterior.summary()
    worst = table[table["kind"] == "parameter"].sort_values("r_hat", ascending=False).head(3)
    titles = [axes.get_title() for axes in figure.axes]
    assert [float(title.split()[-1]) for title in titles] == pytest.approx(
        worst["r_hat"].to_list(), abs=6e-4
    )
    assert all(len(axes.lines) >= 4 for axes in figure.axes)
    check_figure(figure)


def test_the_name_of_a_validation_set_may_have_a_slash_and_dollars_and_be_long() -> None:
    study = open_study()
    name = "code/$x_$" + "abcde" * 9
    losses = study.losses.replace({"domain": {"target": name}})
    posterior = prior_as_posterior(replace(study, target=name, losses=losses))
    table = posterior.summary()
    figure = plots.sampling(posterior, table[table["domain"] == name])
    check_figure(figure)
    assert all("\ncode/\\$x_\\$abcde…" in axes.get_title() for axes in figure.axes)


@cache
def predicted() -> xr.Dataset:
    return lab_posterior().predict(practice().without_losses())


@cache
def forecast_drawn() -> Figure:
    return plots.forecast(lab_posterior(), predicted())


def test_each_run_has_a_panel_per_validation_set_and_its_learning_rate_below() -> None:
    figure = forecast_drawn()
    assert len(figure.axes) == 3 * 3
    assert [axes.get_title(loc="left") for axes in figure.axes[::3]] == [
        run.name for run in practice().runs
    ]
    assert figure.axes[0].get_ylabel() == "general\nvalidation loss (nats/token)"
    assert figure.axes[2].get_xlabel() == "CPT step (square-root axis)"
    check_figure(figure)


def test_the_median_lies_in_the_half_band_and_that_in_the_wide_one() -> None:
    dataset = predicted()
    axes = forecast_drawn().axes[1]
    steps, median = (np.asarray(part) for part in axes.lines[0].get_data())
    draws = dataset["loss"].isel(run=0, domain=1).sel(step=steps).stack(s=("chain", "draw"))
    np.testing.assert_allclose(median, draws.median("s"))
    wide, half = band_edges(axes, 0, steps), band_edges(axes, 1, steps)
    np.testing.assert_allclose(wide[0], draws.quantile(0.05, "s"))
    np.testing.assert_allclose(half[1], draws.quantile(0.75, "s"))
    assert (wide[0] < half[0]).all()
    assert (half[0] < median).all()
    assert (median < half[1]).all()
    assert (half[1] < wide[1]).all()


def test_measured_losses_lie_over_the_bands_where_they_are_given() -> None:
    bare = forecast_drawn()
    assert not any(dots_of(axes).size for axes in bare.axes)
    assert "measured, not fitted" not in legend_texts(bare)
    figure = plots.forecast(lab_posterior(), predicted(), practice())
    steps, losses = practice().curve("r25_cos_12k", "kernel")
    np.testing.assert_array_equal(dots_of(figure.axes[4]), np.column_stack([steps, losses]))
    assert "measured, not fitted" in legend_texts(figure)
    check_figure(figure)


def test_what_leaves_the_fitted_range_is_noted_over_the_run() -> None:
    text = " ".join(text.get_text().replace("\n", " ") for text in drawn_texts(forecast_drawn()))
    assert "extrapolates: 12000 steps, 4.0x the longest run" in text
    assert "replay 0.9, studied 0 to 0.75" in text


def test_panels_say_which_mixture_of_several_targets_a_run_trains_on() -> None:
    posterior = prior_as_posterior(several(), "cpt-replay")
    names = ["mixed", "law_0.3"]
    drawn = posterior.predict(posterior.study.subset(names), kind="new_run", draws=40)
    for figure in (plots.fitted(posterior, names), plots.forecast(posterior, drawn)):
        text = " ".join(text.get_text().replace("\n", " ") for text in drawn_texts(figure))
        assert "replay 0.2, the rest 60 % code, 40 % law, from base" in text
        check_figure(figure)


def test_the_strip_shows_the_learning_rate_of_the_plan() -> None:
    dataset = predicted()
    run = practice().run("r60_lin05_a0_8k")
    rates = dataset["learning_rate"].sel(run=run.name).dropna("step")
    expected = run.schedule.learning_rates()[rates["step"].to_numpy() - 1]
    np.testing.assert_array_equal(rates, expected)
    vertices = np.asarray(forecast_drawn().axes[2].collections[0].get_paths()[0].vertices)
    assert vertices[:, 1].max() == pytest.approx(expected.max())
    assert vertices[:, 0].max() == 8000


@pytest.mark.parametrize("width", [None, COLUMN])
def test_known_runs_are_not_called_unfitted_and_wrap_into_rows(width: float | None) -> None:
    names = [run.name for run in lab().continual_runs[:6]]
    bands = lab_posterior().predict(lab().subset(names), kind="known_run", draws=20)
    figure = plots.forecast(lab_posterior(), bands, lab(), width)
    assert len(figure.axes) == 6 * 3
    assert width is None or figure.get_figheight() <= PAGE
    assert "measured" in legend_texts(figure)
    assert "extrapolates" not in " ".join(text.get_text() for text in drawn_texts(figure))
    check_figure(figure)


def test_one_run_alone_makes_a_readable_figure() -> None:
    plan = practice().subset(["r90_wsd_5k"]).without_losses()
    figure = plots.forecast(lab_posterior(), lab_posterior().predict(plan))
    assert len(figure.axes) == 3
    check_figure(figure)


def test_forecasts_at_chosen_points_of_one_validation_set_leave_no_axes_empty() -> None:
    points = pd.DataFrame({"run": "r90_wsd_5k", "domain": "kernel", "step": [100, 2500, 5000]})
    dataset = lab_posterior().predict(practice().without_losses(), at=points)
    check_figure(plots.forecast(lab_posterior(), dataset))
    alone = plots.forecast(lab_posterior(), dataset.sel(domain=["kernel"]))
    assert alone.axes[0].lines[0].get_color() == PALETTE[1]
    narrow = plots.forecast(lab_posterior(), dataset.sel(domain=["kernel"]), width=COLUMN)
    assert narrow.axes[0].get_ylabel() == "kernel\nloss (nats/token)"
    assert narrow.get_supylabel() == ""
    check_figure(narrow)


def test_pt_runs_have_pt_steps() -> None:
    posterior = lab_posterior("pretrain")
    figure = plots.forecast(posterior, posterior.predict(draws=20), replace(lab()))
    assert figure.axes[-1].get_xlabel() == "PT step (square-root axis)"
    check_figure(figure)


def test_a_forecast_at_a_columns_width_has_its_runs_below_one_another() -> None:
    posterior = lab_posterior()
    curves = posterior.predict("data/cpt-lab/plan-example.toml", draws=40)
    figure = plots.forecast(posterior, curves, width=COLUMN)
    assert figure.get_figwidth() == COLUMN
    assert "90 % predictive band" in legend_texts(figure)
    assert figure.axes[2].get_xlabel() == "CPT step (square-root axis)"
    check_figure(figure)

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from figures import band_edges, check_figure, dots_of, drawn_texts, legend_texts
from matplotlib.figure import Figure
from synthetic import lab, lab_posterior, practice

from bayes_cpt import plots
from bayes_cpt.plots.style import COLUMN


@cache
def predicted() -> xr.Dataset:
    return lab_posterior().predict(practice().without_losses())


@cache
def drawn() -> Figure:
    return plots.forecast(lab_posterior(), predicted())


def test_each_run_has_a_panel_per_validation_set_and_its_learning_rate_below() -> None:
    figure = drawn()
    assert len(figure.axes) == 3 * 3
    assert [axes.get_title(loc="left") for axes in figure.axes[::3]] == [
        run.name for run in practice().runs
    ]
    assert figure.axes[0].get_ylabel() == "general\nvalidation loss (nats/token)"
    assert figure.axes[2].get_xlabel() == "CPT step (square-root axis)"
    check_figure(figure)


def test_the_median_lies_in_the_half_band_and_that_in_the_wide_one() -> None:
    dataset = predicted()
    axes = drawn().axes[1]
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
    bare = drawn()
    assert not any(dots_of(axes).size for axes in bare.axes)
    assert "measured, not fitted" not in legend_texts(bare)
    figure = plots.forecast(lab_posterior(), predicted(), practice())
    steps, losses = practice().curve("r25_cos_12k", "kernel")
    np.testing.assert_array_equal(dots_of(figure.axes[4]), np.column_stack([steps, losses]))
    assert "measured, not fitted" in legend_texts(figure)
    check_figure(figure)


def test_what_leaves_the_fitted_range_is_noted_over_the_run() -> None:
    text = " ".join(text.get_text().replace("\n", " ") for text in drawn_texts(drawn()))
    assert "extrapolates: 12000 steps, 4.0x the longest run" in text
    assert "replay 0.9, studied 0 to 0.75" in text


def test_the_strip_shows_the_learning_rate_of_the_plan() -> None:
    dataset = predicted()
    run = practice().run("r60_lin05_a0_8k")
    rates = dataset["learning_rate"].sel(run=run.name).dropna("step")
    expected = run.schedule.learning_rates()[rates["step"].to_numpy() - 1]
    np.testing.assert_array_equal(rates, expected)
    strip = drawn().axes[2]
    vertices = np.asarray(strip.collections[0].get_paths()[0].vertices)
    assert vertices[:, 1].max() == pytest.approx(expected.max())
    assert vertices[:, 0].max() == 8000


def test_known_runs_are_not_called_unfitted_and_wrap_into_rows() -> None:
    names = [run.name for run in lab().continual_runs[:6]]
    bands = lab_posterior().predict(lab().subset(names), kind="known_run", draws=20)
    figure = plots.forecast(lab_posterior(), bands, lab())
    assert len(figure.axes) == 6 * 3
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


def test_pt_runs_have_pt_steps() -> None:
    posterior = lab_posterior("pretrain")
    bands = posterior.predict(draws=20)
    figure = plots.forecast(posterior, bands, replace(lab()))
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

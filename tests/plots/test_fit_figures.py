"""Figures of a fit at the width of a column: loss surface, ridges, sampling, forecast."""

from functools import cache

import numpy as np
import pytest
from figures import band_edges, check_figure, legend_texts
from synthetic import lab_posterior

from bayes_cpt import plots
from bayes_cpt.decisions.decision import Decision, decide
from bayes_cpt.errors import SpecError
from bayes_cpt.plots.style import COLUMN
from bayes_cpt.validate.calibration import ecdf_bands


@cache
def decision() -> Decision:
    return decide(lab_posterior(), draws=40, candidates=128)


def test_a_surface_is_that_of_the_runs_themselves() -> None:
    surface = decision().surface(points=4)
    assert surface.names == ("replay", "relative_peak")
    replay, peak = surface.axis(0), surface.axis(1)
    assert replay[0] == 0.0
    assert replay[-1] == pytest.approx(0.8)
    # The corner as a plan, predicted by the other way there is.
    row = 4 * 3 + 2
    plan = surface.candidates.plan(decision().valuation.model.study, [row], ["corner"])
    run = plan.run("corner")
    assert run.replay == pytest.approx(replay[3])
    assert run.schedule.peak == pytest.approx(peak[2] * 2e-3, rel=0.01)
    curves = lab_posterior().predict(plan, kind="expected", draws=40)
    last = curves["expected"].isel(step=-1).stack(sample=("chain", "draw"))
    for index, domain in enumerate(decision().valuation.model.domains):
        expected = last.sel(run="corner", domain=domain).mean().item()
        assert surface.losses[index, 3, 2].mean() == pytest.approx(expected, abs=2e-3)


def test_a_surface_needs_two_ranges() -> None:
    narrow = decide(lab_posterior(), space={"relative_peak": 1.0}, draws=8, candidates=16)
    with pytest.raises(SpecError, match="a surface is over two ranges"):
        narrow.surface()


def test_levels_and_shades_of_the_surface_are_drawn() -> None:
    surface = decision().surface(points=6)
    figure = plots.loss_surface(decision(), surface)
    assert figure.get_figwidth() == COLUMN
    for index, axes in enumerate(figure.axes[:2]):
        ends = np.quantile(surface.losses[index], [0.05, 0.95], axis=-1)
        shades = np.asarray(axes.collections[0].get_array()).ravel()
        np.testing.assert_allclose(shades, (0.5 * (ends[1] - ends[0])).T.ravel())
        star = next(line for line in axes.lines if line.get_marker() == "*")
        assert np.asarray(star.get_xdata())[0] == decision().table()["replay"][0]
        assert decision().valuation.model.domains[index] in axes.get_title()
    assert figure.axes[2].get_ylabel() == "half the 90 % credible\ninterval (nats/token)"
    # Peaks are searched and drawn in logarithms, replay is not.
    assert figure.axes[0].get_ylabel() == "peak LR / PT peak (logarithmic)"
    assert figure.axes[1].get_xlabel() == "replay ratio"
    check_figure(figure)


def test_ridges_are_draws_of_posterior_and_prior() -> None:
    posterior = lab_posterior()
    figure = plots.ridges(posterior)
    assert figure.get_figwidth() == COLUMN
    axes = figure.axes[1]
    prior, drawn = axes.lines
    np.testing.assert_array_equal(
        np.asarray(drawn.get_xdata()), posterior.draws("A", "kernel").ravel()
    )
    np.testing.assert_array_equal(
        np.asarray(drawn.get_ydata()), posterior.draws("alpha", "kernel").ravel()
    )
    np.testing.assert_array_equal(
        np.asarray(prior.get_xdata()), posterior.prior_draws("A", "kernel")[:400]
    )
    from scipy.stats import spearmanr

    rank = spearmanr(
        posterior.draws("A", "kernel").ravel(), posterior.draws("alpha", "kernel").ravel()
    )
    shown = axes.texts[0].get_text().replace("−", "-").split()[-1]
    assert float(shown) == pytest.approx(rank.statistic, abs=0.005)
    assert legend_texts(figure) == ["prior draws", "posterior draws", "all axes logarithmic"]
    assert {axes.get_xscale() for axes in figure.axes} == {"log"}
    check_figure(figure)


def test_ranks_of_chains_lie_on_their_band() -> None:
    posterior = lab_posterior()
    figure = plots.sampling(posterior)
    table = posterior.summary()
    worst = table[table["kind"] == "parameter"].sort_values("r_hat", ascending=False).iloc[0]
    axes = figure.axes[0]
    assert f"R-hat {worst['r_hat']:.3f}" in axes.get_title(loc="left")
    chains = [line for line in axes.lines if line.get_drawstyle() == "steps-post"]
    assert len(chains) == 4
    # The ECDFs of all chains together are that of uniform ranks.
    together = np.mean([np.asarray(line.get_ydata()) for line in chains], axis=0)
    assert np.abs(together).max() < 0.02
    points, lower, upper = ecdf_bands(len(together) - 1, 0.95)
    low, high = band_edges(axes, 0, points[1:-1])
    np.testing.assert_allclose(high, np.maximum(upper - points, lower - points)[1:-1])
    np.testing.assert_allclose(low, np.minimum(upper - points, lower - points)[1:-1])
    assert "95 % band of uniform ranks" in legend_texts(figure)
    check_figure(figure)


def test_energies_are_drawn_where_they_are_kept() -> None:
    import xarray as xr

    posterior = lab_posterior()
    generator = np.random.default_rng(1)
    energies = generator.normal(size=(4, 25)).cumsum(axis=1)
    tree = posterior.tree.copy()
    tree["sample_stats"] = tree["sample_stats"].assign(
        energy=xr.DataArray(energies, dims=("chain", "draw"))
    )
    figure = plots.sampling(type(posterior)(tree, posterior.study, posterior.frame))
    fraction = np.mean(np.diff(energies, axis=1) ** 2, axis=1) / energies.var(axis=1)
    title = figure.axes[0].get_title(loc="left")
    assert float(title.split()[-1]) == pytest.approx(fraction.min(), rel=0.08)
    assert legend_texts(figure)[:2] == ["energy", "its change"]
    check_figure(figure)


def test_a_forecast_at_a_columns_width_has_its_runs_below_one_another() -> None:
    posterior = lab_posterior()
    curves = posterior.predict("data/cpt-lab/plan-example.toml", draws=40)
    figure = plots.forecast(posterior, curves, width=COLUMN)
    assert figure.get_figwidth() == COLUMN
    assert "90 % predictive band" in legend_texts(figure)
    assert figure.axes[2].get_xlabel() == "CPT step (square-root axis)"
    check_figure(figure)

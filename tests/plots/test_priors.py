import numpy as np
import pytest
from figures import band_edges, check_figure, dots_of, drawn_texts
from scipy.stats import norm
from synthetic import lab, lab_posterior, practice, prior_as_posterior

from bayes_cpt import plots
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.plots.priors import CURVES, density

RUNS = ["r25_cos", "r75_wsd"]


@pytest.mark.parametrize("kind", ["parameters", "coefficients"])
def test_every_quantity_of_the_summary_has_a_panel(kind: str) -> None:
    figure = plots.prior_posterior(lab_posterior(), kind)  # type: ignore[arg-type]
    summary = lab_posterior().summary()
    own = summary[summary["kind"] == kind.removesuffix("s")]
    expected = own["quantity"] + np.where(own["domain"] == "all", " (shared)", "")
    assert sorted(axes.get_title(loc="left") for axes in figure.axes) == sorted(expected)
    check_figure(figure)


def panel_numbers(posterior: Posterior) -> dict[str, tuple[float, float]]:
    """Return contraction and share of the prior by quantity, of the first block."""
    found = {}
    figure = plots.prior_posterior(posterior)
    for axes in figure.subfigs[0].axes:
        _, contraction, _, share, *unit = axes.texts[0].get_text().split()
        assert unit == (["%", "log"] if axes.get_xscale() == "log" else ["%"])
        found[axes.get_title(loc="left")] = (float(contraction), float(share.removeprefix("<")))
    return found


def test_a_posterior_that_is_the_prior_rests_on_it() -> None:
    posterior = prior_as_posterior(lab(), draws=500, spread=1.0)
    for contraction, share in panel_numbers(posterior).values():
        assert contraction < 0.2
        assert share >= 97.0
    figure = plots.prior_posterior(posterior)
    assert {axes.texts[0].get_color() for axes in figure.axes} == {"#b00020"}
    assert "red: rests on its prior" in [text.get_text() for text in drawn_texts(figure)]
    for axes in figure.axes:
        x, y = (np.asarray(part) for part in axes.lines[0].get_data())
        place = np.log(x) if axes.get_xscale() == "log" else x
        assert np.trapezoid(y, place) == pytest.approx(0.99, abs=0.03), axes.get_title(loc="left")
    scales = {axes.get_title(loc="left"): axes.get_xscale() for axes in figure.axes}
    assert scales["shift_rate"] == "log"
    assert scales["gain_replay"] == "linear"


def test_a_posterior_a_tenth_as_wide_shows_it() -> None:
    numbers = panel_numbers(prior_as_posterior(lab(), draws=500, spread=0.1))
    contraction, share = numbers["reference_loss"]
    assert contraction == pytest.approx(0.99, abs=0.01)
    # The central 99 % of a normal a tenth as wide: 2 Phi(0.2576) - 1.
    assert share == pytest.approx(20.3, abs=2.0)


def test_the_kernel_density_is_that_of_a_normal_even_with_one_draw_far_out() -> None:
    draws = np.random.default_rng(0).standard_normal(20_000)
    draws[0] = 1e9
    grid = np.linspace(-2.0, 2.0, 9)
    np.testing.assert_allclose(density(draws, grid), norm.pdf(grid), atol=0.015)


def test_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="give parameters or coefficients"):
        plots.prior_posterior(lab_posterior(), "both")  # type: ignore[arg-type]


def test_some_curves_of_each_run_are_drawn_over_nested_bands() -> None:
    figure = plots.prior_predictive(lab_posterior(), runs=RUNS)
    assert len(figure.axes) == 4
    for axes in figure.axes:
        assert len(axes.lines) == CURVES
        steps = np.asarray(axes.lines[0].get_xdata())
        wide, half = band_edges(axes, 0, steps), band_edges(axes, 1, steps)
        assert (wide[0] < half[0]).all()
        assert (half[1] < wide[1]).all()
    check_figure(figure)


def test_curves_start_at_the_measured_loss_of_their_base() -> None:
    axes = plots.prior_predictive(lab_posterior(), runs=RUNS).axes[0]
    base = lab().base_loss("stable_12k", "general")
    assert base is not None
    firsts = np.array([np.asarray(line.get_ydata())[0] for line in axes.lines])
    lasts = np.array([np.asarray(line.get_ydata())[-1] for line in axes.lines])
    assert np.median(np.abs(firsts - base)) < 0.05
    assert np.median(np.abs(firsts - base)) < 0.2 * np.median(np.abs(lasts - base))


def test_a_frame_gives_the_same_curves_as_the_fit_of_its_study() -> None:
    fitted = plots.prior_predictive(lab_posterior(), lab(), RUNS, seed=3)
    before = plots.prior_predictive(lab_posterior().frame, lab(), RUNS, seed=3)
    for one, other in zip(fitted.axes, before.axes, strict=True):
        np.testing.assert_array_equal(one.lines[5].get_ydata(), other.lines[5].get_ydata())


def test_measured_losses_are_drawn_and_a_plan_has_only_its_base() -> None:
    figure = plots.prior_predictive(lab_posterior(), practice())
    steps, losses = practice().curve("r90_wsd_5k", "general")
    np.testing.assert_array_equal(dots_of(figure.axes[2]), np.column_stack([steps, losses]))
    bare = plots.prior_predictive(lab_posterior(), practice().without_losses())
    assert {int(step) for axes in bare.axes for step in dots_of(axes)[:, 0]} <= {0}
    check_figure(bare)


def test_a_frame_alone_has_no_runs_to_draw() -> None:
    with pytest.raises(ValueError, match="give the runs to draw"):
        plots.prior_predictive(lab_posterior().frame)

import numpy as np
import pytest
from figures import check_figure, drawn_texts
from synthetic import lab, lab_posterior, prior_as_posterior

from bayes_cpt import plots
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.plots.prior_posterior import density


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


def test_a_posterior_that_is_the_prior_has_no_contraction_and_all_of_the_prior() -> None:
    numbers = panel_numbers(prior_as_posterior(lab(), draws=500, spread=1.0))
    for contraction, share in numbers.values():
        assert contraction < 0.2
        assert share >= 97.0


def test_a_posterior_a_tenth_as_wide_shows_it() -> None:
    numbers = panel_numbers(prior_as_posterior(lab(), draws=500, spread=0.1))
    contraction, share = numbers["reference_loss"]
    assert contraction == pytest.approx(0.99, abs=0.01)
    # The central 99 % of a normal a tenth as wide: 2 Phi(0.2576) - 1.
    assert share == pytest.approx(20.3, abs=2.0)


def test_quantities_that_rest_on_their_prior_are_red() -> None:
    figure = plots.prior_posterior(prior_as_posterior(lab(), draws=100, spread=1.0))
    colours = {axes.texts[0].get_color() for axes in figure.axes}
    assert colours == {"#b00020"}
    assert "red: rests on its prior" in [text.get_text() for text in drawn_texts(figure)]


def test_densities_are_densities_over_the_axis_shown() -> None:
    figure = plots.prior_posterior(prior_as_posterior(lab(), draws=500, spread=1.0))
    for axes in figure.axes:
        x, y = (np.asarray(part) for part in axes.lines[0].get_data())
        place = np.log(x) if axes.get_xscale() == "log" else x
        assert np.trapezoid(y, place) == pytest.approx(0.99, abs=0.03), axes.get_title(loc="left")


def test_wide_positive_quantities_have_a_logarithmic_axis() -> None:
    figure = plots.prior_posterior(prior_as_posterior(lab(), draws=100, spread=1.0))
    scales = {axes.get_title(loc="left"): axes.get_xscale() for axes in figure.axes}
    assert scales["shift_rate"] == "log"
    assert scales["gain_replay"] == "linear"


def test_the_kernel_density_is_that_of_a_normal_even_with_one_draw_far_out() -> None:
    draws = np.random.default_rng(0).standard_normal(20_000)
    draws[0] = 1e9
    grid = np.linspace(-2.0, 2.0, 9)
    np.testing.assert_allclose(
        density(draws, grid), np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi), atol=0.015
    )


def test_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="give parameters or coefficients"):
        plots.prior_posterior(lab_posterior(), "both")  # type: ignore[arg-type]

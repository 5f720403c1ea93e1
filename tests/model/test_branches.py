"""Runs that branch off another one are given what it showed up to there."""

import numpy as np
import pytest
from branching import LEFT, branching_study
from dense_residuals import curve_covariance, walk
from interpreted import generated_likelihoods
from scipy.stats import multivariate_normal

from bayes_cpt.model.elements import elements
from bayes_cpt.model.priors.draws import draw_priors
from bayes_cpt.model.residuals import ONSET_SHARE
from bayes_cpt.model.setup import Setup, build_setup
from bayes_cpt.model.simulate import expected_loss, residual_products, simulate
from bayes_cpt.model.spec import read_spec

SPEC = read_spec("pretrain")


@pytest.fixture(scope="module")
def setup() -> Setup:
    return build_setup(SPEC, branching_study())


@pytest.fixture(scope="module")
def parameters(setup: Setup) -> dict[str, np.ndarray]:
    return draw_priors(setup.frame, 3, seed=1)


def normal_of(setup: Setup, parameters: dict[str, np.ndarray], draw: int, curve: int):  # type: ignore[no-untyped-def]
    """Return residuals and their dense covariance along a curve, trunk and all."""
    own = {name: value[draw : draw + 1] for name, value in parameters.items()}
    frame, curves = setup.frame, setup.curves
    coefficients = frame.law.coefficients(own, np)
    scales = frame.residual_scales(curves.points, setup.design.pretraining, own, coefficients, np)
    rows = curves.points.curve_index == curve
    residual = (curves.points.loss - expected_loss(frame, own, curves))[0, rows]
    covariance = curve_covariance(
        curves.points.steps[rows],
        anchored=False,
        fluctuation=np.broadcast_to(scales.fluctuation, (1, rows.size))[0, rows],
        memory=float(np.ravel(scales.memory)[0]),
        misfit=np.broadcast_to(scales.misfit, (1, rows.size))[0, rows],
        level=np.broadcast_to(scales.offset, (1, rows.size))[0, rows],
        onset=ONSET_SHARE * frame.reference.steps,
        **walk(frame.spec, continual=False),
    )
    return residual, covariance


def conditional(residual, covariance, given):  # type: ignore[no-untyped-def]
    """Return a normal's last entries about their mean given the first, and their covariance."""
    kept = np.linalg.solve(covariance[:given, :given], covariance[:given, given:])
    return (
        residual[given:] - kept.T @ residual[:given],
        covariance[given:, given:] - kept.T @ covariance[:given, given:],
    )


def test_a_curve_has_its_trunks_points_first(setup: Setup) -> None:
    by_run = {
        curve.run: (curve.trunk, curve.given, setup.curves.points.steps[rows].tolist())
        for place, curve in enumerate(setup.curves.curves)
        for rows in [setup.curves.points.curve_index == place]
    }
    skipped = by_run["trunk"][2][0]
    before = [float(t) for t in range(200, LEFT + 1, 200) if t >= skipped]
    cooled = [float(t) for t in range(2100, 2801, 100)]
    assert by_run["cooled"] == ("trunk", len(before), before + cooled)
    shared = [*before, 2100.0, 2200.0, 2300.0]
    assert by_run["held"] == (
        "cooled",
        len(shared),
        [*shared, 2400.0, 2500.0, 2600.0, 2700.0, 2800.0],
    )


def test_likelihood_is_the_dense_normal_given_the_trunk(
    setup: Setup, parameters: dict[str, np.ndarray]
) -> None:
    values, _ = generated_likelihoods(setup, parameters)
    for draw in range(3):
        for place, curve in enumerate(setup.curves.curves):
            about, spread = conditional(*normal_of(setup, parameters, draw, place), curve.given)
            expected = multivariate_normal.logpdf(about, cov=spread)
            assert values[draw, place] == pytest.approx(expected, rel=1e-8)


def test_slopes_are_those_of_differences(setup: Setup) -> None:
    draws = draw_priors(setup.frame, 101, seed=1)
    one = {name: np.median(value, axis=0)[None] for name, value in draws.items()}
    one["reference_loss"] = np.array([[3.5]])
    _, slopes = generated_likelihoods(setup, one)
    for place, element in enumerate(elements(setup.frame)):
        value = one[element.name]
        step = 1e-5 * max(1e-3, float(np.abs(value).max()))
        totals = [
            generated_likelihoods(setup, one | {element.name: value + sign * step})[0][0]
            for sign in (1, -1)
        ]
        expected = (totals[0] - totals[1]) / (2 * step)
        np.testing.assert_allclose(slopes[0][:, place], expected, rtol=1e-5, atol=1e-3)


def test_generalised_least_squares_takes_the_trunk_off(
    setup: Setup, parameters: dict[str, np.ndarray]
) -> None:
    directions = np.ones((setup.curves.points.steps.size, 1))
    products = residual_products(setup.frame, parameters, setup.curves, directions)
    for place, curve in enumerate(setup.curves.curves):
        residual, covariance = normal_of(setup, parameters, 0, place)
        columns = np.stack([residual, np.ones(residual.size)], axis=1)
        about, spread = conditional(columns, covariance, curve.given)
        expected = about.T @ np.linalg.solve(spread, about)
        np.testing.assert_allclose(products[place, 0], expected, rtol=1e-6)


def test_simulated_branches_go_on_from_the_simulated_trunk(
    setup: Setup, parameters: dict[str, np.ndarray]
) -> None:
    drawn = simulate(setup.frame, parameters, setup.curves, None, np.random.default_rng(3)).loss
    curves, points = setup.curves.curves, setup.curves.points
    of_run = {own.run: points.curve_index == place for place, own in enumerate(curves)}
    for place, curve in enumerate(curves):
        if curve.given:
            branch = np.flatnonzero(points.curve_index == place)[: curve.given]
            trunk = np.flatnonzero(of_run[curve.trunk])
            same = trunk[np.isin(points.steps[trunk], points.steps[branch])]
            np.testing.assert_allclose(drawn[:, branch], drawn[:, same], rtol=1e-12)


def test_without_its_trunk_a_run_stands_alone() -> None:
    study = branching_study().subset(["cooled"])
    (curve,) = build_setup(SPEC, study).curves.curves
    assert (curve.trunk, curve.given) == ("", 0)

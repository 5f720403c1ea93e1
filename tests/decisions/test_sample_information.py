"""Value of sample information against closed forms, and brute-force nested simulation on a grid."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from bayes_cpt.arrays import Floats
from bayes_cpt.decisions.sample_information import (
    PENALTIES,
    DecisionLosses,
    _regressed,
    information,
)

DRAWS = 2000


def conjugate(noise: float, seed: int) -> tuple[Floats, Floats, Floats]:
    """Return draws of three coefficients, data that are lines in them, and what the data leave."""
    generator = np.random.default_rng(seed)
    law = generator.standard_normal((DRAWS, 3))
    design = 0.3 * generator.standard_normal((20, 3))
    data = law @ design.T + noise * generator.standard_normal((DRAWS, 20))
    return law, data, np.linalg.inv(np.eye(3) + design.T @ design / noise**2)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("noise", [0.2, 1.0, 3.0])
def test_a_quadratic_loss_is_worth_the_variance_that_goes(noise: float, seed: int) -> None:
    """The best decision is the posterior mean, so that EVSI = (prior - posterior variance)/2."""
    law, data, left = conjugate(noise, seed)
    decisions = np.linspace(-4.0, 4.0, 300)
    found = DecisionLosses(0.5 * (decisions - law[:, :1]) ** 2).value(data)
    expected = 0.5 * (1.0 - left[0, 0])
    assert found.value < expected + 3 * found.error
    assert found.value > 0.9 * expected - 3 * found.error


@pytest.mark.parametrize("offset", [0.0, 0.5, 1.5])
@pytest.mark.parametrize("noise", [0.5, 2.0])
def test_two_decisions_are_worth_the_unit_normal_loss(offset: float, noise: float) -> None:
    generator = np.random.default_rng(3)
    law = generator.standard_normal(DRAWS)
    data = (law + noise * generator.standard_normal(DRAWS))[:, None]
    found = DecisionLosses(np.stack([np.zeros(DRAWS), offset + law], axis=1)).value(data)
    spread = 1.0 / math.sqrt(1.0 + noise**2)
    expected = spread * norm.pdf(offset / spread) - offset * norm.cdf(-offset / spread)
    assert found.value == pytest.approx(expected, abs=3.5 * found.error + 0.01)


def grid_case(noise: float) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Return a lopsided prior on a grid, curves and losses that bend, and draws with their data."""
    generator = np.random.default_rng(5)
    grid = np.linspace(0.05, 3.0, 120)
    prior = grid * np.exp(-grid)
    prior /= prior.sum()
    steps = np.linspace(0.1, 1.0, 8)
    curves = np.log1p(grid[:, None] ** 1.5 * steps)
    decisions = np.linspace(0.0, 2.5, 60)
    losses = np.abs(decisions - grid[:, None]) ** 1.3 + 0.1 * decisions
    drawn = generator.choice(grid.size, DRAWS, p=prior)
    data = curves[drawn] + noise * generator.standard_normal((DRAWS, steps.size))
    return prior, curves, losses, losses[drawn], data


def perfect(losses: Floats) -> float:
    """Return the value of perfect information: the least expected regret."""
    return float(losses.mean(axis=0).min() - losses.min(axis=1).mean())


@pytest.mark.parametrize("noise", [0.05, 0.3, 1.0])
def test_it_meets_nested_simulation_on_a_grid(noise: float) -> None:
    """Nested: the posterior over the grid given each of many data sets, and the best decision by it."""
    prior, curves, losses, drawn, data = grid_case(noise)
    distance = ((data[:, None] - curves) ** 2).sum(axis=2)
    posterior = prior * np.exp(-0.5 * (distance - distance.min(axis=1, keepdims=True)) / noise**2)
    posterior /= posterior.sum(axis=1, keepdims=True)
    gains = (prior @ losses).min() - (posterior @ losses).min(axis=1)
    nested, error = gains.mean(), gains.std() / math.sqrt(DRAWS)
    found = DecisionLosses(drawn).value(data)
    spread = math.hypot(error, found.error)
    assert found.value < nested + 3 * spread
    assert found.value > 0.9 * nested - 3 * spread
    assert found.value <= perfect(drawn) + 3 * found.error


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 12))
def test_no_draw_beats_perfect_information(seed: int, decisions: int, features: int) -> None:
    generator = np.random.default_rng(seed)
    losses = generator.standard_normal((60, decisions)) ** 3
    at_stake = DecisionLosses(losses)
    found = at_stake.value(generator.standard_normal((60, features)))
    most = np.empty(60)
    for fold in at_stake._folds:
        most[fold.test] = losses[fold.test, fold.before] - losses[fold.test].min(axis=1)
    assert np.all(found.gains <= most + 1e-12)
    assert np.all((found.chosen >= 0) & (found.chosen < decisions))


def test_data_that_tell_nothing_are_worth_nothing() -> None:
    generator = np.random.default_rng(0)
    law = generator.standard_normal((DRAWS, 1))
    losses = 0.5 * (np.linspace(-3, 3, 100) - law) ** 2
    for _ in range(3):
        found = DecisionLosses(losses).value(generator.standard_normal((DRAWS, 20)))
        assert 0.0 <= found.value < 3 * found.error + 1e-4
    told = information(law, generator.standard_normal((DRAWS, 20)))
    assert abs(told.share[0]) < 4 * told.error[0]
    assert told.nats[0] < 0.01


def test_data_that_tell_all_are_worth_perfect_information() -> None:
    law = np.random.default_rng(0).standard_normal((DRAWS, 2))
    losses = 0.5 * (np.linspace(-3, 3, 200) - law[:, :1]) ** 2
    assert DecisionLosses(losses).value(law).value == pytest.approx(perfect(losses), rel=0.02)
    assert information(law, law).share.min() > 0.99


def test_where_all_decisions_are_alike_nothing_is_worth_anything() -> None:
    data = np.random.default_rng(0).standard_normal((100, 3))
    shared = data[:, :1] * np.ones(7)
    assert DecisionLosses(shared + np.arange(7.0)).value(data).value == 0.0
    assert DecisionLosses(shared[:, :1]).value(data).value == 0.0


def test_the_error_is_the_spread_of_repetitions() -> None:
    found = []
    for seed in range(30):
        generator = np.random.default_rng(seed)
        law = generator.standard_normal((600, 1))
        data = law + generator.standard_normal((600, 4))
        found.append(DecisionLosses(0.5 * (np.linspace(-3, 3, 60) - law) ** 2).value(data))
    spread = np.std([own.value for own in found], ddof=1)
    assert 0.6 < spread / np.mean([own.error for own in found]) < 1.6


@pytest.mark.parametrize("noise", [0.3, 1.0, 3.0])
def test_information_is_that_of_the_normal_model(noise: float) -> None:
    law, data, left = conjugate(noise, 1)
    found = information(law, data)
    expected = 1.0 - np.diag(left)
    np.testing.assert_allclose(found.share, expected, atol=0.02 + 3.5 * found.error.max())
    # A bound from below, and near it here.
    truth = -0.5 * np.log(np.diag(left))
    assert np.all(found.nats < truth + 0.1)
    assert np.all(found.nats > 0.7 * truth - 0.1)


def test_information_is_the_same_for_any_rising_function_of_a_quantity() -> None:
    law, data, _ = conjugate(0.7, 2)
    plain, bent = information(law, data), information(np.exp(3.0 * law), data)
    np.testing.assert_allclose(bent.share, plain.share, rtol=1e-9)


def test_the_regression_is_ridge_at_the_least_generalised_cross_validation() -> None:
    """Against smoother matrices, written out penalty by penalty."""
    generator = np.random.default_rng(0)
    features = generator.standard_normal((40, 6)) @ generator.standard_normal((6, 6))
    targets = generator.standard_normal((2, 40)).T
    targets[:, 0] += features[:, 0]
    at = generator.standard_normal((5, 6))
    found = _regressed(features, targets, at)
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)
    there = (at - features.mean(axis=0)) / features.std(axis=0)
    largest = np.linalg.svd(scaled, compute_uv=False)[0] ** 2
    for column in range(2):
        own, best = targets[:, column] - targets[:, column].mean(), (np.inf, np.empty(0))
        for penalty in PENALTIES * largest:
            inverse = np.linalg.inv(scaled.T @ scaled + penalty * np.eye(6))
            smoother = scaled @ inverse @ scaled.T
            left = own - smoother @ own
            criterion = (left @ left) / (1.0 - (1.0 + np.trace(smoother)) / 40) ** 2
            if criterion < best[0]:
                best = (criterion, inverse @ scaled.T @ own)
        expected = targets[:, column].mean() + there @ best[1]
        np.testing.assert_allclose(found[:, column], expected, rtol=1e-8)

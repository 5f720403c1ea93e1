import numpy as np
import pytest
from batch_family import family
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal, norm
from target_family import several

from bayes_cpt.inference.joint_priors import add_alikeness
from bayes_cpt.model.log_densities import log_priors
from bayes_cpt.model.priors.draws import draw_priors
from bayes_cpt.model.priors.pooling import (
    draw_further,
    log_alikeness,
    log_alikenesses,
    standardised,
)
from bayes_cpt.model.setup import build_setup
from bayes_cpt.model.spec import read_spec

NUMBERS = st.lists(st.floats(-3.0, 3.0), min_size=2, max_size=6).map(np.array)
SPREADS = st.floats(0.1, 0.99)


@given(NUMBERS, SPREADS)
@settings(max_examples=50, deadline=None)
def test_targets_are_normal_with_one_correlation(standard: np.ndarray, spread: float) -> None:
    count = standard.size
    covariance = spread**2 * np.eye(count) + (1.0 - spread**2)
    joint = multivariate_normal(np.zeros(count), covariance).logpdf(standard)
    expected = joint - norm.logpdf(standard).sum()
    found = log_alikeness(standard, np.float64(spread), np)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)


@given(NUMBERS, SPREADS)
@settings(max_examples=30, deadline=None)
def test_slopes_are_those_of_the_density(standard: np.ndarray, spread: float) -> None:
    slopes, step = np.empty(standard.size), 1e-6
    value, by_spread = add_alikeness(standard, spread, slopes)
    np.testing.assert_allclose(value, log_alikeness(standard, np.float64(spread), np), atol=1e-9)

    def change(z: np.ndarray, s: float) -> float:
        return float(log_alikeness(standard + z, np.float64(spread + s), np))

    none = np.zeros(standard.size)
    np.testing.assert_allclose(
        by_spread, (change(none, step) - change(none, -step)) / (2 * step), rtol=1e-4, atol=1e-4
    )
    for k in range(standard.size):
        along = step * np.eye(standard.size)[k]
        np.testing.assert_allclose(
            slopes[k], (change(along, 0.0) - change(-along, 0.0)) / (2 * step), rtol=1e-4, atol=1e-4
        )


def test_draws_of_each_target_have_the_prior_of_one_and_are_alike() -> None:
    frame = build_setup(read_spec("cpt-replay"), several()).frame
    drawn = draw_priors(frame, 20_000, seed=0)
    for name in ("shift_share", "saturation_rate", "offset_kept", "misfit_replay"):
        (places,) = frame.pools(name)
        own = standardised(frame, name, drawn[name], places)
        np.testing.assert_allclose(own.mean(axis=0), 0.0, atol=0.03)
        np.testing.assert_allclose(own.std(axis=0), 1.0, atol=0.03)
        shared = 1.0 - drawn["target_spread"][:, frame.pooled.index(name)] ** 2
        correlation = np.corrcoef(own.T)[np.triu_indices(3, 1)]
        np.testing.assert_allclose(correlation, shared.mean(), atol=0.03)


def test_the_prior_of_draws_counts_how_alike_they_are() -> None:
    frame = build_setup(read_spec("cpt-replay"), several()).frame
    drawn = draw_priors(frame, 10, seed=1)
    spread = frame.spec.priors["target_spread"].of(None)
    alone = spread.log_density(drawn["target_spread"]) - spread.log_slope(drawn["target_spread"])
    found = log_priors(frame, drawn)["target_spread"]
    alike = np.stack(log_alikenesses(frame, drawn), axis=1)
    np.testing.assert_allclose(found - alone, alike, rtol=1e-10)
    assert found.shape == (10, len(frame.pooled))


def test_independent_targets_have_no_potential() -> None:
    assert log_alikeness(np.array([0.4, -1.0, 2.0]), np.float64(1.0), np) == pytest.approx(0.0)


def test_batches_are_pooled_apart_on_each_validation_set() -> None:
    frame = build_setup(read_spec("cpt-replay-batch"), family()).frame
    assert frame.pooled == ("shift_share", "shift_rate", "shift_exponent")
    assert frame.pools("shift_rate") == [[0, 1, 2], [3, 4, 5]]
    drawn = draw_priors(frame, 20_000, seed=0)
    whole = standardised(frame, "shift_rate", drawn["shift_rate"], list(range(6)))
    np.testing.assert_allclose(whole.std(axis=0), 1.0, atol=0.03)
    shared = 1.0 - (drawn["batch_spread"][:, 1] ** 2).mean()
    expected = np.kron(np.eye(2), np.full((3, 3), shared))
    np.fill_diagonal(expected, 1.0)
    np.testing.assert_allclose(np.corrcoef(whole.T), expected, atol=0.03)


def test_a_further_member_is_drawn_given_the_known_ones() -> None:
    """Against the conditional of the joint normal."""
    generator = np.random.default_rng(0)
    known, spread, draws = np.array([0.5, 1.4, -0.2]), 0.4, 100_000
    covariance = spread**2 * np.eye(4) + (1.0 - spread**2)
    weights = np.linalg.solve(covariance[:3, :3], covariance[:3, 3])
    mean, variance = weights @ known, 1.0 - weights @ covariance[:3, 3]
    shared, own = generator.standard_normal((2, draws))
    found = draw_further(np.tile(known, (draws, 1)), np.full(draws, spread), shared, own)
    np.testing.assert_allclose(found.mean(), mean, atol=0.01)
    np.testing.assert_allclose(found.var(), variance, rtol=0.03)

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import optimize, special, stats

from bayes_cpt.validate.comparison.stacking import (
    difference,
    held_out_weights,
    mixture_draws,
    mixture_log_density,
    stacking_weights,
)

SHAPES = st.tuples(st.integers(2, 12), st.integers(2, 5))
SCORES = SHAPES.flatmap(
    lambda shape: arrays.arrays(np.float64, shape, elements=st.floats(-200.0, 200.0, width=32))
)


def mean_score(scores: np.ndarray, weights: np.ndarray) -> float:
    with np.errstate(divide="ignore"):
        return float(special.logsumexp(scores + np.log(weights), axis=1).mean())


@settings(max_examples=60, deadline=None)
@given(SCORES)
def test_weights_lie_on_the_simplex_and_nothing_scores_better(scores: np.ndarray) -> None:
    weights = stacking_weights(scores)
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert weights.min() >= 0.0
    # The problem is concave: where no vertex leads up, nothing does.
    best = mean_score(scores, weights)
    for vertex in np.eye(scores.shape[1]):
        nearby = 0.99 * weights + 0.01 * vertex
        assert mean_score(scores, nearby) <= best + 1e-6


@settings(max_examples=40, deadline=None)
@given(SCORES, st.integers(0, 4), st.floats(0.05, 50.0))
def test_a_law_that_dominates_has_all_the_weight(
    scores: np.ndarray, place: int, margin: float
) -> None:
    winner = place % scores.shape[1]
    scores[:, winner] = scores.max(axis=1) + margin
    assert stacking_weights(scores)[winner] == pytest.approx(1.0, abs=1e-3)


@settings(max_examples=40, deadline=None)
@given(arrays.arrays(np.float64, 6, elements=st.floats(-50.0, 50.0)), st.integers(2, 4))
def test_identical_laws_share_a_stack_that_scores_as_either(own: np.ndarray, copies: int) -> None:
    scores = np.tile(own[:, None], (1, copies))
    weights = stacking_weights(scores)
    np.testing.assert_allclose(mixture_log_density(scores, weights), own, atol=1e-9)
    np.testing.assert_allclose(weights, 1.0 / copies, atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(SCORES, st.floats(-1e3, 1e3))
def test_weights_do_not_depend_on_the_units_of_the_losses(scores: np.ndarray, shift: float) -> None:
    shifts = shift * np.arange(len(scores))[:, None]
    before, after = stacking_weights(scores), stacking_weights(scores + shifts)
    assert mean_score(scores, after) == pytest.approx(mean_score(scores, before), abs=1e-5)


def test_laws_that_exclude_each_other_get_the_shares_of_what_they_explain() -> None:
    scores = np.where(np.arange(10)[:, None] < 3, [[0.0, -np.inf]], [[-np.inf, 0.0]])
    np.testing.assert_allclose(stacking_weights(scores), [0.3, 0.7], atol=1e-6)


def test_weights_of_two_laws_are_those_of_a_search_on_a_line() -> None:
    scores = np.random.default_rng(3).normal(scale=2.0, size=(9, 2))
    found = optimize.minimize_scalar(
        lambda w: -mean_score(scores, np.array([w, 1.0 - w])),
        bounds=(0.0, 1.0),
        method="bounded",
        options={"xatol": 1e-9},
    )
    assert 0.05 < found.x < 0.95
    assert stacking_weights(scores)[0] == pytest.approx(found.x, abs=1e-5)


def test_the_weights_of_a_run_have_not_seen_it() -> None:
    scores = np.random.default_rng(4).normal(scale=2.0, size=(6, 3))
    before = held_out_weights(scores)[2]
    scores[2] = [500.0, -500.0, 0.0]
    np.testing.assert_allclose(held_out_weights(scores)[2], before)
    np.testing.assert_allclose(stacking_weights(np.delete(scores, 2, axis=0)), before)
    assert stacking_weights(scores)[0] > before[0]


def test_draws_of_a_mixture_have_its_quantiles() -> None:
    middles = (np.arange(100) + 0.5) / 100
    laws = [stats.norm(0.0, 1.0), stats.norm(4.0, 0.5)]
    quantiles = np.stack([np.stack([law.ppf(middles), 2.0 + law.ppf(middles)], 1) for law in laws])
    draws = mixture_draws(quantiles, np.array([0.7, 0.3]), 1000)
    assert draws.shape == (1000, 2)
    np.testing.assert_allclose(draws[:, 1], draws[:, 0] + 2.0)
    for value in (-1.0, 0.5, 3.5, 4.5):
        wanted = 0.7 * laws[0].cdf(value) + 0.3 * laws[1].cdf(value)
        assert np.mean(draws[:, 0] <= value) == pytest.approx(wanted, abs=3e-3)


def test_a_difference_has_the_standard_error_of_its_mean() -> None:
    generator = np.random.default_rng(5)
    ours, theirs = generator.normal(size=(2, 8))
    gap = difference(ours, theirs)
    assert gap.mean == pytest.approx((ours - theirs).mean())
    assert gap.error == pytest.approx(stats.sem(ours - theirs))
    assert np.isnan(difference(ours[:1], theirs[:1]).error)


@pytest.mark.parametrize("scores", [np.zeros((0, 2)), np.zeros(3), np.full((2, 2), -np.inf)])
def test_what_has_no_weights_is_refused(scores: np.ndarray) -> None:
    with pytest.raises(ValueError, match="observation"):
        stacking_weights(scores)

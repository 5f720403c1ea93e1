"""Draws that determine the others."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_cpt.arrays import Floats
from bayes_cpt.forecast.skeleton import CHECKS, FEWEST, MOST, TOLERANCE, Skeleton, spread_out

DRAWS = 2000


def decays(steps: Floats) -> Floats:
    """Return values at some steps in draws of a rate: of a smooth family."""
    rates = np.random.default_rng(1).uniform(0.1, 10.0, DRAWS)
    return np.exp(-np.outer(steps, rates))


def some_skeleton(sample: Floats) -> Skeleton:
    skeleton = Skeleton.of(sample)
    assert skeleton is not None
    return skeleton


@pytest.mark.parametrize("points", [40, MOST[0] + 30, MOST[1] + 30])
def test_a_space_of_few_dimensions_is_spanned_by_as_many_draws(points: int) -> None:
    generator = np.random.default_rng(0)
    shapes = generator.standard_normal((5, DRAWS))
    found = some_skeleton(generator.standard_normal((points, 5)) @ shapes)
    assert found.weights.shape == (5, DRAWS)
    assert found.draws.size == 5 + CHECKS
    others = generator.standard_normal((200, 5)) @ shapes
    few = others[:, found.draws]
    np.testing.assert_allclose(found.chosen(few) @ found.weights, others, atol=1e-9)
    assert not found.off(few).any()


def test_smooth_curves_need_few_draws_at_all_points_between() -> None:
    found = some_skeleton(decays(np.linspace(0.0, 1.0, 60)))
    assert len(found.weights) < 20
    between = decays(np.linspace(0.003, 0.97, 333))
    error = found.chosen(between[:, found.draws]) @ found.weights - between
    assert np.abs(error).max() < TOLERANCE


def test_what_the_sample_had_not_is_noticed() -> None:
    steps = np.linspace(0.0, 1.0, 60)
    found = some_skeleton(decays(steps))
    strange = decays(steps[::7])
    strange[2] += 1e-3 * np.sin(np.arange(DRAWS))
    strange[5, found.draws[-1]] = np.nan
    assert np.flatnonzero(found.off(strange[:, found.draws])).tolist() == [2, 5]


def test_draws_without_anything_in_common_have_no_skeleton() -> None:
    generator = np.random.default_rng(2)
    for points in (10, MOST[1] + 40):
        assert Skeleton.of(generator.standard_normal((points, DRAWS))) is None


def test_nor_have_few_draws_or_what_is_no_number() -> None:
    plain = decays(np.linspace(0.0, 1.0, 60))
    assert Skeleton.of(plain[:, : FEWEST - 1]) is None
    plain[3, 4] = np.inf
    assert Skeleton.of(plain) is None


def test_nothing_is_spanned_by_one_draw() -> None:
    found = some_skeleton(np.zeros((20, DRAWS)))
    assert not (np.zeros((3, 1)) @ found.weights).any()
    assert not found.off(np.zeros((3, found.draws.size))).any()


@given(st.integers(1, 5000), st.integers(1, 600))
def test_places_that_are_spread_out_rise_and_hold_the_ends(count: int, wanted: int) -> None:
    places = spread_out(count, wanted)
    assert (np.diff(places) > 0).all()
    assert places.min() >= 0
    assert places.max() < count
    assert places.size <= max(wanted, 1)
    if wanted >= 3:
        assert {places[0], places[-1]} == {0, count - 1}
        assert places.size >= min(count, wanted) / 2

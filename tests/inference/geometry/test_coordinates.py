"""Mean and ratio of the annealing paces against their definition and against differences."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bayes_cpt.inference.geometry.coordinates import join_paces, join_slopes, separate_paces

PACES = np.array([2, 0, 3])
OFFSET = 0.7
positions = st.lists(st.floats(-12, 12), min_size=4, max_size=4).map(np.array)


def _separated(position: np.ndarray, offset: float = OFFSET) -> np.ndarray:
    apart = position.copy()
    separate_paces(apart, PACES, offset)
    return apart


@given(positions)
def test_the_first_is_the_mean_pace_and_the_second_the_ratio(position: np.ndarray) -> None:
    mean, ratio = np.exp(position[[2, 0]])
    slow, _, fast, share = _separated(position, offset=0.0)
    weight = 1.0 / (1.0 + np.exp(-share))
    np.testing.assert_allclose((1 - weight) * np.exp(fast) + weight * np.exp(slow), mean, 1e-9)
    np.testing.assert_allclose(np.exp(slow - fast), ratio, 1e-9)


@given(positions)
def test_joining_undoes_separating(position: np.ndarray) -> None:
    there_and_back = _separated(position)
    np.testing.assert_array_equal(there_and_back[[1, 3]], position[[1, 3]])
    join_paces(there_and_back, PACES, OFFSET)
    np.testing.assert_allclose(there_and_back, position, rtol=0, atol=1e-9)


@given(positions)
def test_volumes_stay_and_slopes_follow(position: np.ndarray) -> None:
    step = 1e-5
    jacobian = np.array(
        [
            (_separated(position + shift) - _separated(position - shift)) / (2 * step)
            for shift in step * np.eye(4)
        ]
    )
    np.testing.assert_allclose(np.linalg.det(jacobian), 1.0, rtol=1e-6)
    slopes = np.array([0.3, -2.0, 1.1, 0.8])
    joined = slopes.copy()
    join_slopes(joined, _separated(position), PACES, OFFSET)
    np.testing.assert_allclose(joined, jacobian @ slopes, rtol=1e-5, atol=1e-7)


def test_a_pace_that_is_not_sampled_leaves_all_as_it_is() -> None:
    position = np.array([1.0, 2.0, 3.0, 4.0])
    for paces in (np.array([0, -1, -1]), np.array([0, 1, 4])):
        changed, slopes = position.copy(), position.copy()
        separate_paces(changed, paces, OFFSET)
        join_paces(changed, paces, OFFSET)
        join_slopes(slopes, position, paces, OFFSET)
        np.testing.assert_array_equal(changed, position)
        np.testing.assert_array_equal(slopes, position)

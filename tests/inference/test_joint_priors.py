"""Slopes of the joint priors of correlated and of pooled parameters, against differences."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_cpt.inference.joint_priors import add_alikeness, add_correlations
from bayes_cpt.model.priors.correlations import excess_precision
from bayes_cpt.model.priors.pooling import log_alikeness

FIVE = st.lists(st.floats(-3.0, 3.0), min_size=5, max_size=5).map(np.array)
NUMBERS = st.lists(st.floats(-3.0, 3.0), min_size=2, max_size=6).map(np.array)
SPREADS = st.floats(0.1, 0.99)


@given(FIVE, st.floats(-0.9, 0.9))
@settings(max_examples=30, deadline=None)
def test_slopes_of_correlations_are_those_of_the_density(
    standard: np.ndarray, value: float
) -> None:
    places, matrix = np.array([3, 1]), np.array([[1.0, value], [value, 1.0]])
    excess, slopes, step = excess_precision(matrix), np.array([1.0, 0.5, 2.0, 3.0, 1.0]), 1e-6

    def density(at: np.ndarray) -> float:
        return float(add_correlations(at, slopes, np.zeros(5), places, excess))

    gradient = np.zeros(5)
    add_correlations(standard, slopes, gradient, places, excess)
    by_steps = [
        (density(standard + step * slopes[k] * unit) - density(standard - step * slopes[k] * unit))
        / (2.0 * step)
        for k, unit in enumerate(np.eye(5))
    ]
    np.testing.assert_allclose(gradient, by_steps, rtol=1e-4, atol=1e-3)


@given(NUMBERS, SPREADS)
@settings(max_examples=30, deadline=None)
def test_slopes_of_alikeness_are_those_of_the_density(standard: np.ndarray, spread: float) -> None:
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

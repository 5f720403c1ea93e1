"""Slopes of the joint priors of correlated and of pooled parameters, against differences."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_cpt.inference.coordinates import add_alikeness
from bayes_cpt.model.joint_priors import log_alikeness

NUMBERS = st.lists(st.floats(-3.0, 3.0), min_size=2, max_size=6).map(np.array)
SPREADS = st.floats(0.1, 0.99)


@given(NUMBERS, SPREADS)
@settings(max_examples=30, deadline=None)
def test_slopes_of_alikeness_are_those_of_the_density(standard: np.ndarray, spread: float) -> None:
    step, total, square = 1e-6, standard.sum(), (standard**2).sum()
    value, pull, by_spread = add_alikeness(standard.size, total, square, spread)
    slopes = standard * (1.0 - 1.0 / spread**2) + pull * total
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

"""Quantiles of draws in bins, against NumPy's."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bayes_cpt.arrays import Floats
from bayes_cpt.forecast.quantiles import BINS, fill_quantiles

FRACTIONS = np.array([0.5, 0.05, 0.95, 0.0, 1.0, 0.33])


def quantiles(values: Floats) -> Floats:
    found = np.empty((FRACTIONS.size, len(values)))
    fill_quantiles(values, FRACTIONS, found)
    return found


@given(arrays(np.float64, (2, 37), elements=st.floats(-1e6, 1e6)))
@example(np.zeros((2, 5)))
@example(np.full((2, 1), 3.0))
@example(np.array([[0.0, 5e-324, 1.0], [-1e-310, 0.0, 1e-310]]))
def test_quantiles_are_those_of_numpy(values: Floats) -> None:
    wanted = np.quantile(values, FRACTIONS, axis=1)
    np.testing.assert_allclose(quantiles(values), wanted, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("draws", [1, 2, BINS, 4000])
def test_heavy_tails_that_crowd_a_bin(draws: int) -> None:
    values = np.random.default_rng(draws).standard_cauchy((5, draws)) + 3.0
    np.testing.assert_allclose(
        quantiles(values), np.quantile(values, FRACTIONS, axis=1), rtol=1e-12
    )

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from bayes_cpt.model.compiled.order_statistics import BINS, add_moments, fill_quantiles

FRACTIONS = [0.0, 0.05, 0.5, 0.95, 1.0]


def quantiles(values: NDArray[np.float32], fractions: list[float]) -> NDArray[np.float64]:
    found = np.empty(len(fractions))
    fill_quantiles(
        values,
        np.array(fractions),
        np.empty(values.size, dtype=np.int16),
        np.empty(BINS + 1, dtype=np.int32),
        np.empty(BINS, dtype=np.int32),
        np.empty((2 * len(fractions), values.size), dtype=np.float32),
        found,
    )
    return found


def assert_numpy(values: NDArray[np.float32], fractions: list[float]) -> None:
    wanted = np.quantile(values.astype(np.float64), fractions)
    size = np.abs(values).max()
    np.testing.assert_allclose(quantiles(values, fractions), wanted, rtol=1e-12, atol=1e-6 * size)


@given(
    arrays(np.float32, st.integers(1, 200), elements=st.floats(-1e6, 1e6, width=32)),
    st.lists(st.floats(0, 1), min_size=1, max_size=5),
)
def test_quantiles_are_those_of_numpy(values: NDArray[np.float32], fractions: list[float]) -> None:
    assert_numpy(values, fractions)


@pytest.mark.parametrize("spread", [1e-45, 1e-40, 1e-37, 1e-35, 1e-31, 1e-29])
def test_quantiles_of_draws_that_hardly_differ(spread: float) -> None:
    values = (spread * np.random.default_rng(0).random(500)).astype(np.float32)
    for size in (2, 17, 64, 500):
        wanted = np.quantile(values[:size].astype(np.float64), FRACTIONS)
        found = quantiles(values[:size], FRACTIONS)
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6 * spread)


def test_quantiles_of_draws_with_ties_outliers_and_clusters() -> None:
    generator = np.random.default_rng(0)
    normal = 3.0 + 0.01 * generator.standard_normal(4000)
    for values in (
        normal,
        np.round(normal, 3),
        3.0 + 0.01 * generator.standard_t(1.0, 4000),
        np.r_[normal, 1e4],
        np.repeat([1.0, 2.0], 500),
        np.full(300, 2.5),
    ):
        assert_numpy(values.astype(np.float32), FRACTIONS)


@given(arrays(np.float32, st.integers(1, 300), elements=st.floats(1.0, 10.0, width=32)))
def test_moments_add_up(values: Any) -> None:
    totals = np.array([1.0, 2.0, 3.0])
    add_moments(values, 2 * values, totals)
    double = values.astype(np.float64)
    sums = [1.0 + double.sum(), 2.0 + (double**2).sum(), 3.0 + 2.0 * double.sum()]
    np.testing.assert_allclose(totals, sums, rtol=1e-12)

"""Exponential and logarithm in single precision, against NumPy's in double precision."""

from typing import Any

import numba
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bayes_cpt.model.compiled.single import exp, expm1, log, log1p, sqrt


@numba.njit
def all_of(values: Any, found: Any, logarithm: bool) -> None:
    for i in range(values.size):
        found[i] = log(values[i]) if logarithm else expm1(values[i])


def computed(values: Any, logarithm: bool) -> Any:
    single = np.asarray(values, dtype=np.float32)
    found = np.empty_like(single)
    all_of(single, found, logarithm)
    return found.astype(np.float64), single.astype(np.float64)


def test_expm1_keeps_its_digits_at_every_size() -> None:
    sizes = np.geomspace(1e-12, 60.0, 40_001)
    found, values = computed(np.r_[-sizes, sizes], logarithm=False)
    np.testing.assert_allclose(found, np.expm1(values), rtol=2e-7, atol=0)


def test_expm1_far_below_0_is_minus_1_and_at_0_is_0() -> None:
    found, _ = computed([-1e4, -88.0, -1e30, 0.0], logarithm=False)
    assert found.tolist() == [-1.0, -1.0, -1.0, 0.0]


def test_log_is_exact_to_the_last_digits() -> None:
    found, values = computed(np.geomspace(1e-30, 1e30, 80_001), logarithm=True)
    np.testing.assert_allclose(found, np.log(values), rtol=2e-7, atol=1e-7)


@given(st.floats(0.0, 1e6), st.floats(0.001, 3.0))
def test_powers_of_the_law(area: float, exponent: float) -> None:
    """(1 + x)^-beta, the form that the shift has."""
    inside, _ = computed([np.float32(1.0) + np.float32(area)], logarithm=True)
    found, _ = computed(-exponent * inside, logarithm=False)
    assert abs(1.0 + found[0] - (1.0 + area) ** -exponent) < 2e-6


@numba.njit
def others(values: Any, found: Any) -> None:
    for i in range(values.size):
        found[i] = exp(values[i]), log1p(-values[i]), sqrt(values[i])


def test_exp_log1p_and_root() -> None:
    values = np.r_[-np.geomspace(1e-12, 60.0, 10_001), -1e4, 0.0].astype(np.float32)
    found = np.empty((values.size, 3), dtype=np.float32)
    others(values, found)
    double = values.astype(np.float64)
    np.testing.assert_allclose(found[:, 0], np.exp(double), rtol=2e-7, atol=1e-37)
    np.testing.assert_allclose(found[:, 1], np.log1p(-double), rtol=2e-7, atol=1e-7)
    np.testing.assert_array_equal(found[:, 2], 0.0)
    others(-values, found)
    np.testing.assert_allclose(found[:, 2], np.sqrt(-double), rtol=1e-7)

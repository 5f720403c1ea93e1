"""Exponentials and logarithms of arrays against NumPy's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_cpt.arrays import Floats
from bayes_cpt.model.compiled.elementary import (
    LOWEST,
    exponentials,
    logarithms,
    logarithms_of_one_more,
)

PAIRS = [(exponentials, np.exp), (logarithms, np.log), (logarithms_of_one_more, np.log1p)]
# In units of the last place: NumPy's own are off by up to one.
TOLERANCE = 2.0


def taken(function: Callable[[Floats], None], numbers: list[float]) -> Floats:
    found = np.array(numbers)
    function(found)
    return found


def check(ours: Any, reference: Any, numbers: list[float]) -> None:
    with np.errstate(all="ignore"):
        wanted = reference(np.array(numbers))
    found = taken(ours, numbers)
    exact = ~np.isfinite(wanted)
    np.testing.assert_array_equal(found[exact], wanted[exact])
    off = np.abs(found[~exact] - wanted[~exact])
    assert (off <= TOLERANCE * np.spacing(np.abs(wanted[~exact]))).all(), (found, wanted)


@pytest.mark.parametrize(("ours", "reference"), PAIRS)
@given(numbers=st.lists(st.floats(-700.0, 720.0), min_size=1, max_size=40))
def test_the_last_place_is_that_of_numpy(ours: Any, reference: Any, numbers: list[float]) -> None:
    check(ours, reference, numbers)


@pytest.mark.parametrize(("ours", "reference"), PAIRS[1:])
@given(numbers=st.lists(st.floats(-1.0, None, allow_infinity=True), min_size=1, max_size=40))
def test_logarithms_of_any_number(ours: Any, reference: Any, numbers: list[float]) -> None:
    check(ours, reference, numbers)


@pytest.mark.parametrize(("ours", "reference"), PAIRS)
def test_what_is_no_number_and_what_has_no_end(ours: Any, reference: Any) -> None:
    check(ours, reference, [np.nan, np.inf, 0.0, -0.0, 1e-300, -1e-17, 709.7827, 709.79, 1e308])


def test_an_exponential_below_full_precision_is_0() -> None:
    assert (taken(exponentials, [LOWEST - 1e-9, -746.0, -np.inf]) == 0.0).all()
    assert taken(exponentials, [LOWEST])[0] == pytest.approx(np.exp(LOWEST), rel=1e-15)


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 8, 17])
def test_every_number_of_an_array_is_taken_and_none_beside_it(count: int) -> None:
    """Loops of vector instructions take several at once, and then what is left."""
    room = np.full(count + 2, 0.5)
    exponentials(room[1:-1])
    assert room[0] == room[-1] == 0.5
    np.testing.assert_allclose(room[1:-1], np.exp(0.5), rtol=1e-15)

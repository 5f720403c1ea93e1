"""Numba as the package uses it: flags are compared as Numba compares them, in less time."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba.core.compiler import Flags

from bayes_cpt import jit

# Of these the defaults are False.
NAMES = ["enable_looplift", "no_cpython_wrapper", "boundscheck", "release_gil", "noalias"]


def flags(given: dict[str, bool]) -> Any:
    found = Flags()  # type: ignore[no-untyped-call]
    for name, value in given.items():
        setattr(found, name, value)
    return found


@given(*[st.dictionaries(st.sampled_from(NAMES), st.booleans())] * 2)
def test_flags_are_equal_where_numba_finds_them_equal(
    one: dict[str, bool], other: dict[str, bool]
) -> None:
    left, right = flags(one), flags(other)
    assert (left == right) == jit._by_all_flags(left, right)  # type: ignore[no-untyped-call]


def test_a_flag_that_is_set_to_its_default_is_as_one_that_is_not_set() -> None:
    assert flags({"noalias": False}) == flags({})
    assert flags({"noalias": True}) != flags({})


@pytest.mark.parametrize("other", [None, 1, "flags"])
def test_flags_are_no_other_thing(other: Any) -> None:
    assert flags({}) != other

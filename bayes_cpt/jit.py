"""Numba as this package uses it: what it compiles is kept if there is room, and it compiles without delay.

Import it from here: ``from bayes_cpt.jit import numba``.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numba
from numba.core.caching import FunctionCache
from numba.core.targetconfig import TargetConfig

__all__ = ["numba"]


@contextmanager
def _kept_if_it_can_be(cache: FunctionCache) -> Iterator[None]:
    """Go on where compiled code can neither be kept nor read: a full disk costs time, not the answer."""
    with suppress(OSError):
        yield


def _alike(one: TargetConfig, other: Any) -> Any:
    """Return whether two sets of flags are equal, by those that are set.

    Numba asks whenever it looks up what an operation compiles to, and reads every flag there is: a third of
    the time that a likelihood takes it.
    """
    if type(one) is not type(other):
        return _by_all_flags(one, other)  # type: ignore[no-untyped-call]
    here, there = one._values, other._values
    return here == there or all(
        getattr(one, name) == getattr(other, name) for name in {**here, **there}
    )


_by_all_flags = TargetConfig.__eq__
TargetConfig.__eq__ = _alike  # type: ignore[method-assign]
# Numba calls it around all that it reads and writes of a cache, for such an error of Windows alone.
FunctionCache._guard_against_spurious_io_errors = _kept_if_it_can_be  # type: ignore[assignment, method-assign]

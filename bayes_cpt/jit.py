"""Numba as this package uses it: what it compiles is kept if there is room for it.

Import it from here: ``from bayes_cpt.jit import numba``.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import numba
from numba.core.caching import FunctionCache

__all__ = ["numba"]


@contextmanager
def _kept_if_it_can_be(cache: FunctionCache) -> Iterator[None]:
    """Go on where compiled code can neither be kept nor read: a full disk costs time, not the answer."""
    with suppress(OSError):
        yield


# Numba calls it around all that it reads and writes of a cache, for such an error of Windows alone.
FunctionCache._guard_against_spurious_io_errors = _kept_if_it_can_be  # type: ignore[assignment, method-assign]

"""The threads of linear algebra: one, where many tasks already keep all cores busy."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any


@contextmanager
def one_thread(kind: str | None = None) -> Iterator[None]:
    """Have the libraries of numbers, all or ``blas`` alone, use one thread each.

    As a decorator too: of small matrices several threads only wait for each other.
    """
    with _libraries(len(sys.modules)).limit(limits=1, user_api=kind):
        yield


@lru_cache(maxsize=1)
def _libraries(modules: int) -> Any:
    """Return what limits the libraries that are loaded, which modules bring along.

    To look for them takes milliseconds, which is more than a small task does.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()

"""The threads of linear algebra: one, where many tasks already keep all cores busy."""

import sys
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any


def one_thread(kind: str | None = None) -> Any:
    """Return a context in which the libraries of numbers, all or ``blas`` alone, use one thread each."""
    return _libraries(len(sys.modules)).limit(limits=1, user_api=kind)


def one_blas_thread[**P, Result](function: Callable[P, Result]) -> Callable[P, Result]:
    """Return a function that does its linear algebra in one thread: of small matrices several only wait."""

    @wraps(function)
    def alone(*args: P.args, **kwargs: P.kwargs) -> Result:
        with one_thread("blas"):
            return function(*args, **kwargs)

    return alone


@lru_cache(maxsize=1)
def _libraries(modules: int) -> Any:
    """Return what limits the libraries that are loaded, which modules bring along.

    To look for them takes milliseconds, which is more than a small task does.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()

"""The threads of linear algebra: one, where many tasks already keep all cores busy."""

import sys
from functools import lru_cache
from typing import Any


def one_thread(kind: str | None = None) -> Any:
    """Return a context in which the libraries of numbers use one thread each.

    Parameters
    ----------
    kind : str, optional
        ``blas`` for linear algebra alone.
    """
    return _libraries(len(sys.modules)).limit(limits=1, user_api=kind)


@lru_cache(maxsize=1)
def _libraries(modules: int) -> Any:
    """Return what limits the libraries that are loaded, which modules bring along.

    To look for them takes milliseconds, which is more than a small task does.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()

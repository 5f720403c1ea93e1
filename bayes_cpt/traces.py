"""nutpie, and what its samplers have drawn, as arrays.

nutpie makes its traces into ArviZ's, and loads all of ArviZ for that, with its plots: a sixth of what a fit
takes to load. The draws are taken as they are here.
"""

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Of each chain the variables and the statistics, columns of Arrow.
type Trace = tuple[tuple[Any, Any], ...]

ARVIZ = "arviz"


class _WhenUsed(ModuleType):
    """Stands for ArviZ until something of it is used."""

    def __getattr__(self, name: str) -> Any:
        import arviz

        return getattr(arviz, name)


def import_nutpie() -> ModuleType:
    """Return nutpie, for which ArviZ is loaded when something of it is used."""
    put_off = "nutpie" not in sys.modules and ARVIZ not in sys.modules
    if put_off:
        sys.modules[ARVIZ] = _WhenUsed(ARVIZ)
    try:
        import nutpie

        return nutpie  # type: ignore[no-any-return]
    finally:
        if put_off:
            del sys.modules[ARVIZ]


def columns_of(raw: Any) -> Trace:
    """Return the columns of a raw trace of nutpie, which gives them once.

    Parameters
    ----------
    raw : object
        Of a sampler that was told to return raw traces.
    """
    return tuple(zip(*raw.get_arrow_trace(), strict=True))


def drawn(trace: Trace, draws: int, names: Sequence[str]) -> dict[str, NDArray[Any]] | None:
    """Return the first draws of each chain after its tuning, by name.

    Parameters
    ----------
    trace : tuple of tuple
        From `columns_of`.
    draws : int
        Per chain.
    names : sequence of str
        Of variables and of statistics, in order; those that it does not have are left out.

    Returns
    -------
    dict of str to ndarray, or None
        Shape (chains, draws), with a last axis where a draw is a list of numbers. None where a chain has
        fewer draws.
    """
    chains: dict[str, list[NDArray[Any]]] = {}
    for variables, statistics in trace:
        tuning = int(np.sum(_numbers(statistics, "tuning")))
        if variables.num_rows < tuning + draws:
            return None
        for part in (variables, statistics):
            kept = part.slice(tuning, draws)
            for name in (name for name in names if name in part.column_names):
                chains.setdefault(name, []).append(_numbers(kept, name))
    return {name: np.stack(of_chains) for name, of_chains in chains.items()}


def _numbers(part: Any, name: str) -> NDArray[Any]:
    """Return a column of a trace, a row for each draw."""
    import pyarrow

    column = pyarrow.array(part.column(name))
    if not pyarrow.types.is_large_list(column.type):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    return np.asarray(column.flatten().to_numpy(zero_copy_only=False)).reshape(len(column), -1)

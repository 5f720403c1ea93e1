"""Measurements beside what they are compared with, as a table of ratios."""

import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd
from testbench.report import markdown_table


@dataclass(frozen=True)
class Row:
    """One measurement.

    Parameters
    ----------
    what : str
    measured : float
    unit : str
    beside : str
        What it is compared with; empty where it stands alone.
    other : float, optional
        That, in the same unit.
    target : str
        What was aimed at, in words.
    met : bool, optional
        Whether it was reached.
    """

    what: str
    measured: float
    unit: str
    beside: str = ""
    other: float | None = None
    target: str = ""
    met: bool | None = None

    @property
    def ratio(self) -> float | None:
        """How many times the other it is."""
        return None if not self.other else self.measured / self.other


HEADER = ("benchmark", "what", "measured", "unit", "beside", "other", "ratio", "target", "met")


def cells(name: str, row: Row) -> list[str]:
    """Return the cells of a row of the benchmark of that name."""
    values = asdict(row) | {"benchmark": name, "ratio": row.ratio}
    return [_cell(values[key]) for key in HEADER]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def markdown(rows: Iterable[list[str]]) -> str:
    """Return rows of cells as a Markdown table under a line about the machine."""
    return f"{machine()}\n\n{markdown_table(_frame(rows))}\n"


def comma_separated(rows: Iterable[list[str]]) -> str:
    """Return rows of cells as CSV."""
    return str(_frame(rows).to_csv(index=False))


def _frame(rows: Iterable[list[str]]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=list(HEADER))


def machine() -> str:
    """Return what the timings depend on: cores, how busy they are, and Python."""
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return f"{os.cpu_count()} cores, load {busy:.1f}, Python {platform.python_version()}"


def core_seconds(function: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a function returns and the seconds of a core that this process spent on it.

    On a busy machine these are steadier than the clock's; threads add up.
    """
    started = time.process_time()
    found = function()
    return found, time.process_time() - started


def fastest(function: Callable[[], Any], repeats: int = 5) -> float:
    """Return the least seconds of a core of some calls."""
    return min(core_seconds(function)[1] for _ in range(repeats))


def peak_memory() -> float:
    """Return the largest memory this process has had, MiB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20

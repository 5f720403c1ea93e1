"""Draws -> whether they can be trusted: R-hat, effective draws, divergences, trajectories cut off.

A posterior is delivered when R-hat <= 1.01, bulk and tail ESS >= 400, nothing diverged or ran to
the greatest depth, and all is finite (docs/contract.md, "Diagnostics").
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats

HIGHEST_RHAT = 1.01
LOWEST_ESS = 400.0
TAILS = (0.05, 0.95)


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """The verdict on a posterior: figures per variable, counts of draws, and what falls short, in words."""

    rhat: dict[str, Floats]
    ess_bulk: dict[str, Floats]
    ess_tail: dict[str, Floats]
    divergences: int
    saturated: int
    problems: tuple[str, ...]

    @property
    def trustworthy(self) -> bool:
        """Whether the contract holds."""
        return not self.problems


def diagnose(values: Mapping[str, Floats], statistics: Mapping[str, NDArray[Any]]) -> Diagnostics:
    """Return the diagnostics of draws of shape (chains, draws, ...).

    Parameters
    ----------
    values : mapping of str to ndarray, shape (chains, draws, ...)
        Of every variable.
    statistics : mapping of str to ndarray, shape (chains, draws)
        At least ``diverging`` and ``reached_max_treedepth``.
    """
    finite = {name: value for name, value in values.items() if np.isfinite(value).all()}
    problems = [f"{name} has draws that are not finite" for name in values if name not in finite]
    rhat, bulk, tail = {}, {}, {}
    for name, value in finite.items():
        rhat[name], bulk[name], tail[name] = convergence(value)
    for name, own in rhat.items():
        if (worst := own.max()) > HIGHEST_RHAT:
            problems.append(f"R-hat of {name} is {worst:.4g}, above {HIGHEST_RHAT}")
    for label, effective in (("bulk", bulk), ("tail", tail)):
        for name, own in effective.items():
            if (worst := own.min()) < LOWEST_ESS:
                problems.append(f"{label} ESS of {name} is {worst:.4g}, below {LOWEST_ESS:g}")
    diverging = int(np.sum(statistics["diverging"]))
    saturated = int(np.sum(statistics["reached_max_treedepth"]))
    if diverging:
        problems.append(f"{diverging} draw{'' if diverging == 1 else 's'} diverged")
    if saturated:
        problems.append(f"{saturated} trajectories ran to the greatest depth")
    return Diagnostics(rhat, bulk, tail, diverging, saturated, tuple(problems))


def convergence(value: Floats) -> tuple[Floats, Floats, Floats]:
    """Return R-hat, bulk ESS and tail ESS of draws of shape (chains, draws, ...), shape (...)."""
    from arviz_stats.base import array_stats

    axes = {"chain_axis": 0, "draw_axis": 1}
    return (
        np.asarray(array_stats.rhat(value, **axes)),
        np.asarray(array_stats.ess(value, method="bulk", **axes)),
        np.asarray(array_stats.ess(value, method="tail", prob=TAILS, **axes)),
    )

"""Draws -> whether they can be trusted: R-hat, effective draws, divergences, trajectories cut off.

A posterior is delivered when R-hat <= 1.01, bulk and tail ESS >= 400, nothing diverged or ran to
the greatest depth, and all is finite (docs/contract.md, "Diagnostics").
"""

from collections.abc import Callable
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
    """The verdict on a posterior.

    Parameters
    ----------
    rhat, ess_bulk, ess_tail : dict of str to ndarray
        Per variable.
    divergences, saturated : int
        Draws that diverged; draws whose trajectory reached the greatest depth.
    problems : tuple of str
        What falls short of the contract, in words; empty where the posterior can be trusted.
    """

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


def diagnose(values: dict[str, Floats], statistics: dict[str, NDArray[Any]]) -> Diagnostics:
    """Return the diagnostics of draws of shape (chains, draws, ...).

    Parameters
    ----------
    values : dict of str to ndarray, shape (chains, draws, ...)
        Of every variable.
    statistics : dict of str to ndarray, shape (chains, draws)
        At least ``diverging`` and ``reached_max_treedepth``.
    """
    rhat, bulk, tail = {}, {}, {}
    problems = []
    for name, value in values.items():
        if not np.isfinite(value).all():
            problems.append(f"{name} has draws that are not finite")
            continue
        rhat[name], bulk[name], tail[name] = convergence(value)
    diverging = int(np.sum(statistics["diverging"]))
    saturated = int(np.sum(statistics["reached_max_treedepth"]))
    problems += _short_of("R-hat", rhat, lambda x: np.max(x) > HIGHEST_RHAT, np.max, "above 1.01")
    problems += _short_of("bulk ESS", bulk, lambda x: np.min(x) < LOWEST_ESS, np.min, "below 400")
    problems += _short_of("tail ESS", tail, lambda x: np.min(x) < LOWEST_ESS, np.min, "below 400")
    if diverging:
        problems.append(f"{diverging} draw{'' if diverging == 1 else 's'} diverged")
    if saturated:
        problems.append(f"{saturated} trajectories ran to the greatest depth")
    return Diagnostics(rhat, bulk, tail, diverging, saturated, tuple(problems))


def load_diagnostics() -> None:
    """Load what `convergence` calls, half a second, while something else is waited for."""
    _array_statistics()


def _array_statistics() -> Any:
    from arviz_stats.base import array_stats

    return array_stats


def convergence(value: Floats) -> tuple[Floats, Floats, Floats]:
    """Return R-hat, bulk ESS and tail ESS of draws of shape (chains, draws, ...), shape (...).

    Parameters
    ----------
    value : ndarray, shape (chains, draws, ...)
    """
    array_stats = _array_statistics()
    axes = {"chain_axis": 0, "draw_axis": 1}
    return (
        np.asarray(array_stats.rhat(value, **axes)),
        np.asarray(array_stats.ess(value, method="bulk", **axes)),
        np.asarray(array_stats.ess(value, method="tail", prob=TAILS, **axes)),
    )


def _short_of(
    label: str,
    by_name: dict[str, Floats],
    falls_short: Callable[[Floats], Any],
    worst: Callable[[Floats], Any],
    bound: str,
) -> list[str]:
    return [
        f"{label} of {name} is {float(worst(value)):.4g}, {bound}"
        for name, value in by_name.items()
        if falls_short(value)
    ]

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
    """The verdict on a posterior: figures per variable, counts, and what falls short, the worst first."""

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
    """Return the diagnostics of draws of every variable, shape (chains, draws, ...).

    Among the statistics, shape (chains, draws), are ``diverging`` and ``reached_max_treedepth``.
    """
    finite = {name: value for name, value in values.items() if np.isfinite(value).all()}
    problems = [f"{name} has draws that are not finite" for name in values if name not in finite]
    rhat, bulk, tail = {}, {}, {}
    for name, value in finite.items():
        rhat[name], bulk[name], tail[name] = convergence(value)
    figures = (
        ("R-hat", rhat, HIGHEST_RHAT, 1, np.inf),
        ("bulk ESS", bulk, LOWEST_ESS, -1, 0.0),
        ("tail ESS", tail, LOWEST_ESS, -1, 0.0),
    )
    for label, figure, limit, sign, unknown in figures:
        # Of fewer than four draws a chain, and of draws that are all alike, ArviZ's figures are NaN.
        told = {name: np.where(np.isnan(own), unknown, own) for name, own in figure.items()}
        worst = {name: sign * (sign * own).max() for name, own in told.items()}
        side = "above" if sign > 0 else "below"
        problems += [
            f"{label} of {name} is {worst[name]:.5g}, {side} {limit:g}"
            for name in sorted(worst, key=worst.__getitem__, reverse=sign > 0)
            if sign * (worst[name] - limit) > 0
        ]
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


def sampled(
    compiled: Any, names: tuple[str, ...], **settings: Any
) -> tuple[dict[str, Floats], tuple[str, ...]]:
    """Return draws of some variables of a model, chains one after the other, and what they fall short of.

    The model is from `nutpie.compile_pymc_model`, with its data; settings are those of `nutpie.sample`.
    """
    import nutpie

    # Spreads that few studies tell narrow to funnels, which take long trajectories.
    settings |= {"chains": 4, "maxdepth": 12, "save_warmup": False, "progress_bar": False}
    tree = nutpie.sample(compiled, **settings)
    values = {name: tree["posterior"][name].to_numpy() for name in names}
    statistics = {
        "diverging": tree["sample_stats"]["diverging"].to_numpy(),
        "reached_max_treedepth": tree["sample_stats"]["maxdepth_reached"].to_numpy(),
    }
    joined = {name: own.reshape(-1, *own.shape[2:]) for name, own in values.items()}
    return joined, diagnose(values, statistics).problems

"""Log density -> draws: whitening, NUTS by nutpie, diagnostics, and retries until they hold.

A posterior is delivered when R-hat <= 1.01, bulk and tail ESS >= 400, nothing diverged or ran to
the greatest depth, and all is finite (docs/contract.md, "Diagnostics"). An attempt that fails is repeated
with a metric learnt from its draws and smaller steps; if the last one fails the result says so.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.inference.whitening import Metric, Whitened, empirical_metric, laplace

type Floats = NDArray[np.float64]
type Progress = Callable[[str, float], None]

CHAINS = 4
HIGHEST_RHAT = 1.01
LOWEST_ESS = 400.0
TAILS = (0.05, 0.95)
# Chains start this many white sds from the mode: apart, but not where the whitening no longer holds.
JITTER = 0.3


@dataclass(frozen=True)
class Effort:
    """How hard one attempt tries: tuning and kept draws per chain, and the accept rate aimed at."""

    tune: int
    draws: int
    target_accept: float


EFFORTS = (Effort(300, 1000, 0.9), Effort(600, 1000, 0.97), Effort(1500, 2000, 0.995))


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


@dataclass(frozen=True, eq=False)
class Sample:
    """Draws of a model.

    Parameters
    ----------
    values : dict of str to ndarray, shape (chains, draws, ...)
        Constrained values of every sampled variable.
    statistics : dict of str to ndarray, shape (chains, draws)
        Of the sampler: diverging, depth, n_steps, step_size, energy, acceptance_rate, lp.
    diagnostics : Diagnostics
        Of the values.
    attempts : int
        How many were made.
    """

    values: dict[str, Floats]
    statistics: dict[str, NDArray[Any]]
    diagnostics: Diagnostics
    attempts: int = field(default=1)


class Samplable(Whitened, Protocol):
    """A log density that knows what its positions stand for."""

    def values(self, positions: Floats) -> dict[str, Floats]:
        """Return named values of positions of shape (..., dimensions)."""


def sample(
    density: Samplable,
    seed: int,
    *,
    draws: int | None = None,
    efforts: tuple[Effort, ...] = EFFORTS,
    progress: Progress | None = None,
    cores: int | None = None,
) -> Sample:
    """Sample a log density until its diagnostics hold, or the efforts are used up.

    Parameters
    ----------
    density : Samplable
        From `bayes_cpt.model.density.build_density`.
    seed : int
        The same seed gives the same draws on the same machine.
    draws : int, optional
        Draws kept per chain; each effort's own unless given.
    efforts : tuple of Effort
        Attempts in order.
    progress : callable, optional
        Told what goes on and the share of it that is done.
    cores : int, optional
        Chains sampled at once; as many as there are cores unless given.

    Raises
    ------
    SamplingError
        If the density is not finite near the priors' centre.
    KeyboardInterrupt
        If sampling is interrupted: a part of a posterior is not delivered.
    """
    report = progress or (lambda stage, share: None)
    report("finding the mode", 0.0)
    metric = laplace(density, seed)
    found = None
    for attempt, effort in enumerate(efforts):
        if draws is not None:
            effort = Effort(effort.tune, draws, effort.target_accept)
        stage = f"sampling, attempt {attempt + 1}" if attempt else "sampling"
        positions, statistics = _run(
            density, metric, effort, seed + attempt, cores, partial(report, stage)
        )
        values = density.values(positions)
        verdict = diagnose(values, statistics)
        found = Sample(values, statistics, verdict, attempt + 1)
        if verdict.trustworthy or not np.isfinite(positions).all():
            break
        metric = empirical_metric(positions.reshape(-1, positions.shape[-1]))
    assert found is not None
    return found


def _run(
    density: Samplable,
    metric: Metric,
    effort: Effort,
    seed: int,
    cores: int | None,
    report: Callable[[float], None],
) -> tuple[Floats, dict[str, NDArray[Any]]]:
    """Return positions, shape (chains, draws, dimensions), and sampler statistics."""
    import nutpie

    def tell(chains: Any) -> None:
        done = sum(chain.finished_draws for chain in chains)
        report(done / max(1, sum(chain.total_draws for chain in chains)))

    trace = nutpie.sample(
        _nutpie_model(density, metric),
        draws=effort.draws,
        tune=effort.tune,
        chains=CHAINS,
        cores=cores,
        seed=seed,
        target_accept=effort.target_accept,
        maxdepth=10,
        save_warmup=False,
        progress_bar=False,
        progress_callback=tell,
    )
    z = trace.posterior["z"].transpose("chain", "draw", ...).to_numpy()
    if z.shape[1] < effort.draws or np.isnan(z).any():
        # nutpie ends an interrupted run without an error and pads what is missing.
        raise KeyboardInterrupt
    stats = trace.sample_stats
    kept = {
        "diverging": "diverging",
        "depth": "tree_depth",
        "maxdepth_reached": "reached_max_treedepth",
        "n_steps": "n_steps",
        "step_size": "step_size",
        "energy": "energy",
        "mean_tree_accept": "acceptance_rate",
        "logp": "lp",
    }
    statistics = {
        name: stats[own].transpose("chain", "draw").to_numpy()
        for own, name in kept.items()
        if own in stats
    }
    return metric.center + z @ metric.factor.T, statistics


def _nutpie_model(density: Samplable, metric: Metric) -> Any:
    """Return the density in a metric as nutpie takes it: its only variable is ``z``."""
    from nutpie.compiled_pyfunc import from_pyfunc

    size = density.start.size
    function = density.in_metric(metric)

    def near_the_center(seed: Any) -> Floats:
        return JITTER * np.random.default_rng(seed).standard_normal(size)

    return from_pyfunc(
        size,
        make_logp_fn=lambda: function,
        make_expand_fn=lambda *seeds: lambda z: {"z": z},
        expanded_dtypes=[np.dtype(np.float64)],
        expanded_shapes=[(size,)],
        expanded_names=["z"],
        make_initial_point_fn=near_the_center,
    )


def diagnose(values: dict[str, Floats], statistics: dict[str, NDArray[Any]]) -> Diagnostics:
    """Return the diagnostics of draws of shape (chains, draws, ...)."""
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
        problems.append(f"{diverging} draws diverged")
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


def _short_of(
    label: str,
    found: dict[str, Floats],
    falls_short: Callable[[Floats], Any],
    worst: Callable[[Floats], Any],
    bound: str,
) -> list[str]:
    return [
        f"{label} of {name} is {float(worst(value)):.4g}, {bound}"
        for name, value in found.items()
        if falls_short(value)
    ]

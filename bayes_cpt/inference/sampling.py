"""Log density -> draws: whitening, NUTS by nutpie, and retries until the diagnostics hold.

Sampling goes on block by block until they hold with a margin (`bayes_cpt.inference.diagnostics`). An
attempt that cannot get there is repeated with a metric learnt from its draws and smaller steps; if the last
one fails the result says so.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats
from bayes_cpt.inference.density import Density
from bayes_cpt.inference.diagnostics import (
    LOWEST_ESS,
    Diagnostics,
    diagnose,
    load_diagnostics,
)
from bayes_cpt.inference.geometry.whitening import Metric, Whitened, empirical_metric, laplace
from bayes_cpt.inference.native import native_model
from bayes_cpt.traces import Trace, columns_of, drawn, import_nutpie

type Progress = Callable[[str, float], None]

CHAINS = 4
# Chains start this many white sds from the mode: apart, but not where the whitening no longer holds.
JITTER = 0.3


@dataclass(frozen=True)
class Effort:
    """How hard one attempt tries: tuning and at most kept draws per chain, and the accept rate aimed at."""

    tune: int
    draws: int
    target_accept: float


EFFORTS = (Effort(100, 3000, 0.9), Effort(300, 3000, 0.97), Effort(1500, 4000, 0.995))
# Where next to nothing is known of PT the posterior has narrow corners that only small steps go into: those
# of 0.995 diverge now and then, and the time is lost.
CAREFUL_EFFORTS = (Effort(2000, 4000, 0.998), Effort(3000, 6000, 0.9995))
# So it is with steps of 0.9 where single sizes deviate.
SIZES_EFFORTS = (Effort(300, 3000, 0.97), EFFORTS[2])
# Draws per chain after which the diagnostics are looked at first, and from then on. What is decided there
# depends on the draws alone, so that a seed gives the same posterior however fast the machine is.
FIRST_BLOCK, BLOCK = 500, 100
# Sampling ends when the diagnostics hold with this much to spare.
MARGIN_RHAT, MARGIN_ESS = 1.008, 500.0
# From so many draws per chain an attempt is given up that would not reach the contract at its full length.
PATIENCE = 1000
HOPELESS_RHAT = 1.1
# What nutpie calls a statistic of the sampler, and what ArviZ does.
STATISTICS = {
    "diverging": "diverging",
    "depth": "tree_depth",
    "maxdepth_reached": "reached_max_treedepth",
    "n_steps": "n_steps",
    "step_size": "step_size",
    "energy": "energy",
    "mean_tree_accept": "acceptance_rate",
    "logp": "lp",
}
# Draws per chain that are enough for most fits: what progress is counted by.
EXPECTED = 700
# Seconds between looks at a running sampler.
LOOK = 0.05


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
        """Return named values of positions of shape (..., dimensions).

        Parameters
        ----------
        positions : ndarray, shape (..., dimensions)
        """


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
        From `bayes_cpt.inference.density.density_of`.
    seed : int
        The same seed gives the same draws on the same machine.
    draws : int, optional
        Draws kept per chain; as many as the diagnostics need unless given.
    efforts : tuple of Effort
        Attempts in order.
    progress : callable, optional
        Told what goes on and the share of it that is done.
    cores : int, optional
        Climbs to the mode, and chains, at once; all of them unless given.

    Raises
    ------
    SamplingError
        If the density is not finite near the priors' centre.
    KeyboardInterrupt
        If sampling is interrupted: a part of a posterior is not delivered.
    """
    report = progress or (lambda stage, share: None)
    report("finding the mode", 0.0)
    metric = laplace(density, seed, cores)
    if isinstance(density, Density):
        density, metric = density.straightened(metric)
    best = None
    for attempt, effort in enumerate(efforts, start=1):
        stage = "sampling"
        if best is not None:
            stage = f"sampling, attempt {attempt} ({best.diagnostics.problems[0]})"
        judge = _Judge(density, metric, effort if draws is None else replace(effort, draws=draws))
        judge.whole = draws is not None
        white, best = _run(judge, seed + attempt - 1, cores, partial(report, stage), attempt)
        if best.diagnostics.trustworthy or not np.isfinite(white).all():
            break
        metric = empirical_metric(metric, white.reshape(-1, white.shape[-1]))
    assert best is not None
    return best


@dataclass
class _Judge:
    """Decides after each block of draws whether an attempt has reached its end."""

    density: Samplable
    metric: Metric
    effort: Effort
    # Whether the number of draws is asked for, so that nothing ends before it.
    whole: bool = False
    judged: int = 0

    def blocks(self, available: int) -> Iterator[int]:
        """Yield the draws per chain at which to judge, as far as they are there."""
        most = self.effort.draws
        steps = [] if self.whole else range(FIRST_BLOCK, most, BLOCK)
        for block in (*steps, most):
            if self.judged < block <= available:
                self.judged = block
                yield block

    def sample(self, trace: Trace, block: int, attempt: int) -> tuple[Floats, Sample]:
        """Return white coordinates, (chains, draws, dimensions), and the sample of the first draws."""
        columns = drawn(trace, block, ("z", *STATISTICS))
        if columns is None:
            # nutpie ends an interrupted run without an error.
            raise KeyboardInterrupt
        white = columns.pop("z")
        statistics = {STATISTICS[given]: column for given, column in columns.items()}
        values = self.density.values(self.metric.center + white @ self.metric.factor.T)
        return white, Sample(values, statistics, diagnose(values, statistics), attempt)

    def ends(self, sample: Sample) -> bool:
        """Whether the contract holds with a margin, or is out of reach."""
        verdict, block = sample.diagnostics, self.judged
        if block == self.effort.draws:
            return True
        if verdict.divergences or verdict.saturated or not verdict.rhat:
            return True
        rhat = max(float(np.max(value)) for value in verdict.rhat.values())
        ess = min(
            float(np.min(value))
            for by_name in (verdict.ess_bulk, verdict.ess_tail)
            for value in by_name.values()
        )
        if rhat <= MARGIN_RHAT and ess >= MARGIN_ESS:
            return True
        hopeless = ess * self.effort.draws / block < LOWEST_ESS or rhat > HOPELESS_RHAT
        return block >= PATIENCE and hopeless


def _run(
    judge: _Judge,
    seed: int,
    cores: int | None,
    report: Callable[[float], None],
    attempt: int,
) -> tuple[Floats, Sample]:
    """Return white coordinates, shape (chains, draws, dimensions), and the sample of one attempt.

    Chains that follow one another cannot be judged before the last has begun: they are first sampled to the
    usual length, and once more, with the same draws, to the full one where that was too short.
    """
    effort = judge.effort
    if cores is not None and cores < CHAINS and effort.draws > EXPECTED:
        ended = _run_to(judge, EXPECTED, seed, cores, report, attempt)
        if ended is not None:
            return ended
    whole = _run_to(judge, effort.draws, seed, cores, report, attempt)
    assert whole is not None
    return whole


def _run_to(
    judge: _Judge,
    most: int,
    seed: int,
    cores: int | None,
    report: Callable[[float], None],
    attempt: int,
) -> tuple[Floats, Sample] | None:
    """Return what the judge was content with, None if nothing of so many draws per chain was."""
    nutpie = import_nutpie()
    done = [0] * CHAINS
    effort = judge.effort

    def tell(chains: Any) -> None:
        done[:] = [chain.finished_draws for chain in chains]
        wanted = CHAINS * (effort.tune + min(EXPECTED, effort.draws))
        report(min(1.0, sum(done) / wanted))

    sampler = nutpie.sample(
        _nutpie_model(judge.density, judge.metric),
        draws=most,
        tune=effort.tune,
        chains=CHAINS,
        cores=cores or CHAINS,
        seed=seed,
        target_accept=effort.target_accept,
        maxdepth=10,
        save_warmup=False,
        progress_bar=False,
        progress_callback=tell,
        blocking=False,
        return_raw_trace=True,
    )
    try:
        load_diagnostics()
        while not _finished(sampler):
            time.sleep(LOOK)
            for block in judge.blocks(min(done) - effort.tune):
                # What the chains drew meanwhile would mostly be thrown away.
                sampler.pause()
                white, judged = judge.sample(columns_of(sampler.inspect()), block, attempt)
                if judge.ends(judged):
                    return white, judged
                sampler.resume()
        trace = columns_of(sampler.wait())
    finally:
        sampler.cancel()
    for block in judge.blocks(most):
        white, judged = judge.sample(trace, block, attempt)
        if judge.ends(judged):
            return white, judged
    return None


def _finished(sampler: Any) -> bool:
    """Whether a sampler has ended; one that is too busy to say has not."""
    try:
        return bool(sampler.is_finished)
    except TimeoutError:
        return False


def _nutpie_model(density: Samplable, metric: Metric) -> Any:
    """Return the density in a metric as nutpie takes it: its only variable is ``z``."""
    size = density.start.size

    def near_the_center(seed: Any) -> Floats:
        return JITTER * np.random.default_rng(seed).standard_normal(size)

    if isinstance(density, Density):
        return native_model(density.block(metric), near_the_center)
    from nutpie.compiled_pyfunc import from_pyfunc

    function = density.in_metric(metric)
    return from_pyfunc(
        size,
        make_logp_fn=lambda: function,
        make_expand_fn=lambda *seeds: lambda z: {"z": z},
        expanded_dtypes=[np.dtype(np.float64)],
        expanded_shapes=[(size,)],
        expanded_names=["z"],
        make_initial_point_fn=near_the_center,
    )

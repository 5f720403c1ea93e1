"""Log density -> draws: whitening, NUTS by nutpie, and retries until the diagnostics hold.

An attempt whose draws have too few effective ones goes on to as many as they ask for. One that diverges,
or would need more than it may draw, is followed by one with a metric learnt from its draws and smaller
steps; if the last one fails the result says so.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from bayes_cpt.arrays import Floats
from bayes_cpt.inference.callbacks import as_they_are, log_density
from bayes_cpt.inference.density import Density
from bayes_cpt.inference.diagnostics import LOWEST_ESS, Diagnostics, diagnose
from bayes_cpt.inference.metric import Climbed, Metric, bent_metric, modes

type Progress = Callable[[str, float], None]

CHAINS = 4
# Draws per chain of an attempt after which its diagnostics are looked at first: they suffice in seven of
# eight fits of cpt-lab, 500 in six, 1,000 in nearly all, for two thirds more time. What is decided there
# depends on the draws alone: a seed gives the same posterior on any machine.
FIRST_DRAWS = 600
# An attempt goes on to so many times the draws that its effective ones ask for.
ROOM = 1.3
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


@dataclass(frozen=True)
class SamplerSettings:
    """How hard one attempt tries: tuning and at most kept draws per chain, and the accept rate aimed at."""

    tune: int
    draws: int
    target_accept: float


# Short at first: where a metric is poor, one learnt from 2,000 of its draws does more than further draws.
# Then at once with steps that few posteriors need smaller: with 0.97 and 0.98 between, hard ones took twice
# as long.
ATTEMPTS = (
    SamplerSettings(150, 1000, 0.93),
    SamplerSettings(500, 2000, 0.99),
    SamplerSettings(1500, 6000, 0.998),
    SamplerSettings(1500, 6000, 0.999),
)
# Draws lie around a mode that are nearer to it than such a share of those of its Laplace approximation.
NEAR = 0.99
# Chains start so many white sds about the mode: there all slopes may be 0, which nutpie refuses.
JITTER = 0.3


@dataclass(frozen=True)
class MissedMode:
    """A mode of the posterior that was found and not sampled."""

    share: float  # of the posterior, by Laplace approximations
    parameter: str  # which is farthest from the draws there
    domain: str | None  # its validation set; None where it is shared
    there: float
    drawn: float  # at the median of the draws


@dataclass(frozen=True, eq=False)
class Sample:
    """Draws of a model."""

    # Every parameter of the law, also the fixed ones, of shape (chains, draws, ...)
    values: dict[str, Floats]
    # Of the sampler: diverging, tree_depth, n_steps, step_size, energy, acceptance_rate, lp,
    # of shape (chains, draws)
    statistics: dict[str, NDArray[Any]]
    diagnostics: Diagnostics  # of what is sampled
    attempts: int = 1  # how many were made
    missed: tuple[MissedMode, ...] = ()


def sample(
    density: Density,
    seed: int,
    *,
    draws: int | None = None,
    attempts: tuple[SamplerSettings, ...] = ATTEMPTS,
    progress: Progress | None = None,
    cores: int | None = None,
    known: Sequence[Climbed] = (),
) -> Sample:
    """Sample a log density until its diagnostics hold, or the attempts are used up.

    As many draws a chain as the diagnostics need, unless given; `cores` is of climbs to the mode, of which
    the first may be known, and chains. An interrupt goes through: a part of a posterior is not delivered.
    """
    report = progress or (lambda stage, share: None)
    report("finding the mode", 0.0)
    (_, metric), *others = modes(density, seed, cores, known)
    stage = "sampling"
    for attempt, settings in enumerate(attempts, start=1):
        run = _Run(density, metric, settings, seed + attempt - 1, cores, report, stage, attempt)
        white, found = run.to(draws) if draws else run.until_enough()
        if found.diagnostics.trustworthy:
            break
        metric = bent_metric(metric, metric.positions(white.reshape(-1, white.shape[-1])))
        stage = f"sampling, attempt {attempt + 1} ({found.diagnostics.problems[0]})"
    positions = run.metric.positions(white.reshape(-1, white.shape[-1]))
    missed = [_missed(density, share, other, positions) for share, other in others]
    return replace(found, missed=tuple(mode for mode in missed if mode))


def _missed(density: Density, share: float, mode: Metric, positions: Floats) -> MissedMode | None:
    """Return a mode, of a share of the evidence, around which there is no draw; None if there is one."""
    sds = np.linalg.solve(mode.factor, (positions - mode.center).T)
    if np.any((sds**2).sum(axis=0) < chi2.ppf(NEAR, len(sds))):
        return None
    away = (mode.center - positions.mean(axis=0)) / positions.std(axis=0)
    own = density.elements[density.places[int(np.argmax(np.abs(away)))]]
    places = mode.center[None], np.median(positions, axis=0)[None]
    there, drawn = (float(own.of(density.values(place)).item()) for place in places)
    return MissedMode(share, own.name, own.domain, there, drawn)


@dataclass(frozen=True)
class _Run:
    """One attempt: a density in a metric, and how it is sampled."""

    density: Density
    metric: Metric
    settings: SamplerSettings
    seed: int
    cores: int | None
    report: Callable[[str, float], None]
    stage: str
    attempt: int

    def until_enough(self) -> tuple[Floats, Sample]:
        """Return white coordinates and sample of as many draws as the effective ones ask for."""
        draws = min(FIRST_DRAWS, self.settings.draws)
        while draws <= self.settings.draws:
            white, found = self.to(draws)
            verdict = found.diagnostics
            if verdict.trustworthy or verdict.divergences or verdict.saturated or not verdict.rhat:
                break
            ess = min(map(np.min, (*verdict.ess_bulk.values(), *verdict.ess_tail.values())))
            # In this order 1.5 also where that is NaN.
            draws = int(draws * max(1.5, ROOM * LOWEST_ESS / ess))
        return white, found

    def to(self, draws: int) -> tuple[Floats, Sample]:
        """Return white coordinates, shape (chains, draws, numbers), and the sample of so many draws."""
        import nutpie

        def tell(chains: Any) -> None:
            done = sum(chain.finished_draws for chain in chains)
            self.report(self.stage, min(1.0, done / (CHAINS * (self.settings.tune + draws))))

        with warnings.catch_warnings():
            # What ArviZ says of an interrupted run's few draws.
            warnings.filterwarnings("ignore", "Found chain dimension", UserWarning)
            trace = nutpie.sample(
                self._model(),
                draws=draws,
                tune=self.settings.tune,
                chains=CHAINS,
                cores=self.cores or CHAINS,
                seed=self.seed,
                target_accept=self.settings.target_accept,
                maxdepth=10,
                save_warmup=False,
                progress_bar=False,
                progress_callback=tell,
            )
        white, told = trace["posterior"]["white"].to_numpy(), trace["sample_stats"]
        if white.shape[:2] != (CHAINS, draws) or np.isnan(told["energy"]).any():
            # nutpie ends an interrupted run without an error.
            raise KeyboardInterrupt
        statistics = {name: told[given].to_numpy() for given, name in STATISTICS.items()}
        flat = white.reshape(-1, white.shape[-1])
        values = self.density.values(self.metric.positions(flat).reshape(white.shape))
        verdict = diagnose(self.density.sampled(values), statistics)
        return white, Sample(values, statistics, verdict, self.attempt)

    def _model(self) -> Any:
        """Return the density as nutpie takes it: a function of white coordinates, and starts."""
        from nutpie.compile_pymc import CompiledPyMCModel

        size, evaluate = self.density.size, self.density.in_metric(self.metric)
        shapes = {"white": (size,)}

        def start(seed: int) -> Floats:
            return JITTER * np.random.default_rng(seed).standard_normal(size)

        return CompiledPyMCModel(
            dims={},
            reparameterized_names=None,
            compiled_logp_func=log_density,
            compiled_expand_func=as_they_are,
            initial_point_func=start,
            shared_data={},
            shared_var_keys={},
            user_data=evaluate.data,
            n_expanded=size,
            shape_info=(list(shapes), None, list(shapes.values())),
            logp_func=evaluate,
            expand_func=None,
            _n_dim=size,
            _shapes=shapes,
            _coords={},
        )

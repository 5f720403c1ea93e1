"""The natural parametrisation in PyMC, by PyMC's own sampler."""

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayes_cpt.arrays import Floats
from bayes_cpt.model.setup import Setup
from benchmarks.natural import bounds, flat_log_likelihood, priors
from benchmarks.residual_operation import log_likelihood


def model_of(setup: Setup) -> pm.Model:
    """Return the model: every coefficient a random variable."""
    ends = bounds(setup)
    with pm.Model() as model:
        values = {
            name: _variable(name, ends.get(name), *own) for name, own in priors(setup).items()
        }
        residual, scales = flat_log_likelihood(setup, values, pt)
        pm.Potential("curves", log_likelihood(residual, setup.design, scales))
    return model


def _variable(name: str, ends: Any, kind: str, center: Any, spread: Any, size: int) -> Any:
    if kind == "normal":
        return pm.Normal(name, center, spread, shape=size)
    if kind == "logitnormal":
        odds = pm.distributions.transforms.logodds
        return pm.LogitNormal(name, center, spread, shape=size, transform=odds)
    if ends:
        free, (lower, upper) = pm.LogNormal.dist(center, spread), ends
        return pm.Truncated(name, free, lower=lower, upper=upper, shape=size)
    return pm.LogNormal(name, center, spread, shape=size)


def sample(
    setup: Setup, start: dict[str, Floats], tune: int, draws: int, seed: int
) -> tuple[dict[str, Floats], float, int]:
    """Return draws of one chain, the seconds of a core they took after tuning, and their gradients."""
    with model_of(setup):
        trace = pm.sample(
            draws=draws,
            tune=tune,
            chains=1,
            cores=1,
            init="adapt_diag",
            initvals=start,
            random_seed=seed,
            progressbar=False,
            compute_convergence_checks=False,
        )
    found = {name: trace["posterior"][name].to_numpy() for name in priors(setup)}
    stats = trace["sample_stats"]
    steps = int(np.sum(stats["n_steps"].to_numpy()))
    return found, float(np.sum(stats["process_time_diff"].to_numpy())), steps

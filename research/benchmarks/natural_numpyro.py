"""The natural parametrisation in NumPyro, with a dense mass matrix and dense likelihoods."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from bayes_cpt.arrays import Floats
from bayes_cpt.model.setup import Setup
from benchmarks.natural import bounds, flat_log_likelihood, priors
from benchmarks.report import core_seconds

jax.config.update("jax_enable_x64", True)


def log_likelihood(residual: Any, setup: Setup, scales: Any) -> Any:
    """Return what `bayes_cpt.model.compiled.likelihood` does: dense normals of curves, a length at once."""
    lengths = setup.design.last - setup.design.first
    return sum(
        _normals(residual, setup, scales, setup.design.first[lengths == own, None] + np.arange(own))
        for own in np.unique(lengths)
    )


def _normals(residual: Any, setup: Setup, scales: Any, rows: Any) -> Any:
    """Return the log density of curves whose points stand in these rows, shape (curves, points)."""
    design, time = setup.design, setup.curves.points.steps[rows]
    memory = scales.memory[rows[:, 0]][:, None, None]
    later, earlier = time[:, :, None], time[:, None, :]
    anchored = np.isfinite(design.gap[rows[:, 0]])[:, None, None]
    fluctuation = jnp.exp(-np.abs(later - earlier) / memory)
    fluctuation -= anchored * jnp.exp(-(later + earlier) / memory)
    ramps = design.ramps[rows]
    covariance = (
        _outer(scales.fluctuation[rows]) * fluctuation
        + _outer(scales.misfit[rows]) * (ramps @ np.swapaxes(ramps, 1, 2))
        + _outer((scales.offset * design.floating)[rows])
    )
    normal = dist.MultivariateNormal(0.0, scale_tril=jnp.linalg.cholesky(covariance))
    return jnp.sum(normal.log_prob(residual[rows]))


def _outer(values: Any) -> Any:
    return values[:, :, None] * values[:, None, :]


def model(setup: Setup) -> None:
    """State the model."""
    ends = bounds(setup)
    values = {name: _draw(name, ends.get(name), *own) for name, own in priors(setup).items()}
    residual, scales = flat_log_likelihood(setup, values, jnp)
    numpyro.factor("curves", log_likelihood(residual, setup, scales))


def _draw(name: str, ends: Any, kind: str, center: Any, spread: Any, size: int) -> Any:
    if kind == "normal":
        return numpyro.sample(name, dist.Normal(center, spread).expand([size]))
    if ends:
        low, high = np.log(ends)
        free = dist.TruncatedNormal(center, spread, low=low, high=high).expand([size])
    else:
        free = dist.Normal(center, spread).expand([size])
    back = jax.nn.sigmoid if kind == "logitnormal" else jnp.exp
    return numpyro.deterministic(name, back(numpyro.sample(f"{name}_", free)))


def sample(
    setup: Setup, start: dict[str, Floats], tune: int, draws: int, seed: int
) -> tuple[dict[str, Floats], float, int]:
    """Return draws of one chain, the seconds of a core they took after tuning, and their gradients."""
    begin = {}
    for name, (kind, *_) in priors(setup).items():
        value = start[name]
        if kind == "normal":
            begin[name] = value
        else:
            begin[f"{name}_"] = np.log(value / (1.0 - value) if kind == "logitnormal" else value)
    strategy = numpyro.infer.init_to_value(values=begin)
    kernel = numpyro.infer.NUTS(model, dense_mass=True, init_strategy=strategy)
    chain = numpyro.infer.MCMC(
        kernel, num_warmup=tune, num_samples=draws, num_chains=1, progress_bar=False
    )
    chain.warmup(jax.random.key(seed), setup)
    # The first of two runs compiles the loop, and goes on warming up as it were.
    key = jax.random.key(seed + 1)
    _run(chain, key, setup)
    chain.post_warmup_state = chain.last_state
    _, seconds = core_seconds(lambda: _run(chain, key, setup))
    found = {n: np.asarray(v)[None] for n, v in chain.get_samples().items() if n in start}
    return found, seconds, int(np.sum(chain.get_extra_fields()["num_steps"]))


def _run(chain: Any, key: Any, setup: Setup) -> None:
    chain.run(key, setup, extra_fields=("num_steps",))
    jax.block_until_ready(chain.get_samples())

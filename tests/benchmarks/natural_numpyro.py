"""The natural parametrisation in NumPyro, with a dense mass matrix and a vectorised likelihood."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from bayes_cpt.setup import Setup
from benchmarks.natural import LONGEST_GAP, MEMORY, Floats, flat_log_likelihood, priors
from benchmarks.report import core_seconds

jax.config.update("jax_enable_x64", True)


def log_likelihood(residual: Any, setup: Setup, scales: Any) -> Any:
    """Return what `bayes_cpt.compiled.likelihood` does, in array expressions, all curves at once."""
    design = setup.design
    curve = setup.curves.points.curve_index
    columns = jnp.concatenate(
        [
            residual[:, None],
            (scales.offset * design.floating)[:, None],
            scales.misfit[:, None] * design.ramps,
        ],
        axis=1,
    )
    scaled = columns / scales.fluctuation[:, None]
    gap = np.minimum(design.gap, LONGEST_GAP)
    rho = jnp.exp(-gap / scales.memory)
    innovation = jnp.sqrt(-jnp.expm1(-2.0 * gap / scales.memory))
    before = jnp.concatenate([jnp.zeros_like(scaled[:1]), scaled[:-1]])
    carried = (rho * np.r_[False, np.diff(curve) == 0])[:, None]
    white = (scaled - carried * before) / innovation[:, None]
    count = len(setup.curves.curves)
    products = white[:, 1:, None] * white[:, None, 1:]
    precision = jnp.eye(white.shape[1] - 1) + jax.ops.segment_sum(products, curve, count)
    projection = jax.ops.segment_sum(white[:, 1:] * white[:, :1], curve, count)
    root = jnp.linalg.cholesky(precision)
    explained = jax.scipy.linalg.solve_triangular(root, projection[..., None], lower=True)
    return (
        -0.5 * jnp.sum(white[:, 0] ** 2)
        + 0.5 * jnp.sum(explained**2)
        - jnp.sum(jnp.log(jnp.diagonal(root, axis1=1, axis2=2)))
        - jnp.sum(jnp.log(scales.fluctuation * innovation))
        - 0.5 * white.shape[0] * np.log(2.0 * np.pi)
    )


def model(setup: Setup) -> None:
    """State the model."""
    values = {name: _draw(name, *own) for name, own in priors(setup).items()}
    residual, scales = flat_log_likelihood(setup, values, jnp)
    numpyro.factor("curves", log_likelihood(residual, setup, scales))


def _draw(name: str, kind: str, center: Any, spread: Any, size: int) -> Any:
    if kind == "normal":
        return numpyro.sample(name, dist.Normal(center, spread).expand([size]))
    if name in MEMORY:
        low, high = np.log(MEMORY[name])
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

"""cpt-replay written a second time, in JAX and NumPyro, sharing nothing with `bayes_cpt` but the input.

Schedules and losses come from a `Study`, prior numbers from the TOML file. Areas are the double sum of
Eq. 1 in closed form, which piecewise linear schedules have; the likelihood is one dense normal
distribution per curve.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from dense_residuals import misfit_covariance
from numpy.typing import NDArray

from bayes_cpt.study.study import Run, Study

jax.config.update("jax_enable_x64", True)

type Floats = NDArray[np.float64]

ROLES = ("general", "target")
ONLY = {
    "replay_onset": (0,),
    "replay_quarter": (0,),
    "saturation_rate": (1,),
    "saturation_exponent": (1,),
}
SHARED = ("memory", "slow_memory", "slow_share")
ONSET = 0.002
CHAINS = 2


@dataclass(frozen=True, eq=False)
class Falls:
    """Stretches of equal falls eta_{k-1} - eta_k up to the points.

    Parameters
    ----------
    counts, ages : ndarray, shape (points, stretches)
        n, how many falls of a stretch lie at or before the point, and t - k + 1 of the last of them.
    sizes : ndarray, shape (stretches,)
    """

    counts: Floats
    ages: Floats
    sizes: Floats


@dataclass(frozen=True, eq=False)
class CurveData:
    """One run on one validation set, as plain arrays."""

    domain: int
    continual: bool
    steps: Floats
    losses: Floats
    rates: Floats
    forward_pt: Floats
    forward_cpt: Floats
    falls_pt: Falls
    falls_cpt: Falls
    share: float
    base_loss: float
    unit_misfit: Floats


def _stretches(segments: Any, before: float, steps: Floats) -> Falls:
    found, done = [], 0.0
    for segment in segments:
        assert segment.shape in {"constant", "linear"}
        found.append((done, done + 1.0, before - segment.start))
        fall = (segment.start - segment.end) / segment.steps
        found.append((done, done + segment.steps, fall))
        before, done = segment.end, done + segment.steps
    first, last, sizes = np.array([own for own in found if own[2] != 0.0] or [(0, 1, 0)]).T
    counts = np.clip(np.minimum(steps[:, None], last) - first, 0.0, None)
    return Falls(counts, np.clip(steps[:, None] - last, 0.0, None) + 1.0, sizes)


def _after_warmup(schedule: Any, steps: Floats) -> Falls:
    """Return the falls of a PT run whose first segment is its warm-up."""
    warmup, *segments = schedule.segments
    assert warmup.start < warmup.end
    return _stretches(segments, warmup.end, steps - warmup.steps)


def curve_data(study: Study, run: Run, domain: int, reference: dict[str, float]) -> CurveData:
    """Return a curve's arrays; the points are those a fit uses."""
    name = (study.general, study.target)[domain]
    steps, losses = study.curve(run.name, str(name))
    rates = run.schedule.learning_rates()
    first = (
        0.0
        if run.phase == "cpt"
        else max(run.schedule.warmup_steps, reference["skip_pretraining"] * rates.size)
    )
    kept = steps > first
    points, losses = np.asarray(steps[kept], dtype=np.float64), losses[kept]
    index = points.astype(int) - 1
    own = np.cumsum(rates)[index]
    walk, knots = ("misfit_memory", 1) if run.phase == "cpt" else ("misfit_memory_pt", 8)
    nothing = _stretches((), 0.0, points)
    if run.phase == "pt":
        pt, cpt = _after_warmup(run.schedule, points), nothing
        forward_pt, forward_cpt = own, 0.0 * own
        share, base_loss = 0.0, np.nan
    else:
        schedule = study.base(str(run.base)).schedule
        assert schedule is not None
        base = schedule.learning_rates()
        end = np.full(points.size, float(base.size))
        pt = _after_warmup(schedule, end)
        cpt = _stretches(run.schedule.segments, base[-1], points)
        forward_pt, forward_cpt = np.full(points.size, base.sum()), own
        share = 1.0 - float(run.replay or 0.0)
        measured = study.base_loss(str(run.base), str(name))
        assert measured is not None
        base_loss = measured
    return CurveData(
        domain,
        run.phase == "cpt",
        points,
        losses,
        rates[index] / reference["rate"],
        forward_pt,
        forward_cpt,
        pt,
        cpt,
        share,
        base_loss,
        misfit_covariance(points, ONSET * reference["steps"], reference[walk], knots),
    )


def reference_points(study: Study) -> dict[str, float]:
    """Return where the sampled parameters are values of the law: medians over bases and runs."""
    bases = [base.schedule.learning_rates() for base in study.bases if base.schedule]
    cpt = [run.schedule.learning_rates() for run in study.continual_runs]
    return {
        "rate": max(run.schedule.learning_rates().max() for run in study.pretraining_runs),
        "forward_pt": float(np.median([rates.sum() for rates in bases])),
        "forward_cpt": float(np.median([rates.sum() for rates in cpt])),
        "steps": float(np.median([rates.size for rates in cpt])),
    }


def residual_settings(path: Path) -> dict[str, float]:
    """Return how much of PT is left out, and how much misfit is carried over an e-fold of steps."""
    table = tomllib.loads(path.read_text())["residuals"]
    return {
        name: float(table[name])
        for name in ("skip_pretraining", "misfit_memory", "misfit_memory_pt")
    }


def prior_numbers(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return each parameter's distribution per validation set it belongs to, from the file."""
    table = tomllib.loads(path.read_text())["priors"]
    found = {}
    for name, prior in table.items():
        domains = ONLY.get(name, (0,) if name in SHARED else (0, 1))
        found[name] = [prior.get(ROLES[domain], prior.get("every")) for domain in domains]
    return found


def _draw(name: str, priors: list[dict[str, Any]]) -> Any:
    kind = priors[0]["distribution"]
    column = {key: np.array([prior[key] for prior in priors]) for key in priors[0] if key[0] != "d"}
    if kind == "normal":
        return numpyro.sample(name, dist.Normal(column["mean"], column["sd"]))
    if kind == "logitnormal":
        middle = np.log(column["median"] / (1.0 - column["median"]))
        logit = numpyro.sample(f"{name}_", dist.Normal(middle, column["sigma"]))
        return numpyro.deterministic(name, jax.nn.sigmoid(logit))
    middle = np.log(column["median"])
    log = dist.Normal(middle, column["sigma"])
    if "lower" in column:
        low, high = np.log(column["lower"]), np.log(column["upper"])
        log = dist.TruncatedNormal(middle, column["sigma"], low=low, high=high)
    return numpyro.deterministic(name, jnp.exp(numpyro.sample(f"{name}_", log)))


def _area(falls: Falls, memory: Any) -> Any:
    """Return S2, the sum over k <= t of fall_k (1 - lambda^(t-k+1))/(1 - lambda), by stretches."""
    log = jnp.log1p(-1.0 / memory)
    powers = jnp.exp(falls.ages * log) * -jnp.expm1(falls.counts * log) * memory
    return memory * (falls.counts - powers) @ falls.sizes


def _mixed_area(falls: Falls, p: dict[str, Any]) -> Any:
    """Return S2 with a share of the gain at a second, slow pace: as much in the end."""
    memory, slow, share = (p[name][0] for name in SHARED)
    return (1.0 - share) * _area(falls, memory) + share * memory / slow * _area(falls, slow)


def law_curve(curve: CurveData, p: dict[str, Any], reference: dict[str, float]) -> Any:
    """Return the law at the points of a curve, nats/token, from parameters of shape (values,)."""
    d = curve.domain
    alpha, memory = p["exponent"][d], p["memory"][0]
    ratio = (curve.forward_pt + curve.forward_cpt) / reference["forward_pt"]
    excess = p["reference_slope"][d] / alpha
    gain = p["annealing_gain"][d] / (reference["rate"] * memory)
    area_pt = _mixed_area(curve.falls_pt, p)
    loss = p["reference_loss"][d] + excess * (ratio**-alpha - 1.0) - gain * area_pt
    if not curve.continual:
        return loss
    x, t = curve.share, curve.steps
    gain_cpt = gain * p["gain_ratio"][d] * jnp.exp(p["gain_replay"][d] * x)
    loss = loss - gain_cpt * _mixed_area(curve.falls_cpt, p)
    factor, beta = _factor(d, x, p), p["shift_exponent"][d]
    left = p["shift_size"][d] * (1.0 - p["adaptation_share"][d])
    size = left / (1.0 - (1.0 + p["shift_rate"][d]) ** -beta)
    rate = p["shift_rate"][d] / reference["forward_cpt"] * (x / factor) ** p["replay_rate"][d]
    shift = factor * size * (1.0 - (1.0 + rate * curve.forward_cpt) ** -beta)
    loss = loss + (shift if d == 0 else -shift)
    tau = p["adaptation_time"][d] * reference["steps"]
    transient = p["adaptation_share"][d] * p["shift_size"][d] * (1.0 if d == 0 else -1.0)
    transient = transient / (1.0 - jnp.exp(-1.0 / p["adaptation_time"][d]))
    loss = loss + transient * x * (1.0 - jnp.exp(-t / tau))
    at_base = (
        p["reference_loss"][d]
        + excess * ((curve.forward_pt[0] / reference["forward_pt"]) ** -alpha - 1.0)
        - gain * area_pt[0]
    )
    kept = p["offset_kept"][d]
    left = kept + (1.0 - kept) * jnp.exp(-t / (p["offset_time"][d] * reference["steps"]))
    return loss + (curve.base_loss - at_base) * left


def _factor(domain: int, x: float, p: dict[str, Any]) -> Any:
    if domain == 0:
        b = p["replay_onset"][0]
        gamma = -jnp.log(p["replay_quarter"][0]) / jnp.log(1.0 + 0.25 * b)
        return x * (1.0 + b * (1.0 - x)) ** -gamma
    c, delta = p["saturation_rate"][0], p["saturation_exponent"][0]
    return (1.0 - (1.0 + c * x) ** -delta) / (1.0 - (1.0 + c) ** -delta)


def _covariance(curve: CurveData, p: dict[str, Any], reference: dict[str, float]) -> Any:
    d, t = curve.domain, curve.steps
    phase = "cpt" if curve.continual else "pt"
    floor = p["fluctuation_floor"][d]
    heat = p[f"fluctuation_{phase}"][d] * (floor + (1.0 - floor) * curve.rates)
    memory = p["fluctuation_memory"][d] * reference["steps"]
    unit = jnp.exp(-np.abs(t[:, None] - t) / memory)
    misfit, level = p["misfit_pt"][d] ** 2, p["offset_pt"][d] ** 2
    if curve.continual:
        unit = unit - jnp.exp(-(t[:, None] + t) / memory)
        taken = p["misfit_replay"][d] * (1.0 - _factor(d, curve.share, p))
        misfit, level = p["misfit_cpt"][d] ** 2 * (1.0 - taken), 0.0
    return heat[:, None] * heat * unit + misfit * curve.unit_misfit + level


def model(
    curves: list[CurveData], priors: dict[str, list[dict[str, Any]]], reference: dict[str, float]
) -> None:
    """State the model to NumPyro."""
    p = {name: _draw(name, own) for name, own in priors.items()}
    for i, curve in enumerate(curves):
        normal = dist.MultivariateNormal(
            law_curve(curve, p, reference), covariance_matrix=_covariance(curve, p, reference)
        )
        numpyro.sample(f"curve_{i}", normal, obs=curve.losses)


def stated(study: Study, path: Path) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of `model` for a study and a file of priors, and what it samples, by name."""
    # The residuals' settings come from the same file as the priors.
    reference = reference_points(study) | residual_settings(path)
    curves = [curve_data(study, run, domain, reference) for run in study.runs for domain in (0, 1)]
    arguments = (curves, prior_numbers(path), reference)
    trace = numpyro.handlers.trace(numpyro.handlers.seed(model, 0)).get_trace(*arguments)
    sites = {
        name: site
        for name, site in trace.items()
        if site["type"] == "sample" and not site["is_observed"]
    }
    return arguments, sites


def sample(
    study: Study,
    path: Path,
    guess: dict[str, Floats],
    seed: int,
    *,
    warmup: int,
    draws: int,
    accept: float = 0.99,
) -> dict[str, Floats]:
    """Return draws of every parameter from NumPyro's NUTS.

    Parameters
    ----------
    study : Study
        Piecewise linear schedules only.
    path : Path
        TOML file of the priors.
    guess : dict of str to ndarray, shape (some, values)
        Draws whose mean and covariance serve as coordinates: they change the time this takes, not
        the distribution that is sampled.
    seed, warmup, draws : int
    accept : float
        Acceptance rate that steps are tuned to: wide priors leave ridges, on which long steps diverge.

    Returns
    -------
    dict of str to ndarray, shape (chains, draws, values)
        And of the sampler's own ``diverging`` and ``num_steps``.
    """
    arguments, sites = stated(study, path)
    bijections = {name: dist.biject_to(site["fn"].support) for name, site in sites.items()}
    columns = {}
    for name, bijection in bijections.items():
        values = guess[name.removesuffix("_")]
        kind = arguments[1][name.removesuffix("_")][0]["distribution"]
        if kind == "logitnormal":
            values = np.log(values / (1.0 - values))
        elif kind == "lognormal":
            values = np.log(values)
        columns[name] = np.asarray(bijection.inv(jnp.asarray(values)))
    sizes = [values.shape[1] for values in columns.values()]
    together = np.concatenate(list(columns.values()), axis=1)
    center, root = together.mean(axis=0), np.linalg.cholesky(np.cov(together, rowvar=False))

    def unconstrained(white: Any) -> dict[str, Any]:
        parts = jnp.split(center + root @ white, np.cumsum(sizes)[:-1])
        return dict(zip(columns, parts, strict=True))

    def potential(white: Any) -> Any:
        return numpyro.infer.util.potential_energy(model, arguments, {}, unconstrained(white))

    kernel = numpyro.infer.NUTS(potential_fn=potential, target_accept_prob=accept)
    chain = numpyro.infer.MCMC(
        kernel, num_warmup=warmup, num_samples=draws, num_chains=CHAINS, progress_bar=False
    )
    starts = 0.3 * np.random.default_rng(seed).standard_normal((CHAINS, center.size))
    fields = ("diverging", "num_steps")
    chain.run(jax.random.key(seed), init_params=jnp.asarray(starts), extra_fields=fields)
    white = chain.get_samples(group_by_chain=True)

    def constrained(one: Any) -> dict[str, Any]:
        chosen = {name: bijections[name](value) for name, value in unconstrained(one).items()}
        trace = numpyro.handlers.trace(numpyro.handlers.substitute(model, chosen))
        found = trace.get_trace(*arguments)
        return {name: found[name]["value"] for name in arguments[1]}

    found = jax.lax.map(constrained, white.reshape(-1, center.size))
    shaped = {name: np.asarray(own).reshape(CHAINS, draws, -1) for name, own in found.items()}
    return shaped | {name: np.asarray(chain.get_extra_fields()[name]) for name in fields}

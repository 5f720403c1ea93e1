"""cpt-replay written a second time, in JAX and NumPyro, sharing nothing with `bayes_cpt` but the input.

Schedules and losses come from a `Study`; priors and the options of the law from the TOML file. A level of
the learning rate is the sum of what every step has left of its own rate, with no recursion and no series;
the likelihood is one dense normal distribution per curve.
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

from bayes_cpt.arrays import Floats
from bayes_cpt.study.schedules import Schedule
from bayes_cpt.study.study import Run, Study

jax.config.update("jax_enable_x64", True)


ROLES = ("general", "target")
ONLY = {"replay_onset": (0,), "replay_quarter": (0,), "saturation_exponent": (1,)}
SHARED = ("memory", "slow_memory", "forward_power", "level_power", "peak_power")
# c of the saturating replay factor.
BEND = 16.0
ONSET = 0.002
CHAINS = 2
# Rate that steps are tuned to: wide priors leave ridges, on which long steps diverge.
ACCEPT = 0.997
# Options of a law and of the residuals that a file need not name.
PRINTED = {
    "carry_memory": False,
    "count_warmup": False,
    "memory_clock": 0.0,
    "skip_pretraining": 0.0,
    "rewarming_error": 0.0,
    "skip_warmups": 0.0,
    "skip_longest": 0.2,
}


@dataclass(frozen=True, eq=False)
class Course:
    """Stretches of equal learning rates, cut at the points."""

    rates: Floats  # by stretch
    counts: Floats  # of steps, by stretch
    # Whether a stretch lies before the point, of shape (points, stretches)
    reached: NDArray[np.bool_]

    @classmethod
    def of(cls, rates: Floats, points: Floats) -> "Course":
        """Return the course of a schedule up to each of some steps."""
        changes = [i for i in range(1, rates.size) if rates[i] != rates[i - 1]]
        edges = np.array(sorted({0, rates.size, *changes, *points.astype(int).tolist()}))
        first, last = edges[:-1], edges[1:]
        return cls(rates[first], (last - first).astype(np.float64), last <= points[:, None])

    def area(self, power: Any) -> Any:
        """Return the sum of the rates to a power up to each point."""
        above = np.where(self.rates > 0.0, self.rates, 1.0)
        return self.reached @ (self.counts * (self.rates > 0.0) * jnp.exp(power * np.log(above)))

    def level(self, memory: Any, before: Any, clock: float, rate: float) -> Any:
        """Return what is left at each point of the level before, and of every rate since."""
        log = jnp.log1p(-1.0 / memory)
        paces = self.counts * (self.rates / rate) ** clock
        passed = self.reached @ paces
        since = np.where(self.reached, passed[:, None] - np.cumsum(paces), 0.0)
        taken = self.reached * jnp.exp(log * since) * -jnp.expm1(log * paces)
        return before * jnp.exp(log * passed) + taken @ self.rates


@dataclass(frozen=True, eq=False)
class CurveData:
    """One run on one validation set, as plain arrays.

    `whole` runs from the first step of PT, `pt` over what of PT counts for its level, up to the points or
    the transfer, and `cpt` from the transfer.
    """

    domain: int
    continual: bool
    steps: Floats
    losses: Floats
    rates: Floats
    rewarming: Floats
    whole: Course
    before: Course
    pt: Course
    cpt: Course
    first_level: float
    start_pt: float
    last_rate: float
    carried: bool
    share: float
    base_loss: float
    unit_misfit: Floats
    log_peak: Floats


def first_step(study: Study, run: Run, settings: dict[str, Any]) -> float:
    """Return the step up to which losses of a PT run are left out."""
    own = run.schedule
    every = [other.schedule for other in study.runs if other.phase == "pt"]
    warmups = settings["skip_warmups"] * max(schedule.warmup_steps for schedule in every)
    limit = settings["skip_longest"] * max(schedule.steps for schedule in every)
    least = max(own.warmup_steps, settings["skip_pretraining"] * own.steps)
    return float(max(least, min(warmups, limit, 0.75 * own.steps)))


def curve_data(study: Study, run: Run, domain: int, settings: dict[str, Any]) -> CurveData:
    """Return a curve's arrays; the points are those a fit uses."""
    name = (study.general, study.target)[domain]
    steps, losses = study.curve(run.name, str(name))
    rates = run.schedule.learning_rates()
    continual = run.phase == "cpt"
    kept = steps > (0 if continual else first_step(study, run, settings))
    points, losses = np.asarray(steps[kept], dtype=np.float64), losses[kept]
    index = points.astype(int) - 1
    warmup = run.schedule.warmup_steps if continual else 0
    ahead = np.array([max(0.0, 1.0 - step / warmup) if warmup else 0.0 for step in points])
    walk, knots = ("misfit_memory", 1) if continual else ("misfit_memory_pt", 8)
    schedule = study.base(str(run.base)).schedule if continual else run.schedule
    assert schedule is not None
    pretraining = schedule.learning_rates()
    done = pretraining.size if continual else 0
    end = np.array([float(done)]) if continual else points
    # Annealing of PT counts from level 0, or from the rate that the warm-up ends at.
    counted = settings["count_warmup"]
    warmup = 0 if counted else schedule.warmup_steps
    top = float(pretraining[max(warmup - 1, 0)])
    base_loss = study.base_loss(str(run.base), str(name)) if continual else np.nan
    assert base_loss is not None
    relative = rates / settings["rate"]
    every = np.concatenate([pretraining, rates]) if continual else rates
    return CurveData(
        domain=domain,
        continual=continual,
        steps=points,
        losses=losses,
        rates=relative[index],
        rewarming=settings["rewarming_error"] * ahead,
        whole=Course.of(every, done + points),
        before=Course.of(pretraining, np.array([float(pretraining.size)])),
        pt=Course.of(pretraining[warmup:], end - warmup),
        cpt=Course.of(rates, points),
        first_level=0.0 if counted else top,
        start_pt=settings["rate"] if counted else top,
        last_rate=float(pretraining[-1]),
        carried=settings["carry_memory"] and run.optimizer_state != "reset",
        share=1.0 - float(run.replay or 0.0) if continual else 0.0,
        base_loss=float(base_loss),
        unit_misfit=misfit_covariance(points, ONSET * settings["steps"], settings[walk], knots),
        log_peak=np.log(_peaks(schedule, end) / settings["rate"]),
    )


def _peaks(schedule: Schedule, steps: Floats) -> Floats:
    """Return the highest rate of PT up to each of some steps, a warm-up taken as done."""
    rates, warmup = schedule.learning_rates(), schedule.warmup_steps
    return np.array([rates[: max(int(step), warmup, 1)].max() for step in steps])


def reference_points(study: Study, priors: dict[str, Any]) -> dict[str, float]:
    """Return where the sampled parameters are values of the law: medians over bases and runs."""
    bases = [base.schedule.learning_rates() for base in study.bases if base.schedule]
    cpt = [run.schedule.learning_rates() for run in study.continual_runs]
    peaks = [run.schedule.learning_rates().max() for run in study.pretraining_runs]
    middle = np.exp(np.median(np.log(peaks)))
    return {
        "rate": float(middle if "forward_power" in priors else max(peaks)),
        "forward_pt": float(np.median([rates.sum() for rates in bases])),
        "forward_cpt": float(np.median([rates.sum() for rates in cpt])),
        "steps": float(np.median([rates.size for rates in cpt])),
    }


def settings_of(study: Study, path: Path) -> dict[str, Any]:
    """Return the options of law and residuals, and the reference points of the study."""
    table = tomllib.loads(path.read_text())
    named: dict[str, Any] = PRINTED | table["law"] | table["residuals"]
    return named | reference_points(study, table["priors"])


def prior_numbers(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return each parameter's distribution per validation set it belongs to, from the file."""
    table = tomllib.loads(path.read_text())["priors"]
    found = {}
    for name, prior in table.items():
        domains = ONLY.get(name, (0,) if name in SHARED else (0, 1))
        found[name] = [prior.get(ROLES[domain], prior.get("every")) for domain in domains]
    return found


def free_places(priors: list[dict[str, Any]]) -> list[int]:
    """Return the validation sets on which a parameter is sampled."""
    return [i for i, prior in enumerate(priors) if prior["distribution"] != "fixed"]


def _draw(name: str, priors: list[dict[str, Any]]) -> Any:
    free = np.array(free_places(priors))
    whole = jnp.array([prior.get("value", 0.0) for prior in priors])
    if not free.size:
        return numpyro.deterministic(name, whole)
    drawn = _drawn(name, [priors[i] for i in free])
    return numpyro.deterministic(name, whole.at[free].set(drawn))


def _drawn(name: str, priors: list[dict[str, Any]]) -> Any:
    kind = priors[0]["distribution"]
    column = {key: np.array([prior[key] for prior in priors]) for key in priors[0] if key[0] != "d"}
    if kind == "normal":
        return numpyro.sample(f"{name}_", dist.Normal(column["mean"], column["sd"]))
    if kind == "logitnormal":
        middle = np.log(column["median"] / (1.0 - column["median"]))
        return jax.nn.sigmoid(numpyro.sample(f"{name}_", dist.Normal(middle, column["sigma"])))
    middle = np.log(column["median"])
    log = dist.Normal(middle, column["sigma"])
    if "lower" in column:
        low, high = np.log(column["lower"]), np.log(column["upper"])
        log = dist.TruncatedNormal(middle, column["sigma"], low=low, high=high)
    return jnp.exp(numpyro.sample(f"{name}_", log))


def _level(course: Course, before: Any, p: dict[str, Any], settings: dict[str, Any]) -> Any:
    """Return the level at the points at the fast pace, and at the slow one."""

    def at(memory: Any, place: int) -> Any:
        first = before[place] if isinstance(before, tuple) else before
        return course.level(memory, first, settings["memory_clock"], settings["rate"])

    fast = at(p["memory"][0], 0)
    if "slow_memory" not in p:
        return fast, fast
    return fast, at(p["slow_memory"][0] * settings["steps"], 1)


def _mixed(levels: tuple[Any, Any], p: dict[str, Any], domain: int) -> Any:
    """Return the level that a validation set shows: a share of it fades at the slow pace."""
    share = p["slow_share"][domain] if "slow_share" in p else 0.0
    return (1.0 - share) * levels[0] + share * levels[1]


def law_curve(curve: CurveData, p: dict[str, Any], settings: dict[str, Any]) -> Any:
    """Return the law at the points of a curve, nats/token, from parameters of shape (values,)."""
    d, rate = curve.domain, settings["rate"]
    alpha = p["exponent"][d]
    power = p["forward_power"][0] if "forward_power" in p else 1.0
    zeta = p["level_power"][0] if "level_power" in p else 1.0
    peaks = "peak" in settings["terms"]
    excess = p["reference_slope"][d] / alpha
    # As many steps at the reference rate make the reference area, whatever the power.
    reference_area = settings["forward_pt"] / rate * rate**power

    def powered(course: Course) -> Any:
        return p["reference_loss"][d] + excess * (
            (course.area(power) / reference_area) ** -alpha - 1.0
        )

    scale = jnp.exp(-(p["peak_power"][0] if "peak_power" in p else 0.0) * curve.log_peak)

    def gained(start: Any, level: Any) -> Any:
        return p["annealing_gain"][d] * ((start / rate) ** zeta - (level * scale / rate) ** zeta)

    def left_by_peak(at: Any) -> Any:
        return p["peak_slope"][d] * at + p["peak_curvature"][d] * at**2 if peaks else 0.0 * at

    levels_pt = _level(curve.pt, curve.first_level, p, settings)
    level_pt = _mixed(levels_pt, p, d)
    loss = powered(curve.whole) - gained(curve.start_pt, level_pt) + left_by_peak(curve.log_peak)
    if not curve.continual:
        return loss
    x, t = curve.share, curve.steps
    ratio = p["gain_ratio"][d] * jnp.exp(p["gain_replay"][d] * x)
    # What is carried over is each pace's own level; S2_cpt counts from what they make up.
    first = tuple(own[0] for own in levels_pt) if curve.carried else curve.last_rate
    start = level_pt[0] if curve.carried else curve.last_rate
    level = _mixed(_level(curve.cpt, first, p, settings), p, d)
    loss = loss - ratio * gained(start * scale, level)
    factor, beta = _factor(d, x, p), p["shift_exponent"][d]
    whole = p["shift_share"][d] * abs(p["reference_loss"][d])
    size = whole / (1.0 - (1.0 + p["shift_rate"][d]) ** -beta)
    pace = p["shift_rate"][d] / settings["forward_cpt"] * (x / factor) ** p["replay_rate"][d]
    of_shift = p["shift_power"][d] if "shift_power" in p else 1.0
    area = rate ** (1.0 - of_shift) * curve.cpt.area(of_shift)
    shift = factor * size * (1.0 - (1.0 + pace * area) ** -beta)
    loss = loss + (shift if d == 0 else -shift)
    if "damage" in p:
        squared = curve.cpt.area(2.0) * settings["steps"] / settings["forward_cpt"] ** 2
        loss = loss + p["damage"][d] * x * squared
    if "target_forgetting" in p:
        part = area / settings["forward_cpt"]
        unkept = x / (1.0 + 16.0 * (1.0 - x))
        loss = loss + 2.0 * p["target_forgetting"][d] * unkept * part / (1.0 + part)
    at_base = powered(curve.before)[0] - gained(curve.start_pt, level_pt[0])[0]
    at_base = at_base + left_by_peak(curve.log_peak)[0]
    kept = p["offset_kept"][d]
    left = kept + (1.0 - kept) * jnp.exp(-t / (p["offset_time"][d] * settings["steps"]))
    return loss + (curve.base_loss - at_base) * left


def _factor(domain: int, x: float, p: dict[str, Any]) -> Any:
    diluted = jnp.exp(p["replay_dilution"][domain] * (x - 1.0))
    if domain == 0:
        b = p["replay_onset"][0]
        gamma = -jnp.log(p["replay_quarter"][0]) / jnp.log(1.0 + 0.25 * b)
        return diluted * x * (1.0 + b * (1.0 - x)) ** -gamma
    delta = p["saturation_exponent"][0]
    return diluted * (1.0 - (1.0 + BEND * x) ** -delta) / (1.0 - (1.0 + BEND) ** -delta)


def _covariance(curve: CurveData, p: dict[str, Any], settings: dict[str, Any]) -> Any:
    d, t = curve.domain, curve.steps
    phase = "cpt" if curve.continual else "pt"
    floor = p["fluctuation_floor"][d]
    heat = p[f"fluctuation_{phase}"][d] * (floor + (1.0 - floor) * curve.rates) + curve.rewarming
    memory = p["fluctuation_memory"][d] * settings["steps"]
    unit = jnp.exp(-np.abs(t[:, None] - t) / memory)
    misfit, level = p["misfit_pt"][d] ** 2, p["offset_pt"][d] ** 2
    if curve.continual:
        unit = unit - jnp.exp(-(t[:, None] + t) / memory)
        taken = p["misfit_replay"][d] * (1.0 - _factor(d, curve.share, p))
        misfit, level = p["misfit_cpt"][d] ** 2 * (1.0 - taken), 0.0
    return heat[:, None] * heat * unit + misfit * curve.unit_misfit + level


def model(
    curves: list[CurveData], priors: dict[str, list[dict[str, Any]]], settings: dict[str, Any]
) -> None:
    """State the model to NumPyro."""
    p = {name: _draw(name, own) for name, own in priors.items()}
    for i, curve in enumerate(curves):
        normal = dist.MultivariateNormal(
            law_curve(curve, p, settings), covariance_matrix=_covariance(curve, p, settings)
        )
        numpyro.sample(f"curve_{i}", normal, obs=curve.losses)


def stated(study: Study, path: Path) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of `model` for a study and a file of priors, and what it samples, by name."""
    settings = settings_of(study, path)
    curves = [curve_data(study, run, domain, settings) for run in study.runs for domain in (0, 1)]
    priors = prior_numbers(path)
    if sum(run.phase == "pt" for run in study.runs) < 2:
        # A lone curve does not tell how far levels of curves lie apart.
        fixed = [{"distribution": "fixed", "value": one["median"]} for one in priors["offset_pt"]]
        priors["offset_pt"] = fixed
    # What is sampled hangs neither on the curves nor on values.
    still = numpyro.handlers.substitute(
        model, substitute_fn=lambda site: np.ones(site["fn"].shape()) if "fn" in site else None
    )
    trace = numpyro.handlers.trace(still).get_trace([], priors, settings)
    sites = {name: site for name, site in trace.items() if site["type"] == "sample"}
    return (curves, priors, settings), sites


def sample(
    study: Study, path: Path, guess: dict[str, Floats], seed: int, *, warmup: int, draws: int
) -> dict[str, Floats]:
    """Return draws of every parameter, and of ``diverging`` and ``num_steps``, from NumPyro's NUTS.

    Mean and covariance of the guessed draws, of shape (some, values), serve as coordinates: they change the
    time this takes, not the distribution that is sampled, of priors in a TOML file.
    """
    arguments, sites = stated(study, path)
    bijections = {name: dist.biject_to(site["fn"].support) for name, site in sites.items()}
    columns = {}
    for name, bijection in bijections.items():
        priors = arguments[1][name.removesuffix("_")]
        free = free_places(priors)
        values, kind = guess[name.removesuffix("_")][:, free], priors[free[0]]["distribution"]
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

    kernel = numpyro.infer.NUTS(potential_fn=potential, target_accept_prob=ACCEPT)
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

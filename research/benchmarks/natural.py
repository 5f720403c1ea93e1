"""cpt-replay as one would write it down first: priors on the coefficients of the printed equation.

Law and residual likelihood are those of the package; only what is sampled differs (L0, A, alpha, C1, C2, B,
E, beta, ...), and that nothing is whitened. So what it costs to sample is the parametrisation's doing.
"""

from typing import Any

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.laws.pretraining import log_reference_area
from bayes_cpt.model.priors.families import LogitNormal, LogNormal
from bayes_cpt.model.priors.tables import prior_ends
from bayes_cpt.model.setup import Setup

# Kind, centre (of the log, for a log-normal), spread, and how many there are: general and target, or one.
NATURAL: dict[str, tuple[str, Any, Any, int]] = {
    "L0": ("normal", 2.5, 1.0, 2),
    "A": ("lognormal", 0.5, 1.0, 2),
    "alpha": ("lognormal", np.log(0.4), 0.6, 2),
    "memory": ("lognormal", np.log(100.0), 1.0, 1),
    "slow_memory": ("lognormal", np.log(800.0), 0.6, 1),
    "slow_share": ("logitnormal", np.log(0.35 / 0.65), 1.0, 1),
    "C1": ("lognormal", 0.0, 1.5, 2),
    "C2": ("lognormal", 0.0, 1.5, 2),
    "a1": ("normal", 0.0, 0.2, 2),
    "B": ("lognormal", 0.0, 0.8, 2),
    "E": ("lognormal", np.log(10.0), 2.0, 2),
    "beta": ("lognormal", np.log(0.4), 0.6, 2),
    "omega": ("normal", 0.5, 0.4, 2),
    "b": ("lognormal", np.log(150.0), 1.2, 1),
    "gamma": ("lognormal", np.log(0.4), 0.6, 1),
    "c": ("lognormal", np.log(4.0), 1.2, 1),
    "delta": ("lognormal", np.log(2.0), 0.8, 1),
    "D": ("normal", 0.0, 0.2, 2),
    "tau": ("lognormal", np.log(600.0), 0.5, 2),
    "kappa": ("normal", 0.5, 0.4, 2),
    "tau_0": ("lognormal", np.log(90.0), 0.8, 2),
    "rho": ("lognormal", np.log(0.65), 0.3, 1),
    "zeta": ("lognormal", np.log(0.7), 0.3, 1),
    "k": ("normal", 0.0, 1.0, 2),
}
# Those that not every law has, and what of a law says that it has.
OPTIONAL = {
    "slow_memory": "slow_annealing",
    "slow_share": "slow_annealing",
    "rho": "forward_power",
    "zeta": "level_power",
    "k": "replay_dilution",
}
# Those that areas are tabulated over, and the parameter whose prior bounds them.
BOUNDED = {"memory": "memory", "slow_memory": "slow_memory", "rho": "forward_power"}
# Those that both validation sets share.
SHARED = ("memory", "slow_memory", "slow_share", "rho", "zeta")
SIGNS = np.array([1.0, -1.0])
# Where a coefficient of one validation set only stands.
PLACE = {"b": 0, "gamma": 0, "c": 1, "delta": 1}


def bounds(setup: Setup) -> dict[str, tuple[float, float]]:
    """Return the least and greatest value of those that areas are tabulated over."""
    own = setup.frame.spec.priors
    ends = {
        name: prior_ends(own[prior].of(None)) for name, prior in BOUNDED.items() if prior in own
    }
    return {name: both for name, both in ends.items() if both is not None}


def priors(setup: Setup) -> dict[str, tuple[str, Any, Any, int]]:
    """Return the priors of the coefficients, and those of the package for the residuals."""
    frame, law = setup.frame, setup.frame.spec.law
    found = {
        name: own
        for name, own in NATURAL.items()
        if name not in OPTIONAL or getattr(law, OPTIONAL[name])
    }
    for name in frame.spec.residuals.parameters(frame.spec.law):
        own = [frame.spec.priors[name].of(role) for role in frame.roles]
        if isinstance(own[0], LogNormal):
            centers = [np.log(prior.median) for prior in own]  # type: ignore[union-attr]
            kind = "lognormal"
        else:
            assert isinstance(own[0], LogitNormal)
            medians = np.array([prior.median for prior in own])  # type: ignore[union-attr]
            centers = list(np.log(medians / (1.0 - medians)))
            kind = "logitnormal"
        spreads = [prior.sigma for prior in own]  # type: ignore[union-attr]
        found[name] = (kind, np.array(centers), np.array(spreads), 2)
    return found


def coefficients(values: Any, xp: Any) -> dict[str, Any]:
    """Return the coefficients that the law takes from sampled values."""
    given = [name for name in NATURAL if name in values]
    found = {name: values[name] for name in given if name not in {*PLACE, *SHARED}}
    shared = {name: values[name][0] for name in given if name in SHARED}
    found["lambda"] = 1.0 - 1.0 / shared.pop("memory")
    if "slow_memory" in shared:
        found["lambda_slow"] = 1.0 - 1.0 / shared.pop("slow_memory")
    found |= shared
    found["B"] = values["B"] * SIGNS
    for name, place in PLACE.items():
        found[name] = values[name] * np.eye(2)[place]
    return found


def known_values(posterior: Any) -> dict[str, Floats]:
    """Return the same quantities from draws of a posterior of the package, shape (..., members)."""
    found = {}
    for name in NATURAL:
        if name not in posterior:
            continue
        values = np.asarray(posterior[name])
        if name in PLACE:
            values = values[..., PLACE[name], None]
        found[name] = (
            values[..., None] if name in SHARED else np.abs(values) if name == "B" else values
        )
    return found


def ess(draws: dict[str, Floats]) -> float:
    """Return the least bulk ESS of draws of shape (chains, draws, members)."""
    from bayes_cpt.inference.diagnostics import convergence

    return min(float(np.min(convergence(values)[1])) for values in draws.values())


def flat_log_likelihood(setup: Setup, values: Any, xp: Any) -> tuple[Any, Any]:
    """Return residuals and scales at the points, in the terms of NumPy, PyTensor or JAX."""
    frame, curves = setup.frame, setup.curves
    own = coefficients(values, xp)
    expected = frame.law.curve_loss(curves.points, curves.bases, own, xp)
    # What the scales of extrapolated points follow; none is fitted.
    free = {"forward_power": own["rho"]} if "rho" in own else {}
    area = log_reference_area(free, frame.reference, xp)
    slope = own["alpha"] * own["A"] * xp.exp(-own["alpha"] * area)
    given = values | {"reference_slope": slope}
    scales = frame.residual_scales(curves.points, setup.design.pretraining, given, own, xp)
    return curves.points.loss - expected, scales

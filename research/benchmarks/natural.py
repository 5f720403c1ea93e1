"""cpt-replay as one would write it down first: priors on the coefficients of the printed equation.

Law and residual likelihood are those of the package; only what is sampled differs (L0, A, alpha, C1, C2, B,
E, beta, ...), and that nothing is whitened. So what it costs to sample is the parametrisation's doing.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.model.compiled.kernels import PACES
from bayes_cpt.model.priors.families import LogitNormal, LogNormal
from bayes_cpt.model.setup import Setup

type Floats = NDArray[np.float64]

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
}
# Bounds of the memories, as in models/cpt-replay.toml.
MEMORY = {"memory": (10.0, 10_000.0), "slow_memory": (10.0, 30_000.0)}
SIGNS = np.array([1.0, -1.0])
# Where a coefficient of one validation set only stands.
PLACE = {"b": 0, "gamma": 0, "c": 1, "delta": 1}


def priors(setup: Setup) -> dict[str, tuple[str, Any, Any, int]]:
    """Return the priors of the coefficients, and those of the package for the residuals."""
    frame, found = setup.frame, dict(NATURAL)
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
    found = {name: values[name] for name in NATURAL if name not in {*PLACE, *PACES}}
    found["lambda"] = 1.0 - 1.0 / values["memory"][0]
    found["lambda_slow"] = 1.0 - 1.0 / values["slow_memory"][0]
    found["slow_share"] = values["slow_share"][0]
    found["B"] = values["B"] * SIGNS
    for name, place in PLACE.items():
        found[name] = values[name] * np.eye(2)[place]
    return found


def known_values(posterior: Any) -> dict[str, Floats]:
    """Return the same quantities from draws of a posterior of the package, shape (..., members)."""
    found = {}
    for name in NATURAL:
        values = np.asarray(posterior[name])
        if name in PLACE:
            values = values[..., PLACE[name], None]
        found[name] = (
            values[..., None] if name in PACES else np.abs(values) if name == "B" else values
        )
    return found


def ess(draws: dict[str, Floats]) -> float:
    """Return the least bulk ESS of draws of shape (chains, draws, members)."""
    from bayes_cpt.inference.sampling import convergence

    return min(float(np.min(convergence(values)[1])) for values in draws.values())


def flat_log_likelihood(setup: Setup, values: Any, xp: Any) -> tuple[Any, Any]:
    """Return residuals and scales at the points, in the terms of NumPy, PyTensor or JAX."""
    frame, curves = setup.frame, setup.curves
    own = coefficients(values, xp)
    expected = frame.law.curve_loss(curves.points, curves.bases, own, xp)
    scales = frame.residual_scales(curves.points, setup.design.pretraining, values, own, xp)
    return curves.points.loss - expected, scales

"""A metric for NUTS: the posterior in coordinates in which it is nearly a standard normal.

The law's posterior has ridges (docs/law.md, "What is sampled"). It is taken to
``position = center + factor·z`` over the coordinates of `bayes_cpt.inference.density`, with center and
factor from a Laplace approximation at the mode, or from the draws of an earlier attempt.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.errors import BayesCPTError

type Evaluate = Callable[[Floats], tuple[float, Floats]]

# Directions the data leave to the prior have a spread of order 1; more than this is a numerical mirage.
WIDEST = 2.0
STARTS = 3
# Rounds of a climb at the most, iterations in each, and the slope in white coordinates that ends it.
CLIMBS, ITERATIONS, FLAT = 12, 120, 0.02


class SamplingError(BayesCPTError):
    """The posterior could not be sampled at all."""


@dataclass(frozen=True, eq=False)
class Metric:
    """A linear map from white coordinates to those of a density.

    Parameters
    ----------
    center : ndarray, shape (dimensions,)
        Where z = 0 lies.
    factor : ndarray, shape (dimensions, dimensions)
        What a unit step of each z does.
    """

    center: Floats
    factor: Floats

    @property
    def table(self) -> Floats:
        """Both in one table, shape (dimensions, 1 + dimensions)."""
        return np.column_stack([self.center, self.factor])


class Whitened(Protocol):
    """A log density that can be put in white coordinates."""

    @property
    def start(self) -> Floats:
        """Where to look first, shape (dimensions,)."""

    def in_metric(self, metric: Metric) -> Evaluate:
        """Return the function of white coordinates: log density and gradient.

        Parameters
        ----------
        metric : Metric
            White coordinates; the function takes some, shape (dimensions,).
        """


def laplace(model: Whitened, seed: int, cores: int | None = None) -> Metric:
    """Return the metric of a Laplace approximation at the best mode found.

    Parameters
    ----------
    seed : int
        Of the starting points: the model's own and random ones around it.

    Raises
    ------
    SamplingError
        If the log density is not finite anywhere near the prior's centre.
    """
    size = model.start.size
    jitters = 0.5 * np.random.default_rng(seed).standard_normal((STARTS, size))
    jitters[0] = 0.0
    starts = [Metric(model.start + jitter, np.eye(size)) for jitter in jitters]
    with ThreadPoolExecutor(cores or STARTS) as pool:
        climbed = pool.map(partial(climb, model), starts)
        reached = [mode for mode in climbed if mode is not None]
    if not reached:
        raise SamplingError(
            "The posterior density is not finite near the centre of the priors. "
            "Check that the priors allow the losses of this study."
        )
    return max(reached, key=lambda mode: mode[0])[1]


def climb(model: Whitened, metric: Metric) -> tuple[float, Metric] | None:
    """Return the log evidence of a mode and the metric there, or None where it is not finite.

    Each round climbs in the metric of the last one's curvature: the first only has to come near the
    ridge, the next find it straight. The evidence, not the height, tells modes apart: it counts how
    much of the posterior lies around them.
    """
    from scipy.optimize import minimize

    reached = -np.inf
    for climb in range(CLIMBS):
        density = model.in_metric(metric)
        if climb and np.abs(density(np.zeros_like(model.start))[1]).max() < FLAT:
            break

        def negative(white: Floats, density: Any = density) -> tuple[float, Floats]:
            value, gradient = density(white)
            finite = np.isfinite(value) and bool(np.isfinite(gradient).all())
            return (-value, -gradient) if finite else (1e300, np.zeros_like(white))

        optimum = minimize(
            negative,
            np.zeros_like(model.start),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": ITERATIONS, "maxcor": 30},
        )
        if optimum.fun >= 1e300:
            return None
        reached = -float(optimum.fun)
        curved = _curvature_metric(density, metric, optimum.x)
        if curved is None:
            return None
        metric = curved
    return reached + float(np.linalg.slogdet(metric.factor)[1]), metric


def _curvature_metric(density: Evaluate, metric: Metric, mode: Floats) -> Metric | None:
    """Return the metric of the log density's curvature at the mode; None where that is not finite."""
    found = precision(density, metric, mode)
    if found is None:
        return None
    values, vectors = np.linalg.eigh(found)
    spread = 1.0 / np.sqrt(np.maximum(np.abs(values), WIDEST**-2))
    return Metric(metric.center + metric.factor @ mode, vectors * spread)


def precision(density: Evaluate, metric: Metric, white: Floats) -> Floats | None:
    """Return the negative curvature of a log density by the numbers of its positions, from its gradient.

    None where that is not finite: right beside the mode a law overflows.

    Parameters
    ----------
    density : callable
        Of white coordinates: log density and gradient.
    white : ndarray, shape (dimensions,)
        Where.

    Returns
    -------
    ndarray, shape (dimensions, dimensions), or None
    """
    size, step = white.size, 1e-4
    hessian = np.empty((size, size))
    for i in range(size):
        shift = np.zeros(size)
        shift[i] = step
        hessian[i] = (density(white - shift)[1] - density(white + shift)[1]) / (2 * step)
    if not np.isfinite(hessian).all():
        return None
    inverse = np.linalg.inv(metric.factor)
    return np.asarray(inverse.T @ (0.5 * (hessian + hessian.T)) @ inverse)


def empirical_metric(metric: Metric, white: Floats) -> Metric:
    """Return the metric of draws, shrunk towards their variances in the metric that they were drawn in.

    Over the coordinates of a density these variances would widen every ridge: the draws of many numbers
    tell its thickness less well than that metric does.

    Parameters
    ----------
    white : ndarray, shape (draws, dimensions)
        Draws, in white coordinates.
    """
    count, size = white.shape
    covariance = np.cov(white, rowvar=False)
    weight = count / (count + 5.0 * size)
    shrunk = weight * covariance + (1.0 - weight) * np.diag(np.diag(covariance))
    center = metric.center + metric.factor @ white.mean(axis=0)
    return Metric(center, metric.factor @ np.linalg.cholesky(shrunk))

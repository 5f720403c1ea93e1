"""A metric for NUTS: the posterior in coordinates in which it is nearly a standard normal.

The law's posterior has ridges (LAW.md section 5). Any `pymc.Model` is taken to
``position = center + factor·z`` over its unconstrained values, with center and factor from a Laplace
approximation at the mode, or from the draws of an earlier attempt.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pymc as pm
from numpy.typing import NDArray
from pytensor.compile.mode import optdb
from pytensor.graph.replace import graph_replace

from bayes_cpt.errors import BayesCPTError

type Floats = NDArray[np.float64]

# Directions the data leave to the prior have a spread of order 1; more than this is a numerical mirage.
WIDEST = 2.0
STARTS = 3
# Chains start this many white sds from the mode: apart, but not where the whitening no longer holds.
JITTER = 0.3
# Rounds of a climb at the most, iterations in each, and the slope in white coordinates that ends it.
CLIMBS, ITERATIONS, FLAT = 12, 120, 0.02


class SamplingError(BayesCPTError):
    """The posterior could not be sampled at all."""


@dataclass(frozen=True, eq=False)
class Metric:
    """A linear map from white to unconstrained coordinates.

    Parameters
    ----------
    center : ndarray, shape (dimensions,)
        Where z = 0 lies.
    factor : ndarray, shape (dimensions, dimensions)
        What a unit step of each z does.
    """

    center: Floats
    factor: Floats


@dataclass(frozen=True, eq=False)
class WhiteModel:
    """A model over white coordinates, compiled once for any data and metric.

    Parameters
    ----------
    compiled : nutpie model
        Its only variable is ``z``.
    names, shapes : sequence
        Value variables in the order of the unconstrained vector, and their shapes.
    start : ndarray, shape (dimensions,)
        The model's initial point, unconstrained.
    """

    compiled: Any
    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    start: Floats

    def with_metric(self, metric: Metric) -> Any:
        """Return the compiled model in another metric; nothing is compiled."""
        return self.compiled.with_data(metric_center=metric.center, metric_factor=metric.factor)

    def with_data(self, data: Mapping[str, NDArray[Any]]) -> "WhiteModel":
        """Return the model with other data of the same form; nothing is compiled.

        Data that the density does not depend on are passed over.
        """
        used = {shared.name: shared for shared in self.compiled.logp_func.get_shared()}
        chosen = {
            name: np.asarray(value, dtype=used[name].type.dtype)
            for name, value in data.items()
            if name in used
        }
        for name, value in chosen.items():
            used[name].set_value(value)
        return replace(self, compiled=self.compiled.with_data(**chosen))

    def density(self, metric: Metric) -> Any:
        """Return z -> (log density, gradient) in a metric."""
        for shared in self.compiled.logp_func.get_shared():
            if shared.name == "metric_center":
                shared.set_value(metric.center)
            if shared.name == "metric_factor":
                shared.set_value(metric.factor)
        function = self.compiled.logp_func

        def evaluate(white: Floats) -> tuple[float, Floats]:
            try:
                value, gradient = function(white)
            except ZeroDivisionError:
                # A far step of the climb can take a scale to 0; Numba raises where NumPy gives inf.
                return -np.inf, np.zeros_like(white)
            return float(value), np.array(gradient, dtype=np.float64)

        return evaluate

    def unpack(self, positions: Floats) -> dict[str, Floats]:
        """Return unconstrained values by name from positions of shape (..., dimensions)."""
        found, first = {}, 0
        for name, shape in zip(self.names, self.shapes, strict=True):
            size = math.prod(shape)
            part = positions[..., first : first + size]
            found[name] = part.reshape((*positions.shape[:-1], *shape))
            first += size
        return found


def whiten(model: pm.Model) -> WhiteModel:
    """Compile a model over white coordinates.

    Parameters
    ----------
    model : pymc.Model
        With continuous variables only.
    """
    import nutpie

    initial = model.initial_point()
    variables = model.value_vars
    shapes = [np.shape(initial[variable.name]) for variable in variables]
    start = np.concatenate([np.ravel(initial[variable.name]) for variable in variables])
    dimensions = start.size
    log_density = model.logp()
    with pm.Model() as white:
        center = pm.Data("metric_center", start)
        factor = pm.Data("metric_factor", np.eye(dimensions))
        z = pm.Flat("z", shape=dimensions)
        position = center + factor @ z
        parts, first = {}, 0
        for variable, shape in zip(variables, shapes, strict=True):
            size = math.prod(shape)
            parts[variable] = position[first : first + size].reshape(shape)
            first += size
        replaced = graph_replace([log_density], parts, strict=False)[0]
        pm.Potential("log_density", replaced)
    with _without_indexed_fusion():
        compiled = nutpie.compile_pymc_model(white)

    def near_the_center(seed: Any) -> Floats:
        return JITTER * np.random.default_rng(seed).standard_normal(dimensions)

    compiled = replace(compiled, initial_point_func=near_the_center)
    return WhiteModel(
        compiled,
        tuple(variable.name for variable in variables),
        tuple(shapes),
        start,
    )


@contextmanager
def _without_indexed_fusion() -> Iterator[None]:
    """Leave out a PyTensor 3.3 rewrite whose loops fail to compile where every input is a scalar."""
    rewrite = "fuse_indexed_into_elemwise"
    optdb.remove_tags(rewrite, "numba")
    try:
        yield
    finally:
        optdb.add_tags(rewrite, "numba")


def laplace(model: WhiteModel, seed: int) -> Metric:
    """Return the metric of a Laplace approximation at the best mode found.

    Parameters
    ----------
    model : WhiteModel
        Compiled.
    seed : int
        Of the starting points: the model's initial point and random ones around it.

    Raises
    ------
    SamplingError
        If the log density is not finite anywhere near the prior's centre.
    """
    best: tuple[float, Metric] | None = None
    generator = np.random.default_rng(seed)
    for start in range(STARTS):
        jitter = 0.5 * generator.standard_normal(model.start.size) * (start > 0)
        found = _climb(model, Metric(model.start + jitter, np.eye(model.start.size)))
        if found is not None and (best is None or found[0] > best[0]):
            best = found
    if best is None:
        raise SamplingError(
            "The posterior density is not finite near the centre of the priors. "
            "Check that the priors allow the losses of this study."
        )
    return best[1]


def _climb(model: WhiteModel, metric: Metric) -> tuple[float, Metric] | None:
    """Return the log evidence of a mode and the metric there, or None where it is not finite.

    Each round climbs in the metric of the last one's curvature: the first only has to come near the
    ridge, the next find it straight. The evidence, not the height, tells modes apart: it counts how
    much of the posterior lies around them.
    """
    from scipy.optimize import minimize

    reached = -np.inf
    for climb in range(CLIMBS):
        density = model.density(metric)
        if climb and np.abs(density(np.zeros_like(model.start))[1]).max() < FLAT:
            break

        def negative(white: Floats, density: Any = density) -> tuple[float, Floats]:
            value, gradient = density(white)
            finite = np.isfinite(value) and bool(np.isfinite(gradient).all())
            return (-value, -gradient) if finite else (1e300, np.zeros_like(white))

        found = minimize(
            negative,
            np.zeros_like(model.start),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": ITERATIONS, "maxcor": 30},
        )
        if found.fun >= 1e300:
            return None
        reached = -float(found.fun)
        metric = _curvature_metric(density, metric, found.x)
    return reached + float(np.linalg.slogdet(metric.factor)[1]), metric


def _curvature_metric(density: Any, metric: Metric, mode: Floats) -> Metric:
    """Return the metric of the log density's curvature at the mode, from its gradient."""
    size, step = mode.size, 1e-4
    hessian = np.empty((size, size))
    for i in range(size):
        shift = np.zeros(size)
        shift[i] = step
        hessian[i] = (density(mode - shift)[1] - density(mode + shift)[1]) / (2 * step)
    inverse = np.linalg.inv(metric.factor)
    precision = inverse.T @ (0.5 * (hessian + hessian.T)) @ inverse
    values, vectors = np.linalg.eigh(precision)
    spread = 1.0 / np.sqrt(np.maximum(np.abs(values), WIDEST**-2))
    return Metric(metric.center + metric.factor @ mode, vectors * spread)


def empirical_metric(positions: Floats) -> Metric:
    """Return the metric of draws, shape (draws, dimensions), shrunk towards their variances."""
    count, size = positions.shape
    covariance = np.cov(positions, rowvar=False)
    weight = count / (count + 5.0 * size)
    shrunk = weight * covariance + (1.0 - weight) * np.diag(np.diag(covariance))
    return Metric(positions.mean(axis=0), np.linalg.cholesky(shrunk))

"""A metric for NUTS: the posterior in coordinates in which it is nearly a standard normal.

The law's posterior has ridges (docs/law.md, "What is sampled"). It is taken to
``position = center + factor·z`` over the coordinates of `bayes_cpt.inference.density`, with center and
factor from a Laplace approximation at the mode. Ridges are curved: many runs tell a combination of numbers
a hundred times better than any of them. So z may be bent,

    z_t = scale_t·white_t + c_t + sum_{j<t} l_tj z_j + sum_{i<=j<t} q_tij z_i z_j,

wide directions first, i and j among the `WIDE` widest. Whatever the polynomials, this is one-to-one and its
Jacobian is constant, so the posterior of the draws stays what it is; they are learnt from the draws of an
earlier attempt.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
from scipy.linalg import solve_triangular

from bayes_cpt.arrays import Floats
from bayes_cpt.errors import BayesCPTError
from bayes_cpt.inference.coordinates import WIDE

type Evaluate = Callable[[Floats], tuple[float, Floats]]

# Directions the data leave to the prior have its spread; so many times that is a numerical mirage.
WIDEST = 2.0
STARTS = 12  # where there are two modes, every second climb ends in the lesser one
# Two modes lie so many sds of the better one apart at least; a lesser has such a share of its evidence.
SEPARATE, LEAST_SHARE = 3.0, 0.02
# Bends are shrunk as by so many draws that show none, and learnt from so many draws for each at least.
SHRINKAGE, DRAWS_PER_BEND = 30.0, 3
# Rounds of a climb at the most, iterations in each, and the slope in white coordinates that ends it.
CLIMBS, ITERATIONS, FLAT = 12, 120, 0.02


class SamplingError(BayesCPTError):
    """The posterior could not be sampled at all."""


@dataclass(frozen=True, eq=False)
class Metric:
    """A map from white coordinates to those of a density."""

    center: Floats  # where z = 0 lies, (dimensions,)
    factor: Floats  # what a unit step of each z does, (dimensions, dimensions)
    # Scale, then the coefficients of `_products` of the coordinates before each; not bent unless given,
    # of shape (dimensions, 1 + pairs)
    bends: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    @property
    def table(self) -> Floats:
        """Center and factor in one table, shape (dimensions, 1 + dimensions)."""
        return np.column_stack([self.center, self.factor])

    def positions(self, white: Floats) -> Floats:
        """Return positions of white coordinates, shape (draws, dimensions) both."""
        bent = white.copy()
        for place, (scale, *bends) in enumerate(self.bends):
            pairs = _pairs(place)
            bent[:, place] = scale * white[:, place] + _products(bent[:, :place]) @ bends[:pairs]
        return np.asarray(self.center + bent @ self.factor.T)


# Log evidence of a mode, or its share, and the metric there.
type Climbed = tuple[float, Metric]


class Whitened(Protocol):
    """A log density that can be put in white coordinates."""

    @property
    def starts(self) -> Floats:
        """Where to look first, shape (places, dimensions)."""

    @property
    def spreads(self) -> Floats:
        """How far the prior lets each coordinate move, shape (dimensions,)."""

    def in_metric(self, metric: Metric) -> Evaluate:
        """Return the function of white coordinates, shape (dimensions,): log density and gradient."""


def modes(
    model: Whitened, seed: int, cores: int | None = None, known: Sequence[Climbed] = ()
) -> list[Climbed]:
    """Return the share of the evidence of each mode found, by a Laplace approximation, and its metric.

    The best is the first; those below `LEAST_SHARE` of it are left out. `known` is what the first climbs
    found, where they were made.
    """
    reached = [*known, *climbed(model, seed, range(len(known), STARTS), cores)]
    if not reached:
        raise SamplingError(
            "The posterior density is not finite near the centre of the priors. "
            "Check that the priors allow the losses of this study."
        )
    reached.sort(key=lambda mode: -mode[0])
    best, apart = reached[0][0], list[Climbed]()
    for evidence, metric in reached:
        away = [np.linalg.solve(one.factor, metric.center - one.center) for _, one in apart]
        if evidence - best > np.log(LEAST_SHARE) and all(abs(x).max() > SEPARATE for x in away):
            apart.append((np.exp(evidence - best), metric))
    total = sum(share for share, _ in apart)
    return [(float(share / total), metric) for share, metric in apart]


def climbed(
    model: Whitened, seed: int, which: Sequence[int], cores: int | None = None
) -> list[Climbed]:
    """Return where some climbs end, those that end nowhere left out.

    They start at random around the model's own places, one at the first.
    """
    places, size = model.starts.shape
    jitters = 0.5 * np.random.default_rng(seed).standard_normal((STARTS, size))
    jitters[0] = 0.0
    units = np.diag(model.spreads)
    starts = [Metric(model.starts[k % places] + units @ jitters[k], units) for k in which]
    # The first call on a machine prints and compiles the law: once, not in each thread.
    model.in_metric(starts[0])(np.zeros(size))
    with ThreadPoolExecutor(cores or len(starts)) as pool:
        return [mode for mode in pool.map(partial(climb, model), starts) if mode is not None]


def climb(model: Whitened, metric: Metric) -> Climbed | None:
    """Return the log evidence of a mode and the metric there, or None where it is not finite.

    Each round climbs in the metric of the last one's curvature: the first only has to come near the
    ridge, the next find it straight. The evidence, not the height, tells modes apart: it counts how
    much of the posterior lies around them.
    """
    from scipy.optimize import minimize

    reached = -np.inf
    for climb in range(CLIMBS):
        density = model.in_metric(metric)
        if climb and np.abs(density(np.zeros_like(metric.center))[1]).max() < FLAT:
            break

        def negative(white: Floats, density: Any = density) -> tuple[float, Floats]:
            value, gradient = density(white)
            finite = np.isfinite(value) and bool(np.isfinite(gradient).all())
            return (-value, -gradient) if finite else (1e300, np.zeros_like(white))

        optimum = minimize(
            negative,
            np.zeros_like(metric.center),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": ITERATIONS, "maxcor": 30},
        )
        if optimum.fun >= 1e300:
            return None
        reached = -float(optimum.fun)
        curved = _curvature_metric(density, metric, optimum.x, model.spreads)
        if curved is None:
            return None
        metric = curved
    return reached + float(np.linalg.slogdet(metric.factor)[1]), metric


def _curvature_metric(
    density: Evaluate, metric: Metric, mode: Floats, spreads: Floats
) -> Metric | None:
    """Return the metric of the log density's curvature at the mode, from its gradient.

    Its directions are those of coordinates in sds of their priors: what is wide is what the data leave to
    the priors. None where it is not finite: right beside the mode a law overflows.
    """
    size, step = mode.size, 1e-4
    hessian = np.empty((size, size))
    for i in range(size):
        shift = np.zeros(size)
        shift[i] = step
        hessian[i] = (density(mode - shift)[1] - density(mode + shift)[1]) / (2 * step)
    if not np.isfinite(hessian).all():
        return None
    inverse = np.linalg.inv(metric.factor) * spreads
    values, vectors = np.linalg.eigh(inverse.T @ (0.5 * (hessian + hessian.T)) @ inverse)
    widths = 1.0 / np.sqrt(np.maximum(np.abs(values), WIDEST**-2))
    return Metric(metric.center + metric.factor @ mode, spreads[:, None] * vectors * widths)


def bent_metric(metric: Metric, positions: Floats) -> Metric:
    """Return the metric in which draws are as nearly independent standard normals as bends make them.

    Each coordinate of the given metric, from the widest to the narrowest, is regressed on those before
    it and their products. Where draws are too few to tell so many coefficients, none bends: the metric is
    that of their covariance, shrunk towards the variances. The metric is from `modes`, its directions
    sorted by how wide they are at the mode; its bends do not count.
    """
    plain = np.linalg.solve(metric.factor, (positions - metric.center).T).T
    middle, spread = plain.mean(axis=0), plain.std(axis=0)
    centered = (plain - middle) / spread
    count, size = centered.shape
    center, factor = metric.center + metric.factor @ middle, metric.factor * spread
    if count < DRAWS_PER_BEND * _pairs(size):
        shared = count / (count + 5.0 * size) * np.corrcoef(centered, rowvar=False)
        np.fill_diagonal(shared, 1.0)
        return Metric(center, factor @ np.linalg.cholesky(shared))
    products = _products(centered)
    # A Cholesky factor of the first rows is the first rows of the factor: one serves all regressions.
    square = products.T @ products
    square[np.diag_indices_from(square)] += SHRINKAGE
    lower = np.linalg.cholesky(square)
    projected = solve_triangular(lower, products.T @ centered, lower=True)
    bends = np.zeros((size, 1 + _pairs(size)))
    for place in range(size):
        pairs = _pairs(place)
        own = solve_triangular(lower[:pairs, :pairs].T, projected[:pairs, place])
        bends[place, 0] = (centered[:, place] - products[:, :pairs] @ own).std()
        bends[place, 1 : 1 + pairs] = own
    return Metric(center, factor, bends)


def _pairs(size: int) -> int:
    """Return how many `_products` there are of so many numbers."""
    wide = min(size, WIDE)
    return (wide + 1) * (wide + 2) // 2 + size - wide


def _products(numbers: Floats) -> Floats:
    """Return 1, numbers, (draws, numbers), and products of each of the first `WIDE` with those up to it."""
    whole = np.column_stack([np.ones(len(numbers)), numbers])
    before = [j + 1 if j <= WIDE else 1 for j in range(whole.shape[1])]
    return np.column_stack([whole[:, [j]] * whole[:, :count] for j, count in enumerate(before)])

"""Regression of a third set's changes on those of the law's losses, errors along a curve correlated.

Sizes of the residual have a normal posterior in their logs about its mode, the weights integrated out;
given sizes and a draw of the law the weights are normal. Everything is vectorised over draws.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.model.misfit.curve_residuals import CurveResidual, bridge, precision_products
from bayes_cpt.study.runs import Run

# Prior mean and sd of both weights; several targets have that mean together, and the sd each. The paper's
# eight pairs lie between -0.6 and 1.9, and the mean of each pair between 0.45 and 0.67 (docs/law.md).
WEIGHT_MEAN, WEIGHT_SD = 0.5, 1.0
# Medians and sds of the logs of misfit and fluctuation, nats/token, and of the correlation time as a share
# of the reference steps: those of the law's own losses, twice as wide.
SIZE_MEDIANS, SIZE_SDS = np.array([0.02, 0.01, 0.02]), np.array([1.6, 1.6, 1.0])
# Step of the differences that the curvature at the mode is taken from, in logs.
DIFFERENCE = 0.05
# Newton's steps to the mode: how many, how long at most in logs, shares of one that are tried, and the rise
# of the log density that ends them.
CLIMBS, LONGEST, HALVINGS, SETTLED = 30, 2.0, 0.5 ** np.arange(6), 1e-3
# Residuals of a run are averaged over its steps from this share on; fewer runs show no pattern.
LATE, FEWEST_RUNS = 0.75, 4


@dataclass(frozen=True, eq=False)
class Changes:
    """Changes along a CPT run since its base: of the third set, and of the law's losses.

    Parameters
    ----------
    steps : ndarray, shape (points,)
    change : ndarray, shape (points,)
        Of the third set, nats/token.
    causes : ndarray, shape (draws, points, sets)
        Of general and target losses without their fluctuation, nats/token.
    floor : ndarray, shape (draws,)
    learning_rate : ndarray, shape (points,)
    ramps : ndarray, shape (points, knots)
        As in `set_residual`.
    """

    steps: Floats
    change: Floats
    causes: Floats
    floor: Floats
    learning_rate: Floats
    ramps: Floats

    def averaged(self) -> Self:
        """Return the same at its mean over draws, which serves any number of sizes."""
        causes, floor = (values.mean(axis=0, keepdims=True) for values in (self.causes, self.floor))
        return replace(self, causes=causes, floor=floor)

    def residual(self, sizes: Sequence[Floats]) -> CurveResidual:
        """Return the run's residual at some sizes (see `set_residual`).

        Parameters
        ----------
        sizes : sequence of ndarray, shape (draws,)
        """
        return set_residual(sizes, self.floor, self.learning_rate, self.ramps)

    def products(self, sizes: Sequence[Floats]) -> tuple[Floats, Floats]:
        """Return `precision_products` of the change and its causes.

        Parameters
        ----------
        sizes : sequence of ndarray, shape (draws,)
        """
        draws = sizes[0].size
        columns = np.concatenate(
            [
                np.broadcast_to(self.change[:, None], (draws, self.steps.size, 1)),
                np.broadcast_to(self.causes, (draws, *self.causes.shape[1:])),
            ],
            axis=2,
        )
        return precision_products(self.residual(sizes), self.steps, columns)

    def left(self, weights: Floats) -> Floats:
        """Return what the linear form leaves, shape (draws, points).

        Parameters
        ----------
        weights : ndarray, shape (draws, sets)
        """
        return np.asarray(self.change - np.einsum("dpi,di->dp", self.causes, weights))

    def late(self, values: Floats) -> Floats:
        """Return means over the late part of the run, (..., points) -> (...).

        Parameters
        ----------
        values : ndarray, shape (..., points)
        """
        return np.asarray(values[..., self.steps >= LATE * self.steps[-1]].mean(axis=-1))


def set_residual(
    sizes: Sequence[Floats], floor: Floats, learning_rate: Floats, ramps: Floats
) -> CurveResidual:
    """Return the residual of a curve of a third set about the linear form.

    Parameters
    ----------
    sizes : sequence of ndarray, shape (draws,)
        Misfit, fluctuation and its correlation time.
    floor : ndarray, shape (draws,)
        Share of the fluctuation that is left at learning rate 0.
    learning_rate : ndarray, shape (points,)
        As a share of the reference learning rate.
    ramps : ndarray, shape (points, knots)
        Of the misfit (see `bayes_cpt.model.residuals.ResidualDesign`).
    """
    misfit, fluctuation, memory = (size[:, None] for size in sizes)
    share = floor[:, None]
    heat = np.broadcast_to(
        share + (1.0 - share) * learning_rate, (sizes[0].size, learning_rate.size)
    )
    return CurveResidual(
        anchored=True,
        columns=misfit[..., None] * ramps,
        fluctuation=fluctuation * heat,
        memory=np.broadcast_to(memory, heat.shape),
    )


def weight_means(sets: int) -> Floats:
    """Return the prior means of the weights of the general loss and of the targets', shape (sets,).

    Parameters
    ----------
    sets : int
        Of the law, the general one first.

    Examples
    --------
    >>> weight_means(3).tolist()
    [0.5, 0.25, 0.25]
    """
    return np.array([WEIGHT_MEAN, *[WEIGHT_MEAN / (sets - 1)] * (sets - 1)])


def _posterior_of_weights(products: Floats) -> tuple[Floats, Floats]:
    """Return precision and precision times mean of the weights, from products of all runs."""
    sets = products.shape[-1] - 1
    prior = np.eye(sets) / WEIGHT_SD**2
    precision = prior + products[:, 1:, 1:]
    return precision, products[:, 1:, 0] + prior @ weight_means(sets)


def _log_density(logs: Floats, data: Sequence[Changes], steps: float) -> Floats:
    """Return the log posterior density of log sizes, the weights integrated out, shape (places,).

    Parameters
    ----------
    logs : ndarray, shape (places, 3)
    data : sequence of Changes
        At their means over draws.
    steps : float
        Reference steps.
    """
    sizes = _sizes(logs, steps)
    parts = [changes.products(sizes) for changes in data]
    products = np.sum([product for product, _ in parts], axis=0)
    determinant = np.sum([log_determinant for _, log_determinant in parts], axis=0)
    precision, projection = _posterior_of_weights(products)
    solved = np.linalg.solve(precision, projection[..., None])[..., 0]
    explained = (projection * solved).sum(axis=1)
    likelihood = explained - products[:, 0, 0] - determinant - np.linalg.slogdet(precision)[1]
    prior = ((logs / SIZE_SDS) ** 2).sum(axis=1)
    return np.asarray(0.5 * (likelihood - prior))


def _sizes(logs: Floats, steps: float) -> list[Floats]:
    """Return misfit, fluctuation and memory from their logs over the prior medians."""
    values = SIZE_MEDIANS * np.exp(logs)
    return [values[:, 0], values[:, 1], values[:, 2] * steps]


def draw_sizes(
    data: Sequence[Changes], steps: float, draws: int, generator: np.random.Generator
) -> list[Floats]:
    """Return draws of misfit, fluctuation and memory: normal in their logs about the mode.

    Parameters
    ----------
    data : sequence of Changes
        Of all runs.
    steps : float
        Reference steps.
    draws : int
    generator : numpy.random.Generator
    """
    means = [changes.averaged() for changes in data]
    mode, rise = np.zeros(3), np.inf
    for _ in range(CLIMBS):
        slope, curvature = _derivatives(mode, means, steps)
        if rise < SETTLED:
            break
        step = _root(curvature) @ (_root(curvature).T @ slope)
        step *= min(1.0, LONGEST / float(np.linalg.norm(step)))
        tried = mode + np.r_[0.0, HALVINGS][:, None] * step
        heights = _log_density(tried, means, steps)
        best = int(heights.argmax())
        mode, rise = tried[best], float(heights[best] - heights[0])
    spread = _root(curvature)
    return _sizes(mode + generator.standard_normal((draws, 3)) @ spread.T, steps)


def _derivatives(place: Floats, data: Sequence[Changes], steps: float) -> tuple[Floats, Floats]:
    """Return slope and negative curvature of the log density of log sizes, by central differences."""
    apart, signs = DIFFERENCE * np.eye(3), (1.0, -1.0)
    pairs = [
        place + one * apart[i] + other * apart[j]
        for i in range(3)
        for j in range(3)
        for one in signs
        for other in signs
    ]
    values = _log_density(np.array(pairs), data, steps).reshape(3, 3, 2, 2)
    diagonal = values[np.arange(3), np.arange(3)]
    slope = (diagonal[:, 0, 0] - diagonal[:, 1, 1]) / (4.0 * DIFFERENCE)
    mixed = values[..., 0, 0] - values[..., 0, 1] - values[..., 1, 0] + values[..., 1, 1]
    return slope, -mixed / (2.0 * DIFFERENCE) ** 2


def _root(curvature: Floats) -> Floats:
    """Return a root of the covariance that belongs to a curvature; no direction is wider than the prior."""
    sizes, directions = np.linalg.eigh(0.5 * (curvature + curvature.T))
    return np.asarray(directions / np.sqrt(np.maximum(sizes, 1.0 / SIZE_SDS.max() ** 2)))


def draw_weights(
    data: Sequence[Changes], sizes: Sequence[Floats], generator: np.random.Generator
) -> Floats:
    """Return a draw of the weights in each draw of the law and the sizes, shape (draws, sets).

    Parameters
    ----------
    data : sequence of Changes
        Of all runs.
    sizes : sequence of ndarray, shape (draws,)
    generator : numpy.random.Generator
    """
    products = np.sum([changes.products(sizes)[0] for changes in data], axis=0)
    precision, projection = _posterior_of_weights(products)
    root = np.linalg.cholesky(precision)
    noise = generator.standard_normal(projection.shape)
    shifted = projection[..., None] + root @ noise[..., None]
    return np.asarray(np.linalg.solve(precision, shifted)[..., 0])


def explained_share(data: Sequence[Changes], residuals: Sequence[Floats]) -> float:
    """Return what share of the mean square late change the linear form explains, the median over draws.

    Parameters
    ----------
    data : sequence of Changes
    residuals : sequence of ndarray, shape (draws, points)
        What the form leaves of each run.
    """
    left = np.sum(
        [changes.late(values) ** 2 for changes, values in zip(data, residuals, strict=True)], axis=0
    )
    whole = np.sum([changes.late(changes.change) ** 2 for changes in data])
    return float(np.median(1.0 - left / whole)) if whole else 0.0


def pattern_probability(
    data: Sequence[Changes],
    residuals: Sequence[Floats],
    sizes: Sequence[Floats],
    runs: Sequence[Run],
    generator: np.random.Generator,
) -> float:
    """Return how often the model's own residuals go as closely with a quantity of the runs as these do.

    A posterior predictive p-value of the largest absolute correlation over runs of the late residual with
    replay ratio, peak learning rate, mixture of targets or the late change of a loss of the law; NaN of too
    few runs.

    Parameters
    ----------
    data, residuals
        As in `explained_share`.
    sizes : sequence of ndarray, shape (draws,)
    runs : sequence of Run
    generator : numpy.random.Generator
    """
    if len(data) < FEWEST_RUNS:
        return float("nan")
    # Two replay ratios or peaks that differ by a rounding error are one.
    columns = [
        np.array([run.replay or 0.0 for run in runs]),
        np.log([run.schedule.peak for run in runs]),
        *(
            np.array([changes.late(changes.causes[..., i].mean(axis=0)) for changes in data])
            for i in range(data[0].causes.shape[-1])
        ),
    ]
    targets = sorted({name for run in runs for name in run.mixture})
    if len(targets) > 1:
        columns += [np.array([run.mixture.get(name, 0.0) for run in runs]) for name in targets]
    features = np.array([column for column in columns if np.ptp(column) > 1e-9])
    measured = np.stack([changes.late(left) for changes, left in zip(data, residuals, strict=True)])
    drawn = np.stack(
        [
            changes.late(drawn_residual(changes.residual(sizes), changes.steps, generator))
            for changes in data
        ]
    )
    return float(np.mean(_closest(drawn, features) >= _closest(measured, features)))


def drawn_residual(part: CurveResidual, steps: Floats, generator: np.random.Generator) -> Floats:
    """Return residuals of a curve that was not measured, shape (draws, points), nats/token.

    Parameters
    ----------
    part : CurveResidual
    steps : ndarray, shape (points,)
    generator : numpy.random.Generator
    """
    draws, points, columns = part.columns.shape
    slow = np.einsum("dpk,dk->dp", part.columns, generator.standard_normal((draws, columns)))
    normals = generator.standard_normal((points, draws))
    fast = bridge(steps, part, np.empty(0), np.empty((draws, 0)), normals)
    return np.asarray(slow + part.fluctuation * fast)


def _closest(values: Floats, features: Floats) -> Floats:
    """Return the largest absolute correlation over runs with any feature, (runs, draws) -> (draws,)."""
    if not len(features):
        return np.zeros(values.shape[1])
    values, features = (
        array - array.mean(axis=axis, keepdims=True) for array, axis in ((values, 0), (features, 1))
    )
    norms = np.sqrt((values**2).sum(axis=0)) * np.sqrt((features**2).sum(axis=1))[:, None]
    return np.asarray(np.abs(features @ values / np.maximum(norms, 1e-300)).max(axis=0))

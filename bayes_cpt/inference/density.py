"""`pymc.Model` -> its log density and gradient, as fast as a sampler wants them.

Priors, transforms and data are read off the model; its likelihood is the model's own operation. The same
function through PyTensor costs seconds of compilation in every process; this one costs none
(docs/benchmarks.md). The density is over the unconstrained values of the parameters, whose annealing paces
are taken as mean and ratio, and deviations of sizes such that their ridges are straight
(`bayes_cpt.inference.geometry.coordinates`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats
from bayes_cpt.errors import BayesCPTError
from bayes_cpt.inference.geometry.coordinates import (
    follow_ridges,
    join_paces,
    open_funnels,
    separate_paces,
    separate_spreads,
    turn,
)
from bayes_cpt.inference.geometry.funnels import OFFSETS, funnels_of
from bayes_cpt.inference.geometry.saturations import (
    add_saturation,
    saturations_of,
    take_saturation,
)
from bayes_cpt.inference.geometry.whitening import Metric, climb, straightened
from bayes_cpt.inference.joint_priors import correlations_of, pools_of
from bayes_cpt.inference.native import (
    BOUNDED,
    LOG_NORMAL,
    LOGIT_NORMAL,
    NORMAL,
    compiled_density,
)
from bayes_cpt.laws.size import OF_SIZES
from bayes_cpt.model.compiled.blocks import packed
from bayes_cpt.model.compiled.packing import length
from bayes_cpt.model.law_table import PACES
from bayes_cpt.model.priors.correlations import CORRELATED, excess_precision
from bayes_cpt.model.priors.families import LogitNormal, LogNormal, Normal
from bayes_cpt.model.priors.family import Family
from bayes_cpt.model.priors.pooling import ALIKE

if TYPE_CHECKING:
    import pymc as pm


# How a variable is sampled, by PyMC's names of distribution and transform.
KINDS = {
    ("NormalRV", "NoneType"): NORMAL,
    ("LogNormalRV", "LogTransform"): LOG_NORMAL,
    ("LogitNormal", "LogOddsTransform"): LOGIT_NORMAL,
    ("TruncatedRV", "Interval"): BOUNDED,
}
FAMILIES: tuple[type[Family], ...] = (Normal, LogNormal, LogitNormal)


class ModelError(BayesCPTError):
    """A `pymc.Model` with a part that this sampler does not know."""


@dataclass(frozen=True, eq=False)
class Density:
    """The log density of a model over the coordinates of a sampler.

    Parameters
    ----------
    names : tuple of str
        The free variables, in order.
    shapes : tuple of tuple of int
        Of their values.
    priors : tuple of ndarray
        Kind, centre, spread and bounds of each sampled number.
    places : ndarray of int, shape (dimensions,)
        Where the sampled numbers stand among all values of the law.
    template : ndarray, shape (values,)
        All values of the law, the fixed ones filled in.
    paces : ndarray of int, shape (3,)
        Where those of `PACES` stand among the sampled numbers, -1 where they are not sampled.
    likelihood : int
        Address of the record of the model's law (`bayes_cpt.model.compiled.native`).
    pools : ndarray of int, shape (populations, members + 1)
        Where what several targets, or batches, have of a parameter stands among the sampled numbers, their
        spread last.
    arrays : tuple of ndarray
        Measured losses, then the data of the model.
    correlated : ndarray of int, shape (correlated,)
        Where parameters with correlated priors stand.
    correlation : ndarray, shape (correlated, correlated)
        On the scales on which these priors are normal.
    deviations : ndarray of int, shape (deviations, 2)
        Where each number that counts in sds of a sampled log-normal spread stands, and that spread.
    offsets : ndarray of int, shape (offsets,)
        Where the logarithms of the spreads of what runs lie off the law by stand.
    turned, turns : ndarray
        As in `bayes_cpt.inference.geometry.coordinates.turn`: none as the density of a model is made.
    centred, levels : ndarray
        As in `bayes_cpt.inference.geometry.coordinates.separate_spreads`.
    ridges, moves : ndarray
        As in `bayes_cpt.inference.geometry.coordinates.follow_ridges`.
    funnels, directions, readings, widths : ndarray
        As in `bayes_cpt.inference.geometry.coordinates.open_funnels`.
    saturated : ndarray of int, shape (sets, 3)
        From `bayes_cpt.inference.geometry.saturations.saturations_of`.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    priors: tuple[Any, ...]
    places: NDArray[np.int64]
    template: Floats
    paces: NDArray[np.int64]
    likelihood: int
    pools: NDArray[np.int64]
    arrays: tuple[Any, ...]
    correlated: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    correlation: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    deviations: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))
    offsets: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    turned: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    turns: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    centred: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))
    levels: Floats = field(default_factory=lambda: np.zeros(0))
    ridges: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))
    moves: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    funnels: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    directions: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    readings: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    widths: Floats = field(default_factory=lambda: np.zeros((0, 3)))
    saturated: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 3), dtype=np.int64))

    @property
    def start(self) -> Floats:
        """The medians of the priors, in the sampler's coordinates, shape (dimensions,)."""
        kind, center, _, lower, upper = self.priors
        start = np.array(center)
        bounded = kind == BOUNDED
        share = (np.exp(center[bounded]) - lower[bounded]) / (upper - lower)[bounded]
        start[bounded] = np.log(share / (1.0 - share))
        take_saturation(start, self.saturated)
        join_paces(start, self.paces, self.pace_offset)
        return start

    @property
    def pace_offset(self) -> float:
        """Unconstrained slow memory less unconstrained memory where the two are equal."""
        kind, _, _, lower, upper = self.priors
        scales = [
            np.log(upper[j] - lower[j]) if j >= 0 and kind[j] == BOUNDED else 0.0
            for j in self.paces[:2]
        ]
        return float(scales[0] - scales[1])

    def straightened(self, metric: Metric) -> tuple["Density", Metric]:
        """Return the density in coordinates that make its ridges straight, and the metric there.

        Parameters
        ----------
        metric : Metric
            Of the Laplace approximation in its present coordinates.
        """
        if not len(self.deviations):
            return self._opened(metric)
        sds = self.priors[2][self.deviations[:, 0]]
        coordinates, metric = straightened(self.deviations, sds, metric)
        return replace(self, **coordinates), metric

    def _opened(self, metric: Metric) -> tuple["Density", Metric]:
        """Return the density over open funnels and the metric at its mode; as they are without funnels."""
        funnels = funnels_of(self.in_metric(metric), self.offsets, metric)
        found = replace(self, **funnels) if funnels else self
        reached = climb(found, metric) if funnels else None
        return (self, metric) if reached is None else (found, reached[1])

    def in_metric(self, metric: Metric) -> Callable[[Floats], tuple[float, Floats]]:
        """Return the function of white coordinates: log density and gradient.

        Parameters
        ----------
        metric : Metric
            White coordinates; the function takes some, shape (dimensions,).
        """
        block, evaluate = self.block(metric), compiled_density().evaluate

        def log_density(white: Floats) -> tuple[float, Floats]:
            gradient = np.empty_like(white)
            return evaluate(white, gradient, block), gradient

        return log_density

    def block(self, metric: Metric) -> Floats:
        """Return the density in a metric as `bayes_cpt.inference.native.native_model` takes it.

        Parameters
        ----------
        metric : Metric
            White coordinates.
        """
        kind, *priors = self.priors
        loss, numbers, places = self.arrays
        counts = (kind, self.template, loss, numbers, places)
        floats = (metric.center, metric.factor, *priors, self.template, loss, numbers)
        integers = (kind, self.places, self.paces, [self.likelihood], self.pools)
        return packed(
            [
                *(*floats, self.levels, self.moves, self.turns),
                *(self.directions, self.readings, self.widths, excess_precision(self.correlation)),
            ],
            [
                *(*integers, self.centred, self.ridges, self.turned, self.funnels),
                *(self.correlated, self.saturated),
            ],
            places,
            [
                *(array.size for array in counts),
                length(places, "curve_first"),
                *self.pools.shape,
                self.levels.size,
                len(self.ridges),
                self.turned.size,
                self.pace_offset,
                len(self.funnels),
                self.correlated.size,
                -0.5 * float(np.linalg.slogdet(self.correlation)[1]),
                len(self.saturated),
            ],
        )

    def unconstrained(self, positions: Floats) -> Floats:
        """Return each number's unconstrained value at a sampler's positions, shape (..., dimensions).

        Parameters
        ----------
        positions : ndarray, shape (..., dimensions)
            Annealing paces as mean and ratio.
        """
        funnels = (self.funnels, self.directions, self.readings, self.widths)
        separated = np.array(positions, dtype=np.float64, order="C")
        for position in separated.reshape(-1, self.places.size):
            follow_ridges(position, self.ridges, self.moves)
            separate_paces(position, self.paces, self.pace_offset)
            separate_spreads(position, self.centred, self.levels)
            turn(position, self.turned, self.turns)
            open_funnels(position, *funnels)
            add_saturation(position, self.saturated)
        return separated

    def values(self, positions: Floats) -> dict[str, Floats]:
        """Return the free variables at a sampler's positions of shape (..., dimensions).

        Each has the shape (..., members) of its coordinate, or (...) where it is shared.

        Parameters
        ----------
        positions : ndarray, shape (..., dimensions)
            Annealing paces as mean and ratio.
        """
        kind, _, _, lower, upper = self.priors
        values = self.unconstrained(positions)
        for k, family in enumerate(FAMILIES):
            values[..., kind == k] = family.from_scale(values[..., kind == k])
        bounded = kind == BOUNDED
        share = LogitNormal.from_scale(values[..., bounded])
        values[..., bounded] = lower[bounded] + (upper - lower)[bounded] * share
        sizes = [math.prod(shape) for shape in self.shapes]
        parts = np.split(values, np.cumsum(sizes)[:-1], axis=-1)
        return {
            name: part.reshape(part.shape[:-1] + shape)
            for name, shape, part in zip(self.names, self.shapes, parts, strict=True)
        }


def density_of(model: "pm.Model") -> Density:
    """Return the log density of a model that `bayes_cpt.model.build.build_model` made.

    Parameters
    ----------
    model : pymc.Model

    Raises
    ------
    ModelError
        If the model has a part that is not of the kind that `build_model` makes: another distribution,
        observed variable or potential.
    """
    likelihood = _likelihood(model)
    operation, (loss, values, *data) = likelihood.owner.op, likelihood.owner.inputs
    names = tuple(variable.name for variable in model.free_RVs)
    read = [_read_prior(model, variable) for variable in model.free_RVs]
    columns = np.concatenate([np.column_stack(numbers) for _, numbers in read]).T
    sizes = {name: math.prod(shape) for name, (shape, _) in zip(names, read, strict=True)}
    template, places = _layout(model, values, sizes)
    where = dict(zip(names, np.cumsum([0, *sizes.values()]), strict=False))
    correlated, correlation = correlations_of(model, where)
    return Density(
        names=names,
        shapes=tuple(shape for shape, _ in read),
        priors=(columns[0].astype(np.int64), *np.ascontiguousarray(columns[1:])),
        places=places,
        template=template,
        paces=np.array([where.get(name, -1) for name in PACES], dtype=np.int64),
        likelihood=operation.law.address,
        pools=pools_of(model, where),
        correlated=correlated,
        correlation=correlation,
        arrays=tuple(array.get_value(borrow=True) for array in (loss, *data)),
        deviations=_deviations(where, sizes, columns[0]),
        offsets=np.arange(sizes.get(OFFSETS, 0)) + where.get(OFFSETS, 0),
        saturated=saturations_of(model, where, columns[0], (LOG_NORMAL, LOG_NORMAL, NORMAL)),
    )


def _likelihood(model: "pm.Model") -> Any:
    """Return the likelihood of each curve as the model computes it."""
    import pymc as pm

    from bayes_cpt.model.compiled.operation import LawLogLikelihood

    ours = (ALIKE, CORRELATED)
    others = [potential.name for potential in model.potentials if potential.name not in ours]
    if others or len(model.observed_RVs) != 1:
        raise ModelError(
            "The model has other potentials, or other observed variables than the losses of the curves. "
            "Sample it with pm.sample."
        )
    (observed,) = model.observed_RVs
    # Of it alone: `model.logp` takes half a second, as it transforms all variables.
    likelihood = pm.logp(observed, model.rvs_to_values[observed])
    if not isinstance(likelihood.owner.op, LawLogLikelihood):
        raise ModelError("The model's likelihood is not that of build_model. Use pm.sample.")
    return likelihood


def _deviations(where: dict[str, int], sizes: dict[str, int], kinds: Floats) -> NDArray[np.int64]:
    """Return where deviations of single sizes stand, and the spread of each; none of fixed ones."""
    rows = []
    for name, spread in OF_SIZES.values():
        if name in where and spread in where and kinds[where[spread]] == LOG_NORMAL:
            # The sizes of a validation set come one after the other.
            each = sizes[name] // sizes[spread]
            rows += [[where[name] + k, where[spread] + k // each] for k in range(sizes[name])]
    return np.array(rows or np.zeros((0, 2)), dtype=np.int64)


def _read_prior(model: "pm.Model", variable: Any) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """Return the shape of a variable, and kind, centre, spread and bounds of each of its members."""
    from pytensor.tensor.variable import TensorConstant

    transform = model.rvs_to_transforms[variable]
    kind = KINDS.get((type(variable.owner.op).__name__, type(transform).__name__))
    constants = [
        np.asarray(given.data)
        for given in variable.owner.inputs
        if isinstance(given, TensorConstant) and given.dtype == "float64"
    ]
    if kind is None or len(constants) != (4 if kind == BOUNDED else 2):
        raise ModelError(
            f"The variable {variable.name} has a prior that build_model does not make. Use pm.sample."
        )
    shape = tuple(int(size) for size in np.broadcast_shapes(*(each.shape for each in constants)))
    if kind != BOUNDED:
        constants += [np.zeros(()), np.zeros(())]
    numbers = [np.broadcast_to(each, shape or (1,)).ravel() for each in constants]
    return shape, (np.full(numbers[0].size, kind), *numbers)


def _layout(
    model: "pm.Model", values: Any, sizes: dict[str, int]
) -> tuple[Floats, NDArray[np.int64]]:
    """Return all values of the law with 0 for the sampled ones, and the places of these, in order."""
    from pymc.pytensorf import constant_fold
    from pytensor.graph.traversal import ancestors

    sampled = {variable: variable.name for variable in model.free_RVs}
    template: list[Floats] = []
    places: dict[str, NDArray[np.int64]] = {}
    count = 0
    for part in values.owner.inputs:
        sources = [sampled[node] for node in ancestors([part]) if node in sampled]
        for name in sources:
            places[name] = np.arange(count, count + sizes[name])
        known = np.zeros(sizes[sources[0]]) if sources else np.asarray(constant_fold([part])[0])
        template.append(known)
        count += known.size
    ordered = np.concatenate([places[variable.name] for variable in model.free_RVs])
    return np.concatenate(template).astype(np.float64), ordered

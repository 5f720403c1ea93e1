"""The log density of a study under a specification, ready for a sampler.

The same density as `bayes_cpt.model.build.build_model` states in PyMC (a test holds the two together), over
the unconstrained values of its parameters, whose annealing paces are taken as mean and ratio
(`bayes_cpt.model.compiled.coordinates`). Building one costs milliseconds: a law is compiled once per
machine, and studies, folds and simulations differ only in arrays.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.model.compiled.compilation import compiled_law
from bayes_cpt.model.compiled.coordinates import join_paces, separate_paces
from bayes_cpt.model.compiled.kernels import BOUNDED, LOG_NORMAL, LOGIT_NORMAL, NORMAL, PACES
from bayes_cpt.model.points import Curves, Points
from bayes_cpt.model.prior_tables import Distribution, Fixed, LogitNormal, LogNormal, Normal
from bayes_cpt.model.setup import Frame, Setup

type Floats = NDArray[np.float64]

# Columns of a point, in the order of `bayes_cpt.model.compiled.symbolic.POINT`; the annealing areas follow
# the momenta.
COLUMNS = ("cpt_steps", "learning_rate", "forward_pt", "forward_cpt")
AREA_COLUMNS = 2 + 2 * len(PACES)


class Metric(Protocol):
    """The white coordinates of a sampler, as `bayes_cpt.inference.whitening` makes them."""

    @property
    def center(self) -> Floats:
        """Where they are 0, shape (dimensions,)."""

    @property
    def factor(self) -> Floats:
        """What a unit step of each does, shape (dimensions, dimensions)."""


@dataclass(frozen=True)
class Element:
    """One number that is sampled, or fixed: a parameter's value for one validation set, or for all.

    Parameters
    ----------
    name : str
        Of the parameter.
    member : int
        Position along the parameter's coordinate; 0 where it has none.
    domain : str or None
        Its validation set; None where it is shared.
    prior : Distribution
    """

    name: str
    member: int
    domain: str | None
    prior: Distribution


def elements(frame: Frame) -> list[Element]:
    """Return all elements of a frame's parameters: those that are sampled, then the fixed ones."""
    roles = dict(zip(frame.domains, frame.roles, strict=True))
    found = []
    for name, info in frame.parameters().items():
        members: tuple[str | None, ...] = frame.coords()[info.dims] if info.dims else (None,)
        for k, domain in enumerate(members):
            role = roles[domain] if domain else None
            found.append(Element(name, k, domain, frame.spec.priors[name].of(role)))
    return sorted(found, key=lambda element: isinstance(element.prior, Fixed))


@dataclass(frozen=True, eq=False)
class Density:
    """A log density over the coordinates of a sampler.

    Parameters
    ----------
    frame : Frame
    elements : list of Element
        What each unconstrained value belongs to, then the fixed ones.
    function : callable
        Compiled: ``(z, metric, *arguments) -> value, gradient``.
    arguments : tuple
        The priors, the law, the curves and the design in arrays.
    start : ndarray, shape (dimensions,)
        The medians of the priors, in the same coordinates as ``z``.
    """

    frame: Frame
    elements: list[Element]
    function: Any
    arguments: tuple[Any, ...]
    start: Floats
    sampled: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sampled", self.start.size)

    def in_metric(self, metric: Metric) -> Callable[[Floats], tuple[float, Floats]]:
        """Return the function of white coordinates: log density and gradient."""
        pair = (np.ascontiguousarray(metric.center), np.ascontiguousarray(metric.factor))
        function, arguments = self.function, self.arguments
        return lambda white: function(white, pair, *arguments)

    def unconstrained(self, positions: Floats) -> Floats:
        """Return each element's unconstrained value at a sampler's positions, shape (..., dimensions)."""
        *_, paces, offset = self.arguments[1]
        found = np.array(positions, dtype=np.float64, order="C")
        for position in found.reshape(-1, self.sampled):
            separate_paces(position, paces, offset)
        return found

    def values(self, positions: Floats) -> dict[str, Floats]:
        """Return the sampled parameters at a sampler's positions, shape (..., dimensions).

        Each has the shape (..., members) of its coordinate, or (...) where it is shared.
        """
        kind, _, _, lower, upper, _ = self.arguments[0]
        unconstrained = self.unconstrained(positions)
        columns: dict[str, list[Floats]] = {}
        shared = set()
        for j, element in enumerate(self.elements[: self.sampled]):
            column = _constrained(unconstrained[..., j], kind[j], lower[j], upper[j])
            columns.setdefault(element.name, []).append(column)
            if element.domain is None:
                shared.add(element.name)
        return {
            name: parts[0] if name in shared else np.stack(parts, axis=-1)
            for name, parts in columns.items()
        }


def build_density(setup: Setup) -> Density:
    """Return the log density of a study's curves and the priors."""
    frame = setup.frame
    own = elements(frame)
    priors = _prior_arrays(own)
    law = compiled_law(frame.spec, frame.roles)
    law_arrays = _law_arrays(frame, own, law, priors)
    return Density(
        frame,
        own,
        law.log_density,
        (priors, law_arrays, _curve_arrays(setup), setup.design.for_likelihood()),
        _starts(priors, law_arrays),
    )


def _constrained(position: Floats, kind: int, lower: float, upper: float) -> Floats:
    if kind == NORMAL:
        return position
    if kind == LOG_NORMAL:
        return np.asarray(np.exp(position))
    share = 1.0 / (1.0 + np.exp(-position))
    return np.asarray(share if kind == LOGIT_NORMAL else lower + (upper - lower) * share)


def _prior_arrays(own: list[Element]) -> tuple[Any, ...]:
    """Return kind, centre, spread and bounds of what is sampled, and the values of what is fixed."""
    rows: list[tuple[Any, ...]] = []
    fixed = []
    for element in own:
        match element.prior:
            case Fixed(value=value):
                fixed.append(value)
            case Normal(mean=mean, sd=sd):
                rows.append((NORMAL, mean, sd, 0.0, 0.0))
            case LogitNormal(median=median, sigma=sigma):
                rows.append((LOGIT_NORMAL, np.log(median / (1.0 - median)), sigma, 0.0, 0.0))
            case LogNormal(median=median, sigma=sigma, lower=None):
                rows.append((LOG_NORMAL, np.log(median), sigma, 0.0, 0.0))
            case LogNormal(median=median, sigma=sigma, lower=lower, upper=upper):
                rows.append((BOUNDED, np.log(median), sigma, lower, upper))
    columns = np.array(rows, dtype=np.float64).T
    return (columns[0].astype(np.int64), *columns[1:].copy(), np.array(fixed, dtype=np.float64))


def _starts(priors: tuple[Any, ...], law_arrays: tuple[Any, ...]) -> Floats:
    kind, center, _, lower, upper, _ = priors
    start = center.copy()
    for j in np.flatnonzero(kind == BOUNDED):
        share = (np.exp(center[j]) - lower[j]) / (upper[j] - lower[j])
        start[j] = np.log(share / (1.0 - share))
    *_, paces, offset = law_arrays
    join_paces(start, paces, offset)
    return np.asarray(start)


def _law_arrays(
    frame: Frame, own: list[Element], law: Any, priors: tuple[Any, ...]
) -> tuple[Any, ...]:
    place = {(element.name, element.domain): j for j, element in enumerate(own)}
    widest = max(len(names) for names in law.parameters)
    indices = np.zeros((len(frame.domains), widest), dtype=np.int64)
    for d, (domain, names) in enumerate(zip(frame.domains, law.parameters, strict=True)):
        for k, name in enumerate(names):
            indices[d, k] = place.get((name, domain), place.get((name, None), -1))
    reference = frame.reference
    middle, half_width = frame.momentum_range.interval
    numbers = [
        reference.learning_rate,
        reference.forward_pt,
        reference.forward_cpt,
        reference.steps,
    ]
    paces = np.array([place.get((name, None), -1) for name in PACES], dtype=np.int64)
    offset = _scale(priors, paces[0]) - _scale(priors, paces[1])
    return (indices, law.outputs, law.inputs, np.array(numbers), middle, half_width, paces, offset)


def _scale(priors: tuple[Any, ...], j: int) -> float:
    """Return the logarithm of a positive value less what it is sampled as, far within its bounds."""
    kind, _, _, lower, upper, _ = priors
    bounded = 0 <= j < kind.size and kind[j] == BOUNDED
    return float(np.log(upper[j] - lower[j])) if bounded else 0.0


def _curve_arrays(setup: Setup) -> tuple[Any, ...]:
    curves: Curves = setup.curves
    points, bases, design = curves.points, curves.bases, setup.design
    pretraining = design.pretraining.astype(bool)
    own_area = np.where(pretraining[:, None], points.annealing_pt, points.annealing_cpt)
    starts = design.first
    shared = np.column_stack([points.target_share[starts], design.pretraining[starts]])
    return (
        points.domain_index[starts].astype(np.int64),
        shared,
        bases.base_known.astype(np.float64),
        bases.loss.astype(np.float64),
        _columns(points),
        _columns(bases),
        np.ascontiguousarray(own_area),
        np.ascontiguousarray(bases.annealing_pt),
        points.loss.astype(np.float64),
    )


def _columns(points: Points) -> Floats:
    given = [np.asarray(getattr(points, name), dtype=np.float64) for name in COLUMNS]
    empty = np.zeros((points.steps.size, AREA_COLUMNS))
    return np.ascontiguousarray(np.column_stack([*given, empty]))

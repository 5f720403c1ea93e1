"""Priors that depend on each other, and draws of all priors.

*Correlated* parameters go together from study to study: on the scales on which their priors are normal,
and in sds of these, z ~ Normal(0, R). What several *targets* (or batches) have of a parameter is alike:
of target k, ``z_k = sqrt(1 - v)·m + sqrt(v)·e_k``, with m what all share and e_k its own, standard
normal both: sqrt(v) is the spread of single ones about their mean, a parameter itself. With m
integrated out the z_k are normal with correlation ``1 - v``. Each alone has the prior that a single one
has (docs/targets.md, docs/batch.md).

Parameters are by name arrays of shape (..., members of their coordinate), the *spread* of single ones an
array of shape (...), with a last axis of what is pooled where it is of all.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.model.priors import Distribution, Fixed, correlation_matrix
from bayes_cpt.model.setup import BoundModel, Element, by_parameter, elements

if TYPE_CHECKING:
    import pandas as pd


# The potential of a model by which its parameters are correlated, its matrix R, and the coordinate of R.
CORRELATED, CORRELATION, PARAMETER = "correlated", "correlation", "correlated_parameter"


@dataclass(frozen=True, eq=False)
class Correlated:
    """The correlated parameters of a frame."""

    elements: tuple[Element, ...]
    matrix: Floats  # R, (elements, elements)

    @property
    def labels(self) -> tuple[str, ...]:
        """What each is called: its parameter, and its validation set in brackets."""
        return tuple(f"{e.name}[{e.domain}]" if e.domain else e.name for e in self.elements)

    def standardised(self, parameters: Mapping[str, Any], xp: Any = np) -> Any:
        """Return z, shape (..., elements)."""
        columns = [own.prior.standard(own.of(parameters), xp) for own in self.elements]
        return xp.stack(columns, axis=-1)

    def log_density(self, parameters: Mapping[str, Any], xp: Any = np) -> Any:
        """Return the log density over that of independent parameters, shape (...).

        Where priors have bounds, it lacks a constant: the share of z that lies within them.
        """
        standard = self.standardised(parameters, xp)
        form = (standard * xp.dot(standard, excess_precision(self.matrix))).sum(axis=-1)
        return -0.5 * (form + np.linalg.slogdet(self.matrix)[1])

    def draw(self, drawn: dict[str, Floats], generator: np.random.Generator) -> None:
        """Replace independent draws of these parameters by correlated ones, in place."""
        low, high = np.array([element.prior.standard_bounds for element in self.elements]).T
        root = np.linalg.cholesky(self.matrix)
        standard = np.empty((len(drawn[self.elements[0].name]), len(self.elements)))
        left = np.arange(len(standard))
        while left.size:
            standard[left] = generator.standard_normal((left.size, len(root))) @ root.T
            within = np.all((standard[left] > low) & (standard[left] < high), axis=1)
            left = left[~within]
        for element, column in zip(self.elements, standard.T, strict=True):
            element.of(drawn)[:] = element.prior.at(column)


def excess_precision(matrix: Floats) -> Floats:
    """Return the inverse of a correlation matrix less that of independent numbers."""
    return np.linalg.inv(matrix) - np.eye(len(matrix))


def correlated(frame: BoundModel) -> Correlated | None:
    """Return the correlated parameters of a frame; None where there are none.

    Those of single model sizes and batches, and of each of several targets, stay independent: there a
    population has a joint prior of its own (`bayes_cpt.model.joint_priors`).
    """
    if not frame.spec.correlations:
        return None
    several = frame.spec.law.targets > 1
    single = [
        element
        for element in elements(frame)
        if element.group is None
        and not isinstance(element.prior, Fixed)
        and not (several and element.role == "target")
    ]
    labels = [(element.name, element.role) for element in single]
    matrix = correlation_matrix(labels, frame.spec.correlations)
    tied = np.flatnonzero((matrix != np.eye(len(matrix))).any(axis=1))
    if not tied.size:
        return None
    return Correlated(tuple(single[i] for i in tied), matrix[np.ix_(tied, tied)])


# The potential of a model by which its targets, or batches, are alike.
ALIKE = "alike"


def log_alikeness(standard: Any, spread: Any, xp: Any) -> Any:
    """Return the log density of what targets or batches have of a parameter, over that of independent ones.

    It is that of z, shape (..., members), which counts in sds of the prior.

    Examples
    --------
    >>> float(log_alikeness(np.array([0.3, -1.0]), np.array(1.0), np)) == 0.0
    True
    """
    count = standard.shape[-1]
    unshared = spread**2
    shared = unshared + count * (1.0 - unshared)
    total, square = standard.sum(axis=-1), (standard**2).sum(axis=-1)
    form = (square - (1.0 - unshared) / shared * total**2) / unshared
    return -0.5 * ((count - 1) * xp.log(unshared) + xp.log(shared) + form - square)


def standardised(frame: BoundModel, name: str, values: Any, places: list[int], xp: Any = np) -> Any:
    """Return what is pooled of a parameter's values in sds of its prior, shape (..., places)."""
    return _prior(frame, name, places).standard(values[..., places], xp)


def _prior(frame: BoundModel, name: str, places: list[int]) -> Distribution:
    member = frame.members(frame.parameters()[name].dims)[places[0]]
    return frame.spec.priors[name].of(frame.role(member))


def log_alikenesses(frame: BoundModel, parameters: Mapping[str, Any], xp: Any = np) -> list[Any]:
    """Return `log_alikeness` of every pooled parameter, shape (...) each."""
    spreads, densities = parameters[frame.spread], []
    for place, name in enumerate(frame.pooled):
        values, spread = parameters[name], spreads[..., place]
        pooled = (standardised(frame, name, values, pool, xp) for pool in frame.pools(name))
        parts = [log_alikeness(standard, spread, xp) for standard in pooled]
        densities.append(sum(parts[1:], start=parts[0]))
    return densities


def draw_alike(frame: BoundModel, drawn: dict[str, Floats], generator: np.random.Generator) -> None:
    """Replace independent draws of pooled parameters by such as share their spread, in place."""
    for place, name in enumerate(frame.pooled):
        for places in frame.pools(name):
            prior = _prior(frame, name, places)
            spread = drawn[frame.spread][:, place, None]
            each = standardised(frame, name, drawn[name], places)
            shared = generator.standard_normal((len(each), 1))
            standard = np.sqrt(1.0 - spread**2) * shared + spread * each
            drawn[name][:, places] = prior.at(standard)


def draw_further(standard: Floats, spread: Floats, shared: Floats, fresh: Floats) -> Floats:
    """Return one more of a population in each draw, given z of the known ones, shape (draws, known).

    What all share is normal given the known ones; a further one lies about it as they do. `shared` and
    `fresh` are standard normal numbers: for what all share, and for its own.

    Examples
    --------
    >>> alike = np.full((1, 3), 0.7)
    >>> draw_further(alike, np.array([1e-6]), np.zeros(1), np.ones(1)).round(4)
    array([0.7])
    """
    variance = spread**2
    weight = np.sqrt(1.0 - variance)
    precision = 1.0 + standard.shape[1] * weight**2 / variance
    mean = weight / variance * standard.sum(axis=1) / precision
    return np.asarray(weight * (mean + shared / np.sqrt(precision)) + spread * fresh)


def further(
    frame: BoundModel, name: str, values: Floats, spreads: Floats, shared: Floats, fresh: Floats
) -> Floats:
    """Return a pooled parameter of one more member in each draw, shape (draws, populations).

    It takes standard normal numbers of that shape, as `draw_further` does.
    """
    drawn, spread = [], spreads[:, frame.pooled.index(name)]
    for k, places in enumerate(frame.pools(name)):
        prior = _prior(frame, name, places)
        known = standardised(frame, name, values, places)
        standard = draw_further(known, spread, shared[:, k], fresh[:, k])
        drawn.append(prior.at(standard))
    return np.stack(drawn, axis=1)


def draw_priors(frame: BoundModel, draws: int, seed: int) -> dict[str, Floats]:
    """Return draws of every parameter, shape (draws, members of its dims) or (draws,).

    Examples
    --------
    >>> from bayes_cpt.laws.term import Reference
    >>> from bayes_cpt.model.spec import read_spec
    >>> reference = Reference(2e-3, 24.0, 3.0, 3000.0)
    >>> frame = BoundModel(read_spec("pretrain"), ("general",), ("general",), reference)
    >>> draw_priors(frame, 100, seed=0)["memory"].shape
    (100,)
    """
    generator = np.random.default_rng(seed)
    drawn = by_parameter(frame, (own.prior.draw(draws, generator) for own in elements(frame)))
    draw_alike(frame, drawn, generator)
    if tied := correlated(frame):
        tied.draw(drawn, generator)
    return drawn


def prior_table(frame: BoundModel, interval: float = 0.9) -> "pd.DataFrame":
    """Return one row per parameter and validation set, ``all`` where it is shared, in words."""
    import pandas as pd

    probabilities = [0.5 - interval / 2, 0.5, 0.5 + interval / 2]
    rows, infos = [], frame.parameters()
    for own in elements(frame):
        info, reason = infos[own.name], frame.spec.priors[own.name].reason
        ends = own.prior.quantiles(probabilities).tolist()
        rows.append(
            {"parameter": own.name, "domain": own.label, "distribution": own.prior.words}
            | dict(zip(("lower", "median", "upper"), ends, strict=True))
            | {"unit": info.unit, "meaning": info.meaning, "reason": reason}
        )
    return pd.DataFrame(rows)

"""Priors that depend on each other: parameters whose values go together from study to study.

On the scales on which their priors are normal, and in sds of these, correlated parameters are normal
together: z ~ Normal(0, R). Each alone keeps its prior, but for what bounds cut off.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.model.elements import Element, elements
from bayes_cpt.model.priors.families import Fixed
from bayes_cpt.model.priors.tables import correlation_matrix
from bayes_cpt.model.setup import Frame

# The potential of a model by which its parameters are correlated, its matrix R, and the coordinate of R.
CORRELATED, CORRELATION, PARAMETER = "correlated", "correlation", "correlated_parameter"


@dataclass(frozen=True, eq=False)
class Correlated:
    """The correlated parameters of a frame.

    Parameters
    ----------
    elements : tuple of Element
    matrix : ndarray, shape (elements, elements)
        R.
    """

    elements: tuple[Element, ...]
    matrix: Floats

    @property
    def labels(self) -> tuple[str, ...]:
        """What each is called: its parameter, and its validation set in brackets."""
        return tuple(f"{e.name}[{e.domain}]" if e.domain else e.name for e in self.elements)

    def standardised(self, parameters: Mapping[str, Any], xp: Any = np) -> Any:
        """Return z, shape (..., elements).

        Parameters
        ----------
        parameters : mapping of str to array, shape (...) or (..., members)
        xp : module, optional
            `numpy` or `pytensor.tensor`.
        """
        columns = []
        for element in self.elements:
            values = parameters[element.name]
            member = values if element.domain is None else values[..., element.member]
            prior = element.prior
            columns.append((prior.to_scale(member, xp) - prior.center) / prior.spread)
        return xp.stack(columns, axis=-1)

    def log_density(self, parameters: Mapping[str, Any], xp: Any = np) -> Any:
        """Return the log density over that of independent parameters, shape (...).

        Where priors have bounds, it lacks a constant: the share of z that lies within them.

        Parameters
        ----------
        parameters : mapping of str to array, shape (...) or (..., members)
        xp : module, optional
            `numpy` or `pytensor.tensor`.
        """
        standard = self.standardised(parameters, xp)
        form = (standard * xp.dot(standard, excess_precision(self.matrix))).sum(axis=-1)
        return -0.5 * (form + np.linalg.slogdet(self.matrix)[1])

    def draw(self, drawn: dict[str, Floats], generator: np.random.Generator) -> None:
        """Replace independent draws of these parameters by correlated ones, in place.

        Parameters
        ----------
        drawn : dict of str to ndarray, shape (draws,) or (draws, members)
        generator : numpy.random.Generator
        """
        low, high = np.array([element.prior.standard_bounds for element in self.elements]).T
        root = np.linalg.cholesky(self.matrix)
        standard = np.empty((len(drawn[self.elements[0].name]), len(self.elements)))
        left = np.arange(len(standard))
        while left.size:
            standard[left] = generator.standard_normal((left.size, len(root))) @ root.T
            within = np.all((standard[left] > low) & (standard[left] < high), axis=1)
            left = left[~within]
        for element, column in zip(self.elements, standard.T, strict=True):
            values = element.prior.from_scale(element.prior.center + element.prior.spread * column)
            if element.domain is None:
                drawn[element.name][:] = values
            else:
                drawn[element.name][:, element.member] = values


def excess_precision(matrix: Floats) -> Floats:
    """Return the inverse of a correlation matrix less that of independent numbers.

    Parameters
    ----------
    matrix : ndarray, shape (elements, elements)
    """
    return np.linalg.inv(matrix) - np.eye(len(matrix))


def correlated(frame: Frame) -> Correlated | None:
    """Return the correlated parameters of a frame; None where there are none.

    Those of single model sizes and batches, and of each of several targets, stay independent: there a
    population has a joint prior of its own (`bayes_cpt.model.priors.pooling`).

    Parameters
    ----------
    frame : Frame
    """
    if not frame.spec.correlations:
        return None
    roles = dict(zip(frame.domains, frame.roles, strict=True))
    several = frame.spec.law.targets > 1
    single = [
        element
        for element in elements(frame)
        if element.group is None
        and not isinstance(element.prior, Fixed)
        and not (several and roles.get(element.domain or "") == "target")
    ]
    labels = [(element.name, roles.get(element.domain or "")) for element in single]
    matrix = correlation_matrix(labels, frame.spec.correlations)
    tied = np.flatnonzero((matrix != np.eye(len(matrix))).any(axis=1))
    if not tied.size:
        return None
    return Correlated(tuple(single[i] for i in tied), matrix[np.ix_(tied, tied)])

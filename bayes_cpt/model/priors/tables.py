"""The priors of a specification as users write them: which role has which distribution, and why."""

from collections.abc import Sequence
from typing import Self

import numpy as np
from pydantic import Field, model_validator

from bayes_cpt.arrays import Floats
from bayes_cpt.errors import SpecError
from bayes_cpt.model.priors.families import Distribution, Fixed, LogNormal
from bayes_cpt.strict import Strict

# A correlation matrix with a smaller eigenvalue has an inverse of rounding errors.
LEAST_EIGENVALUE = 1e-6


class Prior(Strict):
    """The prior of one parameter, the same for all validation sets or one per role.

    Parameters
    ----------
    reason : str
        Why this prior; shown in `summary` and in reports.
    every : Distribution, optional
        For all validation sets (and for parameters shared by them).
    general, target : Distribution, optional
        For one role; takes precedence over `every`.
    """

    reason: str = Field(min_length=1)
    every: Distribution | None = None
    general: Distribution | None = None
    target: Distribution | None = None

    @model_validator(mode="after")
    def _covers_every_role(self) -> Self:
        if self.every is None and (self.general is None or self.target is None):
            raise ValueError("give every, or both general and target")
        return self

    def of(self, role: str | None) -> Distribution:
        """Return the distribution for a role, or for a shared parameter (role None).

        Parameters
        ----------
        role : str or None
            ``general`` or ``target``.
        """
        of_role = {"general": self.general, "target": self.target}.get(role or "")
        distribution = of_role or self.every
        if distribution is None:
            raise SpecError.at("priors", "a shared parameter has no prior", "give every")
        return distribution


class Correlation(Strict):
    """How two parameters go together from study to study, on the scales on which their priors are normal.

    Parameters
    ----------
    between : tuple of str
        Two parameters. On one validation set ``name`` goes with ``name``, on all of them; ``name/general``
        or ``name/target`` is on that of one role alone.
    value : float
        Their correlation, -1 to 1.
    reason : str
        Why.
    """

    between: tuple[str, str]
    value: float = Field(gt=-1.0, lt=1.0)
    reason: str = Field(min_length=1)

    @property
    def ends(self) -> tuple[tuple[str, str | None], tuple[str, str | None]]:
        """Parameter and role of both; None where no role is named."""
        (first, second) = ((*end.split("/", 1), None)[:2] for end in self.between)
        return first, second  # type: ignore[return-value]


def correlation_matrix(
    labels: Sequence[tuple[str, str | None]], correlations: Sequence[Correlation]
) -> Floats:
    """Return the correlations of parameters, shape (labels, labels).

    Parameters
    ----------
    labels : sequence of (str, str or None)
        Parameter and role, None where validation sets share it.
    correlations : sequence of Correlation
        Parameters of different validation sets are independent whatever these say.
    """
    matrix = np.eye(len(labels))
    for correlation in correlations:
        first, second = (
            [
                i
                for i, (name, role) in enumerate(labels)
                if name == end[0] and end[1] in (None, role)
            ]
            for end in correlation.ends
        )
        for i in first:
            for j in second:
                roles = {labels[i][1], labels[j][1]} - {None}
                if i != j and len(roles) <= 1:
                    matrix[i, j] = matrix[j, i] = correlation.value
    return matrix


def is_correlation(matrix: Floats) -> bool:
    """Return whether numbers can have all these correlations at once, and not only to rounding.

    Parameters
    ----------
    matrix : ndarray, shape (labels, labels)
        From `correlation_matrix`.
    """
    return bool(np.linalg.eigvalsh(matrix)[0] > LEAST_EIGENVALUE)


def prior_ends(prior: Distribution | None) -> tuple[float, float] | None:
    """Return the least and the greatest value that a prior allows, None where it sets no bounds.

    Parameters
    ----------
    prior : Distribution or None
    """
    match prior:
        case LogNormal(lower=float(lower), upper=float(upper)):
            return lower, upper
        case Fixed(value=value):
            return value, value
        case _:
            return None

"""The priors of a specification as users write them: which role has which distribution, and why."""

from typing import Self

from pydantic import Field, model_validator

from bayes_cpt.errors import SpecError
from bayes_cpt.model.priors.families import Distribution, Fixed, LogNormal
from bayes_cpt.strict import Strict


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

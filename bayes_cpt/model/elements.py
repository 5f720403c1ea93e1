"""The numbers that a law takes, in one order: the model, its likelihood and its draws all keep to it."""

from dataclasses import dataclass

from bayes_cpt.model.priors.families import Distribution
from bayes_cpt.model.setup import Frame


@dataclass(frozen=True)
class Element:
    """One number of a parameter: its value for one validation set, or for all.

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
    """Return the elements of a frame's parameters, parameter by parameter."""
    roles = dict(zip(frame.domains, frame.roles, strict=True))
    listed = []
    for name, info in frame.parameters().items():
        members: tuple[str | None, ...] = frame.coords()[info.dims] if info.dims else (None,)
        for member, domain in enumerate(members):
            prior = frame.spec.priors[name].of(roles[domain] if domain else None)
            listed.append(Element(name, member, domain, prior))
    return listed

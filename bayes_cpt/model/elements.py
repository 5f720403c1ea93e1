"""The numbers that a law takes, in one order: the model, its likelihood and its draws all keep to it."""

from dataclasses import dataclass

from bayes_cpt.model.groups import GROUPED
from bayes_cpt.model.priors import Distribution
from bayes_cpt.model.setup import BoundModel


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
        Its validation set, or the parameter whose spread it is; None where it is shared.
    prior : Distribution
    group : str or None
        Coordinate of the groups of which it is of one.
    """

    name: str
    member: int
    domain: str | None
    prior: Distribution
    group: str | None = None


def elements(frame: BoundModel) -> list[Element]:
    """Return the elements of a frame's parameters, parameter by parameter.

    Parameters
    ----------
    frame : BoundModel
    """
    listed = []
    for name, info in frame.parameters().items():
        for place, member in enumerate(frame.members(info.dims)):
            prior = frame.spec.priors[name].of(frame.role(member))
            group = info.dims if info.dims in GROUPED else None
            listed.append(Element(name, place, member.domain, prior, group))
    return listed

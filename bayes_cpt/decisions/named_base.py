"""A base that a decision names, which must be one that the fit is about."""

from bayes_cpt.checks import suggestion
from bayes_cpt.errors import SpecError
from bayes_cpt.model.bases.unknown_base import fitted_bases
from bayes_cpt.study.runs import Base
from bayes_cpt.study.study import Study


def named_base(study: Study, name: str, place: str, *, also: tuple[str, ...] = ()) -> Base:
    """Return a base of a fitted study by its name.

    Parameters
    ----------
    study : Study
    name, place : str
        The name, and where the user wrote it.
    also : tuple of str
        What else could be written there.

    Raises
    ------
    SpecError
        If the study has no such base, or the fit is not about it.
    """
    names = [base.name for base in study.bases]
    if name not in names:
        problem = f"there is no base {name!r}{suggestion(name, names)}"
        raise SpecError.at(place, problem, f"name one of {', '.join((*names, *also))}")
    base, fitted = study.base(name), fitted_bases(study)
    if base not in fitted:
        known = (
            "not known" if base.schedule is None else "known, and that of what was fitted is not"
        )
        problem = f"the PT schedule of the base {name} is {known}"
        fix = f"name one of {', '.join(other.name for other in fitted)}, or fit runs that start from it"
        raise SpecError.at(place, problem, fix)
    return base

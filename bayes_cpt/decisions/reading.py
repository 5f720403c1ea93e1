"""Tables of objectives and spaces checked against their models, problems named by key."""

from typing import Any

from pydantic import BaseModel, ValidationError

from bayes_cpt.errors import Problem, SpecError
from bayes_cpt.strict import said

# Problems of a key itself, which may be no identifier: re-play, or a name in quotes.
ABOUT_KEYS = ("extra_forbidden", "missing")


def checked[T: BaseModel](kind: type[T], table: dict[str, Any], place: str, fix: str) -> T:
    """Return the model that a table describes.

    Parameters
    ----------
    kind : type of BaseModel
    table : dict
    place : str
        What errors call the table.
    fix : str
        What to do about a wrong value.

    Raises
    ------
    SpecError
        With every problem of the table, each named by its key.
    """
    try:
        return kind.model_validate(table)
    except ValidationError as error:
        details = error.errors(include_url=False)
    raise SpecError(_problem(kind, detail, place, fix) for detail in details)


def _problem(kind: type[BaseModel], detail: Any, place: str, fix: str) -> Problem:
    # Of a value that may be one of several forms, Pydantic names the form it tried as well.
    *outer, last = detail["loc"] or ("",)
    names = [str(part) for part in outer if isinstance(part, int) or part.isidentifier()]
    if str(last).isidentifier() or isinstance(last, int) or detail["type"] in ABOUT_KEYS:
        names.append(str(last))
    key = ".".join(names)
    message, fix = said(kind, detail, fix)
    return Problem(f"{place}{', key ' + key if key else ''}", message, fix)

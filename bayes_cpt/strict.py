"""The base of all tables that users write, and what is said of a table that does not fit it."""

import re
from typing import Any, TypeAliasType, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from bayes_cpt.checks import quoting, suggestion
from bayes_cpt.errors import Problem, SpecError, StudyError

# Problems of a key itself, which may be no identifier: re-play, or a name in quotes.
ABOUT_KEYS = ("extra_forbidden", "missing")


class Strict(BaseModel):
    """Base of all tables: immutable, and an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def checked[T: BaseModel](
    kind: type[T], table: dict[str, Any], place: str, fix: str, within: tuple[str, ...] = ()
) -> T:
    """Return the model that a table describes; a `SpecError` names every problem by its key.

    `within` leads to the table from the top of its file.
    """
    try:
        return kind.model_validate(table)
    except ValidationError as error:
        details = error.errors(include_url=False)
    raise SpecError(_problem(kind, detail, place, fix, within) for detail in details)


def _problem(
    kind: type[BaseModel], detail: Any, place: str, fix: str, within: tuple[str, ...]
) -> Problem:
    # Of a value that may be one of several forms, Pydantic names the form it tried as well.
    *outer, last = detail["loc"] or ("",)
    inner = (str(part) for part in outer if isinstance(part, int) or part.isidentifier())
    names = [*within, *inner]
    if str(last).isidentifier() or isinstance(last, int) or detail["type"] in ABOUT_KEYS:
        names.append(str(last))
    key = ".".join(names)
    message, fix = _said(kind, detail, fix)
    return Problem(f"{place}{', key ' + key if key else ''}", message, fix)


def _said(kind: type[BaseModel], detail: Any, fix: str) -> tuple[str, str]:
    """Return what is wrong with a table, and what to do about it."""
    key = detail["loc"][-1] if detail["loc"] else ""
    match detail["type"]:
        case "extra_forbidden":
            known = _keys(kind, detail["loc"])
            hint = suggestion(key, known)
            of = f"; the keys are {', '.join(known)}" if known else ""
            fix = "take the key out or correct its name"
            fix += "" if hint else of + quoting(detail["input"])
            return f"the key {key!r} is unknown{hint}", fix
        case "missing":
            return f"the key {key!r} is missing", "add the key"
        case "literal_error":
            expected = detail["ctx"]["expected"]
            hint = suggestion(detail["input"], re.findall(r"'([^']*)'", expected))
            return f"{detail['input']!r} is not one of {expected}{hint}", "write one of them"
        case "model_type":
            names = ", ".join(_keys(kind, (*detail["loc"], "")))
            return f"this is {detail['input']!r}", f"write a table with the keys {names}"
        case "value_error":
            match detail["ctx"]["error"]:
                case StudyError(problems=[own, *_]):
                    return own.problem, own.fix
            return detail["msg"].removeprefix("Value error, "), fix
    given = detail["input"]
    shown = f"; it is {given!r}" if isinstance(given, str | float | int) else ""
    return f"{detail['msg']}{shown}", fix


def _keys(kind: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """Return the keys that the innermost table of a location may have."""
    kinds = [kind]
    for part in location[:-1]:
        inner = [
            table
            for outer in kinds
            if part in outer.model_fields
            for table in _tables(outer.model_fields[str(part)].annotation)
        ]
        # Other parts are names of a user's own, places in a list, and forms of a value, as lognormal.
        kinds = inner or [own for own in kinds if own.__name__.lower() == part] or kinds
    return list(dict.fromkeys(key for table in kinds for key in table.model_fields))


def _tables(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, TypeAliasType):
        return _tables(annotation.__value__)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [table for part in get_args(annotation) for table in _tables(part)]

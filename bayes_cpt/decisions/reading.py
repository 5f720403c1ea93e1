"""Objectives and spaces from TOML: tables read and checked, problems named by file and key."""

import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from bayes_cpt.checks import suggestion
from bayes_cpt.errors import Problem, SpecError


def read_table(path: str | Path) -> dict[str, Any]:
    """Return the table of a TOML file.

    Raises
    ------
    SpecError
        If there is no such file, or it is not TOML.
    """
    source = Path(path)
    try:
        return tomllib.loads(source.read_text(encoding="utf-8"))
    except OSError as error:
        reason = error.strerror or str(error)
        problem = Problem(str(source), f"this cannot be read: {reason}", "check the path")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        fix = "fix the file at that place"
        problem = Problem(str(source), f"this is not TOML: {error}", fix)
    raise SpecError([problem])


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
    names = [
        str(part) for part in detail["loc"] if str(part).isidentifier() or isinstance(part, int)
    ]
    key = ".".join(names)
    message = detail["msg"].removeprefix("Value error, ")
    if detail["type"] == "extra_forbidden":
        word = names[-1]
        hint = suggestion(word, kind.model_fields) if len(names) == 1 else ""
        message = f"the key {word!r} is unknown{hint}"
        fix = "take the key out or correct its name"
    elif detail["type"] == "missing":
        message = f"the key {names[-1]!r} is missing"
        fix = "add the key"
    elif detail["type"] == "literal_error":
        message = message.replace("Input should be", "this is none of")
        fix = "write one of them"
    return Problem(f"{place}{', key ' + key if key else ''}", message, fix)

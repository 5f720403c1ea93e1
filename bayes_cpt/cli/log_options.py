"""Options of commands that read logs: what a log does not contain, worded once."""

import tomllib
from collections.abc import Callable, Iterable
from typing import Any

from bayes_cpt.errors import ProblemError

# How a log is read: options by name, each with its type; any may be left out, a switch is off.
READING: dict[str, Any] = {
    "pattern": list[str] | None,
    "loss": list[str] | None,
    **dict.fromkeys(("rate", "step", "step_unit"), str | None),
    **dict.fromkeys(("per_step", "per_epoch"), float | None),
    "unit": str | None,
    "start": int | None,
    "row_run": str | None,
}
# What else is known of a run, or chosen for it; in a study also what it starts from.
OF_RUN: dict[str, Any] = {
    "overlap": str | None,
    "drop_nan": bool,
    "total_steps": int | None,
    **dict.fromkeys(("schedule", "phase"), str | None),
}
OPTIONS = READING | OF_RUN | {"base": str | None, "model_size": float | None}


# The error of one option that cannot be understood.
refused = ProblemError.at


def pairs(
    option: str, values: Iterable[str] | None, kind: Callable[[str], Any] = str
) -> dict[str, Any]:
    """Return options of the form NAME=VALUE, by name, texts or numbers; the last equals sign parts them."""
    named = {}
    for value in values or ():
        name, _, text = (part.strip() for part in value.rpartition("="))
        if not name or not text:
            raise refused(option, f"{value!r} is not a pair", f"write it as in {option} NAME=VALUE")
        if name in named:
            raise refused(f"{option} {name}", "it is given twice", "give it once")
        try:
            named[name] = kind(text)
        except ValueError:
            problem, fix = f"{text!r} is not a number", f"write it as in {option} {name}=2.5"
            raise refused(f"{option} {name}", problem, fix) from None
    return named


def given(**values: Any) -> dict[str, Any]:
    """Return the options that were given."""
    return {
        name: value
        for name, value in values.items()
        if value is not None and value is not False and value != {}
    }


def _segments(text: str | None) -> Any:
    try:
        return None if text is None else tomllib.loads(f"schedule = {text}")["schedule"]
    except tomllib.TOMLDecodeError as error:
        problem = f"{text!r} is not a list of segments: {error}"
        fix = "write segments as in study.toml, the whole in quotes"
        raise refused("--schedule", problem, fix) from None


def as_recipe(options: dict[str, Any]) -> dict[str, Any]:
    """Return options that were given, as a `bayes_cpt.study.logs.runs.Recipe` has them."""
    asked = dict(options)
    asked["losses"] = pairs("--loss", asked.pop("loss"))
    asked["loss_unit"] = asked.pop("unit")
    asked["patterns"] = tuple(asked.pop("pattern") or ()) or None
    asked["schedule"] = _segments(asked.pop("schedule", None))
    return given(**asked)

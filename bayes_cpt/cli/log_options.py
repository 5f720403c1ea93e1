"""Options of commands that read logs: what a log does not contain, worded once."""

import tomllib
from collections.abc import Iterable
from typing import Any

from bayes_cpt.errors import Problem, ProblemError

# The type of an option, its metavar and help.
type Option = tuple[Any, str | None, str]
# How a log is read. Any option may be left out.
READING: dict[str, Option] = {
    "pattern": (
        list[str] | None,
        "PATTERN",
        "What lines of a text log look like, 'step {step} ... val loss {val_loss} ... lr {lr}', or a TOML "
        "of regular expressions; repeat for other lines.",
    ),
    "loss": (
        list[str] | None,
        "SERIES=SET",
        "A validation loss of the log and the validation set it is of; repeat for each "
        "[default: by the names].",
    ),
    "rate": (str | None, "SERIES", "The learning rate [default: by its name]."),
    "step": (str | None, "COLUMN", "The series that counts the steps [default: by its name]."),
    "step_unit": (
        str | None,
        "UNIT",
        "It counts steps, tokens, samples, micro-batches or epochs.",
    ),
    "per_step": (float | None, "N", "Tokens, samples or micro-batches of an optimiser step."),
    "per_epoch": (float | None, "N", "Optimiser steps of an epoch."),
    "unit": (
        str | None,
        "UNIT",
        "Of the losses: nats, bits (per token) or perplexity [default: by the names].",
    ),
    "start": (int | None, "STEP", "Step of the log at which the run begins, if it counts on."),
    "row_run": (str | None, "NAME", "Of tables of several runs: the one meant."),
}
# What else is known of a run, or chosen for it; in a study also what it starts from.
OF_RUN: dict[str, Option] = {
    "overlap": (
        str | None,
        "WHICH",
        "Which of two numbers of one step counts where the log does not say: first or last "
        "[default: refuse].",
    ),
    "drop_nan": (bool, None, "Leave out losses that are not finite, and say so."),
    "total_steps": (
        int | None,
        "N",
        "Length of the run [default: as the log says, else its last step].",
    ),
    "schedule": (
        str | None,
        "SEGMENTS",
        "Learning rates as in study.toml, where the log has none: "
        """'[{ shape = "constant", steps = 300, start = 1e-4, end = 1e-4 }]'.""",
    ),
    "phase": (str | None, "PHASE", "pt or cpt [default: cpt; for forecast, as the losses say]."),
}
OPTIONS = (
    READING
    | OF_RUN
    | {
        "base": (
            str | None,
            "NAME",
            "What a CPT run starts from [default: the study's only base].",
        ),
        "model_size": (float | None, "N", "Non-embedding parameters, millions."),
    }
)


class OptionError(ProblemError):
    """An option that cannot be understood."""


def refused(place: str, problem: str, fix: str) -> OptionError:
    """Return the error of an option."""
    return OptionError(Problem(place, problem, fix))


def pairs(option: str, values: Iterable[str] | None) -> dict[str, str]:
    """Return options of the form NAME=VALUE; the last equals sign parts them.

    Raises
    ------
    OptionError
    """
    named = {}
    for value in values or ():
        name, sign, rest = value.rpartition("=")
        if not sign or not name or not rest:
            raise refused(option, f"{value!r} is not a pair", f"write it as in {option} NAME=VALUE")
        named[name.strip()] = rest.strip()
    return named


def numbers(option: str, values: Iterable[str] | None) -> dict[str, float]:
    """Return options of the form NAME=NUMBER; see `pairs`."""
    named = pairs(option, values)
    found = {}
    for name, text in named.items():
        try:
            found[name] = float(text)
        except ValueError:
            problem = f"{text!r} is not a number"
            raise refused(
                f"{option} {name}", problem, f"write it as in {option} {name}=2.5"
            ) from None
    return found


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

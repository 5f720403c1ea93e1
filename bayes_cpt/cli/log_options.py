"""Options of commands that read logs: what a log does not contain, worded once."""

import inspect
import tomllib
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Annotated, Any

import typer

from bayes_cpt.cli.options import option
from bayes_cpt.errors import Problem, ProblemError

KINDS = (
    "auto, hf, csv, jsonl, parquet, tensorboard, wandb, mlflow, megatron, gpt-neox, nemo, nanogpt, "
    "modded-nanogpt, nanochat, llmc, litgpt, olmo, torchtitan, torchtune, mlx, maxtext, composer, "
    "fairseq or paddlenlp."
)
LogKind = Annotated[str, typer.Argument(metavar="KIND", help=KINDS, show_default=False)]
# The type of an option, its metavar, help and default in words.
type Option = tuple[Any, str | None, str, str]
# How a log is read. Any option may be left out.
READING: dict[str, Option] = {
    "pattern": (
        list[str],
        "PATTERN",
        "What lines of a text log look like, 'step {step} ... val loss {val_loss} ... lr {lr}', or a TOML "
        "of regular expressions; repeat for other lines.",
        "",
    ),
    "loss": (
        list[str],
        "SERIES=SET",
        "A validation loss of the log and the validation set it is of; repeat for each.",
        "by the names",
    ),
    "rate": (str, "SERIES", "The learning rate.", "by its name"),
    "step": (str, "COLUMN", "The series that counts the steps.", "by its name"),
    "step_unit": (str, "UNIT", "It counts steps, tokens, samples, micro-batches or epochs.", ""),
    "per_step": (float, "N", "Tokens, samples or micro-batches of an optimiser step.", ""),
    "per_epoch": (float, "N", "Optimiser steps of an epoch.", ""),
    "unit": (str, "UNIT", "Of the losses: nats, bits (per token) or perplexity.", "by the names"),
    "start": (int, "STEP", "Step of the log at which the run begins, if it counts on.", ""),
    "row_run": (str, "NAME", "Of tables of several runs: the one meant.", ""),
}
# What else is known of a run, or chosen for it.
OF_RUN: dict[str, Option] = {
    "overlap": (
        str,
        "WHICH",
        "Which of two numbers of one step counts where the log does not say: first or last.",
        "refuse",
    ),
    "drop_nan": (bool, None, "Leave out losses that are not finite, and say so.", ""),
    "total_steps": (int, "N", "Length of the run.", "as the log says, else its last step"),
    "schedule": (
        str,
        "SEGMENTS",
        "Learning rates as in study.toml, where the log has none: "
        r"'\[{ shape = \"constant\", steps = 300, start = 1e-4, end = 1e-4 }]'.",
        "",
    ),
    "phase": (str, "PHASE", "pt or cpt.", "cpt"),
    "base": (str, "NAME", "What a CPT run starts from.", "the study's only base"),
    "model_size": (float, "N", "Non-embedding parameters, millions.", ""),
}
OPTIONS = READING | OF_RUN


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


def _parameter(name: str) -> inspect.Parameter:
    """Return an option as a parameter of a command."""
    kind, metavar, text, default = OPTIONS[name]
    flag = f"--{name.replace('_', '-')}"
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=False if kind is bool else None,
        annotation=Annotated[
            bool if kind is bool else kind | None, option(metavar, text, flag, default=default)
        ],
    )


def reads_logs(*names: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return what gives a command options of `OPTIONS`, before its last two, ``quiet`` and ``json``.

    The command's argument ``reading`` gets those that were given, by the names that a
    `bayes_cpt.study.logs.recipes.Recipe` has for them.

    Parameters
    ----------
    *names : str
        Of the options; all unless given.
    """

    def decorate(verb: Callable[..., int]) -> Callable[..., int]:
        signature = inspect.signature(verb)
        of_verb = [each for name, each in signature.parameters.items() if name != "reading"]
        options = [_parameter(name) for name in names or OPTIONS]
        ordered = [*of_verb[:-2], *options, *of_verb[-2:]]

        @wraps(verb)
        def command(**values: Any) -> int:
            asked = {option.name: values.pop(option.name) for option in options}
            asked["losses"] = pairs("--loss", asked.pop("loss"))
            asked["loss_unit"] = asked.pop("unit")
            asked["patterns"] = tuple(asked.pop("pattern") or ()) or None
            asked["schedule"] = _segments(asked.pop("schedule", None))
            return verb(**values, reading=given(**asked))

        # Typer reads what to ask for from both.
        command.__signature__ = signature.replace(parameters=ordered)  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in ordered}
        return command

    return decorate

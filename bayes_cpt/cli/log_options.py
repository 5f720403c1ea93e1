"""Options of commands that read logs: what a log cannot tell of itself, worded once."""

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
    "modded-nanogpt, litgpt, olmo, torchtitan, torchtune, mlx, maxtext or composer."
)
LogKind = Annotated[str, typer.Argument(metavar="KIND", help=KINDS, show_default=False)]
# How a log is read: option by option its name in Python and its type. Any of them may be left out.
READING: dict[str, Any] = {
    "pattern": Annotated[
        list[str] | None,
        option(
            "PATTERN",
            "What lines of a text log look like, 'step {step} ... val loss {val_loss} ... lr {lr}', or a "
            "TOML of regular expressions; repeat for other lines.",
            "--pattern",
        ),
    ],
    "loss": Annotated[
        list[str] | None,
        option(
            "SERIES=SET",
            "A validation loss of the log and the validation set it is of; repeat for each.",
            "--loss",
            default="by the names",
        ),
    ],
    "rate": Annotated[str | None, option("SERIES", "The learning rate.", default="by its name")],
    "step": Annotated[
        str | None, option("COLUMN", "The series that counts the steps.", default="by its name")
    ],
    "step_unit": Annotated[
        str | None,
        option("UNIT", "What it counts: steps, tokens, samples, micro-batches or epochs."),
    ],
    "per_step": Annotated[
        float | None, option("N", "Tokens, samples or micro-batches of an optimiser step.")
    ],
    "per_epoch": Annotated[float | None, option("N", "Optimiser steps of an epoch.")],
    "unit": Annotated[
        str | None,
        option(
            "UNIT",
            "Of the losses: nats, bits (per token) or perplexity.",
            default="by the names, else nats",
        ),
    ],
    "start": Annotated[
        int | None,
        option(
            "STEP",
            "Step of the log at which the run begins, where the trainer counts on from its base.",
        ),
    ],
    "row_run": Annotated[str | None, option("NAME", "Of tables of several runs: the one meant.")],
}
# What else is known of a run, or chosen for it.
OF_RUN: dict[str, Any] = {
    "overlap": Annotated[
        str | None,
        option(
            "WHICH",
            "Which of two numbers of one step counts where the log does not say: first or last.",
            default="refuse",
        ),
    ],
    "drop_nan": Annotated[
        bool, typer.Option("--drop-nan", help="Leave out losses that are not finite, and say so.")
    ],
    "total_steps": Annotated[
        int | None, option("N", "Length of the run.", default="as the log says, else its last step")
    ],
    "schedule": Annotated[
        str | None,
        option(
            "SEGMENTS",
            "Learning rates as in study.toml, where the log has none: "
            r"'\[{ shape = \"constant\", steps = 300, start = 1e-4, end = 1e-4 }]'.",
        ),
    ],
    "phase": Annotated[str | None, option("PHASE", "pt or cpt.", default="cpt")],
    "base": Annotated[
        str | None, option("NAME", "What a CPT run starts from.", default="the study's only base")
    ],
    "model_size": Annotated[float | None, option("N", "Non-embedding parameters, millions.")],
}
OPTIONS = READING | OF_RUN


class OptionError(ProblemError):
    """An option that cannot be understood."""


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
            problem = Problem(
                option, f"{value!r} is not a pair", f"write it as in {option} NAME=VALUE"
            )
            raise OptionError(problem)
        named[name.strip()] = rest.strip()
    return named


def shares(option: str, values: dict[str, str]) -> dict[str, float]:
    """Return the numbers of options of the form NAME=NUMBER.

    Raises
    ------
    OptionError
    """
    numbers = {}
    for name, text in values.items():
        try:
            numbers[name] = float(text)
        except ValueError:
            problem = Problem(
                f"{option} {name}", f"{text!r} is not a number", "write 0.25 for 25 %"
            )
            raise OptionError(problem) from None
    return numbers


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
        fix = "write segments as in study.toml, the whole in quotes"
        problem = Problem("--schedule", f"{text!r} is not a list of segments: {error}", fix)
        raise OptionError(problem) from None


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
        options = [
            inspect.Parameter(
                name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=False if name == "drop_nan" else None,
                annotation=OPTIONS[name],
            )
            for name in names or OPTIONS
        ]
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

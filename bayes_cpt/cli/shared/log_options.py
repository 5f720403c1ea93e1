"""Options of verbs that read logs: what a log cannot tell of itself, worded once."""

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Annotated, Any

import typer

from bayes_cpt.cli.options import option
from bayes_cpt.errors import BayesCPTError, Problem

LogKind = Annotated[
    str,
    typer.Argument(
        metavar="KIND",
        help="auto, hf, csv, jsonl, parquet, tensorboard, wandb, mlflow, megatron, nemo, nanogpt, litgpt, "
        "olmo or torchtitan.",
        show_default=False,
    ),
]
# How a log is read: option by option its name in Python and its type. Any of them may be left out.
READING: dict[str, Any] = {
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
        str | None, option("COLUMN", "Of tables: the column of the steps.", default="by its name")
    ],
    "step_unit": Annotated[
        str | None,
        option(
            "UNIT", "What the log counts: steps, tokens or samples; the last two with --per-step."
        ),
    ],
    "per_step": Annotated[float | None, option("N", "Tokens or samples of an optimiser step.")],
    "unit": Annotated[
        str | None,
        option(
            "UNIT",
            "Of the losses: nats, bits (per token) or perplexity.",
            default="by the names, else nats",
        ),
    ],
    "overlap": Annotated[
        str | None,
        option(
            "WHICH",
            "Which of two numbers of one step counts where a restarted job logged it again and "
            "differently: first or last.",
            default="refuse",
        ),
    ],
    "drop_nan": Annotated[
        bool, typer.Option("--drop-nan", help="Leave out losses that are no numbers, and say so.")
    ],
    "model_size": Annotated[float | None, option("N", "Non-embedding parameters, millions.")],
}

# What they are where they are left out, unless None.
NOT_GIVEN = {"drop_nan": False}


class OptionError(BayesCPTError):
    """An option that cannot be understood."""

    def __init__(self, problem: Problem) -> None:
        self.problems = (problem,)
        super().__init__(str(problem))


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
            raise OptionError(
                Problem(option, f"{value!r} is no pair", f"write it as in {option} NAME=VALUE")
            )
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
            problem = Problem(f"{option} {name}", f"{text!r} is no number", "write 0.25 for 25 %")
            raise OptionError(problem) from None
    return numbers


def given(**values: Any) -> dict[str, Any]:
    """Return the options that were given."""
    return {
        name: value
        for name, value in values.items()
        if value is not None and value is not False and value != {}
    }


def reads_logs(*names: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return what gives a verb options of `READING`, before its last two, ``quiet`` and ``json``.

    The verb's argument ``reading`` gets those that were given, by the names that a
    `bayes_cpt.study.logs.recipe.Recipe` has for them.

    Parameters
    ----------
    *names : str
        Of the options; all unless given.
    """

    def decorate(verb: Callable[..., int]) -> Callable[..., int]:
        signature = inspect.signature(verb)
        of_verb = [each for name, each in signature.parameters.items() if name != "reading"]
        options = [_option(name) for name in names or READING]
        ordered = [*of_verb[:-2], *options, *of_verb[-2:]]

        @wraps(verb)
        def command(**values: Any) -> int:
            asked = {option.name: values.pop(option.name) for option in options}
            asked["losses"] = pairs("--loss", asked.pop("loss"))
            asked["loss_unit"] = asked.pop("unit")
            return verb(**values, reading=given(**asked))

        # Typer reads what to ask for from both.
        command.__signature__ = signature.replace(parameters=ordered)  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in ordered}
        return command

    return decorate


def _option(name: str) -> inspect.Parameter:
    return inspect.Parameter(
        name,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=NOT_GIVEN.get(name),
        annotation=READING[name],
    )

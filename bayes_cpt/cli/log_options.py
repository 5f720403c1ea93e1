"""Options of verbs that read logs: what a log cannot tell of itself, worded once."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer

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
Losses = Annotated[
    list[str] | None,
    typer.Option(
        "--loss",
        metavar="SERIES=SET",
        help="A validation loss of the log and the validation set it is of; repeat for each "
        r"\[default: by the names].",
        show_default=False,
    ),
]
Rate = Annotated[
    str | None,
    typer.Option(
        metavar="SERIES", help=r"The learning rate \[default: by its name].", show_default=False
    ),
]
Step = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help=r"Of tables: the column of the steps \[default: by its name].",
        show_default=False,
    ),
]
StepUnit = Annotated[
    str | None,
    typer.Option(
        metavar="UNIT",
        help="What the log counts: steps, tokens or samples; the last two with --per-step.",
        show_default=False,
    ),
]
PerStep = Annotated[
    float | None,
    typer.Option(metavar="N", help="Tokens or samples of an optimiser step.", show_default=False),
]
Unit = Annotated[
    str | None,
    typer.Option(
        metavar="UNIT",
        help=r"Of the losses: nats, bits (per token) or perplexity \[default: by the names, else nats].",
        show_default=False,
    ),
]
Overlap = Annotated[
    str | None,
    typer.Option(
        metavar="WHICH",
        help="Which of two numbers of one step counts where a restarted job logged it again and "
        r"differently: first or last \[default: refuse].",
        show_default=False,
    ),
]
DropNan = Annotated[
    bool, typer.Option("--drop-nan", help="Leave out losses that are no numbers, and say so.")
]


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
    found = {}
    for value in values or ():
        name, sign, rest = value.rpartition("=")
        if not sign or not name or not rest:
            raise OptionError(
                Problem(option, f"{value!r} is no pair", f"write it as in {option} NAME=VALUE")
            )
        found[name.strip()] = rest.strip()
    return found


def shares(option: str, values: dict[str, str]) -> dict[str, float]:
    """Return the numbers of options of the form NAME=NUMBER.

    Raises
    ------
    OptionError
    """
    found = {}
    for name, text in values.items():
        try:
            found[name] = float(text)
        except ValueError:
            problem = Problem(f"{option} {name}", f"{text!r} is no number", "write 0.25 for 25 %")
            raise OptionError(problem) from None
    return found


def given(**values: Any) -> dict[str, Any]:
    """Return the options that were given."""
    return {
        name: value
        for name, value in values.items()
        if value is not None and value is not False and value != {}
    }

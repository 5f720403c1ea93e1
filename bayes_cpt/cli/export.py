"""`bayes-cpt export`: a planned run's schedule as a trainer takes it."""

import json as json_library
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayes_cpt.cli.options import Json, Quiet, option, output_option
from bayes_cpt.cli.output import Output, OutputFile

if TYPE_CHECKING:
    from bayes_cpt.study.runs import Run


class Trainer(StrEnum):
    """What a schedule is written for."""

    hf = "hf"
    torch = "torch"


SUFFIXES = {Trainer.hf: (".json",), Trainer.torch: (".py",)}


def export(
    kind: Annotated[
        Trainer,
        typer.Argument(metavar="KIND", help="hf or torch.", show_default=False),
    ],
    plan: Annotated[
        Path,
        typer.Argument(
            metavar="PLAN", help="A study folder, or a TOML file of runs.", show_default=False
        ),
    ],
    run: Annotated[str, option("NAME", "The run of the plan.")],
    output: Annotated[
        Path,
        output_option("FILE", "File to write: .json for hf, .py for torch."),
    ],
    fit: Annotated[
        Path | None, option("FIT", "The fit whose bases and validation sets a plan leaves out.")
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    r"""Write the schedule of a planned run as a trainer takes it.

    hf gives keywords of TrainingArguments, torch a Python file with a function for LambdaLR. A schedule
    that the trainer cannot follow is refused; torch takes any.

    \b
    Example:
    bayes-cpt export hf plan.toml --run long --fit fit.nc -o arguments.json

    \b
    Exit codes:
    0  done
    2  bad input, or a schedule that the trainer cannot follow: nothing is written
    """
    from bayes_cpt.study.exports import torch_source, training_arguments

    written = Output(quiet, json)
    file = OutputFile(output, SUFFIXES[kind], plan)
    with written.cautions():
        chosen = _run(plan, run, fit)
    if kind is Trainer.hf:
        text = json_library.dumps(training_arguments(chosen), indent=2) + "\n"
        written.text(text)
    else:
        text = torch_source(chosen)
        written.text(f"{chosen.schedule.steps} steps, exact")
    file.write(text)
    written.text(f"Written to {output}")
    written.result({"plan": str(plan), "run": run, "kind": kind.value, "output": str(output)})
    return 0


def _run(plan: Path, name: str, fit: Path | None) -> "Run":
    from bayes_cpt.study.folder import read_plan

    fitted = None
    if fit is not None:
        from bayes_cpt.inference.posterior import load

        fitted = load(fit).study
    return read_plan(plan, fitted).run(name)

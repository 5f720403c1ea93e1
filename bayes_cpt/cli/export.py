"""`bayes-cpt export`: a planned run's schedule as a trainer takes it."""

import json
from pathlib import Path
from typing import Literal

import bayes_cpt
from bayes_cpt.cli.options import command
from bayes_cpt.cli.output import Answer, OutputFile

SUFFIXES = {"hf": (".json",), "torch": (".py",)}


@command
def export(
    kind: Literal["hf", "torch"], plan: Path, *, run: str, output: Path, fit: Path | None = None
) -> Answer:
    r"""Write the schedule of a planned run as a trainer takes it.

    hf gives keywords of TrainingArguments, torch a Python file with a function for LambdaLR. Hugging Face's
    warm-ups begin at a rate of their own: where that departs from the plan, it is said. Any other schedule
    that the Trainer cannot follow is refused; torch takes any.

    \b
    Example:
    bayes-cpt export hf plan.toml --run long --fit fit.nc -o arguments.json

    \b
    Exit codes:
    0  done
    2  bad input, or a schedule that the trainer cannot follow: nothing is written

    Parameters
    ----------
    kind : KIND
        hf or torch.
    plan : PLAN
        A study folder, or a TOML file of runs.
    run : NAME
        The run of the plan.
    output : FILE
        File to write: .json for hf, .py for torch.
    fit : FIT
        The fit whose bases and validation sets a plan leaves out.
    """
    from bayes_cpt.study.exports import torch_source, training_arguments, warmup_departure

    file = OutputFile(output, SUFFIXES[kind], plan)
    chosen = bayes_cpt.read_plan(plan, bayes_cpt.load(fit).study if fit else None).run(run)
    departs = warmup_departure(chosen) if kind == "hf" else ""
    if kind == "hf":
        text = said = json.dumps(training_arguments(chosen), indent=2) + "\n"
    else:
        text, said = torch_source(chosen), f"{chosen.schedule.steps} steps, exact"
    file.write(text)
    notes = [f"Note: {departs}."] if departs else []
    return Answer({"departs": departs}, parts=[said], notes=notes, written=[file])

"""Measured losses of the lab's runs -> a study folder.

    python -m lab.export RUNS.toml --losses RUNS/losses -o STUDY/fit --leave-out 'long_*'
    python -m lab.export RUNS.toml --losses RUNS/losses -o STUDY/predict --only 'long_*'

Only losses and configurations leave the lab; no text, no tokens, no weights.
"""

import argparse
import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pandas as pd

from bayes_cpt.study.folder import write_study
from bayes_cpt.study.study import Base, Run, Study
from lab.errors import LabError, run_command
from lab.training.run_list import RunList, read_run_list

LOSS_DIGITS = 6


def chosen_runs(
    listed: RunList, *, only: tuple[str, ...] = ("*",), leave_out: tuple[str, ...] = ()
) -> list[str]:
    """Return the runs whose names match, with the PT runs that their bases lie on."""
    named = {
        name
        for name in listed.runs
        if any(fnmatchcase(name, pattern) for pattern in only)
        and not any(fnmatchcase(name, pattern) for pattern in leave_out)
    }
    if not named:
        raise LabError(
            "the list of runs", "no run matches the patterns", "correct --only or --leave-out"
        )
    wanted = set(named)
    for name in named:
        base = listed.runs[name].base
        while base is not None:
            source = listed.bases[base][0]
            wanted.add(source)
            base = listed.runs[source].base
    return [name for name in listed.runs if name in wanted]


def study_parts(listed: RunList, runs: list[str]) -> dict[str, Any]:
    """Return name, validation sets, bases, runs and tokens per step of a study of some runs."""
    size = listed.model.non_embedding_parameters / 1e6
    kept = [listed.runs[name] for name in runs]
    used = {run.base for run in kept}
    bases = [
        Base(
            name,
            steps=step,
            schedule=listed.base_schedule(name),
            run=source,
            model_size=round(size, 3),
        )
        for name, (source, step) in listed.bases.items()
        if name in used or source in runs
    ]
    return {
        "name": listed.name,
        "general": listed.general,
        "target": listed.target,
        "tokens_per_step": float(listed.tokens_per_step),
        "bases": tuple(bases),
        "runs": tuple(
            Run(
                run.name,
                run.phase,
                listed.full_schedule(run),
                base=run.base if run.phase == "cpt" else None,
                replay=run.replay,
                model_size=round(size, 3),
                batch_tokens=float(listed.tokens_per_step),
                sequence_length=listed.model.context,
                optimizer_state="carried" if run.phase == "cpt" else None,
            )
            for run in kept
        ),
    }


def measured_study(listed: RunList, losses: Path, runs: list[str]) -> Study:
    """Return the study of some finished runs."""
    rows: list[tuple[str, int, str, float]] = []
    for name in runs:
        *measurements, last = read_losses(losses / f"{name}.jsonl")
        if not last.get("done"):
            raise LabError(
                f"run {name}", "it is not done", "train it to its end, or --leave-out it"
            )
        steps = [line["step"] for line in measurements]
        if steps != list(listed.measured_steps(listed.runs[name])):
            raise LabError(
                f"run {name}",
                f"it was measured after {len(steps)} steps that are not those of the list",
                "give the list that it was trained with",
            )
        rows += [
            (name, line["step"], domain, round(line["losses"][domain], LOSS_DIGITS))
            for line in measurements
            for domain in listed.validation.domains
        ]
    table = pd.DataFrame(rows, columns=["run", "step", "domain", "loss"])
    return Study(**study_parts(listed, runs), losses=table, description=listed.description)


def read_losses(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a run's JSONL, at least one."""
    try:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
    except FileNotFoundError as error:
        raise LabError(str(path), "the run has no losses", "train it, or --leave-out it") from error
    except json.JSONDecodeError as error:
        raise LabError(
            str(path), f"a line is broken: {error}", "let lab.train go on with it"
        ) from error
    if not lines:
        raise LabError(str(path), "it is empty", "train the run, or --leave-out it")
    return lines


def main(arguments: list[str]) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.export", description=__doc__.split("\n")[0]
    )
    parser.add_argument("runs", type=Path, help="list of runs, TOML")
    parser.add_argument(
        "--losses", type=Path, required=True, help="folder of the runs' JSONL files"
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, help="the study; must not exist"
    )
    parser.add_argument("--only", action="append", help="pattern of runs to take; may be repeated")
    parser.add_argument(
        "--leave-out", action="append", help="pattern of runs to leave out; likewise"
    )
    chosen = parser.parse_args(arguments)
    listed = read_run_list(chosen.runs)
    runs = chosen_runs(
        listed, only=tuple(chosen.only or ("*",)), leave_out=tuple(chosen.leave_out or ())
    )
    write_study(measured_study(listed, chosen.losses, runs), chosen.output)
    return 0


if __name__ == "__main__":
    run_command(main)

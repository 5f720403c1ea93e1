"""Between the list of runs and the tool: a plan for `bayes-cpt check`, and long runs that it recommends.

    python -m lab.plan write RUNS.toml -o PLAN            # then: bayes-cpt check PLAN
    python -m lab.plan adopt RUNS.toml DECISION/plan.toml --name long_decided -o MORE.toml

`check` asks where losses will be measured, not what they are, so a plan written before anything is trained
holds one and the same loss everywhere and says so in its description. It is not for fitting.
"""

import argparse
import json
import tomllib
from pathlib import Path
from typing import Any

import pandas as pd

from bayes_cpt.study.folder import write_study
from bayes_cpt.study.study import Study
from lab.errors import LabError, report, run_command
from lab.export import chosen_runs, study_parts
from lab.training.run_list import RunList, read_run_list

# Stands for every loss of a plan, nats/token.
PLACEHOLDER = 3.0


def plan_study(listed: RunList, *, leave_out: tuple[str, ...] = ()) -> Study:
    """Return the runs of a list as a study whose losses are placeholders, measured where they will be."""
    runs = chosen_runs(listed, leave_out=leave_out)
    rows = [
        (name, step, domain, PLACEHOLDER)
        for name in runs
        for step in listed.measured_steps(listed.runs[name])
        for domain in listed.validation.domains
    ]
    losses = pd.DataFrame(rows, columns=["run", "step", "domain", "loss"])
    return Study(
        **study_parts(listed, runs),
        losses=losses,
        description=f"A plan, for check alone: no run is trained yet, every loss is {PLACEHOLDER:g}",
    )


def adopt(text: str, decided: str, name: str, runs_place: str = "the list") -> str:
    """Return a list of runs with the first run of a decision's plan at its end."""
    listed = tomllib.loads(text)
    runs = [run for run in tomllib.loads(decided).get("runs", {}).values() if run["phase"] == "cpt"]
    if not runs:
        raise LabError("the plan", "it has no CPT run", "give the plan.toml of bayes-cpt decide")
    if name in listed["runs"]:
        raise LabError(f"{runs_place}, run {name}", "it is there already", "choose another name")
    run = runs[0]
    if run["base"] not in listed.get("bases", {}):
        raise LabError(runs_place, f"it has no base {run['base']}", "decide among its own bases")
    segments = [f"  {{ {_pairs(segment)} }}," for segment in run["schedule"]]
    lines = [
        f"[runs.{name}]",
        'phase = "cpt"',
        f"base = {json.dumps(run['base'])}",
        f"replay = {run['replay']!r}",
        "schedule = [",
        *segments,
        "]",
    ]
    return text.rstrip("\n") + "\n\n" + "\n".join(lines) + "\n"


def _pairs(segment: dict[str, Any]) -> str:
    return ", ".join(f"{key} = {json.dumps(value)}" for key, value in segment.items())


def main(arguments: list[str]) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m lab.plan", description=__doc__.split("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    write = verbs.add_parser("write", help="the short runs as a study for bayes-cpt check")
    write.add_argument("runs", type=Path, help="list of runs, TOML")
    write.add_argument("--leave-out", action="append", help="pattern of runs [default: long_*]")
    adopted = verbs.add_parser("adopt", help="add the run of a decision to the list")
    adopted.add_argument("runs", type=Path, help="list of runs, TOML")
    adopted.add_argument("plan", type=Path, help="plan.toml of bayes-cpt decide")
    adopted.add_argument("--name", required=True, help="of the run in the list")
    for verb in (write, adopted):
        verb.add_argument("-o", "--output", type=Path, required=True)
    chosen = parser.parse_args(arguments)
    listed = read_run_list(chosen.runs)
    if chosen.verb == "write":
        leave_out = tuple(chosen.leave_out or ("long_*",))
        write_study(plan_study(listed, leave_out=leave_out), chosen.output)
        report(f"now: bayes-cpt check {chosen.output}")
        return 0
    text = adopt(chosen.runs.read_text(), chosen.plan.read_text(), chosen.name, str(chosen.runs))
    chosen.output.write_text(text)
    read_run_list(chosen.output)
    return 0


if __name__ == "__main__":
    run_command(main)

"""Decide on simulated studies: regret of each method, and whether what is stated comes true.

From the repository's root, with the extra `check` installed::

    OMP_NUM_THREADS=1 PYTHONPATH=tests python -m testbench.decisions -n 200 --jobs 2 --seed 0 -o OUT

Truths: half about the Knowledge-Pile, half about the Pile-of-Law coefficients that the paper prints
(`testbench.truths`). Studies: one PT run and five CPT runs of 2,000 steps, half of them with the residuals
that the model assumes, half with others (`testbench.short_studies`). To be chosen: replay ratio and peak
learning rate of a run of 10,000 steps. A command that was stopped goes on where it was.
"""

import argparse
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from bayes_cpt.validate.parallel import Pool, task_seed
from bayes_cpt.validate.records import Records
from testbench.decision_report import figure, markdown
from testbench.one_decision import SHIFTS, Task, one_study
from testbench.short_studies import NOISES

# The log of the tasks last: a task with a row there has its rows everywhere.
TABLES = ("choices", "statements", "constraints", "studies")
KINDS = tuple(itertools.product(SHIFTS, NOISES))


def tasks(studies: int, seed: int) -> list[Task]:
    """Return the studies to simulate, all kinds of truth and noise in turn."""
    found = []
    for number in range(studies):
        shift, noise = KINDS[number % len(KINDS)]
        found.append(Task(str(number), shift, noise, task_seed(seed, f"study {number}")))
    return found


def decide_all(
    studies: int, seed: int, jobs: int, folder: Path | None = None
) -> dict[str, pd.DataFrame]:
    """Return the tables of so many studies; those that a folder has already are not run again."""
    records = Records.open(folder, {"seed": seed}, TABLES)
    wanted = tasks(studies, seed)
    left = [task for task in wanted if task.label not in records.done]
    for number, done in enumerate(Pool(jobs).run(one_study, left), start=studies - len(left) + 1):
        records.add(done.task, done.tables)
        sys.stderr.write(f"study {number} of {studies}\n")
    labels = {task.label for task in wanted}
    return {name: own[own["task"].isin(labels)] for name, own in records.tables.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m testbench.decisions", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("-n", "--studies", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("-o", "--out", type=Path, help="folder for tables, report.md and a figure")
    options = parser.parse_args(arguments)
    tables = decide_all(options.studies, options.seed, options.jobs, options.out)
    report = markdown(tables)
    sys.stdout.write(report)
    if options.out:
        (options.out / "report.md").write_text(report, encoding="utf-8")
        figure(tables).savefig(options.out / "decisions.png", dpi=110)


if __name__ == "__main__":
    main()

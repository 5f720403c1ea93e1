"""What benches of many tasks share: results that are kept as they come, and a command line."""

import argparse
import itertools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pandas as pd
from matplotlib.figure import Figure

from bayes_cpt.validate.tasks import Pool, Records, task_seed
from testbench.one_decision import SHIFTS, Outcome, Task
from testbench.short_studies import NOISES

type Tables = dict[str, pd.DataFrame]


class Labelled(Protocol):
    """A task with a place in the tables."""

    @property
    def label(self) -> str:
        """Its place."""


def worlds(
    count: int,
    seed: int,
    word: str,
    noises: Sequence[str] = tuple(NOISES),
    forms: Sequence[str] = ("law",),
) -> list[Task]:
    """Return true laws to simulate, all kinds of truth and noise in turn; seeds come from the word."""
    found, kinds = [], list(itertools.product(SHIFTS, noises, forms))
    for number in range(count):
        shift, noise, form = kinds[number % len(kinds)]
        found.append(Task(str(number), shift, noise, task_seed(seed, f"{word} {number}"), form))
    return found


def kept_tables[T: Labelled](
    work: Callable[[T], Outcome],
    wanted: Sequence[T],
    names: Sequence[str],
    seed: int,
    jobs: int,
    folder: Path | None,
    word: str,
) -> Tables:
    """Return the tables of tasks; what a folder has already is not done again."""
    records = Records.open(folder, {"seed": seed}, names)
    left = [task for task in wanted if task.label not in records.done]
    before = len(wanted) - len(left)
    for number, done in enumerate(Pool(jobs).run(work, left), start=before + 1):
        records.add(done.task, done.tables)
        sys.stderr.write(f"{word} {number} of {len(wanted)}\n")
    labels = {task.label for task in wanted}
    return {name: own[own["task"].isin(labels)] for name, own in records.tables.items()}


@dataclass(frozen=True)
class Command:
    """The command line of a bench.

    Parameters
    ----------
    name, description : str
        Of the module, and its docstring.
    counted : str
        What ``-n`` counts.
    default : int
        How many unless told.
    run : callable
        Returns the tables of so many, a seed, jobs and a folder.
    report, figure : callable
        Of the tables.
    picture : str
        File of the figure.
    """

    name: str
    description: str | None
    counted: str
    default: int
    run: Callable[[int, int, int, Path | None], Tables]
    report: Callable[[Tables], str]
    figure: Callable[[Tables], Figure]
    picture: str

    def __call__(self, arguments: Sequence[str] | None = None) -> None:
        """Run the command line."""
        parser = argparse.ArgumentParser(
            prog=f"python -m {self.name}", description=self.description
        )
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.add_argument("-n", f"--{self.counted}", dest="count", type=int, default=self.default)
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--jobs", type=int, default=1)
        what = "folder for tables, report.md and a figure"
        parser.add_argument("-o", "--out", type=Path, help=what)
        options = parser.parse_args(arguments)
        tables = self.run(options.count, options.seed, options.jobs, options.out)
        report = self.report(tables)
        sys.stdout.write(report)
        if options.out:
            (options.out / "report.md").write_text(report, encoding="utf-8")
            self.figure(tables).savefig(options.out / self.picture, dpi=110)

"""What benches of many tasks share: results that are kept as they come."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import pandas as pd

from bayes_cpt.validate.tasks import Pool, Records
from testbench.one_decision import Outcome

type Tables = dict[str, pd.DataFrame]


class Labelled(Protocol):
    """A task with a place in the tables."""

    @property
    def label(self) -> str:
        """Its place."""


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
    records.write()
    return {name: records.in_order(name, [task.label for task in wanted]) for name in names}

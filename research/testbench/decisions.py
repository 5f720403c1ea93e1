"""Decide on simulated studies: regret of each method, and whether what is stated comes true.

From the repository's root, with the extra `check` installed::

    OMP_NUM_THREADS=1 PYTHONPATH=research python -m testbench.decisions -n 200 --jobs 2 --seed 0 -o OUT

Truths: half about the Knowledge-Pile, half about the Pile-of-Law coefficients that the paper prints
(`testbench.truths`); a third each of the form of our own law, of Eq. 8 as printed, and of the data-mixing
law with another approach in steps (``true-*.toml`` beside this file). Studies: one PT run and five CPT runs
of 2,000 steps, all with a misfit and fluctuations of the size that the lab's runs show; like runs are
missed alike (`testbench.shared_misfit`). Every fit is held to the package's contract. To be chosen: replay
ratio and peak learning rate of a run of 10,000 steps; and by `decide` itself, with the length of the decay
and the last learning rate free as well. A command that was stopped goes on where it was.
"""

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

from bayes_cpt.validate.tasks import task_seed
from testbench.decision_report import figure, markdown
from testbench.long_loop import Tables, kept_tables
from testbench.one_decision import SHIFTS, Task, one_study
from testbench.report import options_of
from testbench.short_studies import FORMS

# The log of the tasks last.
TABLES = ("choices", "statements", "constraints", "free", "studies")


def tasks(studies: int, seed: int) -> list[Task]:
    """Return the studies to simulate, all kinds of truth in turn."""
    kinds = itertools.cycle(itertools.product(SHIFTS, FORMS))
    return [
        Task(str(number), shift, task_seed(seed, f"study {number}"), form)
        for number, (shift, form) in zip(range(studies), kinds, strict=False)
    ]


def decide_all(studies: int, seed: int, jobs: int, folder: Path | None = None) -> Tables:
    """Return the tables of so many studies; those that a folder has already are not run again."""
    return kept_tables(one_study, tasks(studies, seed), TABLES, seed, jobs, folder, "study")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = options_of("decisions", __doc__)
    parser.add_argument("-n", "--studies", type=int, default=200)
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

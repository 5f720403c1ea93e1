"""Decide on simulated studies: regret of each method, and whether what is stated comes true.

From the repository's root, with the extra `check` installed::

    OMP_NUM_THREADS=1 PYTHONPATH=research python -m testbench.decisions -n 200 --jobs 2 --seed 0 -o OUT

Truths: half about the Knowledge-Pile, half about the Pile-of-Law coefficients that the paper prints
(`testbench.truths`); a third each of the form of our own law, of Eq. 8 as printed, and of the data-mixing
law with another approach in steps (``true-*.toml`` beside this file). Studies: one PT run and five CPT runs
of 2,000 steps, all with a misfit and fluctuations of the size that the lab's runs show; like runs are
missed alike (`testbench.shared_misfit`). Every fit is held to the package's contract. To be chosen: replay
ratio and peak learning rate of a run of 10,000 steps. A command that was stopped goes on where it was.
"""

from pathlib import Path

from testbench.decision_report import figure, markdown
from testbench.long_loop import Command, Tables, kept_tables, worlds
from testbench.one_decision import Task, one_study
from testbench.shared_misfit import SHARED
from testbench.short_studies import FORMS

# The log of the tasks last.
TABLES = ("choices", "statements", "constraints", "studies")


def tasks(studies: int, seed: int) -> list[Task]:
    """Return the studies to simulate, all kinds of truth in turn."""
    return worlds(studies, seed, "study", (SHARED,), tuple(FORMS))


def decide_all(studies: int, seed: int, jobs: int, folder: Path | None = None) -> Tables:
    """Return the tables of so many studies; those that a folder has already are not run again."""
    return kept_tables(one_study, tasks(studies, seed), TABLES, seed, jobs, folder, "study")


main = Command(
    "testbench.decisions", __doc__, "studies", 200, decide_all, markdown, figure, "decisions.png"
)

if __name__ == "__main__":
    main()

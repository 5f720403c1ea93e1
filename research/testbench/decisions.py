"""Decide on simulated studies: regret of each method, and whether what is stated comes true.

From the repository's root, with the extra `check` installed::

    OMP_NUM_THREADS=1 PYTHONPATH=research python -m testbench.decisions -n 200 --jobs 2 --seed 0 -o OUT

Truths: half about the Knowledge-Pile, half about the Pile-of-Law coefficients that the paper prints
(`testbench.truths`). Studies: one PT run and five CPT runs of 2,000 steps, a third of them with a misfit of
the lab's size that like runs share (`testbench.shared_misfit`), a third with the residuals that the model
of a single curve assumes, a third with others (`testbench.short_studies`). To be chosen: replay ratio and
peak learning rate of a run of 10,000 steps. A command that was stopped goes on where it was.
"""

from pathlib import Path

from testbench.decision_report import figure, markdown
from testbench.long_loop import Command, Tables, kept_tables, worlds
from testbench.one_decision import Task, one_study
from testbench.shared_misfit import SHARED
from testbench.short_studies import NOISES

# The log of the tasks last.
TABLES = ("choices", "statements", "constraints", "studies")


def tasks(studies: int, seed: int) -> list[Task]:
    """Return the studies to simulate, all kinds of truth and noise in turn."""
    return worlds(studies, seed, "study", (SHARED, *NOISES))


def decide_all(studies: int, seed: int, jobs: int, folder: Path | None = None) -> Tables:
    """Return the tables of so many studies; those that a folder has already are not run again."""
    return kept_tables(one_study, tasks(studies, seed), TABLES, seed, jobs, folder, "study")


main = Command(
    "testbench.decisions", __doc__, "studies", 200, decide_all, markdown, figure, "decisions.png"
)

if __name__ == "__main__":
    main()

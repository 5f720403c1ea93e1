"""What a run that branches off another one shares with it: the trunk's curve up to the branch."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.study.runs import Branch, Run
from bayes_cpt.study.study import Study


class Measured(NamedTuple):
    """Rising steps, shape (points,), and the losses there, nats/token."""

    steps: NDArray[np.int64]
    losses: NDArray[np.float64]


def branch_of(study: Study, run: Run) -> Branch | None:
    """Return where a run leaves its trunk; None where the study does not have the trunk.

    Parameters
    ----------
    study : Study
    run : Run
    """
    return run.branch if run.branch is not None and run.branch.run in study else None


def trunk_curve(study: Study, run: Run, domain: str) -> Measured:
    """Return what a run's trunk shows up to the branch: nothing where there is none.

    Parameters
    ----------
    study : Study
        Has the trunk; the run itself need not be in it.
    run : Run
    domain : str
        A validation set.
    """
    branch = branch_of(study, run)
    if branch is None:
        return Measured(np.empty(0, dtype=np.int64), np.empty(0))
    steps, losses = whole_curve(study, study.run(branch.run), domain)
    shared = steps <= branch.step
    return Measured(steps[shared], losses[shared])


def own_curve(study: Study, run: Run, domain: str) -> Measured:
    """Return what a run of a study shows that its trunk does not: all of it where it has no trunk.

    Parameters
    ----------
    study : Study
    run : Run
    domain : str
        A validation set.
    """
    steps, losses = study.curve(run.name, domain)
    branch = branch_of(study, run)
    own = steps > branch.step if branch else np.ones(steps.size, dtype=bool)
    return Measured(steps[own], losses[own])


def whole_curve(study: Study, run: Run, domain: str) -> Measured:
    """Return the trunk's curve up to the branch, and the run's own from there on.

    Parameters
    ----------
    study : Study
    run : Run
    domain : str
        A validation set.
    """
    parts = (trunk_curve(study, run, domain), own_curve(study, run, domain))
    return Measured(*(np.concatenate(own) for own in zip(*parts, strict=True)))

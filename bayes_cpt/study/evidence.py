"""Whether the losses of a study can tell a law anything: asked before a fit, which would never end.

A loss that is the same everywhere drives the sizes of all residuals to nothing; one that was measured at
step 0 alone says nothing about training. Which runs would tell more is another question, see
`bayes_cpt.identify`.
"""

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats
from bayes_cpt.errors import Problem, StudyError, StudyWarning
from bayes_cpt.study.plausibility import is_one_number
from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study

# Two measurements may agree by chance, above all if they are rounded.
FEWEST = 3

type Curve = tuple[str, NDArray[np.int64], Floats]


def check_evidence(study: Study, *, continual: bool) -> None:
    """Refuse a study whose losses cannot tell what training does.

    Parameters
    ----------
    study : Study
    continual : bool
        Whether the law to be fitted is of continual pre-training; else it sees the PT runs alone, on the
        general validation set.

    Raises
    ------
    StudyError
        If no CPT run was measured after step 0, or the losses of a validation set are the same number
        throughout, or inside every run of the law's phase.

    Warns
    -----
    StudyWarning
        If one of the two validation sets was not measured in any CPT run after step 0.
    """
    phase = "CPT" if continual else "PT"
    runs = study.continual_runs if continual else study.pretraining_runs
    if not runs:
        # Refused in other words, by what builds the law.
        return
    domains = study.trained_domains if continual else (study.general,)
    measured = {domain: _curves(study, runs, domain) for domain in domains}
    if len(study.targets) > 1:
        # One of several may be left to the others (docs/targets.md); reading the study says so.
        measured = {domain: curves for domain, curves in measured.items() if curves}
    if continual:
        _check_trained(study, measured)
    problems = []
    for domain, curves in measured.items():
        place = f"{study.origin.losses}, study {study.name}, domain {domain}"
        every = study.losses.loc[study.losses["domain"] == domain, "loss"].to_numpy(np.float64)
        counted = f"{sum(losses.size for _, _, losses in curves)} losses"
        if every.size >= FEWEST and is_one_number(every):
            problem = (
                f"all {every.size} losses are {every[0]:g}: no law can be fitted to one number"
            )
        elif _nothing_moves(curves):
            problem = (
                f"in each of the {len(curves)} {phase} runs the loss stays what it is ({counted}; "
                f"{curves[0][2][0]:g} throughout run {curves[0][0]}): there is no curve to fit"
            )
        else:
            continue
        fix = "give the validation loss that was measured at each step, not one value repeated"
        problems.append(Problem(place, problem, fix))
    if problems:
        raise StudyError(problems)


def _curves(study: Study, runs: Sequence[Run], domain: str) -> list[Curve]:
    """Return name, steps and losses of the runs that were measured on a validation set."""
    curves = [(run.name, *study.curve(run.name, domain)) for run in runs]
    return [curve for curve in curves if curve[1].size]


def _check_trained(study: Study, measured: dict[str, list[Curve]]) -> None:
    """Refuse a study whose CPT runs were measured at step 0 alone; warn of such a validation set."""
    untrained = [
        domain
        for domain, curves in measured.items()
        if not any(steps[-1] > 0 for _, steps, _ in curves)
    ]
    if not untrained:
        return
    names = " and ".join(untrained)
    fix = (
        f"add rows with step 1 or later, up to the end of the run, to {study.origin.losses}: "
        "a handful along each CPT run is enough"
    )
    if len(untrained) < len(measured):
        problem = (
            f"no CPT run has a loss of {names} after step 0: what training does to it rests on "
            "the prior alone"
        )
        caution = Problem(f"{study.origin.losses}, study {study.name}", problem, fix)
        warnings.warn(str(caution), StudyWarning, stacklevel=3)
        return
    problem = (
        f"no CPT run has a loss after step 0, on {names}: the losses of the bases alone do not say "
        "what training does to them"
    )
    raise StudyError.at(f"{study.origin.losses}, study {study.name}", problem, fix)


def _nothing_moves(curves: list[Curve]) -> bool:
    """Return whether every curve keeps its first loss, and some of them are long enough to tell."""
    sizes = [losses.size for _, _, losses in curves]
    return max(sizes, default=0) >= FEWEST and all(is_one_number(curve[2]) for curve in curves)

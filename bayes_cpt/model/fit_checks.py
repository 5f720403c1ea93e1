"""Whether a study has what a law needs, and a law what a study differs in."""

import warnings

from bayes_cpt.errors import Problem, StudyError, StudyWarning
from bayes_cpt.model.groups.sizes import check_sizes, fitted_sizes
from bayes_cpt.model.spec import ModelSpec, shipped_models
from bayes_cpt.study.batches import batches_of
from bayes_cpt.study.ranges import ALIKE_RATIO
from bayes_cpt.study.study import Study


def check_fits(spec: ModelSpec, study: Study) -> None:
    """Check that a study has the runs that a law is about, and that the law has a term for their replay.

    Parameters
    ----------
    spec : ModelSpec
    study : Study

    Raises
    ------
    StudyError
        Naming what is missing.
    """
    runs = study.continual_runs
    replays = sorted({run.replay for run in runs if run.replay is not None})
    problem = None
    if spec.law.continual and not runs:
        problem = ("there is no CPT run", "use --model pretrain, or add CPT runs")
    elif not spec.law.continual and not study.pretraining_runs:
        problem = ("there is no PT run", "use --model cpt or cpt-replay, or add PT runs")
    elif spec.law.continual and len(replays) > 1 and not spec.law.uses_replay:
        problem = (
            f"the runs have replay ratios {replays[0]:g} to {replays[-1]:g}, and the law {spec.name} "
            "has no term for them",
            "use --model cpt-replay, or keep runs of one replay ratio",
        )
    if problem:
        raise StudyError.at(f"study {study.name}, model {spec.name}", *problem)


def note_batches(spec: ModelSpec, study: Study) -> None:
    """Warn where batch sizes or sequence lengths differ and the law does not compare them.

    Parameters
    ----------
    spec : ModelSpec
    study : Study

    Warns
    -----
    StudyWarning
    """
    if spec.law.batches or not spec.law.continual:
        return
    differing = []
    for place, name in enumerate(("batch sizes", "sequence lengths")):
        values = sorted(batch.numbers[place] for batch in batches_of(study) if batch.numbers[place])
        if values and values[-1] > ALIKE_RATIO * values[0]:
            differing.append(f"{name} {values[0]:g} to {values[-1]:g}")
    if differing:
        problem = Problem(
            f"study {study.name}, model {spec.name}",
            f"the CPT runs have {' and '.join(differing)}, and the law takes the shift of all for one",
            "use --model cpt-replay-batch, or keep runs of one batch",
        )
        warnings.warn(str(problem), StudyWarning, stacklevel=4)


def check_size(spec: ModelSpec, study: Study) -> None:
    """Check that runs say their size where the law has one, and warn where they differ and it has none.

    Parameters
    ----------
    spec : ModelSpec
    study : Study

    Raises
    ------
    StudyError
        Naming the runs and bases that do not.

    Warns
    -----
    StudyWarning
        If sizes differ that the law has no term for.
    """
    continual = spec.law.continual
    if spec.law.model_size:
        runs = study.runs if continual else study.pretraining_runs
        check_sizes(study, runs, [base for base in study.bases if base.schedule] * continual)
        return
    sizes = fitted_sizes(study, continual=continual)
    if sizes and sizes[-1] > ALIKE_RATIO * sizes[0]:
        known = [name for name in shipped_models() if name.endswith("-sizes")]
        problem = Problem(
            f"study {study.name}, model {spec.name}",
            f"the runs have model sizes {sizes[0]:g} to {sizes[-1]:g}, and the law has no term for them",
            f"use --model {' or '.join(known)}, or keep runs of one size",
        )
        warnings.warn(str(problem), StudyWarning, stacklevel=4)

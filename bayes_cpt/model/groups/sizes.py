"""Model sizes of a study: what a law with a model size takes of its runs and bases."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.errors import Problem, StudyError
from bayes_cpt.model.spec import ModelSpec
from bayes_cpt.study.study import Base, Run, Study

ADD = "add model_size = ..., its non-embedding parameters in millions, as in model_size = 106"
# With fewer sizes the exponent of size rests on its prior, and with two how far single sizes lie off it.
FEWEST = 3


def fitted_sizes(study: Study, *, continual: bool) -> tuple[float, ...]:
    """Return the different model sizes of the runs that a fit takes, rising, millions of parameters.

    Parameters
    ----------
    study : Study
    continual : bool
        Whether its CPT runs, and the bases they start from, are a part of it.
    """
    runs = study.runs if continual else study.pretraining_runs
    return tuple(sorted({size for run in runs if (size := study.model_size(run)) is not None}))


def _all_sizes(study: Study, *, continual: bool) -> tuple[float, ...]:
    """Return also the sizes of bases that no run starts from yet, rising."""
    bases = [base.model_size for base in study.bases] if continual else []
    of_bases = {size for size in bases if size is not None}
    return tuple(sorted({*fitted_sizes(study, continual=continual), *of_bases}))


def known_sizes(spec: ModelSpec, study: Study) -> tuple[float, ...]:
    """Return the model sizes that the law of a study knows; none where it has no size.

    Parameters
    ----------
    spec : ModelSpec
    study : Study
    """
    return _all_sizes(study, continual=spec.law.continual) if spec.law.model_size else ()


def check_sizes(study: Study, runs: Iterable[Run], bases: Iterable[Base] = ()) -> None:
    """Check that runs and bases say their size, which the law asks for.

    Parameters
    ----------
    study : Study
    runs : iterable of Run
    bases : iterable of Base

    Raises
    ------
    StudyError
        Naming each that does not.
    """
    missing = [f"run {run.name}" for run in runs if study.model_size(run) is None]
    missing += [f"base {base.name}" for base in bases if base.model_size is None]
    if missing:
        problem = "its model size is not known, and the law has a term for it"
        raise StudyError([Problem(f"{place}, key model_size", problem, ADD) for place in missing])


def log_sizes(size: float | None, reference: float, count: int) -> NDArray[np.float64]:
    """Return the log of a size over the reference size, as often as there are points; 0 without one.

    Parameters
    ----------
    size : float or None
        Millions of parameters.
    reference : float
        The same unit.
    count : int
    """
    return np.full(count, 0.0 if size is None else float(np.log(size / reference)))

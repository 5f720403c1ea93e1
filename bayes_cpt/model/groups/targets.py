"""Several target domains: what a study with them makes of a specification, and of the shares of a run."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.checks import suggestion
from bayes_cpt.errors import StudyError, StudyWarning
from bayes_cpt.model.spec import ModelSpec
from bayes_cpt.study.study import Study


def for_targets(spec: ModelSpec, study: Study) -> ModelSpec:
    """Return the specification for the targets of a study: with what several need as parameters.

    Parameters
    ----------
    spec : ModelSpec
    study : Study

    Raises
    ------
    StudyError
        If there are several and the specification has no replay factor of the target, or no priors for what
        they share.
    """
    count = len(study.targets)
    if not spec.law.continual or count < 2:
        return spec
    place = f"study {study.name}, model {spec.name}"
    if spec.law.replay_factor.target == "none":
        problem = (
            f"it has {count} targets, and the law has no factor for the share of each in the data"
        )
        raise StudyError.at(place, problem, "use --model cpt-replay, or keep to one target")
    if not spec.targets:
        problem = f"it has {count} targets, and the model has no priors for what they share"
        fix = "add [targets] as in models/cpt-replay.toml, use --model cpt-replay, or keep to one target"
        raise StudyError.at(place, problem, fix)
    law = spec.law.model_copy(update={"targets": count})
    return spec.model_copy(update={"law": law, "priors": spec.priors | spec.targets})


def roles_of(domains: Sequence[str]) -> tuple[str, ...]:
    """Return the role of each validation set that a law describes: the first is the general one.

    Parameters
    ----------
    domains : sequence of str
    """
    return ("general", *("target" for _ in domains[1:]))


def check_one_target(study: Study, what: str) -> None:
    """Check that a study has one target, where nothing more is known to do.

    Parameters
    ----------
    study : Study
        The one that was fitted.
    what : str
        What asks.

    Raises
    ------
    StudyError
        If it has several.
    """
    if len(study.targets) > 1:
        problem = f"it has {len(study.targets)} targets, and {what} is for one only"
        target = study.targets[0]
        fix = f"name one, as in --target {target}; in Python take posterior.of_target({target!r})"
        raise StudyError.at(f"study {study.name}", problem, fix)


def check_target(study: Study, name: str) -> None:
    """Check that a name is that of a target.

    Parameters
    ----------
    study : Study
    name : str

    Raises
    ------
    StudyError
        If it is not.
    """
    if name not in study.targets:
        problem = f"{name!r} is no target of the study{suggestion(name, study.targets)}"
        fix = f"name one of {', '.join(study.targets) or 'none: the study has none'}"
        raise StudyError.at(f"study {study.name}", problem, fix)


def study_of_target(study: Study, name: str) -> Study:
    """Return the PT runs of a study, and its runs on one target alone, as a study of that target.

    Sets of the other targets are third sets of it. What was measured of a base counts, whichever run it was
    measured in.

    Parameters
    ----------
    study : Study
        Of several targets.
    name : str
        One of them.

    Raises
    ------
    StudyError
        If no run trains on that target alone.
    """
    runs = [run for run in study.continual_runs if study.mixture(run) == {name: 1.0}]
    if not runs:
        problem = f"no run trains on {name} alone, and what is asked is told of such runs"
        fix = "name another target, or add a run on it alone and fit again"
        raise StudyError.at(f"study {study.name}, target {name}", problem, fix)
    kept = study.subset(run.name for run in (*study.pretraining_runs, *runs))
    later = kept.losses[
        ~((kept.losses["step"] == 0) & kept.losses["run"].isin(run.name for run in runs))
    ]
    starts = [
        (run.name, 0, domain, loss)
        for run in runs
        for domain in study.domains
        if (loss := study.base_loss(str(run.base), domain)) is not None
    ]
    with warnings.catch_warnings():
        # Of runs and losses that were warned of when the study was read.
        warnings.simplefilter("ignore", StudyWarning)
        return replace(kept, target=name, losses=later).with_runs((), starts)


def mixture_columns(
    mixture: Mapping[str, float], domains: Sequence[str], domain: int, replay: float | None
) -> tuple[float, NDArray[np.float64]]:
    """Return the share of other targets' data in a run's batches, and the shares of factors of forgetting.

    Parameters
    ----------
    mixture : mapping of str to float
        Share of each target in the data that are not replay; empty in PT.
    domains : sequence of str
        Validation sets, the general one first.
    domain : int
        Place of the one that is asked about.
    replay : float or None

    Returns
    -------
    other_share : float
    mixture : ndarray, shape (domains,)
        As in `bayes_cpt.model.points.Points`.

    Examples
    --------
    >>> share, mixture = mixture_columns({"code": 0.75, "law": 0.25}, ["web", "code", "law"], 1, 0.2)
    >>> round(share, 6), mixture.tolist()
    (0.2, [1.0, 0.0, 0.0])
    >>> mixture_columns({"code": 0.75, "law": 0.25}, ["web", "code", "law"], 0, 0.2)[1].tolist()
    [0.0, 0.75, 0.25]
    """
    shares = np.zeros(len(domains))
    if domain > 0 or not mixture:
        shares[0] = 1.0
    else:
        shares[:] = [mixture.get(name, 0.0) for name in domains]
    if domain == 0 or not mixture:
        return 0.0, shares
    return (1.0 - (replay or 0.0)) * (1.0 - mixture.get(domains[domain], 0.0)), shares

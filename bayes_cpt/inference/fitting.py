"""The main job: a study and a model's name in, a posterior out."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_cpt.inference.posterior import FORMAT, Posterior, build_tree
from bayes_cpt.model.prior_tables import Fixed
from bayes_cpt.model.setup import Frame, build_setup
from bayes_cpt.model.spec import ModelSpec, read_spec
from bayes_cpt.study.evidence import check_evidence
from bayes_cpt.study.study import Study

if TYPE_CHECKING:
    from bayes_cpt.inference.sampling import Sample

VERSIONS = ("bayes-cpt", "pymc", "pytensor", "nutpie", "numpy", "numba")


def fit(
    study: Study,
    model: str | Path | ModelSpec = "cpt-replay",
    seed: int = 0,
    *,
    draws: int | None = None,
    progress: Any = None,
    cores: int | None = None,
    attempts: int | None = None,
) -> Posterior:
    """Fit a model to a study.

    Parameters
    ----------
    study : Study
        From `read_study`, or built in Python.
    model : str, Path or ModelSpec
        Name of a shipped model, path of a TOML file, or a specification.
    seed : int
        The same seed gives the same posterior, bit for bit, on the same machine.
    draws : int, optional
        Draws kept in each of the four chains; 1,000 unless given.
    progress : callable, optional
        Called with a stage and the share of it that is done.
    cores : int, optional
        Chains sampled at once.
    attempts : int, optional
        How often at most to sample until the diagnostics hold; as often as
        `bayes_cpt.inference.sampling.EFFORTS` says unless given. 1 is for a quick look.

    Returns
    -------
    Posterior
        Check `Posterior.trustworthy`: a posterior whose diagnostics fall short is returned too, marked.

    Raises
    ------
    StudyError
        If the study lacks what the model needs, or its losses cannot tell anything (see
        `bayes_cpt.study.evidence.check_evidence`).
    SpecError
        If there is no such model.
    SamplingError
        If the posterior cannot be sampled at all.
    """
    from bayes_cpt.inference.sampling import EFFORTS, sample
    from bayes_cpt.model.density import build_density

    if attempts is not None and attempts < 1:
        raise ValueError(f"attempts is {attempts}: give at least 1")

    spec = model if isinstance(model, ModelSpec) else read_spec(model)
    setup = build_setup(spec, study)
    check_evidence(study, continual=spec.law.continual)
    found = sample(
        build_density(setup),
        seed,
        draws=draws,
        efforts=EFFORTS[:attempts],
        progress=progress,
        cores=cores,
    )
    return build_posterior(setup.frame, study, found, seed)


def build_posterior(frame: Frame, study: Study, found: "Sample", seed: int) -> Posterior:
    """Return the posterior that a sample of a study's model is.

    Parameters
    ----------
    frame : Frame
        Specification, validation sets and reference of the model.
    study : Study
        What was fitted.
    found : Sample
        Draws of the model.
    seed : int
        What they were drawn with.
    """
    shape = next(iter(found.statistics.values())).shape
    values = found.values | _fixed_values(frame, shape)
    attributes = {
        "bayes_cpt_format": FORMAT,
        "spec": json.dumps(frame.spec.model_dump(mode="json")),
        "model": frame.spec.name,
        "domains": json.dumps(frame.domains),
        "roles": json.dumps(frame.roles),
        "reference": json.dumps(asdict(frame.reference)),
        "study_name": study.name,
        "study_digest": study.digest(),
        "seed": seed,
        "attempts": found.attempts,
        "problems": json.dumps(found.diagnostics.problems),
        "versions": json.dumps({name: version(name) for name in VERSIONS}),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return Posterior(build_tree(frame, study, values, found.statistics, attributes), study, frame)


def _fixed_values(frame: Frame, shape: tuple[int, ...]) -> dict[str, Any]:
    """Return parameters that the specification fixes, as constant draws."""
    found = {}
    roles = dict(zip(frame.domains, frame.roles, strict=True))
    for name, info in frame.parameters().items():
        members = frame.coords()[info.dims] if info.dims else ()
        priors = [frame.spec.priors[name].of(roles[member]) for member in members]
        if not info.dims:
            priors = [frame.spec.priors[name].of(None)]
        numbers = [prior.value for prior in priors if isinstance(prior, Fixed)]
        if len(numbers) == len(priors):
            filled = np.broadcast_to(np.array(numbers), (*shape, len(numbers))).copy()
            found[name] = filled if info.dims else filled[..., 0]
    return found

"""The main job: a study and a model's name in, a posterior out."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_cpt.inference.law_checks import check_law
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.inference.saved.fit_files import FORMAT
from bayes_cpt.inference.saved.groups import arviz_groups
from bayes_cpt.inference.saved.trees import build_tree
from bayes_cpt.model.elements import elements
from bayes_cpt.model.law_table import LawTable
from bayes_cpt.model.priors.families import Fixed
from bayes_cpt.model.setup import Frame, Setup, build_setup
from bayes_cpt.model.spec import ModelSpec, read_spec
from bayes_cpt.study.ranges import check_evidence
from bayes_cpt.study.study import Study

if TYPE_CHECKING:
    from bayes_cpt.inference.sampling import Effort, Sample

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
        `efforts_for` says of its law unless given. 1 is for a quick look.

    Returns
    -------
    Posterior
        Check `Posterior.trustworthy`: a posterior whose diagnostics fall short is returned too, marked.

    Raises
    ------
    StudyError
        If the study lacks what the model needs, or its losses cannot tell anything (see
        `bayes_cpt.study.ranges.check_evidence`).
    SpecError
        If there is no such model.
    SamplingError
        If the posterior cannot be sampled at all.
    """
    from bayes_cpt.inference.density import density_of
    from bayes_cpt.inference.sampling import sample
    from bayes_cpt.model.build import model_of

    if attempts is not None and attempts < 1:
        raise ValueError(f"attempts is {attempts}: give at least 1")

    spec = model if isinstance(model, ModelSpec) else read_spec(model)
    setup = build_setup(spec, study)
    check_evidence(study, continual=spec.law.continual)
    drawn = sample(
        density_of(model_of(setup)),
        seed,
        draws=draws,
        efforts=efforts_for(setup.frame.spec.law)[:attempts],
        progress=progress,
        cores=cores,
    )
    return build_posterior(setup, study, drawn, seed)


def efforts_for(law: LawTable) -> "tuple[Effort, ...]":
    """Return the attempts that a fit of a law makes, in order.

    Parameters
    ----------
    law : LawTable
    """
    from bayes_cpt.inference.sampling import CAREFUL_EFFORTS, EFFORTS, SIZES_EFFORTS

    if law.unknown_base:
        return CAREFUL_EFFORTS
    return SIZES_EFFORTS if law.model_size else EFFORTS


def build_posterior(setup: Setup, study: Study, drawn: "Sample", seed: int) -> Posterior:
    """Return the posterior that a sample of a study's model is.

    Parameters
    ----------
    setup : Setup
        What the model was made of.
    study : Study
        What was fitted.
    drawn : Sample
        Draws of the model.
    seed : int
        What they were drawn with.
    """
    frame = setup.frame
    values = _all_values(frame, drawn)
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
        "attempts": drawn.attempts,
        "problems": json.dumps(drawn.diagnostics.problems),
        "law_checks": json.dumps(_law_checks(setup, study, values)),
        "versions": json.dumps({name: version(name) for name in VERSIONS}),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    groups = arviz_groups(setup, values, seed)
    tree = build_tree(frame, study, values, drawn.statistics, attributes, groups)
    return Posterior(tree, study, frame)


def _law_checks(setup: Setup, study: Study, values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return as plain data whether the law fits, from draws of shape (chains, draws, ...)."""
    flat = {name: value.reshape(-1, *value.shape[2:]) for name, value in values.items()}
    return check_law(setup.frame, study, setup.curves, flat).records()


def _all_values(frame: Frame, drawn: "Sample") -> dict[str, Any]:
    """Return every parameter, shape (chains, draws, ...); the fixed ones are constant draws."""
    shape = next(iter(drawn.statistics.values())).shape
    members: dict[str, list[Any]] = {}
    for element in elements(frame):
        if isinstance(element.prior, Fixed):
            value = np.full(shape, element.prior.value)
        elif element.name in drawn.values:
            value = drawn.values[element.name]
            value = value if element.domain is None else value[..., element.member]
        else:
            value = drawn.values[f"{element.name}_{element.member}"]
        members.setdefault(element.name, []).append(value)
    infos = frame.parameters()
    return {
        name: np.stack(values, axis=-1) if infos[name].dims else values[0]
        for name, values in members.items()
    }

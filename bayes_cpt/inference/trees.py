"""What a fit holds: draws, the groups that ArviZ looks for, the study, and how it was made."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.inference.law_checks import check_law
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.laws.law import along
from bayes_cpt.model.joint_priors import draw_priors
from bayes_cpt.model.log_densities import log_likelihoods, log_priors
from bayes_cpt.model.setup import BoundModel, Setup
from bayes_cpt.model.simulate import simulate
from bayes_cpt.study.study import Study

if TYPE_CHECKING:
    import xarray as xr

    from bayes_cpt.inference.law_checks import LawCheck
    from bayes_cpt.inference.sampling import MissedMode, Sample

VERSIONS = ("bayes-cpt", "pymc", "pytensor", "nutpie", "numpy", "numba")
# Draws from the prior, and posterior draws whose replicated curves are kept, in all chains together.
PRIOR_DRAWS, REPLICATED_DRAWS = 1000, 200


def build_posterior(
    setup: Setup, study: Study, drawn: "Sample", seed: int, draws: int | None = None
) -> Posterior:
    """Return the posterior that a sample of a study's model is, with a seed, and draws if given."""
    frame = setup.frame
    values = drawn.values
    flat = {name: value.reshape(-1, *value.shape[2:]) for name, value in values.items()}
    tree = build_tree(
        frame,
        study,
        values,
        drawn.statistics,
        seed,
        attempts=drawn.attempts,
        problems=drawn.diagnostics.problems,
        missed=drawn.missed,
        checks=check_law(frame, study, setup.curves, flat).checks,
        groups=_arviz_groups(setup, values, flat, seed),
    )
    if draws is not None:
        tree.attrs["draws"] = draws
    return Posterior(tree, study, frame)


def build_tree(
    frame: BoundModel,
    study: Study,
    values: Mapping[str, Floats],
    statistics: Mapping[str, Any],
    seed: int,
    *,
    attempts: int = 1,
    problems: Sequence[str] = (),
    missed: "Sequence[MissedMode]" = (),
    checks: "Sequence[LawCheck]" = (),
    groups: "Mapping[str, xr.Dataset] | None" = None,
) -> "xr.DataTree":
    """Return the data tree of a fit: `values` and `statistics` have the shape (chains, draws, ...)."""
    import xarray as xr

    from bayes_cpt.study.folder import study_texts

    chains, draws = next(iter(statistics.values())).shape
    coords = {"chain": np.arange(chains), "draw": np.arange(draws)}
    variables: dict[str, Any] = {}
    for name, info in frame.parameters().items():
        about = {"units": info.unit, "long_name": info.meaning}
        variables[name] = (_dims(info.dims), values[name], about)
    for name, value in frame.law.coefficients(values, np).items():
        variables[name] = (_dims(along(name)), value)
    stats = {name: (("chain", "draw"), value) for name, value in statistics.items()}
    reference = {name: ((), value) for name, value in asdict(frame.reference).items()}
    files = {name: ((), text) for name, text in study_texts(study).items()}
    attributes = {
        "spec": json.dumps(frame.spec.model_dump(mode="json")),
        "model": frame.spec.name,
        "study_name": study.name,
        "study_digest": study.digest(),
        "seed": seed,
        "attempts": attempts,
        "problems": json.dumps(problems),
        "missed_modes": json.dumps([asdict(mode) for mode in missed]),
        "law_checks": json.dumps([asdict(check) for check in checks]),
        "versions": json.dumps({name: version(name) for name in VERSIONS}),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return xr.DataTree.from_dict(
        {
            "/": xr.Dataset(attrs=attributes),
            "posterior": xr.Dataset(variables, coords=coords | _coords(frame)),
            "sample_stats": xr.Dataset(stats, coords=coords),
            "constant_data": xr.Dataset(reference | files),
            **(groups or {}),
        }
    )


def _arviz_groups(
    setup: Setup, values: Mapping[str, Floats], flat: Mapping[str, Floats], seed: int
) -> "dict[str, xr.Dataset]":
    """Return log_likelihood, log_prior, prior, posterior_predictive and observed_data.

    ``loss`` has one log likelihood per curve: the points of a curve are not independent.
    """
    import xarray as xr

    frame, points = setup.frame, setup.curves.points
    chains, draws = next(iter(values.values())).shape[:2]
    coords = _coords(frame)
    runs = np.array([curve.run for curve in setup.curves.curves], dtype=object)
    domains = np.array([curve.domain for curve in setup.curves.curves], dtype=object)
    where: dict[str, Any] = {
        "point": np.arange(points.steps.size),
        "run": ("point", runs[points.curve_index]),
        "domain": ("point", domains[points.curve_index]),
        "step": ("point", points.steps.astype(np.int64)),
    }
    kept = np.linspace(0, draws - 1, min(draws, REPLICATED_DRAWS // chains)).round().astype(int)
    some = {name: value[:, kept].reshape(-1, *value.shape[2:]) for name, value in values.items()}
    replicated = simulate(frame, some, setup.curves, None, np.random.default_rng(seed)).loss
    infos = frame.parameters()

    def parameters(values: Mapping[str, Floats], *shape: int) -> xr.Dataset:
        shaped = {name: own.reshape(*shape, *own.shape[1:]) for name, own in values.items()}
        return xr.Dataset({n: (_dims(infos[n].dims), v) for n, v in shaped.items()}, coords=coords)

    def losses(values: Floats, along: str, where: Mapping[str, Any]) -> xr.Dataset:
        shaped = values.reshape(chains, -1, values.shape[-1])
        return xr.Dataset({"loss": (("chain", "draw", along), shaped)}, coords=where)

    curves = [f"{run}, {domain}" for run, domain in zip(runs, domains, strict=True)]
    return {
        "log_likelihood": losses(log_likelihoods(setup, flat), "curve", {"curve": curves}),
        "log_prior": parameters(log_priors(frame, flat), chains, draws),
        "prior": parameters(draw_priors(frame, PRIOR_DRAWS, seed), 1, PRIOR_DRAWS),
        "posterior_predictive": losses(replicated.astype(np.float32), "point", where),
        "observed_data": xr.Dataset({"loss": ("point", points.loss)}, coords=where),
    }


def _dims(along: str | None) -> tuple[str, ...]:
    return ("chain", "draw", along) if along else ("chain", "draw")


def _coords(frame: BoundModel) -> dict[str, Any]:
    return {name: list(members) for name, members in frame.coords().items()}

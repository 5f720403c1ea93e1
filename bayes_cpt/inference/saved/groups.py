"""The groups of a fit that ArviZ looks for beside the posterior itself."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.model.log_densities import log_likelihoods, log_priors
from bayes_cpt.model.priors.draws import draw_priors
from bayes_cpt.model.setup import Frame, Setup
from bayes_cpt.model.simulate import simulate

if TYPE_CHECKING:
    import xarray as xr


# Draws from the prior, and posterior draws whose replicated curves are kept, in all chains together.
PRIOR_DRAWS, REPLICATED_DRAWS = 1000, 200


def arviz_groups(setup: Setup, values: Mapping[str, Floats], seed: int) -> "dict[str, xr.Dataset]":
    """Return log_likelihood, log_prior, prior, posterior_predictive, observed_data and constant_data.

    Parameters
    ----------
    setup : Setup
        What was fitted.
    values : mapping of str to ndarray, shape (chains, draws, ...)
        All parameters, fixed ones too.
    seed : int
        Of the draws of prior and posterior predictive distribution.

    Returns
    -------
    dict of str to Dataset
        ``loss`` has one log likelihood per curve: the points of a curve are not independent. Its points
        have the coordinates run, domain and step.
    """
    import xarray as xr

    frame, points = setup.frame, setup.curves.points
    chains, draws = next(iter(values.values())).shape[:2]
    flat = {name: value.reshape(-1, *value.shape[2:]) for name, value in values.items()}
    coords = {name: list(members) for name, members in frame.coords().items()}
    curves = [f"{curve.run}, {curve.domain}" for curve in setup.curves.curves]
    index = points.curve_index
    names = [(curve.run, curve.domain) for curve in setup.curves.curves]
    where: dict[str, Any] = {
        "point": np.arange(points.steps.size),
        "run": ("point", np.array([run for run, _ in names], dtype=object)[index]),
        "domain": ("point", np.array([domain for _, domain in names], dtype=object)[index]),
        "step": ("point", points.steps.astype(np.int64)),
    }
    likelihoods = log_likelihoods(setup, flat).reshape(chains, draws, -1)
    kept = np.linspace(0, draws - 1, min(draws, REPLICATED_DRAWS // chains)).round().astype(int)
    some = {name: value[:, kept].reshape(-1, *value.shape[2:]) for name, value in values.items()}
    replicated = simulate(frame, some, setup.curves, None, np.random.default_rng(seed)).loss
    return {
        "log_likelihood": xr.Dataset(
            {"loss": (("chain", "draw", "curve"), likelihoods)}, coords={"curve": curves}
        ),
        "log_prior": xr.Dataset(
            {
                name: (_dims(frame, name), value.reshape(chains, draws, *value.shape[1:]))
                for name, value in log_priors(frame, flat).items()
            },
            coords=coords,
        ),
        "prior": xr.Dataset(
            {
                name: (_dims(frame, name), value[None])
                for name, value in draw_priors(frame, PRIOR_DRAWS, seed).items()
            },
            coords=coords,
        ),
        "posterior_predictive": xr.Dataset(
            {
                "loss": (
                    ("chain", "draw", "point"),
                    replicated.reshape(chains, kept.size, -1).astype(np.float32),
                )
            },
            coords=where,
        ),
        "observed_data": xr.Dataset({"loss": ("point", points.loss)}, coords=where),
        "constant_data": xr.Dataset(
            {name: ((), value) for name, value in asdict(frame.reference).items()}
        ),
    }


def _dims(frame: Frame, name: str) -> tuple[str, ...]:
    along = frame.parameters()[name].dims
    return ("chain", "draw", along) if along else ("chain", "draw")

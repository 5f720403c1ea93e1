"""The PyMC model as a PyMC user has it: names, data, predictive draws, log likelihood, nutpie."""

import pickle
import warnings
from functools import cache

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from few_free import with_few_free
from interpreted import INTERPRETED
from scipy.stats import multivariate_normal
from synthetic import lab

from bayes_cpt import build_model, read_spec
from bayes_cpt.errors import StudyWarning
from bayes_cpt.identify.determination import FreeParameters
from bayes_cpt.model.build import model_of
from bayes_cpt.model.likelihood import study_tables
from bayes_cpt.model.log_densities import log_densities, log_likelihoods
from bayes_cpt.model.setup import Setup, build_setup


@cache
def bundled() -> Setup:
    return build_setup(read_spec("cpt-replay"), lab())


@cache
def bundled_model() -> pm.Model:
    return build_model(lab(), read_spec("cpt-replay"))


@cache
def small() -> Setup:
    """A few runs of which four numbers are not known, so that every compiler takes seconds."""
    study = lab().subset(["r00_const", "r25_a0_rewarm"])
    with warnings.catch_warnings(action="ignore", category=StudyWarning):
        return build_setup(with_few_free("cpt-replay", ["reference_loss", "shift_share"]), study)


@cache
def small_model() -> pm.Model:
    return model_of(small())


def test_all_data_are_named_data_of_the_model() -> None:
    """So that another study of the same form needs no compilation: its values are the arrays' own."""
    held = {variable.name: variable.get_value() for variable in bundled_model().data_vars}
    assert set(held) == {"measured_loss", "step", "study"}
    np.testing.assert_array_equal(held["measured_loss"], bundled().curves.points.loss)
    np.testing.assert_array_equal(held["study"], study_tables(bundled()))


def test_every_parameter_is_a_variable_of_its_own_name_and_dims() -> None:
    model, info = bundled_model(), bundled().frame.parameters()
    assert {variable.name for variable in model.free_RVs} == set(info) - {"offset_time"}
    for variable in model.free_RVs:
        dims = model.named_vars_to_dims.get(variable.name)
        assert (dims[0] if dims else None) == info[variable.name].dims


def test_the_likelihood_is_made_anew_in_another_process() -> None:
    model = bundled_model()
    likelihood = model.logp(vars=model.observed_RVs, sum=False, jacobian=False)[0].owner.op
    assert pickle.loads(pickle.dumps(likelihood)) == likelihood


def test_prior_predictive_curves_are_drawn_for_every_point() -> None:
    with small_model():
        prior = pm.sample_prior_predictive(
            draws=12, random_seed=1, compile_kwargs={"mode": INTERPRETED}
        )
    curves, points = prior["prior_predictive"]["loss"], small().curves.points
    assert curves.shape == (1, 12, points.loss.size)
    assert np.isfinite(curves).all()
    # Draws differ, and follow the level that their parameters say.
    level = prior["prior"]["reference_loss"].sel(domain="general").to_numpy().ravel()
    general = points.domain_index == 0
    assert np.corrcoef(level, curves.to_numpy()[0][:, general].mean(axis=1))[0, 1] > 0.6


def parameters_of(tree: xr.DataTree) -> dict[str, np.ndarray]:
    """Return what PyMC drew with what it knew, shape (draws, ...)."""
    drawn = tree["posterior"].to_dataset().stack(sample=("chain", "draw"))
    count = drawn.sizes["sample"]
    free = FreeParameters(small().frame)
    medians = free.values(np.zeros((count, len(free.elements))))
    names = ("reference_loss", "shift_share")
    return medians | {name: drawn[name].transpose("sample", ...).to_numpy() for name in names}


@pytest.fixture(scope="module")
def by_pymc() -> xr.DataTree:
    """What `pm.sample` gives by nutpie, to which PyMC hands such a model."""
    with small_model():
        tree: xr.DataTree = pm.sample(
            400,
            tune=300,
            chains=2,
            cores=1,
            progressbar=False,
            random_seed=1,
            nuts_sampler="nutpie",
        )
    return tree


def test_pymc_samples_the_posterior_of_the_likelihood_in_numpy(by_pymc: xr.DataTree) -> None:
    """By importance weights of a normal distribution near its draws, in prior sds of what is free."""
    free = FreeParameters(small().frame)
    found = free.places(parameters_of(by_pymc))
    near = multivariate_normal(found.mean(axis=0), np.cov(found.T))
    tried = near.rvs(2000, random_state=1)
    written = log_densities(small().frame, free.values(tried), small().curves).sum(axis=1)
    log_weights = written - 0.5 * (tried**2).sum(axis=1) - near.logpdf(tried)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    assert 1.0 / (weights**2).sum() > 500
    mean = weights @ tried
    sd = np.sqrt(weights @ (tried - mean) ** 2)
    assert np.all(np.abs(found.mean(axis=0) - mean) < 0.25 * sd)
    assert np.all(np.abs(np.log(found.std(axis=0) / sd)) < 0.2)


def test_log_likelihood_and_posterior_predictive_of_draws(by_pymc: xr.DataTree) -> None:
    with small_model():
        few = xr.DataTree.from_dict(
            {"posterior": by_pymc["posterior"].to_dataset().isel(draw=slice(5))}
        )
        found = pm.compute_log_likelihood(
            few, extend_inferencedata=False, progressbar=False, compile_kwargs={"mode": INTERPRETED}
        )
        drawn = pm.sample_posterior_predictive(few, progressbar=False, random_seed=1)
    curves = found["loss"].to_numpy()
    expected = log_likelihoods(small(), parameters_of(few))
    np.testing.assert_allclose(curves.reshape(expected.shape), expected, rtol=1e-9)
    losses = drawn["posterior_predictive"]["loss"].to_numpy()
    measured = small_model()["measured_loss"].get_value()
    assert losses.shape == (2, 5, measured.size)
    assert np.corrcoef(losses.mean(axis=(0, 1)), measured)[0, 1] > 0.9


def test_do_and_observe_fix_a_parameter() -> None:
    model = small_model()
    settled = pm.do(model, {"reference_loss": np.array([3.0, 2.5])})
    assert [variable.name for variable in settled.free_RVs] == ["shift_share"]
    assert np.isfinite(settled.compile_logp(mode=INTERPRETED)(settled.initial_point()))
    seen = pm.observe(model, {"shift_share": np.array([0.1, 0.1])})
    assert {variable.name for variable in seen.observed_RVs} == {"loss", "shift_share"}


def test_the_model_is_drawn() -> None:
    graph = pm.model_to_graphviz(small_model())
    for name in ("reference_loss", "shift_share", "loss"):
        assert name in graph.source

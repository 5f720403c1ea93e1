"""The PyMC model as a PyMC user has it: names, data, predictive draws, log likelihood, nutpie."""

import pickle
import time
from functools import cache

import arviz as az
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from interpreted import INTERPRETED
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.traversal import ancestors
from scipy.stats import norm

from bayes_cpt.bundled import bundled_study
from bayes_cpt.model.build import build_model, model_of
from bayes_cpt.model.compiled.packing import FORMS, MATRIX, PLACES, matrix, packed, vector
from bayes_cpt.model.likelihood_data import likelihood_data
from bayes_cpt.model.log_densities import log_likelihoods
from bayes_cpt.model.priors.families import Fixed, Normal
from bayes_cpt.model.priors.tables import Prior
from bayes_cpt.model.setup import Setup, build_setup
from bayes_cpt.model.simulate import expected_loss
from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.folder import read_study


@cache
def bundled(model: str = "cpt-replay") -> Setup:
    return build_setup(read_spec(model), read_study(bundled_study()))


@cache
def bundled_model(model: str = "cpt-replay") -> pm.Model:
    return build_model(read_study(bundled_study()), read_spec(model))


def test_all_data_are_named_data_of_the_model() -> None:
    """So that another study of the same form needs no compilation: its values are the arrays' own."""
    held = {variable.name: variable.get_value() for variable in bundled_model().data_vars}
    arrays = likelihood_data(bundled())
    assert set(held) == {"measured_loss", "step", "study_numbers", "study_places"}
    np.testing.assert_array_equal(held["measured_loss"], arrays["loss"])
    assert held["study_numbers"].size == sum(
        array.size for name, array in arrays.items() if FORMS.get(name, PLACES) != PLACES
    )
    operation = bundled_model().logp(vars=bundled_model().observed_RVs, sum=False, jacobian=False)
    data = {node for node in ancestors(operation) if isinstance(node, SharedVariable)}
    assert len(data) == len(held) - 1, "what the density does not read is the step"


def test_what_is_packed_is_unpacked_as_it_was() -> None:
    arrays = likelihood_data(bundled())
    arrays.pop("loss")
    numbers, places = packed(arrays)
    for index, (name, array) in enumerate(arrays.items()):
        holder = places if FORMS[name] == PLACES else numbers
        unpack = matrix if FORMS[name] == MATRIX else vector
        np.testing.assert_array_equal(unpack(holder, places, index), array)


def test_arrays_in_another_order_are_not_packed() -> None:
    arrays = likelihood_data(bundled())
    arrays.pop("loss")
    with pytest.raises(ValueError, match="the arrays are knot_innovation, knot_carried"):
        packed(dict(reversed(arrays.items())))


def test_every_parameter_is_a_variable_of_its_own_name_and_dims() -> None:
    model, info = bundled_model(), bundled().frame.parameters()
    assert {variable.name for variable in model.free_RVs} == set(info)
    for variable in model.free_RVs:
        dims = model.named_vars_to_dims.get(variable.name)
        assert (dims[0] if dims else None) == info[variable.name].dims


def test_fixed_parameters_are_constants() -> None:
    model = bundled_model("cpt-replay-printed")
    assert "memory" not in {variable.name for variable in model.free_RVs}


def test_a_model_is_looked_at_without_compilation_and_made_anew_in_another_process() -> None:
    """What a law's code is known by is an address, which holds in one process only."""
    model = build_model(read_study(bundled_study()), read_spec("cpt-replay"))
    likelihood = model.logp(vars=model.observed_RVs, sum=False, jacobian=False)[0].owner.op
    assert "law" not in vars(likelihood)
    assert likelihood.law.address
    again = pickle.loads(pickle.dumps(likelihood))
    assert again == likelihood
    assert "law" not in vars(again)


def test_independent_errors_are_normal_densities() -> None:
    """The likelihood of the printed model at medians of its priors, curve by curve, by SciPy."""
    setup = bundled("cpt-replay-printed")
    priors = setup.frame.spec.priors
    roles = setup.frame.roles
    parameters = {
        name: np.array([[priors[name].of(role).quantiles(0.5) for role in roles]])
        if info.dims
        else priors[name].of(None).quantiles([0.5])
        for name, info in setup.frame.parameters().items()
    }
    points = setup.curves.points
    expected = expected_loss(setup.frame, parameters, setup.curves)[0]
    error = parameters["error"][0, points.domain_index]
    densities = norm.logpdf(points.loss, expected, error)
    by_curve = np.bincount(points.curve_index, densities)
    np.testing.assert_allclose(log_likelihoods(setup, parameters)[0], by_curve, rtol=1e-9)


def test_roles_may_have_priors_of_different_families() -> None:
    setup = bundled("cpt-replay-printed")
    spec = setup.frame.spec
    mixed = Prior(
        reason="mixed",
        general=Normal(distribution="normal", mean=3.0, sd=1.0),
        target=Fixed(distribution="fixed", value=3.0),
    )
    other = spec.model_copy(update={"priors": spec.priors | {"reference_loss": mixed}})
    model = model_of(build_setup(other, read_study(bundled_study())))
    names = {variable.name for variable in model.free_RVs}
    assert "reference_loss_0" in names
    assert "reference_loss_1" not in names
    assert "reference_loss" in {variable.name for variable in model.deterministics}


@pytest.fixture(scope="module")
def prior() -> xr.DataTree:
    with bundled_model():
        drawn: xr.DataTree = pm.sample_prior_predictive(
            draws=12, random_seed=1, compile_kwargs={"mode": INTERPRETED}
        )
    return drawn


def test_prior_predictive_curves_are_drawn_for_every_point(prior: xr.DataTree) -> None:
    curves = prior["prior_predictive"]["loss"]
    points = bundled().curves.points
    assert curves.shape == (1, 12, points.loss.size)
    assert np.isfinite(curves).all()
    # Draws differ, and follow the level that their parameters say.
    level = prior["prior"]["reference_loss"].sel(domain="general").to_numpy().ravel()
    general = points.domain_index == 0
    means = curves.to_numpy()[0][:, general].mean(axis=1)
    assert np.corrcoef(level, means)[0, 1] > 0.6


def test_log_likelihood_has_one_entry_per_curve(prior: xr.DataTree) -> None:
    tree = xr.DataTree.from_dict({"posterior": prior["prior"].to_dataset()})
    with bundled_model():
        found = pm.compute_log_likelihood(
            tree,
            extend_inferencedata=False,
            progressbar=False,
            compile_kwargs={"mode": INTERPRETED},
        )
    draws = tree["posterior"].to_dataset().isel(chain=0)
    parameters = {str(name): values.to_numpy() for name, values in draws.data_vars.items()}
    expected = log_likelihoods(bundled(), parameters)
    assert found["loss"].shape == (1, 12, len(bundled().curves.curves))
    np.testing.assert_allclose(found["loss"].to_numpy()[0], expected, rtol=1e-9)


@pytest.mark.slow
def test_nutpie_and_pymc_sample_the_model_as_it_is() -> None:
    """Compiled by nutpie in at most 20 seconds once the law is; both give the posterior of `fit`."""
    import nutpie

    from bayes_cpt.inference.fitting import fit

    study = read_study(bundled_study())
    model = bundled_model()
    log_likelihoods(bundled(), _medians())
    started = time.process_time()
    compiled = nutpie.compile_pymc_model(model)
    assert time.process_time() - started <= 20.0
    # With a diagonal metric two such chains are 2 sds off: the posterior has ridges.
    theirs = nutpie.sample(
        compiled,
        draws=700,
        tune=1200,
        chains=2,
        seed=1,
        progress_bar=False,
        adaptation="low_rank",
    )
    ours = fit(study, seed=1).tree["posterior"]
    for name in ("reference_loss", "annealing_gain", "shift_share"):
        mine, other = ours[name], theirs.posterior[name]
        spread = mine.std(("chain", "draw"))
        gap = np.abs(mine.mean(("chain", "draw")) - other.mean(("chain", "draw")))
        assert (gap < 0.25 * spread).all()
    with model:
        short = pm.sample(20, tune=20, chains=1, progressbar=False, random_seed=1)
    assert az.summary(short, var_names=["annealing_gain"]).shape[0] == 2


def _medians() -> dict[str, np.ndarray]:
    frame = bundled().frame
    return {
        name: np.array([[frame.spec.priors[name].of(role).quantiles(0.5) for role in frame.roles]])[
            :, : len(frame.coords()[info.dims])
        ]
        if info.dims
        else frame.spec.priors[name].of(None).quantiles([0.5])
        for name, info in frame.parameters().items()
    }

"""What ArviZ and PyMC offer works on a fit that was saved and read again, as of any tree."""

from collections.abc import Iterator
from typing import Any

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from interpreted import INTERPRETED
from scipy.special import logsumexp
from synthetic import lab, prior_as_posterior

from bayes_cpt import Posterior, build_model, load, read_spec
from bayes_cpt.identify.sensitivity import power_scaling
from bayes_cpt.inference.diagnostics import Diagnostics
from bayes_cpt.inference.law_checks import check_law
from bayes_cpt.inference.sampling import Sample
from bayes_cpt.inference.trees import build_posterior
from bayes_cpt.model.log_densities import log_likelihoods, log_priors
from bayes_cpt.model.setup import build_setup


@pytest.fixture(scope="module")
def posterior(tmp_path_factory: pytest.TempPathFactory) -> Posterior:
    """Return what `fit` makes of draws, these not sampled, from its file."""
    # As narrow as a fit of hundreds of points is: else one draw has all the weight, and there is no LOO.
    drawn = prior_as_posterior(lab(), spread=0.01)
    shape = drawn.tree["posterior"].sizes["chain"], drawn.tree["posterior"].sizes["draw"]
    values = {
        name: value.reshape(*shape, *value.shape[1:]) for name, value in drawn.parameters().items()
    }
    sample = Sample(
        values, {"diverging": np.zeros(shape, dtype=bool)}, Diagnostics({}, {}, {}, 0, 0, ())
    )
    setup = build_setup(read_spec("cpt-replay"), lab())
    path = tmp_path_factory.mktemp("fit") / "fit.nc"
    build_posterior(setup, lab(), sample, 1).save(path)
    return load(path)


@pytest.fixture
def tree(posterior: Posterior) -> Iterator[xr.DataTree]:
    yield posterior.tree
    plt.close("all")


@pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto")
def test_loo_leaves_out_whole_curves(posterior: Posterior, tree: xr.DataTree) -> None:
    result = az.loo(tree)
    setup = build_setup(posterior.frame.spec, posterior.study)
    likelihoods = log_likelihoods(setup, posterior.parameters())
    assert result.n_data_points == likelihoods.shape[1] == len(setup.curves.curves)
    density = (logsumexp(likelihoods, axis=0) - np.log(len(likelihoods))).sum()
    assert result.elpd == pytest.approx(density - result.p, rel=1e-6)
    assert result.p > 0


def test_predictive_curves_stand_beside_the_data(posterior: Posterior, tree: xr.DataTree) -> None:
    plots = az.plot_ppc_dist(tree, num_samples=8)
    assert plots.viz["predictive_dist"]["loss"].sizes["sample"] == 8
    assert "observed_dist" in plots.viz
    fitted = posterior.study.losses.query("step > 0")
    measured = tree["observed_data"]["loss"]
    assert measured.sizes == {"point": tree["posterior_predictive"].sizes["point"]}
    assert set(measured.to_numpy()) <= set(fitted["loss"])


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_prior_sensitivity_is_that_of_the_priors(posterior: Posterior, tree: xr.DataTree) -> None:
    names = ["memory", "annealing_gain"]
    found = az.psense(tree, group="prior", var_names=names)
    densities = log_priors(posterior.frame, posterior.parameters()).values()
    total = np.sum([density.reshape(density.shape[0], -1).sum(axis=1) for density in densities], 0)
    draws = [tree["posterior"][name].to_numpy().reshape(total.size, -1)[:, 0] for name in names]
    wanted = power_scaling(np.stack(draws), total)
    shown = [found[name].to_numpy().ravel()[0] for name in names]
    np.testing.assert_allclose(shown, wanted, atol=1e-10)
    summary = az.psense_summary(tree, var_names=names)
    assert np.isfinite(summary[["prior", "likelihood"]].to_numpy(dtype=float)).all()


def test_pymc_takes_draws_of_a_fit_and_adds_none(posterior: Posterior, tree: xr.DataTree) -> None:
    """Also of parameters that are free on one validation set alone."""
    options: dict[str, Any] = {"progressbar": False, "compile_kwargs": {"mode": INTERPRETED}}
    with build_model(posterior.study, posterior.frame.spec):
        found = pm.compute_log_likelihood(tree, extend_inferencedata=False, **options)["loss"]
        again = pm.sample_posterior_predictive(tree, random_seed=1, **options)
    np.testing.assert_allclose(found, tree["log_likelihood"]["loss"], rtol=1e-9)
    sds = [own["posterior_predictive"]["loss"].to_numpy().std((0, 1)) for own in (again, tree)]
    assert np.median(sds[0] / sds[1]) == pytest.approx(1.0, abs=0.05)


def test_checks_of_the_law_are_those_of_the_draws(posterior: Posterior) -> None:
    setup = build_setup(posterior.frame.spec, posterior.study)
    found = check_law(setup.frame, posterior.study, setup.curves, posterior.parameters())
    pd.testing.assert_frame_equal(posterior.law_checks.table(), found.table())


def test_prior_stands_beside_posterior(tree: xr.DataTree) -> None:
    plots = az.plot_prior_posterior(tree, var_names=["memory", "annealing_gain"])
    assert set(plots.viz["plot"].data_vars) == {"memory", "annealing_gain"}
    assert plots.viz["plot"]["annealing_gain"].sizes["domain"] == 2

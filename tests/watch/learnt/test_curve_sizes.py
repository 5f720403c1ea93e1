from dataclasses import replace
from functools import cache, partial

import numpy as np
import pandas as pd
import pytest
from synthetic import as_posterior, lab, prior_as_posterior

from bayes_cpt.arrays import Floats
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.log_densities import residual_log_densities
from bayes_cpt.model.setup import fitted_setup
from bayes_cpt.model.simulate import expected_loss, scales_of, simulate
from bayes_cpt.watch.learnt.curve_sizes import (
    FLUCTUATION_GRID,
    MISFIT_GRID,
    TAUS,
    Sizes,
    curve_likelihoods,
)
from bayes_cpt.watch.learnt.left_out import left_out_runs


@cache
def simulated(tau: float) -> Posterior:
    """Return the truth as a posterior, of lab curves that fluctuate by factors of their own."""
    prior = prior_as_posterior(lab(), draws=1)
    one = {name: own[:1] for name, own in prior.parameters().items()}
    curves = fitted_setup(prior.frame, lab()).curves
    calm = {**one, "fluctuation_cpt": 0.0 * one["fluctuation_cpt"]}
    whole, still = (
        simulate(prior.frame, own, curves, None, np.random.default_rng(4)).loss[0]
        for own in (one, calm)
    )
    normals = np.random.default_rng(5).standard_normal(len(curves.curves))
    factors = np.exp(tau * normals - tau**2)[curves.points.curve_index]
    drawn = pd.DataFrame(
        {
            "run": [curves.curves[i].run for i in curves.points.curve_index],
            "step": curves.points.steps.astype(int),
            "domain": [curves.curves[i].domain for i in curves.points.curve_index],
            "drawn": still + factors * (whole - still),
        }
    )
    continual = [curves.curves[i].continual for i in curves.points.curve_index]
    table = lab().losses.merge(drawn[continual], on=["run", "step", "domain"], how="left")
    table["loss"] = table["drawn"].fillna(table["loss"])
    study = replace(lab(), losses=table.drop(columns="drawn"))
    values = {name: np.repeat(own[None], 4, axis=0) for name, own in one.items()}
    return as_posterior(prior.frame, study, values)


def likelihoods(posterior: Posterior) -> list[Floats]:
    """Return the likelihood of each CPT curve."""
    runs = left_out_runs(posterior, continual=True)
    return [own for run in runs for own in curve_likelihoods(run)]


@pytest.mark.parametrize("tau", [0.0, 0.5])
def test_how_unlike_curves_are_is_learnt_from_them(tau: float) -> None:
    sizes = Sizes.of(likelihoods(simulated(tau)))
    mean = sizes.fluctuation @ TAUS
    spread = np.sqrt(sizes.fluctuation @ (TAUS - mean) ** 2)
    assert spread < 0.15
    assert abs(mean - tau) < 3.0 * spread + 0.05
    # One that is known narrows what one may believe of the other no further than the prior.
    assert sizes.misfit @ TAUS < 0.45


def test_a_curve_is_likeliest_at_the_factor_that_it_has() -> None:
    posterior = simulated(0.5)
    found = likelihoods(posterior)
    assert len(found) == 2 * len(posterior.study.continual_runs)
    best = np.array([own.max(axis=1).argmax() for own in found])
    curves = fitted_setup(posterior.frame, posterior.study).curves.curves
    normals = np.random.default_rng(5).standard_normal(len(curves))
    true = np.array([n for n, curve in zip(normals, curves, strict=True) if curve.continual])
    assert np.corrcoef(best, true)[0, 1] > 0.9


def test_likelihoods_are_those_of_the_whole_residual_with_other_sizes() -> None:
    posterior = simulated(0.5)
    found = likelihoods(posterior)
    study, frame = posterior.study, posterior.frame
    parameters = posterior.parameters()
    steps = partial(frame.fitted_steps, study)
    curves = frame.curves(study, steps, runs=study.continual_runs)
    design = frame.residual_design(curves)
    scales = scales_of(frame, parameters, curves, design)
    residual = curves.points.loss - expected_loss(frame, parameters, curves)
    common = residual_log_densities(residual, curves, design, scales)
    for i, j in ((2, 5), (7, 0)):
        less, more = np.exp(FLUCTUATION_GRID[i]), np.exp(MISFIT_GRID[j])
        own = replace(
            scales,
            fluctuation=less * scales.fluctuation,
            misfit=more * scales.misfit,
            offset=more * scales.offset,
        )
        ratio = np.exp(residual_log_densities(residual, curves, design, own) - common)
        np.testing.assert_allclose([own[i, j] for own in found], ratio.mean(axis=0), rtol=1e-8)


def test_factors_have_mean_square_one_and_the_spread_that_was_learnt() -> None:
    only = np.zeros(TAUS.size)
    only[8] = 1.0
    generator = np.random.default_rng(1)
    fluctuation, misfit = Sizes(only, Sizes.same().misfit).draw(40_000, 2, generator)
    assert np.log(fluctuation).std() == pytest.approx(TAUS[8], rel=0.02)
    assert (fluctuation**2).mean() == pytest.approx(1.0, abs=0.05)
    np.testing.assert_array_equal(misfit, 1.0)

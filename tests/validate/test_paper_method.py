from dataclasses import replace

import numpy as np
import pytest
from open_weights import open_study, rewarmed
from testbench.simulation import NEW_RUNS, NOISE, RUNS, TRUTH, simulated

from bayes_cpt.study.study import Study
from bayes_cpt.validate import paper_method
from bayes_cpt.validate.printed_law import PrintedLaw, inputs_of, observations


@pytest.fixture(scope="module")
def fit_study() -> Study:
    return simulated(RUNS, NOISE)


@pytest.fixture(scope="module")
def held_out() -> Study:
    return simulated(NEW_RUNS, NOISE, seed=11)


@pytest.mark.parametrize("is_target", [False, True])
def test_many_starts_find_the_law_that_made_the_losses(is_target: bool) -> None:
    domain = "target" if is_target else "general"
    inputs, losses = observations(simulated(RUNS, noise=0.0), domain)
    law = PrintedLaw(is_target)
    fit = paper_method.fit_from_many_starts(law, inputs, losses, np.random.default_rng(6))
    new, truth = observations(simulated(NEW_RUNS, noise=0.0), domain)
    np.testing.assert_allclose(law.losses(fit.parameters, new), truth, atol=0.002)


def test_an_unknown_base_is_fitted_with_its_forward_area() -> None:
    """From runs that only re-warm, whose annealing areas are below 0."""
    study, law = open_study(), PrintedLaw(is_target=False)
    long = replace(study, runs=(rewarmed(6000),), losses=study.losses.iloc[:0], is_plan=True)
    inputs, _ = observations(study, "general")
    new = inputs_of(long, long.runs[0], [50, 500, 3000, 6000])
    truth = np.append(TRUTH[False], np.log(30.0))
    # Gains are per area: those of the truth belong to learning rates of its own.
    truth[3:5] *= 0.2
    bounds = paper_method.ranges_of(inputs, np.full(inputs.forward_cpt.size, 3.0)).bounds
    assert bounds.shape == (2, len(truth))
    assert bounds[1, 4] == pytest.approx(5.0 / np.abs(inputs.annealing_cpt).max())
    losses = law.losses(truth, inputs)
    fit = paper_method.fit_from_many_starts(law, inputs, losses, np.random.default_rng(6))
    np.testing.assert_allclose(law.losses(fit.parameters, inputs), losses, atol=0.001)
    np.testing.assert_allclose(law.losses(fit.parameters, new), law.losses(truth, new), atol=0.01)


def test_huber_loss_shrugs_off_outliers(fit_study: Study) -> None:
    inputs, losses = observations(fit_study, "general")
    law = PrintedLaw(is_target=False)
    spoilt = losses.copy()
    spoilt[::15] *= 1.5
    bounds = paper_method.ranges_of(inputs, spoilt).bounds
    fit = paper_method.fit_huber(law, inputs, np.log(spoilt), TRUTH[False][None], bounds)
    truth = law.losses(TRUTH[False], inputs)
    assert np.abs(law.losses(fit.parameters, inputs) - truth).mean() < 0.004


@pytest.fixture
def fewer_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start from fewer places: that all of them together find the law is tested above."""
    monkeypatch.setattr(paper_method, "STARTS", 9)


@pytest.mark.usefixtures("fewer_starts")
def test_bands_cover_new_points(fit_study: Study, held_out: Study) -> None:
    rows = held_out.losses
    points = rows[["run", "domain", "step"]].sample(frac=1.0, random_state=7)
    plan = held_out.without_losses()
    draws = paper_method.predict(fit_study, plan, points, seed=8, refits=20)
    truth = rows.loc[points.index, "loss"].to_numpy()
    lower, upper = np.quantile(draws, [0.05, 0.95], axis=0)
    assert 0.8 < np.mean((lower < truth) & (truth < upper)) < 0.98
    assert 2 * NOISE < np.mean((upper - lower) / truth) < 6 * NOISE


@pytest.mark.usefixtures("fewer_starts")
def test_draws_come_back_from_the_seed(fit_study: Study, held_out: Study) -> None:
    points = held_out.losses.query("domain == 'target'")[["run", "domain", "step"]]
    plan = held_out.without_losses()
    first, again, other = (
        paper_method.predict(fit_study, plan, points, seed=seed, refits=2) for seed in (8, 8, 9)
    )
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)


@pytest.mark.usefixtures("fewer_starts")
def test_residuals_come_from_the_phase_of_the_wanted_point(fit_study: Study) -> None:
    inputs, losses = observations(fit_study, "general")
    law = PrintedLaw(is_target=False)
    exact = law.losses(TRUTH[False], inputs)
    wild = np.where(inputs.continual, exact, losses * np.exp(np.where(losses > exact, 0.1, -0.1)))
    draws = paper_method.bootstrap_curves(
        law, inputs, wild, inputs, np.random.default_rng(10), refits=10
    )
    spread = draws.std(axis=0)
    assert spread[inputs.continual].mean() < 0.02 < 0.1 < spread[~inputs.continual].mean()

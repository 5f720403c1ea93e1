from dataclasses import replace

import numpy as np
import pytest
from testbench import independent_errors
from testbench.independent_errors import (
    CENTRES,
    PRIORS,
    SPREADS,
    Posterior,
    ReferenceAreas,
    importance_sample,
)
from testbench.simulation import NEW_RUNS, NOISE, RUNS, simulated

from bayes_cpt.study.study import Study
from bayes_cpt.validate.baselines import BaselineError, PrintedLaw, observations


@pytest.fixture(scope="module")
def fit_study() -> Study:
    return simulated(RUNS, NOISE)


def posterior_of(study: Study, is_target: bool) -> Posterior:
    domain = "target" if is_target else "general"
    reference = ReferenceAreas.of(study)
    return Posterior(PrintedLaw(is_target), reference, *observations(study, domain))


def test_a_skewed_density_is_sampled_right() -> None:
    # log x of a gamma(6) variable, beside a correlated Gaussian.
    def log_density(point: np.ndarray) -> float:
        skewed, other = point
        return float(6 * skewed - np.exp(skewed) - 0.5 * ((other - skewed) / 0.1) ** 2)

    draws = importance_sample(log_density, 2, np.random.default_rng(1), draws=40_000)
    quantiles = np.quantile(np.exp(draws[:, 0]), [0.05, 0.5, 0.95])
    np.testing.assert_allclose(quantiles, [2.613, 5.670, 10.513], rtol=0.04)
    assert (draws[:, 1] - draws[:, 0]).std() == pytest.approx(0.1, rel=0.05)


def test_a_density_far_from_a_gaussian_is_refused() -> None:
    # A thin banana: at its mode it looks straight.
    def log_density(point: np.ndarray) -> float:
        along, across = point
        return float(-0.5 * along**2 - 0.5 * ((across - 50.0 * along**2) / 0.01) ** 2)

    with pytest.raises(BaselineError, match=r"importance sampling is worth .* 400 are needed"):
        importance_sample(log_density, 2, np.random.default_rng(1))


def test_draws_come_back_from_the_seed() -> None:
    first, again, other = (
        importance_sample(lambda point: -0.5 * float(point @ point), 3, np.random.default_rng(seed))
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)


@pytest.mark.parametrize("is_target", [False, True])
def test_parameters_mean_what_the_priors_say(fit_study: Study, is_target: bool) -> None:
    posterior = posterior_of(fit_study, is_target)
    reference = posterior.reference
    standard = np.random.default_rng(2).normal(size=len(PRIORS))
    values = dict(zip(PRIORS, CENTRES + SPREADS * standard, strict=True))

    def loss(**changes: float) -> float:
        nothing = dict.fromkeys(
            ("forward_cpt", "annealing_pt", "annealing_cpt", "target_share"), 0.0
        )
        point = {"forward_pt": reference.forward_pt, "unknown": 0.0} | nothing | changes
        arrays = {name: np.array([value]) for name, value in point.items()}
        inputs = replace(posterior.inputs, **arrays)
        return float(posterior.law.losses(posterior.law_parameters(standard), inputs)[0])

    level = loss()
    assert level == pytest.approx(values["loss at the reference area"])
    slope = (loss(forward_pt=reference.forward_pt * np.exp(-1e-6)) - level) / 1e-6
    assert np.log(slope) == pytest.approx(values["log slope there"], rel=1e-3)
    # Annealed in full and long ago, S2 is the peak times the memory of 1,000 steps.
    annealed = 1000.0 * reference.peak
    gain = level - loss(annealing_pt=annealed)
    assert np.log(gain) == pytest.approx(values["log gain of a full anneal"])
    ratio = np.log((level - loss(annealing_cpt=annealed)) / gain)
    assert ratio == pytest.approx(values["log of C2/C1 at pure replay"])
    start = loss(target_share=1.0)
    change = np.log((start - loss(annealing_cpt=annealed, target_share=1.0)) / gain) - ratio
    assert change == pytest.approx(values["a1, counted in r_cpt"])
    moved = reference.forward_pt - reference.forward_cpt
    shifted = loss(forward_pt=moved, forward_cpt=reference.forward_cpt, target_share=1.0)
    shift = (level - shifted) if is_target else (shifted - level)
    assert np.log(shift) == pytest.approx(values["log size of the shift at the reference area"])
    assert np.log(posterior.error(standard)) == pytest.approx(values["log error"])


def test_the_error_and_its_density_are_gaussian(fit_study: Study) -> None:
    posterior = posterior_of(fit_study, is_target=True)
    standard = np.zeros(len(PRIORS))
    other = standard.copy()
    other[-1] = 1.0
    curve = posterior.law.losses(posterior.law_parameters(standard), posterior.inputs)
    squares = ((posterior.losses - curve) ** 2).sum()
    small, large = posterior.error(standard), posterior.error(other)
    expected = 0.5 * squares * (small**-2 - large**-2) - curve.size * np.log(large / small) - 0.5
    difference = posterior.log_density(other) - posterior.log_density(standard)
    assert difference == pytest.approx(expected)


def test_a_law_that_overflows_has_no_density(fit_study: Study) -> None:
    posterior = posterior_of(fit_study, is_target=False)
    assert posterior.log_density(np.full(len(PRIORS), 1e4)) == -np.inf


@pytest.mark.slow
def test_forecasts_are_calibrated_where_the_model_is_true(fit_study: Study) -> None:
    held_out = simulated(NEW_RUNS, NOISE, seed=11)
    rows = held_out.losses
    points = rows[["run", "domain", "step"]].sample(frac=1.0, random_state=7)
    plan = held_out.without_losses()
    draws = independent_errors.predict(fit_study, plan, points, seed=8)
    lower, upper = np.quantile(draws, [0.05, 0.95], axis=0)
    truth = rows.loc[points.index, "loss"].to_numpy()
    assert 0.8 < np.mean((lower < truth) & (truth < upper)) < 0.98
    assert 2 * NOISE < np.mean((upper - lower) / truth) < 6 * NOISE


def test_a_pretraining_study_has_the_areas_of_its_runs(fit_study: Study) -> None:
    alone = fit_study.subset(run.name for run in fit_study.pretraining_runs)
    areas = [run.schedule.learning_rates().sum() for run in alone.runs]
    reference = ReferenceAreas.of(replace(alone, bases=()))
    assert reference.forward_pt == reference.forward_cpt == pytest.approx(np.median(areas))
    assert reference.peak == 1e-3

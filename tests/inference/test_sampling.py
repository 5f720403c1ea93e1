"""Draws are right, the same for a seed, and sampled until their diagnostics hold."""

from collections.abc import Callable

import numpy as np
import pytest
from command_line import STAGES

from bayes_cpt.arrays import Floats
from bayes_cpt.inference.geometry.whitening import Metric, SamplingError, laplace
from bayes_cpt.inference.sampling import (
    BLOCK,
    FIRST_BLOCK,
    MARGIN_ESS,
    MARGIN_RHAT,
    Effort,
    Sample,
    sample,
)

# A ridge: standard deviations from 1e-3 to 1 in turned coordinates, condition number 1e6.
SDS = np.array([1e-3, 0.05, 1.0])
TURN = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
COVARIANCE = TURN @ np.diag(SDS**2) @ TURN.T
MEAN = np.array([1.0, -2.0, 30.0])
SHORT = (Effort(300, 600, 0.9),)


class Toy:
    """A log density over x, with its gradient."""

    def __init__(self, function: Callable[[Floats], tuple[float, Floats]], start: Floats) -> None:
        self.function, self.start = function, start

    def in_metric(self, metric: Metric) -> Callable[[Floats], tuple[float, Floats]]:
        def evaluate(white: Floats) -> tuple[float, Floats]:
            value, gradient = self.function(metric.center + metric.factor @ white)
            return value, gradient @ metric.factor

        return evaluate

    def values(self, positions: Floats) -> dict[str, Floats]:
        return {"x": positions}


def along_the_ridge(x: Floats) -> tuple[float, Floats]:
    pull = np.linalg.solve(COVARIANCE, x - MEAN)
    return float(-0.5 * (x - MEAN) @ pull), -pull


def down_the_funnel(x: Floats) -> tuple[float, Floats]:
    """Return Neal's funnel: a neck of sd 3, and nine directions whose log variance it is."""
    neck, wide = x[0], x[1:]
    squares = np.exp(-neck) * wide**2
    value = -(neck**2) / 18.0 - 0.5 * (squares.sum() + wide.size * neck)
    slopes = np.r_[-neck / 9.0 + 0.5 * (squares.sum() - wide.size), -np.exp(-neck) * wide]
    return float(value), slopes


@pytest.fixture(scope="module")
def ridge() -> Toy:
    return Toy(along_the_ridge, np.zeros(3))


@pytest.fixture(scope="module")
def ridge_sample(ridge: Toy) -> Sample:
    return sample(ridge, seed=1, efforts=SHORT)


def test_a_ridge_is_sampled_right_and_cheaply(ridge_sample: Sample) -> None:
    assert ridge_sample.diagnostics.trustworthy
    assert ridge_sample.attempts == 1
    assert ridge_sample.statistics["n_steps"].mean() < 20
    draws = ridge_sample.values["x"]
    assert draws.shape[0] == 4
    assert FIRST_BLOCK <= draws.shape[1] <= SHORT[0].draws
    # In the turned coordinates every direction has a scale of its own.
    straight = (draws.reshape(-1, 3) - MEAN) @ TURN / SDS
    effective = min(ridge_sample.diagnostics.ess_bulk["x"].min(), straight.shape[0])
    assert np.all(np.abs(straight.mean(axis=0)) < 4.5 / np.sqrt(effective))
    moments = np.cov(straight, rowvar=False) - np.eye(3)
    assert np.all(np.abs(moments) < 4.5 * np.sqrt(2.0 / effective))


def test_same_seed_same_draws_bit_by_bit_and_another_seed_others(
    ridge: Toy, ridge_sample: Sample
) -> None:
    other = sample(ridge, seed=2, efforts=SHORT)
    assert not np.any(other.values["x"] == ridge_sample.values["x"])
    again = sample(ridge, seed=1, efforts=SHORT)
    np.testing.assert_array_equal(again.values["x"], ridge_sample.values["x"])
    for name, value in again.statistics.items():
        np.testing.assert_array_equal(value, ridge_sample.statistics[name])


def test_number_of_cores_does_not_change_the_draws(ridge: Toy, ridge_sample: Sample) -> None:
    alone = sample(ridge, seed=1, efforts=SHORT, cores=1)
    np.testing.assert_array_equal(alone.values["x"], ridge_sample.values["x"])


def test_chains_one_after_the_other_give_the_same_draws_at_any_length(ridge: Toy) -> None:
    efforts = (Effort(100, 1500, 0.9),)
    together = sample(ridge, seed=3, efforts=efforts)
    alone = sample(ridge, seed=3, efforts=efforts, cores=1)
    np.testing.assert_array_equal(alone.values["x"], together.values["x"])


def test_chains_differ(ridge_sample: Sample) -> None:
    draws = ridge_sample.values["x"]
    for chain in range(1, 4):
        assert not np.any(draws[chain] == draws[0])


def test_draws_and_progress_are_as_asked_for(ridge: Toy) -> None:
    stages: list[tuple[str, float]] = []
    found = sample(
        ridge, seed=4, draws=500, efforts=SHORT, progress=lambda *told: stages.append(told)
    )
    assert found.values["x"].shape == (4, 500, 3)
    assert stages[0] == (STAGES[0], 0.0)
    # What stands in for the sampler elsewhere tells of the same.
    assert tuple(dict.fromkeys(stage for stage, _ in stages)) == STAGES
    assert all(0.0 <= share <= 1.0 for _, share in stages)


def test_sampling_ends_at_a_block_that_meets_the_contract_with_a_margin(ridge: Toy) -> None:
    """The draws are those of a longer run of the same seed, cut at the block."""
    long = sample(ridge, seed=1, draws=3000, efforts=(Effort(300, 3000, 0.9),))
    ended = sample(ridge, seed=1, efforts=(Effort(300, 3000, 0.9),))
    count = ended.values["x"].shape[1]
    assert count < 3000
    assert (count - FIRST_BLOCK) % BLOCK == 0
    np.testing.assert_array_equal(ended.values["x"], long.values["x"][:, :count])
    verdict = ended.diagnostics
    assert verdict.rhat["x"].max() <= MARGIN_RHAT
    assert min(verdict.ess_bulk["x"].min(), verdict.ess_tail["x"].min()) >= MARGIN_ESS


def test_too_little_effort_is_retried_and_then_reported(ridge: Toy) -> None:
    found = sample(ridge, seed=5, efforts=(Effort(50, 20, 0.8), Effort(50, 40, 0.8)))
    assert found.attempts == 2
    assert found.values["x"].shape == (4, 40, 3)
    assert any(p.startswith("bulk ESS of x is") for p in found.diagnostics.problems)


def test_a_second_effort_mends_the_first(ridge: Toy) -> None:
    found = sample(ridge, seed=5, efforts=(Effort(50, 20, 0.8), *SHORT))
    assert found.attempts == 2
    assert found.diagnostics.trustworthy


@pytest.mark.slow
def test_funnel_is_reported_as_not_trustworthy() -> None:
    """A funnel cannot be whitened, and two tiny efforts cannot make up for it."""
    funnel = Toy(down_the_funnel, np.zeros(10))
    found = sample(funnel, seed=5, efforts=(Effort(50, 100, 0.8), Effort(50, 100, 0.8)))
    assert found.attempts == 2
    problems = " ".join(found.diagnostics.problems)
    assert "ESS of x" in problems
    assert "below 400" in problems


def test_density_that_is_nowhere_finite_is_an_error() -> None:
    nowhere = Toy(lambda x: (-np.inf, np.zeros_like(x)), np.zeros(2))
    with pytest.raises(SamplingError, match="not finite near the centre"):
        laplace(nowhere, seed=0)


def test_a_mode_beside_which_nothing_is_finite_is_no_mode() -> None:
    """Within the step of the curvature's differences the density ends: no start leads anywhere."""

    def on_a_ledge(x: Floats) -> tuple[float, Floats]:
        gradient = -(x - MEAN) if np.abs(x - MEAN).max() < 1e-9 else np.full(3, np.inf)
        return float(-0.5 * np.sum((x - MEAN) ** 2)), gradient

    with pytest.raises(SamplingError, match="not finite"):
        laplace(Toy(on_a_ledge, MEAN), seed=0)

"""Risk of single runs, against a large Monte Carlo and closed forms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from bayes_cpt.decisions import mixtures
from bayes_cpt.decisions.measures import RiskMeasure

GENERATOR = np.random.default_rng(0)
MEANS = 3.0 + 0.02 * GENERATOR.standard_normal((50, 3)) * [0.2, 1.0, 5.0]
SDS = 0.03 * GENERATOR.uniform(0.3, 2.0, (50, 3))
RUNS = 2_000_000


@pytest.fixture(scope="module")
def runs() -> np.ndarray:
    """Return losses of many single runs, each in a draw of its own."""
    generator = np.random.default_rng(1)
    draws = generator.integers(0, len(MEANS), RUNS)
    return np.sort(MEANS[draws] + SDS[draws] * generator.standard_normal((RUNS, 3)), axis=0)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_tails_are_those_of_many_runs(runs: np.ndarray, level: float) -> None:
    sd = runs.std(axis=0)
    place = int(level * RUNS)
    # Five standard errors: sqrt(p(1 - p)/n) over the density, which is above a quarter of the tail's share.
    close = 5.0 * sd * np.sqrt(1.0 / ((1.0 - level) * RUNS)) * 2.0
    value = RiskMeasure.parse(f"quantile:{level}").score(MEANS, noise=SDS)
    assert np.all(np.abs(value - runs[place]) < close)
    tail = RiskMeasure.parse(f"cvar:{level}").score(MEANS, noise=SDS)
    assert np.all(np.abs(tail - runs[place:].mean(axis=0)) < close)
    spread = RiskMeasure.parse("mean-sd:2").score(MEANS, noise=SDS)
    np.testing.assert_allclose(spread, runs.mean(axis=0) + 2.0 * sd, atol=5e-4)


def test_the_worst_is_the_median_of_the_worst_run_of_all_draws() -> None:
    generator = np.random.default_rng(2)
    drawn = MEANS + SDS * generator.standard_normal((40_000, *MEANS.shape))
    worst = RiskMeasure.parse("worst").score(MEANS, noise=SDS)
    below = (drawn.max(axis=1) < worst).mean(axis=0)
    assert np.all(np.abs(below - 0.5) < 5.0 * 0.5 / np.sqrt(40_000))


@given(st.floats(0.01, 0.999), st.floats(-5.0, 5.0), st.floats(1e-3, 10.0))
def test_one_draw_is_a_normal_distribution(level: float, mean: float, sd: float) -> None:
    means, sds = np.array([[mean]]), np.array([[sd]])
    at_risk = norm.ppf(level, mean, sd)
    assert mixtures.quantile(means, sds, level)[0] == pytest.approx(at_risk, abs=1e-7)
    beyond = mean + sd * norm.pdf(norm.ppf(level)) / (1.0 - level)
    assert mixtures.cvar(means, sds, level)[0] == pytest.approx(beyond, abs=1e-6)
    assert mixtures.worst_run(means, sds)[0] == pytest.approx(mean, abs=1e-7)


def test_runs_without_noise_are_their_draws() -> None:
    nothing = np.zeros_like(MEANS)
    found = mixtures.quantile(MEANS, nothing, 0.905)
    np.testing.assert_allclose(found, np.sort(MEANS, axis=0)[45], atol=1e-8)
    np.testing.assert_allclose(mixtures.worst_run(MEANS, nothing), MEANS.max(axis=0), atol=1e-8)

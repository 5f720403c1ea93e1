"""Risk measures against loops, closed forms and a large Monte Carlo, and against each other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.integrate import quad
from scipy.stats import norm

from bayes_cpt.arrays import Floats
from bayes_cpt.decisions import risk
from bayes_cpt.decisions.risk import BEST, MEASURES, RiskMeasure
from bayes_cpt.errors import SpecError

LOSSES = np.random.default_rng(0).gamma(2.0, 0.1, (40, 6)) + 2.5
GENERATOR = np.random.default_rng(0)
MEANS = 3.0 + 0.02 * GENERATOR.standard_normal((50, 3)) * [0.2, 1.0, 5.0]
SDS = 0.03 * GENERATOR.uniform(0.3, 2.0, (50, 3))
RUNS = 2_000_000


def test_the_probability_of_the_best_agrees_with_loops() -> None:
    draws, candidates = LOSSES.shape
    regrets = [
        [LOSSES[d, c] - min(LOSSES[d, k] for k in range(candidates)) for d in range(draws)]
        for c in range(candidates)
    ]
    for tolerance in (0.0, 0.03):
        wanted = np.array([sum(value <= tolerance for value in r) / draws for r in regrets])
        np.testing.assert_allclose(risk.probability_best(LOSSES, tolerance=tolerance), wanted)
        # Of some candidates it is counted from the best of all.
        some = risk.probability_best(LOSSES[:, [4, 1]], LOSSES.min(axis=1), tolerance)
        np.testing.assert_allclose(some, wanted[[4, 1]])
    assert risk.probability_best(LOSSES).sum() == pytest.approx(1.0)


def test_beating_a_reference_agrees_with_loops() -> None:
    reference = np.random.default_rng(1).uniform(2.6, 2.8, len(LOSSES))
    wanted = [
        sum(LOSSES[d, c] < reference[d] for d in range(len(LOSSES))) / len(LOSSES) for c in range(6)
    ]
    none = np.zeros_like(LOSSES)
    np.testing.assert_allclose(risk.probability_below(LOSSES, reference, none), wanted)
    assert risk.probability_below(LOSSES, 2.7, none).tolist() == [
        sum(loss < 2.7 for loss in LOSSES[:, c]) / len(LOSSES) for c in range(6)
    ]


def test_beating_a_reference_with_noise_integrates_it() -> None:
    noise = np.random.default_rng(2).uniform(0.01, 0.1, LOSSES.shape)
    found = risk.probability_below(LOSSES, 2.7, noise)
    for c in (0, 3):
        wanted = np.mean(
            [
                quad(norm(LOSSES[d, c], noise[d, c]).pdf, LOSSES[d, c] - 2.0, 2.7)[0]
                for d in range(len(LOSSES))
            ]
        )
        assert found[c] == pytest.approx(wanted, abs=1e-6)


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
    value = RiskMeasure.parse(f"quantile:{level}").of_losses(MEANS, SDS)
    assert np.all(np.abs(value - runs[place]) < close)
    tail = RiskMeasure.parse(f"cvar:{level}").of_losses(MEANS, SDS)
    assert np.all(np.abs(tail - runs[place:].mean(axis=0)) < close)


@given(st.floats(0.01, 0.999), st.floats(-5.0, 5.0), st.floats(1e-3, 10.0))
def test_one_draw_is_a_normal_distribution(level: float, mean: float, sd: float) -> None:
    means, sds = np.array([[mean]]), np.array([[sd]])
    assert risk.quantile(means, sds, level)[0] == pytest.approx(norm.ppf(level, mean, sd), abs=1e-7)
    beyond = mean + sd * norm.pdf(norm.ppf(level)) / (1.0 - level)
    assert risk.cvar(means, sds, level)[0] == pytest.approx(beyond, abs=1e-6)


def test_runs_without_noise_are_their_draws() -> None:
    nothing = np.zeros_like(MEANS)
    ordered = np.sort(MEANS, axis=0)
    np.testing.assert_allclose(risk.quantile(MEANS, nothing, 0.905), ordered[45], atol=1e-8)
    np.testing.assert_allclose(risk.cvar(MEANS, nothing, 0.9), ordered[45:].mean(axis=0), atol=1e-8)


SOME = arrays(
    np.float64,
    st.tuples(st.integers(1, 12), st.integers(1, 5)),
    elements=st.floats(-5, 5, width=32),
)


@given(SOME, st.floats(0.01, 0.99), st.floats(0.0, 2.0))
def test_careful_measures_are_in_order(losses: Floats, level: float, sd: float) -> None:
    sds = np.full_like(losses, sd)
    at_risk, tail = risk.quantile(losses, sds, level), risk.cvar(losses, sds, level)
    close = 1e-6
    assert (at_risk <= tail + close).all()
    assert (losses.mean(axis=0) <= tail + close).all()
    assert (tail <= risk.cvar(losses, sds, (1 + level) / 2) + close).all()


@pytest.mark.parametrize("name", [name for name in MEASURES if name != BEST])
def test_a_candidate_that_is_better_in_every_draw_scores_no_worse(name: str) -> None:
    measure = RiskMeasure.parse(name)
    both = np.stack([LOSSES[:, 0], LOSSES[:, 0] + 0.03], axis=1)
    lower, higher = measure.of_losses(both, np.full_like(both, 0.1))
    assert lower < higher


@pytest.mark.parametrize("name", MEASURES)
def test_texts_are_read_back(name: str) -> None:
    measure = RiskMeasure.parse(name)
    assert RiskMeasure.parse(str(measure)) == measure
    assert RiskMeasure.parse(measure) is measure
    assert "LEVEL" not in measure.meaning


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cvr", r"no risk measure 'cvr' \(did you mean 'cvar'\?\)"),
        ("quantile:0", "not a level of quantile"),
        ("cvar:much", "'much' is not a level of cvar"),
        ("expected:0.9", "expected has no level"),
    ],
)
def test_texts_that_name_no_measure(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        RiskMeasure.parse(text)

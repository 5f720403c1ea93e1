"""Risk measures against loops in plain NumPy, and against each other."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.integrate import quad
from scipy.stats import norm

from bayes_cpt.arrays import Floats
from bayes_cpt.decisions import risk

LOSSES = np.random.default_rng(0).gamma(2.0, 0.1, (40, 6)) + 2.5


def loop_quantile(draws: list[float], level: float) -> float:
    for value in sorted(draws):
        if sum(other <= value for other in draws) >= level * len(draws) - 1e-9:
            return value
    raise AssertionError


def loop_cvar(draws: list[float], level: float) -> float:
    """Average the worst draws, the last of them with the weight that is left of the tail."""
    left, total = (1.0 - level) * len(draws), 0.0
    for value in sorted(draws, reverse=True):
        weight = min(1.0, left)
        total, left = total + weight * value, left - weight
    return total / ((1.0 - level) * len(draws))


def loop_sd(draws: list[float]) -> float:
    mean = sum(draws) / len(draws)
    return math.sqrt(sum((value - mean) ** 2 for value in draws) / len(draws))


LOOPS: dict[str, tuple[Callable[[Floats], Floats], Callable[[list[float]], float]]] = {
    "expected": (risk.expected_loss, lambda draws: sum(draws) / len(draws)),
    "quantile 0.9": (lambda x: risk.quantile(x, 0.9), lambda draws: loop_quantile(draws, 0.9)),
    "quantile 0.33": (lambda x: risk.quantile(x, 0.33), lambda draws: loop_quantile(draws, 0.33)),
    "cvar 0.9": (lambda x: risk.cvar(x, 0.9), lambda draws: loop_cvar(draws, 0.9)),
    "cvar 0.77": (lambda x: risk.cvar(x, 0.77), lambda draws: loop_cvar(draws, 0.77)),
    "mean + 2 sd": (
        lambda x: risk.mean_plus_sd(x, 2.0),
        lambda draws: sum(draws) / len(draws) + 2.0 * loop_sd(draws),
    ),
    "worst": (risk.worst_draw, max),
}


@pytest.mark.parametrize("name", LOOPS)
def test_measures_of_loss_agree_with_loops(name: str) -> None:
    measure, loop = LOOPS[name]
    wanted = [loop(LOSSES[:, c].tolist()) for c in range(LOSSES.shape[1])]
    np.testing.assert_allclose(measure(LOSSES), wanted, rtol=1e-12)


def test_measures_of_regret_agree_with_loops() -> None:
    draws, candidates = LOSSES.shape
    regrets = [
        [LOSSES[d, c] - min(LOSSES[d, k] for k in range(candidates)) for d in range(draws)]
        for c in range(candidates)
    ]
    np.testing.assert_allclose(risk.expected_regret(LOSSES), [sum(r) / draws for r in regrets])
    np.testing.assert_allclose(risk.maximum_regret(LOSSES), [max(r) for r in regrets])
    for tolerance in (0.0, 0.03):
        wanted = [sum(value <= tolerance for value in r) / draws for r in regrets]
        found = risk.probability_best(LOSSES, tolerance=tolerance)
        np.testing.assert_allclose(found, wanted)


def test_regret_of_some_candidates_is_counted_from_the_best_of_all() -> None:
    best = risk.best_losses(LOSSES)
    some = LOSSES[:, [4, 1]]
    whole = risk.expected_regret(LOSSES)
    np.testing.assert_allclose(risk.expected_regret(some, best), whole[[4, 1]])
    assert (risk.expected_regret(some) <= whole[[4, 1]]).all()
    np.testing.assert_allclose(risk.maximum_regret(some, best), risk.maximum_regret(LOSSES)[[4, 1]])


def test_beating_a_reference_agrees_with_loops() -> None:
    reference = np.random.default_rng(1).uniform(2.6, 2.8, len(LOSSES))
    wanted = [
        sum(LOSSES[d, c] < reference[d] for d in range(len(LOSSES))) / len(LOSSES) for c in range(6)
    ]
    np.testing.assert_allclose(risk.probability_below(LOSSES, reference), wanted)
    assert risk.probability_below(LOSSES, 2.7).tolist() == [
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


SOME = arrays(
    np.float64,
    st.tuples(st.integers(1, 12), st.integers(1, 5)),
    elements=st.floats(-5, 5, width=32),
)


@given(SOME, st.floats(0.01, 0.99))
def test_careful_measures_are_in_order(losses: Floats, level: float) -> None:
    at_risk, tail = risk.quantile(losses, level), risk.cvar(losses, level)
    close = 1e-9
    assert (at_risk <= tail + close).all()
    assert (tail <= risk.worst_draw(losses) + close).all()
    assert (risk.expected_loss(losses) <= tail + close).all()
    assert (risk.cvar(losses, level) <= risk.cvar(losses, (1 + level) / 2) + close).all()


@given(SOME, st.floats(-3, 3))
def test_a_level_shift_moves_losses_and_leaves_regrets(losses: Floats, shift: float) -> None:
    moved = losses + shift
    for measure in (risk.expected_loss, risk.worst_draw, lambda x: risk.cvar(x, 0.8)):
        np.testing.assert_allclose(measure(moved), measure(losses) + shift, atol=1e-12)
    for regret in (risk.expected_regret, risk.maximum_regret):
        np.testing.assert_allclose(regret(moved), regret(losses), atol=1e-12)


@given(SOME)
def test_the_least_expected_regret_is_the_value_of_perfect_information(losses: Floats) -> None:
    wanted = losses.mean(axis=0).min() - losses.min(axis=1).mean()
    assert risk.expected_regret(losses).min() == pytest.approx(wanted, abs=1e-12)
    assert risk.probability_best(losses).sum() >= 1.0 - 1e-12


@pytest.mark.parametrize("level", [0.0, 1.0, 90.0, math.nan])
def test_a_level_is_a_share(level: float) -> None:
    with pytest.raises(ValueError, match="give a share between 0 and 1"):
        risk.cvar(LOSSES, level)


def test_the_tail_is_the_upper_one() -> None:
    calm, wild = np.full(100, 2.6), np.r_[np.full(95, 2.5), np.full(5, 4.0)]
    losses = np.stack([calm, wild], axis=1)
    assert risk.expected_loss(losses).argmin() == 1
    assert risk.quantile(losses, 0.9).argmin() == 1
    assert risk.quantile(losses, 0.97).argmin() == 0
    assert risk.cvar(losses, 0.9).argmin() == 0
    assert risk.mean_plus_sd(losses, 1.0).argmin() == 0
    assert risk.mean_plus_sd(losses, -1.0).argmin() == 1

import math
from typing import Any

import numpy as np
import pytest
from hand_points import hand_points
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bayes_cpt.laws import Reference, Shift
from bayes_cpt.laws.term import relative_exponential

REFERENCE = Reference(learning_rate=2e-4, forward_pt=8.0, forward_cpt=4.0, steps=20_000.0)
SHIFT = Shift((1.0, -1.0), ("power", "exponential"), replay_rate=True)
PLAIN = Shift((1.0, -1.0), ("none", "none"))

POSITIVE = st.floats(0.01, 5.0)
SHIFT_PARAMETERS = st.fixed_dictionaries(
    {
        "shift_size": st.tuples(POSITIVE, POSITIVE),
        "shift_rate": st.tuples(st.floats(0.1, 1e4), st.floats(0.1, 1e4)),
        "shift_exponent": st.tuples(st.floats(0.02, 3.0), st.floats(0.02, 3.0)),
        "replay_onset": st.tuples(st.floats(1.0, 2e3)),
        "replay_quarter": st.tuples(st.floats(0.02, 0.98)),
        "replay_curvature": st.tuples(st.floats(-8.0, 8.0)),
        "replay_rate": st.tuples(st.floats(-0.5, 1.5), st.floats(-0.5, 1.5)),
    }
)


def arrays(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: np.array(value) for name, value in parameters.items()}


def of_domain(coefficients: dict[str, Any], domain: int) -> dict[str, Any]:
    return {name: np.asarray(value)[domain] for name, value in coefficients.items()}


@pytest.mark.parametrize("size", [0.366, -0.666])
def test_shift_is_its_closed_form(size: float) -> None:
    steps = np.array([0.0, 0.1, 1.0, 4.0])
    found = PLAIN.loss(hand_points(forward_cpt=steps), {"B": size, "E": 28.0, "beta": 0.189}, np)
    expected = size * (1.0 - (1.0 + 28.0 * steps) ** -0.189)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert found[0] == 0.0


def test_shift_with_replay_is_its_closed_form() -> None:
    share = np.array([1.0, 0.75, 0.3])
    coefficients = {
        "B": 0.4, "E": 30.0, "beta": 0.2, "a": 2.0, "b": 150.0, "gamma": 0.4, "omega": 0.5
    }  # fmt: skip
    found = SHIFT.loss(hand_points(forward_cpt=3.0, target_share=share), coefficients, np)
    expected = []
    for x in share:
        h = (1 - math.exp(-2 * x)) / (1 - math.exp(-2)) * (1 + 150 * (1 - x)) ** -0.4
        rate = 30 * math.sqrt(x / h)
        expected.append(0.4 * h * (1 - (1 + rate * 3.0) ** -0.2))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


DILUTED = Shift((1.0, -1.0), ("power", "saturating"), replay_rate=True, replay_dilution=True)


def test_diluted_factors_reach_both_printed_forms() -> None:
    """docs/law.md states k and the largest distance, the rest of each form being linear."""
    x = np.linspace(0.0, 1.0, 101)
    linear = {"b": 150.0, "gamma": 0.0}
    general = (1 - np.exp(-3.238 * x)) / (1 - math.exp(-3.238))
    found = DILUTED.replay_factor(x, linear | {"k": -1.1}, np)
    assert np.max(np.abs(found - general)) == pytest.approx(0.041, abs=0.001)
    target = np.expm1(5.696 * x) / math.expm1(5.696)
    nearly_linear = {"c": np.float64(1e-9), "delta": np.float64(1.0)}
    found = DILUTED.replay_factor(x, nearly_linear | {"k": 4.6}, np)
    assert np.max(np.abs(found - target)) == pytest.approx(0.005, abs=0.001)


@given(SHIFT_PARAMETERS)
def test_shift_at_the_reference_is_its_size_and_sign(drawn: dict[str, Any]) -> None:
    coefficients = SHIFT.coefficients(arrays(drawn), REFERENCE, np)
    for domain, sign in enumerate((1.0, -1.0)):
        found = SHIFT.loss(hand_points(forward_cpt=4.0), of_domain(coefficients, domain), np)
        assert found[0] == pytest.approx(sign * drawn["shift_size"][domain], rel=1e-9)
    np.testing.assert_allclose(coefficients["E"] * 4.0, drawn["shift_rate"], rtol=1e-12)
    np.testing.assert_allclose(coefficients["beta"], drawn["shift_exponent"])


@given(SHIFT_PARAMETERS, st.just(0.0) | st.floats(1e-6, 1.0), st.floats(0.0, 100.0))
def test_shift_is_zero_at_the_transfer_and_at_pure_replay(
    drawn: dict[str, Any], share: float, area: float
) -> None:
    coefficients = SHIFT.coefficients(arrays(drawn), REFERENCE, np)
    for domain in (0, 1):
        own = of_domain(coefficients, domain)
        at_transfer = hand_points(forward_cpt=0.0, target_share=share)
        pure_replay = hand_points(forward_cpt=area, target_share=0.0)
        assert SHIFT.loss(at_transfer, own, np)[0] == 0.0
        assert SHIFT.loss(pure_replay, own, np)[0] == 0.0


@pytest.mark.parametrize("curvature", [3.238, 5.696])
def test_exponential_factor_covers_both_printed_forms(curvature: float) -> None:
    """1 - exp(-a2·r) and exp(a2·r) - 1 of Eq. 8, each divided by its value at r = 1."""
    x = np.linspace(0.0, 1.0, 9)
    saturating = (1 - np.exp(-curvature * x)) / (1 - math.exp(-curvature))
    convex = (np.exp(curvature * x) - 1) / (math.exp(curvature) - 1)
    full = np.full(9, curvature)
    np.testing.assert_allclose(relative_exponential(full, x, np), saturating, rtol=1e-12)
    np.testing.assert_allclose(relative_exponential(-full, x, np), convex, rtol=1e-12)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_relative_exponential_is_continuous_where_its_series_takes_over(sign: float) -> None:
    x = np.linspace(0.0, 1.0, 21)
    inside = relative_exponential(np.full(21, sign * 0.9999999e-4), x, np)
    outside = relative_exponential(np.full(21, sign * 1.0000001e-4), x, np)
    np.testing.assert_allclose(inside, outside, rtol=0, atol=2e-9)
    tiny = relative_exponential(np.full(21, sign * 1e-12), x, np)
    np.testing.assert_allclose(tiny, x, rtol=0, atol=1e-12)


SATURATING = Shift((1.0, -1.0), ("none", "saturating"))


def saturating(rate: float, exponent: float, share: NDArray[np.float64]) -> Any:
    """Evaluate the saturating factor; on the other validation set c is 0 and the factor is r_cpt."""
    return SATURATING.replay_factor(share, {"c": rate, "delta": exponent}, np)


@pytest.mark.parametrize(
    ("exponent", "expected"),
    [
        (0.7, lambda x: (1 - (1 + 16 * x) ** -0.7) / (1 - 17**-0.7)),
        (0.0, lambda x: np.log(1 + 16 * x) / np.log(17)),
        (-0.5, lambda x: (np.sqrt(1 + 16 * x) - 1) / (np.sqrt(17) - 1)),
        (-1.0, lambda x: x),
        (-2.0, lambda x: ((1 + 16 * x) ** 2 - 1) / 288),
    ],
)
def test_saturating_factor_is_its_closed_form(exponent: float, expected: Any) -> None:
    share = np.linspace(0.0, 1.0, 21)
    np.testing.assert_allclose(saturating(16.0, exponent, share), expected(share), atol=1e-12)


def test_saturating_factor_leaves_other_validation_sets_alone() -> None:
    term = Shift((1.0, -1.0, 1.0), ("power", "saturating", "exponential"))
    drawn = {
        "shift_size": np.ones(3),
        "shift_rate": np.full(3, 10.0),
        "shift_exponent": np.full(3, 0.4),
        "replay_onset": np.array([100.0]),
        "replay_quarter": np.array([0.3]),
        "saturation_exponent": np.array([0.7]),
        "replay_curvature": np.array([2.0]),
    }
    found = term.coefficients(drawn, REFERENCE, np)
    share = np.full(3, 0.75)
    expected = [0.3 * 0.75, saturating(16.0, 0.7, share[:1])[0], np.expm1(-1.5) / np.expm1(-2.0)]
    np.testing.assert_allclose(term.replay_factor(share, found, np), expected, rtol=1e-12)

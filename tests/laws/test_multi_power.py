"""The multi-power term against the double sum of arXiv 2503.12811, written out."""

from dataclasses import dataclass

import numpy as np
import pytest
from area_values import annealing_area
from hypothesis import given
from hypothesis import strategies as st

from bayes_cpt.arrays import Floats
from bayes_cpt.laws import Reference
from bayes_cpt.laws.multi_power import Falls, MultiPower, reduced_at_end
from bayes_cpt.study.schedules import Schedule, constant, cosine, linear, warmup_stable_decay

PEAK = 3e-4
# The authors' own fits of 25M, 100M and 400M parameters: B, C, beta, gamma.
PRINTED = (
    (363.788, 2.066, 0.583, 0.641),
    (437.946, 2.132, 0.598, 0.655),
    (523.425, 2.025, 0.594, 0.635),
)
SCHEDULES = {
    "cosine to 0": cosine(400, PEAK),
    "decay": warmup_stable_decay(500, PEAK, 0.1 * PEAK, decay_steps=100),
    "re-warmed from 0": linear(50, 0.0, PEAK) + cosine(300, PEAK, 1e-5),
    "dropped to 0 and raised again": constant(50, PEAK) + constant(50, 0.0) + constant(60, PEAK),
    "logged": Schedule.from_log([1, 100, 250, 300], [PEAK, 2e-4, 2e-4, 1e-5]),
}


@dataclass
class Points:
    falls: Falls


def double_sum(
    rates: Floats, before: float, step: int, pace: float, beta: float, gamma: float
) -> float:
    total, last = 0.0, before
    for k in range(step):
        rest = sum(rates[k:step].tolist())
        if rates[k] > 0:
            share = 1.0 - (1.0 + pace * rates[k] ** -gamma * rest) ** -beta
        else:
            share = 1.0 if rest > 0 else 0.0
        total += (last - rates[k]) * share
        last = rates[k]
    return total


def values(pace: float, beta: float, gamma: float, gain: float = 1.0) -> dict[str, Floats]:
    given = {"B_mp": gain, "C_mp": pace, "beta_mp": beta, "gamma_mp": gamma}
    return {name: np.array([value]) for name, value in given.items()}


@pytest.mark.parametrize("printed", PRINTED)
@pytest.mark.parametrize("name", SCHEDULES)
def test_the_term_is_the_double_sum(name: str, printed: tuple[float, ...]) -> None:
    gain, pace, beta, gamma = printed
    rates = SCHEDULES[name].learning_rates()
    before = 0.0 if name.startswith("re-warmed") else PEAK
    steps = np.array([1, 3, 70, rates.size])
    points = Points(Falls.of(rates, before, steps))
    found = MultiPower().loss(points, values(pace, beta, gamma, gain), np)
    expected = [-gain * double_sum(rates, before, int(step), pace, beta, gamma) for step in steps]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_draws_and_points_have_axes_of_their_own() -> None:
    rates = SCHEDULES["decay"].learning_rates()
    falls = Falls.of(rates, PEAK, np.array([450, 500]))
    draws = np.array(PRINTED)[:, 1:, None] * np.ones(2)
    coefficients = dict(zip(("C_mp", "beta_mp", "gamma_mp"), draws.swapaxes(0, 1), strict=True))
    found = MultiPower().reduced(falls, coefficients, np)
    expected = [
        [double_sum(rates, PEAK, step, *printed[1:]) for step in (450, 500)] for printed in PRINTED
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_full_anneal_gains_what_is_sampled_and_the_pace_is_per_step() -> None:
    reference = Reference(learning_rate=PEAK, forward_pt=8.0, forward_cpt=4.0, steps=20_000.0)
    sampled = {
        "multi_power_gain": 0.2,
        "multi_power_rate": 0.5,
        "multi_power_exponent": 0.6,
        "multi_power_slowing": 0.64,
    }
    term = MultiPower()
    assert set(sampled) == set(term.parameters())
    given = {name: np.array([value]) for name, value in sampled.items()}
    coefficients = term.coefficients(given, reference, np)
    # A drop to a half that is then held: after n steps, (1 + 0.5·2^(gamma - 1)·n)^-0.6 is left of it.
    rates = np.full(1000, 0.5 * PEAK)
    points = Points(Falls.of(rates, PEAK, np.array([10, 1000])))
    left = (1.0 + 0.5 * 0.5**0.36 * np.array([10, 1000])) ** -0.6
    np.testing.assert_allclose(term.loss(points, coefficients, np), -0.1 * (1.0 - left), rtol=1e-9)
    slow = cosine(2_000_000, PEAK).learning_rates()
    falls = Falls.of(slow, PEAK, np.array([slow.size]), most=400)
    assert term.loss(Points(falls), coefficients, np)[0] == pytest.approx(-0.2, rel=0.01)


def test_with_gamma_1_and_a_large_beta_a_drop_takes_effect_as_in_the_annealing_area() -> None:
    """The term then is the annealing area: fitted to one, it would be no other opinion."""
    momentum, beta = 0.97, 1e6
    rates = np.concatenate([np.full(50, PEAK), np.full(200, 0.2 * PEAK)])
    steps = np.array([60, 100, 250])
    found = MultiPower().reduced(
        Falls.of(rates, PEAK, steps), values(-np.log(momentum) / beta, beta, 1.0), np
    )
    area = annealing_area(rates, momentum, PEAK)[steps - 1] * (1.0 - momentum)
    np.testing.assert_allclose(found, area, rtol=1e-4)


def test_a_rate_of_0_gains_nothing_however_long_it_is_held() -> None:
    for steps in (10, 1000):
        rates = np.concatenate([np.full(100, PEAK), np.zeros(steps)])
        falls = Falls.of(rates, PEAK, np.array([rates.size]))
        assert MultiPower().reduced(falls, values(2.0, 0.6, 0.64), np)[0] < 1e-12
        # Where the annealing area counts it as a full anneal.
        assert annealing_area(rates, 0.9, PEAK)[-1] * 0.1 / PEAK > 0.6


@pytest.mark.parametrize("name", SCHEDULES)
def test_merged_falls_are_nearly_all_falls(name: str) -> None:
    schedule = SCHEDULES[name].stretched(20 * SCHEDULES[name].steps)
    rates = schedule.learning_rates()
    steps = np.array([100, rates.size // 2, rates.size])
    whole, merged = (
        MultiPower().reduced(Falls.of(rates, PEAK, steps, most), values(*PRINTED[0][1:]), np)
        for most in (None, 150)
    )
    np.testing.assert_allclose(merged, whole, atol=2e-3 * PEAK)


@given(
    st.lists(st.tuples(st.floats(0.02, 1.0), st.integers(1, 9)), min_size=3, max_size=20),
    st.floats(0.5, 20.0),
    st.floats(0.2, 2.0),
    st.floats(0.2, 0.95),
)
def test_slopes_are_those_of_central_differences(
    stretches: list[tuple[float, int]], pace: float, beta: float, gamma: float
) -> None:
    shares, counts = np.array(stretches).T
    rates, paces = PEAK * shares, np.array([pace, 2.0 * pace])
    reduced, slopes = reduced_at_end(rates, counts, PEAK, paces, beta, gamma)
    whole = np.repeat(rates, counts.astype(int))
    steps = np.array([whole.size])
    for row, own in enumerate(paces):
        expected = MultiPower().reduced(Falls.of(whole, PEAK, steps), values(own, beta, gamma), np)
        np.testing.assert_allclose(reduced[row], expected[0], rtol=1e-9, atol=1e-12)
        for k in range(rates.size):
            step = 1e-5 * PEAK * np.eye(rates.size)[k]
            up, down = (
                reduced_at_end(rates + way * step, counts, PEAK, paces, beta, gamma)[0][row]
                for way in (1.0, -1.0)
            )
            assert slopes[row, k] == pytest.approx((up - down) / (2e-5 * PEAK), rel=1e-4, abs=1e-4)


def test_slopes_stay_finite_at_0() -> None:
    rates = cosine(50, PEAK).learning_rates()
    _, slopes = reduced_at_end(rates, np.ones(50), PEAK, np.array([2.0]), 0.6, 0.64)
    assert np.isfinite(slopes).all()

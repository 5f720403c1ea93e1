import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bayes_cpt.laws.areas import MomentumRange, annealing_area, continual_areas
from bayes_cpt.laws.recursion import fading_sum, fill_annealing
from bayes_cpt.study.schedules import constant, linear, warmup_stable_decay

RATES = st.lists(st.floats(0, 1e-2), min_size=1, max_size=30)


@given(RATES, st.floats(0, 1e-2), st.lists(st.integers(0, 30), min_size=1, max_size=8))
def test_areas_and_memories_are_the_sums_of_the_falls(
    rates: list[float], before: float, wanted: list[int]
) -> None:
    points = np.array(sorted(min(step, len(rates)) for step in wanted))
    momenta, memories = np.array([0.3, 0.99, 0.9999]), np.array([0.0, 1e-3, 2e-3])
    areas, last = np.empty((points.size, 3)), memories.copy()
    fill_annealing(np.array(rates), before, momenta, last, points, areas)
    falls = -np.diff([before, *rates])
    for j, momentum in enumerate(momenta):
        curve = [memories[j]]
        for fall in falls:
            curve.append(momentum * curve[-1] + fall)
        sums = np.concatenate([[0.0], np.cumsum(curve[1:])])
        np.testing.assert_allclose(areas[:, j], sums[points], rtol=1e-10, atol=1e-16)
        np.testing.assert_allclose(last[j], curve[points[-1]], rtol=1e-10, atol=1e-16)


@given(RATES, st.floats(0, 0.9999))
def test_what_has_not_faded_of_falls(falls: list[float], momentum: float) -> None:
    sums = [
        sum(fall * momentum ** (i - k) for k, fall in enumerate(falls[: i + 1]))
        for i in range(len(falls))
    ]
    found = fading_sum(np.array(falls), momentum)
    np.testing.assert_allclose(found, sums, rtol=1e-10, atol=1e-16)


def test_steps_may_come_in_any_order_and_more_than_once() -> None:
    base = linear(20, 0.0, 2e-3) + constant(60, 2e-3)
    run = warmup_stable_decay(300, 1e-3, decay_steps=100, warmup_steps=20, start=2e-3)
    wanted = np.array([300, 0, 17, 300, 250, 1])
    areas = continual_areas(base, run, wanted)
    whole = continual_areas(base, run, np.arange(301))
    for momentum in (0.95, 0.999):
        expected = whole.annealing_cpt.evaluate(momentum)[wanted]
        np.testing.assert_allclose(areas.annealing_cpt.evaluate(momentum), expected, rtol=1e-12)


def test_a_base_serves_other_ranges_in_turn() -> None:
    base = linear(20, 0.0, 2e-3) + constant(60, 2e-3) + linear(40, 2e-3, 1e-3)
    wanted = annealing_area(base.learning_rates()[20:], 0.97, 2e-3)[-1]
    for momentum_range in (MomentumRange(0.9, 0.99), MomentumRange(0.95, 0.999)) * 2:
        areas = continual_areas(base, constant(30, 1e-3), [30], momentum_range=momentum_range)
        np.testing.assert_allclose(areas.annealing_pt.evaluate(0.97), wanted, rtol=1e-8)

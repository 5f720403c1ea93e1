import numpy as np
import pytest
from area_values import forward_values, level_values, plain_levels
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import schedules

from bayes_cpt.laws.areas import AreaForm
from bayes_cpt.laws.phase_areas import continual_areas, pretraining_areas
from bayes_cpt.laws.series import Interval
from bayes_cpt.study.schedules import Schedule, constant, linear

PEAK = 2e-3
BASE = linear(20, 0, PEAK) + constant(60, PEAK) + linear(40, PEAK, 1e-3)
RUN = linear(30, 1e-3, 5e-4) + constant(30, 5e-4)


@pytest.mark.parametrize("clock", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("count_warmup", [False, True])
def test_a_run_that_carries_memory_goes_on_as_pretraining(count_warmup: bool, clock: float) -> None:
    form = AreaForm(
        powers=Interval.of_powers(0.1, 1.6),
        reference_rate=PEAK,
        memory_clock=clock,
        count_warmup=count_warmup,
        carry_memory=True,
    )
    areas = continual_areas(BASE, RUN, np.arange(61), form)
    whole = pretraining_areas(BASE + RUN, BASE.steps + np.arange(61), form)
    np.testing.assert_allclose(areas.level_cpt, whole.level_pt, atol=1e-17)
    np.testing.assert_allclose(areas.log_forward, whole.log_forward, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(areas.start_pt, whole.start_pt)
    np.testing.assert_array_equal(areas.learning_rates, whole.learning_rates)
    # What PT did before the transfer is the level there.
    before = pretraining_areas(BASE, [BASE.steps], form).level_pt
    np.testing.assert_allclose(areas.level_pt, np.repeat(before, 61, axis=0), atol=1e-17)


@settings(max_examples=30)
@given(
    schedules(60, 3), schedules(60, 3), st.floats(0, 1.2), st.floats(0.1, 1.6), st.floats(0.1, 2.0),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_areas_are_those_of_plain_loops(
    base: Schedule,
    run: Schedule,
    clock: float,
    power: float,
    shift_power: float,
    count_warmup: bool,
    carry_memory: bool,
) -> None:
    form = AreaForm(
        powers=Interval.of_powers(power, power),
        reference_rate=1e-3,
        memory_clock=clock,
        count_warmup=count_warmup,
        carry_memory=carry_memory,
        shift_powers=Interval.of_powers(shift_power, shift_power),
    )
    areas = continual_areas(base, run, [0, run.steps], form)
    before, rates = base.learning_rates(), run.learning_rates()
    warmup = 0 if count_warmup else base.warmup_steps
    first = 0.0 if count_warmup else float(before[max(warmup - 1, 0)])
    for momentum in (0.9, 0.995):
        counted = before[warmup:]
        levels = plain_levels(counted, momentum, first, (counted / 1e-3) ** clock)
        at_base = levels[-1] if levels.size else first
        start = at_base if carry_memory else float(before[-1])
        end = plain_levels(rates, momentum, start, (rates / 1e-3) ** clock)[-1]
        size = max(base.peak, run.peak)
        np.testing.assert_allclose(
            level_values(areas.level_pt, form, momentum), at_base, rtol=0, atol=1e-8 * size
        )
        np.testing.assert_allclose(
            level_values(areas.level_cpt, form, momentum), [start, end], rtol=0, atol=1e-8 * size
        )
    forward = [sum(before**power), sum(before**power) + sum(rates**power)]
    np.testing.assert_allclose(forward_values(areas.log_forward, form, power), forward, rtol=1e-10)
    shift = [0.0, sum(1e-3 * (rates / 1e-3) ** shift_power)]
    np.testing.assert_allclose(np.exp(areas.log_shift[:, 0]), shift, rtol=1e-10, atol=1e-25)
    np.testing.assert_allclose(areas.paced_steps, [0, sum((rates / 1e-3) ** clock)], rtol=1e-10)
    np.testing.assert_allclose(areas.squared_area, [0, sum(rates**2)], rtol=1e-10)
    np.testing.assert_allclose(areas.start_pt, 1e-3 if count_warmup else first)
    np.testing.assert_allclose(areas.start_cpt, before[-1])


@pytest.mark.parametrize("clock", [0.0, 0.7, 1.0])
def test_what_is_left_of_an_unknown_base_fades_with_the_paced_steps(clock: float) -> None:
    """The level is linear in where it starts: that from 0 and ``eta_0·lambda^paced`` make it up."""
    form = AreaForm(reference_rate=PEAK, memory_clock=clock)
    steps = np.arange(61)
    unknown, known = (continual_areas(base, RUN, steps, form) for base in (None, constant(9, 7e-4)))
    for momentum in (0.93, 0.999):
        found = level_values(unknown.level_cpt, form, momentum)
        found = found + 7e-4 * momentum**unknown.paced_steps
        np.testing.assert_allclose(found, level_values(known.level_cpt, form, momentum), rtol=1e-8)

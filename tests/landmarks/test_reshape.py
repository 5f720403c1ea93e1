import numpy as np
import pytest
from hypothesis import given
from strategies import schedules

from bayes_cpt.landmarks.trials import after_warmup, rewarmed, started_at
from bayes_cpt.study.schedules import Schedule, constant, linear


@given(schedules())
def test_a_rewarmed_run_keeps_its_length_and_reaches_the_peak_after_its_warmup(
    schedule: Schedule,
) -> None:
    run = rewarmed(schedule, 1e-5, 3e-3)
    assert run.steps == schedule.steps
    assert run.peak == pytest.approx(3e-3)
    if 0 < schedule.warmup_steps < schedule.steps:
        assert run.learning_rates()[schedule.warmup_steps - 1] == pytest.approx(3e-3)


@given(schedules())
def test_a_started_run_has_its_own_length_and_no_warmup(schedule: Schedule) -> None:
    run = started_at(schedule, 3e-3)
    assert run.steps == schedule.steps
    assert run.peak == pytest.approx(3e-3)


def test_a_run_without_a_warmup_gets_a_fortieth() -> None:
    for steps, warmup in ((1000, 25), (3, 1)):
        assert rewarmed(linear(steps, 2e-3, 0.0), 0.0, 1e-3).warmup_steps == warmup


def test_a_run_that_only_rises_is_held_at_its_peak() -> None:
    assert after_warmup(linear(50, 0.0, 1e-3)) == constant(50, 1e-3)


def test_the_warmup_of_a_log_is_cut_off() -> None:
    log = Schedule.from_log([1, 2, 3, 4, 5], [1e-4, 2e-4, 3e-4, 2e-4, 1e-4])
    rates = after_warmup(log).learning_rates()
    np.testing.assert_allclose(rates, [2e-4, 1e-4])

import numpy as np
import pytest
from hypothesis import given
from strategies import schedules

from bayes_cpt.landmarks.trials import (
    after_warmup,
    annealed_base,
    held,
    rewarmed,
    rewarmup_steps,
    started_at,
)
from bayes_cpt.study.schedules import Schedule, constant, cosine, linear


@given(schedules())
def test_a_rewarmed_run_keeps_its_length_and_reaches_the_peak_after_its_warmup(
    schedule: Schedule,
) -> None:
    run = rewarmed(schedule, 1e-5, 3e-3)
    assert run.steps == schedule.steps
    assert run.peak == pytest.approx(3e-3)
    if schedule.steps > 1:
        warmup = min(rewarmup_steps(schedule), schedule.steps - 1)
        assert run.learning_rates()[warmup - 1] == pytest.approx(3e-3)


@given(schedules())
def test_a_started_run_has_its_own_length_and_no_warmup(schedule: Schedule) -> None:
    run = started_at(schedule, 3e-3)
    assert run.steps == schedule.steps
    assert run.peak == pytest.approx(3e-3)


def test_shapes_and_lengths_of_a_warmed_up_cosine() -> None:
    schedule = cosine(1000, 2e-3, warmup_steps=100)
    assert after_warmup(schedule) == cosine(900, 2e-3)
    assert rewarmed(schedule, 5e-4, 1e-3) == linear(100, 5e-4, 1e-3) + cosine(900, 1e-3)
    assert started_at(schedule, 1e-3) == cosine(1000, 1e-3)
    assert held(schedule, 3000) == linear(100, 0.0, 2e-3) + constant(2900, 2e-3)
    assert held(schedule, 60).steps == 60
    assert held(after_warmup(schedule), 50) == constant(50, 2e-3)


def test_a_run_without_a_warmup_gets_a_fortieth() -> None:
    assert rewarmup_steps(linear(1000, 2e-3, 0.0)) == 25
    assert rewarmup_steps(linear(3, 2e-3, 0.0)) == 1


def test_a_run_that_only_rises_is_held_at_its_peak() -> None:
    assert after_warmup(linear(50, 0.0, 1e-3)) == constant(50, 1e-3)


def test_the_warmup_of_a_log_is_cut_off() -> None:
    log = Schedule.from_log([1, 2, 3, 4, 5], [1e-4, 2e-4, 3e-4, 2e-4, 1e-4])
    rates = after_warmup(log).learning_rates()
    np.testing.assert_allclose(rates, [2e-4, 1e-4])


@pytest.mark.parametrize("potential", [0.0, 0.3, 1.0])
def test_an_annealed_base_falls_over_its_last_fifth(potential: float) -> None:
    base = annealed_base(linear(100, 0.0, 2e-3) + cosine(900, 2e-3), potential)
    assert base.warmup_steps == 100
    rates = base.learning_rates()
    np.testing.assert_allclose(rates[100:800], 2e-3)
    np.testing.assert_allclose(rates[899], 2e-3 * (1 + potential) / 2)
    assert base.final == pytest.approx(potential * 2e-3)
    assert base.steps == 1000

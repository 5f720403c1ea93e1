import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import schedules, segments

from bayes_cpt.errors import StudyError
from bayes_cpt.study.schedules import (
    Schedule,
    Segment,
    constant,
    cosine,
    linear,
    warmup_stable_decay,
)


@pytest.mark.parametrize(
    ("shape", "at_quarter"),
    [
        ("linear", 8e-4 - 6e-4 / 4),
        ("cosine", 2e-4 + 6e-4 * (1 + math.sqrt(0.5)) / 2),
        ("one_minus_sqrt", 8e-4 - 6e-4 / 2),
        ("exponential", 8e-4 / math.sqrt(2)),
    ],
)
def test_shape_at_a_quarter_and_at_the_end(shape: str, at_quarter: float) -> None:
    rates = Segment(shape, 8, 8e-4, 2e-4).learning_rates()
    assert rates.shape == (8,)
    assert rates[1] == pytest.approx(at_quarter, rel=1e-14)
    assert rates[-1] == 2e-4


@given(segments())
def test_segments_stay_between_their_ends_and_move_one_way(segment: Segment) -> None:
    rates = segment.learning_rates()
    low, high = sorted((segment.start, segment.end))
    assert rates.size == segment.steps
    assert rates[-1] == segment.end
    assert np.all((rates >= low - 1e-17) & (rates <= high + 1e-17))
    assert np.all(np.diff(rates) * (segment.end - segment.start) >= -1e-20)


@given(schedules(), schedules())
def test_addition_is_concatenation(first: Schedule, second: Schedule) -> None:
    both = first + second
    assert both.steps == first.steps + second.steps
    expected = np.concatenate([first.learning_rates(), second.learning_rates()])
    np.testing.assert_array_equal(both.learning_rates(), expected)
    assert both.peak >= expected.max()
    assert both.final == second.final


@given(schedules())
def test_toml_round_trip(schedule: Schedule) -> None:
    again = Schedule.from_toml(schedule.to_toml())
    assert again == schedule
    assert hash(again) == hash(schedule)
    assert pickle.loads(pickle.dumps(schedule)) == schedule


@given(schedules(), st.floats(0.01, 100))
def test_scaling_scales_every_rate(schedule: Schedule, factor: float) -> None:
    # Near 0 a rate is a difference of numbers as large as the peak.
    np.testing.assert_allclose(
        schedule.scaled(factor).learning_rates(),
        schedule.learning_rates() * factor,
        rtol=1e-12,
        atol=1e-15 * factor * schedule.peak,
    )


@given(schedules(), st.data())
def test_first_steps_are_those_of_the_whole(schedule: Schedule, data: st.DataObject) -> None:
    steps = data.draw(st.integers(1, schedule.steps))
    first = schedule.first(steps)
    assert first.steps == steps
    np.testing.assert_array_equal(first.learning_rates(), schedule.learning_rates()[:steps])
    assert schedule.first(schedule.segments[0].steps) == Schedule(schedule.segments[:1])


def test_peak_is_what_a_decay_starts_from() -> None:
    assert cosine(10, 2e-3).peak == 2e-3
    assert (linear(10, 1e-3, 3e-3) + constant(5, 1e-3)).peak == 3e-3
    assert Schedule.from_log([1, 2], [1e-3, 2e-3]).peak == 2e-3


@pytest.mark.parametrize(
    ("change", "values", "fix"),
    [
        (Schedule.first, [-1, 0, 16, 2.0, True], "Ask for 1 to 15"),
        (Schedule.stretched, [0, -3, 2.5, True], "Ask for at least 1"),
        (Schedule.scaled, [0.0, -1.0, math.inf, math.nan], "Scale by a positive number"),
    ],
)
def test_impossible_changes_are_refused(change: Any, values: list[float], fix: str) -> None:
    for value in values:
        with pytest.raises(StudyError, match=fix):
            change(constant(15, 1e-3), value)


@pytest.mark.parametrize(
    ("schedule", "warmup_steps"),
    [
        (constant(10, 1e-3), 0),
        (linear(3, 0, 1e-3) + constant(10, 1e-3), 3),
        (linear(3, 0, 1e-4) + linear(4, 1e-4, 1e-3) + cosine(9, 1e-3), 7),
        (linear(3, 2e-3, 1e-3) + linear(5, 1e-3, 2e-3), 0),
        (constant(3, 1e-3) + linear(5, 1e-3, 2e-3), 0),
        (Schedule.from_log([1, 2, 3, 4, 5], [1e-4, 2e-4, 3e-4, 3e-4, 1e-4]), 3),
        (Schedule.from_log([1, 2, 3], [3e-4, 2e-4, 3e-4]), 0),
    ],
)
def test_warmup_is_the_leading_rise(schedule: Schedule, warmup_steps: int) -> None:
    assert schedule.warmup_steps == warmup_steps


def test_log_of_every_step_has_the_warmup_of_its_segments() -> None:
    schedule = linear(300, 0, 2e-3) + constant(50, 2e-3) + cosine(100, 2e-3)
    log = Schedule.from_log(np.arange(1, 451), schedule.learning_rates())
    assert log.warmup_steps == schedule.warmup_steps
    assert log.interpolated_steps == 0
    np.testing.assert_array_equal(log.learning_rates(), schedule.learning_rates())


def test_gaps_of_a_log_are_interpolated_and_counted() -> None:
    log = Schedule.from_log([2, 4, 7], [1e-3, 3e-3, 0.0], total_steps=9)
    assert log.learning_rates() == pytest.approx(
        [1e-3, 1e-3, 2e-3, 3e-3, 2e-3, 1e-3, 0.0, 0.0, 0.0], abs=1e-18
    )
    assert log.interpolated_steps == 6
    assert log.is_logged
    assert (log + constant(3, 1e-4)).interpolated_steps == 6


@given(schedules(), st.integers(1, 3000))
def test_a_stretched_schedule_has_the_steps_asked_for_and_ends_as_before(
    schedule: Schedule, steps: int
) -> None:
    stretched = schedule.stretched(steps)
    assert stretched.steps == steps
    assert stretched.final == schedule.final
    assert stretched.peak <= schedule.peak
    assert schedule.stretched(schedule.steps) == schedule


def test_stretching_keeps_the_course_over_the_share_done() -> None:
    schedule = linear(30, 0.0, 2e-3) + cosine(270, 2e-3)
    rates = schedule.stretched(1200).learning_rates()
    np.testing.assert_allclose(rates[3::4], schedule.learning_rates(), rtol=1e-12, atol=1e-18)


def test_a_stretched_log_is_interpolated() -> None:
    rates = Schedule.from_log([1, 2, 3], [1e-3, 2e-3, 1e-3]).stretched(6).learning_rates()
    np.testing.assert_allclose(rates, [1e-3, 1e-3, 1.5e-3, 2e-3, 1.5e-3, 1e-3])


def test_builders_rewarm_from_the_base() -> None:
    schedule = cosine(1000, 2e-3, 2e-4, warmup_steps=100, start=5e-4)
    assert schedule == linear(100, 5e-4, 2e-3) + cosine(900, 2e-3, 2e-4)
    wsd = warmup_stable_decay(1000, 2e-3, decay_steps=200, warmup_steps=100, start=5e-4)
    assert wsd == linear(100, 5e-4, 2e-3) + constant(700, 2e-3) + linear(200, 2e-3, 0.0)
    assert wsd.steps == 1000


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: constant(10, 10**400), "Give a raw learning rate"),
        (lambda: warmup_stable_decay(9, 2e-3, decay_steps=9, warmup_steps=5), "steps is -5"),
        (lambda: Schedule.from_log([1, 2], [1e-3, 1e-3]).to_toml(), "lr_log = true"),
        (lambda: Schedule.from_log([], []), "at least one"),
        (lambda: Schedule.from_log([1, 2], [1e-3]), "one learning rate per logged step"),
        (lambda: Schedule.from_log([1, 1], [1e-3, 1e-3]), "step 1: it follows the same"),
        (lambda: Schedule.from_log([2, 1], [1e-3, 1e-3]), "in rising order"),
        (lambda: Schedule.from_log([0, 1], [1e-3, 1e-3]), "Count steps from 1"),
        (
            lambda: Schedule.from_log([1, 2], [1e-3, -1e-3]),
            "step 2: its learning rate is not a finite number",
        ),
        (lambda: Schedule.from_log([1, 2], [1e-3, math.nan]), "finite"),
    ],
)
def test_what_is_no_schedule_is_refused(build: Callable[[], object], message: str) -> None:
    with pytest.raises(StudyError, match=message):
        build()

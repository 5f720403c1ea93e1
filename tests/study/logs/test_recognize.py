from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_cpt.study.logs.recognize import TOLERANCE, coarse_decimals, recognize
from bayes_cpt.study.schedules import (
    Schedule,
    Segment,
    constant,
    cosine,
    linear,
    warmup_stable_decay,
)

SCHEDULES = {
    "constant": constant(500, 1e-3),
    "cosine": cosine(3000, 2e-3, warmup_steps=300),
    "cosine to a tenth": cosine(3000, 2e-3, 2e-4, warmup_steps=137),
    "wsd, linear": warmup_stable_decay(3000, 2e-3, decay_steps=600, warmup_steps=95),
    "wsd, 1 - sqrt": warmup_stable_decay(
        3000, 2e-3, decay_steps=600, warmup_steps=95, decay_shape="one_minus_sqrt"
    ),
    "wsd, cosine": warmup_stable_decay(
        3000, 2e-3, decay_steps=600, warmup_steps=95, decay_shape="cosine"
    ),
    "wsd, exponential": warmup_stable_decay(
        3000, 2e-3, 2e-5, decay_steps=600, warmup_steps=95, decay_shape="exponential"
    ),
    "OneCycle": Schedule((Segment("cosine", 900, 1e-4, 2e-3), Segment("cosine", 2100, 2e-3, 1e-6))),
    "cosine, then held": cosine(2000, 2e-3, 2e-4, warmup_steps=100) + constant(1000, 2e-4),
    "two lines": linear(200, 1e-3, 5e-4) + linear(1800, 5e-4, 0),
    "re-warmed": linear(100, 2e-4, 1e-3) + Schedule((Segment("one_minus_sqrt", 2900, 1e-3, 0),)),
}


@pytest.mark.parametrize("every", [1, 7, 10])
@pytest.mark.parametrize("name", SCHEDULES)
def test_usual_schedules_are_recognised_however_sparsely_logged(name: str, every: int) -> None:
    schedule = SCHEDULES[name]
    steps = np.arange(every, schedule.steps + 1, every)
    logged = schedule.learning_rates()[steps - 1]
    found = recognize(steps.tolist(), logged.tolist(), schedule.steps)[0]
    assert not found.is_logged
    assert coarse_decimals(logged, found) is None
    np.testing.assert_allclose(
        found.learning_rates(), schedule.learning_rates(), rtol=0, atol=TOLERANCE * schedule.peak
    )


@pytest.mark.parametrize(("peak", "end", "most"), [(2e-5, 0, 5), (1e-4, 1e-5, 4), (9e-4, 1e-4, 4)])
def test_rates_of_too_few_digits_are_told(peak: float, end: float, most: int) -> None:
    steps = np.arange(10, 1001, 10)
    rates = cosine(1000, peak, end, warmup_steps=100).learning_rates()[steps - 1]
    for printed in range(3, 10):
        seen = np.round(rates, printed)
        if seen.any():
            found = recognize(steps.tolist(), seen.tolist(), 1000)[0]
            assert coarse_decimals(seen, found) == (printed if printed <= most else None)


def test_a_trainer_that_counts_from_0_is_one_step_late_and_that_is_said() -> None:
    """torch's LambdaLR: the first step is at the rate of step 0."""
    schedule = cosine(300, 3e-3, warmup_steps=20)
    rates = np.r_[0.0, schedule.learning_rates()[:-1]]
    found, notes = recognize(range(1, 301), rates.tolist(), 300)
    assert found == schedule
    assert any("one step earlier" in note for note in notes)


@pytest.mark.parametrize(("later", "every"), [(0, 10), (0, 250), (1, 250)])
def test_a_trainer_that_logs_the_rate_of_the_step_to_come(later: int, every: int) -> None:
    """A loop that logs after scheduler.step(), and nanoGPT, whose shape ends a step after its run."""
    steps, warm, end = np.arange(0, 3001, every), 300 + later, 6000 + later
    share = np.arange(1, 6001) - warm
    falls = 1e-4 + 0.5 * (1 + np.cos(np.pi * share / (end - warm))) * 9e-4
    rates = np.where(share < 0, 1e-3 * (share + warm) / warm, falls)
    found, notes = recognize(steps.tolist(), rates[steps].tolist(), 6000)
    np.testing.assert_allclose(found.learning_rates()[:6000], rates, rtol=0, atol=1e-8)
    assert any("one step later" in note for note in notes)


@pytest.mark.parametrize("digits", [5, 12])
@pytest.mark.parametrize("after", [0, 500])
def test_a_peak_that_is_held_for_a_step(after: int, digits: int) -> None:
    """build-nanogpt and llm.c warm up to the peak one step before the cosine begins."""
    falls = Schedule((Segment("cosine", 1924, 6e-4, 6e-5),))
    schedule = linear(76, 0.0, 6e-4) + constant(1, 6e-4) + falls + constant(max(after, 1), 6e-5)
    # That the end is one step after the log says that the trainer counts from 0.
    late, steps = (0, 2001 + after) if after else (1, 2000)
    rates = schedule.learning_rates()[:steps]
    printed = [float(f"{rate:.{digits - 1}e}") for rate in rates]
    found = recognize(range(1, steps + 1), printed, steps)[0]
    assert not found.is_logged
    np.testing.assert_allclose(found.learning_rates()[: steps - late], rates[late:], atol=1e-8)


def test_single_precision_is_precise_enough() -> None:
    logged = SCHEDULES["wsd, 1 - sqrt"].learning_rates().astype(np.float32).tolist()
    found = recognize(range(1, 3001), logged, 3000)[0]
    assert [segment.steps for segment in found.segments] == [95, 2305, 600]


def test_what_follows_no_shape_stays_a_log() -> None:
    rates = 1e-3 * (1.0 + 0.1 * np.sin(np.arange(1, 101)))
    found, notes = recognize(range(2, 201, 2), rates.tolist(), 204)
    assert found.is_logged
    np.testing.assert_array_equal(found.learning_rates()[1:200:2], rates)
    said = " ".join(notes)
    assert "kept as a log" in said
    assert found.interpolated_steps == 104
    assert "after step 200 no learning rate is logged" in said


@pytest.mark.parametrize(("late", "end"), [(linear, 1000), (cosine, 800)])
def test_only_a_straight_decay_goes_on_after_what_has_no_shape(late: Any, end: int) -> None:
    rates = np.r_[np.sin(range(600)) + 2.0, late(400, 0.5, 0.0).learning_rates()]
    found = recognize(range(10, 801, 10), rates[9:800:10].tolist(), 1000)[0]
    assert found.final == pytest.approx(rates[end - 1], abs=1e-9)


@pytest.mark.parametrize("skipped", [10, 110])
def test_steps_that_fp16_skips_leave_a_schedule_that_is_named(skipped: int) -> None:
    """The Trainer's rates stay where they are for two steps: none is exactly of a shape any more."""
    steps = np.arange(5, 4001, 5)
    late = np.where(steps > skipped, steps - 2, steps)
    rates = cosine(8000, 5e-5).learning_rates()[late - 1]
    found, notes = recognize(steps.tolist(), rates.tolist(), 8000)
    said = "then cosine 5e-05 to 0 over 79"
    assert found.is_logged
    np.testing.assert_array_equal(found.learning_rates()[steps - 1], rates)
    to_come = 2.5e-5 * (1 + np.cos(np.pi * (np.arange(4001, 8001) - 2) / 8000))
    np.testing.assert_allclose(found.learning_rates()[4000:], to_come, rtol=0, atol=1e-3 * 5e-5)
    assert "it is taken to go on as cosine to 0" in notes[-1]
    assert any("kept as a log" in note for note in notes)
    assert any(said in note and "--schedule" in note for note in notes)


def test_a_jump_between_two_logged_steps_is_said() -> None:
    found, notes = recognize(range(10, 201, 10), [1e-3] * 10 + [1e-4] * 10, 200)
    assert [segment.highest for segment in found.segments] == [1e-3, 1e-4]
    assert any("leaves open where between steps 100 and 110" in note for note in notes)


def test_a_run_that_is_still_going_has_its_whole_schedule() -> None:
    schedule = cosine(1000, 1e-3, warmup_steps=50)
    steps = np.arange(5, 401, 5)
    found = recognize(steps.tolist(), schedule.learning_rates()[steps - 1].tolist(), 1000)[0]
    np.testing.assert_allclose(found.learning_rates(), schedule.learning_rates(), atol=1e-9)


@given(
    warmup=st.integers(2, 60),
    steps=st.integers(200, 500),
    peak=st.floats(1e-5, 1e-2),
    end=st.floats(0.0, 0.5),
    shape=st.sampled_from(["linear", "one_minus_sqrt"]),
)
def test_what_is_recognised_is_what_was_logged(
    warmup: int, steps: int, peak: float, end: float, shape: str
) -> None:
    schedule = warmup_stable_decay(
        steps, peak, end * peak, decay_steps=80, warmup_steps=warmup, decay_shape=shape
    )
    logged = schedule.learning_rates()
    found, _ = recognize(range(1, steps + 1), logged.tolist(), steps)
    np.testing.assert_allclose(found.learning_rates(), logged, rtol=0, atol=2 * TOLERANCE * peak)


@pytest.mark.parametrize("late", [0, 1])
@pytest.mark.parametrize("digits", [3, 4])
@pytest.mark.parametrize(("every", "warmup"), [(1, 20), (10, 13), (25, 20)])
@pytest.mark.parametrize(
    "decay",
    [
        *(linear(600, 3e-4, 0.0), cosine(600, 3e-4, 3e-5), cosine(600, 3e-4), constant(600, 3e-4)),
        *(
            warmup_stable_decay(2500, 3e-4, end, decay_steps=500, decay_shape=shape)
            for shape, end in (("cosine", 0.0), ("linear", 0.0), ("linear", 1.5e-5))
        ),
    ],
)
def test_printed_rates_follow_a_shape_to_their_digits(
    decay: Schedule, every: int, warmup: int, digits: int, late: int
) -> None:
    schedule = linear(warmup, 0.0, 3e-4) + decay if warmup else decay
    rates = schedule.learning_rates()
    steps = np.arange(every, schedule.steps + 1, every)
    printed = [float(f"{rate:.{digits - 1}e}") for rate in np.r_[0.0, rates][steps - late]]
    found = recognize(steps.tolist(), printed, schedule.steps)[0]
    assert not found.is_logged
    # What is before the first logged step is not known.
    seen = slice(every, None)
    np.testing.assert_allclose(found.learning_rates()[seen], rates[seen], rtol=0, atol=0.02 * 3e-4)

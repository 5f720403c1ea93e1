"""Ends of many schedules at once against `bayes_cpt.laws.phase_areas`, which runs along every one."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from area_values import annealing_area, forward_values, level_values
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bayes_cpt.laws.areas import AreaForm
from bayes_cpt.laws.phase_areas import continual_areas, transfer_state
from bayes_cpt.laws.schedule_ends import DECAYS, Ends, ScheduleBatch
from bayes_cpt.laws.series import Interval
from bayes_cpt.study.schedules import constant, linear

PEAK = 2e-3
BASE = linear(50, 0.0, PEAK) + constant(1000, PEAK) + linear(300, PEAK, 0.5 * PEAK)


def random_batch(count: int, seed: int = 0, longest: int = 3000) -> ScheduleBatch:
    """Return schedules of all shapes and lengths, with and without warm-up, plateau and decay."""
    generator = np.random.default_rng(seed)
    steps = generator.integers(1, longest, count)
    warmup = (steps * generator.choice([0.0, 0.02, 0.3, 1.0], count)).astype(np.int64)
    decay = ((steps - warmup) * generator.choice([0.0, 0.2, 1.0], count)).astype(np.int64)
    peak = PEAK * generator.uniform(0.01, 2.0, count)
    shape = generator.integers(0, len(DECAYS), count)
    to_0 = (generator.uniform(size=count) < 0.3) & (shape != DECAYS.index("exponential"))
    return ScheduleBatch(
        initial=np.array([0.0, 0.3 * PEAK, PEAK])[generator.integers(0, 3, count)],
        peak=peak,
        final=np.where(to_0, 0.0, peak * generator.choice([1e-3, 0.1, 1.0], count)),
        warmup_steps=warmup,
        decay_steps=decay,
        steps=steps,
        shape=shape,
    )


def decays(steps: int, final: float, shape: str) -> ScheduleBatch:
    """Return one schedule that decays from its first step."""
    return ScheduleBatch(
        initial=np.array([PEAK]),
        peak=np.array([PEAK]),
        final=np.array([final]),
        warmup_steps=np.array([0]),
        decay_steps=np.array([steps]),
        steps=np.array([steps]),
        shape=np.array([DECAYS.index(shape)]),
    )


def own_ends(batch: ScheduleBatch, form: AreaForm) -> Ends:
    """Return the ends of schedules that nothing came before, from a level at their initial rate."""
    levels = np.repeat(batch.initial[:, None], form.momenta.nodes, axis=1)
    return batch.ends(form, levels, np.zeros((batch.steps.size, form.powers.nodes)))


def annealing(batch: ScheduleBatch, momentum: float) -> NDArray[np.float64]:
    """Return S2 after the last step of each schedule."""
    form = AreaForm(Interval.of_momenta(momentum, momentum))
    level = level_values(own_ends(batch, form).level, form, momentum)
    return np.asarray((batch.initial - level) / (1.0 - momentum))


@pytest.mark.parametrize(
    ("carry_memory", "count_warmup", "clock"),
    [*product([False, True], [False, True], [0.0, 0.7]), (True, True, 1.0), (False, True, 1.3)],
)
def test_ends_are_those_of_whole_runs(carry_memory: bool, count_warmup: bool, clock: float) -> None:
    """On a base that is annealed half-way, at every momentum and forward power."""
    form = AreaForm(
        momenta=Interval.of_momenta(0.5, 0.9999),
        powers=Interval.of_powers(0.1, 1.6),
        reference_rate=0.7 * PEAK,
        memory_clock=clock,
        count_warmup=count_warmup,
        carry_memory=carry_memory,
        shift_powers=Interval.of_powers(0.3, 2.5),
    )
    count = 60
    batch = replace(random_batch(count, seed=3), initial=np.full(count, BASE.final))
    state = transfer_state(BASE, form)
    initial = state.initial_levels(carried=carry_memory)
    levels, forward = (np.repeat(own[None], count, axis=0) for own in (initial, state.forward))
    ends = batch.ends(form, levels, forward)
    for i in range(count):
        schedule = batch.schedule(i)
        areas = continual_areas(BASE, schedule, [schedule.steps], form)
        np.testing.assert_allclose(ends.forward[i], schedule.learning_rates().sum(), rtol=1e-9)
        np.testing.assert_allclose(ends.log_shift[i], areas.log_shift[0], rtol=0, atol=1e-9)
        for own in ("paced_steps", "squared_area"):
            np.testing.assert_allclose(getattr(ends, own)[i], getattr(areas, own)[0], rtol=1e-9)
        for power in (0.1, 0.65, 1.0, 1.6):
            found, wanted = (
                forward_values(own, form, power)[0]
                for own in (ends.log_forward[[i]], areas.log_forward)
            )
            assert found == pytest.approx(wanted, rel=1e-9)
        # Relative to what the level runs through: near 0 it is a difference of such numbers.
        size = max(BASE.peak, schedule.peak)
        momenta = np.array([0.5, 0.9, 0.993, 0.9999])
        found, wanted = (
            level_values(own, form, momenta) for own in (ends.level[[i]], areas.level_cpt)
        )
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9 * size)


@given(st.integers(1, 50), st.floats(0.2, 0.999), st.sampled_from(DECAYS))
def test_short_decays(steps: int, momentum: float, shape: str) -> None:
    batch = decays(steps, 0.07 * PEAK, shape)
    rates = batch.schedule(0).learning_rates()
    assert own_ends(batch, AreaForm()).forward[0] == pytest.approx(rates.sum(), rel=1e-12)
    wanted = annealing_area(rates, momentum, PEAK)[-1]
    assert annealing(batch, momentum)[0] == pytest.approx(wanted, rel=1e-9)


def test_an_exponential_decay_at_the_pace_of_the_memory() -> None:
    steps, momentum = 40, 0.9
    batch = decays(steps, PEAK * momentum**steps, "exponential")
    # Each step adds as much of its own rate as is left of all before: closed form.
    level = PEAK * momentum**steps * (1.0 + steps * (1.0 - momentum))
    wanted = (PEAK - level) / (1.0 - momentum)
    assert annealing(batch, momentum)[0] == pytest.approx(wanted, rel=1e-9)


def test_one_schedule_stands_for_all_that_are_like_it() -> None:
    several = random_batch(5, seed=4).take(np.array([0, 1, 0, 4, 1, 0]))
    first, place = several.distinct()
    assert len(first) == 3
    for name, values in vars(several).items():
        np.testing.assert_array_equal(getattr(several.take(first), name)[place], values)

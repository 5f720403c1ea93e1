"""Closed forms against `bayes_cpt.laws.areas`, which runs along every schedule."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_cpt.laws.areas import (
    MomentumRange,
    annealing_area,
    annealing_memory,
    continual_areas,
    forward_area,
)
from bayes_cpt.laws.closed_areas import DECAYS, ScheduleBatch
from bayes_cpt.study.schedules import constant, linear

RANGE = MomentumRange(0.9, 0.9999)
PEAK = 2e-3
CLOSE = 1e-8


def random_batch(count: int, seed: int = 0, longest: int = 3000) -> ScheduleBatch:
    """Return schedules of all shapes and lengths, with and without warm-up, plateau and decay."""
    generator = np.random.default_rng(seed)
    steps = generator.integers(1, longest, count)
    warmup = (steps * generator.choice([0.0, 0.02, 0.3, 1.0], count)).astype(np.int64)
    decay = ((steps - warmup) * generator.choice([0.0, 0.2, 1.0], count)).astype(np.int64)
    peak = PEAK * generator.uniform(0.01, 2.0, count)
    return ScheduleBatch(
        initial=np.array([0.0, 0.3 * PEAK, PEAK])[generator.integers(0, 3, count)],
        peak=peak,
        final=peak * generator.choice([1e-3, 0.1, 1.0], count),
        warmup_steps=warmup,
        decay_steps=decay,
        steps=steps,
        shape=generator.integers(0, len(DECAYS), count),
    )


def scale(batch: ScheduleBatch, momentum: float) -> np.ndarray:
    """Return the size that S2 may have: what errors are measured against."""
    memory = np.minimum(1.0 / (1.0 - momentum), batch.steps)
    return np.maximum(batch.initial, batch.peak) * memory


def test_forward_areas_are_the_sums_of_the_schedules() -> None:
    batch = random_batch(300)
    wanted = [forward_area(batch.schedule(i).learning_rates())[-1] for i in range(batch.steps.size)]
    np.testing.assert_allclose(batch.forward_area(), wanted, rtol=1e-12)


@pytest.mark.parametrize("momentum", [0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999])
def test_annealing_areas_are_those_of_the_recursion(momentum: float) -> None:
    batch = random_batch(300, seed=1)
    wanted = [
        annealing_area(batch.schedule(i).learning_rates(), momentum, float(batch.initial[i]))[-1]
        for i in range(batch.steps.size)
    ]
    errors = np.abs(batch.annealing_area(momentum) - wanted)
    assert (errors <= CLOSE * scale(batch, momentum)).all()


def test_last_rates_are_those_of_the_schedules() -> None:
    batch = random_batch(100, seed=2)
    wanted = [batch.schedule(i).final for i in range(batch.steps.size)]
    np.testing.assert_allclose(batch.last_rate, wanted, rtol=1e-12)


@pytest.mark.parametrize("carry_memory", [False, True])
def test_series_in_the_momentum_are_those_of_whole_runs(carry_memory: bool) -> None:
    """On a base that is annealed half-way, over the whole range of momenta."""
    anneal = linear(300, PEAK, 0.5 * PEAK)
    base = linear(50, 0.0, PEAK) + constant(1000, PEAK) + anneal
    batch = random_batch(60, seed=3)
    batch = ScheduleBatch(**{**vars(batch), "initial": np.full(60, base.final)})
    after_warmup = base.learning_rates()[50:]
    memories = [annealing_memory(after_warmup, float(m), PEAK) for m in RANGE.node_momenta()]
    series = batch.annealing_series(RANGE, memories if carry_memory else 0.0)
    momenta = np.array([0.9, 0.95, 0.993, 0.9995, 0.9999])
    found = series.evaluate(momenta)
    for i in range(batch.steps.size):
        schedule = batch.schedule(i)
        areas = continual_areas(
            base,
            schedule,
            [schedule.steps],
            carry_memory=carry_memory,
            momentum_range=MomentumRange(0.89, 0.99995),
        )
        wanted = areas.annealing_cpt.evaluate(momenta)[:, 0]
        size = [scale(batch, momentum)[i] for momentum in momenta]
        assert (np.abs(found[:, i] - wanted) <= CLOSE * np.array(size)).all()


@given(st.integers(1, 50), st.floats(0.2, 0.999), st.sampled_from(DECAYS))
def test_short_decays(steps: int, momentum: float, shape: str) -> None:
    batch = ScheduleBatch(
        initial=np.array([PEAK]),
        peak=np.array([PEAK]),
        final=np.array([0.07 * PEAK]),
        warmup_steps=np.array([0]),
        decay_steps=np.array([steps]),
        steps=np.array([steps]),
        shape=np.array([DECAYS.index(shape)]),
    )
    rates = batch.schedule(0).learning_rates()
    assert batch.forward_area()[0] == pytest.approx(rates.sum(), rel=1e-12)
    wanted = annealing_area(rates, momentum, PEAK)[-1]
    assert batch.annealing_area(momentum)[0] == pytest.approx(wanted, rel=1e-9)


def test_an_exponential_decay_at_the_pace_of_the_memory() -> None:
    steps, momentum = 40, 0.9
    batch = ScheduleBatch(
        initial=np.array([PEAK]),
        peak=np.array([PEAK]),
        final=np.array([PEAK * momentum**steps]),
        warmup_steps=np.array([0]),
        decay_steps=np.array([steps]),
        steps=np.array([steps]),
        shape=np.array([DECAYS.index("exponential")]),
    )
    wanted = annealing_area(batch.schedule(0).learning_rates(), momentum, PEAK)[-1]
    assert batch.annealing_area(momentum)[0] == pytest.approx(wanted, rel=1e-9)


def test_areas_are_linear_in_the_learning_rate() -> None:
    batch = random_batch(50, seed=4)
    rates = {name: 3.0 * vars(batch)[name] for name in ("initial", "peak", "final")}
    larger = ScheduleBatch(**{**vars(batch), **rates})
    np.testing.assert_allclose(larger.forward_area(), 3.0 * batch.forward_area())
    found, once = larger.annealing_area(0.995), batch.annealing_area(0.995)
    np.testing.assert_allclose(found, 3.0 * once, atol=1e-12)

"""Sums by panels against sums over every step, and the ends of schedules against runs along them."""

import numpy as np
import pytest

from bayes_cpt.laws.areas import AreaForm
from bayes_cpt.laws.phase_areas import continual_areas, transfer_state
from bayes_cpt.laws.schedule_ends import DECAYS, NODES, ScheduleBatch, panels
from bayes_cpt.laws.series import MomentumRange, PowerRange
from bayes_cpt.study.schedules import Schedule

BASE = Schedule.from_log([1, 100, 3000], [1e-5, 2e-3, 1e-4])
COUNT = 24
SHIFT = PowerRange(0.3, 2.0)


def batch(seed: int) -> ScheduleBatch:
    generator = np.random.default_rng(seed)
    steps = generator.integers(1, 9000, COUNT)
    warmup = (generator.uniform(0.0, 0.3, COUNT) * steps).astype(np.int64)
    decay = (generator.uniform(0.0, 1.0, COUNT) * (steps - warmup)).astype(np.int64)
    peak = 10.0 ** generator.uniform(-4.0, -2.5, COUNT)
    shape = np.arange(COUNT) % len(DECAYS)
    final = peak * np.where(
        shape == DECAYS.index("exponential"), 1e-3, generator.choice([0.0, 0.1], COUNT)
    )
    return ScheduleBatch(np.full(COUNT, BASE.final), peak, final, warmup, decay, steps, shape)


def test_a_panel_sums_polynomials_exactly_and_up_to_each_node() -> None:
    own = panels()
    for steps, nodes, weights, sums_to in zip(
        own.steps, own.nodes, own.weights, own.sums_to, strict=True
    ):
        every = np.arange(1.0, steps + 1.0)
        for degree in range(2 * NODES):
            whole = np.sum((every / steps) ** degree)
            assert weights @ (nodes / steps) ** degree == pytest.approx(whole, rel=1e-11)
        # Sums of i and of i^2 up to n, for n that is no step.
        np.testing.assert_allclose(sums_to @ nodes, nodes * (nodes + 1) / 2, rtol=1e-10)
        cubic = nodes * (nodes + 1) * (2 * nodes + 1) / 6
        # Rounding errors are those of the largest sum.
        np.testing.assert_allclose(sums_to @ nodes**2, cubic, rtol=1e-11, atol=1e-14 * cubic[-1])


@pytest.mark.parametrize(
    "form",
    [
        AreaForm(),
        AreaForm(MomentumRange(0.5, 0.9995), PowerRange(0.2, 1.5), 2e-3, 0.7, True, True, SHIFT),
        AreaForm(MomentumRange(0.98, 0.996), PowerRange(0.5, 0.9), 2e-3, 1.5),
    ],
    ids=["printed", "all options", "steep clock"],
)
def test_ends_are_those_of_runs_along_every_step(form: AreaForm) -> None:
    schedules, start = batch(1), transfer_state(BASE, form)
    levels, forward = start.initial_levels(carried=form.carry_memory), start.forward
    ends = schedules.ends(form, np.tile(levels, (COUNT, 1)), np.tile(forward, (COUNT, 1)))
    interval = form.momenta.interval
    for row in range(COUNT):
        schedule = schedules.schedule(row)
        last = continual_areas(BASE, schedule, [schedule.steps], form)
        level, wanted = interval.values(ends.level[row]), interval.values(last.level_cpt[0])
        np.testing.assert_allclose(level, wanted, rtol=0, atol=1e-8 * schedule.peak)
        np.testing.assert_allclose(ends.log_forward[row], last.log_forward[0], rtol=0, atol=1e-10)
        np.testing.assert_allclose(ends.log_shift[row], last.log_shift[0], rtol=0, atol=1e-10)
        assert ends.forward[row] == pytest.approx(schedule.learning_rates().sum(), rel=1e-10)
        assert ends.paced_steps[row] == pytest.approx(last.paced_steps[0], rel=1e-10)

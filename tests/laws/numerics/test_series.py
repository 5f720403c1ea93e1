"""Series in lambda and rho, over the ranges that priors allow, against areas of each number itself."""

import math

import numpy as np
import pytest
from area_values import level_values, plain_levels
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from strategies import segments

from bayes_cpt.laws.areas import AreaForm
from bayes_cpt.laws.phase_areas import continual_areas
from bayes_cpt.laws.series import Interval
from bayes_cpt.study.schedules import (
    Schedule,
    Segment,
    constant,
    cosine,
    linear,
    warmup_stable_decay,
)

PEAK = 1e-3
MOMENTA = Interval.of_momenta(0.5, 0.9999)
POWERS = Interval.of_powers(0.1, 1.6)
SCHEDULES = {
    "constant": constant(100_000, PEAK),
    "linear to 0": linear(100_000, PEAK, 0.0),
    "cosine to 0": cosine(100_000, PEAK, warmup_steps=2000),
    "cosine to a tenth": cosine(60_000, PEAK, 0.1 * PEAK, warmup_steps=500),
    "1 - sqrt": constant(30_000, PEAK) + Schedule((Segment("one_minus_sqrt", 8000, PEAK, 0.0),)),
    "exponential": Schedule((Segment("exponential", 50_000, PEAK, 1e-6),)),
    "drop": linear(100, 0, PEAK) + constant(50_000, PEAK) + constant(49_900, 0.1 * PEAK),
    "drop to a hundredth": constant(1000, PEAK) + constant(99_000, 0.01 * PEAK),
    "rise": constant(50_000, 0.1 * PEAK) + constant(500, PEAK),
    "wsd": warmup_stable_decay(20_000, PEAK, decay_steps=4000, warmup_steps=300),
    "annealed and warmed up again": linear(5000, PEAK, 0.0) + cosine(900, PEAK, warmup_steps=90),
    "logged": Schedule.from_log([1, 100, 250, 3000], [PEAK, 2e-4, 2e-4, 1e-5]),
    "one step": constant(1, PEAK),
}


def log_area_error(schedule: Schedule, powers: NDArray[np.float64]) -> float:
    """Return the largest error of the series of log S1, over some steps."""
    form = AreaForm(powers=POWERS)
    steps = np.unique(np.geomspace(1, schedule.steps, 40).astype(int))
    found = POWERS.basis(powers) @ continual_areas(None, schedule, steps, form).log_forward.T
    rates = schedule.learning_rates()
    exact = np.array([np.log(np.cumsum(rates**power)[steps - 1]) for power in powers])
    return float(np.abs(found - exact).max())


@pytest.mark.parametrize("name", SCHEDULES)
def test_log_forward_areas_over_the_powers(name: str) -> None:
    assert log_area_error(SCHEDULES[name], np.linspace(0.1, 1.6, 31)) < 1e-8


@st.composite
def alike(draw: st.DrawFn) -> Schedule:
    """Draw a schedule whose rates lie within a factor of a hundred."""
    drawn = draw(st.lists(segments(2500), min_size=1, max_size=4))
    ends = [(10.0 ** (-5.0 + 0.5 * math.log10(r / 1e-6))) for s in drawn for r in (s.start, s.end)]
    own = zip(drawn, ends[::2], ends[1::2], strict=True)
    return Schedule(tuple(Segment(s.shape, s.steps, start, end) for s, start, end in own))


@settings(max_examples=30)
@given(alike(), st.lists(st.floats(0.1, 1.6), min_size=1, max_size=4))
def test_log_forward_areas_of_any_schedule(schedule: Schedule, powers: list[float]) -> None:
    assert log_area_error(schedule, np.array([0.1, *powers, 1.6])) < 1e-8


@pytest.mark.parametrize("clock", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("name", SCHEDULES)
def test_levels_over_the_momenta(name: str, clock: float) -> None:
    """Relative to what the level runs through, at every momentum."""
    schedule = SCHEDULES[name]
    form = AreaForm(MOMENTA, reference_rate=PEAK, memory_clock=clock)
    before = 0.7 * PEAK
    steps = np.unique(np.geomspace(1, schedule.steps, 40).astype(int))
    momenta = np.r_[0.5, -np.expm1(np.linspace(math.log(0.5), math.log(1e-4), 9)[1:-1]), 0.9999]
    series = continual_areas(constant(10, before), schedule, steps, form).level_cpt
    found = level_values(series, form, momenta)
    rates = schedule.learning_rates()
    paces = form.paces(rates)
    for row, momentum in zip(found, momenta, strict=True):
        exact = plain_levels(rates, momentum, before, paces)[steps - 1]
        np.testing.assert_allclose(row, exact, rtol=0.0, atol=1e-8 * max(before, schedule.peak))

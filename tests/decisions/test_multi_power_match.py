"""The matched multi-power term against least squares on unmerged falls."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from printed import PEAK, study
from synthetic import lab

from bayes_cpt.arrays import Floats
from bayes_cpt.decisions.free_schedule import BETA, GAMMA, POINTS, MultiPowerMatch
from bayes_cpt.laws.areas import AreaForm, learning_rate_level
from bayes_cpt.laws.multi_power import Falls, MultiPower
from bayes_cpt.laws.numerics.ranges import MomentumRange
from bayes_cpt.study.schedules import constant, cosine, linear, warmup_stable_decay

MOMENTA = np.array([0.995, 0.998, 0.999])


def form(low: float, high: float, **changes: Any) -> AreaForm:
    return AreaForm(MomentumRange(low, high), **changes)


FORMS = {
    "printed": form(0.995, 0.999),
    "by a clock": form(0.995, 0.999, reference_rate=PEAK, memory_clock=0.7, count_warmup=True),
}


def reduced(rates: Floats, before: float, steps: NDArray[np.int64], pace: float) -> Floats:
    given = {"C_mp": pace, "beta_mp": BETA, "gamma_mp": GAMMA}
    values = {name: np.array([value]) for name, value in given.items()}
    return np.asarray(MultiPower().reduced(Falls.of(rates, before, steps), values, np))


@pytest.mark.parametrize("momentum", MOMENTA)
@pytest.mark.parametrize("own", FORMS.values(), ids=FORMS)
def test_it_is_the_least_squares_match(own: AreaForm, momentum: float) -> None:
    base = constant(20_000, PEAK) + linear(2_000, PEAK, 0.3 * PEAK)
    run = linear(100, 0.3 * PEAK, PEAK) + cosine(3_900, PEAK, 0.05 * PEAK)
    found = MultiPowerMatch.of(study(run, base), own)
    pace, factor, misfit = (float(value) for value in found.at(np.array(momentum)))
    rates = run.learning_rates()
    steps = np.ceil(np.arange(1, POINTS + 1) / POINTS * rates.size).astype(np.int64)
    level = learning_rate_level(rates, momentum, base.final, own.paces(rates))
    target = base.final - level[steps - 1]

    def left(own_pace: float, own_factor: float) -> float:
        discrepancy = own_factor * reduced(rates, base.final, steps, own_pace) - target
        return float(np.sqrt(np.mean(discrepancy**2)))

    best = left(pace, factor)
    assert misfit * PEAK == pytest.approx(best, rel=0.05)
    for other in (0.8, 0.9, 1.1, 1.25):
        assert left(pace * other, factor) > best
        assert left(pace, factor * other) > best


def test_what_is_matched_hardly_differs_on_the_runs_of_a_study() -> None:
    """With a memory that is short beside its anneals; with one as long, the terms are told apart."""
    found = MultiPowerMatch.of(lab(), form(1.0 - 1.0 / 20.0, 1.0 - 1.0 / 1000.0))
    _, factor, misfit = found.at(1.0 - 1.0 / np.array([20.0, 1000.0]))
    assert misfit[0] < 0.01 < 0.05 < misfit[1]
    assert factor[0] == pytest.approx(1.0, abs=0.02)


def test_a_faster_pace_goes_with_a_shorter_memory() -> None:
    found = MultiPowerMatch.of(lab(), form(1.0 - 1.0 / 10.0, 1.0 - 1.0 / 300.0))
    memory = 1.0 / (1.0 - found.momenta)
    order = np.argsort(memory)
    assert np.all(np.diff(found.pace[order]) < 0)


def test_one_momentum_and_runs_without_a_fall_are_matched() -> None:
    held = study(constant(500, PEAK), constant(1_000, PEAK))
    found = MultiPowerMatch.of(held, form(0.999, 0.999))
    pace, factor, misfit = found.at(np.array([0.999]))
    assert np.isfinite([pace, factor]).all()
    assert misfit[0] == 0.0
    decayed = study(warmup_stable_decay(500, PEAK, decay_steps=50), constant(1_000, PEAK))
    assert MultiPowerMatch.of(decayed, form(0.9, 0.9)).at(np.array([0.9]))[1][0] > 0.5

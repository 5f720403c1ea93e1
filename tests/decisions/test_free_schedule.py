"""Free schedules against every other falling schedule that was thought of."""

from functools import cache

import numpy as np
import pytest
from synthetic import lab_posterior

from bayes_cpt.decisions.final_losses import FinalLosses
from bayes_cpt.decisions.free_schedule import LOWEST_PEAK, Criterion, ScheduleEnd, Shapes
from bayes_cpt.study.schedules import Schedule, linear

STEPS, CAP = 1000, 2e-3
CRITERIA: tuple[Criterion, ...] = ("annealing", "multi_power", "both")
NEAR = 2e-4


@cache
def shapes(base: str = "annealed_0pct", general: float = 0.5, law: str = "cpt-replay") -> Shapes:
    posterior = lab_posterior(law)
    model = FinalLosses.of(posterior, 40)
    weights = np.array([general, 1.0 - general])
    end = ScheduleEnd.of(model, posterior.study.base(base), 0.25, STEPS, weights)
    return Shapes(end, CAP)


@cache
def best(criterion: Criterion, base: str = "annealed_0pct", general: float = 0.5) -> Schedule:
    own = shapes(base, general)
    return own.best_free(criterion, [own.best_wsd(criterion), own.held()])


def expected(schedule: Schedule, criterion: Criterion, own: Shapes) -> float:
    return own.end.expected(schedule, criterion)


@pytest.mark.parametrize("base", ["annealed_0pct", "stable_12k"])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_a_free_schedule_falls_from_below_the_cap(criterion: Criterion, base: str) -> None:
    found, own = best(criterion, base), shapes(base)
    rates = found.learning_rates()
    assert found.steps == STEPS
    assert rates.min() >= 0.0
    assert rates.max() <= CAP * (1 + 1e-12)
    assert np.all(np.diff(rates[own.warmup - 1 :]) <= 1e-15)
    line = own.end.initial + (rates[own.warmup - 1] - own.end.initial) * (
        np.arange(1, own.warmup + 1) / own.warmup
    )
    np.testing.assert_allclose(rates[: own.warmup], line, atol=1e-12)


def test_where_nothing_is_to_be_gained_by_training_it_hardly_trains() -> None:
    for criterion in CRITERIA:
        assert best(criterion, "stable_12k", general=1.0).learning_rates().mean() < 0.2 * CAP


@pytest.mark.parametrize("general", [0.1, 0.5, 0.95])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_it_ends_no_higher_than_cosine_and_wsd(criterion: Criterion, general: float) -> None:
    own = shapes(general=general)
    found = expected(best(criterion, general=general), criterion, own)
    for other in (own.best_cosine(criterion), own.best_wsd(criterion), own.held()):
        assert found <= expected(other, criterion, own) + 1e-6


@pytest.mark.parametrize("criterion", CRITERIA)
def test_no_falling_schedule_drawn_at_random_ends_lower(criterion: Criterion) -> None:
    own, generator = shapes(), np.random.default_rng(0)
    found = best(criterion)
    rates, lowest = found.learning_rates(), expected(found, criterion, own)
    at, tried = np.arange(own.warmup + 1, STEPS + 1), []
    for _ in range(100):
        # Straight lines over 20 steps and more, most of them near the end.
        gaps = 20.0 + 500.0 * generator.dirichlet(np.linspace(3.0, 0.5, 8))
        knots = own.warmup + np.r_[0.0, np.cumsum(gaps)] * (STEPS - own.warmup) / gaps.sum()
        levels = np.r_[
            1.0, np.sort(generator.uniform(0.0, 1.0, 8))[::-1] ** generator.uniform(0.3, 4)
        ]
        other = rates[own.warmup - 1] * np.interp(at, knots, levels)
        for share in (0.03, 0.3, 1.0):
            mixed = rates.copy()
            mixed[own.warmup :] += share * (other - mixed[own.warmup :])
            schedule = Schedule.from_log(np.arange(1, STEPS + 1), mixed)
            tried.append(expected(schedule, criterion, own))
    assert min(tried) > lowest - NEAR
    # Some come near it.
    assert min(tried) < lowest + 0.01


def test_under_the_annealing_term_the_best_is_the_best_corner() -> None:
    """At one S1 the printed term is linear in the rates: hold, drop, hold, drop to 0, one by one."""
    own = shapes(law="cpt-replay-printed")
    free = own.best_free("annealing", [own.best_wsd("annealing"), own.held()])
    lowest, step = np.inf, 30
    for kept in range(own.warmup, STEPS + 1, step):
        for left in range(kept, STEPS + 1, step):
            for level in (0.25, 0.5, 0.75):
                rates = np.r_[
                    linear(own.warmup, own.end.initial, CAP).learning_rates(),
                    np.full(kept - own.warmup, CAP),
                    np.full(left - kept, level * CAP),
                    np.zeros(STEPS - left),
                ]
                tried = Schedule.from_log(np.arange(1, STEPS + 1), rates)
                lowest = min(lowest, expected(tried, "annealing", own))
    assert expected(free, "annealing", own) == pytest.approx(lowest, abs=5e-4)


def test_the_best_of_the_families_are_better_than_a_grid_of_them() -> None:
    own = shapes()
    for criterion in CRITERIA:
        cosine, wsd = (
            expected(found, criterion, own)
            for found in (own.best_cosine(criterion), own.best_wsd(criterion))
        )
        for peak in (LOWEST_PEAK, 0.2, 0.5, 0.8, 1.0):
            for final in (0.0, 0.05, 0.3):
                tried = own._cosine_at(np.array([peak, final]))
                assert cosine <= expected(tried, criterion, own) + NEAR
                for share in (0.02, 0.07, 0.2, 0.6):
                    tried = own._wsd_at("linear", np.array([peak, final, share]))
                    assert wsd <= expected(tried, criterion, own) + NEAR

"""Final losses of any schedule against the law's own curves, and slopes against differences."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from open_weights import open_study
from printed import printed_posterior
from synthetic import lab, lab_posterior, prior_as_posterior

from bayes_cpt.arrays import Floats
from bayes_cpt.decisions.final_losses import FinalLosses
from bayes_cpt.decisions.free_schedule import BETA, FEW_DRAWS, GAMMA, TERMS, Criterion, ScheduleEnd
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.landmarks.trials import Trial
from bayes_cpt.laws import Annealing
from bayes_cpt.laws.areas import SMALLEST, learning_rate_level
from bayes_cpt.laws.multi_power import Falls, MultiPower
from bayes_cpt.model.spec import parse_spec, read_spec
from bayes_cpt.study.schedules import Schedule, constant, cosine, linear, warmup_stable_decay

STEPS, PEAK = 900, 2e-3
WEIGHTS = np.array([0.3, 0.7])
SCHEDULES = {
    "cosine": linear(20, 0.0, PEAK) + cosine(STEPS - 20, PEAK, 1e-4),
    "decay to 0": warmup_stable_decay(STEPS, PEAK, decay_steps=100, warmup_steps=18),
    "drop": constant(STEPS - 60, PEAK) + constant(60, 1e-4),
    "logged": Schedule.from_log([1, 300, 700, STEPS], [PEAK, PEAK, 4e-4, 2e-5]),
}
CRITERIA: tuple[Criterion, ...] = ("annealing", "multi_power", "both")


def with_law(**changes: Any) -> Posterior:
    """Return a posterior of cpt-replay with other areas."""
    table = read_spec("cpt-replay").model_dump(mode="json")
    table["law"] |= changes
    table["priors"] |= SLOW if changes.get("slow_annealing") else {}
    for name, law in (("forward_power", "forward_power"), ("level_power", "level_power")):
        if changes.get(law) is False:
            table["priors"].pop(name, None)
    return prior_as_posterior(lab(), parse_spec(table, "test"))


SLOW = {
    "slow_memory": {
        "reason": "test",
        "every": {
            "distribution": "lognormal",
            "median": 900.0,
            "sigma": 0.5,
            "lower": 5.0,
            "upper": 9e3,
        },
    },
    "slow_share": {
        "reason": "test",
        "every": {"distribution": "logitnormal", "median": 0.3, "sigma": 0.5},
    },
}
PRINTED_AREAS = {
    "forward_power": False,
    "level_power": False,
    "count_warmup": False,
    "memory_clock": 0.0,
}
POSTERIORS: dict[str, Callable[[], Posterior]] = {
    "cpt-replay": lab_posterior,
    "cpt-replay-printed": lambda: lab_posterior("cpt-replay-printed"),
    "printed areas, slow and carried": lambda: with_law(
        **PRINTED_AREAS, slow_annealing=True, carry_memory=True
    ),
    "slow and carried, power of the shift": lambda: with_law(
        slow_annealing=True, carry_memory=True, shift_power=0.7
    ),
    "unknown base": lambda: prior_as_posterior(open_study()),
}
KNOWN = [name for name in POSTERIORS if name != "unknown base"]


@cache
def the_end(name: str, replay: float = 0.25) -> ScheduleEnd:
    posterior = POSTERIORS[name]()
    model = FinalLosses.of(posterior, 40)
    bases = {base.name: base for base in posterior.study.bases}
    base = bases.get("annealed_30pct", posterior.study.bases[0])
    return ScheduleEnd.of(model, base, replay, STEPS, WEIGHTS)


def by_law(end: ScheduleEnd, schedule: Schedule) -> Floats:
    trial = Trial(end.base.schedule, schedule, end.replay, end.model.measured(end.base))
    return np.asarray(end.model.sample.losses([trial], [[STEPS]])[:, 0, :, 0] @ WEIGHTS)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", POSTERIORS)
def test_values_under_the_annealing_term_are_the_laws(name: str, schedule: str) -> None:
    end = the_end(name)
    found = end.values(SCHEDULES[schedule], "annealing")
    np.testing.assert_allclose(found, by_law(end, SCHEDULES[schedule]), rtol=0, atol=1e-10)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", KNOWN)
def test_the_multi_power_term_stands_in_place_of_the_runs_own_annealing(
    name: str, schedule: str
) -> None:
    end = the_end(name)
    run, sample = SCHEDULES[schedule], end.model.sample
    law, form = sample.frame.law, sample.form
    rates = run.learning_rates()
    paces = form.paces(rates)
    falls = Falls.of(rates, end.initial, np.array([STEPS]))
    annealing = next(term for term in law.terms if isinstance(term, Annealing))
    share, moved = np.full(1, 1.0 - end.replay), np.empty(end.model.draws)
    for draw in range(end.model.draws):
        one = {name: value[draw] for name, value in sample.coefficients.items()}
        slow, gap = one.get("slow_share", 0.0), 0.0
        for momentum, weight in (
            (one["lambda"], 1.0 - slow),
            (one.get("lambda_slow", one["lambda"]), slow),
        ):
            pace, factor, _ = end.match.at(np.array([momentum]))
            given = {"C_mp": pace, "beta_mp": np.array([BETA]), "gamma_mp": np.array([GAMMA])}
            fallen = factor * MultiPower().reduced(falls, given, np)
            # What is carried over from PT fades as it does, whatever the run does.
            level = learning_rate_level(rates, float(momentum), end.initial, paces)[-1]
            gap += weight * (end.initial - fallen[0] - level)
        before = end.level(run, "annealing")[draw]
        after = max(before + gap, SMALLEST)
        zeta = one.get("zeta", 1.0)
        fall = (before**zeta - after**zeta) / (1.0 - one["lambda"])
        moved[draw] = sum(
            -weight * fall * float(np.ravel(annealing.continual_gain(
                share, {k: v[..., i] if np.ndim(v) else v for k, v in one.items()}, np))[0])
            for i, weight in enumerate(WEIGHTS)
        )  # fmt: skip
    expected = by_law(end, run) + moved
    np.testing.assert_allclose(end.values(run, "multi_power"), expected, rtol=0, atol=1e-9)


def test_one_printed_draw_has_its_own_pace() -> None:
    posterior = printed_posterior("moderate")
    model = FinalLosses.of(posterior)
    end = ScheduleEnd.of(model, posterior.study.base("base"), 0.0, 4000, WEIGHTS)
    schedule = cosine(4000, 2e-4)
    for term in TERMS:
        expected = end.expected(schedule, term)
        assert end.values(schedule, term)[0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", POSTERIORS)
def test_the_expected_objective_is_the_mean_of_the_values(name: str, schedule: str) -> None:
    own, end = SCHEDULES[schedule], the_end(name)
    assert end.few.size == end.model.draws
    for term in TERMS:
        mean = end.values(own, term).mean()
        assert end.expected(own, term) == pytest.approx(mean, abs=1e-9)
    both = 0.5 * sum(end.expected(own, term) for term in TERMS)
    assert end.expected(own, "both") == pytest.approx(both, abs=1e-12)


def test_few_draws_stand_for_all() -> None:
    posterior = prior_as_posterior(lab(), draws=100)
    base = posterior.study.base("stable_12k")
    end = ScheduleEnd.of(FinalLosses.of(posterior, 400), base, 0.25, STEPS, WEIGHTS)
    assert end.few.size == FEW_DRAWS
    assert [end.few[0], end.few[-1]] == [0, 399]
    own = SCHEDULES["cosine"]
    values = end.values(own, "annealing")
    assert end.expected(own, "annealing") == pytest.approx(values[end.few].mean(), abs=1e-9)
    error = 4.0 * values.std() / np.sqrt(FEW_DRAWS)
    assert end.expected(own, "annealing") == pytest.approx(values.mean(), abs=error)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("name", POSTERIORS)
def test_slopes_are_those_of_central_differences(name: str, criterion: Criterion) -> None:
    end = the_end(name)
    counts = np.array([100.0, 300.0, 300.0, 150.0, 40.0, 9.0, 1.0])
    rates = PEAK * np.array([1.0, 0.9, 0.9, 0.5, 0.1, 0.05, 0.02])

    def whole(values: Floats) -> Schedule:
        steps = np.arange(1, STEPS + 1)
        return Schedule.from_log(steps, np.repeat(values, counts.astype(int)))

    value, slopes = end.slopes(rates, counts, criterion)
    # Stretches of one learning rate are as many single steps.
    assert value == pytest.approx(end.expected(whole(rates), criterion), abs=1e-9)
    assert end.score(rates, counts, criterion) == pytest.approx(value, abs=1e-9)
    for k in range(rates.size):
        step = 1e-4 * rates[k] * np.eye(rates.size)[k]
        up, down = (end.expected(whole(rates + way * step), criterion) for way in (1.0, -1.0))
        difference = (up - down) / (2e-4 * rates[k])
        assert slopes[k] == pytest.approx(difference, rel=1e-3, abs=1e-2)


def test_a_level_of_none_has_no_slope() -> None:
    end = the_end("cpt-replay-printed")
    rates, counts = np.array([PEAK, 0.0]), np.array([100.0, 1e6])
    value, slopes = end.slopes(rates, counts, "annealing")
    assert np.isfinite(value)
    assert np.isfinite(slopes).all()

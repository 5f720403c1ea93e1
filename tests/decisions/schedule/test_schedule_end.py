"""Final losses of any schedule against the law's own curves, and slopes against differences."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from printed import printed_posterior
from synthetic import lab, lab_posterior, prior_as_posterior

from bayes_cpt.decisions.schedule.multi_power_match import BETA, GAMMA
from bayes_cpt.decisions.schedule.schedule_end import TERMS, Criterion, ScheduleEnd
from bayes_cpt.decisions.search.evaluate import FinalLosses
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.landmarks.trials import Trial
from bayes_cpt.laws import Annealing
from bayes_cpt.laws.areas import annealing_area
from bayes_cpt.laws.multi_power import Falls, MultiPower
from bayes_cpt.model.spec import parse_spec, read_spec
from bayes_cpt.study.schedules import Schedule, constant, cosine, linear, warmup_stable_decay

type Floats = NDArray[np.float64]

STEPS, PEAK = 900, 2e-3
WEIGHTS = np.array([0.3, 0.7])
SCHEDULES = {
    "cosine": linear(20, 0.0, PEAK) + cosine(STEPS - 20, PEAK, 1e-4),
    "decay to 0": warmup_stable_decay(STEPS, PEAK, decay_steps=100, warmup_steps=18),
    "drop": constant(STEPS - 60, PEAK) + constant(60, 1e-4),
    "logged": Schedule.from_log([1, 300, 700, STEPS], [PEAK, PEAK, 4e-4, 2e-5]),
}
CRITERIA: tuple[Criterion, ...] = ("annealing", "multi_power", "both")


def carried() -> Posterior:
    table = read_spec("cpt-replay").model_dump(mode="json")
    table["law"]["carry_memory"] = True
    return prior_as_posterior(lab(), parse_spec(table, "test"))


POSTERIORS: dict[str, Callable[[], Posterior]] = {
    "cpt-replay": lab_posterior,
    "cpt-replay-printed": lambda: lab_posterior("cpt-replay-printed"),
    "memory carried": carried,
}


@cache
def the_end(name: str, base: str = "annealed_30pct", replay: float = 0.25) -> ScheduleEnd:
    posterior = POSTERIORS[name]()
    model = FinalLosses.of(posterior, 40)
    return ScheduleEnd.of(model, posterior.study.base(base), replay, STEPS, WEIGHTS)


def by_law(end: ScheduleEnd, schedule: Schedule) -> Floats:
    before = end.base.schedule
    assert before is not None
    trial = Trial(before, schedule, end.replay, end.model.measured(end.base))
    return np.asarray(end.model.law.sample.losses([trial], [[STEPS]])[:, 0, :, 0] @ WEIGHTS)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", POSTERIORS)
def test_values_under_the_annealing_term_are_the_laws(name: str, schedule: str) -> None:
    end = the_end(name)
    found = end.values(SCHEDULES[schedule], "annealing")
    np.testing.assert_allclose(found, by_law(end, SCHEDULES[schedule]), rtol=0, atol=1e-10)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", POSTERIORS)
def test_the_multi_power_term_stands_in_place_of_the_runs_own_annealing(
    name: str, schedule: str
) -> None:
    end = the_end(name)
    run = SCHEDULES[schedule]
    rates, gaps = run.learning_rates(), np.empty(end.model.draws)
    law, sample = end.model.law.sample.frame.law, end.model.law.sample
    falls = Falls.of(rates, end.initial, np.array([STEPS]))
    for draw in range(end.model.draws):
        one = {name: own[draw] for name, own in sample.coefficients.items()}
        share, gaps[draw] = one.get("slow_share", 0.0), 0.0
        for momentum, weight in (
            (one["lambda"], 1.0 - share),
            (one.get("lambda_slow", one["lambda"]), share),
        ):
            pace, factor, _ = end.match.at(np.array([momentum]))
            given = {"C_mp": pace, "beta_mp": np.array([BETA]), "gamma_mp": np.array([GAMMA])}
            moved = factor * MultiPower().reduced(falls, given, np)
            # What is carried over from PT anneals on, whatever the run does.
            own = (1 - momentum) * annealing_area(rates, float(momentum), end.initial)[-1]
            gaps[draw] += weight * (own - moved[0]) / (1 - one["lambda"])
    annealing = next(term for term in law.terms if isinstance(term, Annealing))
    share = np.full(1, 1.0 - end.replay)
    gain = sum(
        weight * annealing.continual_gain(share, {k: v[..., i] if v.ndim > 1 else v
                                                  for k, v in sample.coefficients.items()}, np)
        for i, weight in enumerate(WEIGHTS)
    )  # fmt: skip
    np.testing.assert_allclose(end.gain, gain, rtol=1e-6)
    expected = by_law(end, run) + gain * gaps
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
def test_the_expected_objective_is_the_mean_of_the_values(schedule: str) -> None:
    own = SCHEDULES[schedule]
    for end in (the_end("cpt-replay"), the_end("memory carried", "stable_12k", 0.0)):
        values = {term: end.values(own, term).mean() for term in TERMS}
        assert end.expected(own, "annealing") == pytest.approx(values["annealing"], abs=1e-9)
        # A few paces stand for those of all draws.
        assert end.expected(own, "multi_power") == pytest.approx(values["multi_power"], abs=1e-3)
        both = 0.5 * sum(end.expected(own, term) for term in TERMS)
        assert end.expected(own, "both") == pytest.approx(both, abs=1e-12)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_slopes_are_those_of_central_differences(criterion: Criterion) -> None:
    end = the_end("cpt-replay")
    counts = np.array([100.0, 300.0, 300.0, 150.0, 40.0, 9.0, 1.0])
    rates = PEAK * np.array([1.0, 0.9, 0.9, 0.5, 0.1, 0.05, 0.02])

    def whole(values: Floats) -> Schedule:
        steps = np.arange(1, STEPS + 1)
        return Schedule.from_log(steps, np.repeat(values, counts.astype(int)))

    value, slopes = end.slopes(rates, counts, criterion)
    assert value == pytest.approx(end.expected(whole(rates), criterion), abs=1e-9)
    for k in range(rates.size):
        step = 1e-4 * rates[k] * np.eye(rates.size)[k]
        up, down = (end.expected(whole(rates + way * step), criterion) for way in (1.0, -1.0))
        difference = (up - down) / (2e-4 * rates[k])
        assert slopes[k] == pytest.approx(difference, rel=1e-3, abs=1e-2)

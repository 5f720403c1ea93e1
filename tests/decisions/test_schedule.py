"""Schedules: losses and slopes against the law's curves, the best against all that was thought of."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from open_weights import open_study
from printed import printed_posterior
from synthetic import lab, lab_posterior, prior_as_posterior

from bayes_cpt.arrays import Floats
from bayes_cpt.decisions.decision import decide
from bayes_cpt.decisions.final_losses import FinalLosses
from bayes_cpt.decisions.free_schedule import FEW_DRAWS, LOWEST_PEAK, ScheduleEnd, Shapes
from bayes_cpt.decisions.objective import read_objective
from bayes_cpt.decisions.schedule_choice import (
    FAMILIES,
    PAIRS,
    ScheduleChoice,
    best_tried,
    choose_schedule,
)
from bayes_cpt.decisions.search_space import shortest_decay
from bayes_cpt.errors import SpecError, StudyError
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.landmarks.trials import Trial, trial_losses
from bayes_cpt.model.spec import parse_spec, read_spec
from bayes_cpt.study.folder import read_plan, runs_text
from bayes_cpt.study.schedules import Schedule, constant, cosine, linear, warmup_stable_decay

STEPS, PEAK, CAP, NEAR = 900, 2e-3, 2e-3, 2e-4
WEIGHTS = np.array([0.3, 0.7])
SCHEDULES = {
    "cosine": linear(20, 0.0, PEAK) + cosine(STEPS - 20, PEAK, 1e-4),
    "decay to 0": warmup_stable_decay(STEPS, PEAK, decay_steps=100, warmup_steps=18),
    "drop": constant(STEPS - 60, PEAK) + constant(60, 1e-4),
    "logged": Schedule.from_log([1, 300, 700, STEPS], [PEAK, PEAK, 4e-4, 2e-5]),
}
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


def with_slow_pace(**changes: Any) -> Posterior:
    """Return a posterior of cpt-replay with a second pace and other areas."""
    table = read_spec("cpt-replay").model_dump(mode="json")
    table["law"] |= {"slow_annealing": True, "carry_memory": True} | changes
    table["priors"] |= SLOW
    for name in ("forward_power", "level_power"):
        if changes.get(name) is False:
            del table["priors"][name]
    return prior_as_posterior(lab(), parse_spec(table, "test"))


POSTERIORS: dict[str, Callable[[], Posterior]] = {
    "cpt-replay": lab_posterior,
    "cpt-replay-printed": lambda: lab_posterior("cpt-replay-printed"),
    "printed areas, slow and carried": lambda: with_slow_pace(
        forward_power=False, level_power=False, count_warmup=False, memory_clock=0.0
    ),
    "slow and carried, power of the shift": lambda: with_slow_pace(shift_power=0.7),
    "unknown base": lambda: prior_as_posterior(open_study()),
}


@cache
def the_end(name: str, replay: float = 0.25) -> ScheduleEnd:
    posterior = POSTERIORS[name]()
    bases = {base.name: base for base in posterior.study.bases}
    base = bases.get("annealed_30pct", posterior.study.bases[0])
    return ScheduleEnd(FinalLosses.of(posterior, 40), base, replay, STEPS, WEIGHTS)


def by_law(end: ScheduleEnd, schedule: Schedule) -> Floats:
    trial = Trial(end.base.schedule, schedule, end.replay, end.model.measured(end.base))
    return np.asarray(trial_losses(end.draws, [trial], [[STEPS]])[:, 0, :, 0] @ WEIGHTS)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", POSTERIORS)
def test_values_are_the_laws(name: str, schedule: str) -> None:
    end, own = the_end(name), SCHEDULES[schedule]
    found = end.values(own)
    np.testing.assert_allclose(found, by_law(end, own), rtol=0, atol=1e-10)
    # All draws are few here.
    assert end.expected(own) == pytest.approx(found.mean(), abs=1e-9)


def test_one_printed_draw() -> None:
    posterior = printed_posterior("moderate")
    model, base = FinalLosses.of(posterior), posterior.study.base("base")
    end, schedule = ScheduleEnd(model, base, 0.0, 4000, WEIGHTS), cosine(4000, 2e-4)
    assert end.values(schedule)[0] == pytest.approx(end.expected(schedule), abs=1e-9)


def test_few_draws_stand_for_all() -> None:
    posterior = prior_as_posterior(lab(), draws=100)
    base = posterior.study.base("stable_12k")
    end = ScheduleEnd(FinalLosses.of(posterior, 400), base, 0.25, STEPS, WEIGHTS)
    assert end.few.count == FEW_DRAWS
    values = end.values(SCHEDULES["cosine"])
    error = 4.0 * values.std() / np.sqrt(FEW_DRAWS)
    assert end.expected(SCHEDULES["cosine"]) == pytest.approx(values.mean(), abs=error)


@pytest.mark.parametrize("name", POSTERIORS)
def test_slopes_are_those_of_central_differences(name: str) -> None:
    end = the_end(name)
    counts = np.array([100.0, 300.0, 300.0, 150.0, 40.0, 9.0, 1.0])
    rates = PEAK * np.array([1.0, 0.9, 0.9, 0.5, 0.1, 0.05, 0.02])

    def whole(values: Floats) -> Schedule:
        steps = np.arange(1, STEPS + 1)
        return Schedule.from_log(steps, np.repeat(values, counts.astype(int)))

    value, slopes = end.slopes(rates, counts)
    # Stretches of one learning rate are as many single steps.
    assert value == pytest.approx(end.expected(whole(rates)), abs=1e-9)
    assert end.score(rates, counts) == pytest.approx(value, abs=1e-9)
    for k in range(rates.size):
        step = 1e-4 * rates[k] * np.eye(rates.size)[k]
        up, down = (end.expected(whole(rates + way * step)) for way in (1.0, -1.0))
        difference = (up - down) / (2e-4 * rates[k])
        assert slopes[k] == pytest.approx(difference, rel=1e-3, abs=1e-2)


def test_a_level_of_none_has_no_slope() -> None:
    rates, counts = np.array([PEAK, 0.0]), np.array([100.0, 1e6])
    value, slopes = the_end("cpt-replay-printed").slopes(rates, counts)
    assert np.isfinite(value)
    assert np.isfinite(slopes).all()


@cache
def shapes(base: str = "annealed_0pct", general: float = 0.5, law: str = "cpt-replay") -> Shapes:
    posterior = lab_posterior(law)
    weights = np.array([general, 1.0 - general])
    start = posterior.study.base(base)
    end = ScheduleEnd(FinalLosses.of(posterior, 40), start, 0.25, STEPS, weights)
    return Shapes(end, CAP, shortest_decay(posterior.study))


@cache
def best(base: str = "annealed_0pct", general: float = 0.5) -> Schedule:
    own = shapes(base, general)
    return own.best_free([own.best_wsd(), own.held()])


@pytest.mark.parametrize("base", ["annealed_0pct", "stable_12k"])
def test_a_free_schedule_falls_from_below_the_cap(base: str) -> None:
    found, own = best(base), shapes(base)
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
    assert best("stable_12k", general=1.0).learning_rates().mean() < 0.2 * CAP


@pytest.mark.parametrize("general", [0.1, 0.5, 0.95])
def test_it_ends_no_higher_than_cosine_and_wsd(general: float) -> None:
    own = shapes(general=general)
    found = own.end.expected(best(general=general))
    for other in (own.best_cosine(), own.best_wsd(), own.held()):
        assert found <= own.end.expected(other) + 1e-6


def test_no_falling_schedule_drawn_at_random_ends_lower() -> None:
    own, generator = shapes(), np.random.default_rng(0)
    rates, lowest = best().learning_rates(), own.end.expected(best())
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
            tried.append(own.end.expected(Schedule.from_log(np.arange(1, STEPS + 1), mixed)))
    assert min(tried) > lowest - NEAR
    # Some come near it.
    assert min(tried) < lowest + 0.01


def test_under_the_printed_term_the_best_is_the_best_corner() -> None:
    """At one S1 the printed term is linear in the rates: hold, drop, hold, drop to 0, one by one."""
    own = shapes(law="cpt-replay-printed")
    free = own.best_free([own.best_wsd(), own.held()])
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
                lowest = min(lowest, own.end.expected(tried))
    assert own.end.expected(free) == pytest.approx(lowest, abs=5e-4)


def test_the_best_of_the_families_are_better_than_a_grid_of_them() -> None:
    own = shapes()
    cosine_end, wsd_end = (own.end.expected(found) for found in (own.best_cosine(), own.best_wsd()))
    for peak in (LOWEST_PEAK, 0.2, 0.5, 0.8, 1.0):
        for final in (0.0, 0.05, 0.3):
            rate = peak * CAP
            tried = cosine(STEPS, rate, final * rate, warmup_steps=own.warmup)
            assert cosine_end <= own.end.expected(tried) + NEAR
            for share in (own.shortest, 0.2, 0.6):
                decay = round(share * (STEPS - own.warmup))
                tried = warmup_stable_decay(
                    STEPS, rate, final * rate, decay_steps=decay, warmup_steps=own.warmup
                )
                assert wsd_end <= own.end.expected(tried) + NEAR


BASE, REPLAY, RUN = "annealed_0pct", 0.25, 800


@cache
def chosen() -> ScheduleChoice:
    return choose_schedule(lab_posterior(), BASE, REPLAY, RUN, "domain-focus", draws=40)


def test_the_choice_holds_the_forecast_of_its_plan() -> None:
    """Run by run and draw by draw."""
    choice = chosen()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bands = lab_posterior().predict(choice.plan, kind="expected", draws=40)
    last = bands["expected"].sel(step=RUN).stack(sample=("chain", "draw"))
    weights = read_objective("domain-focus").combination(("general", "kernel"))
    for family in FAMILIES:
        expected = weights @ last.sel(run=family).transpose("domain", "sample").to_numpy()
        np.testing.assert_allclose(choice.values[family], expected, atol=1e-9)
    table = choice.table(0.8).set_index(["schedule", "against"])
    assert list(table.index) == list(PAIRS)
    for family, against in PAIRS:
        gains = choice.values[against] - choice.values[family]
        row = table.loc[family, against]
        assert row["mean"] == pytest.approx(gains.mean())
        assert row["lower"] == pytest.approx(np.quantile(gains, 0.1))
        assert row["probability"] == np.mean(gains > 0)
        assert row["advised"] == (family == choice.advised)


@pytest.mark.parametrize(
    ("gains", "advised"),
    [
        ([0.02] * 40, "wsd"),
        ([0.0005] * 40, "cosine"),
        ([-0.02] * 40, "cosine"),
        ([0.02] * 34 + [-0.01] * 6, "cosine"),
        ([0.02] * 37 + [-0.01] * 3, "wsd"),
    ],
)
def test_wsd_is_advised_where_its_gain_is_detectable(gains: list[float], advised: str) -> None:
    choice = chosen()
    values = choice.values | {"cosine": choice.values["wsd"] + np.array(gains)}
    moved = replace(choice, values=values)
    assert moved.advised == advised
    assert (moved.runs_needed("wsd", "cosine") is None) == (advised == "cosine")
    first = moved.verdict()[0]
    assert ("(WSD)" in first) == (advised == "wsd")
    assert "No run of the study has tried that" in " ".join(moved.sentences())


def test_the_noise_is_that_of_a_new_run() -> None:
    choice = chosen()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        drawn = [lab_posterior().predict(choice.plan, draws=100, seed=seed) for seed in range(8)]
    residuals = [(own["loss"] - own["expected"]).sel(run=choice.advised, step=RUN) for own in drawn]
    weights = choice.end.weights
    every = np.concatenate(
        [weights @ own.transpose("domain", ...).to_numpy().reshape(2, -1) for own in residuals]
    )
    # The median over draws of the sd, where sizes differ between draws.
    assert choice.noise == pytest.approx(float(np.median(np.abs(every)) / 0.6745), rel=0.25)


def test_runs_and_rates_make_a_plan(tmp_path: Path) -> None:
    choice = chosen()
    (tmp_path / "study.toml").write_text(runs_text(choice.plan.runs), encoding="utf-8")
    choice.rates().to_csv(tmp_path / "lr.csv", index=False)
    plan = read_plan(tmp_path, lab_posterior().study)
    for run in choice.plan.runs:
        np.testing.assert_allclose(
            plan.run(run.name).schedule.learning_rates(), run.schedule.learning_rates(), rtol=1e-12
        )
    assert plan.run("free").replay == REPLAY


def test_a_cap_and_the_shortest_decay_are_kept() -> None:
    choice = choose_schedule(lab_posterior(), "stable_12k", 0.0, 300, cap=5e-4, draws=12)
    for own in choice.schedules.values():
        # After the line down from the base's learning rate.
        assert own.learning_rates()[choice.warmup - 1 :].max() <= 5e-4 * (1 + 1e-9)
    decay = choice.schedules["wsd"].segments[-1]
    least = shortest_decay(lab()) * (300 - choice.warmup)
    assert decay.steps >= round(least)
    assert shortest_decay(lab()) <= 0.1


@pytest.mark.parametrize(
    ("changes", "fragments"),
    [
        ({"base": "stable_12"}, ("no base 'stable_12'", "did you mean 'stable_12k'")),
        ({"replay": 25.0}, ("25 is not a share", "write 0.25 for 25 %")),
        ({"steps": 10}, ("10 steps are too few",)),
        ({"cap": 2.0}, ("2 is not a raw learning rate", "2e-4")),
        ({"objective": "balance"}, ("no preset 'balance'", "did you mean 'balanced'")),
    ],
)
def test_bad_input_is_refused(changes: dict[str, object], fragments: tuple[str, ...]) -> None:
    given: dict[str, object] = {"base": BASE, "replay": REPLAY, "steps": RUN} | changes
    with pytest.raises(SpecError) as caught:
        choose_schedule(lab_posterior(), draws=4, **given)  # type: ignore[arg-type]
    for fragment in fragments:
        assert fragment.lower() in str(caught.value).lower()


def lowest_tried(base: str, replay: float) -> float:
    """Return the lowest expected objective of a base and a replay ratio, over the peaks that were tried."""
    peaks = sorted({run.schedule.peak for run in lab().continual_runs})
    space = {
        "bases": base,
        "replay": replay,
        "peak": peaks,
        "steps": 2000,
        "decay_share": 1.0,
        "relative_final": 0.1,
    }
    choice = decide(lab_posterior(), "domain-focus", space, draws=20, candidates=64)
    return float(choice.contenders.losses[:, 0].mean(axis=-1) @ choice.valuation.weights)


def test_what_is_not_given_is_the_best_of_what_was_tried() -> None:
    runs = lab().continual_runs
    taken = best_tried(lab_posterior(), "stable_12k", None, {}, 2000, "domain-focus", 20)
    replays = {run.replay or 0.0 for run in runs}
    ends = {replay: lowest_tried("stable_12k", replay) for replay in replays}
    assert taken == ("stable_12k", min(ends, key=lambda replay: ends[replay]), {})
    taken = best_tried(lab_posterior(), None, 0.25, {}, 2000, "domain-focus", 20)
    starts = {base: lowest_tried(base, 0.25) for base in {str(run.base) for run in runs}}
    assert taken == (min(starts, key=lambda base: starts[base]), 0.25, {})


def test_a_law_without_cpt_is_refused() -> None:
    posterior = prior_as_posterior(lab().subset(["pt_trunk"]), "pretrain")
    with pytest.raises(StudyError, match="the law knows no CPT phase"):
        choose_schedule(posterior, None, None, 2000, draws=4)

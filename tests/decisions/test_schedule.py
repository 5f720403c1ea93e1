"""Schedules: ends against the law's curves, the best against all that was thought of."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from open_weights import open_study
from printed import printed_posterior
from synthetic import lab, lab_posterior, prior_as_posterior

from bayes_cpt.arrays import Floats
from bayes_cpt.decisions.final_losses import FinalLosses
from bayes_cpt.decisions.objective import read_objective
from bayes_cpt.decisions.schedule_choice import (
    FAMILIES,
    PAIRS,
    ScheduleChoice,
    Stretches,
    choose_schedule,
)
from bayes_cpt.decisions.search_space import Candidates, SearchSpace, shortest_decay
from bayes_cpt.decisions.space import read_space
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.landmarks.trials import Trial, trial_losses
from bayes_cpt.model.spec import parse_spec, read_spec
from bayes_cpt.study.schedules import Schedule, constant, cosine, linear, warmup_stable_decay

STEPS, PEAK, CAP, NEAR = 900, 2e-3, 2e-3, 2e-4
SCHEDULES = {
    "cosine": linear(20, 0.0, PEAK) + cosine(STEPS - 20, PEAK, 1e-4),
    "decay to 0": warmup_stable_decay(STEPS, PEAK, decay_steps=100, warmup_steps=18),
    "drop": constant(STEPS - 60, PEAK) + constant(60, 1e-4),
    "logged": Schedule.from_log([1, 300, 700, STEPS], [PEAK, PEAK, 4e-4, 2e-5]),
}
SLOW_ON_BOTH = {
    "reason": "test",
    "every": {"distribution": "logitnormal", "median": 0.3, "sigma": 0.5},
}


def with_slow_pace(**changes: Any) -> Posterior:
    """Return a posterior of cpt-replay with a second pace on both validation sets and other areas."""
    table = read_spec("cpt-replay").model_dump(mode="json")
    table["law"] |= changes
    table["priors"]["slow_share"] = SLOW_ON_BOTH
    for name in ("forward_power", "level_power", "shift_power"):
        if changes.get(name) is False:
            del table["priors"][name]
    return prior_as_posterior(lab(), parse_spec(table, "test"))


POSTERIORS: dict[str, Callable[[], Posterior]] = {
    "cpt-replay": lab_posterior,
    "cpt-replay-printed": lambda: lab_posterior("cpt-replay-printed"),
    "printed areas, slow and carried": lambda: with_slow_pace(
        **dict.fromkeys(("forward_power", "level_power", "shift_power", "count_warmup"), False),
        memory_clock=0.0,
    ),
    "slow on both, memory restarted": lambda: with_slow_pace(carry_memory=False),
    "unknown base": lambda: prior_as_posterior(open_study()),
}


def started(posterior: Posterior, base: str) -> Candidates:
    """Return a run of 900 steps from a base at a quarter of replay."""
    space = {"bases": base, "replay": 0.25, "peak": PEAK, "steps": STEPS}
    found = SearchSpace.of(read_space(space), posterior.study).sample(8, 0)
    return found.take(np.zeros(1, dtype=np.int64))


def ending(run: Candidates, schedules: list[Schedule]) -> Candidates:
    rates = np.stack([own.learning_rates() for own in schedules])
    every = run.take(np.zeros(len(schedules), dtype=np.int64))
    return replace(every, schedules=Stretches(rates, np.ones_like(rates)))


@pytest.mark.parametrize("name", POSTERIORS)
def test_losses_of_any_course_are_the_laws(name: str) -> None:
    posterior = POSTERIORS[name]()
    bases = [base.name for base in posterior.study.bases]
    run = started(posterior, "annealed_30pct" if "annealed_30pct" in bases else bases[0])
    model = FinalLosses.of(posterior, 40)
    found = model.losses(ending(run, list(SCHEDULES.values())))
    [base] = run.bases
    trials = [Trial(base.schedule, own, 0.25, model.measured(base)) for own in SCHEDULES.values()]
    wanted = trial_losses(model.laws[0].draws, trials, [[STEPS]] * len(trials))[..., 0]
    np.testing.assert_allclose(found, wanted.transpose(2, 1, 0), rtol=0, atol=1e-10)


def test_stretches_of_one_learning_rate_are_as_many_steps() -> None:
    counts = np.array([100.0, 300.0, 300.0, 150.0, 40.0, 9.0, 1.0])
    rates = PEAK * np.array([1.0, 0.9, 0.9, 0.5, 0.1, 0.05, 0.0])
    run, model = started(lab_posterior(), "annealed_30pct"), FinalLosses.of(lab_posterior(), 40)
    stretches = Stretches(rates[None], counts[None])
    held = replace(run, schedules=stretches)
    whole = ending(run, [stretches.schedule(0)])
    assert whole.schedules.steps.tolist() == [STEPS]
    np.testing.assert_allclose(model.losses(held), model.losses(whole), rtol=0, atol=1e-10)


@cache
def best(
    base: str = "annealed_0pct", general: float = 0.5, law: str = "cpt-replay"
) -> ScheduleChoice:
    goal = {"weights": {"general": general, "target": 1.0 - general}}
    return choose_schedule(lab_posterior(law), base, 0.25, STEPS, goal, cap=CAP, draws=40)


def expected(choice: ScheduleChoice, *schedules: Schedule) -> Floats:
    """Return the expected objective of other schedules of a run."""
    tried, valuation = ending(choice.runs["wsd"], list(schedules)), choice.valuation
    losses = valuation.model.losses(tried)
    return np.asarray(valuation.combination.of_candidates(tried, losses).mean(axis=1))


@pytest.mark.parametrize("base", ["annealed_0pct", "stable_12k"])
def test_a_free_schedule_falls_from_below_the_cap(base: str) -> None:
    choice = best(base)
    rates, warmup = choice.schedules["free"].learning_rates(), choice.warmup
    assert rates.size == STEPS
    assert rates.min() >= 0.0
    assert rates.max() <= CAP * (1 + 1e-12)
    assert np.all(np.diff(rates[warmup - 1 :]) <= 1e-15)
    assert choice.base.schedule is not None
    line = linear(warmup, choice.base.schedule.final, rates[warmup - 1]).learning_rates()
    np.testing.assert_allclose(rates[:warmup], line, atol=1e-12)


def test_where_nothing_is_to_be_gained_by_training_it_hardly_trains() -> None:
    free = best("stable_12k", general=1.0).schedules["free"]
    assert free.learning_rates().mean() < 0.2 * CAP


@pytest.mark.parametrize("general", [0.1, 0.5, 0.95])
def test_it_ends_no_higher_than_cosine_and_wsd(general: float) -> None:
    means = {family: own.mean() for family, own in best(general=general).values.items()}
    assert means["free"] <= min(means.values()) + 1e-5


def test_no_falling_schedule_drawn_at_random_ends_lower() -> None:
    choice, generator = best(), np.random.default_rng(0)
    rates, lowest = choice.schedules["free"].learning_rates(), choice.values["free"].mean()
    warmup = choice.warmup
    at, tried = np.arange(warmup + 1, STEPS + 1), []
    for _ in range(100):
        # Straight lines over 20 steps and more, most of them near the end.
        gaps = 20.0 + 500.0 * generator.dirichlet(np.linspace(3.0, 0.5, 8))
        knots = warmup + np.r_[0.0, np.cumsum(gaps)] * (STEPS - warmup) / gaps.sum()
        levels = np.r_[
            1.0, np.sort(generator.uniform(0.0, 1.0, 8))[::-1] ** generator.uniform(0.3, 4)
        ]
        other = rates[warmup - 1] * np.interp(at, knots, levels)
        for share in (0.03, 0.3, 1.0):
            mixed = rates.copy()
            mixed[warmup:] += share * (other - mixed[warmup:])
            tried.append(Schedule.from_log(np.arange(1, STEPS + 1), mixed))
    ends = expected(choice, *tried)
    assert ends.min() > lowest - NEAR
    # Some come near it.
    assert ends.min() < lowest + 0.01


def test_under_the_printed_term_the_best_is_the_best_corner() -> None:
    """At one S1 the printed term is linear in the rates: hold, drop, hold, drop to 0, one by one."""
    choice, tried, step = best(law="cpt-replay-printed"), [], 30
    warmup = choice.warmup
    for kept in range(warmup, STEPS + 1, step):
        for left in range(kept, STEPS + 1, step):
            for level in (0.25, 0.5, 0.75):
                # What is not held at the cap is not warmed up to it either.
                top = CAP if kept > warmup else level * CAP
                rates = np.r_[
                    linear(warmup, 0.0, top).learning_rates(),
                    np.full(kept - warmup, CAP),
                    np.full(left - kept, level * CAP),
                    np.zeros(STEPS - left),
                ]
                tried.append(Schedule.from_log(np.arange(1, STEPS + 1), rates))
    lowest = expected(choice, *tried).min()
    assert choice.values["free"].mean() == pytest.approx(lowest, abs=5e-4)


def test_the_best_of_the_families_are_better_than_a_grid_of_them() -> None:
    choice, least = best(), shortest_decay(lab())
    warmup, tried = choice.warmup, {}
    for peak in (0.01, 0.2, 0.5, 0.8, 1.0):
        for final in (0.0, 0.05, 0.3):
            rate = peak * CAP
            own = cosine(STEPS, rate, final * rate, warmup_steps=warmup)
            tried[f"cosine {peak} {final}"] = own
            for share in (least, 0.2, 0.6):
                tried[f"wsd {peak} {final} {share}"] = warmup_stable_decay(
                    STEPS,
                    rate,
                    final * rate,
                    decay_steps=round(share * (STEPS - warmup)),
                    warmup_steps=warmup,
                )
    for name, end in zip(tried, expected(choice, *tried.values()), strict=True):
        assert choice.values[name.split()[0]].mean() <= end + NEAR, name


def test_one_printed_draw() -> None:
    choice = choose_schedule(printed_posterior("moderate"), "base", 0.0, 4000)
    assert {own.shape for own in choice.values.values()} == {(1,)}


BASE, REPLAY, RUN = "annealed_0pct", 0.25, 800


@cache
def chosen() -> ScheduleChoice:
    return choose_schedule(lab_posterior(), BASE, REPLAY, RUN, "domain-focus", draws=40)


def test_the_choice_holds_the_forecast_of_its_plan() -> None:
    """Run by run and draw by draw."""
    choice = chosen()
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
    drawn = [lab_posterior().predict(choice.plan, draws=100, seed=seed) for seed in range(8)]
    residuals = [(own["loss"] - own["expected"]).sel(run=choice.advised, step=RUN) for own in drawn]
    weights = choice.valuation.weights
    every = np.concatenate(
        [weights @ own.transpose("domain", ...).to_numpy().reshape(2, -1) for own in residuals]
    )
    # The median over draws of the sd, where sizes differ between draws.
    assert choice.noise == pytest.approx(float(np.median(np.abs(every)) / 0.6745), rel=0.25)


def test_a_cap_and_the_shortest_decay_are_kept() -> None:
    choice = choose_schedule(lab_posterior(), "stable_12k", 0.0, 300, cap=5e-4, draws=12)
    for own in choice.schedules.values():
        # After the line down from the base's learning rate.
        assert own.learning_rates()[choice.warmup - 1 :].max() <= 5e-4 * (1 + 1e-9)
    decay = choice.schedules["wsd"].segments[-1]
    least = shortest_decay(lab()) * (300 - choice.warmup)
    assert decay.steps >= round(least)
    assert shortest_decay(lab()) <= 0.1


def test_what_is_not_given_is_the_best_of_what_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bayes_cpt.decisions.schedule_choice.CANDIDATES", 128)
    runs = lab().continual_runs

    def chosen_from(base: str | None, replay: float | None) -> ScheduleChoice:
        return choose_schedule(lab_posterior(), base, replay, 300, "domain-focus", draws=8)

    choice = chosen_from("stable_12k", None)
    assert choice.taken == ("replay",)
    assert choice.replay in {run.replay or 0.0 for run in runs}
    for replay in (0.0, 0.25, 0.5):
        other = chosen_from("stable_12k", replay).values["wsd"]
        assert choice.values["wsd"].mean() <= other.mean() + NEAR
    choice = chosen_from(None, 0.25)
    assert choice.taken == ("base",)
    for base in {str(run.base) for run in runs}:
        assert choice.values["wsd"].mean() <= chosen_from(base, 0.25).values["wsd"].mean() + NEAR

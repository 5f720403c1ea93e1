import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from synthetic import lab_posterior

from bayes_cpt.decisions.free_schedule import TERMS, Criterion
from bayes_cpt.decisions.objective import read_objective
from bayes_cpt.decisions.schedule_choice import (
    CRITERIA,
    FAMILIES,
    ScheduleChoice,
    choose_schedule,
)
from bayes_cpt.errors import SpecError
from bayes_cpt.report.words.schedule import course
from bayes_cpt.study.folder import read_plan, runs_text
from bayes_cpt.study.schedules import constant, cosine, linear

STEPS, REPLAY, BASE = 800, 0.25, "annealed_0pct"


@cache
def chosen() -> ScheduleChoice:
    return choose_schedule(lab_posterior(), BASE, REPLAY, STEPS, "domain-focus", draws=40)


def test_values_are_the_forecast_of_the_plan() -> None:
    """Under the law's own term, run by run and draw by draw."""
    choice = chosen()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bands = lab_posterior().predict(choice.plan, kind="expected", draws=40)
    last = bands["expected"].sel(step=STEPS).stack(sample=("chain", "draw"))
    weights = read_objective("domain-focus").combination(("general", "kernel"))
    for family in FAMILIES:
        expected = weights @ last.sel(run=family).transpose("domain", "sample").to_numpy()
        found = choice.values.sel(criterion="both", family=family, term="annealing")
        np.testing.assert_allclose(found, expected, atol=1e-9)


def test_the_table_holds_the_gains_draw_by_draw() -> None:
    choice = chosen()
    table = choice.table(0.8).set_index(["optimised", "against", "term"])
    assert len(table) == len(CRITERIA) * 2 * len(TERMS)
    assert table["recommended"].groupby("optimised").all().to_dict() == {
        "annealing": False,
        "multi_power": False,
        "both": True,
    }
    for criterion in CRITERIA:
        for against in ("cosine", "wsd"):
            for term in TERMS:
                pair = choice.values.sel(criterion=criterion, term=term)
                gains = (pair.sel(family=against) - pair.sel(family="free")).to_numpy()
                row = table.loc[criterion, against, term]
                assert row["mean"] == pytest.approx(gains.mean())
                assert row["lower"] == pytest.approx(np.quantile(gains, 0.1))
                assert row["probability"] == np.mean(gains > 0)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("against", ["cosine", "wsd"])
def test_nothing_is_lost_under_what_was_optimised(criterion: Criterion, against: str) -> None:
    assert chosen().gains(criterion, against, criterion).mean() > -1e-4


def test_gains_under_both_hold_the_draws_of_both() -> None:
    choice = chosen()
    own = [choice.gains("both", "wsd", term) for term in TERMS]
    np.testing.assert_array_equal(
        np.sort(choice.gains("both", "wsd", "both")), np.sort(np.concatenate(own))
    )


def test_the_corner_of_the_annealing_term_does_not_survive_the_other() -> None:
    choice = chosen()
    assert choice.gains("annealing", "wsd", "annealing").mean() > 0
    assert choice.gains("annealing", "wsd", "multi_power").mean() < 0
    assert "the gain does not survive" in " ".join(choice.sentences())


@pytest.mark.parametrize(
    ("gains", "words"),
    [
        ((0.02, 0.01), ("WSD) survives under both terms", "about")),
        ((0.02, -0.01), ("WSD) rests on the law's annealing term and does not survive",)),
        ((-0.01, 0.02), ("WSD) rests on the multi-power term and does not survive the other",)),
        ((-0.01, -0.02), ("A gain over the best hold-and-decay (WSD) is sure under neither",)),
        (
            (0.0003, 0.0001),
            ("(WSD) the free schedule gains nothing that can be told", "easier to train"),
        ),
    ],
)
def test_the_verdict_is_about_both_terms(
    gains: tuple[float, float], words: tuple[str, ...]
) -> None:
    choice = chosen()
    values = choice.values.copy()
    for term, gain in zip(TERMS, gains, strict=True):
        free = values.loc[{"criterion": "both", "family": "free", "term": term}]
        values.loc[{"criterion": "both", "family": "wsd", "term": term}] = free + gain
    verdict = replace(choice, values=values).sentences()[3]
    for own in words:
        assert own in verdict


def test_the_noise_is_that_of_a_new_run() -> None:
    choice = chosen()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        drawn = [lab_posterior().predict(choice.plan, draws=100, seed=seed) for seed in range(8)]
    residuals = [(own["loss"] - own["expected"]).sel(run="free", step=STEPS) for own in drawn]
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


def test_a_cap_is_kept_and_the_recommendation_is_by_the_criterion_asked_for() -> None:
    choice = choose_schedule(
        lab_posterior(), "stable_12k", 0.0, 300, cap=5e-4, criterion="multi_power", draws=12
    )
    for own in choice.schedules.values():
        # After the line down from the base's learning rate.
        assert own.learning_rates()[choice.warmup - 1 :].max() <= 5e-4 * (1 + 1e-9)
    assert choice.schedule is choice.schedules["multi_power", "free"]
    assert "the multi-power term." in choice.sentences()[0]


@pytest.mark.parametrize(
    ("changes", "fragments"),
    [
        ({"base": "stable_12"}, ("no base 'stable_12'", "did you mean 'stable_12k'")),
        ({"replay": 25.0}, ("25 is no share", "write 0.25 for 25 %")),
        ({"steps": 10}, ("10 steps are too few",)),
        ({"cap": 2.0}, ("2 is no raw learning rate", "2e-4")),
        ({"objective": "balance"}, ("no preset 'balance'", "did you mean 'balanced'")),
    ],
)
def test_bad_input_is_refused(changes: dict[str, object], fragments: tuple[str, ...]) -> None:
    given: dict[str, object] = {"base": BASE, "replay": REPLAY, "steps": STEPS} | changes
    with pytest.raises(SpecError) as caught:
        choose_schedule(lab_posterior(), draws=4, **given)  # type: ignore[arg-type]
    for fragment in fragments:
        assert fragment.lower() in str(caught.value).lower()


def test_a_course_is_told_in_steps() -> None:
    schedule = linear(20, 0.0, 1e-3) + constant(680, 1e-3) + cosine(300, 1e-3, 0.0)
    text = course(schedule, 0.0, 20)
    assert text.startswith("re-warm in 20 steps to 0.001, keep that (within 5 %) to step 743 of")
    assert "be at half of it with 150 steps to go" in text
    assert "below a hundredth of it for the last 20" in text
    assert text.endswith("end at 0")
    assert course(constant(50, 1e-3), 1e-3, 0) == (
        "go on at 0.001 and stay there to the last of 50 steps"
    )
    assert course(constant(50, 1e-4), 1e-3, 1).startswith("go down in 1 steps to 0.0001")

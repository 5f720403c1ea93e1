"""Third validation sets: weights against simulated ones, forecasts against the sets they are sums of."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from synthetic import as_posterior, lab, posterior_near_the_mode, prior_as_posterior
from target_family import MIXED, RUNS, TARGETS, continued, several
from target_family import simulated as simulated_family
from third_set import LEVEL, MADE, with_mix

from bayes_cpt import Posterior, Study, bands, bundled_study, read_spec, table
from bayes_cpt.errors import StudyError, StudyWarning
from bayes_cpt.forecast.plans import PlanError
from bayes_cpt.forecast.third_sets import (
    WEIGHT_MEAN,
    WEIGHT_SD,
    Changes,
    Sizes,
    draw_sizes,
    draw_weights,
    pattern_probability,
    third_sets,
    weight_table,
)
from bayes_cpt.model.discrepancy import unit_ramps
from bayes_cpt.model.joint_priors import draw_priors
from bayes_cpt.model.setup import build_setup

PLAN = bundled_study() / "plan-example.toml"
STEPS = np.array([20.0, 60.0, 150.0, 300.0, 600.0, 900.0, 1200.0, 1600.0, 2000.0, 2500.0, 3000.0])
RAMPS = unit_ramps(STEPS, 6.0, 1.0)
REFERENCE = 3000.0
FULL = ("general", "kernel", "mix")


@pytest.fixture(scope="module")
def study() -> Study:
    runs = ["pt_trunk", "pt_anneal0", "r00_cos", "r25_cos", "r50_cos", "r75_wsd", "r25_a0_rewarm"]
    return with_mix(lab().subset(runs), noise=0.002)


@pytest.fixture(scope="module")
def posterior(study: Study) -> Posterior:
    return posterior_near_the_mode(study)


def simulated(generator: np.random.Generator, runs: int) -> tuple[Any, list[Changes]]:
    """Return weights and sizes from their priors, and what runs show of them."""
    weights = WEIGHT_MEAN + WEIGHT_SD * generator.standard_normal(2)
    made = np.array([0.02, 0.01, 60.0]) * np.exp(generator.standard_normal(3) * [0.5, 0.5, 0.3])
    sizes = Sizes(*(np.array([own]) for own in (*made, 0.3)))
    data = []
    for _ in range(runs):
        course = np.log1p(STEPS / 100.0)
        courses = [own * course for own in generator.normal([0.1, -0.3], [0.1, 0.1])]
        causes = np.stack(courses, axis=1)
        bare = Changes(STEPS, STEPS, causes[None], np.linspace(1, 0, 11), np.zeros(11), RAMPS)
        residual = sizes.drawn(bare, generator)[0]
        data.append(replace(bare, change=causes @ weights + residual))
    return weights, data


def test_intervals_hold_the_weights_that_made_the_runs() -> None:
    generator, inside = np.random.default_rng(2), []
    for _ in range(50):
        weights, data = simulated(generator, runs=2)
        sizes = draw_sizes(data, REFERENCE, np.full(300, 0.3), generator)
        lower, upper = np.quantile(draw_weights(data, sizes, generator), [0.05, 0.95], axis=0)
        inside += list((lower <= weights) & (weights <= upper))
    # Of 100, which come in pairs: 90 are expected, with an sd of 3 to 4.
    assert 80 <= sum(inside) <= 98


def test_a_pattern_in_what_is_left_is_found_where_there_is_one(study: Study) -> None:
    runs, generator = [*study.continual_runs], np.random.default_rng(3)
    weights, data = simulated(generator, len(runs))
    sizes = Sizes(*(np.full(200, own) for own in (0.02, 0.01, 60.0, 0.3)))
    draws = [replace(own, causes=own.causes.repeat(200, 0)) for own in data]
    left = [own.change - own.linear(np.tile(weights, (200, 1))) for own in draws]
    assert pattern_probability(draws, left, sizes, runs, generator) > 0.05
    leaning = [own + 0.5 * (run.replay or 0.0) for own, run in zip(left, runs, strict=True)]
    assert pattern_probability(draws, leaning, sizes, runs, generator) < 0.05


def test_weights_of_a_sum_of_the_two_losses_are_found(posterior: Posterior) -> None:
    with pytest.warns(StudyWarning, match="Eq. 6 misses pycode"):
        found = weight_table(posterior, ("mix", "pycode"), 100).set_index("domain")
    for name, weight in zip(("general", "target"), MADE.values(), strict=True):
        assert found.loc["mix", name] == pytest.approx(weight, abs=0.08)
    assert found.loc["mix", "explained"] > 0.99
    assert not found.loc["mix", "caution"]
    assert found.loc["pycode", "explained"] < 0.8
    still = with_mix(lab(), dict.fromkeys(MADE, 0.0), 2.0, 0.002)
    assert not weight_table(replace(posterior, study=still), ("mix",), 50)["caution"][0]


def test_a_set_has_a_weight_for_every_target() -> None:
    """A set made of the losses on three targets is told apart, and forecast as their sum."""
    family = several(runs=tuple(run for run in RUNS if run.name != "annealed"))
    frame = build_setup(read_spec("cpt-replay"), family).frame
    medians = {name: np.median(own, axis=0) for name, own in draw_priors(frame, 200, 1).items()}
    medians["shift_share"][1:] = [0.1, 0.2, 0.3]
    truth = {name: own[None] for name, own in medians.items()}
    weights = {"web": 0.4, "code": 0.8, "law": 0.0, "news": -0.3}
    whole = with_mix(simulated_family(family, truth, "cpt-replay", 4), weights, 1.0)
    shape = {name: np.tile(own, (4, 10) + (1,) * own.ndim) for name, own in medians.items()}
    posterior = as_posterior(frame, whole, shape)
    found = weight_table(posterior, ("mix",), 40).iloc[0]
    for name, weight in zip(("general", *TARGETS), weights.values(), strict=True):
        assert found[name] == pytest.approx(weight, abs=0.1)
        assert found[f"{name}_lower"] < weight < found[f"{name}_upper"]
    runs = (continued("new", MIXED, 0.1, 2000),)
    plan = replace(family, runs=runs, losses=family.losses[:0], is_plan=True)
    with warnings.catch_warnings(action="ignore", category=StudyWarning):
        table = bands(posterior, plan, "expected", draws=40, sets=("mix",))
    last = table[table["step"] == 2000].set_index("domain")["mean"]
    wanted = sum(weight * last[name] for name, weight in weights.items()) + 1.0
    assert last["mix"] == pytest.approx(wanted, abs=0.02)


def test_a_forecast_of_the_sum_is_the_sum_of_forecasts(posterior: Posterior, study: Study) -> None:
    dataset = posterior.predict(PLAN, draws=100, sets=("mix",))
    last = dataset["loss"].sel(run="long_r25").isel(step=-1).stack(sample=("chain", "draw"))
    general, target, mix = (last.sel(domain=name).to_numpy() for name in FULL)
    wanted = MADE["general"] * general + MADE["kernel"] * target + LEVEL
    assert np.abs(mix - wanted).mean() < 0.5 * wanted.std() + 0.03
    assert np.corrcoef(mix, wanted)[0, 1] > 0.7
    shown = table(dataset).groupby(["run", "domain"], sort=False).size()
    assert {domain for _, domain in shown.index} == set(FULL)


def test_what_was_there_before_is_the_same_beside_third_sets(posterior: Posterior) -> None:
    without = bands(posterior, PLAN, draws=40)
    beside = bands(posterior, PLAN, draws=40, sets=("mix",))
    pd.testing.assert_frame_equal(beside[beside["domain"] != "mix"].reset_index(drop=True), without)
    assert set(beside.loc[beside["domain"] == "mix", "outside"]) == set(without["outside"])


def test_points_are_asked_for_by_set_and_known_runs_keep_what_was_measured(
    posterior: Posterior, study: Study
) -> None:
    steps, losses = study.curve("r25_cos", "mix")
    at = pd.DataFrame({"run": "r25_cos", "domain": "mix", "step": [int(steps[5]), int(steps[-1])]})
    found = bands(posterior, None, "known_run", at=at, draws=40, sets="mix")
    assert list(found["domain"]) == ["mix", "mix"]
    np.testing.assert_allclose(found["median"], losses[[5, -1]], rtol=1e-9)


@pytest.mark.parametrize("names", [("mixx",), ("general",)])
def test_a_set_that_is_not_there_is_told(posterior: Posterior, names: tuple[str, ...]) -> None:
    with pytest.raises(StudyError, match=r"no third validation set .*Name one of ccode, mix"):
        bands(posterior, PLAN, sets=names)


def test_a_law_of_pretraining_has_none() -> None:
    with pytest.raises(StudyError, match=r"knows no CPT phase.*--model cpt"):
        bands(prior_as_posterior(lab(), "pretrain"), sets=("ccode",))


def test_a_base_that_was_not_measured_is_told(posterior: Posterior, study: Study) -> None:
    base = replace(study.base("stable_12k"), name="elsewhere", run=None)
    run = replace(study.run("r25_cos"), name="new", base="elsewhere")
    plan = Study("plan", "general", "kernel", (base,), (run,), study.losses.iloc[:0], is_plan=True)
    with pytest.raises(PlanError, match=r"the base elsewhere was not measured.*row at step 0"):
        bands(posterior, plan, draws=8, sets=("mix",))


def test_a_set_that_no_run_tells_of_is_told(study: Study) -> None:
    losses = study.losses
    bare = replace(study, losses=losses[(losses["domain"] != "mix") | (losses["step"] == 0)])
    posterior = prior_as_posterior(bare)
    with pytest.raises(StudyError, match=r"domain mix: no CPT run tells.*at its base"):
        third_sets(posterior, ("mix",), posterior.parameters(8))

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import lab, lab_posterior, prior_as_posterior

import bayes_cpt
from bayes_cpt.decisions.objective import read_objective
from bayes_cpt.identify.determination import determination
from bayes_cpt.inference.fit_files import FitFileError
from bayes_cpt.inference.law_checks import RUN, LawCheck
from bayes_cpt.inference.posterior import Posterior, StackError, apportioned, load, stack
from bayes_cpt.model.spec import read_spec
from bayes_cpt.planner.page import Planner
from bayes_cpt.report.page import report

OURS, PRINTED = "cpt-replay", "cpt-replay-printed"
PLAN = "data/cpt-lab/plan-example.toml"


def mixture(share: float = 0.7) -> Posterior:
    laws = {name: lab_posterior(name) for name in (OURS, PRINTED)}
    return stack(laws, {OURS: share, PRINTED: round(1.0 - share, 9)}, seed=3)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=6), st.integers(0, 500))
def test_shares_add_up_and_lie_within_one_of_the_weights(weights: list[float], count: int) -> None:
    shares = np.array(weights) / sum(weights)
    counts = apportioned(shares, count)
    assert counts.sum() == count
    assert (np.abs(counts - shares * count) < 1.0).all()


def test_a_forecast_is_that_of_the_laws_put_together() -> None:
    whole = mixture()
    bands = whole.predict(PLAN, kind="expected", draws=80)
    parts = [
        law.predict(PLAN, kind="expected", draws=count)["expected"].stack(s=("chain", "draw"))
        for law, count in whole.shares(80)
    ]
    wanted = np.concatenate([part.transpose("s", ...).to_numpy() for part in parts])
    np.testing.assert_allclose(bands["expected"].to_numpy()[0], wanted)
    np.testing.assert_allclose(bands["mean"], wanted.mean(axis=0), atol=1e-9)
    np.testing.assert_allclose(bands["sd"], wanted.std(axis=0), rtol=0.03)
    np.testing.assert_allclose(bands["upper"], np.quantile(wanted, 0.95, axis=0), atol=1e-9)


@pytest.mark.parametrize("kind", ["new_run", "known_run"])
def test_bands_of_measured_runs_pool_the_draws(kind: str) -> None:
    whole = mixture(0.5)
    plan = None if kind == "known_run" else PLAN
    found = bayes_cpt.bands(whole, plan, kind, draws=80)  # type: ignore[arg-type]
    # Each law alone would begin where it holds.
    at = found[["run", "domain", "step"]]
    parts = [
        bayes_cpt.bands(law, plan, kind, at=at, draws=count)  # type: ignore[arg-type]
        for law, count in whole.shares(80)
        if count is not None
    ]
    means = np.stack([part["mean"] for part in parts])
    spread = np.stack([part["sd"] for part in parts])
    np.testing.assert_allclose(found["mean"], means.mean(axis=0), rtol=1e-10)
    wanted = np.sqrt((spread**2).mean(axis=0) + means.var(axis=0))
    np.testing.assert_allclose(found["sd"], wanted, rtol=1e-8)
    assert (found["lower"] >= np.min([part["lower"] for part in parts], axis=0) - 1e-9).all()
    assert (found["upper"] <= np.max([part["upper"] for part in parts], axis=0) + 1e-9).all()


def test_a_stack_of_one_law_is_that_law() -> None:
    law = lab_posterior(OURS)
    alone = mixture(1.0)
    assert alone.weights == (1.0,)
    found, wanted = (bayes_cpt.bands(own, PLAN, draws=80, seed=2) for own in (alone, law))
    np.testing.assert_array_equal(found["upper"], wanted["upper"])
    options: dict[str, Any] = {"draws": 80, "candidates": 128, "seed": 1}
    choice, own = (bayes_cpt.decide(each, "balanced", **options) for each in (alone, law))
    assert choice.verdict() == own.verdict()


def test_landmarks_have_the_draws_of_all_laws() -> None:
    whole = mixture()
    plan = lab().subset(["r00_cos", "r25_cos"]).without_losses()
    survey = bayes_cpt.landmarks.survey(whole, plan, draws=80)
    assert survey.peaks.draws.sizes["draw"] == 80
    assert survey.turning.draws.sizes["draw"] == 80
    assert survey.choices is not None
    ours = bayes_cpt.landmarks.critical_point(lab_posterior(OURS), draws=56).draws["rise"]
    found = survey.choices.critical.draws["rise"]
    np.testing.assert_allclose(found.sel(replay=0.25)[:56], ours.sel(replay=0.25))
    parts = bayes_cpt.landmarks.decompose(whole, runs=["r25_cos"], draws=80)
    # The printed law keeps nothing of what its base lies off the law: that is 0 in its draws.
    assert np.nan_to_num(parts["base_offset"][:56]).any()
    np.testing.assert_array_equal(np.nan_to_num(parts["base_offset"][56:]), 0.0)
    np.testing.assert_allclose(sum(parts[name] for name in parts.attrs["parts"]), parts["expected"])


def test_effects_are_those_of_all_draws_and_parameters_those_of_each_law() -> None:
    whole = mixture()
    table = whole.summary()
    assert table.groupby("law", sort=False)["weight"].first().to_dict() == {OURS: 0.7, PRINTED: 0.3}
    own = table[table["law"] == PRINTED].drop(columns=["law", "weight"]).reset_index(drop=True)
    assert own.equals(lab_posterior(PRINTED).summary())
    of_parameters = table[table["kind"] == "parameter"].reset_index(drop=True)
    assert of_parameters.equals(whole.summary(coefficients=False))
    effects = determination(whole).set_index(["quantity", "domain"])["mean"]
    parts = (determination(lab_posterior(name)) for name in (OURS, PRINTED))
    of_effects = (
        part.query("kind == 'effect'").set_index(["quantity", "domain"]) for part in parts
    )
    means = [part["mean"].loc[effects.index] for part in of_effects]
    np.testing.assert_allclose(effects, (100 * means[0] + 40 * means[1]) / 140, atol=2e-2)


def test_what_one_law_alone_has_is_refused() -> None:
    for ask in (
        lambda: mixture().parameters(),
        lambda: bayes_cpt.next_run(mixture(), "balanced"),
        lambda: report(mixture()),
        lambda: Planner.of(mixture(), read_objective("balanced")),
    ):
        with pytest.raises(StackError, match="can only be had of one law") as error:
            ask()
        assert f"({OURS}, {PRINTED})" in str(error.value)


def test_a_stack_is_one_file(tmp_path: Path) -> None:
    whole = mixture()
    whole.save(tmp_path / "stack.nc")
    found = load(tmp_path / "stack.nc")
    assert found.stacked
    assert (found.weights, found.seed, found.trustworthy) == ((0.7, 0.3), 3, True)
    assert found.frame.spec.name == f"a stack of 70 % {OURS} and 30 % {PRINTED}"
    before, after = (bayes_cpt.bands(own, PLAN, draws=40)["lower"] for own in (whole, found))
    np.testing.assert_array_equal(before, after)


def test_shortcomings_are_those_of_the_laws_in_it() -> None:
    bad = prior_as_posterior(lab(), read_spec(PRINTED))
    bad.tree.attrs["problems"] = json.dumps(["R-hat of memory is 1.2"])
    laws, halves = {OURS: lab_posterior(OURS), PRINTED: bad}, {OURS: 0.5, PRINTED: 0.5}
    assert stack(laws, halves, 0).problems == (f"{PRINTED}: R-hat of memory is 1.2",)
    assert stack(laws, {OURS: 1.0, PRINTED: 0.0}, 0).trustworthy
    alarm = LawCheck(RUN, "r25_cos", "cpt", "kernel", 0.02, 0.005, 4.0, 1e-4, True)
    bad.tree.attrs["law_checks"] = json.dumps([asdict(alarm)])
    assert stack(laws, halves, 0).law_checks.alarms == (alarm,)
    assert not stack(laws, halves, 0).law_fits


def test_forged_weights_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "stack.nc"
    mixture().save(path)
    forged: list[tuple[list[float], str]] = [
        *(([0.7, 0.4], "add up"), ([0.7, -0.3], "positive")),
        *(([1.0], "laws and weights differ"), ([], "positive")),
    ]
    for weights, words in forged:
        with h5py.File(path, "r+") as file:
            file.attrs["weights"] = json.dumps(weights)
        with pytest.raises(FitFileError, match=words):
            load(path)

"""Forecasts of runs that branch off a measured one."""

import numpy as np
import pandas as pd
import pytest
from branching import COOLED, LEFT, TRUNK, plan_of, rows, trunk_posterior

from bayes_cpt.forecast.bands import bands
from bayes_cpt.forecast.predict import predict
from bayes_cpt.study.runs import Branch
from bayes_cpt.validate.comparison.log_scores import log_score
from bayes_cpt.validate.folds import Question

AT = [LEFT + 1, LEFT + 50, 2500, 3000, 4000]


def at(run: str) -> pd.DataFrame:
    return pd.DataFrame({"run": run, "domain": "web", "step": AT})


def test_a_branch_that_changes_nothing_is_the_trunk_seen_so_far() -> None:
    plan = plan_of(TRUNK, Branch("trunk", LEFT))
    branch = bands(trunk_posterior(), plan, at=at("planned"))
    seen = trunk_posterior(last_step=LEFT)
    known = bands(seen, seen.study, kind="known_run", at=at("trunk"))
    for name in ("mean", "median", "sd", "lower", "upper"):
        np.testing.assert_allclose(branch[name], known[name], rtol=1e-10)


def test_draws_are_those_of_the_bands() -> None:
    plan = plan_of(COOLED, Branch("trunk", LEFT))
    steps = at("planned").assign(step=[LEFT + 1, LEFT + 50, 2300, 2500, 2800])
    found = predict(trunk_posterior(), plan, at=steps, draws=100)
    loss = found["loss"].stack(sample=("chain", "draw")).sel(run="planned", domain="web")
    error = found["sd"].to_numpy().ravel() / np.sqrt(loss.sizes["sample"])
    apart = loss.mean("sample").to_numpy() - found["mean"].to_numpy().ravel()
    assert (np.abs(apart) < 4 * error).all()


def test_a_branch_goes_on_where_the_trunk_was() -> None:
    measured = 3.0 + 8.0 * LEFT**-0.3
    steps = at("planned").assign(step=[LEFT + 1, LEFT + 50, 2300, 2500, 2800])
    alone = bands(trunk_posterior(), plan_of(COOLED, None), at=steps)
    branch = bands(trunk_posterior(), plan_of(COOLED, Branch("trunk", LEFT)), at=steps)
    assert branch["mean"].iloc[0] == pytest.approx(measured, abs=0.02)
    assert (branch["sd"] < alone["sd"]).all()
    assert branch["sd"].iloc[0] < 0.2 * alone["sd"].iloc[0]


def test_a_plan_that_names_no_run_of_the_study_is_a_new_run() -> None:
    plan = plan_of(COOLED, Branch("other", LEFT))
    alone = bands(trunk_posterior(), plan_of(COOLED, None))
    pd.testing.assert_frame_equal(bands(trunk_posterior(), plan), alone)


def test_log_score_is_that_of_the_trunk_seen_so_far() -> None:
    measured = rows([("planned", t, "web", 3.0 + 8.0 * t**-0.3) for t in range(2200, 4001, 200)])
    plan = plan_of(TRUNK, Branch("trunk", LEFT))
    points = measured[["run", "domain", "step"]]
    branch = log_score(trunk_posterior(), Question(trunk_posterior().study, plan, points), measured)
    seen = trunk_posterior(last_step=LEFT)
    own = measured.assign(run="trunk")
    question = Question(seen.study, seen.study, own[["run", "domain", "step"]], known=True)
    assert branch.value == pytest.approx(log_score(seen, question, own).value, rel=1e-8)

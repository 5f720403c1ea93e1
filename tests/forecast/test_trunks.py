"""Forecasts of PT runs that branch off a measured one."""

import numpy as np
import pandas as pd
import pytest
from branching import COOLED, LEFT, TRUNK, plan_of, rows, trunk_posterior
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from bayes_cpt import Posterior, bands, predict
from bayes_cpt.forecast.plans import PlanError
from bayes_cpt.study.runs import Branch
from bayes_cpt.validate.folds import Question
from bayes_cpt.validate.held_out import log_score

STEPS = [LEFT + 1, LEFT + 50, 2300, 2500, 2800]
AT = pd.DataFrame({"run": "planned", "domain": "web", "step": STEPS})
MEASURED = 3.0 + 8.0 * LEFT**-0.3 + 0.004 * float(np.sin(LEFT))


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    return trunk_posterior()


def test_a_branch_goes_on_where_the_trunk_was(posterior: Posterior) -> None:
    alone = bands(posterior, plan_of(COOLED, None), at=AT)
    branch = bands(posterior, plan_of(COOLED, Branch("trunk", LEFT)), at=AT)
    assert branch["mean"].iloc[0] == pytest.approx(MEASURED, abs=0.002)
    assert branch["sd"].iloc[0] < 0.2 * alone["sd"].iloc[0]
    assert (branch["sd"] < alone["sd"]).all()
    assert branch["sd"].is_monotonic_increasing


def test_the_laws_curve_starts_at_the_trunks_loss(posterior: Posterior) -> None:
    plan = plan_of(TRUNK, Branch("trunk", LEFT))
    expected = predict(posterior, plan, kind="expected", at=AT)["expected"]
    alone = AT.assign(step=[LEFT, *STEPS[1:]])
    law = predict(posterior, plan_of(TRUNK, None), kind="expected", at=alone)["expected"]
    moved = expected.sel(step=STEPS[1:]) - law.sel(step=STEPS[1:])
    np.testing.assert_allclose(moved, moved.isel(step=[0] * 4).to_numpy(), atol=1e-9)
    np.testing.assert_allclose(moved.isel(step=0) + law.sel(step=LEFT), MEASURED, atol=1e-9)


def test_draws_are_those_of_the_bands(posterior: Posterior) -> None:
    found = predict(posterior, plan_of(COOLED, Branch("trunk", LEFT)), at=AT, draws=100)
    loss = found["loss"].stack(sample=("chain", "draw")).sel(run="planned", domain="web")
    sd, count = found["sd"].to_numpy().ravel(), loss.sizes["sample"]
    apart = loss.mean("sample").to_numpy() - found["mean"].to_numpy().ravel()
    assert (np.abs(apart) < 4 * sd / np.sqrt(count)).all()
    assert loss.std("sample").to_numpy() == pytest.approx(sd, rel=4 / np.sqrt(2 * count))


def test_a_plan_that_names_no_run_of_the_study_is_a_new_run(posterior: Posterior) -> None:
    alone = bands(posterior, plan_of(COOLED, None))
    pd.testing.assert_frame_equal(bands(posterior, plan_of(COOLED, Branch("other", LEFT))), alone)


def test_the_log_score_is_that_of_the_draws() -> None:
    # One covariance stands for all draws below, so that they must be alike.
    posterior = trunk_posterior(spread=0.02, draws=2000)
    measured = rows([("planned", t, "web", 3.0 + 8.0 * t**-0.3) for t in (2300, 2800)])
    plan = plan_of(COOLED, Branch("trunk", LEFT))
    points = measured[["run", "domain", "step"]]
    found = log_score(posterior, Question(posterior.study, plan, points), measured)
    # Normals about the law's curve, with the moments of many draws each.
    drawn = predict(posterior, plan, at=points.assign(domain="web"), draws=8000)
    about = (drawn["loss"] - drawn["expected"]).stack(sample=("chain", "draw"))
    spread = np.cov(about.sel(run="planned", domain="web").to_numpy())
    law = drawn["expected"].stack(sample=("chain", "draw")).sel(run="planned", domain="web")
    losses = measured["loss"].to_numpy()
    each = [multivariate_normal.logpdf(losses, own, spread) for own in law.to_numpy().T]
    assert found.value == pytest.approx(logsumexp(each) - np.log(len(each)), abs=1.0)


def test_before_the_branch_the_trunk_is_to_be_asked(posterior: Posterior) -> None:
    plan = plan_of(COOLED, Branch("trunk", LEFT))
    assert bands(posterior, plan)["step"].min() > LEFT
    with pytest.raises(PlanError, match="up to step 2000 the run is trunk"):
        bands(posterior, plan, at=AT.assign(step=[LEFT, *STEPS[1:]]))

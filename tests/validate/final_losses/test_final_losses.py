from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from synthetic import lab

from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.study import Study
from bayes_cpt.validate.final_losses import final_losses
from bayes_cpt.validate.final_losses.final_losses import (
    D_CPT,
    DATA_MIXING,
    LAWS,
    FinalLossLaw,
    d_cpt_losses,
    mixing_losses,
    predict,
)
from bayes_cpt.validate.folds import leave_run_out
from bayes_cpt.validate.held_out import FINAL_LOSS_ANSWERS, Method
from bayes_cpt.validate.paper_method import BaselineError

TRUTHS = {
    "d-cpt": np.array([2.0, np.log(0.4), np.log(0.5), np.log(0.3), np.log(0.2), -2.0, np.log(0.4)]),
    "data-mixing": np.array([2.5, np.log(0.8), -2.0]),
}


def simulated(law: FinalLossLaw, noise: float) -> Study:
    """Return the bundled study with losses by a law, r being each set's own share."""
    study, generator = lab(), np.random.default_rng(1)
    losses = study.losses.copy()
    replay = losses["run"].map({run.name: run.replay for run in study.runs}).to_numpy(float)
    continual = ~np.isnan(replay) & (losses["step"] > 0).to_numpy()
    share = np.where(losses["domain"] == study.target, 1 - replay, replay)[continual]
    steps = losses["step"].to_numpy(float)[continual] / 3000
    values = losses["loss"].to_numpy().copy()
    values[continual] = law.losses(TRUTHS[law.name], steps, share)
    values[continual] += noise * generator.standard_normal(continual.sum())
    return replace(study, losses=losses.assign(loss=values))


def test_printed_equations() -> None:
    parameters = np.array(
        [1.5, np.log(2.0), np.log(0.5), np.log(0.25), np.log(0.3), np.log(0.1), 0.0]
    )
    found = d_cpt_losses(parameters, np.array([16.0]), np.array([0.25]))
    assert found[0] == pytest.approx(1.5 + 2.0 * 0.5 / 2.0 + 0.3 / 0.35)
    found = mixing_losses(np.array([2.0, np.log(0.5), -3.0]), np.array([1.0]), np.array([0.5]))
    assert found[0] == pytest.approx(2.0 + 0.5 * np.exp(-1.5))


# Losses of these truths do not behave as those of a study do.
@pytest.mark.filterwarnings("ignore::bayes_cpt.errors.StudyWarning")
@pytest.mark.parametrize("law", LAWS.values(), ids=list(LAWS))
def test_a_run_that_was_left_out_is_predicted(law: FinalLossLaw) -> None:
    study = simulated(law, 0.002)
    left = [run for run in study.continual_runs if run.replay == 0.5][:1]
    seen = study.subset([run.name for run in study.runs if run not in left])
    points = pd.DataFrame(
        [(left[0].name, domain, left[0].schedule.steps) for domain in ("general", "kernel")],
        columns=["run", "domain", "step"],
    )
    draws = predict(law, seen, study.without_losses(), points, seed=3)
    truth = law.losses(TRUTHS[law.name], np.ones(2), np.array([0.5, 0.5]))
    np.testing.assert_allclose(np.median(draws, axis=0), truth, atol=0.01)
    assert (draws.std(axis=0) < 0.05).all()


def test_too_few_losses_and_pretraining_runs_are_refused() -> None:
    study = lab()
    points = pd.DataFrame([("r00_const", "general", 3000)], columns=["run", "domain", "step"])
    few = study.subset(["pt_trunk", "r25_cos", "r00_const"])
    with pytest.raises(BaselineError, match="3 parameters, and the study 2 losses"):
        predict(DATA_MIXING, few, study.without_losses(), points)
    with pytest.raises(BaselineError, match="about CPT runs"):
        predict(D_CPT, study, study.without_losses(), points.assign(run="pt_trunk"))


@pytest.mark.parametrize("name", LAWS)
def test_they_answer_the_questions_of_held_out_runs(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(final_losses, "STARTS", 2)
    monkeypatch.setattr(final_losses, "REFITS", 3)
    fold = leave_run_out(lab(), read_spec("cpt-replay"), ["r25_cos"])[0]
    method: Method = FINAL_LOSS_ANSWERS[name]
    answer = method(fold.question, 1)
    assert answer.draws.shape[1] == len(fold.measured)
    assert np.isfinite(answer.draws).all()
    assert answer.log_score is None

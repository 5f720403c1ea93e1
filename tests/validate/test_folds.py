import warnings

import numpy as np
import pandas as pd
import pytest
from synthetic import lab, practice

from bayes_cpt.errors import StudyError
from bayes_cpt.model.spec import read_spec
from bayes_cpt.validate.folds import leave_run_out, leave_tail_out, other_study

SPEC = read_spec("cpt-replay")
PRETRAIN = read_spec("pretrain")


def test_every_continual_run_is_left_out_once() -> None:
    folds = leave_run_out(lab(), SPEC)
    assert [fold.label for fold in folds] == [run.name for run in lab().continual_runs]
    for fold in folds:
        assert fold.seen == 0.0
        assert not fold.question.known
        assert fold.measured["run"].unique().tolist() == [fold.label]
        assert fold.label not in set(fold.question.study.losses["run"])
        assert len(fold.question.study.runs) == len(lab().runs) - 1


def test_a_question_holds_no_loss_but_that_of_the_base() -> None:
    (fold,) = other_study(lab(), practice(), SPEC)
    assert fold.question.plan.is_plan
    assert set(fold.question.plan.losses["step"]) == {0}
    assert "loss" not in fold.question.points
    assert fold.measured["step"].min() > 0
    assert set(fold.measured["domain"]) == {"general", "kernel"}
    assert set(fold.measured["run"]) == {run.name for run in practice().continual_runs}
    counts = practice().losses.query("domain in ('general', 'kernel') and step > 0")
    assert len(fold.measured) == len(counts)


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
def test_a_tail_is_predicted_from_the_head_and_all_other_runs(share: float) -> None:
    folds = leave_tail_out(lab(), SPEC, share)
    assert [fold.label for fold in folds] == [
        f"{run.name} after {100 * share:g} %" for run in lab().continual_runs
    ]
    for fold, run in zip(folds, lab().continual_runs, strict=True):
        study, cut = fold.question.study, share * 3000
        assert fold.question.known
        assert fold.seen == share
        steps, losses = study.curve(run.name, "kernel")
        whole_steps, whole_losses = lab().curve(run.name, "kernel")
        np.testing.assert_array_equal(steps, whole_steps[whole_steps <= cut])
        np.testing.assert_array_equal(losses, whole_losses[whole_steps <= cut])
        own = fold.measured.query("domain == 'kernel'")
        np.testing.assert_array_equal(own["step"], whole_steps[whole_steps > cut])
        np.testing.assert_array_equal(own["loss"], whole_losses[whole_steps > cut])
        others = lab().losses.query("run != @run.name")
        kept = study.losses.query("run != @run.name")
        pd.testing.assert_frame_equal(kept.reset_index(drop=True), others.reset_index(drop=True))


def test_horizons_are_shares_of_the_run_and_ratios_to_what_was_fitted() -> None:
    (fold,) = leave_tail_out(lab(), SPEC, 0.25, ["r25_cos"])
    last = fold.measured.query("domain == 'general'").iloc[-1]
    steps, _ = lab().curve("r25_cos", "general")
    assert last["share"] == 1.0
    assert last["ratio"] == pytest.approx(3000 / steps[steps <= 750][-1])
    (fold,) = other_study(lab(), practice(), SPEC)
    longest = fold.measured.query("run == 'r25_cos_12k'").iloc[-1]
    assert longest["share"] == 1.0
    assert longest["ratio"] == 4.0


def test_pretraining_laws_are_asked_for_pretraining_runs() -> None:
    folds = leave_run_out(lab(), PRETRAIN)
    assert [fold.label for fold in folds] == [run.name for run in lab().pretraining_runs]
    for fold in folds:
        assert not fold.question.study.continual_runs
        assert set(fold.measured["domain"]) == {"general"}
        run = lab().run(fold.label)
        assert fold.measured["step"].min() > 0.1 * run.schedule.steps
    with pytest.raises(StudyError, match=r"r25_cos.*the model predicts no runs of phase cpt"):
        leave_run_out(lab(), PRETRAIN, ["r25_cos"])


def test_runs_that_cannot_be_left_out_are_named() -> None:
    with pytest.raises(StudyError, match="no run 'r26_cos'"):
        leave_run_out(lab(), SPEC, ["r26_cos"])
    names = [run.name for run in lab().pretraining_runs] + ["r25_cos"]
    alone = lab().subset(names)
    with pytest.raises(StudyError, match=r"one run to leave out.*Leave out only tails"):
        leave_run_out(alone, SPEC)
    assert len(leave_tail_out(alone, SPEC, 0.5)) == 1
    with pytest.raises(ValueError, match=r"share is 1\.5"):
        leave_tail_out(lab(), SPEC, 1.5)


def test_a_run_without_points_before_or_after_the_cut_has_no_fold() -> None:
    assert leave_tail_out(lab(), SPEC, 0.001) == []
    stopped = lab().truncated({"r25_cos": 1000})
    assert leave_tail_out(stopped, SPEC, 0.5, ["r25_cos"]) == []


def test_no_warning_is_repeated_for_every_fold() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        leave_run_out(lab(), SPEC)
        leave_tail_out(lab(), SPEC, 0.5)

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy import special
from stand_in import guess, stand_in
from synthetic import lab, lab_posterior, posterior_near_the_mode, practice, prior_as_posterior

from bayes_cpt.errors import StudyError
from bayes_cpt.inference.metric import SamplingError
from bayes_cpt.inference.posterior import Posterior, stack
from bayes_cpt.model.spec import read_spec
from bayes_cpt.validate.folds import Fold, Question, held_out_folds, other_study
from bayes_cpt.validate.held_out import (
    Answer,
    LogScore,
    horizon_table,
    log_score,
    package_method,
    score_folds,
    score_table,
)
from bayes_cpt.validate.scores import DrawsError, summarize
from bayes_cpt.validate.tasks import Pool

SPEC = read_spec("cpt-replay")
PRETRAIN = read_spec("pretrain")
HERE = Pool(jobs=1)
RUN = "r25_cos"


def test_every_continual_run_is_left_out_once() -> None:
    folds = held_out_folds(lab(), SPEC)
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
    asked = practice().losses.query("domain in ('general', 'kernel') and step > 0")
    assert len(fold.measured) == len(asked)


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
def test_a_tail_is_predicted_from_the_head_and_all_other_runs(share: float) -> None:
    folds = held_out_folds(lab(), SPEC, after=[share])
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
    (fold,) = held_out_folds(lab(), SPEC, ["r25_cos"], [0.25])
    last = fold.measured.query("domain == 'general'").iloc[-1]
    steps, _ = lab().curve("r25_cos", "general")
    assert last["share"] == 1.0
    assert last["ratio"] == pytest.approx(3000 / steps[steps <= 750][-1])
    (fold,) = other_study(lab(), practice(), SPEC)
    longest = fold.measured.query("run == 'r25_cos_12k'").iloc[-1]
    assert longest["share"] == 1.0
    assert longest["ratio"] == 4.0


def test_pretraining_laws_are_asked_for_pretraining_runs() -> None:
    folds = held_out_folds(lab(), PRETRAIN)
    assert [fold.label for fold in folds] == [run.name for run in lab().pretraining_runs]
    for fold in folds:
        assert not fold.question.study.continual_runs
        assert set(fold.measured["domain"]) == {"general"}
        run = lab().run(fold.label)
        assert fold.measured["step"].min() > 0.1 * run.schedule.steps
    with pytest.raises(StudyError, match=r"r25_cos.*the model predicts no runs of phase cpt"):
        held_out_folds(lab(), PRETRAIN, ["r25_cos"])


def test_runs_that_cannot_be_left_out_are_named() -> None:
    alone = lab().subset([run.name for run in lab().pretraining_runs] + ["r25_cos"])
    with pytest.raises(StudyError, match=r"fewer than two runs to leave out.*Leave out only tails"):
        held_out_folds(alone, SPEC)
    assert len(held_out_folds(alone, SPEC, after=[0.5])) == 1
    with pytest.raises(ValueError, match=r"shares are \[1\.5\]"):
        held_out_folds(lab(), SPEC, after=[1.5])


def test_tables_are_summaries_by_the_share_that_was_seen() -> None:
    methods = {"ours": guess(2.8, 0.2)}
    folds = held_out_folds(lab(), SPEC, ["r25_cos", "r50_cos"])
    folds += held_out_folds(lab(), SPEC, ["r25_cos"], [0.5])
    points, _ = score_folds(folds, methods, seed=1, pool=HERE)
    scores = score_table(points)
    for seen, rows in points.groupby("seen"):
        own = scores[scores["seen"] == seen]
        expected = summarize(rows)
        pd.testing.assert_frame_equal(own[list(expected)].reset_index(drop=True), expected)
    horizons = horizon_table(points)
    share, ratio = (horizons[horizons["axis"] == axis] for axis in ("share", "ratio"))
    assert share["points"].sum() == (points["seen"] == 0).sum()
    assert ratio["points"].sum() == (points["seen"] > 0).sum()
    assert set(ratio["horizon"]) == {"1 to 1.5x", "1.5 to 2x"}
    only_tails = horizon_table(points[points["seen"] > 0])
    pd.testing.assert_frame_equal(only_tails, ratio.reset_index(drop=True))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (SamplingError("The density is not finite."), "The density is not finite."),
        (DrawsError("No fit."), "No fit."),
    ],
)
def test_a_fold_that_fails_is_counted_and_the_others_go_on(error: Exception, words: str) -> None:
    folds = held_out_folds(lab(), SPEC)[:2]

    def fails(question: Question, seed: int) -> Answer:
        if folds[0].label == question.points["run"].iloc[0]:
            raise error
        return guess(2.8, 0.2)(question, seed)

    points, refits = score_folds(folds, {"ours": fails}, pool=HERE)
    assert refits["trustworthy"].tolist() == [False, True]
    assert refits["problems"].tolist() == [words, "none"]
    assert points["fold"].unique().tolist() == [folds[1].label]


def point_draws(fold: Fold, answer: Answer) -> Callable[[str, int], np.ndarray]:
    points = fold.question.points
    return lambda domain, step: answer.draws[
        :, np.flatnonzero((points["domain"] == domain) & (points["step"] == step))[0]
    ]


def test_the_package_predicts_the_points_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    fits = stand_in(monkeypatch, spread=0.02)
    (fold,) = held_out_folds(lab(), SPEC, ["r25_cos"])
    answer = package_method(fold.question, 7, specs=[SPEC], draws=30, cores=1)
    assert fits.asked[0] == fits.asked[0] | {"seed": 7, "draws": 30, "cores": 1}
    assert fits.asked[0]["study"].digest() == fold.question.study.digest()
    assert answer.draws.shape[1] == len(fold.question.points)
    assert answer.problems == ()
    # A column belongs to its point, whatever order the points come in.
    order = np.random.default_rng(1).permutation(len(fold.question.points))
    mixed = replace(fold.question, points=fold.question.points.iloc[order].reset_index(drop=True))
    again = package_method(mixed, 7, specs=[SPEC], draws=30, cores=1)
    np.testing.assert_array_equal(again.draws, answer.draws[:, order])
    assert np.ptp(answer.draws.mean(axis=0)) > 0.1


def test_the_package_knows_the_head_of_a_predicted_tail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand_in(monkeypatch, lambda study, spec: posterior_near_the_mode(study))
    study = lab()
    (whole,) = held_out_folds(study, SPEC, [RUN])
    (tail,) = held_out_folds(study, SPEC, [RUN], [0.75])
    steps, losses = study.curve(RUN, "kernel")
    after, measured = int(steps[steps > 2250][0]), losses[steps > 2250][0]
    blind = point_draws(whole, package_method(whole.question, 1, specs=[SPEC]))("kernel", after)
    seeing = point_draws(tail, package_method(tail.question, 1, specs=[SPEC]))("kernel", after)
    assert seeing.std() < 0.5 * blind.std()
    assert abs(seeing.mean() - measured) < 0.02


@cache
def whole() -> Fold:
    return held_out_folds(lab(), SPEC, [RUN])[0]


def of_fold(posterior: Posterior, fold: Fold) -> LogScore:
    return log_score(posterior, fold.question, fold.measured)


def test_a_head_and_a_tail_make_the_whole() -> None:
    """With one draw there is nothing to learn from the head but the residuals: densities multiply.

    Without extrapolation, which widens the band of a run from the last step that was measured of it.
    """
    residuals = SPEC.residuals.model_copy(update={"extrapolation": False})
    spec = SPEC.model_copy(update={"residuals": residuals})
    tail = held_out_folds(lab(), spec, [RUN], [0.5])[0]
    seeing = prior_as_posterior(tail.question.study, spec, draws=1, spread=0.0)
    blind = prior_as_posterior(whole().question.study, spec, draws=1, spread=0.0)
    measured = whole().measured
    head = measured[measured["step"] <= 1500]
    parts = (of_fold(seeing, tail).value, log_score(blind, whole().question, head).value)
    assert len(head) + len(tail.measured) == len(measured)
    assert sum(parts) == pytest.approx(of_fold(blind, whole()).value, rel=1e-6)


def test_a_stack_has_the_mixture_of_the_densities() -> None:
    laws = {name: lab_posterior(name) for name in ("cpt-replay", "cpt-replay-printed")}
    mixture = stack(laws, {"cpt-replay": 0.5, "cpt-replay-printed": 0.5}, 0)
    scores = [of_fold(law, whole()).value for law in laws.values()]
    assert of_fold(mixture, whole()).value == pytest.approx(
        special.logsumexp(scores) - np.log(2.0), abs=1e-9
    )

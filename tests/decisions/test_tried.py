import pytest
from synthetic import lab, lab_posterior, prior_as_posterior

from bayes_cpt.decisions.decision import decide
from bayes_cpt.decisions.schedule_choice import best_tried, choose_schedule
from bayes_cpt.errors import StudyError

STEPS, DRAWS = 2000, 20
TRIED = {(run.base, run.replay) for run in lab().continual_runs}


def expected(base: str, replay: float) -> float:
    """Return the lowest expected objective of a base and a replay ratio, over the peaks that were tried."""
    peaks = sorted({run.schedule.peak for run in lab().continual_runs})
    space = {"bases": base, "replay": replay, "peak": peaks, "steps": STEPS}
    choice = decide(lab_posterior(), "domain-focus", space, draws=DRAWS, candidates=64)
    return float(choice.contenders.losses[:, 0].mean(axis=-1) @ choice.valuation.weights)


def test_the_replay_ratio_that_is_taken_is_the_best_of_those_tried() -> None:
    base = "stable_12k"
    taken = best_tried(lab_posterior(), base, None, {}, STEPS, "domain-focus", DRAWS)
    ends = {replay: expected(base, replay) for replay in {replay or 0.0 for _, replay in TRIED}}
    assert taken == (base, min(ends, key=lambda replay: ends[replay]), {})


def test_the_base_that_is_taken_is_the_best_that_runs_start_from() -> None:
    taken = best_tried(lab_posterior(), None, 0.25, {}, STEPS, "domain-focus", DRAWS)
    ends = {str(base): expected(str(base), 0.25) for base in {base for base, _ in TRIED}}
    assert taken == (min(ends, key=lambda base: ends[base]), 0.25, {})


def test_a_law_without_cpt_is_told_apart() -> None:
    posterior = prior_as_posterior(lab().subset(["pt_trunk"]), "pretrain")
    with pytest.raises(StudyError, match="the law knows no CPT phase"):
        choose_schedule(posterior, None, None, STEPS, draws=4)

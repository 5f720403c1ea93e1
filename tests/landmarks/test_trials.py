import pytest
from synthetic import lab, lab_posterior, practice

from bayes_cpt.errors import StudyError
from bayes_cpt.landmarks.trials import Trial, law_draws, read_target
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.schedules import constant, cosine
from bayes_cpt.study.study import Study

NOWHERE = (None, None)
DOMAINS = ("general", "kernel")


def plan_of(*runs: Run, bases: tuple[Base, ...]) -> Study:
    return Study("plan", "general", "kernel", bases, runs, lab().losses[:0], is_plan=True)


def test_a_plan_without_losses_takes_those_of_the_same_base_in_the_study() -> None:
    plan, run = practice().without_losses(), practice().run("r25_cos_12k")
    found = Trial.of(lab_posterior(), read_target(lab_posterior(), plan)[0], run).base_losses
    assert found == tuple(lab().base_loss("stable_12k", domain) for domain in DOMAINS)
    other = Base("stable_12k", 10, constant(10, 2e-3))
    changed = plan_of(Run("a", "cpt", cosine(9, 1e-3), other.name, 0.0), bases=(other,))
    target, [run] = read_target(lab_posterior(), changed)
    assert Trial.of(lab_posterior(), target, run).base_losses == NOWHERE


def test_runs_on_bases_of_unknown_history_are_left_out_or_refused() -> None:
    known = Base("known", 1000, constant(1000, 2e-3))
    unknown = Base("open", known=False)
    runs = (
        Run("a", "cpt", cosine(300, 2e-3), base="open", replay=0.0),
        Run("b", "cpt", cosine(300, 2e-3), base="known", replay=0.0),
    )
    plan = plan_of(*runs, bases=(known, unknown))
    _, chosen = read_target(lab_posterior(), plan)
    assert [run.name for run in chosen] == ["b"]
    with pytest.raises(StudyError, match="run a, base open: the schedule of the base is not known"):
        read_target(lab_posterior(), plan, ["a"])
    with pytest.raises(StudyError, match="no CPT run on a base whose schedule is known"):
        read_target(lab_posterior(), plan_of(runs[0], bases=(unknown,)))
    with pytest.raises(StudyError, match="no run 'c'"):
        read_target(lab_posterior(), plan, ["c"])


def test_pt_runs_and_laws_without_a_cpt_phase_have_no_landmarks() -> None:
    with pytest.raises(StudyError, match="run pt_trunk: this is a PT run"):
        read_target(lab_posterior(), None, ["pt_trunk"])
    with pytest.raises(StudyError, match="model pretrain: the law knows no CPT phase"):
        law_draws(lab_posterior("pretrain"), 10)

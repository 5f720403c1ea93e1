from functools import cache

import numpy as np
import pytest
from open_weights import open_study
from printed import PEAK, pretraining, printed_posterior, study
from synthetic import lab, lab_posterior, practice, prior_as_posterior

from bayes_cpt import Base, Run, Study
from bayes_cpt.errors import StudyError
from bayes_cpt.landmarks import Survey, decompose, loss_potential_response, survey
from bayes_cpt.landmarks.trials import Trial, read_target
from bayes_cpt.study.schedules import constant, cosine


@cache
def printed_survey(shift: str, base_steps: int = 40_000, loss_potential: float = 1.0) -> Survey:
    base = pretraining(base_steps, loss_potential)
    run = cosine(10_000, PEAK, warmup_steps=500 if loss_potential < 1 else 0)
    return survey(printed_posterior(shift), study(run, base))


def paragraph(found: Survey, start: str) -> str:
    (own,) = [text for text in found.sentences() if text.startswith(start)]
    return own


def test_the_tables_are_those_of_the_landmarks() -> None:
    found = lab_survey()
    tables = found.tables(0.8)
    names = "turning_length critical_point loss_potential bases peak_learning_rate"
    assert list(tables) == names.split()
    assert tables["loss_potential"]["rewarmed"].unique().tolist() == [False, True]
    assert found.choices is not None
    assert tables["bases"].equals(found.choices.bases.table(0.8))
    assert found.run.name == "r25_cos"


@cache
def lab_survey() -> Survey:
    return survey(lab_posterior(), lab().subset(["r25_cos"]).without_losses(), draws=20)


def plan_of(bases: tuple[Base, ...], *runs: Run, target: str = "kernel") -> Study:
    return Study("plan", "general", target, bases, runs, lab().losses[:0], is_plan=True)


def test_a_strong_shift_is_said_never_to_come_back() -> None:
    found = printed_survey("strong")
    assert "never brings general back (over 99 %)" in paragraph(found, "Coming back")
    critical = paragraph(found, "Critical point")
    assert "at 660 PT steps at 0.0002" in critical
    assert "base is past it has probability over 99 %" in critical
    assert "keep it by replay" in critical
    assert "do not wait for general to come back" in paragraph(found, "If the history")


def test_a_weak_shift_is_said_to_come_back() -> None:
    found = printed_survey("weak")
    back = paragraph(found, "Coming back")
    assert "never takes general above its base (over 99 %)" in back
    assert "brings general back after 32" in back
    assert "general comes back, given enough steps" in paragraph(found, "Critical point")
    assert "turning lengths over 10000 steps" in paragraph(found, "Outside")


def test_a_length_beyond_any_run_is_not_said_in_digits() -> None:
    # Towards the critical point the turning length grows beyond all bounds.
    found = printed_survey("weak", base_steps=400_000)
    assert "brings general back after over a million steps (over 99 %)" in paragraph(
        found, "Coming back"
    )


def test_what_is_moved_by_loss_potential_and_peak_is_said_in_nats() -> None:
    found = printed_survey("moderate", loss_potential=0.0)
    potential = paragraph(found, "Loss potential")
    table = found.tables()["loss_potential"]
    own = table[(table["domain"] == "target") & ~table["rewarmed"]].iloc[0]
    assert f"{own['difference']:.3f} nats higher" in potential
    assert "with equal PT steps ask for one from before the anneal" in potential
    peak = paragraph(found, "Peak learning rate")
    assert "Of the peaks compared, 0.0002 ends lowest on target" in peak
    assert "1e-05 on general (over 99 %, outside the fitted range)" in peak
    lift = decompose(printed_posterior("moderate"), found.plan)["annealing_cpt"].max("step")
    assert f"lifts the loss by up to {float(lift[0, 0, 1]):.3f}" in peak


def test_without_a_rewarmup_nothing_is_lifted() -> None:
    found = printed_survey("moderate")
    np.testing.assert_allclose(found.lift, 0.0, atol=1e-12)
    assert "Warming up" not in paragraph(found, "Peak learning rate")


def test_the_best_base_is_named_for_each_validation_set() -> None:
    found = lab_survey()
    assert found.choices is not None
    loss = found.choices.bases.draws["loss"].median("draw")
    names = found.choices.bases.draws["value"].to_numpy()
    text = paragraph(found, "Base: start from")
    for domain in ("general", "kernel"):
        best = names[np.argmin(loss.sel(domain=domain).to_numpy())]
        assert f"{best} ends lowest on {domain}" in text
    start = found.verdict()[0].lower().split(":")[0]
    assert text.lower().startswith(f"base: {start}")


def test_one_base_is_no_choice() -> None:
    assert not [text for text in printed_survey("weak").sentences() if text.startswith("Base:")]


def test_a_base_of_unknown_history_is_named_with_what_to_do() -> None:
    bases = (Base("open", known=False), Base("known", 10_000, constant(10_000, 2e-3)))
    unknown = Run("a", "cpt", cosine(3000, 2e-3), base="open", replay=0.25)
    known = Run("b", "cpt", cosine(3000, 2e-3), base="known", replay=0.25)
    both = plan_of(bases, unknown, known)
    found = survey(lab_posterior(), both, draws=20)
    assert found.unknown == ("open",)
    assert found.turning.draws["run"].to_numpy().tolist() == ["b"]
    assert "annealed to 0" in paragraph(found, "The history of open is not known")
    with pytest.raises(StudyError, match="run a, base open"):
        survey(lab_posterior(), both, "a", draws=20)


def test_where_no_base_of_the_plan_is_known_the_fitted_runs_stand_in() -> None:
    unknown = Run("a", "cpt", cosine(3000, 2e-3), base="open", replay=0.25)
    plan = plan_of((Base("open", known=False),), unknown, target="target")
    found = survey(printed_posterior("weak"), plan)
    assert found.plan.name == "printed"
    assert found.unknown == ("open",)
    assert paragraph(found, "The history of open is not known")


def test_a_fit_of_an_unknown_base_has_the_landmarks_that_need_no_other() -> None:
    posterior = prior_as_posterior(open_study())
    found = survey(posterior, run="quarter", draws=20)
    assert found.choices is None
    assert list(found.tables()) == ["turning_length", "peak_learning_rate"]
    assert found.turning.draws["run"].to_numpy().tolist() == ["pure", "quarter", "half"]
    assert "critical point" in paragraph(found, "Base: the history of open is not known")
    assert "Warming up from 0 to 0.001" in paragraph(found, "Peak learning rate")
    with pytest.raises(StudyError, match="base open: the schedule of the base is not known"):
        loss_potential_response(posterior, run="quarter", rewarmed_to_peak=True)
    with pytest.raises(StudyError, match="no CPT run on the base that was fitted"):
        survey(posterior, lab().subset(["r25_cos"]).without_losses())


def test_a_plan_without_losses_takes_those_of_the_same_base_in_the_study() -> None:
    plan, run = practice().without_losses(), practice().run("r25_cos_12k")
    found = Trial.of(lab_posterior(), read_target(lab_posterior(), plan)[0], run).base_losses
    assert found == tuple(lab().base_loss("stable_12k", domain) for domain in ("general", "kernel"))
    other = Base("stable_12k", 10, constant(10, 2e-3))
    changed = plan_of((other,), Run("a", "cpt", cosine(9, 1e-3), other.name, 0.0))
    target, [run] = read_target(lab_posterior(), changed)
    assert Trial.of(lab_posterior(), target, run).base_losses == (None, None)

import numpy as np
import pytest
from printed import COEFFICIENTS, PEAK, pretraining, printed_posterior, stepwise_losses
from synthetic import lab, lab_posterior, practice

from bayes_cpt.errors import StudyError
from bayes_cpt.landmarks.trials import Trial, law_draws, read_target, trial_losses
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.schedules import Schedule, constant, cosine, linear
from bayes_cpt.study.study import Study

NOWHERE = (None, None)
DOMAINS = ("general", "kernel")


def plan_of(*runs: Run, bases: tuple[Base, ...]) -> Study:
    return Study("plan", "general", "kernel", bases, runs, lab().losses[:0], is_plan=True)


@pytest.mark.parametrize("shift", COEFFICIENTS)
@pytest.mark.parametrize(
    ("base", "schedule"),
    [
        (pretraining(4000), cosine(1500, PEAK)),
        (pretraining(4000, 0.0), cosine(1500, 0.5 * PEAK, warmup_steps=100)),
        (pretraining(3000, 0.3), linear(2000, 0.3 * PEAK, 0.0)),
    ],
)
def test_losses_are_those_of_the_law_summed_step_by_step(
    shift: str, base: Schedule, schedule: Schedule
) -> None:
    (draws,) = law_draws(printed_posterior(shift), 1)
    steps = [0, 1, 50, 777, schedule.steps]
    losses = trial_losses(draws, [Trial(base, schedule, 0.0, NOWHERE)], [steps])
    for domain, coefficients in enumerate(COEFFICIENTS[shift]):
        expected = stepwise_losses(coefficients, base, schedule)[steps]
        np.testing.assert_allclose(losses[0, 0, domain], expected, rtol=0, atol=1e-9)


def test_losses_are_those_of_the_forecast_in_every_draw() -> None:
    posterior, plan = lab_posterior(), practice()
    (draws,) = law_draws(posterior, 40)
    trials = [Trial.of(posterior, plan, run) for run in plan.runs]
    last = [run.schedule.steps for run in plan.runs]
    losses = trial_losses(draws, trials, [[10, steps] for steps in last])
    bands = posterior.predict(plan, kind="expected", draws=40)["loss"]
    forecast = bands.stack(sample=("chain", "draw")).transpose("sample", ...)
    for i, (run, steps) in enumerate(zip(plan.runs, last, strict=True)):
        own = forecast.sel(run=run.name, step=steps)
        np.testing.assert_allclose(losses[:, i, :, 1], own, rtol=0, atol=1e-8)


def test_a_run_starts_at_the_measured_loss_of_its_base() -> None:
    posterior, plan = lab_posterior(), lab()
    run = plan.run("r25_a0_rewarm")
    trial = Trial.of(posterior, plan, run)
    losses = trial_losses(law_draws(posterior, 40)[0], [trial], [[0]])
    assert trial.base_losses == tuple(plan.base_loss("annealed_0pct", d) for d in DOMAINS)
    np.testing.assert_allclose(losses[:, 0, :, 0] - np.array(trial.base_losses), 0.0, atol=1e-8)


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

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from open_weights import open_study, rewarmed
from strategies import schedules
from synthetic import lab
from testbench import baselines
from testbench.baselines import (
    D_CPT,
    DATA_MIXING,
    FINAL_LOSS_LAWS,
    MOMENTUM,
    BaselineError,
    Effort,
    Ends,
    FinalLossLaw,
    Inputs,
    d_cpt_losses,
    final_loss_predict,
    inputs_of,
    mixing_losses,
    observations,
    printed_fit,
    printed_losses,
)
from testbench.simulation import NEW_RUNS, NOISE, RUNS, TRUTH, simulated

from bayes_cpt.laws.areas import AreaForm
from bayes_cpt.laws.phase_areas import continual_areas
from bayes_cpt.laws.series import Interval
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.schedules import Schedule, constant, linear
from bayes_cpt.study.study import Study

NO_LOSSES = pd.DataFrame(columns=["run", "step", "domain", "loss"])
TRUTHS = {
    "d-cpt": np.array([2.0, np.log(0.4), np.log(0.5), np.log(0.3), np.log(0.2), -2.0, np.log(0.4)]),
    "data-mixing": np.array([2.5, np.log(0.8), -2.0]),
}


def study_of(base: Schedule, run: Schedule, replay: float = 0.0) -> Study:
    return Study(
        name="one run",
        general="general",
        target="target",
        bases=(Base("base", base.steps, base),),
        runs=(Run("cpt", "cpt", run, base="base", replay=replay),),
        losses=NO_LOSSES,
        is_plan=True,
    )


def some_inputs() -> Inputs:
    generator = np.random.default_rng(4)
    forward_pt, forward_cpt, annealing_pt, annealing_cpt = generator.uniform(0.1, 5.0, size=(4, 9))
    share = np.linspace(0.0, 1.0, 9)
    known = np.zeros(9, dtype=bool)
    return Inputs(forward_pt, forward_cpt, annealing_pt, annealing_cpt, share, share > 0, known)


@given(schedules(), schedules())
def test_areas_are_those_of_the_package(base: Schedule, run: Schedule) -> None:
    study = study_of(base, run)
    steps = np.arange(run.steps + 1)
    ours = inputs_of(study, study.run("cpt"), steps)
    momenta = Interval.of_momenta(0.99, 0.9995)
    theirs = continual_areas(base, run, steps, AreaForm(momenta))
    basis = momenta.basis(np.log(1.0 - MOMENTUM))
    falls = (theirs.start_pt - theirs.level_pt @ basis, theirs.start_cpt - theirs.level_cpt @ basis)
    pairs = [
        (ours.forward_pt + ours.forward_cpt, np.exp(theirs.log_forward[:, 0])),
        (ours.forward_cpt, np.exp(theirs.log_shift[:, 0])),
        (ours.annealing_pt, falls[0] / (1.0 - MOMENTUM)),
        (ours.annealing_cpt, falls[1] / (1.0 - MOMENTUM)),
    ]
    for own, package in pairs:
        np.testing.assert_allclose(own, package, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("is_target", [False, True])
@pytest.mark.parametrize("a2", [-4.0, -0.3, 0.7, 5.696])
def test_the_law_is_equation_8(is_target: bool, a2: float) -> None:
    x = some_inputs()
    L0, A, alpha, C1, C2, a1, B, E, beta = 3.0, 0.5, 0.6, 0.02, 0.03, 0.055, 0.2, 28.0, 0.3  # noqa: N806
    r_cpt, r_pt = x.target_share, 1.0 - x.target_share
    shift = B * (1 - (1 + E * x.forward_cpt) ** -beta)
    at_replay_0 = B * ((np.exp(a2) - 1) if is_target else (1 - np.exp(-a2)))
    printed = L0 + A * (x.forward_pt + x.forward_cpt) ** -alpha - C1 * x.annealing_pt
    if is_target:
        printed += -C2 * x.annealing_cpt * np.exp(a1 * r_cpt) + shift * (np.exp(a2 * r_cpt) - 1)
    else:
        printed += -C2 * x.annealing_cpt * np.exp(a1 * r_pt) + shift * (1 - np.exp(-a2 * r_cpt))
    bend = -a2 if is_target else a2
    logs = np.log([A, alpha, E, beta])
    parameters = [L0, *logs[:2], C1, C2, a1, at_replay_0, *logs[2:], bend]
    found = printed_losses(parameters, x, is_target=is_target)
    np.testing.assert_allclose(found, printed, rtol=1e-12)


def test_warm_up_and_the_first_tenth_of_pre_training_are_left_out() -> None:
    falling = [3.5, 3.4, 3.3, 3.1, 3.0]
    rows = pd.DataFrame(
        {"run": "pt", "domain": "general", "step": [5, 15, 25, 150, 1000], "loss": falling}
    )
    for warmup, kept in ((20, 2), (200, 1)):
        schedule = linear(warmup, 0.0, 1e-3) + constant(1000 - warmup, 1e-3)
        study = Study("pt", "general", None, (), (Run("pt", "pt", schedule),), rows)
        inputs, losses = observations(study, "general")
        assert len(losses) == kept
        assert not inputs.continual.any()
        np.testing.assert_allclose(inputs.annealing_pt, 0.0)


@pytest.mark.parametrize("domain", ["general", "target"])
def test_many_starts_find_the_law_that_made_the_losses(domain: str) -> None:
    fit, inputs, losses = printed_fit(simulated(RUNS, noise=0.0), domain)
    found = fit.from_many_starts(inputs, losses, np.random.default_rng(6), 8)
    new, truth = observations(simulated(NEW_RUNS, noise=0.0), domain)
    np.testing.assert_allclose(fit.losses(found, new), truth, atol=0.002)


def test_an_unknown_base_is_fitted_with_its_forward_area() -> None:
    """From runs that only re-warm, whose annealing areas are below 0."""
    study = open_study()
    long = replace(study, runs=(rewarmed(6000),), losses=study.losses.iloc[:0], is_plan=True)
    new = inputs_of(long, long.runs[0], [50, 500, 3000, 6000])
    truth = np.append(TRUTH[False], np.log(30.0))
    # Gains are per area: those of the truth belong to learning rates of its own.
    truth[3:5] *= 0.2
    fit, inputs, _ = printed_fit(study, "general")
    assert fit.bounds.shape == (2, len(truth))
    assert fit.bounds[1, 4] == pytest.approx(5.0 / np.abs(inputs.annealing_cpt).max())
    losses = fit.losses(truth, inputs)
    found = fit.from_many_starts(inputs, losses, np.random.default_rng(6), 8)
    np.testing.assert_allclose(fit.losses(found, inputs), losses, atol=0.001)
    np.testing.assert_allclose(fit.losses(found, new), fit.losses(truth, new), atol=0.01)


def test_bands_cover_new_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "PAPER_EFFORT", Effort(4, 20, 5))
    held_out = simulated(NEW_RUNS, NOISE, seed=11)
    rows = held_out.losses
    points = rows[["run", "domain", "step"]].sample(frac=1.0, random_state=7)
    plan = held_out.without_losses()
    draws = baselines.paper_predict(simulated(RUNS, NOISE), plan, points, seed=8)
    truth = rows.loc[points.index, "loss"].to_numpy()
    lower, upper = np.quantile(draws, [0.05, 0.95], axis=0)
    assert 0.8 < np.mean((lower < truth) & (truth < upper)) < 0.98
    assert 2 * NOISE < np.mean((upper - lower) / truth) < 6 * NOISE


def final_losses_by(law: FinalLossLaw, noise: float) -> Study:
    """Return the bundled study with losses by a law, r being each set's own share."""
    study, generator = lab(), np.random.default_rng(1)
    losses = study.losses.copy()
    replay = losses["run"].map({run.name: run.replay for run in study.runs}).to_numpy(float)
    continual = ~np.isnan(replay) & (losses["step"] > 0).to_numpy()
    share = np.where(losses["domain"] == study.target, 1 - replay, replay)[continual]
    steps = losses["step"].to_numpy(float)[continual] / 3000
    values = losses["loss"].to_numpy().copy()
    values[continual] = law.losses(TRUTHS[law.name], Ends(steps, share))
    values[continual] += noise * generator.standard_normal(continual.sum())
    return replace(study, losses=losses.assign(loss=values))


def test_printed_equations() -> None:
    parameters = np.array(
        [1.5, np.log(2.0), np.log(0.5), np.log(0.25), np.log(0.3), np.log(0.1), 0.0]
    )
    found = d_cpt_losses(parameters, Ends(np.array([16.0]), np.array([0.25])))
    assert found[0] == pytest.approx(1.5 + 2.0 * 0.5 / 2.0 + 0.3 / 0.35)
    found = mixing_losses(
        np.array([2.0, np.log(0.5), -3.0]), Ends(np.array([1.0]), np.array([0.5]))
    )
    assert found[0] == pytest.approx(2.0 + 0.5 * np.exp(-1.5))


# Losses of these truths do not behave as those of a study do.
@pytest.mark.filterwarnings("ignore::bayes_cpt.errors.StudyWarning")
@pytest.mark.parametrize("law", FINAL_LOSS_LAWS.values(), ids=list(FINAL_LOSS_LAWS))
def test_a_run_left_out_is_predicted(law: FinalLossLaw, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "FINAL_EFFORT", Effort(4, 12, 12))
    study = final_losses_by(law, 0.002)
    left = [run for run in study.continual_runs if run.replay == 0.5][:1]
    seen = study.subset([run.name for run in study.runs if run not in left])
    points = pd.DataFrame(
        [(left[0].name, domain, left[0].schedule.steps) for domain in ("general", "kernel")],
        columns=["run", "domain", "step"],
    )
    draws = final_loss_predict(law, seen, study.without_losses(), points, seed=3)
    truth = law.losses(TRUTHS[law.name], Ends(np.ones(2), np.array([0.5, 0.5])))
    np.testing.assert_allclose(np.median(draws, axis=0), truth, atol=0.01)
    assert (draws.std(axis=0) < 0.05).all()


def test_too_few_losses_and_pretraining_runs_are_refused() -> None:
    study = lab()
    points = pd.DataFrame([("r00_const", "general", 3000)], columns=["run", "domain", "step"])
    few = study.subset(["pt_trunk", "r25_cos", "r00_const"])
    with pytest.raises(BaselineError, match="3 parameters, and the study 2 losses"):
        final_loss_predict(DATA_MIXING, few, study.without_losses(), points)
    with pytest.raises(BaselineError, match="about CPT runs"):
        final_loss_predict(D_CPT, study, study.without_losses(), points.assign(run="pt_trunk"))

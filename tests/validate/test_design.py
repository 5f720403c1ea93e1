from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from synthetic import lab

from bayes_cpt.bundled import bundled_study
from bayes_cpt.errors import StudyError
from bayes_cpt.model.fitted_points import observed_steps
from bayes_cpt.model.priors.draws import draw_priors
from bayes_cpt.model.setup import Setup, build_setup
from bayes_cpt.model.simulate import expected_loss
from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.schedules import constant, cosine
from bayes_cpt.study.study import Study
from bayes_cpt.validate.design import (
    HELD_OUT,
    POINTS,
    design_study,
    held_out_run,
    read_design,
    simulate_setup,
    with_base_losses,
    with_runs,
)

SPEC = read_spec("cpt-replay")


def test_a_design_keeps_runs_and_thins_measured_points() -> None:
    design = design_study(lab(), SPEC)
    assert [run.name for run in design.runs] == [run.name for run in lab().runs]
    for run in design.runs:
        for domain in ("general", "kernel"):
            own, _ = design.curve(run.name, domain)
            measured = observed_steps(lab(), run, domain, SPEC.residuals)
            assert set(own.tolist()) <= set(measured)
            assert own[0] == measured[0]
            assert own[-1] == measured[-1]
            assert own.size <= POINTS + 2
    assert set(design.domains) == {"general", "kernel"}
    assert len(design_study(lab(), SPEC, points=5).losses) < len(design.losses) / 2


def test_what_a_fit_leaves_out_is_not_simulated() -> None:
    setup = build_setup(SPEC, design_study(lab(), SPEC))
    assert setup.curves.points.loss.size == len(design_study(lab(), SPEC).losses)


def test_bases_are_known_just_where_the_fit_sees_a_simulated_point() -> None:
    design = design_study(lab(), SPEC, points=3)
    assert all(
        curve.base_known for curve in build_setup(SPEC, design).curves.curves if curve.continual
    )
    for base in design.bases:
        steps, _ = design.curve(str(base.run), "general")
        assert base.steps in steps
    without = lab().subset(run.name for run in lab().runs if run.name != "pt_anneal0")
    known = {
        curve.run: curve.base_known
        for curve in build_setup(SPEC, design_study(without, SPEC)).curves.curves
        if curve.continual
    }
    assert not known["r25_a0_rewarm"]
    assert known["r25_cos"]


def test_a_law_without_replay_keeps_the_runs_of_one_ratio() -> None:
    design = design_study(lab(), read_spec("cpt"))
    assert len({run.replay for run in design.continual_runs}) == 1
    assert len(design.continual_runs) == 3
    assert len(design.pretraining_runs) == 4
    build_setup(read_spec("cpt"), design)


def test_a_law_of_pretraining_keeps_pretraining_runs() -> None:
    design = design_study(lab(), read_spec("pretrain"))
    assert not design.continual_runs
    assert design.target is None
    assert held_out_run(design).phase == "pt"


def plan_of(*runs: Run) -> Study:
    trunk = constant(1000, 1e-3)
    bases = (
        Base("end", 1000, trunk, run="trunk"),
        Base("early", 50, constant(50, 1e-3), run="trunk"),
    )
    losses = lab().losses.head(0)
    return Study(
        "plan", "general", "target", bases, (Run("trunk", "pt", trunk), *runs), losses, is_plan=True
    )


def test_a_plan_is_measured_at_points_of_its_own() -> None:
    run = Run("cpt", "cpt", cosine(400, 1e-3), base="end", replay=0.2)
    design = design_study(plan_of(run), SPEC, points=6)
    steps, losses = design.curve("cpt", "target")
    assert steps.tolist() == [2, 6, 17, 48, 139, 400]
    assert (losses == 3.0).all()
    steps, _ = design.curve("trunk", "general")
    assert steps.tolist() == [208, 367, 525, 683, 842, 1000]
    # A base where the fit does not look adds no point, and is not known.
    early = replace(run, name="early", base="early")
    setup = build_setup(SPEC, design_study(plan_of(run, early), SPEC))
    known = {curve.run: curve.base_known for curve in setup.curves.curves}
    assert known == {"trunk": False, "cpt": True, "early": False}


def test_a_design_without_runs_of_the_phase_is_refused() -> None:
    continual = lab().subset(run.name for run in lab().continual_runs)
    with pytest.raises(StudyError, match="the design has no run that the model describes"):
        design_study(continual, read_spec("pretrain"))


def test_the_held_out_run_is_longer_and_its_name_its_own() -> None:
    design = design_study(lab(), SPEC)
    run = held_out_run(design)
    assert run.name == HELD_OUT
    assert run.schedule.steps == 9000
    again = with_runs(with_runs(design, [run]), [run])
    assert [own.name for own in again.runs[-2:]] == [HELD_OUT, f"{HELD_OUT}+"]
    assert len(again.losses) == len(design.losses)


def test_runs_from_bases_that_the_design_has_not_start_at_an_unknown_loss() -> None:
    design = design_study(lab(), SPEC, points=4)
    base = Base("other", 500, constant(500, 1e-3), run="nobody")
    runs = [
        Run("new", "cpt", cosine(400, 1e-3), base="other", replay=0.2),
        Run("own", "cpt", cosine(400, 1e-3), base="stable_12k", replay=0.2),
    ]
    whole = with_runs(design, runs, [base, *design.bases])
    assert [own.name for own in whole.bases] == [*(own.name for own in design.bases), "other"]
    frame = build_setup(SPEC, design).frame
    curves = frame.curves(whole, lambda run, _: [run.schedule.steps], whole.runs[-2:])
    assert [curve.base_known for curve in curves.curves] == [False, False, True, True]


def test_a_design_is_read_from_a_study_or_from_a_plan(tmp_path: Path) -> None:
    assert read_design(bundled_study()).digest() == lab().digest()
    settings = (bundled_study() / "study.toml").read_text()
    (tmp_path / "study.toml").write_text(settings)
    for path in (tmp_path, tmp_path / "study.toml"):
        assert read_design(path).is_plan
        assert [run.name for run in read_design(path).runs] == [run.name for run in lab().runs]
    with pytest.raises(StudyError, match="there is no such folder"):
        read_design(tmp_path / "nowhere")


@pytest.fixture(scope="module")
def simulated() -> tuple[Setup, Setup, Study, dict[str, np.ndarray]]:
    design = design_study(lab(), SPEC, points=6)
    blank = build_setup(SPEC, design)
    truth = draw_priors(blank.frame, 1, seed=4)
    # So small that a curve is its law, moved by its base's offset.
    for name in ("fluctuation_pt", "fluctuation_cpt", "misfit_pt", "misfit_cpt", "offset_pt"):
        truth[name] = 1e-9 + 0.0 * truth[name]
    return blank, simulate_setup(blank, design, truth, np.random.default_rng(1)), design, truth


def test_simulated_curves_are_the_law_s_where_nothing_is_random(
    simulated: tuple[Setup, Setup, Study, dict[str, np.ndarray]],
) -> None:
    blank, found, _, truth = simulated
    law = expected_loss(blank.frame, truth, found.curves)[0]
    np.testing.assert_allclose(found.curves.points.loss, law, atol=1e-6)
    assert np.isfinite(found.curves.points.loss).all()
    np.testing.assert_array_equal(found.curves.points.steps, blank.curves.points.steps)
    assert (blank.curves.points.loss == 3.0).all()


def test_bases_have_the_losses_of_the_simulated_curves(
    simulated: tuple[Setup, Setup, Study, dict[str, np.ndarray]],
) -> None:
    _, found, design, _ = simulated
    points, curves = found.curves.points, found.curves
    names = [(curve.run, curve.domain) for curve in curves.curves]
    for i, curve in enumerate(curves.curves):
        if curve.continual:
            base = design.base(str(design.run(curve.run).base))
            source = names.index((str(base.run), curve.domain))
            here = (points.curve_index == source) & (points.steps == base.steps)
            assert curves.bases.loss[i] == points.loss[here][0]


def test_runs_from_a_base_start_at_its_simulated_loss(
    simulated: tuple[Setup, Setup, Study, dict[str, np.ndarray]],
) -> None:
    _, found, design, truth = simulated
    more = with_runs(design, [held_out_run(design)])
    curves = found.frame.curves(more, lambda run, _: [1], [more.run(HELD_OUT)])
    based = with_base_losses(curves, found.curves, more)
    source = more.run(HELD_OUT).base
    same = [
        found.curves.bases.loss[i]
        for i, curve in enumerate(found.curves.curves)
        if curve.continual and design.run(curve.run).base == source
    ]
    assert set(based.bases.loss) == set(same)
    # A law whose shift goes evenly over a run has hardly moved in the first step.
    even = {"shift_rate": 1e-3, "adaptation_share": 0.0}
    slow = truth | {name: np.full_like(truth[name], value) for name, value in even.items()}
    start = expected_loss(found.frame, slow, based)[0]
    assert np.abs(start - based.bases.loss).max() < 0.02


def test_simulations_come_back_from_the_seed(
    simulated: tuple[Setup, Setup, Study, dict[str, np.ndarray]],
) -> None:
    blank, found, design, truth = simulated
    again = simulate_setup(blank, design, truth, np.random.default_rng(1))
    np.testing.assert_array_equal(again.curves.points.loss, found.curves.points.loss)

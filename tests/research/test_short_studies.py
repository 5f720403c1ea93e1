import numpy as np
from testbench.one_decision import Task, World
from testbench.short_studies import (
    BASES,
    blank,
    design,
    package_noise,
    simulated_study,
)
from testbench.truths import draw_truth

from bayes_cpt.model.setup import build_setup
from bayes_cpt.model.simulate import expected_loss


def test_studies_share_a_frame_and_start_at_measured_bases() -> None:
    frame, choices = design()
    truth = draw_truth(frame, "strong", np.random.default_rng(1))
    study = simulated_study(frame, truth, package_noise, np.random.default_rng(2))
    setup = build_setup(frame.spec, study)
    assert setup.frame.reference == frame.reference
    # 12 points on the PT run, 11 on each of five CPT runs, on two validation sets.
    assert setup.curves.points.steps.size == 2 * (12 + 5 * 11)
    for base in BASES:
        steps, losses = study.curve("pretraining", "target")
        assert study.base_loss(base.name, "target") == losses[steps == base.steps].item()
    law = expected_loss(frame, truth, setup.curves)[0]
    assert 0.002 < np.std(setup.curves.points.loss - law) < 0.05
    assert len(choices) == 21 * 15


def test_the_oracle_is_the_law_run_step_by_step() -> None:
    world = World.of(Task("0", "moderate", 3, shared=False))
    rows = [0, 100, 314]
    runs = tuple(world.choices.run(row, f"choice {row}") for row in rows)
    starts = world.study.losses.query("run == 'pure' and step == 0")
    plan = blank(runs, starts.assign(run=runs[0].name))
    curves = world.frame.curves(plan, lambda run, _: [run.schedule.steps], runs)
    stepwise = expected_loss(world.frame, world.truth, curves)[0].reshape(len(rows), 2).T
    # To the tolerance of the interpolation over momenta.
    np.testing.assert_allclose(world.losses[:, rows], stepwise, atol=1e-5)

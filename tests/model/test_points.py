from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from area_values import annealing_area
from small_study import ANNEALED, COSINE, PEAK, REFERENCE, REWARMED, STUDY, TRUNK

from bayes_cpt.errors import StudyError
from bayes_cpt.laws import Annealing, Reference
from bayes_cpt.laws.areas import AreaForm
from bayes_cpt.laws.series import MomentumRange
from bayes_cpt.model.fitted_points import first_step, observed_steps
from bayes_cpt.model.law_table import ResidualTable
from bayes_cpt.model.points import Curves, build_curves, last_pretraining_step, reference_of
from bayes_cpt.study.runs import Run
from bayes_cpt.study.schedules import constant, linear
from bayes_cpt.study.study import Study

FORM = AreaForm(MomentumRange(0.9, 0.9995))
TENTH = ResidualTable(skip_pretraining=0.1)


def curves_of(study: Study = STUDY, *, carry_memory: bool = False) -> Curves:
    return build_curves(
        study,
        ("g", "t"),
        lambda run, domain: observed_steps(study, run, domain, TENTH),
        REFERENCE,
        replace(FORM, carry_memory=carry_memory),
    )


def test_reference_holds_the_medians_of_the_study() -> None:
    areas = [schedule.learning_rates().sum() for schedule in (TRUNK, ANNEALED)]
    cpt = [schedule.learning_rates().sum() for schedule in (COSINE, REWARMED)]
    assert REFERENCE.learning_rate == PEAK
    assert REFERENCE.forward_pt == pytest.approx(np.mean(areas))
    assert REFERENCE.forward_cpt == pytest.approx(np.mean(cpt))
    assert REFERENCE.steps == 400.0


def test_reference_of_a_study_without_cpt_runs() -> None:
    found = reference_of(replace(STUDY.subset(["trunk"]), bases=()))
    area = float(TRUNK.learning_rates().sum())
    assert found == Reference(PEAK, area, area, 1000.0)


def test_the_last_pretraining_step_is_a_measured_one() -> None:
    assert last_pretraining_step(STUDY) == 1000.0
    cut = STUDY.losses[STUDY.losses["step"] < 1000]
    assert last_pretraining_step(replace(STUDY, losses=cut)) == 400.0
    assert last_pretraining_step(STUDY.subset(["none", "half"])) == np.inf


def test_half_of_a_re_warm_up_is_left_out_unless_the_log_ends_there() -> None:
    def kept(*steps: int) -> list[int]:
        rows = [("again", step, "t", 3.0) for step in steps]
        again = Run("again", "cpt", REWARMED, base="annealed", replay=0.5)
        study = STUDY.with_runs([again], rows)
        return observed_steps(study, again, "t", ResidualTable(skip_rewarming=0.5))

    assert kept(0, 10, 25, 26, 300) == [26, 300]
    assert kept(0, 10, 25) == [10, 25]


def test_observed_steps_leave_out_warm_up_early_pretraining_and_step_0() -> None:
    trunk, none = STUDY.run("trunk"), STUDY.run("none")
    half = ResidualTable(skip_pretraining=0.5)
    assert observed_steps(STUDY, trunk, "g", ResidualTable()) == [400, 1000]
    assert observed_steps(STUDY, trunk, "g", half) == [1000]
    assert observed_steps(STUDY, none, "t", half) == [10, 500]


def test_the_longest_warm_up_of_the_study_leaves_out_a_step_of_every_run() -> None:
    """Ten times it is one step for all, but at most a share of the longest run and of its own."""
    short = Run("short", "pt", linear(20, 0.0, PEAK) + constant(580, PEAK))
    rows = [("short", step, "g", 4.0) for step in (10, 30, 350, 600)]
    study = STUDY.with_runs([short], rows)

    def first(run: str, **settings: Any) -> float:
        return first_step(study, study.run(run), ResidualTable(**settings))

    assert [first(run) for run in ("trunk", "short")] == [100.0, 20.0]
    assert [first(run, skip_warmups=2.5) for run in ("trunk", "short")] == [200.0, 200.0]
    assert [first(run, skip_warmups=1.5) for run in ("trunk", "short")] == [150.0, 150.0]
    for longest, first_of_short in ((0.35, 350.0), (0.6, 450.0)):
        capped = [first(run, skip_warmups=10.0, skip_longest=longest) for run in ("trunk", "short")]
        assert capped == [1000.0 * longest, first_of_short]
    assert first("short", skip_warmups=1.5, skip_pretraining=0.5) == 300.0
    chosen = ResidualTable(skip_warmups=10.0, skip_longest=0.3)
    assert observed_steps(study, short, "g", chosen) == [350, 600]
    assert observed_steps(study, study.run("trunk"), "g", chosen) == [400, 1000]
    assert observed_steps(study, study.run("none"), "t", chosen) == [10, 500]


def test_curves_are_ordered_and_know_whether_their_base_was_measured() -> None:
    found = [(c.run, c.domain, c.continual, c.base_known) for c in curves_of().curves]
    assert found == [
        ("trunk", "g", False, False),
        ("trunk", "t", False, False),
        ("none", "g", True, True),
        ("none", "t", True, True),
        ("half", "g", True, False),
    ]


def test_columns_of_the_points() -> None:
    points = curves_of().points
    np.testing.assert_array_equal(points.curve_index, [0, 0, 1, 2, 3, 3, 4])
    np.testing.assert_array_equal(points.domain_index, [0, 0, 1, 0, 1, 1, 0])
    np.testing.assert_array_equal(points.steps, [400, 1000, 1000, 500, 10, 500, 300])
    np.testing.assert_array_equal(points.cpt_steps, [0, 0, 0, 500, 10, 500, 300])
    np.testing.assert_array_equal(points.target_share, [0, 0, 0, 1, 1, 1, 0.5])
    np.testing.assert_array_equal(points.base_known, [0, 0, 0, 1, 1, 1, 0])
    np.testing.assert_array_equal(points.loss, [4.0, 3.5, 4.5, 3.9, 4.0, 3.0, 3.4])
    rates = COSINE.learning_rates()
    np.testing.assert_allclose(
        points.learning_rate, [1, 1, 1, 0.0, rates[9] / PEAK, 0.0, 0.0], atol=1e-15
    )


@pytest.mark.parametrize("said", [True, False])
def test_a_reset_run_lacks_the_decay_of_the_base_anneal(said: bool) -> None:
    """Of a re-warm-up from an annealed base, by the recursion of Eq. 1: one run says so, or all are."""
    momentum = 0.99
    own = {"lambda": np.float64(momentum), "C1": np.ones(7)}
    runs = tuple(
        replace(run, optimizer_state="reset") if said and run.phase == "cpt" else run
        for run in STUDY.runs
    )
    reset = build_curves(
        replace(STUDY, runs=runs),
        ("g", "t"),
        lambda run, domain: observed_steps(STUDY, run, domain, TENTH),
        REFERENCE,
        replace(FORM, carry_memory=True),
        resets=not said,
    )
    restarted = Annealing().areas(reset.points, own, np)[1]
    carried = Annealing().areas(curves_of(carry_memory=True).points, own, np)[1]
    again = annealing_area(REWARMED.learning_rates(), momentum, ANNEALED.final)[-1]
    assert restarted[6] == pytest.approx(again, rel=1e-7)
    np.testing.assert_array_equal(reset.points.carried, [1, 1, 1, 0, 0, 0, 0])
    # Without the options of the areas it is the law as printed.
    np.testing.assert_allclose(restarted, Annealing().areas(curves_of().points, own, np)[1])
    memory, rates = 0.0, ANNEALED.learning_rates()[100:]
    for before, now in zip([PEAK, *rates], rates, strict=False):
        memory = momentum * memory + (before - now)
    extra = sum(memory * momentum**i for i in range(1, 301))
    np.testing.assert_allclose((carried - restarted)[:6], 0.0, atol=1e-10)
    assert carried[6] - restarted[6] == pytest.approx(extra, rel=1e-6)
    assert extra > 0.5 * abs(again)


def test_bases_are_one_row_per_curve_at_step_0() -> None:
    bases = curves_of().bases
    np.testing.assert_array_equal(bases.curve_index, np.arange(5))
    np.testing.assert_array_equal(bases.steps[2:], 0.0)
    np.testing.assert_array_equal(bases.base_known, [0, 0, 1, 1, 0])
    # On g the base's loss comes from the PT run it lies on, on t from step 0 of its CPT run.
    np.testing.assert_array_equal(bases.loss[2:4], [3.5, 4.45])
    np.testing.assert_allclose(bases.shift_area({}, np), 0.0, atol=1e-25)


def test_nothing_measured_is_an_error() -> None:
    with pytest.raises(StudyError, match="no loss is left"):
        build_curves(STUDY, ("g",), lambda run, domain: [], REFERENCE, FORM)

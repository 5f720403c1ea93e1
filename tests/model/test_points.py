from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from small_study import PEAK, REWARMED, STUDY, TRUNK

from bayes_cpt import Run, read_spec
from bayes_cpt.errors import StudyError
from bayes_cpt.laws.term import Reference
from bayes_cpt.model.fitted_points import first_step, observed_steps
from bayes_cpt.model.law_table import ResidualTable
from bayes_cpt.model.points import reference_of
from bayes_cpt.model.setup import build_setup
from bayes_cpt.study.schedules import constant, linear


def test_reference_of_a_study_without_cpt_runs() -> None:
    found = reference_of(replace(STUDY.subset(["trunk"]), bases=()))
    area = float(TRUNK.learning_rates().sum())
    assert found == Reference(PEAK, area, area, 1000.0)


def test_a_re_warm_up_adds_less_and_less_error_until_its_end() -> None:
    steps = (10, 25, 50, 300)
    again = Run("again", "cpt", REWARMED, base="annealed", replay=0.5)
    study = STUDY.with_runs([again], [("again", step, "t", 3.0) for step in (0, *steps)])
    assert observed_steps(study, again, "t", ResidualTable()) == list(steps)
    frame = build_setup(read_spec("cpt-replay"), study).frame
    points = frame.curves(study, lambda *_: steps, [again]).points
    np.testing.assert_allclose(points.rewarming[:4], [0.016, 0.01, 0.0, 0.0])


def test_the_longest_warm_up_of_the_study_leaves_out_a_step_of_every_run() -> None:
    """Ten times it is one step for all, but at most a share of the longest run and of its own."""
    short = Run("short", "pt", linear(20, 0.0, PEAK) + constant(580, PEAK))
    study = STUDY.with_runs([short], [("short", step, "g", 4.0) for step in (10, 30, 350, 600)])

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


def test_what_a_plan_does_not_say_of_the_optimiser_is_as_in_the_fitted_runs() -> None:
    reset = (replace(run, optimizer_state=run.base and "reset") for run in STUDY.runs)
    fitted = replace(STUDY, runs=tuple(reset))
    frame = build_setup(read_spec("cpt-replay"), fitted).frame
    said, silent = (frame.curves(own, lambda *_: [300]).points for own in (fitted, STUDY))
    np.testing.assert_array_equal(silent.level_cpt, said.level_cpt)
    np.testing.assert_array_equal(silent.carried, said.carried)
    assert said.carried.tolist() == [1, 1, 0, 0, 0, 0]


def test_nothing_measured_is_an_error() -> None:
    frame = build_setup(read_spec("cpt-replay"), STUDY).frame
    with pytest.raises(StudyError, match="no loss is left"):
        frame.curves(STUDY, lambda run, domain: [])

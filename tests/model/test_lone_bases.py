from dataclasses import astuple, replace

import numpy as np
import pandas as pd
import pytest
from small_study import ANNEALED, REFERENCE, STUDY
from synthetic import lab

from bayes_cpt.inference.fitting import fit
from bayes_cpt.model.bases import with_lone_bases
from bayes_cpt.model.joint_priors import draw_priors
from bayes_cpt.model.setup import build_setup, elements
from bayes_cpt.model.simulate import expected_loss
from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.runs import Base
from bayes_cpt.study.study import Study

ROWS = ["run", "step", "domain", "loss"]
START = pd.DataFrame([("half", 0, "g", 3.45), ("half", 0, "t", 4.35)], columns=ROWS)


def measured(study: Study = STUDY) -> Study:
    """Return the small study with the loss of its base that lies on no run."""
    return replace(study, losses=pd.concat([START, study.losses], ignore_index=True))


def added(study: Study) -> list[tuple[str, int, str, float]]:
    """Return the rows of the runs that are added."""
    found = with_lone_bases(study, ("g", "t"))
    names = {run.name for run in found.runs} - {run.name for run in study.runs}
    rows = found.losses[found.losses["run"].isin(names)]
    return sorted(rows[ROWS].itertuples(index=False, name=None))


def test_a_base_on_no_run_is_a_pretraining_run_measured_at_its_end() -> None:
    study = measured()
    assert added(study) == [("annealed", 1000, "g", 3.45), ("annealed", 1000, "t", 4.35)]
    run = with_lone_bases(study, ("g", "t")).run("annealed")
    assert (run.phase, run.schedule) == ("pt", ANNEALED)
    assert added(STUDY) == []


def test_what_a_curve_tells_is_not_told_twice() -> None:
    assert with_lone_bases(lab(), ("general", "kernel")) is lab()


def test_a_validation_set_that_its_run_was_not_measured_on_counts() -> None:
    losses = STUDY.losses[(STUDY.losses["run"] != "trunk") | (STUDY.losses["domain"] == "g")]
    assert added(replace(STUDY, losses=losses)) == [("stable", 1000, "t", 4.45)]


def test_a_base_that_names_a_run_left_out_of_the_study() -> None:
    runs = tuple(run for run in STUDY.runs if run.name != "trunk")
    losses = STUDY.losses[STUDY.losses["run"] != "trunk"]
    assert added(replace(STUDY, runs=runs, losses=losses)) == [("stable", 1000, "t", 4.45)]


def test_a_base_of_unknown_schedule_tells_nothing() -> None:
    study = measured()
    bases = (study.base("stable"), Base("annealed", known=False))
    assert added(replace(study, bases=bases)) == []


def test_residuals_of_a_lone_base_are_those_of_pretraining() -> None:
    setup = build_setup(read_spec("cpt-replay"), measured())
    alone = [i for i, curve in enumerate(setup.curves.curves) if curve.run == "annealed"]
    points, design = setup.curves.points, setup.design
    rows = np.isin(points.curve_index, alone)
    # The middle of the peaks comes by logarithms.
    assert astuple(setup.frame.reference) == pytest.approx(astuple(REFERENCE), rel=1e-14)
    np.testing.assert_array_equal(points.loss[rows], [3.45, 4.35])
    area = ANNEALED.learning_rates().sum()
    own = {"rho": np.float64(1.0), "lambda": np.float64(0.99)}
    forward = np.exp(points.log_forward_area(own, np))
    np.testing.assert_allclose(forward[rows], area, rtol=1e-12)
    np.testing.assert_array_equal(design.pretraining[rows], 1.0)
    np.testing.assert_array_equal(design.floating[rows], 1.0)
    assert np.isinf(design.gap[rows]).all()


@pytest.mark.slow
def test_a_study_without_pretraining_runs_meets_its_diagnostics() -> None:
    """Four runs of one base are what most teams have; untied, the level of the law never mixed."""
    runs = [run.name for run in lab().continual_runs if run.base == "stable_12k"][:4]
    posterior = fit(lab().subset(runs), "cpt-replay", seed=1)
    assert posterior.trustworthy, posterior.problems


def test_what_only_priors_would_tell_of_one_base_alone_is_not_sampled() -> None:
    """Its CPT curves start at its loss: how far that lies off the law, and of what PT gained, none says."""
    runs = [run.name for run in lab().continual_runs if run.base == "stable_12k"]
    alone = build_setup(read_spec("cpt-replay"), lab().subset(runs))
    free = {own.name for own in elements(alone.frame) if own.prior.is_free}
    several = build_setup(read_spec("cpt-replay"), lab())
    assert {own.name for own in elements(several.frame) if own.prior.is_free} - free == {
        *("offset_kept", "offset_pt", "misfit_pt", "fluctuation_pt", "gain_ratio")
    }
    assert not [curve for curve in alone.curves.curves if not curve.continual]
    curves = alone.frame.curves(lab(), lambda *_: [0], [lab().run("r25_cos")])
    losses = expected_loss(alone.frame, draw_priors(alone.frame, 20, seed=0), curves)
    wanted = [lab().base_loss("stable_12k", domain) for domain in alone.frame.domains]
    np.testing.assert_allclose(losses, np.tile(np.array(wanted, dtype=float), (20, 1)), rtol=1e-12)

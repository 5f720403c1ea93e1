"""PT runs that branch off another one start at its loss."""

from dataclasses import replace

import numpy as np
import pytest
from branching import LEFT, LEFT_AGAIN, branching_study
from synthetic import lab

from bayes_cpt.arrays import Floats
from bayes_cpt.model.joint_priors import draw_priors
from bayes_cpt.model.setup import Setup, build_setup
from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.runs import Branch

SPEC = read_spec("pretrain")


@pytest.fixture(scope="module")
def setup() -> Setup:
    return build_setup(SPEC, branching_study())


@pytest.fixture(scope="module")
def parameters(setup: Setup) -> dict[str, Floats]:
    return draw_priors(setup.frame, 3, seed=1)


def one_of(parameters: dict[str, Floats], draw: int) -> dict[str, Floats]:
    return {name: value[draw] for name, value in parameters.items()}


def test_a_branch_starts_at_its_trunk(setup: Setup) -> None:
    study = branching_study()
    curves, bases = setup.curves.curves, setup.curves.bases
    assert [curve.start for curve in curves] == [0, LEFT, LEFT_AGAIN]
    assert [curve.base_known for curve in curves] == [False, True, True]
    trunk = dict(zip(*study.curve("trunk", "web"), strict=True))
    cooled = dict(zip(*study.curve("cooled", "web"), strict=True))
    assert bases.loss[1] == trunk[LEFT]
    assert bases.loss[2] == cooled[LEFT_AGAIN]
    first = setup.curves.points.curve_index.searchsorted([1, 2])
    assert setup.curves.elapsed[first].tolist() == [100.0, 100.0]


def test_a_branch_follows_the_change_of_the_law_from_the_loss_at_its_trunk(
    setup: Setup, parameters: dict[str, Floats]
) -> None:
    law, points, bases = setup.frame.law, setup.curves.points, setup.curves.bases
    coefficients = law.coefficients(one_of(parameters, 0), np)
    gathered = {name: np.ravel(value)[0] for name, value in coefficients.items()}
    plain, at_branch = (law.loss(of, gathered, np) for of in (points, bases))
    moved = np.where(np.isfinite(bases.loss), bases.loss - at_branch, 0.0)[points.curve_index]
    expected = plain + np.where(points.curve_index > 0, moved, 0.0)
    found = law.curve_loss(points, bases, coefficients, np)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_without_its_trunk_a_run_stands_alone() -> None:
    (curve,) = build_setup(SPEC, branching_study().subset(["cooled"])).curves.curves
    assert (curve.start, curve.base_known) == (0, False)


def test_a_branch_of_a_cpt_run_starts_at_its_base_and_counts_once() -> None:
    study = lab()
    trunk = study.run("r25_cos")
    branch = replace(trunk, name="branch", branch=Branch("r25_cos", 1000))
    again = [
        ("branch", int(step), domain, float(loss))
        for domain in study.trained_domains
        for step, loss in zip(*study.curve("r25_cos", domain), strict=True)
    ]
    setup = build_setup(read_spec("cpt-replay"), study.with_runs([branch], losses=again))
    points = setup.curves.points
    for place, curve in enumerate(setup.curves.curves):
        if curve.run == "branch":
            assert curve.start == 0
            assert points.steps[points.curve_index == place].min() > 1000

"""Areas that several validation sets share: each point and base finds its own, each is there once."""

from functools import cache

import numpy as np
import pytest
from branching import branching_study
from open_weights import open_study
from synthetic import lab

from bayes_cpt.model.compiled.symbolic import CARRIED, STARTS
from bayes_cpt.model.likelihood_data import COLUMNS, likelihood_data
from bayes_cpt.model.setup import Setup, build_setup
from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.study import Study


@cache
def setup() -> Setup:
    return build_setup(read_spec("cpt-replay"), lab())


def test_each_point_and_each_base_finds_its_own_areas() -> None:
    arrays, curves = likelihood_data(setup()), setup().curves
    points, bases = curves.points, curves.bases
    pretraining = setup().design.pretraining.astype(bool)
    here, start = arrays["point_area"], arrays["base_area"]
    level = arrays["area_level"][here]
    np.testing.assert_array_equal(level[pretraining], points.level_pt[pretraining])
    np.testing.assert_array_equal(level[~pretraining], points.level_cpt[~pretraining])
    np.testing.assert_array_equal(arrays["area_level"][start], bases.level_pt)
    np.testing.assert_array_equal(arrays["area_forward"][here], points.log_forward)
    np.testing.assert_array_equal(arrays["area_forward"][start], bases.log_forward)


def test_validation_sets_of_a_run_share_the_areas_of_a_step() -> None:
    arrays, curves = likelihood_data(setup()), setup().curves
    where: dict[tuple[str, int], set[int]] = {}
    for curve, step, place in zip(
        curves.points.curve_index, curves.points.steps, arrays["point_area"], strict=True
    ):
        where.setdefault((curves.curves[curve].run, int(step)), set()).add(int(place))
    assert {len(places) for places in where.values()} == {1}
    assert len(where) < curves.points.steps.size
    rows = np.hstack([arrays["area_level"], arrays["area_forward"]])
    assert len(np.unique(rows, axis=0)) == len(rows)


@pytest.mark.parametrize(
    ("study", "model"),
    [(lab(), "cpt-replay"), (open_study(), "cpt-replay"), (branching_study(), "pretrain")],
    ids=["lab", "unknown base", "branches"],
)
def test_what_is_computed_before_the_loop_does_not_change_along_a_curve(
    study: Study, model: str
) -> None:
    """Levels of PT in CPT do not either: the kernel takes them from the base of the curve."""
    built = build_setup(read_spec(model), study)
    columns, design = likelihood_data(built)["point_columns"], built.design
    for first, last in zip(design.first, design.last, strict=True):
        settled = STARTS if design.pretraining[first] else STARTS | CARRIED
        for name in settled & set(COLUMNS):
            assert np.ptp(columns[COLUMNS.index(name), first:last]) == 0.0, name

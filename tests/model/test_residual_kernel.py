from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from dense_residuals import curve_covariance
from hand_points import hand_curves
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal, norm

from bayes_cpt.arrays import Floats
from bayes_cpt.model.points import Curves
from bayes_cpt.model.residual_kernel import curve_log_likelihoods
from bayes_cpt.model.residuals import ONSET_SHARE, ResidualDesign, residual_design

REFERENCE_STEPS = 3000.0
ONSET = ONSET_SHARE * REFERENCE_STEPS
# A measured start, none in CPT, and pre-training; gaps from one step to thousands.
CURVES = hand_curves(
    [
        [1.0, 2.0, 5.0, 40.0, 41.0, 900.0, 3000.0],
        [3.0, 10.0, 2500.0],
        [1500.0, 1501.0, 4000.0, 12_000.0],
        [7.0],
    ],
    continual=[True, True, False, True],
    base_known=[True, False, False, True],
)
NAMES = ("residual", "fluctuation", "memory", "misfit", "offset")
# What the likelihood takes of a design, in its order.
TAKEN = ("gap", "place", "height", "floating", "first", "last", "knot_first", "knot_carried",
         "knot_innovation")  # fmt: skip


def drawn(curves: Curves, seed: int) -> dict[str, Floats]:
    """Return residuals and scales; the memory is the same along a curve, the sizes are not."""
    generator = np.random.default_rng(seed)
    count = curves.points.steps.size
    of_curve = generator.uniform(5.0, 500.0, len(curves.curves))
    return {
        "residual": 0.01 * generator.standard_normal(count),
        "fluctuation": generator.uniform(0.005, 0.03, count),
        "memory": of_curve[curves.points.curve_index],
        "misfit": generator.uniform(0.005, 0.05, count),
        "offset": generator.uniform(0.01, 0.1, count),
    }


def arguments(design: ResidualDesign, values: dict[str, Floats]) -> tuple[Any, ...]:
    return (*(values[name] for name in NAMES), *(getattr(design, name) for name in TAKEN))


def dense(curves: Curves, values: dict[str, Floats], carried: float) -> list[float]:
    found = []
    for i, curve in enumerate(curves.curves):
        rows = curves.points.curve_index == i
        covariance = curve_covariance(
            curves.points.steps[rows],
            anchored=curve.continual and curve.base_known,
            fluctuation=values["fluctuation"][rows],
            memory=float(values["memory"][rows][0]),
            misfit=values["misfit"][rows],
            level=values["offset"][rows],
            onset=ONSET,
            carried=carried,
            per_fold=1 if curve.continual else 8,
        )
        found.append(float(multivariate_normal.logpdf(values["residual"][rows], cov=covariance)))
    return found


@pytest.mark.parametrize("carried", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_each_curve_is_the_dense_normal(seed: int, carried: float) -> None:
    design = residual_design(CURVES, REFERENCE_STEPS, carried)
    values = drawn(CURVES, seed)
    found = curve_log_likelihoods(*arguments(design, values))[0]
    np.testing.assert_allclose(found, dense(CURVES, values, carried), rtol=1e-9)


@settings(max_examples=50)
@given(st.sets(st.integers(1, 20_000), min_size=1, max_size=12), st.booleans(), st.integers(0, 99))
def test_any_spacing_of_points(steps: set[int], known: bool, seed: int) -> None:
    one = [float(step) for step in sorted(steps)]
    curves = hand_curves([one], continual=[True], base_known=[known])
    values = drawn(curves, seed)
    found = curve_log_likelihoods(
        *arguments(residual_design(curves, REFERENCE_STEPS, 0.5), values)
    )[0]
    np.testing.assert_allclose(found, dense(curves, values, 0.5), rtol=1e-7)


def test_without_slow_parts_and_memory_the_points_are_independent() -> None:
    values = drawn(CURVES, 4)
    nothing = np.zeros_like(values["misfit"])
    values |= {"misfit": nothing, "offset": nothing, "memory": nothing + 1e-3}
    found = curve_log_likelihoods(*arguments(residual_design(CURVES, REFERENCE_STEPS, 0.5), values))
    expected = norm.logpdf(values["residual"], scale=values["fluctuation"]).sum()
    assert float(found[0].sum()) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_slopes_are_finite_differences(name: str) -> None:
    design = residual_design(CURVES, REFERENCE_STEPS, 0.5)
    values = drawn(CURVES, 5)

    def total(changed: Floats) -> float:
        changed_too = arguments(design, values | {name: changed})
        return float(curve_log_likelihoods(*changed_too)[0].sum())

    slopes = curve_log_likelihoods(*arguments(design, values))[1 + NAMES.index(name)]
    steps = 1e-5 * np.abs(values[name])
    central = np.array(
        [
            (total(values[name] + step) - total(values[name] - step)) / (2.0 * step.sum())
            for step in np.diag(steps)
        ]
    )
    assert np.any(central != 0.0)
    np.testing.assert_allclose(slopes, central, rtol=2e-5, atol=1e-5 * np.abs(central).max())


def test_pretraining_has_a_walk_of_its_own() -> None:
    design = residual_design(CURVES, REFERENCE_STEPS, 0.5, 0.9)
    values = drawn(CURVES, 10)
    found = curve_log_likelihoods(*arguments(design, values))[0]
    half, most = dense(CURVES, values, 0.5), dense(CURVES, values, 0.9)
    np.testing.assert_allclose(found, [half[0], half[1], most[2], half[3]], rtol=1e-9)


def test_more_knots_than_needed_change_nothing() -> None:
    values = drawn(CURVES, 8)
    enough = residual_design(CURVES, REFERENCE_STEPS, 0.5)
    more = residual_design(CURVES, REFERENCE_STEPS, 0.5, last_step=1e6)
    assert more.knots > enough.knots
    np.testing.assert_allclose(more.ramps @ more.ramps.T, enough.ramps @ enough.ramps.T, rtol=1e-12)
    np.testing.assert_allclose(
        curve_log_likelihoods(*arguments(more, values))[0],
        curve_log_likelihoods(*arguments(enough, values))[0],
        rtol=1e-12,
    )


def test_design_fields_are_those_the_likelihood_takes() -> None:
    """A field added to the design without its use here would be silently ignored."""
    design = residual_design(CURVES, REFERENCE_STEPS, 0.5)
    # These make up `ramps` and the scales, and what no measured point tells of.
    others = {"knots", "pretraining", "position", "carried", "innovation", "beyond", "anchored"}
    assert {field.name for field in fields(design)} - others == set(TAKEN)
    values = drawn(CURVES, 9)
    base = curve_log_likelihoods(*arguments(design, values))[0].sum()
    for name in ("gap", "place", "height", "floating", "knot_carried", "knot_innovation"):
        other = replace(design, **{name: 0.7 * getattr(design, name) + 0.1})
        assert curve_log_likelihoods(*arguments(other, values))[0].sum() != base

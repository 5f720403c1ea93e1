"""The residual model: the likelihood of curves against dense normals, and the sizes of its parts."""

from typing import Any

import numpy as np
import pytest
from dense_residuals import curve_covariance
from hand_points import hand_curves, hand_points
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from bayes_cpt.arrays import Floats
from bayes_cpt.laws import Reference
from bayes_cpt.model.points import Curves
from bayes_cpt.model.residual_kernel import curve_log_likelihoods
from bayes_cpt.model.residuals import ONSET_SHARE, ResidualDesign, residual_design
from bayes_cpt.model.setup import BoundModel
from bayes_cpt.model.spec import read_spec

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


@settings(max_examples=100)
@given(
    st.sets(st.integers(1, 50_000), min_size=1, max_size=12),
    st.sampled_from([(True, True), (True, False), (False, False)]),
    st.sampled_from([0.0, 0.3, 0.5, 1.0]),
    st.integers(0, 99),
)
def test_any_spacing_of_points(
    steps: set[int], phase: tuple[bool, bool], carried: float, seed: int
) -> None:
    one = [float(step) for step in sorted(steps)]
    curves = hand_curves([one], continual=[phase[0]], base_known=[phase[1]])
    values = drawn(curves, seed)
    design = residual_design(curves, REFERENCE_STEPS, carried)
    found = curve_log_likelihoods(*arguments(design, values))[0]
    np.testing.assert_allclose(found, dense(curves, values, carried), rtol=1e-7)


# --- sizes ---------------------------------------------------------------------------------------

# One from a measured start, one of pre-training, one from a base that was not measured.
THREE = hand_curves(
    [[5.0, 7.0, 100.0], [20.0, 30.0], [3.0]],
    continual=[True, False, True],
    base_known=[True, False, False],
)


def test_sizes_of_the_parts_follow_rate_phase_and_shift() -> None:
    """The scales of the shipped model, written out."""
    reference = Reference(2e-3, 24.0, 3.0, 3000.0)
    frame = BoundModel(read_spec("cpt-replay"), ("g", "t"), ("general", "target"), reference)
    parameters = {
        "reference_slope": np.array([0.1, 0.2]),
        "fluctuation_floor": np.array([0.2, 0.3]),
        "fluctuation_memory": np.array([0.02, 0.03]),
        "fluctuation_pt": np.array([0.015, 0.016]),
        "fluctuation_cpt": np.array([0.01, 0.011]),
        "misfit_pt": np.array([0.02, 0.021]),
        "misfit_cpt": np.array([0.01, 0.012]),
        "misfit_replay": np.array([0.8, 0.6]),
        "offset_pt": np.array([0.03, 0.04]),
    }
    replay = {
        "a": np.array([0.0, 3.0]),
        "b": np.array([150.0, 0.0]),
        "gamma": np.array([0.4, 0.0]),
    }
    points = hand_points(
        domain=[0, 1, 0, 1],
        continual=[True, True, False, False],
        learning_rate=[1.0, 0.5, 0.0, 1.0],
        target_share=[0.75, 0.5, 0.0, 0.0],
    )
    pretraining = np.array([0.0, 0.0, 1.0, 1.0])
    found = frame.residual_scales(points, pretraining, parameters, replay, np)
    np.testing.assert_allclose(
        found.fluctuation, [0.01, 0.011 * (0.3 + 0.7 * 0.5), 0.015 * 0.2, 0.016], rtol=1e-12
    )
    np.testing.assert_allclose(found.memory, [60.0, 90.0, 60.0, 90.0], rtol=1e-12)
    power = 0.75 * (1 + 150 * 0.25) ** -0.4
    exponential = (1 - np.exp(-1.5)) / (1 - np.exp(-3.0))
    # A part of the misfit's variance goes with the replay factor.
    expected = [0.01 * np.sqrt(0.2 + 0.8 * power), 0.012 * np.sqrt(0.4 + 0.6 * exponential)]
    np.testing.assert_allclose(found.misfit, [*expected, 0.02, 0.021], rtol=1e-12)
    np.testing.assert_allclose(found.offset, [0.03, 0.04, 0.03, 0.04], rtol=1e-12)


def test_extrapolation_counts_e_folds_of_pretraining_beyond_what_was_measured() -> None:
    beyond = residual_design(THREE, REFERENCE_STEPS, 0.5, studied_pt=20.0).beyond
    np.testing.assert_allclose(beyond, [0, 0, 0, 0, np.log(1.5), 0], rtol=1e-12)
    assert not residual_design(THREE, REFERENCE_STEPS, 0.5).beyond.any()


@pytest.mark.parametrize("residuals", [{}, {"kind": "independent"}])
def test_extrapolation_is_a_share_of_the_slope(residuals: dict[str, str]) -> None:
    spec = read_spec("pretrain")
    table = spec.residuals.model_copy(update=residuals)
    priors = spec.priors | {"error": spec.priors["misfit_pt"]}
    spec = spec.model_copy(update={"residuals": table, "priors": priors})
    frame = BoundModel(spec, ("g",), ("general",), Reference(2e-3, 24.0, 3.0, 3000.0))
    parameters = {
        name: np.ones(() if info.dims is None else 1) for name, info in frame.parameters().items()
    } | {
        "reference_slope": np.array([0.07]),
        "exponent": np.array([0.6]),
        "extrapolation_pt": np.array([0.04]),
    }
    coefficients = frame.law.coefficients(parameters, np)
    points = hand_points(domain=[0, 0], continual=False, target_share=0.0)
    found = frame.residual_scales(points, np.ones(2), parameters, coefficients, np).extrapolation
    np.testing.assert_allclose(found, 0.04 * 0.07, rtol=1e-12)

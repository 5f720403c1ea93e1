"""The residual model: the likelihood of a curve against a dense normal."""

from dataclasses import replace

import numpy as np
import pytest
from dense_residuals import curve_covariance
from hand_points import hand_curves, hand_points
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from small_study import PEAK, STUDY

from bayes_cpt.laws.term import Reference
from bayes_cpt.model.law_table import ResidualTable
from bayes_cpt.model.residual_kernel import curve_log_likelihood, workspace
from bayes_cpt.model.residuals import (
    ONSET_SHARE,
    PEAK_FOLDS,
    Studied,
    beyond_studied,
    residual_design,
)
from bayes_cpt.model.setup import BoundModel
from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.runs import Run
from bayes_cpt.study.schedules import constant, linear

REFERENCE_STEPS = 3000.0
# What the likelihood takes of a design, in its order.
TAKEN = ("gap", "place", "height", "floating", "knot_carried", "knot_innovation")


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
    generator, count = np.random.default_rng(seed), len(one)
    residual, memory = 0.01 * generator.standard_normal(count), generator.uniform(5.0, 500.0)
    fluctuation, misfit, level = generator.uniform(
        [[0.005]] * 3, [[0.03], [0.05], [0.1]], (3, count)
    )
    table = ResidualTable(misfit_memory=carried, misfit_memory_pt=carried)
    design = residual_design(curves, REFERENCE_STEPS, table, Studied())
    scales = (fluctuation, np.full(count, memory), misfit, level)
    taken = {name: getattr(design, name) for name in TAKEN} | {"floating": design.floating[0]}
    room = workspace(design.place, design.first, design.last)
    found = curve_log_likelihood(residual, *scales, *taken.values(), room, *np.empty((5, count)))
    covariance = curve_covariance(
        one,
        anchored=all(phase),
        fluctuation=fluctuation,
        memory=memory,
        misfit=misfit,
        level=level,
        onset=ONSET_SHARE * REFERENCE_STEPS,
        carried=carried,
        per_fold=1 if phase[0] else 8,
    )
    expected = multivariate_normal.logpdf(residual, cov=covariance)
    np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_what_a_study_measured_of_each_phase_and_run() -> None:
    runs = {"half": 300.0, "none": 500.0, "trunk": 1000.0}
    assert Studied.of(STUDY) == Studied(1000.0, 500.0, runs, PEAK)
    cut = STUDY.losses[STUDY.losses["step"] < 1000]
    assert Studied.of(replace(STUDY, losses=cut)).pretraining == 400.0
    assert Studied.of(STUDY.subset(["none", "half"])).pretraining == np.inf


def test_a_run_is_extrapolated_from_its_last_step_and_a_new_one_from_that_of_its_phase() -> None:
    frame = BoundModel.of(read_spec("cpt-replay"), STUDY.truncated({"none": 10}))
    plan = STUDY.changed(runs=(*STUDY.runs, replace(STUDY.run("none"), name="new")))
    steps = {"none": [5, 10, 500], "half": [300], "new": [300, 450]}
    curves = frame.curves(
        plan, lambda run, domain: steps.get(run.name, []) if domain == "t" else []
    )
    expected = {"none": [0.0, 0.0, np.log(50.0)], "half": [0.0], "new": [0.0, np.log(1.5)]}
    np.testing.assert_allclose(
        beyond_studied(curves, frame.studied),
        np.concatenate([expected[curve.run] for curve in curves.curves]),
        rtol=1e-12,
    )


def test_a_pt_run_at_a_higher_peak_is_extrapolated_from_its_first_steps() -> None:
    frame = BoundModel.of(read_spec("pretrain"), STUDY)
    peaks = {"low": 0.5, "same": 1.0, "twice": 2.0, "long": 1.0}
    runs = [
        Run(name, "pt", linear(100, 0.0, factor * PEAK) + constant(1900, factor * PEAK))
        for name, factor in peaks.items()
    ]
    plan = STUDY.changed(runs=(*STUDY.runs, *runs))
    steps = {"low": [500], "same": [500], "twice": [500], "long": [2000]}
    curves = frame.curves(plan, lambda run, domain: steps.get(run.name, []))
    higher = PEAK_FOLDS * np.log(2.0)
    np.testing.assert_allclose(
        beyond_studied(curves, frame.studied), [0.0, 0.0, higher, np.log(2.0)], rtol=1e-12
    )


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

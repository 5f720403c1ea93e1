"""Draws of curves against the dense normal distribution that the residual model stands for."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from dense_residuals import curve_covariance, walk
from hand_points import BASE_MISFIT, BASE_RATE, hand_curves

from bayes_cpt.arrays import Floats
from bayes_cpt.laws.term import Reference
from bayes_cpt.model.evaluate import Draws, scales_of
from bayes_cpt.model.joint_priors import draw_priors
from bayes_cpt.model.points import Curves
from bayes_cpt.model.residuals import ONSET_SHARE, Studied, predictive_parts
from bayes_cpt.model.setup import BoundModel
from bayes_cpt.model.simulate import (
    CurveDraws,
    expected_loss,
    known_moments,
    residual_products,
    simulate,
)
from bayes_cpt.model.spec import read_spec

DRAWS, KNOWN, PART = 20_000, 5000, 100
# Of a moment, in standard errors. Seeds are fixed; a few hundred moments are looked at.
FAR = 5.0
REFERENCE = Reference(2e-3, 24.0, 3.0, 3000.0)
# Of CPT the study measured less than is asked for here, and than some curves were seen.
STUDIED = Studied(continual=500.0)
FRAME = BoundModel(read_spec("cpt-replay"), ("g", "t"), ("general", "target"), REFERENCE, STUDIED)
ONE = {name: value[0] for name, value in draw_priors(FRAME, 1, seed=3).items()} | {
    "memory": np.float64(300.0),
    "fluctuation_memory": np.array([0.02, 0.05]),
}
PARAMETERS = {name: np.broadcast_to(value, (DRAWS, *value.shape)) for name, value in ONE.items()}
# A measured start, PT, CPT from an unmeasured base; other points are measured than are wanted.
FORM: dict[str, Any] = {
    "continual": [True, False, True],
    "base_known": [True, False, False],
    "domains": [1, 0, 1],
}
WANTED_STEPS = [[1.0, 30.0, 200.0, 3000.0], [1000.0, 1100.0, 9000.0], [5.0, 100.0, 2000.0]]
SEEN_STEPS = [[10.0, 60.0, 1000.0], [900.0, 1100.0], [50.0]]


def with_rates(steps: list[list[float]]) -> Curves:
    rates = [[1.0 - 0.3 * np.sin(step) ** 2 for step in own] for own in steps]
    return hand_curves(steps, rates=rates, **FORM)


WANTED = with_rates(WANTED_STEPS)
SEEN_RESIDUALS = [[0.06, -0.03, 0.15], [-0.03, 0.04], [0.06]]


def seen() -> Curves:
    """Return the measured points: the law's curve plus the residuals above."""
    bare = with_rates(SEEN_STEPS)
    law = expected_loss(FRAME, {name: value[:1] for name, value in PARAMETERS.items()}, bare)[0]
    return replace(bare, points=replace(bare.points, loss=law + np.concatenate(SEEN_RESIDUALS)))


def covariance(curve: int, steps: list[float], rates: Floats) -> Floats:
    """Return the dense covariance of a curve at any steps, all sizes written out."""
    continual, domain = FORM["continual"][curve], FORM["domains"][curve]
    phase = "cpt" if continual else "pt"
    own = {name: float(value[domain]) for name, value in ONE.items() if name in SIZES}
    floor = own["fluctuation_floor"]
    # At replay 0 the misfit is whole.
    misfit = own[f"misfit_{phase}"]
    level = np.full(len(steps), own["offset_pt"])
    if continual:
        # Where its base lies off the law as PT does, a run keeps a share of that.
        hot = own["fluctuation_pt"] * (floor + (1.0 - floor) * BASE_RATE)
        start = np.sqrt(own["offset_pt"] ** 2 + (own["misfit_pt"] * BASE_MISFIT) ** 2 + hot**2)
        left = np.exp(-np.array(steps) / (own["offset_time"] * REFERENCE.steps))
        level = start * (own["offset_kept"] + (1.0 - own["offset_kept"]) * left)
    beyond = np.log(np.maximum(np.array(steps) / STUDIED.continual, 1.0)) * continual
    extrapolated = own["extrapolation_cpt"] * misfit * beyond
    return np.outer(extrapolated, extrapolated) + curve_covariance(
        steps,
        anchored=FORM["base_known"][curve],
        fluctuation=own[f"fluctuation_{phase}"] * (floor + (1.0 - floor) * rates),
        memory=own["fluctuation_memory"] * REFERENCE.steps,
        misfit=np.full(len(steps), misfit),
        level=level,
        onset=ONSET_SHARE * REFERENCE.steps,
        **walk(FRAME.spec, continual=continual),
    )


SIZES = {
    "fluctuation_floor", "fluctuation_memory", "fluctuation_pt", "fluctuation_cpt", "misfit_pt",
    "misfit_cpt", "offset_pt", "extrapolation_cpt", "offset_kept", "offset_time",
}  # fmt: skip


def rates_of(curves: Curves, curve: int) -> Floats:
    return np.asarray(curves.points.learning_rate[curves.points.curve_index == curve])


def residuals(draws: CurveDraws, curve: int) -> Floats:
    return np.asarray((draws.loss - draws.expected)[:, WANTED.points.curve_index == curve])


def assert_moments(found: Floats, mean: Floats, wanted: Floats) -> None:
    """Compare mean and covariance of draws with those of a normal distribution."""
    sds = np.sqrt(np.diag(wanted))
    assert np.all(np.abs(found.mean(axis=0) - mean) <= FAR * sds / np.sqrt(len(found)) + 1e-12)
    error = np.sqrt((np.outer(sds, sds) ** 2 + wanted**2) / len(found))
    assert np.all(np.abs(np.cov(found, rowvar=False) - wanted) <= FAR * error + 1e-12)


def conditional(curve: int) -> tuple[Floats, Floats]:
    """Return mean and covariance at the wanted steps given the residuals at the seen ones."""
    steps = [*WANTED_STEPS[curve], *SEEN_STEPS[curve]]
    rates = np.concatenate([rates_of(WANTED, curve), rates_of(with_rates(SEEN_STEPS), curve)])
    whole = covariance(curve, steps, rates)
    count = len(WANTED_STEPS[curve])
    here, cross, there = whole[:count, :count], whole[:count, count:], whole[count:, count:]
    weights = np.linalg.solve(there, cross.T).T
    return weights @ np.array(SEEN_RESIDUALS[curve]), here - weights @ cross.T


@pytest.fixture(scope="module")
def new() -> CurveDraws:
    return simulate(FRAME, PARAMETERS, WANTED, None, np.random.default_rng(1))


@pytest.fixture(scope="module")
def known() -> CurveDraws:
    """In parts: all draws at once would spend their time on getting memory."""
    generator = np.random.default_rng(2)
    few = {name: value[:PART] for name, value in PARAMETERS.items()}
    drawn = [simulate(FRAME, few, WANTED, seen(), generator) for _ in range(KNOWN // PART)]
    names = [field.name for field in fields(CurveDraws)]
    return CurveDraws(*(np.concatenate([getattr(own, n) for own in drawn]) for n in names))


@pytest.mark.parametrize("curve", [0, 1, 2])
def test_new_curves_have_the_dense_moments(new: CurveDraws, curve: int) -> None:
    wanted = covariance(curve, WANTED_STEPS[curve], rates_of(WANTED, curve))
    assert_moments(residuals(new, curve), np.zeros(len(wanted)), wanted)


@pytest.mark.parametrize("curve", [0, 1, 2])
def test_known_curves_have_the_dense_conditional_moments(known: CurveDraws, curve: int) -> None:
    mean, wanted = conditional(curve)
    assert_moments(residuals(known, curve), mean, wanted)
    # Conditioning must have done something for this to mean anything.
    prior = covariance(curve, WANTED_STEPS[curve], rates_of(WANTED, curve))
    assert np.trace(wanted) < 0.9 * np.trace(prior)
    assert np.abs(mean).max() > 0.01


@pytest.mark.parametrize("curve", [0, 1, 2])
def test_moments_of_known_curves_are_the_dense_conditional_ones(curve: int) -> None:
    few = {name: value[:2] for name, value in PARAMETERS.items()}
    means, variances = known_moments(FRAME, few, WANTED, seen())
    rows = WANTED.points.curve_index == curve
    law = expected_loss(FRAME, few, WANTED)[:, rows]
    mean, wanted = conditional(curve)
    for draw in range(2):
        np.testing.assert_allclose((means[:, rows] - law)[draw], mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(variances[draw, rows], np.diag(wanted), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("curve", [0, 1, 2])
def test_the_predictive_variance_is_the_dense_one(curve: int) -> None:
    design = FRAME.residual_design(WANTED)
    one = {name: value[:1] for name, value in PARAMETERS.items()}
    scales = scales_of(WANTED, Draws.of(FRAME, one, WANTED.points.form))
    points, ramps = WANTED.points, design.ramps
    placed = (WANTED.elapsed, design.floating, points.base_known, design.beyond)
    found = sum(predictive_parts(scales, *placed, (ramps**2).sum(axis=1), np))
    rows = WANTED.points.curve_index == curve
    wanted = covariance(curve, WANTED_STEPS[curve], rates_of(WANTED, curve))
    np.testing.assert_allclose(found[0, rows], np.diag(wanted), rtol=1e-9)


def test_products_are_those_of_the_dense_covariance() -> None:
    measured = seen()
    few = {name: value[:2] for name, value in PARAMETERS.items()}
    directions = np.random.default_rng(4).standard_normal((measured.points.steps.size, 2))
    products = residual_products(FRAME, few, measured, directions)
    for curve, residual in enumerate(SEEN_RESIDUALS):
        columns = np.column_stack([residual, directions[measured.points.curve_index == curve]])
        whole = covariance(curve, SEEN_STEPS[curve], rates_of(measured, curve))
        wanted = columns.T @ np.linalg.solve(whole, columns)
        np.testing.assert_allclose(products[curve], [wanted, wanted], rtol=1e-8, atol=1e-8)

import numpy as np
import pytest
from dense_residuals import misfit_covariance
from hand_points import hand_curves, hand_points
from hypothesis import given
from hypothesis import strategies as st

from bayes_cpt.laws import Reference
from bayes_cpt.model.discrepancy import (
    knot_count,
    knots_beside,
    misfit_height,
    misfit_position,
    misfit_ramps,
    misfit_walk,
    unit_ramps,
)
from bayes_cpt.model.residuals import residual_design
from bayes_cpt.model.setup import BoundModel
from bayes_cpt.model.spec import read_spec

CURVES = hand_curves(
    [[5.0, 7.0, 100.0], [20.0, 30.0], [3.0]],
    continual=[True, False, True],
    base_known=[True, False, False],
)


def test_gaps_run_along_each_curve_from_its_measured_start() -> None:
    design = residual_design(CURVES, 3000.0, 0.5)
    np.testing.assert_array_equal(design.gap, [5.0, 2.0, 93.0, np.inf, 10.0, np.inf])
    np.testing.assert_array_equal(design.floating, [0, 0, 0, 1, 1, 1])
    np.testing.assert_array_equal(design.pretraining, [0, 0, 0, 1, 1, 0])
    np.testing.assert_array_equal(design.first, [0, 3, 5])
    np.testing.assert_array_equal(design.last, [3, 5, 6])


@given(
    st.sets(st.integers(1, 50_000), min_size=1, max_size=8),
    st.sampled_from([0.0, 0.3, 0.5, 1.0]),
    st.floats(1.0, 50.0),
    st.sampled_from([1, 3, 8]),
)
def test_ramps_give_the_interpolated_autoregression(
    steps: set[int], carried: float, onset: float, per_fold: int
) -> None:
    points = np.sort(list(steps)).astype(np.float64)
    kept, innovation = misfit_walk(carried, per_fold)
    position = misfit_position(points, onset, per_fold)
    size = innovation * misfit_height(position, kept)[:, None]
    ramps = size * misfit_ramps(position, knot_count(position), kept)
    np.testing.assert_allclose(unit_ramps(points, onset, carried, per_fold), ramps, rtol=1e-12)
    expected = misfit_covariance(points, onset, carried, per_fold)
    np.testing.assert_allclose(ramps @ ramps.T, expected, rtol=1e-9, atol=1e-12)


@given(
    st.sets(st.integers(1, 50_000), min_size=1, max_size=8),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.sampled_from([1, 8]),
)
def test_the_knots_beside_points_say_as_much_as_all(
    steps: set[int], carried: float, per_fold: int
) -> None:
    points = np.sort(list(steps)).astype(np.float64)
    walk = misfit_walk(carried, per_fold)
    position = misfit_position(points, 6.0, per_fold)
    place, link, size = knots_beside(position, *walk)
    assert link.size == size.size <= 2 * points.size
    np.testing.assert_allclose(place - np.floor(place), position - np.floor(position), atol=1e-9)
    # Unit innovations at the kept knots, carried from one to the next in units of their own.
    response = np.linalg.inv(np.eye(size.size) - np.diag(link[1:], -1))
    knots = np.vstack([np.zeros(size.size), size[:, None] * response])
    below, share = np.floor(place).astype(int), (place - np.floor(place))[:, None]
    ramps = (1.0 - share) * knots[below] + share * knots[below + 1]
    ramps *= misfit_height(position, walk[0])[:, None]
    expected = misfit_covariance(points, 6.0, carried, per_fold)
    np.testing.assert_allclose(ramps @ ramps.T, expected, rtol=1e-9, atol=1e-12)


@given(
    st.one_of(st.floats(0.01, 0.99), st.just(1.0)),
    st.floats(0.1, 1e6),
    st.floats(1.0, 50.0),
    st.sampled_from([1, 3, 8]),
)
def test_the_size_of_the_misfit_shows_no_knots(
    memory: float, steps: float, onset: float, per_fold: int
) -> None:
    """Everywhere the variance of an Ornstein-Uhlenbeck process of log(1 + t/onset) from 0."""
    variance = float((unit_ramps(np.array([steps]), onset, memory, per_fold) ** 2).sum())
    kept = (1.0 + steps / onset) ** (2.0 * np.log(memory))
    expected = (1.0 - kept) / (1.0 - memory**2) if memory < 1 else np.log1p(steps / onset)
    assert variance == pytest.approx(expected, rel=1e-9)


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
    beyond = residual_design(CURVES, 3000.0, 0.5, studied_pt=20.0).beyond
    np.testing.assert_allclose(beyond, [0, 0, 0, 0, np.log(1.5), 0], rtol=1e-12)
    assert not residual_design(CURVES, 3000.0, 0.5).beyond.any()


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

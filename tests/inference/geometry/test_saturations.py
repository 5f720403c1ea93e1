"""What half of the target data gives: against the law's replay factor, and where it is taken."""

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import lab
from target_family import TARGETS, several

from bayes_cpt.arrays import Floats
from bayes_cpt.inference.density import Density, density_of
from bayes_cpt.inference.geometry.saturations import (
    SHARE,
    add_saturation,
    join_saturation_slopes,
    take_saturation,
)
from bayes_cpt.laws.transfer import Shift
from bayes_cpt.model.build import build_model
from bayes_cpt.model.priors.families import LogNormal
from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.study import Study

# Where rate, exponent and dilution of two validation sets stand in positions of seven numbers.
SETS = np.array([[4, 0, 1], [2, 6, 3]])
positions = st.lists(st.floats(-6, 6), min_size=7, max_size=7).map(np.array)
LAW = Shift((1.0,), ("saturating",), replay_dilution=True)


def added(position: Floats) -> Floats:
    """Return a position with dilutions in place of what half of the target data gives."""
    moved = position.copy()
    add_saturation(moved, SETS)
    return moved


@given(positions)
def test_it_is_what_the_law_leaves_at_half_of_the_target_data(position: Floats) -> None:
    moved = added(position)
    for rate, exponent, dilution in SETS:
        coefficients = {
            "c": np.exp(moved[rate]),
            "delta": np.exp(moved[exponent]),
            "k": moved[dilution],
        }
        factor = LAW.replay_factor(np.array(SHARE), coefficients, np)
        expected = -(1.0 - SHARE) * position[dilution]
        np.testing.assert_allclose(np.log(factor), expected, rtol=1e-8, atol=1e-10)


@given(positions)
def test_taking_undoes_adding_and_all_else_stays(position: Floats) -> None:
    moved = added(position)
    others = np.setdiff1d(np.arange(7), SETS[:, 2])
    np.testing.assert_array_equal(moved[others], position[others])
    take_saturation(moved, SETS)
    np.testing.assert_allclose(moved, position, rtol=0, atol=1e-12)


@given(positions)
def test_volumes_stay_and_slopes_and_positions_follow(position: Floats) -> None:
    steps = 1e-5 * np.eye(7)
    jacobian = np.array([added(position + step) - added(position - step) for step in steps]) / 2e-5
    assert np.linalg.det(jacobian) == pytest.approx(1.0, rel=1e-6)
    slopes, moved = np.linspace(-2.0, 1.0, 7), added(position)
    joined = slopes.copy()
    join_saturation_slopes(joined, moved, SETS)
    np.testing.assert_allclose(joined, jacobian @ slopes, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(moved, position, rtol=0, atol=1e-12)


@cache
def density_under(name: str, study: Study) -> Density:
    return density_of(build_model(study, read_spec(name)))


def test_a_set_has_the_dilution_of_its_own() -> None:
    density = density_under("cpt-replay", lab())
    (row,) = density.saturated
    # Numbers of a density are in the order of its variables, and the target is the second set.
    starts = np.cumsum([0, *(int(np.prod(shape)) for shape in density.shapes)])
    places = dict(zip(density.names, starts, strict=False))
    expected = [places["saturation_rate"], places["saturation_exponent"]]
    assert list(row) == [*expected, places["replay_dilution"] + 1]


def test_each_of_several_targets_has_its_own() -> None:
    density = density_of(build_model(several(), read_spec("cpt-replay")))
    rates, exponents, dilutions = density.saturated.T
    assert len(rates) == len(TARGETS)
    for places in (rates, exponents, dilutions):
        assert all(after - before == 1 for before, after in pairwise(places))


def test_a_law_without_both_has_none() -> None:
    assert density_under("cpt-replay-printed", lab()).saturated.shape == (0, 3)


def test_a_rate_within_bounds_is_sampled_otherwise_and_stays_out() -> None:
    spec = read_spec("cpt-replay")
    bounded = LogNormal(distribution="lognormal", median=4.0, sigma=1.2, lower=0.1, upper=100.0)
    prior = spec.priors["saturation_rate"].model_copy(update={"every": bounded})
    changed = spec.model_copy(update={"priors": spec.priors | {"saturation_rate": prior}})
    assert not len(density_of(build_model(lab(), changed)).saturated)


def test_a_dilution_that_is_fixed_stays_where_it_is() -> None:
    spec = read_spec("cpt-replay")
    fixed = spec.model_copy(update={"law": spec.law.model_copy(update={"replay_dilution": False})})
    assert not len(density_of(build_model(lab(), fixed)).saturated)

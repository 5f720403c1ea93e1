"""Points that determine the others."""

import numpy as np
import pytest

from bayes_cpt.forecast.skeleton import MOST, SAMPLE, Skeleton, sample_of


def test_a_space_of_few_dimensions_is_spanned_by_as_many_points() -> None:
    generator = np.random.default_rng(0)
    values = generator.standard_normal((200, 5)) @ generator.standard_normal((5, 3000))
    found = Skeleton.of(values[:, :40])
    assert found.rows.size == 5
    np.testing.assert_allclose(found.weights @ values[found.rows], values, atol=1e-9)


def test_smooth_curves_need_few_points() -> None:
    steps, rates = np.linspace(0.0, 1.0, 200), np.random.default_rng(1).uniform(0.1, 10.0, 2000)
    values = np.exp(-np.outer(steps, rates))
    found = Skeleton.of(values[:, sample_of({"rate": rates})])
    assert found.rows.size < 15
    np.testing.assert_allclose(found.weights @ values[found.rows], values, atol=1e-7)


@pytest.mark.parametrize("points", [1, 2, MOST + 9])
def test_points_without_anything_in_common_determine_themselves(points: int) -> None:
    values = np.random.default_rng(2).standard_normal((points, 100))
    found = Skeleton.of(values[:, :80])
    np.testing.assert_allclose(found.weights[found.rows], np.eye(found.rows.size), atol=1e-12)
    if points <= MOST:
        np.testing.assert_allclose(found.weights @ values[found.rows], values, atol=1e-12)


def test_nothing_and_no_number() -> None:
    nothing = Skeleton.of(np.zeros((7, 20)))
    assert not (nothing.weights @ np.zeros((nothing.rows.size, 3))).any()
    infinite = Skeleton.of(np.full((3, 4), np.inf))
    assert infinite.rows.tolist() == [0, 1, 2]


def test_the_sample_holds_the_extremes_of_every_parameter() -> None:
    generator = np.random.default_rng(3)
    parameters = {"a": generator.random(5000), "b": generator.random((5000, 2))}
    rows = sample_of(parameters)
    assert rows.size <= SAMPLE + 6
    assert parameters["a"].max() == parameters["a"][rows].max()
    assert (parameters["b"].min(axis=0) == parameters["b"][rows].min(axis=0)).all()

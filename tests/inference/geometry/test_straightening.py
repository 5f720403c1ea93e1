"""Deviations of single sizes with straight ridges: the same posterior, and which are taken how."""

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from size_family import family
from synthetic import lab

from bayes_cpt.arrays import Floats
from bayes_cpt.inference.density import Density, density_of
from bayes_cpt.inference.geometry.coordinates import join_paces
from bayes_cpt.inference.geometry.saturations import take_saturation
from bayes_cpt.inference.geometry.whitening import Metric, laplace
from bayes_cpt.model.build import build_model
from bayes_cpt.model.spec import read_spec

TOLD, UNTOLD, LOOSE = 0.1, 0.9, 5.0


@cache
def plain() -> Density:
    return density_of(build_model(family(), read_spec("cpt-replay-sizes")))


def metric_of(density: Density, told: NDArray[np.int64], *sums: dict[int, float]) -> Metric:
    """Return a metric in which some numbers are known well, and some sums; others little.

    The first number of a sum is a deviation, what it can be made up for by is next to unknown.
    """
    spread = np.full(density.start.size, UNTOLD)
    spread[told] = TOLD
    precision = np.diag(spread**-2)
    for weights in sums:
        for other in set(weights) - set(density.deviations[:, 0]):
            precision[other, other] = LOOSE**-2
    for weights in sums:
        row = np.zeros(spread.size)
        row[list(weights)] = list(weights.values())
        precision += np.outer(row, row) / TOLD**2
    center = density.start + 0.3 * np.random.default_rng(2).standard_normal(spread.size)
    return Metric(center, np.linalg.inv(np.linalg.cholesky(precision)).T)


def mixed() -> tuple[Density, Metric, Metric]:
    """Return the density with deviations of every kind, its metric, and that of the plain one."""
    places = plain().deviations[:, 0]
    contrast = {int(places[k]): weight for k, weight in enumerate((0.4, -0.8, 0.4))}
    sums = [{int(places[k]): 1.0, other: 1.0} for k, other in ((6, 0), (7, 1), (9, 2))]
    metric = metric_of(plain(), places[3:5], contrast, *sums)
    return (*plain().straightened(metric), metric)


def jacobian(density: Density, position: Floats) -> Floats:
    step = 1e-5 * np.eye(position.size)
    ahead, behind = density.unconstrained(position + step), density.unconstrained(position - step)
    return np.asarray((ahead - behind) / 2e-5)


def density_at(density: Density, position: Floats) -> tuple[float, Floats]:
    return density.in_metric(Metric(position, np.eye(position.size)))(np.zeros(position.size))


def test_deviations_stand_beside_the_spread_of_their_validation_set() -> None:
    density = plain()
    center = density.start
    center[density.deviations[:, 0]] = np.arange(len(density.deviations))
    values = density.values(center)
    found = np.concatenate([values["size_deviation"], values["annealing_deviation"]])
    np.testing.assert_allclose(found, np.arange(len(density.deviations)), atol=1e-12)
    center[density.deviations[:, 1]] += np.log(2.0)
    for name, count in (("size_misfit", 6), ("annealing_misfit", 6)):
        assert len(values[name]) * 3 == count
        np.testing.assert_allclose(density.values(center)[name], 2.0 * values[name])


def test_the_density_is_the_plain_one_with_what_volumes_change_by() -> None:
    density, metric, _ = mixed()
    assert len(density.centred)
    assert len(density.ridges)
    position = metric.center + 0.2 * np.random.default_rng(1).standard_normal(metric.center.size)
    position[density.deviations[:, 1]] += 0.3
    same = density.unconstrained(position)
    take_saturation(same, plain().saturated)
    join_paces(same, plain().paces, plain().pace_offset)
    volumes = [
        np.linalg.slogdet(jacobian(one, at))[1]
        for one, at in ((density, position), (plain(), same))
    ]
    assert abs(volumes[0] - volumes[1]) > 0.1
    assert density_at(density, position)[0] - volumes[0] == pytest.approx(
        density_at(plain(), same)[0] - volumes[1], rel=1e-8
    )


def test_the_gradient_is_that_of_finite_differences() -> None:
    density, metric, _ = mixed()
    generator = np.random.default_rng(3)
    here = metric.center + 0.1 * generator.standard_normal(metric.center.size)
    gradient, step = density_at(density, here)[1], 1e-5
    for place in {0, 1, 2, *density.deviations.ravel()}:
        shift = step * np.eye(here.size)[place]
        ahead, behind = (density_at(density, here + s)[0] for s in (shift, -shift))
        assert gradient[place] == pytest.approx((ahead - behind) / (2 * step), rel=1e-4, abs=0.05)


def test_white_coordinates_are_those_of_the_plain_density_near_the_mode() -> None:
    density, metric, before = mixed()
    np.testing.assert_allclose(
        density.unconstrained(metric.center),
        plain().unconstrained(before.center),
        rtol=1e-12,
        atol=1e-12,
    )
    white = 1e-4 * np.random.default_rng(4).standard_normal(metric.center.size)
    moved = density.unconstrained(metric.center + metric.factor @ white)
    expected = plain().unconstrained(before.center + before.factor @ white)
    np.testing.assert_allclose(moved, expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize("told", [0, 5, None])
def test_deviations_that_data_tell_by_themselves_are_taken_times_their_spread(
    told: int | None,
) -> None:
    metric = metric_of(plain(), plain().deviations[:told, 0])
    density, _ = plain().straightened(metric)
    np.testing.assert_array_equal(density.centred, plain().deviations[:told])
    assert not len(density.ridges)


def test_a_contrast_that_data_tell_is_taken_times_its_spread_and_the_rest_are_not() -> None:
    places = plain().deviations[:3, 0]
    contrast = np.array([1.0, -2.0, 1.0]) / np.sqrt(6.0)
    metric = metric_of(plain(), places[:0], dict(zip(places.tolist(), contrast, strict=True)))
    density, _ = plain().straightened(metric)
    np.testing.assert_array_equal(density.centred, plain().deviations[:1])
    assert abs(contrast @ density.turns[:3, 0]) == pytest.approx(1.0)
    np.testing.assert_allclose(
        density.turns.T @ density.turns, np.eye(len(density.turns)), atol=1e-12
    )


def test_what_makes_up_for_a_deviation_moves_along_with_it_at_any_spread() -> None:
    place, spread = plain().deviations[0]
    metric = metric_of(plain(), plain().deviations[:0, 0], {int(place): 1.0, 0: 1.0})
    density, new = plain().straightened(metric)
    ((at, _),) = density.ridges
    for wider in (0.0, 1.0):
        here = new.center.copy()
        here[spread] += wider
        there = here.copy()
        there[at] += 0.5
        change = density.unconstrained(there) - density.unconstrained(here)
        # Of a told sum with weights of one the other number loses what the product gains, in sds of the
        # mode, less the little that is known of that number itself.
        share = TOLD**-2 / (TOLD**-2 + LOOSE**-2)
        gained = np.linalg.norm(change[plain().deviations[:3, 0]]) * np.exp(wider)
        assert abs(change[0]) == pytest.approx(share * gained, rel=1e-6)
        assert change[0] * change[place] < 0.0


def test_a_law_without_sizes_and_funnels_keeps_its_density_and_metric() -> None:
    """Of the lab's runs of PT all but one start from another one: their level is told."""
    density = density_of(build_model(lab(), read_spec("cpt-replay")))
    metric = laplace(density, 0)
    changed, same = density.straightened(metric)
    np.testing.assert_array_equal(same.factor, metric.factor)
    np.testing.assert_array_equal(changed.block(same), density.block(metric))

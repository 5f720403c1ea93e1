"""Deviations of single sizes times their spread: the same posterior, and who is taken so."""

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from size_family import family
from synthetic import lab

from bayes_cpt.arrays import Floats
from bayes_cpt.inference.density import Density, centred, density_of
from bayes_cpt.inference.whitening import Metric
from bayes_cpt.model.build import build_model
from bayes_cpt.model.spec import read_spec

TOLD, UNTOLD = 0.1, 0.9


@cache
def plain() -> Density:
    return density_of(build_model(family(), read_spec("cpt-replay-sizes")))


def metric_of(density: Density, told: NDArray[np.int64]) -> Metric:
    """Return a metric in which some numbers are known well, and others little."""
    spread = np.full(density.start.size, UNTOLD)
    spread[told] = TOLD
    center = density.start + 0.3 * np.random.default_rng(2).standard_normal(spread.size)
    return Metric(center, np.diag(spread))


def both(told: int | None = None) -> tuple[Density, Metric, Metric]:
    """Return the centred density, its metric, and that of the plain one."""
    metric = metric_of(plain(), plain().deviations[:told, 0])
    return (*centred(plain(), metric), metric)


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
    density, metric, _ = both()
    position = metric.center + 0.2 * np.random.default_rng(1).standard_normal(metric.center.size)
    volume = np.linalg.slogdet(jacobian(density, position))[1]
    # Paces are where they were: the plain density takes them as the centred one does.
    same = position.copy()
    same[plain().deviations[:, 0]] = density.unconstrained(position)[plain().deviations[:, 0]]
    assert abs(volume) > 0.1
    assert density_at(density, position)[0] == pytest.approx(
        density_at(plain(), same)[0] + volume, rel=1e-8
    )


def test_the_gradient_is_that_of_finite_differences() -> None:
    density, metric, _ = both()
    generator = np.random.default_rng(3)
    here = metric.center + 0.1 * generator.standard_normal(metric.center.size)
    gradient, step = density_at(density, here)[1], 1e-5
    changed = {*density.centred[:, 0], *density.centred[:, 1]}
    for place in sorted(changed):
        shift = step * np.eye(here.size)[place]
        ahead, behind = (density_at(density, here + s)[0] for s in (shift, -shift))
        assert gradient[place] == pytest.approx((ahead - behind) / (2 * step), rel=1e-4, abs=0.05)


def test_white_coordinates_are_those_of_the_plain_density_near_the_mode() -> None:
    density, metric, before = both()
    np.testing.assert_allclose(
        density.unconstrained(metric.center), plain().unconstrained(before.center), rtol=1e-12
    )
    white = 1e-4 * np.random.default_rng(4).standard_normal(metric.center.size)
    moved = density.unconstrained(metric.center + metric.factor @ white)
    expected = plain().unconstrained(before.center + before.factor @ white)
    np.testing.assert_allclose(moved, expected, rtol=0, atol=1e-7)


def test_only_deviations_that_data_tell_are_taken_times_their_spread() -> None:
    for told in (0, 5, None):
        density, _, _ = both(told)
        np.testing.assert_array_equal(density.centred, plain().deviations[:told])


def test_a_law_without_sizes_keeps_its_density_and_metric() -> None:
    density = density_of(build_model(lab(), read_spec("cpt-replay")))
    metric = metric_of(density, np.arange(density.start.size))
    changed, same = centred(density, metric)
    np.testing.assert_array_equal(same.factor, metric.factor)
    np.testing.assert_array_equal(changed.block(same), density.block(metric))

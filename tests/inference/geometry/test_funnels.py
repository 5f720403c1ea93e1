"""Funnels that are opened: against closed forms, differences, and the same posterior left as it is."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_cpt.arrays import Floats
from bayes_cpt.inference.density import Density, density_of
from bayes_cpt.inference.geometry.coordinates import join_funnel_slopes, open_funnels
from bayes_cpt.inference.geometry.funnels import LARGEST_FLOOR, OFFSETS, funnels_of
from bayes_cpt.inference.geometry.whitening import Evaluate, Metric, laplace
from bayes_cpt.inference.sampling import Effort, Sample, sample
from bayes_cpt.model.build import build_model
from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.runs import Run
from bayes_cpt.study.schedules import constant, linear
from bayes_cpt.study.study import Study

SPREAD = 4
FUNNELS = np.array([SPREAD, SPREAD])
# Two directions among the first four numbers, and what reads them: neither reads the other.
DIRECTIONS = np.array([[1.0, 0.5, 0.0, -0.3, 0.0], [0.0, 1.0, 2.0, 0.4, 0.0]])
READINGS = np.zeros((2, 5))
READINGS[:, :4] = np.linalg.pinv(DIRECTIONS[:, :4]).T
WIDTHS = np.array([[0.3, -1.0, 0.2], [-0.5, -1.0, 0.02]])
positions = st.lists(st.floats(-3, 3), min_size=5, max_size=5).map(np.array)


def stretched(position: Floats) -> tuple[Floats, float]:
    found = position.copy()
    return found, open_funnels(found, FUNNELS, DIRECTIONS, READINGS, WIDTHS)


def expected_stretch(spread: float) -> Floats:
    grown = np.exp(2.0 * (spread + 1.0))
    return np.asarray(np.sqrt((WIDTHS[:, 2] + grown) / (WIDTHS[:, 2] + 1.0)))


@given(positions)
def test_what_reads_a_direction_grows_with_the_spread_and_nothing_else_changes(
    position: Floats,
) -> None:
    found, _ = stretched(position)
    far, was = READINGS @ found - WIDTHS[:, 0], READINGS @ position - WIDTHS[:, 0]
    np.testing.assert_allclose(far, expected_stretch(position[SPREAD]) * was, rtol=1e-9, atol=1e-9)
    across = np.eye(5) - DIRECTIONS.T @ READINGS
    np.testing.assert_allclose(across @ found, across @ position, rtol=0, atol=1e-9)


@given(positions)
def test_volumes_and_slopes_are_those_of_differences(position: Floats) -> None:
    step = 1e-6
    jacobian = np.array(
        [
            (stretched(position + shift)[0] - stretched(position - shift)[0]) / (2 * step)
            for shift in step * np.eye(5)
        ]
    )
    found, volume = stretched(position)
    assert volume == pytest.approx(np.linalg.slogdet(jacobian)[1], abs=1e-6)
    slopes = np.array([0.3, -2.0, 1.1, 0.8, -0.4])
    joined, place = slopes.copy(), found.copy()
    join_funnel_slopes(joined, place, FUNNELS, DIRECTIONS, READINGS, WIDTHS)
    volumes = [stretched(position + sign * step * np.eye(5)[SPREAD])[1] for sign in (1, -1)]
    expected = jacobian @ slopes
    expected[SPREAD] += (volumes[0] - volumes[1]) / (2 * step)
    np.testing.assert_allclose(joined, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(place, position, rtol=0, atol=1e-8)


LEVEL = -2.0


def funnel(stays: Floats, grows: Floats) -> tuple[Evaluate, Metric]:
    """Return a normal whose covariance grows in one direction with a spread, the last number.

    Covariance: ``stays + exp(2·(spread - LEVEL))·outer(grows, grows)``, and 0 is the mode of the rest.
    """

    def covariance(spread: float) -> Floats:
        return np.asarray(stays + np.exp(2.0 * (spread - LEVEL)) * np.outer(grows, grows))

    size = len(stays)
    both = np.eye(size + 1)
    both[:size, :size] = covariance(LEVEL)
    metric = Metric(np.r_[np.zeros(size), LEVEL], np.linalg.cholesky(both))

    def evaluate(white: Floats) -> tuple[float, Floats]:
        position = metric.center + metric.factor @ white
        pull = np.linalg.solve(covariance(position[-1]), position[:-1])
        off = position[-1] - LEVEL
        value = -0.5 * position[:-1] @ pull - 0.5 * off**2
        # By the spread itself the covariance has a slope, which is 0 where the rest is.
        return float(value), np.r_[-pull, -off] @ metric.factor

    return evaluate, metric


@pytest.mark.parametrize("share", [0.03, 0.2])
def test_the_direction_and_the_floor_of_a_known_funnel_are_found(share: float) -> None:
    stays = np.diag([0.5, 2.0, 1.0])
    grows = np.array([1.0, -1.0, 0.5])
    grows /= np.sqrt(share * grows @ np.linalg.solve(stays, grows))
    density, metric = funnel(stays, grows)
    found = funnels_of(density, np.array([3]), metric)
    np.testing.assert_array_equal(found["funnels"], [3])
    np.testing.assert_allclose(found["widths"], [[0.0, LEVEL, share]], rtol=1e-3, atol=1e-9)
    (direction,), (reading,) = found["directions"], found["readings"]
    np.testing.assert_allclose(direction[:3] / direction[0], grows / grows[0], rtol=1e-5)
    assert direction @ reading == pytest.approx(1.0)
    # What reads the direction does not see what stays and is apart from it.
    apart = np.linalg.solve(stays, grows)
    np.testing.assert_allclose(reading[:3] / reading[0], apart / apart[0], rtol=1e-4)
    assert direction[3] == reading[3] == 0.0


def test_a_direction_that_hardly_widens_is_left_as_it_is() -> None:
    for times, count in ((2.0, 0), (0.5, 1)):
        grows = np.array([1.0, 0.0]) / np.sqrt(times * LARGEST_FLOOR)
        density, metric = funnel(np.eye(2), grows)
        found = funnels_of(density, np.array([2]), metric)
        assert len(found.get("funnels", ())) == count


@cache
def one_run() -> Study:
    """Return a study of one annealed PT run on a power law: nothing tells its level from its offset."""
    schedule = linear(200, 0.0, 1e-3) + constant(5800, 1e-3) + linear(2000, 1e-3, 1e-4)
    steps = np.arange(500, 8001, 50)
    noise = 0.002 * np.random.default_rng(5).standard_normal(steps.size)
    annealed = 1.0 - schedule.learning_rates()[steps - 1] / schedule.peak
    losses = 2.5 + 40.0 * steps**-0.5 - 0.2 * annealed + noise
    rows = {"run": "run", "step": steps, "domain": "general", "loss": losses}
    run = Run("run", "pt", schedule)
    return Study("one", "general", None, (), (run,), pd.DataFrame(rows))


@cache
def plain() -> Density:
    return density_of(build_model(one_run(), read_spec("pretrain")))


@cache
def straight() -> tuple[Density, Metric]:
    return plain().straightened(laplace(plain(), 0))


def jacobian(density: Density, position: Floats) -> Floats:
    step = 1e-6 * np.eye(position.size)
    ahead, behind = density.unconstrained(position + step), density.unconstrained(position - step)
    return np.asarray((ahead - behind) / 2e-6)


def density_at(density: Density, position: Floats) -> tuple[float, Floats]:
    return density.in_metric(Metric(position, np.eye(position.size)))(np.zeros(position.size))


@pytest.mark.parametrize("wider", [-1.0, 0.0, 2.0])
def test_the_density_is_the_plain_one_with_what_volumes_change_by(wider: float) -> None:
    density, metric = straight()
    (spread,) = density.offsets
    assert set(density.funnels) == {spread}
    position = metric.center + metric.factor @ (0.3 * np.sin(np.arange(metric.center.size)))
    position[spread] += wider
    same = density.unconstrained(position)
    volume = np.linalg.slogdet(jacobian(density, position))[1]
    assert abs(volume) > 0.1 or wider == 0.0
    height, gradient = density_at(density, position)
    assert height - volume == pytest.approx(density_at(plain(), same)[0], abs=1e-4)
    for place in range(position.size):
        shift = 1e-6 * np.eye(position.size)[place]
        ahead, behind = (density_at(density, position + sign * shift)[0] for sign in (1, -1))
        assert gradient[place] == pytest.approx((ahead - behind) / 2e-6, rel=1e-3, abs=0.05)


def told_by_a_gradient(found: Sample) -> float:
    """Return the effective draws of level and offsets, in bulk and tails, for one gradient."""
    verdict = found.diagnostics
    told = [
        ess[name].min()
        for ess in (verdict.ess_bulk, verdict.ess_tail)
        for name in (OFFSETS, "reference_loss")
    ]
    return float(min(told) / found.statistics["n_steps"].sum())


def test_the_posterior_is_the_same_and_a_gradient_tells_more_of_it() -> None:
    left = replace(plain(), offsets=np.zeros(0, dtype=np.int64))
    efforts = (Effort(400, 1500, 0.95),)
    quick, slow = (
        sample(each, 1, draws=1500, efforts=efforts, cores=2) for each in (plain(), left)
    )
    assert told_by_a_gradient(quick) > 2.0 * told_by_a_gradient(slow)
    shares = np.array([0.1, 0.25, 0.5, 0.75, 0.9])
    for name in (OFFSETS, "reference_loss", "reference_slope", "annealing_gain"):
        values = np.quantile(quick.values[name], shares)
        told = np.array([(slow.values[name] <= value).mean() for value in values])
        verdicts = [found.diagnostics for found in (quick, slow)]
        effective = [min(v.ess_bulk[name].min(), v.ess_tail[name].min()) for v in verdicts]
        error = np.sqrt(shares * (1.0 - shares) * np.sum(1.0 / np.array(effective)))
        assert (np.abs(told - shares) < 4.0 * error).all(), name

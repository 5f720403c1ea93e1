"""Draws are right, the same for a seed, and sampled until their diagnostics hold."""

import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import STAGES
from few_free import with_few_free
from synthetic import lab

from bayes_cpt.arrays import Floats
from bayes_cpt.errors import StudyWarning
from bayes_cpt.inference import diagnostics, sampling
from bayes_cpt.inference.density import Density
from bayes_cpt.inference.metric import Metric, SamplingError, bent_metric, modes
from bayes_cpt.inference.sampling import FIRST_DRAWS, Sample, SamplerSettings, sample
from bayes_cpt.model.setup import build_setup

MEAN = np.array([1.0, -2.0, 30.0])
FREE = ("reference_loss", "reference_slope", "shift_share")
SHORT = (SamplerSettings(100, 1000, 0.9),)


@pytest.fixture(scope="module")
def density() -> Density:
    """A few runs of which six numbers are not known."""
    study = lab().subset(["pt_trunk", "pt_anneal0", "r00_cos", "r25_a0_rewarm"])
    with warnings.catch_warnings(action="ignore", category=StudyWarning):
        return Density(build_setup(with_few_free("cpt-replay", FREE), study))


@pytest.fixture(scope="module")
def found(density: Density) -> Sample:
    return sample(density, seed=1, attempts=SHORT)


def test_sampled_right_and_cheaply(density: Density, found: Sample) -> None:
    assert found.diagnostics.trustworthy
    assert found.attempts == 1
    assert found.statistics["n_steps"].mean() < 20
    assert found.values["shift_share"].shape == (4, FIRST_DRAWS, 2)
    # With so many losses a posterior is nearly normal about its mode.
    _, best = modes(density, seed=0)[0]
    for name, mode in density.values(best.center[None]).items():
        if name in FREE:
            draws = found.values[name].reshape(-1, 2)
            assert np.all(np.abs(draws.mean(axis=0) - mode[0]) < 0.4 * draws.std(axis=0))


def test_fixed_parameters_are_constant_draws(density: Density, found: Sample) -> None:
    assert set(found.values) == set(density.setup.frame.parameters())
    assert np.ptp(found.values["memory"]) == 0.0


def test_same_seed_same_draws_bit_by_bit_on_any_number_of_cores(
    density: Density, found: Sample
) -> None:
    again = sample(density, seed=1, attempts=SHORT, cores=1)
    np.testing.assert_array_equal(again.values["reference_loss"], found.values["reference_loss"])
    for name, value in again.statistics.items():
        np.testing.assert_array_equal(value, found.statistics[name])


def test_draws_and_progress_are_as_asked_for_and_another_seed_draws_others(
    density: Density, found: Sample
) -> None:
    stages: list[tuple[str, float]] = []
    given = sample(
        density, seed=4, draws=50, attempts=SHORT, progress=lambda *told: stages.append(told)
    )
    draws = given.values["reference_loss"]
    assert draws.shape == (4, 50, 2)
    assert not np.isin(draws, found.values["reference_loss"]).any()
    assert stages[0] == (STAGES[0], 0.0)
    assert {stage for stage, _ in stages} <= set(STAGES)
    assert all(0.0 <= share <= 1.0 for _, share in stages)


def test_too_little_effort_is_retried_and_then_reported(density: Density) -> None:
    attempts = (*2 * (SamplerSettings(50, 20, 0.8),), SamplerSettings(50, 40, 0.8))
    given = sample(density, seed=5, attempts=attempts)
    assert given.attempts == 3
    assert given.values["reference_loss"].shape == (4, 40, 2)
    assert any("ESS of" in problem for problem in given.diagnostics.problems)


def test_a_further_attempt_mends_what_the_first_lacks(density: Density) -> None:
    given = sample(density, seed=5, attempts=(SamplerSettings(50, 20, 0.8), *SHORT))
    assert given.attempts == 2
    assert given.diagnostics.trustworthy


def test_a_hopeless_attempt_is_given_up(density: Density, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (sampling, diagnostics):
        monkeypatch.setattr(module, "LOWEST_ESS", 1e5)
    given = sample(density, seed=5, attempts=SHORT)
    assert given.values["reference_loss"].shape == (4, sampling.FIRST_DRAWS, 2)
    assert not given.diagnostics.trustworthy


class Toy:
    """A log density over x, with its gradient."""

    def __init__(self, function: Callable[[Floats], tuple[float, Floats]], start: Floats) -> None:
        self.function, self.starts, self.spreads = function, start[None], np.ones(start.size)

    def in_metric(self, metric: Metric) -> Callable[[Floats], tuple[float, Floats]]:
        def evaluate(white: Floats) -> tuple[float, Floats]:
            value, gradient = self.function(metric.center + metric.factor @ white)
            return value, gradient @ metric.factor

        return evaluate


def on_a_ledge(x: Floats) -> tuple[float, Floats]:
    """Within the step of the curvature's differences the density ends: no start leads anywhere."""
    gradient = -(x - MEAN) if np.abs(x - MEAN).max() < 1e-9 else np.full(3, np.nan)
    return float(-0.5 * np.sum((x - MEAN) ** 2)), gradient


@pytest.mark.parametrize("density", [lambda x: (-np.inf, np.zeros_like(x)), on_a_ledge])
def test_density_that_is_finite_nowhere_or_beside_no_mode_is_an_error(density: Any) -> None:
    with pytest.raises(SamplingError, match="not finite near the centre"):
        modes(Toy(density, MEAN), seed=0)


def two_modes(x: Floats) -> tuple[float, Floats]:
    """Two normals of sd 0.3 in x[0], at -1 and, with 20 times as much below it, at 1."""
    apart = (x[0] - np.array([-1.0, 1.0])) / 0.3
    parts = np.log([1.0, 20.0]) - 0.5 * apart**2
    value = np.logaddexp(*parts)
    return float(value - 0.5 * x[1] ** 2), np.array([-np.exp(parts - value) @ apart / 0.3, -x[1]])


def test_of_two_modes_that_of_more_evidence_is_first_from_the_side_of_the_other() -> None:
    toy = Toy(two_modes, np.array([-0.25, 0.0]))
    for (more, first), (less, second) in (modes(toy, seed) for seed in range(10)):
        centers = first.center[0], second.center[0]
        np.testing.assert_allclose(centers, [1.0, -1.0], atol=1e-3)
        np.testing.assert_allclose([more, less], [20 / 21, 1 / 21], atol=1e-3)


def test_a_mode_without_draws_is_told_with_its_share_of_the_posterior(
    density: Density, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that draws come near is not told of."""
    _, found = modes(density, seed=1)[0]
    far = replace(found, center=found.center + 50.0 * found.factor[:, 0])
    monkeypatch.setattr(sampling, "modes", lambda *_: [(0.7, found), (0.2, far), (0.1, found)])
    (told,) = sample(density, seed=1, attempts=SHORT).missed
    assert told.share == 0.2
    assert told.parameter in FREE
    assert abs(told.there - told.drawn) > 1e-3


BEND, WIDTH = 0.7, 0.05


def ridge(x: Floats) -> tuple[float, Floats]:
    """A standard normal, and one of the sd WIDTH about BEND times its square."""
    apart = (x[1] - BEND * x[0] ** 2) / WIDTH
    gradient = np.array([-x[0] + 2.0 * BEND * x[0] * apart / WIDTH, -apart / WIDTH])
    return float(-0.5 * (x[0] ** 2 + apart**2)), gradient


def test_draws_of_a_bent_ridge_are_standard_normals_in_their_metric() -> None:
    generator = np.random.default_rng(4)
    white = generator.standard_normal((4000, 2))
    positions = np.stack([white[:, 0], BEND * white[:, 0] ** 2 + WIDTH * white[:, 1]], axis=1)
    toy = Toy(ridge, np.array([0.1, 0.1]))
    _, straight = modes(toy, seed=0)[0]
    metric = bent_metric(straight, positions)
    new = generator.standard_normal((500, 2))
    surplus = [ridge(x)[0] for x in metric.positions(new)] + 0.5 * (new**2).sum(axis=1)
    assert np.std(surplus) < 0.25
    assert not bent_metric(straight, positions[:10]).bends.any()


@pytest.mark.slow
def test_the_first_fit_of_a_law_on_a_machine_has_the_draws_of_later_ones(tmp_path: Path) -> None:
    code = """
import bayes_cpt
from synthetic import lab
draws = bayes_cpt.fit(lab(), "cpt-replay", seed=1).tree["posterior"]
print(sum(float(values.sum()) for values in draws.data_vars.values()).hex())
"""
    kept = {"PYTENSOR_FLAGS": f"base_compiledir={tmp_path}", "NUMBA_CACHE_DIR": str(tmp_path)}
    support = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    first, second = (
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            env=os.environ | kept | support,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    )
    assert first == second

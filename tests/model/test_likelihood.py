"""The likelihood of a study as printed code, by NumPy, and as dense normals; slopes against differences."""

from collections.abc import Callable

import batch_family
import numpy as np
import pytest
from branching import branching_study
from dense_residuals import curve_normals
from every_option import spec_with
from interpreted import generated_likelihoods
from open_weights import open_study
from scipy.stats import multivariate_normal
from synthetic import lab
from target_family import several

from bayes_cpt.model.joint_priors import draw_priors
from bayes_cpt.model.log_densities import log_densities
from bayes_cpt.model.setup import Setup, build_setup, elements
from bayes_cpt.model.spec import read_spec

REPLAY = read_spec("cpt-replay")


def branches() -> Setup:
    return build_setup(read_spec("pretrain"), branching_study())


def unmeasured_bases() -> Setup:
    study = lab().subset(["pt_trunk", "r25_cos"])
    unmeasured = study.losses.query("step > 0 and not (run == 'pt_trunk' and step == 12000)")
    return build_setup(REPLAY, study.changed(losses=unmeasured[::8]))


SETUPS: dict[str, Callable[[], Setup]] = {
    "bundled": lambda: build_setup(REPLAY, lab()),
    "printed": lambda: build_setup(read_spec("cpt-replay-printed"), lab()),
    "branches": branches,
    "unmeasured bases": unmeasured_bases,
    "without PT": lambda: build_setup(
        REPLAY, lab().subset([run.name for run in lab().continual_runs][:4])
    ),
    "unknown base": lambda: build_setup(REPLAY, open_study()),
    "every option": lambda: build_setup(spec_with(), lab().subset(["pt_anneal0", "r25_a0_rewarm"])),
    "every option, unknown base": lambda: build_setup(spec_with(), open_study()),
    "batches": lambda: build_setup(read_spec("cpt-replay-batch"), batch_family.family(measured=5)),
    "mixtures": lambda: build_setup(REPLAY, several(measured=6)),
}


@pytest.mark.parametrize("name", SETUPS)
def test_printed_and_written_likelihoods_are_dense_normals(name: str) -> None:
    setup = SETUPS[name]()
    drawn = draw_priors(setup.frame, 2, seed=4)
    found, _ = generated_likelihoods(setup, drawn)
    np.testing.assert_allclose(found, log_densities(setup.frame, drawn, setup.curves), rtol=1e-8)
    for draw in range(2):
        normals = curve_normals(
            setup, {name: value[draw : draw + 1] for name, value in drawn.items()}
        )
        expected = [multivariate_normal.logpdf(residual, cov=own) for residual, own in normals]
        np.testing.assert_allclose(found[draw], expected, rtol=1e-8)


@pytest.mark.parametrize("name", ["branches", "unmeasured bases"])
def test_slopes_are_those_of_differences(name: str) -> None:
    setup = SETUPS[name]()
    draws = draw_priors(setup.frame, 101, seed=1)
    one = {name: np.median(value, axis=0)[None] for name, value in draws.items()}
    one["reference_loss"] = np.full_like(one["reference_loss"], setup.curves.points.loss.mean())
    _, slopes = generated_likelihoods(setup, one)
    every = elements(setup.frame)
    moved = {name: value.repeat(2 * len(every), axis=0) for name, value in one.items()}
    steps = [1e-5 * max(1e-3, float(np.abs(own.of(one)).max())) for own in every]
    for place, (own, step) in enumerate(zip(every, steps, strict=True)):
        own.of(moved)[2 * place : 2 * place + 2] += [step, -step]
    found, _ = generated_likelihoods(setup, moved)
    expected = (found[::2] - found[1::2]).T / (2 * np.array(steps))
    np.testing.assert_allclose(slopes[0], expected, rtol=1e-5, atol=1e-3)

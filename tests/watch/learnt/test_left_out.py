"""Fitted runs as though the fit had not seen them, held to a fit that did not."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from synthetic import lab, prior_as_posterior

from bayes_cpt.arrays import Floats
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.watch.learnt import left_out
from bayes_cpt.watch.learnt.left_out import FINEST_LOSS, MOST_TOLD, LeftOut, left_out_runs

RUN = "r50_cos"
# Numbers that the law of these tests does not know, and draws of it.
UNKNOWN, DRAWS = 5, 200


@pytest.fixture(scope="module")
def known() -> Posterior:
    study = lab()
    kept = [run.name for run in study.pretraining_runs]
    return prior_as_posterior(study.subset([*kept, RUN]), draws=10)


def linear(
    monkeypatch: pytest.MonkeyPatch, known: Posterior, scale: float
) -> tuple[LeftOut, Floats, Floats, Floats]:
    """Return the run left out of a fit of a linear law, and that law's design and moments without it.

    The prior, which stands for all other runs, has moments of its own; the fit's are those of a regression
    with the run, and are what draws are given.
    """
    (before,) = left_out_runs(known, continual=True)
    generator = np.random.default_rng(3)
    count = before.losses.size
    design = scale * generator.standard_normal((count, UNKNOWN)).cumsum(axis=0) / np.sqrt(count)
    root = generator.standard_normal((UNKNOWN, UNKNOWN))
    mean, covariance = generator.standard_normal(UNKNOWN), root @ root.T / UNKNOWN
    noise = before.misfit + before.fluctuation + FINEST_LOSS**2 * np.eye(count)
    told = design.T @ np.linalg.solve(noise, np.c_[design, before.losses - 2.0])
    precision = np.linalg.inv(covariance)
    fitted = np.linalg.inv(precision + told[:, :-1])
    centre = fitted @ (precision @ mean + told[:, -1])
    normals = generator.standard_normal((DRAWS, UNKNOWN))
    normals -= normals.mean(axis=0)
    normals @= np.linalg.inv(np.linalg.cholesky(np.cov(normals, rowvar=False))).T
    draws = centre + normals @ np.linalg.cholesky(fitted).T

    def law(frame: Any, parameters: Any, curves: Any) -> Floats:
        return np.asarray(2.0 + draws @ design.T)

    monkeypatch.setattr(left_out, "expected_loss", law)
    (found,) = left_out_runs(known, continual=True)
    return found, 2.0 + design @ mean, design @ covariance @ design.T, noise


def test_without_a_run_the_law_is_that_of_a_fit_of_the_others(
    monkeypatch: pytest.MonkeyPatch, known: Posterior
) -> None:
    found, mean, covariance, _ = linear(monkeypatch, known, scale=0.005)
    np.testing.assert_allclose(found.mean, mean, atol=1e-8)
    np.testing.assert_allclose(found.directions @ found.directions.T, covariance, atol=1e-9)
    # And so the density of its losses given the others.
    whole = covariance + 4.0 * found.misfit + 0.25 * found.fluctuation
    off = found.losses - mean
    expected = -0.5 * (off @ np.linalg.solve(whole, off) + np.linalg.slogdet(whole)[1])
    assert found.log_density(fluctuation=0.5, misfit=2.0) == pytest.approx(expected, rel=1e-9)


def test_where_a_run_alone_tells_of_the_law_it_is_left_known_in_part(
    monkeypatch: pytest.MonkeyPatch, known: Posterior
) -> None:
    """Widths grow no further than by what the largest share leaves, where the run told nearly all."""
    found, _, covariance, noise = linear(monkeypatch, known, scale=50.0)
    fitted = np.sqrt(np.diag(covariance @ np.linalg.inv(covariance + noise) @ noise))
    widths = np.sqrt((found.directions**2).sum(axis=1))
    assert (widths <= fitted / np.sqrt(1.0 - MOST_TOLD) * (1.0 + 1e-6)).all()
    assert (widths[1:] > 2.0 * fitted[1:]).any()


def test_points_are_chosen_from_all_that_is_known_of_a_run(known: Posterior) -> None:
    (whole,) = left_out_runs(known, continual=True)
    places = whole.of_domain("kernel")[[2, 5]]
    some = whole.at(places)
    assert some.domains == ("kernel", "kernel")
    np.testing.assert_array_equal(some.losses, whole.losses[places])
    assert some.misfit[0, 1] == whole.misfit[places[0], places[1]]
    np.testing.assert_array_equal(some.directions, whole.directions[places])
    study = known.study
    steps, losses = study.curve(RUN, "kernel")
    np.testing.assert_array_equal(some.losses, losses[np.isin(steps, some.steps)])


def test_independent_errors_have_no_curves(known: Posterior) -> None:
    residuals = known.frame.spec.residuals.model_copy(update={"kind": "independent"})
    spec = known.frame.spec.model_copy(update={"residuals": residuals})
    other = Posterior(known.tree, known.study, replace(known.frame, spec=spec))
    assert left_out_runs(other, continual=True) == []

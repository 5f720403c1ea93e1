"""What a study says of parameters, against likelihoods that are known exactly."""

from pathlib import Path

import numpy as np
import pytest
from stand_in import stand_in
from synthetic import as_posterior, lab

from bayes_cpt.arrays import Floats
from bayes_cpt.history.evidence import (
    Evidence,
    evidence_of,
    fit_studies,
    labels_of,
    widened,
)
from bayes_cpt.model.setup import build_setup
from bayes_cpt.model.spec import read_spec
from bayes_cpt.validate.tasks import Pool

SPEC = read_spec("pretrain")
LABELS = (("a", "all"), ("b", "general"), ("c", "all"))


def of_likelihood(rows: Floats, values: Floats, labels: tuple[tuple[str, str], ...]) -> Evidence:
    """Return the evidence of ``values ~ Normal(rows theta, 1)`` under a standard normal prior."""
    covariance = np.linalg.inv(np.eye(rows.shape[1]) + rows.T @ rows)
    return Evidence("exact", labels, covariance @ rows.T @ values, covariance)


def test_the_prior_is_taken_out_of_a_posterior() -> None:
    rows = np.array([[3.0, 1.0, 0.0], [0.0, 2.0, -1.0], [1.0, 0.0, 5.0]])
    values = np.array([2.0, -1.0, 4.0])
    directions, told = of_likelihood(rows, values, LABELS).information(LABELS)
    np.testing.assert_allclose(directions.T @ directions, rows.T @ rows, atol=1e-10)
    np.testing.assert_allclose(directions.T @ told, rows.T @ values, atol=1e-10)


def test_a_ridge_is_known_along_one_direction_alone() -> None:
    rows = np.array([[4.0, -4.0]])
    found = of_likelihood(rows, np.array([2.0]), LABELS[:2])
    directions, told = found.information(LABELS)
    np.testing.assert_allclose(directions.T @ directions, np.pad(rows.T @ rows, (0, 1)), atol=1e-10)
    assert np.count_nonzero(directions.any(axis=1)) == 1
    np.testing.assert_allclose(np.abs(told), [2.0, 0.0, 0.0], atol=1e-10)
    assert found.contraction[LABELS[0]] == pytest.approx(16.0 / 33.0)


def test_wider_priors_are_wider_on_their_own_scales() -> None:
    broad = labels_of(widened(SPEC, 2.0))
    for label, prior in labels_of(SPEC).items():
        np.testing.assert_allclose(broad[label].center, prior.center, rtol=1e-3, atol=1e-12)
        np.testing.assert_allclose(broad[label].spread, 2.0 * prior.spread, rtol=1e-3)


def test_the_moments_of_a_fit_are_in_sds_of_its_prior() -> None:
    broad = widened(SPEC)
    study = lab().subset(["pt_trunk", "pt_cosine"])
    frame = build_setup(broad, study).frame
    generator = np.random.default_rng(3)
    values, known = {}, {}
    for name, info in frame.parameters().items():
        prior = broad.priors[name].of("general" if info.dims else None)
        place, size = generator.normal(), generator.uniform(0.1, 0.6)
        scale = prior.center + prior.spread * (place + size * generator.standard_normal((4, 2000)))
        draws = np.asarray(prior.from_scale(scale))
        values[name] = draws[..., None] if info.dims else draws
        known[name] = (place, size)
    found = evidence_of(as_posterior(frame, study, values), broad)
    assert set(found.labels) <= set(labels_of(broad))
    for (name, _), mean, variance in zip(
        found.labels, found.mean, np.diag(found.covariance), strict=True
    ):
        place, size = known[name]
        np.testing.assert_allclose(mean, place, atol=5.0 * size / np.sqrt(8000))
        np.testing.assert_allclose(variance, size**2, rtol=0.1)


def test_fits_that_are_done_are_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits, broad, study = stand_in(monkeypatch), widened(SPEC), lab()

    def learnt() -> list[Evidence]:
        return fit_studies([study], broad, 1, pool=Pool(1), folder=tmp_path)

    first, again = learnt()[0], learnt()[0]
    assert [own["study"].name for own in fits.asked] == [study.name]
    assert first.labels == again.labels
    np.testing.assert_allclose(first.covariance, again.covariance)
    np.testing.assert_allclose(first.mean, again.mean)

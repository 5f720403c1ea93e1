"""The population of studies is recovered, and its model is one that others read."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from synthetic import lab

from bayes_cpt.arrays import Floats
from bayes_cpt.history.evidence import Evidence, labels_of
from bayes_cpt.history.learnt import (
    MOST_BELOW_ZERO,
    Learnt,
    learnt_model,
    learnt_text,
    share_below_zero,
)
from bayes_cpt.history.population import (
    FEWEST,
    Hierarchy,
    Population,
    PopulationDensity,
    PopulationError,
)
from bayes_cpt.model.priors.families import Normal
from bayes_cpt.model.priors.tables import Prior
from bayes_cpt.model.spec import read_spec

SPEC = read_spec("pretrain")
LABELS = tuple(labels_of(SPEC))
STUDIES, WIDER = 14, 1.5
# Determined by no study, and by two alone.
UNKNOWN, RARE = ("level_power", "all"), ("memory", "all")


@cache
def truth() -> tuple[Floats, Floats]:
    """Return mean and spread of a population as the model expects them, in sds of the priors."""
    generator = np.random.default_rng(2)
    size = len(LABELS)
    return generator.standard_normal(size), np.abs(generator.standard_normal(size))


@cache
def hierarchy() -> Hierarchy:
    """Return the model of studies whose parameters come from that population, known jointly and in part."""
    generator = np.random.default_rng(4)
    mean, spread = truth()
    size, found = len(LABELS), []
    for number in range(STUDIES):
        theta = mean + spread * generator.standard_normal(size)
        told = generator.normal(0.0, 3.0, (size, size)) + 8.0 * np.eye(size)
        told[:, LABELS.index(UNKNOWN)] = 0.0
        if number >= FEWEST - 1:
            told[:, LABELS.index(RARE)] = 0.0
        values = told @ theta + generator.standard_normal(size)
        # In sds of the wider priors under which studies are fitted.
        told = WIDER * told
        covariance = np.linalg.inv(np.eye(size) + told.T @ told)
        found.append(Evidence(f"study {number}", LABELS, covariance @ told.T @ values, covariance))
    return Hierarchy(found, LABELS, WIDER)


@cache
def population() -> Population:
    return hierarchy().learn(seed=1)


def known() -> list[int]:
    return [i for i, label in enumerate(LABELS) if label not in (UNKNOWN, RARE)]


def test_the_density_is_that_of_the_values_integrated_out() -> None:
    generator = np.random.default_rng(6)
    directions, said = generator.normal(0.0, 2.0, (3, 4, 4)), generator.normal(0.0, 2.0, (3, 4))
    directions[1, 2:], said[1, 2:] = 0.0, 0.0
    density = PopulationDensity(directions, said)

    def dense(position: Floats) -> float:
        mean, spread = position[:4], np.exp(position[4:])
        found = stats.norm.logpdf(mean).sum() + stats.halfnorm.logpdf(spread).sum()
        found += position[4:].sum()
        for rows, values in zip(directions, said, strict=True):
            covariance = rows @ np.diag(spread**2) @ rows.T + np.eye(4)
            found += stats.multivariate_normal(rows @ mean, covariance).logpdf(values)
        return float(found)

    places = 0.5 * generator.standard_normal((2, 8))
    (one, slope), (two, _) = (density.log_density(place) for place in places)
    np.testing.assert_allclose(one - two, dense(places[0]) - dense(places[1]), rtol=1e-9)
    steps = 1e-5 * np.eye(8)
    by_steps = [(dense(places[0] + h) - dense(places[0] - h)) / 2e-5 for h in steps]
    np.testing.assert_allclose(slope, by_steps, rtol=1e-5, atol=1e-6)


def test_far_out_the_density_is_low_and_finite() -> None:
    """A sampler's step may lead anywhere: there the covariance of what few rows say is inverted too."""
    directions = np.outer([300.0, 200.0, 100.0], [1.0, 2.0, 3.0])[None]
    density = PopulationDensity(directions, np.ones((1, 3)))
    for log_spread in (8.0, 40.0, 700.0):
        found, slope = density.log_density(np.r_[np.zeros(3), np.full(3, log_spread)])
        assert found < -1e5
        assert np.isfinite(slope).all()


@pytest.mark.slow
def test_mean_and_spread_of_a_population_are_recovered() -> None:
    found = population()
    assert found.problems == ()
    # Truths from the model's own priors lie anywhere in their posteriors alike.
    ranks = [
        np.mean(draws < true, axis=0)[known()]
        for draws, true in zip((found.mean, found.spread), truth(), strict=True)
    ]
    assert stats.kstest(np.concatenate(ranks), "uniform").pvalue > 1e-3
    assert 2e-4 < np.min(ranks) <= np.max(ranks) < 1.0 - 2e-4
    # Fourteen studies tell most of what there is to know.
    _, spread = truth()
    assert np.all(found.mean.std(axis=0)[known()] < 0.15 + 0.5 * spread[known()])


def test_a_further_study_is_expected_within_what_the_population_has() -> None:
    mean, spread = truth()
    narrowest = np.sqrt(stats.chi2(STUDIES - 1).ppf(1e-4) / (STUDIES - 1))
    for i in known():
        center, width = population().predictive(LABELS[i])
        # As wide as fourteen draws of the population are, and wider by what these leave open.
        assert abs(center - mean[i]) < 5.0 * spread[i] / np.sqrt(STUDIES) + 0.1
        assert narrowest * spread[i] < width < 2.2 * spread[i] + 0.2


def test_what_few_studies_determine_is_not_learnt() -> None:
    found = population()
    assert set(found.learnt) == {LABELS[i] for i in known()}
    assert len(found.telling[RARE]) == FEWEST - 1
    assert found.telling[UNKNOWN] == ()


@pytest.mark.slow
def test_a_study_left_out_counts_no_more() -> None:
    without = hierarchy().learn(seed=1, without="study 3")
    assert len(without.studies) == STUDIES - 1
    assert all("study 3" not in names for names in without.telling.values())
    moved = np.abs(without.mean.mean(axis=0) - population().mean.mean(axis=0))
    assert moved[known()].max() > 0.02


def test_fewer_than_three_studies_are_no_population() -> None:
    with pytest.raises(PopulationError, match="it takes 3"):
        Hierarchy(hierarchy().evidence[:2], LABELS, WIDER)


def learnt() -> Learnt:
    return learnt_model(SPEC, population(), "ours")


def test_the_model_reads_as_any_other_and_names_its_studies(tmp_path: Path) -> None:
    digests = {f"study {number}": f"digest{number}" for number in range(STUDIES)}
    path = tmp_path / "ours.toml"
    path.write_text(learnt_text(learnt(), "pretrain", digests, seed=1), encoding="utf-8")
    read = read_spec(path)
    assert read == learnt().spec
    text = path.read_text(encoding="utf-8")
    assert all(f"# - {name} {digest}" in text for name, digest in digests.items())
    assert "which keep their priors: " in text
    assert read.priors["memory"] == SPEC.priors["memory"]
    reason = read.priors["exponent"].reason
    assert reason.startswith(
        "Learnt from studies: 14 on general data (study 0, study 1, study 2 and"
    )
    assert SPEC.priors["exponent"].reason in reason


def test_learnt_priors_lie_where_the_population_does() -> None:
    mean, spread = truth()
    before, now = labels_of(SPEC), labels_of(learnt().spec)
    for i in known():
        own, label = before[LABELS[i]], LABELS[i]
        place = (now[label].center - own.center) / own.spread
        assert abs(place - mean[i]) < 5.0 * spread[i] / np.sqrt(STUDIES) + 0.1
        assert now[label].bounds == own.bounds


def test_prior_curves_of_a_population_of_losses_stay_losses() -> None:
    study = lab().subset(["pt_trunk", "pt_cosine"])
    assert share_below_zero(SPEC, study, draws=1000) <= MOST_BELOW_ZERO
    level = Normal(distribution="normal", mean=3.0, sd=1.5)
    priors = SPEC.priors | {"reference_loss": Prior(reason="reaches below 0", every=level)}
    below = share_below_zero(SPEC.model_copy(update={"priors": priors}), study, draws=1000)
    assert below == pytest.approx(stats.norm.cdf(-level.mean / level.sd), abs=0.03)
    mean, spread = (values.copy() for values in truth())
    place = LABELS.index(("reference_loss", "general"))
    mean[place], spread[place] = 0.0, 0.3
    narrow = Population(
        LABELS,
        np.tile(mean, (500, 1)),
        np.tile(spread, (500, 1)),
        dict.fromkeys(LABELS, ("a", "b", "c")),
        ("a", "b", "c"),
    )
    assert share_below_zero(learnt_model(SPEC, narrow, "n").spec, study) <= MOST_BELOW_ZERO

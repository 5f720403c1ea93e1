"""What studies say of parameters, and the population that they come from, are recovered."""

from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from interpreted import INTERPRETED
from scipy import stats
from stand_in import stand_in
from synthetic import as_posterior, lab

from bayes_cpt.arrays import Floats
from bayes_cpt.errors import StudyWarning
from bayes_cpt.history.evidence import Evidence, Label, evidence_of, fit_studies, labels_of, widened
from bayes_cpt.history.learnt import Learnt, learnt_model, learnt_text
from bayes_cpt.history.population import (
    FEWEST,
    GRID,
    Pair,
    Population,
    learn_population,
    log_likelihood_ratios,
    pair_information,
    population_model,
    weigh_pairs,
)
from bayes_cpt.identify.prior_predictive import MOST_BELOW_ZERO, expected_ends, frame_of
from bayes_cpt.model.priors import Correlation, Normal, Prior, correlation_matrix
from bayes_cpt.model.setup import build_setup
from bayes_cpt.model.spec import ModelSpec, read_spec, sampled_labels
from bayes_cpt.report.forecasts import learnt_words
from bayes_cpt.study.study import Study
from bayes_cpt.validate.tasks import Pool

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


def of_likelihood(
    rows: Floats, values: Floats, labels: tuple[Label, ...], name: str = "exact"
) -> Evidence:
    """Return the evidence of ``values ~ Normal(rows theta, 1)`` under a standard normal prior."""
    covariance = np.linalg.inv(np.eye(rows.shape[1]) + rows.T @ rows)
    return Evidence(name, labels, covariance @ rows.T @ values, covariance)


@cache
def evidence_of_studies() -> list[Evidence]:
    """Return studies whose parameters come from that population, known jointly and in part."""
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
        found.append(of_likelihood(WIDER * told, values, LABELS, f"study {number}"))
    return found


@cache
def sampled() -> Population:
    return learn_population(evidence_of_studies(), LABELS, WIDER, seed=1)


def known() -> list[int]:
    return [i for i, label in enumerate(LABELS) if label not in (UNKNOWN, RARE)]


def test_the_density_is_that_of_the_hierarchy() -> None:
    generator = np.random.default_rng(6)
    rows = [generator.normal(0.0, 2.0, (2, 2)) for _ in range(3)]
    evidence = [of_likelihood(told, np.array([1.0, -2.0]), LABELS[:2]) for told in rows]
    model = population_model(evidence, LABELS[:2], WIDER)
    log_density = model.compile_logp(jacobian=False, mode=INTERPRETED)
    (mean,) = model.replace_rvs_by_values([model["mean"]])
    mean_of = model.compile_fn(mean, inputs=model.value_vars, mode=INTERPRETED)
    spread = np.exp(generator.standard_normal(2))

    def at(*noise: float) -> dict[str, Floats]:
        return {"spread_log__": np.log(spread), "noise": np.array(noise)}

    every = zip(*(own.information(LABELS[:2]) for own in evidence), strict=True)
    directions, values = map(np.concatenate, every)
    directions = directions / WIDER
    apart = np.kron(np.eye(3), np.ones((2, 2)))
    given = np.eye(6) + apart * (directions @ np.diag(spread**2) @ directions.T)
    wanted = stats.halfnorm.logpdf(spread).sum() + stats.norm.logpdf([0.3, -1.0]).sum()
    joint = stats.multivariate_normal(np.zeros(6), given + directions @ directions.T)
    wanted += joint.logpdf(values)
    # What is said is no random variable: its density lacks the constant.
    found = float(log_density(at(0.3, -1.0))) - 3.0 * np.log(2.0 * np.pi)
    assert found == pytest.approx(wanted, rel=1e-9)
    pull = directions.T @ np.linalg.inv(given)
    covariance = np.linalg.inv(np.eye(2) + pull @ directions)
    center = mean_of(at(0.0, 0.0))
    np.testing.assert_allclose(center, covariance @ pull @ values, rtol=1e-9)
    axes = np.array([mean_of(at(1.0, 0.0)), mean_of(at(0.0, 1.0))]) - center
    np.testing.assert_allclose(axes.T @ axes, covariance, rtol=1e-9)


@pytest.mark.slow
def test_mean_and_spread_of_a_population_are_recovered() -> None:
    found = sampled()
    assert found.problems == ()
    assert set(found.learnt) == {LABELS[i] for i in known()}
    assert len(found.telling[RARE]) == FEWEST - 1
    assert found.telling[UNKNOWN] == ()
    # Truths from the model's own priors lie anywhere in their posteriors alike.
    ranks = [
        np.mean(draws < true, axis=0)[known()]
        for draws, true in zip((found.mean, found.spread), truth(), strict=True)
    ]
    assert stats.kstest(np.concatenate(ranks), "uniform").pvalue > 1e-3
    assert 2e-4 < np.min(ranks) <= np.max(ranks) < 1.0 - 2e-4
    # Fourteen studies tell most of what there is to know.
    mean, spread = truth()
    assert np.all(found.mean.std(axis=0)[known()] < 0.15 + 0.5 * spread[known()])
    narrowest = np.sqrt(stats.chi2(STUDIES - 1).ppf(1e-4) / (STUDIES - 1))
    for i in known():
        center, width = found.predictive(LABELS[i])
        # As wide as fourteen draws of the population are, and wider by what these leave open.
        assert abs(center - mean[i]) < 5.0 * spread[i] / np.sqrt(STUDIES) + 0.1
        assert narrowest * spread[i] < width < 2.2 * spread[i] + 0.2


@pytest.mark.slow
@pytest.mark.parametrize("sharp", [1.0, 100.0])
def test_parameters_that_studies_know_apart_have_the_posterior_of_a_grid(sharp: float) -> None:
    generator = np.random.default_rng(1)
    told, labels, evidence = sharp * np.array([6.0, 5.0]), LABELS[:2], []
    for number in range(5):
        values = told * generator.standard_normal(2) + generator.standard_normal(2)
        evidence.append(of_likelihood(np.diag(told), values, labels, str(number)))
    found = learn_population(evidence, labels, 1.0, seed=1)
    assert found.problems == ()
    mean, spread = np.linspace(-4.0, 4.0, 401)[:, None], np.linspace(0.005, 4.0, 400)
    for place in range(2):
        log_density = -0.5 * mean**2 - 0.5 * spread**2
        for own in evidence:
            # A study's value is known with the sd 1 / told.
            value, variance = own.mean[place] * (1.0 + told[place] ** -2), told[place] ** -2
            sd = np.sqrt(spread**2 + variance)
            log_density = log_density + stats.norm.logpdf(value, mean, sd)
        weights = np.exp(log_density - log_density.max())
        weights /= weights.sum()
        assert found.mean[:, place].mean() == pytest.approx((weights * mean).sum(), abs=0.05)
        assert found.spread[:, place].mean() == pytest.approx((weights * spread).sum(), abs=0.05)


NAMES = tuple(f"study {number}" for number in range(STUDIES))


def learnt_from_truth() -> Learnt:
    """Return the model of a population that is known but for a little."""
    generator = np.random.default_rng(7)
    mean, spread = (own + 0.01 * generator.standard_normal((400, own.size)) for own in truth())
    telling = dict.fromkeys(LABELS, NAMES) | {UNKNOWN: (), RARE: NAMES[:2]}
    return learnt_model(SPEC, Population(LABELS, mean, np.abs(spread), telling, NAMES), "ours")


def test_the_model_reads_as_any_other_and_names_its_studies(tmp_path: Path) -> None:
    digests = {name: name.replace("study ", "digest") for name in NAMES}
    path = tmp_path / "ours.toml"
    learnt = learnt_from_truth()
    path.write_text(learnt_text(learnt, "pretrain", digests, seed=1), encoding="utf-8")
    read = read_spec(path)
    assert read == learnt.spec
    text = path.read_text(encoding="utf-8")
    assert all(f"# - {name} {digest}" in text for name, digest in digests.items())
    assert "which keep their priors: " in text
    assert read.priors["memory"] == SPEC.priors["memory"]
    reason = read.priors["exponent"].reason
    told = "Learnt from studies: 14 on general data (study 0, study 1, study 2 and"
    assert reason.startswith(told)
    assert SPEC.priors["exponent"].reason in reason


def test_learnt_priors_lie_where_the_population_does() -> None:
    mean, spread = truth()
    before, now = labels_of(SPEC), labels_of(learnt_from_truth().spec)
    for i in known():
        own, found = before[LABELS[i]], now[LABELS[i]]
        assert found.bounds == own.bounds
        if not np.isfinite(own.bounds[1]) or own.bounds == (0.0, 1.0):
            place = (found.center - own.center) / own.spread
            assert place == pytest.approx(mean[i], abs=0.1 * spread[i] + 0.02)
        assert found.spread / own.spread == pytest.approx(spread[i], rel=0.1, abs=0.02)


def share_below_zero(spec: ModelSpec, study: Study) -> float:
    return float(expected_ends(frame_of(spec, study), study)["below_zero"].max())


def test_prior_curves_of_a_population_of_losses_stay_losses() -> None:
    study = lab().subset(["pt_trunk", "pt_cosine"])
    assert share_below_zero(SPEC, study) <= MOST_BELOW_ZERO
    level = Normal(distribution="normal", mean=3.0, sd=1.5)
    priors = SPEC.priors | {"reference_loss": Prior(reason="reaches below 0", every=level)}
    below = share_below_zero(SPEC.model_copy(update={"priors": priors}), study)
    assert below == pytest.approx(stats.norm.cdf(-level.mean / level.sd), abs=0.03)
    mean, spread = (values.copy() for values in truth())
    place = LABELS.index(("reference_loss", "general"))
    mean[place], spread[place] = 0.0, 0.3
    draws = (np.tile(mean, (500, 1)), np.tile(spread, (500, 1)))
    narrow = Population(LABELS, *draws, dict.fromkeys(LABELS, NAMES), NAMES)
    assert share_below_zero(learnt_model(SPEC, narrow, "n").spec, study) <= MOST_BELOW_ZERO


CPT = read_spec("cpt-replay")
EXPONENT: Label = ("exponent", "general")
SHARED = tuple((name, "all") for name in ("memory", "level_power", "forward_power"))
FIVE: tuple[Label, ...] = (EXPONENT, ("exponent", "target"), *SHARED)


def weighed(rho: float, seed: int) -> tuple[Pair, ...]:
    """Return the pairs of studies in which the first exponent and the memory have this correlation."""
    generator = np.random.default_rng(seed)
    size, studies, draws = len(FIVE), 16, 200
    matrix = np.eye(size)
    matrix[0, 2] = matrix[2, 0] = rho
    theta = generator.multivariate_normal(np.zeros(size), matrix, studies)
    directions = generator.normal(0.0, 1.0, (studies, size, size)) + 4.0 * np.eye(size)
    values = np.einsum("sij,sj->si", directions, theta) + generator.standard_normal(theta.shape)
    mean = generator.normal(0.0, 0.2, (draws, size))
    spread = np.exp(generator.normal(0.0, 0.15, (draws, size)))
    return weigh_pairs(FIVE, mean, spread, directions, values, dict.fromkeys(FIVE, NAMES))


def test_weights_of_correlations_are_ratios_of_normal_densities() -> None:
    generator = np.random.default_rng(1)
    mean, spread = generator.normal(size=(2, 3)), np.exp(generator.normal(size=(2, 3)))
    directions, said = generator.normal(size=(4, 3, 3)), generator.normal(size=(4, 3))
    found = log_likelihood_ratios(*pair_information(mean, spread, directions, said), 0, 2)

    def log_density(draw: int, rho: float) -> float:
        matrix = np.eye(3)
        matrix[0, 2] = matrix[2, 0] = rho
        population = matrix * np.outer(spread[draw], spread[draw])
        total = 0.0
        for rows, values in zip(directions, said, strict=True):
            covariance = rows @ population @ rows.T + np.eye(3)
            total += float(stats.multivariate_normal(rows @ mean[draw], covariance).logpdf(values))
        return total

    for draw, place in product(range(2), (0, 30, 49, 80)):
        expected = log_density(draw, float(GRID[place])) - log_density(draw, 0.0)
        np.testing.assert_allclose(found[draw, place], expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(("rho", "seed"), [(0.95, 2), (-0.95, 3)])
def test_a_pair_that_goes_together_is_shown_and_no_other(rho: float, seed: int) -> None:
    pairs = weighed(rho, seed)
    assert (pairs[0].first, pairs[0].second) == (FIVE[0], FIVE[2])
    assert pairs[0].correlation == pytest.approx(rho, abs=0.2)
    assert [pair.shown for pair in pairs] == [True] + [False] * (len(pairs) - 1)
    # Validation sets have no pairs with each other.
    assert len(pairs) == 9


def test_independent_studies_show_next_to_nothing() -> None:
    every = [pair for seed in range(40) for pair in weighed(0.0, seed)]
    # A twentieth of what is shown may be wrong if a tenth goes together, which here nothing does.
    assert np.mean([pair.shown for pair in every]) < 0.01


def population(*pairs: Pair) -> Population:
    labels = tuple(labels_of(CPT))
    draws: Floats = np.zeros((50, len(labels)))
    return Population(labels, draws, draws + 0.5, dict.fromkeys(labels, NAMES), NAMES, pairs=pairs)


def pair(first: Label, second: Label, value: float, probability: float = 0.99) -> Pair:
    return Pair(first, second, value, probability, NAMES)


def test_the_file_states_the_pairs_that_are_shown(tmp_path: Path) -> None:
    shown = pair(EXPONENT, FIVE[2], -0.613)
    unsure = pair(FIVE[2], FIVE[3], 0.5, probability=0.9)
    learnt = learnt_model(CPT, population(shown, unsure), "ours")
    (found,) = learnt.spec.correlations
    assert (found.between, found.value) == (("exponent/general", "memory"), -0.61)
    assert found.reason.startswith("Learnt from 14 studies (study 0, study 1, study 2 and 11 more)")
    path = tmp_path / "ours.toml"
    digests = dict.fromkeys(NAMES, "digest")
    path.write_text(learnt_text(learnt, "cpt-replay", digests, 1, ["a", "b"]))
    with pytest.warns(StudyWarning, match="its priors are not to be trusted: a; b$"):
        read = read_spec(path)
    assert read == learnt.spec.model_copy(update={"problems": ("a", "b")})
    told = learnt_words(learnt, "ours.toml", {}, {"study 1": 0.0103, "study 2": 0.01})
    assert "leaving out study 1, or narrowing the widest priors in ours.toml" in told.verdict[2]
    (together,) = told.sentences
    assert "exponent (general) and memory (all), correlation -0.61" in together


def test_what_no_distribution_has_at_once_is_left_out() -> None:
    first, second, third = FIVE[2:]
    pairs = (pair(first, second, 0.9), pair(first, third, 0.4), pair(second, third, -0.9, 0.96))
    found = learnt_model(CPT, population(*pairs), "ours").spec.correlations
    kept = [("memory", "level_power"), ("memory", "forward_power")]
    assert [correlation.between for correlation in found] == kept


def test_correlations_of_the_model_before_stay_unless_shown_anew() -> None:
    before = Correlation(between=("memory", "level_power"), value=0.3, reason="Before.")
    other = Correlation(between=("exponent", "level_power"), value=0.2, reason="Before.")
    spec = CPT.model_copy(update={"correlations": (before, other)})
    assert learnt_model(spec, population(), "ours").spec.correlations == (before, other)
    anew = (pair(FIVE[2], FIVE[3], 0.8), pair(EXPONENT, FIVE[3], 0.5))
    learnt = learnt_model(spec, population(*anew), "ours").spec
    # One role shown anew leaves the other what it had.
    assert [(c.between, c.value) for c in learnt.correlations] == [
        (other.between, 0.2),
        (("memory", "level_power"), 0.8),
        (("exponent/general", "level_power"), 0.5),
    ]
    labels = sampled_labels(learnt)
    matrix = correlation_matrix(labels, learnt.correlations)
    level = labels.index(("level_power", None))
    for role, value in (("general", 0.5), ("target", 0.2)):
        assert matrix[level, labels.index(("exponent", role))] == value


THREE = (("a", "all"), ("b", "general"), ("c", "all"))


def test_the_prior_is_taken_out_of_a_posterior() -> None:
    rows = np.array([[3.0, 1.0, 0.0], [0.0, 2.0, -1.0], [1.0, 0.0, 5.0]])
    values = np.array([2.0, -1.0, 4.0])
    directions, told = of_likelihood(rows, values, THREE).information(THREE)
    np.testing.assert_allclose(directions.T @ directions, rows.T @ rows, atol=1e-10)
    np.testing.assert_allclose(directions.T @ told, rows.T @ values, atol=1e-10)


def test_a_ridge_is_known_along_one_direction_alone() -> None:
    rows = np.array([[4.0, -4.0]])
    found = of_likelihood(rows, np.array([2.0]), THREE[:2])
    directions, told = found.information(THREE)
    np.testing.assert_allclose(directions.T @ directions, np.pad(rows.T @ rows, (0, 1)), atol=1e-10)
    assert np.count_nonzero(directions.any(axis=1)) == 1
    np.testing.assert_allclose(np.abs(told), [2.0, 0.0, 0.0], atol=1e-10)
    assert found.contraction[THREE[0]] == pytest.approx(16.0 / 33.0)


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


def test_fits_that_are_done_are_not_redone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fits, broad, study = stand_in(monkeypatch), widened(SPEC), lab()

    def learnt(*studies: Study, draws: int | None = None) -> list[Evidence]:
        return fit_studies(studies, broad, 1, pool=Pool(1), folder=tmp_path, draws=draws)

    other, changed = (replace(own, name="other") for own in (study, study.subset(["pt_trunk"])))
    (first,) = learnt(study)
    fits.problems.append("tail ESS of memory is 399, below 400")
    _, again = learnt(other, study)
    # More draws are for what falls short.
    for draws in (None, 2000):
        learnt(study, other, draws=draws)
    learnt(study, changed)
    asked = [(own["study"].name, own["draws"]) for own in fits.asked]
    assert asked == [(study.name, None), ("other", None), ("other", 2000), ("other", None)]
    assert first.labels == again.labels
    np.testing.assert_allclose(first.covariance, again.covariance)
    np.testing.assert_allclose(first.mean, again.mean)

"""What goes together over studies is found, and nothing where studies are independent."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from bayes_cpt.arrays import Floats
from bayes_cpt.history import correlations
from bayes_cpt.history.evidence import Label, labels_of
from bayes_cpt.history.learnt import learnt_model, learnt_text
from bayes_cpt.history.population import GRID, Pair, Population, weigh_pairs
from bayes_cpt.model.priors.tables import Correlation, correlation_matrix
from bayes_cpt.model.spec import read_spec, sampled_labels
from bayes_cpt.report.words.learning import together

LABELS: tuple[Label, ...] = (
    ("exponent", "general"),
    ("exponent", "target"),
    ("memory", "all"),
    ("level_power", "all"),
    ("forward_power", "all"),
)
STUDIES, DRAWS = 16, 200
NAMES = tuple(f"study {number}" for number in range(STUDIES))
SPEC = read_spec("cpt-replay")


def weighed(rho: float, seed: int) -> tuple[Pair, ...]:
    """Return the pairs of studies in which the first exponent and the memory have this correlation."""
    generator = np.random.default_rng(seed)
    size = len(LABELS)
    matrix = np.eye(size)
    matrix[0, 2] = matrix[2, 0] = rho
    theta = generator.multivariate_normal(np.zeros(size), matrix, STUDIES)
    directions = generator.normal(0.0, 1.0, (STUDIES, size, size)) + 4.0 * np.eye(size)
    values = np.einsum("sij,sj->si", directions, theta) + generator.standard_normal(theta.shape)
    mean = generator.normal(0.0, 0.2, (DRAWS, size))
    spread = np.exp(generator.normal(0.0, 0.15, (DRAWS, size)))
    transposed = np.swapaxes(directions, 1, 2)
    linear = np.einsum("sij,sj->si", transposed, values)
    telling = dict.fromkeys(LABELS, NAMES)
    return weigh_pairs(LABELS, mean, spread, transposed @ directions, linear, telling, 3)


def test_weights_are_ratios_of_normal_densities() -> None:
    generator = np.random.default_rng(1)
    mean, spread = generator.normal(size=(2, 3)), np.exp(generator.normal(size=(2, 3)))
    directions, said = generator.normal(size=(4, 3, 3)), generator.normal(size=(4, 3))
    transposed = np.swapaxes(directions, 1, 2)
    linear = np.einsum("sij,sj->si", transposed, said)
    told, pulls = correlations._said(mean, spread, transposed @ directions, linear)
    found = correlations._log_weights(told, pulls, 0, 2)

    def log_density(draw: int, rho: float) -> float:
        matrix = np.eye(3)
        matrix[0, 2] = matrix[2, 0] = rho
        population = matrix * np.outer(spread[draw], spread[draw])
        return sum(
            float(
                stats.multivariate_normal(
                    rows @ mean[draw], rows @ population @ rows.T + np.eye(3)
                ).logpdf(values)
            )
            for rows, values in zip(directions, said, strict=True)
        )

    for draw, place in product(range(2), (0, 30, 49, 80)):
        expected = log_density(draw, float(GRID[place])) - log_density(draw, 0.0)
        np.testing.assert_allclose(found[draw, place], expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(("rho", "seed"), [(0.95, 2), (-0.95, 3)])
def test_a_pair_that_goes_together_is_shown_and_no_other(rho: float, seed: int) -> None:
    pairs = weighed(rho, seed)
    assert pairs[0].first == LABELS[0]
    assert pairs[0].second == LABELS[2]
    assert pairs[0].correlation == pytest.approx(rho, abs=0.2)
    assert [pair.shown for pair in pairs] == [True] + [False] * (len(pairs) - 1)


def test_independent_studies_show_next_to_nothing() -> None:
    every = [pair for seed in range(40) for pair in weighed(0.0, seed)]
    # A twentieth of what is shown may be wrong if a tenth goes together, which here nothing does.
    assert np.mean([pair.shown for pair in every]) < 0.01


def test_validation_sets_have_no_pairs_with_each_other() -> None:
    pairs = {(pair.first, pair.second) for pair in weighed(0.0, 0)}
    assert len(pairs) == 9
    assert (LABELS[0], LABELS[1]) not in pairs


def population(*pairs: Pair) -> Population:
    labels = tuple(labels_of(SPEC))
    draws: Floats = np.zeros((50, len(labels)))
    return Population(labels, draws, draws + 0.5, dict.fromkeys(labels, NAMES), NAMES, pairs=pairs)


def pair(first: Label, second: Label, value: float, probability: float = 0.99) -> Pair:
    return Pair(first, second, value, probability, NAMES)


def test_the_file_states_what_is_shown_and_reads_as_the_model(tmp_path: Path) -> None:
    shown = pair(LABELS[0], LABELS[2], -0.613)
    unsure = pair(LABELS[2], LABELS[3], 0.5, probability=0.9)
    learnt = learnt_model(SPEC, population(shown, unsure), "ours")
    (found,) = learnt.spec.correlations
    assert (found.between, found.value) == (("exponent/general", "memory"), -0.61)
    assert found.reason.startswith("Learnt from 16 studies (study 0, study 1, study 2 and 13 more)")
    path = tmp_path / "ours.toml"
    path.write_text(learnt_text(learnt, "cpt-replay", dict.fromkeys(NAMES, "digest"), 1))
    assert read_spec(path) == learnt.spec
    assert "exponent (general) and memory (all), correlation -0.61" in together(learnt)


def test_what_no_distribution_has_at_once_is_left_out() -> None:
    first, second, third = LABELS[2:]
    pairs = (pair(first, second, 0.9), pair(first, third, 0.4), pair(second, third, -0.9, 0.96))
    found = learnt_model(SPEC, population(*pairs), "ours").spec.correlations
    assert [correlation.between for correlation in found] == [
        ("memory", "level_power"),
        ("memory", "forward_power"),
    ]


def test_correlations_of_the_model_before_stay_unless_shown_anew(tmp_path: Path) -> None:
    before = Correlation(between=("memory", "level_power"), value=0.3, reason="Before.")
    other = Correlation(between=("exponent", "forward_power"), value=0.2, reason="Before.")
    spec = SPEC.model_copy(update={"correlations": (before, other)})
    assert learnt_model(spec, population(), "ours").spec.correlations == (before, other)
    anew = population(pair(("memory", "all"), ("level_power", "all"), 0.8))
    learnt = learnt_model(spec, anew, "ours")
    assert [(c.between, c.value) for c in learnt.spec.correlations] == [
        (other.between, 0.2),
        (before.between, 0.8),
    ]
    path = tmp_path / "ours.toml"
    path.write_text(learnt_text(learnt, "cpt-replay", dict.fromkeys(NAMES, "digest"), 1))
    assert read_spec(path).correlations == learnt.spec.correlations


def test_one_role_shown_anew_leaves_the_other_what_it_had() -> None:
    before = Correlation(between=("level_power", "exponent"), value=0.3, reason="Before.")
    spec = SPEC.model_copy(update={"correlations": (before,)})
    anew = population(pair(("exponent", "general"), ("level_power", "all"), 0.8))
    found = learnt_model(spec, anew, "ours").spec
    assert [(c.between, c.value) for c in found.correlations] == [
        (before.between, 0.3),
        (("exponent/general", "level_power"), 0.8),
    ]
    labels = sampled_labels(found)
    matrix = correlation_matrix(labels, found.correlations)
    level = labels.index(("level_power", None))
    for role, value in (("general", 0.8), ("target", 0.3)):
        assert matrix[level, labels.index(("exponent", role))] == value


def test_what_is_not_shown_is_said_to_be_unsure() -> None:
    unsure = learnt_model(SPEC, population(pair(LABELS[2], LABELS[3], 0.5, 0.4)), "ours")
    assert "none is shown to go together" in together(unsure)
    assert "memory (all) and level_power (all) (probability 0.40)" in together(unsure)
    assert "No two parameters are determined" in together(learnt_model(SPEC, population(), "ours"))

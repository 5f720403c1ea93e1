"""Correlated priors: each keeps its own distribution, and together they are normal on their scales."""

from pathlib import Path

import numpy as np
import pytest
from correlated import correlated_spec
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest, multivariate_normal, norm
from small_study import STUDY
from target_family import several

from bayes_cpt.errors import SpecError
from bayes_cpt.inference.joint_priors import add_correlations
from bayes_cpt.model.log_densities import log_priors
from bayes_cpt.model.priors.correlations import Correlated, correlated, excess_precision
from bayes_cpt.model.priors.draws import draw_priors
from bayes_cpt.model.setup import Frame, build_setup
from bayes_cpt.model.spec import read_spec

LABELS = (
    "reference_slope[g]",
    "reference_slope[t]",
    "exponent[g]",
    "exponent[t]",
    "memory",
    "gain_replay[t]",
    "fluctuation_floor[t]",
)


def frame() -> Frame:
    return build_setup(correlated_spec(), STUDY).frame


def tied() -> Correlated:
    found = correlated(frame())
    assert found is not None
    return found


def expected_matrix(labels: tuple[str, ...]) -> np.ndarray:
    """Return the correlations that `PAIRS` names, written out."""
    pairs = {
        ("exponent[g]", "memory"): -0.6,
        ("reference_slope[g]", "exponent[g]"): 0.5,
        ("reference_slope[t]", "exponent[t]"): 0.5,
        ("fluctuation_floor[t]", "gain_replay[t]"): 0.3,
    }
    matrix = np.eye(len(labels))
    for (first, second), value in pairs.items():
        i, j = labels.index(first), labels.index(second)
        matrix[i, j] = matrix[j, i] = value
    return matrix


def test_parameters_of_one_validation_set_go_together() -> None:
    assert sorted(tied().labels) == sorted(LABELS)
    np.testing.assert_array_equal(tied().matrix, expected_matrix(tied().labels))


def test_draws_keep_each_prior_and_have_the_correlations() -> None:
    found = frame()
    drawn = draw_priors(found, 20_000, seed=3)
    standard = tied().standardised(drawn)
    np.testing.assert_allclose(np.corrcoef(standard.T), tied().matrix, atol=0.03)
    for place, element in enumerate(tied().elements):
        if element.name != "memory":
            assert kstest(standard[:, place], "norm").pvalue > 1e-3
    # What has bounds stays within them.
    low, high = found.spec.priors["memory"].of(None).bounds
    assert low < drawn["memory"].min() < drawn["memory"].max() < high


def test_the_density_is_that_of_scipy() -> None:
    drawn = draw_priors(frame(), 50, seed=4)
    standard = tied().standardised(drawn)
    joint = multivariate_normal(np.zeros(len(LABELS)), tied().matrix).logpdf(standard)
    expected = joint - norm.logpdf(standard).sum(axis=1)
    np.testing.assert_allclose(tied().log_density(drawn), expected, rtol=1e-9, atol=1e-9)


def test_the_prior_of_draws_counts_it_once() -> None:
    drawn = draw_priors(frame(), 10, seed=1)
    independent = build_setup(read_spec("cpt-replay"), STUDY).frame

    def total(of: Frame) -> np.ndarray:
        parts = log_priors(of, drawn).values()
        return np.sum([part.reshape(10, -1).sum(axis=1) for part in parts], axis=0)

    np.testing.assert_allclose(
        total(frame()) - total(independent), tied().log_density(drawn), rtol=1e-9, atol=1e-9
    )


NUMBERS = st.lists(st.floats(-3.0, 3.0), min_size=5, max_size=5).map(np.array)


@given(NUMBERS, st.floats(-0.9, 0.9))
@settings(max_examples=30, deadline=None)
def test_slopes_are_those_of_the_density(standard: np.ndarray, value: float) -> None:
    places, matrix = np.array([3, 1]), np.array([[1.0, value], [value, 1.0]])
    excess, slopes, step = excess_precision(matrix), np.array([1.0, 0.5, 2.0, 3.0, 1.0]), 1e-6

    def density(at: np.ndarray) -> float:
        return float(add_correlations(at, slopes, np.zeros(5), places, excess))

    gradient = np.zeros(5)
    add_correlations(standard, slopes, gradient, places, excess)
    by_steps = [
        (density(standard + step * slopes[k] * unit) - density(standard - step * slopes[k] * unit))
        / (2.0 * step)
        for k, unit in enumerate(np.eye(5))
    ]
    np.testing.assert_allclose(gradient, by_steps, rtol=1e-4, atol=1e-3)


def test_several_targets_keep_their_own_joint_prior() -> None:
    found = correlated(build_setup(correlated_spec(), several()).frame)
    assert found is not None
    assert {element.name for element in found.elements} == {"reference_slope", "exponent", "memory"}
    general = several().general
    assert {element.domain for element in found.elements} == {general, None}


def test_a_file_states_them_and_its_children_inherit_what_they_have(tmp_path: Path) -> None:
    parent, child = tmp_path / "parent.toml", tmp_path / "child.toml"
    pairs = [("exponent", "forward_power"), ("gain_replay", "memory")]
    tables = [
        f'[[correlations]]\nbetween = ["{a}", "{b}"]\nvalue = 0.4\nreason = "Team."\n'
        for a, b in pairs
    ]
    parent.write_text('extends = "cpt-replay"\nname = "parent"\n' + "\n".join(tables))
    assert [pair.between for pair in read_spec(parent).correlations] == pairs
    child.write_text(
        f'extends = "{parent}"\nname = "child"\n[law]\nterms = ["power", "annealing"]\n'
        'replay_factor = { general = "none", target = "none" }\nreplay_gain = false\n'
        "replay_rate = false\nreplay_dilution = false\nbase_offset = false\nshift_share = false\n"
    )
    assert [pair.between for pair in read_spec(child).correlations] == pairs[:1]


def test_single_brackets_are_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('extends = "cpt-replay"\nname = "mine"\n[correlations]\nvalue = 0.4\n')
    with pytest.raises(
        SpecError, match=r"key correlations: .* Write \[\[correlations\]\] above each"
    ):
        read_spec(file)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ({("exponent", "exponnt"): 0.5}, "exponent and exponnt are no two parameters"),
        ({("exponent", "exponent"): 0.5}, "no two parameters"),
        ({("exponent/general", "reference_slope/target"): 0.5}, "no two parameters"),
        (
            {
                ("exponent", "memory"): 0.9,
                ("exponent", "forward_power"): 0.9,
                ("memory", "forward_power"): -0.9,
            },
            "no distribution has all of them",
        ),
    ],
)
def test_what_is_no_distribution_is_refused(
    pairs: dict[tuple[str, str], float], message: str, tmp_path: Path
) -> None:
    file = tmp_path / "mine.toml"
    tables = [
        f'[[correlations]]\nbetween = ["{a}", "{b}"]\nvalue = {value}\nreason = "Mine."\n'
        for (a, b), value in pairs.items()
    ]
    file.write_text('extends = "cpt-replay"\nname = "mine"\n' + "\n".join(tables))
    with pytest.raises(SpecError, match=message):
        read_spec(file)

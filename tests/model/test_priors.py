"""Priors: families and intervals; correlated ones; those that targets or batches share in part."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from batch_family import family
from correlated import correlated_spec
from hypothesis import given, settings
from hypothesis import strategies as st
from interpreted import INTERPRETED
from pydantic import TypeAdapter, ValidationError
from scipy import stats
from small_study import STUDY
from target_family import several

from bayes_cpt import Study, read_spec
from bayes_cpt.errors import SpecError
from bayes_cpt.model.joint_priors import (
    Correlated,
    correlated,
    draw_further,
    draw_priors,
    log_alikeness,
    log_alikenesses,
    standardised,
)
from bayes_cpt.model.log_densities import log_priors
from bayes_cpt.model.priors import Distribution, Fixed, LogitNormal, LogNormal, Normal
from bayes_cpt.model.setup import BoundModel, build_setup

# --- families ---------------------------------------------------------------------------------------

NORMAL = Normal(distribution="normal", mean=3.0, sd=1.5)
LOGNORMAL = LogNormal(distribution="lognormal", median=0.1, sigma=0.8)
BOUNDED = LogNormal(distribution="lognormal", median=300.0, sigma=1.2, lower=10.0, upper=1e4)
LOGIT = LogitNormal(distribution="logitnormal", median=0.3, sigma=1.0)
FIXED = Fixed(distribution="fixed", value=2.5)
PROBABILITIES = np.array([0.05, 0.3, 0.5, 0.95])


def test_quantiles_are_those_of_scipy() -> None:
    normal = stats.norm(3.0, 1.5)
    np.testing.assert_allclose(NORMAL.quantiles(PROBABILITIES), normal.ppf(PROBABILITIES))
    lognormal = stats.lognorm(0.8, scale=0.1)
    np.testing.assert_allclose(LOGNORMAL.quantiles(PROBABILITIES), lognormal.ppf(PROBABILITIES))
    logs = stats.truncnorm(*(np.log([10, 1e4]) - np.log(300)) / 1.2, np.log(300), 1.2)
    np.testing.assert_allclose(BOUNDED.quantiles(PROBABILITIES), np.exp(logs.ppf(PROBABILITIES)))
    logit = stats.norm(np.log(0.3 / 0.7), 1.0).ppf(PROBABILITIES)
    np.testing.assert_allclose(LOGIT.quantiles(PROBABILITIES), 1 / (1 + np.exp(-logit)))
    np.testing.assert_array_equal(FIXED.quantiles(PROBABILITIES), 2.5)


def test_outside_its_bounds_a_prior_has_no_density() -> None:
    found = BOUNDED.log_density([9.0, 11.0, 9999.0, 10001.0])
    assert np.isfinite(found).tolist() == [False, True, True, False]
    np.testing.assert_array_equal(FIXED.log_density([2.5, 2.5]), 0.0)


ALL: tuple[Distribution, ...] = (NORMAL, LOGNORMAL, BOUNDED, LOGIT)


def test_densities_are_those_of_pymc() -> None:
    import pymc as pm

    from bayes_cpt.model.build import variable

    with pm.Model() as model:
        for index, prior in enumerate(ALL):
            variable(f"x{index}", [prior])
    places = [[-1.0, 3.2], [0.02, 0.4], [11.0, 9000.0], [0.01, 0.9]]
    for own, prior, values in zip(model.free_RVs, ALL, places, strict=True):
        for value in values:
            wanted = pm.logp(own, value).eval(mode=INTERPRETED)
            assert prior.log_density(value) == pytest.approx(float(wanted), abs=1e-9)


PRIOR = TypeAdapter(Distribution)
MASSES = st.floats(0.5, 0.98)
SHARES = st.tuples(st.floats(0.02, 0.98), st.floats(0.02, 0.98)).filter(
    lambda pair: abs(pair[0] - pair[1]) > 0.01
)


@given(SHARES, MASSES)
def test_a_prior_may_be_stated_as_an_interval(shares: tuple[float, float], mass: float) -> None:
    ends, tails = sorted(shares), [0.5 - mass / 2, 0.5 + mass / 2]
    # Parameters are rounded to four digits: an end near 0 is as exact as the other, not relatively so.
    narrow = 5e-4 * (ends[1] - ends[0])
    for name in ("normal", "lognormal", "logitnormal"):
        prior = PRIOR.validate_python({"distribution": name, "interval": ends, "mass": mass})
        np.testing.assert_allclose(prior.quantiles(tails), ends, rtol=5e-3, atol=narrow)


@pytest.mark.parametrize(
    ("family", "keys", "message"),
    [
        ("fixed", {"interval": [1.0, 2.0]}, "fixed value has no interval"),
        ("normal", {"interval": [2.0, 1.0]}, "give interval = .lower, upper."),
        ("normal", {"interval": "narrow"}, "give interval = .lower, upper."),
        ("normal", {"interval": [1.0, 2.0], "mass": 1.0}, "a mass between 0 and 1"),
        ("normal", {"interval": [1.0, 2.0], "sd": 1.0}, "give either interval or sd"),
        ("normal", {"mean": 1.0, "sd": 1.0, "mass": 0.9}, "give interval = .lower, upper. too"),
        ("lognormal", {"interval": [-0.1, 1.0]}, "between 0 and inf"),
        ("logitnormal", {"interval": [0.5, 1.0]}, "between 0 and 1"),
        ("lognormal", {"interval": [5.0, 100.0], "lower": 10.0, "upper": 1e4}, "between 10 and 1"),
        # Wider than the flattest lognormal between the bounds.
        ("lognormal", {"interval": [10.0001, 9999.9], "lower": 10.0, "upper": 1e4}, "no lognormal"),
        ("lognormal", {"interval": [1.0, 2.0], "lower": "low", "upper": 3.0}, "valid number"),
        ("lognormal", {"median": -1.0, "sigma": 1.0}, "greater than 0"),
        ("lognormal", {"median": 300.0, "sigma": 1.0, "lower": 10.0}, "both lower and upper"),
        ("logitnormal", {"median": 2.0, "sigma": 1.0}, "less than 1"),
        ("normal", {"mean": float("inf"), "sd": 1.0}, "finite"),
        ("cauchy", {"mean": 0.0}, "cauchy"),
    ],
)
def test_what_no_member_of_a_family_is(family: str, keys: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        PRIOR.validate_python({"distribution": family, **keys})


# --- correlations -----------------------------------------------------------------------------------

LABELS = (
    "reference_slope[g]",
    "reference_slope[t]",
    "exponent[g]",
    "exponent[t]",
    "memory",
    "gain_replay[t]",
    "fluctuation_floor[t]",
)


def frame() -> BoundModel:
    return build_setup(correlated_spec(), STUDY).frame


def tied() -> Correlated:
    found = correlated(frame())
    assert found is not None
    return found


def test_parameters_of_one_validation_set_go_together() -> None:
    """The correlations that `PAIRS` names, written out."""
    assert sorted(tied().labels) == sorted(LABELS)
    pairs = {
        ("exponent[g]", "memory"): -0.6,
        ("reference_slope[g]", "exponent[g]"): 0.5,
        ("reference_slope[t]", "exponent[t]"): 0.5,
        ("fluctuation_floor[t]", "gain_replay[t]"): 0.3,
    }
    expected = pd.DataFrame(np.eye(len(LABELS)), tied().labels, tied().labels)
    for (first, second), value in pairs.items():
        expected.loc[first, second] = expected.loc[second, first] = value
    np.testing.assert_array_equal(tied().matrix, expected)


def test_draws_keep_each_prior_and_have_the_correlations() -> None:
    found = frame()
    drawn = draw_priors(found, 20_000, seed=3)
    standard = tied().standardised(drawn)
    np.testing.assert_allclose(np.corrcoef(standard.T), tied().matrix, atol=0.03)
    for place, element in enumerate(tied().elements):
        if element.name != "memory":
            assert stats.kstest(standard[:, place], "norm").pvalue > 1e-3
    # What has bounds stays within them.
    low, high = found.spec.priors["memory"].of(None).bounds
    assert low < drawn["memory"].min() < drawn["memory"].max() < high


def test_the_density_is_that_of_scipy() -> None:
    drawn = draw_priors(frame(), 50, seed=4)
    standard = tied().standardised(drawn)
    joint = stats.multivariate_normal(np.zeros(len(LABELS)), tied().matrix).logpdf(standard)
    expected = joint - stats.norm.logpdf(standard).sum(axis=1)
    np.testing.assert_allclose(tied().log_density(drawn), expected, rtol=1e-9, atol=1e-9)


def test_the_prior_of_draws_counts_it_once() -> None:
    drawn = draw_priors(frame(), 10, seed=1)
    independent = build_setup(read_spec("cpt-replay"), STUDY).frame

    def total(of: BoundModel) -> np.ndarray:
        parts = log_priors(of, drawn).values()
        return np.sum([part.reshape(10, -1).sum(axis=1) for part in parts], axis=0)

    np.testing.assert_allclose(
        total(frame()) - total(independent), tied().log_density(drawn), rtol=1e-9, atol=1e-9
    )


def test_several_targets_keep_their_own_joint_prior() -> None:
    found = correlated(build_setup(correlated_spec(), several()).frame)
    assert found is not None
    assert {element.name for element in found.elements} == {"reference_slope", "exponent", "memory"}
    assert {element.domain for element in found.elements} == {several().general, None}


def mine(folder: Path, pairs: dict[tuple[str, str], float]) -> Path:
    """Write a model of one's own with these correlations."""
    tables = [
        f'[[correlations]]\nbetween = ["{a}", "{b}"]\nvalue = {value}\nreason = "Mine."\n'
        for (a, b), value in pairs.items()
    ]
    file = folder / "mine.toml"
    file.write_text('extends = "cpt-replay"\nname = "mine"\n' + "\n".join(tables))
    return file


def test_a_file_states_them_and_its_children_inherit_what_they_have(tmp_path: Path) -> None:
    pairs = [("exponent", "forward_power"), ("gain_replay", "memory")]
    parent, child = mine(tmp_path, dict.fromkeys(pairs, 0.4)), tmp_path / "child.toml"
    assert [pair.between for pair in read_spec(parent).correlations] == pairs
    child.write_text(
        f'extends = "{parent}"\nname = "child"\n[law]\nterms = ["power", "annealing"]\n'
        'replay_factor = { general = "none", target = "none" }\nbase_offset = false\n'
        "[residuals]\nextrapolation = false\n"
    )
    assert [pair.between for pair in read_spec(child).correlations] == pairs[:1]


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ({("exponent", "exponnt"): 0.5}, "exponent and exponnt are not two different parameters"),
        ({("exponent", "exponent"): 0.5}, "not two different parameters"),
        ({("exponent/general", "reference_slope/target"): 0.5}, "not two different parameters"),
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
    with pytest.raises(SpecError, match=message):
        read_spec(mine(tmp_path, pairs))


# --- pooling ----------------------------------------------------------------------------------------

NUMBERS = st.lists(st.floats(-3.0, 3.0), min_size=2, max_size=6).map(np.array)
SPREADS = st.floats(0.1, 0.99)


@given(NUMBERS, SPREADS)
@settings(max_examples=50, deadline=None)
def test_targets_are_normal_with_one_correlation(standard: np.ndarray, spread: float) -> None:
    count = standard.size
    covariance = spread**2 * np.eye(count) + (1.0 - spread**2)
    joint = stats.multivariate_normal(np.zeros(count), covariance).logpdf(standard)
    expected = joint - stats.norm.logpdf(standard).sum()
    found = log_alikeness(standard, np.float64(spread), np)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(
    ("model", "study", "names", "spread"),
    [
        (
            "cpt-replay",
            several(),
            ("shift_share", "saturation_exponent", "misfit_replay"),
            "target",
        ),
        # Apart on each validation set.
        ("cpt-replay-batch", family(), ("shift_share", "shift_rate", "shift_exponent"), "batch"),
    ],
)
def test_draws_of_each_member_have_the_prior_of_one_and_are_alike(
    model: str, study: Study, names: tuple[str, ...], spread: str
) -> None:
    frame = build_setup(read_spec(model), study).frame
    drawn = draw_priors(frame, 20_000, seed=0)
    for name in names:
        pools = frame.pools(name)
        own = np.hstack([standardised(frame, name, drawn[name], places) for places in pools])
        np.testing.assert_allclose(own.mean(axis=0), 0.0, atol=0.03)
        np.testing.assert_allclose(own.std(axis=0), 1.0, atol=0.03)
        shared = 1.0 - (drawn[f"{spread}_spread"][:, frame.pooled.index(name)] ** 2).mean()
        expected = np.kron(np.eye(len(pools)), np.full((3, 3), shared))
        np.fill_diagonal(expected, 1.0)
        np.testing.assert_allclose(np.corrcoef(own.T), expected, atol=0.03)


def test_the_prior_of_draws_counts_how_alike_they_are() -> None:
    frame = build_setup(read_spec("cpt-replay"), several()).frame
    drawn = draw_priors(frame, 10, seed=1)
    spread = frame.spec.priors["target_spread"].of(None)
    alone = spread.log_density(drawn["target_spread"]) - spread.log_slope(drawn["target_spread"])
    found = log_priors(frame, drawn)["target_spread"]
    alike = np.stack(log_alikenesses(frame, drawn), axis=1)
    np.testing.assert_allclose(found - alone, alike, rtol=1e-10)
    assert found.shape == (10, len(frame.pooled))


def test_a_further_member_is_drawn_given_the_known_ones() -> None:
    """Against the conditional of the joint normal."""
    generator = np.random.default_rng(0)
    known, spread, draws = np.array([0.5, 1.4, -0.2]), 0.4, 100_000
    covariance = spread**2 * np.eye(4) + (1.0 - spread**2)
    weights = np.linalg.solve(covariance[:3, :3], covariance[:3, 3])
    mean, variance = weights @ known, 1.0 - weights @ covariance[:3, 3]
    shared, own = generator.standard_normal((2, draws))
    found = draw_further(np.tile(known, (draws, 1)), np.full(draws, spread), shared, own)
    np.testing.assert_allclose(found.mean(), mean, atol=0.01)
    np.testing.assert_allclose(found.var(), variance, rtol=0.03)

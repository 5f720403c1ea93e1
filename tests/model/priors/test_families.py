import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from interpreted import INTERPRETED
from pydantic import TypeAdapter, ValidationError
from scipy import integrate, stats

from bayes_cpt.model.priors.families import Distribution, Fixed, LogitNormal, LogNormal, Normal
from bayes_cpt.model.spec import read_spec

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


@pytest.mark.parametrize(
    "prior", [NORMAL, LOGNORMAL, BOUNDED, LOGIT], ids=lambda prior: prior.words
)
def test_the_density_holds_the_mass_between_quantiles(prior: Distribution) -> None:
    low, high = prior.quantiles([0.2, 0.85])
    mass, _ = integrate.quad(lambda x: np.exp(prior.log_density(x)), low, high)
    assert mass == pytest.approx(0.65, abs=1e-7)


def test_outside_its_bounds_a_prior_has_no_density() -> None:
    found = BOUNDED.log_density([9.0, 11.0, 9999.0, 10001.0])
    assert np.isfinite(found).tolist() == [False, True, True, False]
    np.testing.assert_array_equal(FIXED.log_density([2.5, 2.5]), 0.0)


ALL: tuple[Distribution, ...] = (NORMAL, LOGNORMAL, BOUNDED, LOGIT)


def test_densities_are_those_of_pymc() -> None:
    import pymc as pm

    with pm.Model() as model:
        for index, prior in enumerate(ALL):
            prior.variable(f"x{index}", [prior], None)
    places = [[-1.0, 3.2], [0.02, 0.4], [11.0, 9000.0], [0.01, 0.9]]
    for variable, prior, values in zip(model.free_RVs, ALL, places, strict=True):
        for value in values:
            wanted = pm.logp(variable, value).eval(mode=INTERPRETED)
            assert prior.log_density(value) == pytest.approx(float(wanted), abs=1e-9)


PRIOR = TypeAdapter(Distribution)
MASSES = st.floats(0.5, 0.98)
SHARES = st.tuples(st.floats(0.02, 0.98), st.floats(0.02, 0.98)).filter(
    lambda pair: abs(pair[0] - pair[1]) > 0.01
)


def stated(family: str, interval: object, **keys: object) -> Distribution:
    return PRIOR.validate_python({"distribution": family, "interval": interval, **keys})


@given(SHARES, MASSES)
def test_a_prior_may_be_stated_as_an_interval(shares: tuple[float, float], mass: float) -> None:
    ends = [min(shares), max(shares)]
    tails = [0.5 - mass / 2, 0.5 + mass / 2]
    normal, lognormal = (stated(name, ends, mass=mass) for name in ("normal", "lognormal"))
    logit = stated("logitnormal", ends, mass=mass)
    assert isinstance(normal, Normal)
    assert isinstance(lognormal, LogNormal)
    assert isinstance(logit, LogitNormal)
    logit_median = np.log(logit.median / (1.0 - logit.median))
    found = [
        stats.norm(normal.mean, normal.sd).ppf(tails),
        stats.lognorm(lognormal.sigma, scale=lognormal.median).ppf(tails),
        1.0 / (1.0 + np.exp(-stats.norm(logit_median, logit.sigma).ppf(tails))),
    ]
    # Parameters are rounded to four digits: an end near 0 is as exact as the other, not relatively so.
    np.testing.assert_allclose(
        found, np.tile(ends, (3, 1)), rtol=5e-3, atol=5e-4 * (ends[1] - ends[0])
    )


@pytest.mark.parametrize("ends", [(15.0, 60.0), (100.0, 3000.0), (20.0, 4000.0)])
def test_an_interval_between_bounds(ends: tuple[float, float]) -> None:
    made = stated("lognormal", ends, lower=10.0, upper=1e4)
    assert isinstance(made, LogNormal)
    assert (made.lower, made.upper) == (10.0, 1e4)
    edges = (np.log([10.0, 1e4]) - np.log(made.median)) / made.sigma
    logs = stats.truncnorm(*edges, np.log(made.median), made.sigma)
    np.testing.assert_allclose(np.exp(logs.ppf([0.05, 0.95])), ends, rtol=2e-3)


@pytest.mark.parametrize(
    ("family", "keys", "message"),
    [
        ("fixed", {"interval": [1.0, 2.0]}, "fixed value has no interval"),
        ("normal", {"interval": [2.0, 1.0]}, "give interval = .lower, upper."),
        ("normal", {"interval": "narrow"}, "give interval = .lower, upper."),
        ("normal", {"interval": [1.0, 2.0], "mass": 1.0}, "a mass between 0 and 1"),
        ("normal", {"interval": [1.0, 2.0], "sd": 1.0}, "give either interval or sd"),
        ("lognormal", {"interval": [-0.1, 1.0]}, "between 0 and inf"),
        ("logitnormal", {"interval": [0.5, 1.0]}, "between 0 and 1"),
        ("lognormal", {"interval": [5.0, 100.0], "lower": 10.0, "upper": 1e4}, "between 10 and 1"),
        # Wider than the flattest lognormal between the bounds.
        ("lognormal", {"interval": [10.0001, 9999.9], "lower": 10.0, "upper": 1e4}, "no lognormal"),
        ("lognormal", {"interval": [1.0, 2.0], "lower": "low", "upper": 3.0}, "valid number"),
    ],
)
def test_an_interval_that_no_member_of_the_family_has(
    family: str, keys: dict[str, object], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        PRIOR.validate_python({"distribution": family, **keys})


def test_every_shipped_prior_has_words() -> None:
    for prior in read_spec("cpt-replay").priors.values():
        for role in ("general", "target", None):
            if prior.every or role:
                assert prior.of(role).words
    assert BOUNDED.words == "LogNormal(median 300, 1.2) in 10 to 10000"
    assert FIXED.words == "fixed at 2.5"

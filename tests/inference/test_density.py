from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytest
from correlated import correlated_spec
from dense_residuals import curve_normals
from every_option import spec_with
from interpreted import INTERPRETED
from open_weights import open_study
from scipy.special import expit, log_expit, logit
from scipy.stats import multivariate_normal, norm
from synthetic import lab_for

from bayes_cpt.arrays import Floats
from bayes_cpt.bundled import bundled_study
from bayes_cpt.inference.density import Density
from bayes_cpt.inference.metric import Metric
from bayes_cpt.model.build import model_of
from bayes_cpt.model.priors import Distribution, Fixed, LogitNormal, LogNormal, Normal
from bayes_cpt.model.setup import Setup, build_setup, elements
from bayes_cpt.model.spec import read_spec, shipped_models
from bayes_cpt.study.folder import read_study


def constrain(prior: Distribution, y: float) -> tuple[float, float]:
    """Return the value at an unconstrained y, and the log density of y: prior and Jacobian."""
    match prior:
        case Normal(mean=mean, sd=sd):
            return y, float(norm.logpdf(y, mean, sd))
        case LogitNormal(median=median, sigma=sigma):
            return float(expit(y)), float(norm.logpdf(y, np.log(median / (1 - median)), sigma))
        case LogNormal(median=median, sigma=sigma, lower=None):
            return float(np.exp(y)), float(norm.logpdf(y, np.log(median), sigma))
        case LogNormal(median=median, sigma=sigma, lower=lower, upper=upper):
            assert lower is not None
            assert upper is not None
            value = lower + (upper - lower) * float(expit(y))
            z, low, high = (np.log(v / median) / sigma for v in (value, lower, upper))
            density = (
                norm.logpdf(z) - np.log(sigma * value) - np.log(norm.cdf(high) - norm.cdf(low))
            )
            jacobian = np.log(upper - lower) + log_expit(y) + log_expit(-y)
            return value, float(density + jacobian)
        case _:
            raise AssertionError(prior)


def unconstrained(density: Density, position: Floats) -> Floats:
    """Return every sampled number on the scale on which it is not bounded, from its value."""
    values = density.values(position)
    numbers = []
    for element in elements(density.setup.frame):
        value = float(np.atleast_1d(values[element.name])[element.member])
        match element.prior:
            case Normal():
                numbers.append(value)
            case LogitNormal():
                numbers.append(float(logit(value)))
            case LogNormal(lower=None):
                numbers.append(float(np.log(value)))
            case LogNormal(lower=lower, upper=upper):
                assert lower is not None
                assert upper is not None
                numbers.append(float(logit((value - lower) / (upper - lower))))
    return np.array(numbers)


def prior_density(density: Density, position: Floats) -> tuple[dict[str, Any], float]:
    """Return constrained parameters, and the log density of the priors, by SciPy."""
    setup = density.setup
    parameters: dict[str, Any] = {}
    total = 0.0
    numbers = iter(unconstrained(density, position))
    for element in elements(setup.frame):
        if isinstance(element.prior, Fixed):
            value = element.prior.value
        else:
            value, log_density = constrain(element.prior, float(next(numbers)))
            total += log_density
        if element.domain is None:
            parameters[element.name] = np.float64(value)
        else:
            parameters[element.name] = np.append(parameters.get(element.name, []), value)
    return parameters, total + log_correlations(setup, parameters)


def log_correlations(setup: Setup, parameters: dict[str, Any]) -> float:
    """Return what correlated log-normal priors say, by SciPy; each parameter is of one pair."""
    total = 0.0
    pairs = [(pair.between, pair.value) for pair in setup.frame.spec.correlations]
    names = [name for between, _ in pairs for name in between]
    assert len(names) == len(set(names))
    for between, value in pairs:
        standard = []
        for name in between:
            prior = setup.frame.spec.priors[name].of("general")
            assert isinstance(prior, LogNormal)
            standard.append(np.log(parameters[name] / prior.median) / prior.sigma)
        z = np.transpose(standard)
        joint = multivariate_normal(np.zeros(2), [[1.0, value], [value, 1.0]])
        total += float(np.sum(joint.logpdf(z)) - norm.logpdf(z).sum())
    return total


def dense_likelihood(setup: Setup, parameters: dict[str, Any]) -> float:
    normals = curve_normals(setup, parameters)
    return sum(float(multivariate_normal.logpdf(residual, cov=own)) for residual, own in normals)


def places(density: Density, count: int) -> Floats:
    """Return a sampler's positions scattered over the prior."""
    start = density.start
    return np.asarray(start + 0.4 * np.random.default_rng(1).standard_normal((count, start.size)))


def density_at(density: Density, position: Floats) -> tuple[float, Floats]:
    return density.in_metric(Metric(position, np.eye(position.size)))(np.zeros(position.size))


def bundled(model: str = "cpt-replay") -> Setup:
    study = lab_for(model)
    spec = read_spec(model)
    if not spec.law.uses_replay:
        study = study.subset([run.name for run in study.runs if not run.replay])
    return build_setup(spec, study)


def without_pretraining_runs() -> Setup:
    study = read_study(bundled_study())
    return build_setup(
        read_spec("cpt-replay"), study.subset([run.name for run in study.continual_runs])
    )


def from_an_unknown_base() -> Setup:
    return build_setup(read_spec("cpt-replay"), open_study())


def with_every_option() -> Setup:
    return build_setup(spec_with(), read_study(bundled_study()))


def with_every_option_from_an_unknown_base() -> Setup:
    return build_setup(spec_with(), open_study())


def with_correlated_priors() -> Setup:
    return build_setup(correlated_spec(), read_study(bundled_study()))


@pytest.mark.parametrize(
    "built",
    [
        bundled,
        without_pretraining_runs,
        from_an_unknown_base,
        with_every_option,
        pytest.param(with_every_option_from_an_unknown_base, marks=pytest.mark.slow),
    ],
)
def test_density_is_that_of_scipy(built: Callable[[], Setup]) -> None:
    setup = built()
    density = Density(setup)
    for position in places(density, 4):
        parameters, prior = prior_density(density, position)
        expected = prior + dense_likelihood(setup, parameters)
        assert density_at(density, position)[0] == pytest.approx(expected, rel=1e-9)


# To compile a law takes ten seconds, and these are made of terms that other tests hold to the written law.
OF_THE_SAME_TERMS = (
    "cpt",
    "pretrain-sizes",
    "cpt-replay-sizes",
    "cpt-replay-batch",
    "cpt-replay-repeats",
    # Held to SciPy, and correlated as the shipped pre-training model is.
    "unknown base",
    "correlated",
)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(own, marks=pytest.mark.slow if own in OF_THE_SAME_TERMS else ())
        for own in (*shipped_models(), "unknown base", "correlated")
    ],
)
def test_density_and_gradient_are_those_of_the_pymc_model(name: str) -> None:
    made = {"unknown base": from_an_unknown_base, "correlated": with_correlated_priors}
    setup = made[name]() if name in made else bundled(name)
    density, model = Density(setup), model_of(setup)
    first, second = places(density, 2)
    value, gradient = density_at(density, first)
    terms = [term.sum() for term in model.logp(sum=False)]
    slopes = pytensor.grad(sum(terms[1:], terms[0]), model.value_vars)
    evaluate = model.compile_fn([*terms, *slopes], mode=INTERPRETED)
    outputs, others = (
        evaluate(as_point(model, density, first)),
        evaluate(as_point(model, density, second)),
    )
    # Correlations lack a constant in the sampler's density.
    change = float(sum(outputs[: len(terms)]) - sum(others[: len(terms)]))
    assert value - density_at(density, second)[0] == pytest.approx(change, rel=1e-10)
    slopes = np.concatenate([np.ravel(slope) for slope in outputs[len(terms) :]])
    expected = jacobian(density, first) @ slopes
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-5)


def as_point(model: pm.Model, density: Density, position: Floats) -> dict[str, Floats]:
    """Return the value variables of a model from a sampler's position."""
    of_name: dict[str, list[float]] = {}
    numbers = iter(unconstrained(density, position))
    for element in elements(density.setup.frame):
        if not isinstance(element.prior, Fixed):
            of_name.setdefault(element.name, []).append(next(numbers))
    return {
        model.rvs_to_values[variable].name: np.reshape(
            # Where one validation set has a fixed value the other is a variable for itself: name_1.
            of_name.get(variable.name) or of_name[variable.name.rpartition("_")[0]],
            (-1,) * variable.ndim,
        )
        for variable in model.free_RVs
    }


def jacobian(density: Density, position: Floats) -> Floats:
    """Return the slopes of unconstrained values by the sampler's coordinates, one coordinate a row."""
    step = 1e-5 * np.eye(position.size)
    ahead, behind = (
        np.stack([unconstrained(density, position + sign * own) for own in step])
        for sign in (1, -1)
    )
    return np.asarray((ahead - behind) / 2e-5)


@pytest.mark.parametrize(
    "built",
    [
        bundled,
        with_every_option,
        pytest.param(with_every_option_from_an_unknown_base, marks=pytest.mark.slow),
    ],
)
def test_gradient_is_that_of_finite_differences_in_any_metric(built: Callable[[], Setup]) -> None:
    density = Density(built())
    size = density.start.size
    generator = np.random.default_rng(3)
    factor = np.eye(size) + 0.05 * generator.standard_normal((size, size))
    function = density.in_metric(Metric(places(density, 1)[0], factor))
    here = 0.1 * generator.standard_normal(size)
    gradient = function(here)[1]
    step = 1e-5
    for i in range(size):
        shift = step * np.eye(size)[i]
        slope = (function(here + shift)[0] - function(here - shift)[0]) / (2 * step)
        assert gradient[i] == pytest.approx(slope, rel=1e-4, abs=0.05)


def test_another_study_is_another_density_of_the_same_code() -> None:
    study = read_study(bundled_study())
    shorter = study.truncated({"r00_const": 400, "pt_trunk": 9000, "r25_cos": 1000})
    changed = replace(shorter, losses=shorter.losses.assign(loss=shorter.losses["loss"] + 0.1))
    setup = build_setup(read_spec("cpt-replay"), changed)
    first, other = Density(bundled()), Density(setup)
    assert other.key == first.key
    position = places(first, 1)[0]
    parameters, prior = prior_density(other, position)
    found = density_at(other, position)[0]
    assert found == pytest.approx(prior + dense_likelihood(setup, parameters), rel=1e-9)
    assert found != pytest.approx(density_at(first, position)[0], rel=1e-3)

"""The sampler's log density and its slopes, against the PyMC model and differences."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numba
import numpy as np
import pymc as pm
import pytensor
import pytest
from correlated import correlated_spec
from interpreted import INTERPRETED
from open_weights import open_study
from scipy.special import logit
from size_family import family_of_cpt_alone
from synthetic import lab, lab_for

from bayes_cpt import read_spec
from bayes_cpt.arrays import Floats
from bayes_cpt.inference.density import Density
from bayes_cpt.inference.metric import Metric, bent_metric
from bayes_cpt.model.build import model_of
from bayes_cpt.model.law_kernel import LAW
from bayes_cpt.model.log_densities import log_densities
from bayes_cpt.model.priors import Fixed, LogitNormal, LogNormal, Normal
from bayes_cpt.model.setup import Setup, build_setup, elements
from bayes_cpt.model.spec import shipped_models


def unconstrained(density: Density, positions: Floats) -> Floats:
    """Return every sampled number on the scale on which it is not bounded, shape (..., numbers) both."""
    values = density.values(positions)
    numbers = []
    for element in elements(density.setup.frame):
        value = values[element.name]
        if value.ndim == positions.ndim:
            value = value[..., element.member]
        match element.prior:
            case Normal():
                numbers.append(value)
            case LogitNormal():
                numbers.append(logit(value))
            case LogNormal(lower=None):
                numbers.append(np.log(value))
            case LogNormal(lower=lower, upper=upper):
                assert lower is not None
                assert upper is not None
                numbers.append(logit((value - lower) / (upper - lower)))
    return np.stack(numbers, axis=-1)


def places(density: Density, count: int) -> Floats:
    """Return a sampler's positions scattered over the prior."""
    start = density.starts[0]
    return np.asarray(start + 0.4 * np.random.default_rng(1).standard_normal((count, start.size)))


def density_at(density: Density, position: Floats) -> tuple[float, Floats]:
    return density.in_metric(Metric(position, np.eye(position.size)))(np.zeros(position.size))


def bundled(model: str = "cpt-replay") -> Setup:
    study = lab_for(model)
    spec = read_spec(model)
    if not spec.law.uses_replay:
        study = study.subset([run.name for run in study.runs if not run.replay])
    return build_setup(spec, study)


def of_two_replay_ratios() -> Setup:
    runs = [run.name for run in lab().runs if run.phase == "pt" or run.replay in (0.25, 0.5)]
    return build_setup(read_spec("cpt-replay"), lab().subset(runs))


OTHERS: dict[str, Callable[[], Setup]] = {
    "two replay ratios": of_two_replay_ratios,
    "unknown base": lambda: build_setup(read_spec("cpt-replay"), open_study()),
    "correlated": lambda: build_setup(correlated_spec(), lab()),
    "sizes, CPT alone": lambda: build_setup(read_spec("cpt-replay-sizes"), family_of_cpt_alone()),
}
# To compile a law takes ten seconds, and these are made of terms that other tests hold to the written law.
OF_THE_SAME_TERMS = (
    "cpt",
    "cpt-replay-sizes",
    "cpt-replay-batch",
    "cpt-replay-repeats",
    # Its likelihood is held to dense normals, and correlated as the shipped pre-training model is.
    "unknown base",
    "correlated",
    "sizes, CPT alone",
)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(own, marks=pytest.mark.slow if own in OF_THE_SAME_TERMS else ())
        for own in (*shipped_models(), *OTHERS)
    ],
)
def test_density_and_gradient_are_those_of_the_pymc_model(name: str) -> None:
    setup = OTHERS[name]() if name in OTHERS else bundled(name)
    density, model = Density(setup), model_of(setup)
    first, second = places(density, 2)
    value, gradient = density_at(density, first)
    terms = [term.sum() for term in model.logp(sum=False)]
    slopes = pytensor.grad(sum(terms[1:], terms[0]), model.value_vars)
    evaluate = model.compile_fn([*terms, *slopes], mode=INTERPRETED)
    outputs, others = (evaluate(as_point(model, density, own)) for own in (first, second))
    # Correlations lack a constant in the sampler's density.
    change = float(sum(outputs[: len(terms)]) - sum(others[: len(terms)]))
    change += log_volume(density, first) - log_volume(density, second)
    assert value - density_at(density, second)[0] == pytest.approx(change, rel=1e-10)
    slopes = np.concatenate([np.ravel(slope) for slope in outputs[len(terms) :]])
    steps = 0.1 * np.eye(first.size)
    wider = [log_volume(density, first + s) - log_volume(density, first - s) for s in steps]
    expected = jacobian(density, first) @ slopes + np.array(wider) / 0.2
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
            of_name[variable.name], (-1,) * variable.ndim
        )
        for variable in model.free_RVs
    }


def log_volume(density: Density, position: Floats) -> float:
    """Return the log of the volume of unconstrained values that a small volume of positions maps to."""
    return float(np.linalg.slogdet(jacobian(density, position))[1])


def jacobian(density: Density, position: Floats) -> Floats:
    """Return the slopes of unconstrained values by the sampler's coordinates, one coordinate a row."""
    step = 1e-5 * np.eye(position.size)
    ahead, behind = (unconstrained(density, position + sign * step) for sign in (1, -1))
    return np.asarray((ahead - behind) / 2e-5)


def test_along_delta_runs_at_two_replay_ratios_shift_alike() -> None:
    """Against the saturating factor of docs/law.md, c = 16, at the shares 0.5 and 0.75 and between them."""
    density = Density(of_two_replay_ratios())
    names = [density.elements[k].name for k in density.places]
    along = np.eye(density.size)[names.index("saturation_exponent")]
    values = density.values(density.starts[0] + np.outer([-1.5, -0.6, 0.0, 0.7], along))
    delta, k = values["saturation_exponent"][:, 0], values["replay_dilution"][:, 1]

    def log_factor(share: float) -> Floats:
        own = (1.0 - (1.0 + 16.0 * share) ** -delta) / (1.0 - 17.0**-delta)
        return np.asarray(np.log(own) - k * (1.0 - share))

    differ = log_factor(0.75) - log_factor(0.5)
    size = logit(values["shift_share"][:, 1]) + log_factor(0.625)
    np.testing.assert_allclose([differ, size], [[differ[0]] * 4, [size[0]] * 4], rtol=1e-10)


@pytest.mark.parametrize("bent", [False, True])
def test_gradient_is_that_of_finite_differences_in_any_metric(bent: bool) -> None:
    density = Density(of_two_replay_ratios())
    size = density.size
    generator = np.random.default_rng(3)
    factor = np.eye(size) + 0.05 * generator.standard_normal((size, size))
    plain = Metric(places(density, 1)[0], factor)
    metric = plain
    if bent:
        draws = 0.2 * generator.standard_normal((5000, size))
        draws[:, -1] += 2.0 * draws[:, 0] * draws[:, 1]
        metric = bent_metric(plain, plain.positions(draws))
        assert metric.bends.any()
    function = density.in_metric(metric)
    here = 0.1 * generator.standard_normal(size)
    value, gradient = function(here)
    there = Metric(metric.positions(here[None])[0], np.eye(size))
    assert density.in_metric(there)(np.zeros(size))[0] == pytest.approx(value, rel=1e-12)
    steps = 1e-5 * np.eye(size)
    slopes = [(function(here + own)[0] - function(here - own)[0]) / 2e-5 for own in steps]
    assert gradient == pytest.approx(np.array(slopes), rel=1e-4, abs=0.05)


def test_what_another_study_changes_is_the_likelihood_as_written_in_numpy() -> None:
    shorter = lab().truncated({"r00_const": 400, "pt_trunk": 9000, "r25_cos": 1000})
    changed = replace(shorter, losses=shorter.losses.assign(loss=shorter.losses["loss"] + 0.1))
    setups = bundled(), build_setup(read_spec("cpt-replay"), changed)
    first, other = map(Density, setups)
    position = places(first, 1)[0]
    values = first.values(position[None])
    before, after = (log_densities(own.frame, values, own.curves).sum() for own in setups)
    found = density_at(other, position)[0] - density_at(first, position)[0]
    assert found == pytest.approx(after - before, rel=1e-9)
    assert abs(found) > 1.0


@pytest.mark.parametrize("far", [30.0, 1e3, 1e5, 1e100])
def test_far_from_the_mode_the_density_is_small_or_not_finite_but_no_error(far: float) -> None:
    density = Density(bundled())
    size = density.size
    function = density.in_metric(Metric(density.starts[0], np.eye(size)))
    nearest = function(np.zeros(size))[0]
    for white in far * np.random.default_rng(4).standard_normal((100, size)):
        assert not function(white)[0] > nearest


@numba.cfunc(LAW)
def stops_at_an_error(
    kind: int, one: Any, two: Any, three: Any, four: Any, five: Any, six: Any, seven: Any
) -> None:
    raise ValueError


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_where_the_law_stops_at_an_error_the_density_is_not_finite() -> None:
    density = Density(bundled())
    function = density.in_metric(Metric(density.starts[0], np.eye(density.size)))
    function.data[-1:].view(np.int64)[:] = int(stops_at_an_error.address or 0)
    assert np.isnan(function(np.zeros(density.size))[0])

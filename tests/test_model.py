from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from compiled import Compiled
from dense_residuals import curve_covariance
from numpy.typing import NDArray
from scipy.special import expit, log_expit
from scipy.stats import multivariate_normal, norm

from bayes_cpt.bundled import bundled_study
from bayes_cpt.errors import SpecError
from bayes_cpt.model import build_model, model_data
from bayes_cpt.readers.folder import read_study
from bayes_cpt.residuals import ONSET_SHARE
from bayes_cpt.setup import Setup, build_setup
from bayes_cpt.spec import Distribution, Fixed, LogitNormal, LogNormal, Normal, Prior, read_spec
from bayes_cpt.whitening import Metric

type Floats = NDArray[np.float64]


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


def prior_density(setup: Setup, unconstrained: dict[str, Floats]) -> tuple[dict[str, Any], float]:
    """Return constrained parameters, and the log density of the priors, by SciPy."""
    frame, total = setup.frame, 0.0
    roles = dict(zip(frame.domains, frame.roles, strict=True))
    by_name = {name.rsplit("_", 3)[0] if name.endswith("__") else name: value
               for name, value in unconstrained.items()}  # fmt: skip
    found: dict[str, Any] = {}
    for name, info in frame.parameters().items():
        prior = frame.spec.priors[name]
        if isinstance(prior.every, Fixed):
            found[name] = np.float64(prior.every.value)
            continue
        members = [None] if info.dims is None else [roles[d] for d in frame.coords()[info.dims]]
        values = []
        for role, y in zip(members, np.atleast_1d(by_name.pop(name)), strict=True):
            value, density = constrain(prior.of(role), float(y))
            values.append(value)
            total += density
        found[name] = np.array(values) if info.dims else np.float64(values[0])
    assert not by_name
    return found, total


def dense_likelihood(setup: Setup, parameters: dict[str, Any]) -> float:
    frame, curves, total = setup.frame, setup.curves, 0.0
    coefficients = frame.law.coefficients(parameters, np)
    law = frame.law.curve_loss(curves.points, curves.bases, coefficients, np)
    pretraining = setup.design.pretraining
    scales = frame.residual_scales(curves.points, pretraining, parameters, coefficients, np)
    for i, curve in enumerate(curves.curves):
        rows = curves.points.curve_index == i
        covariance = curve_covariance(
            curves.points.steps[rows],
            anchored=curve.continual and curve.base_known,
            fluctuation=scales.fluctuation[rows],
            memory=float(scales.memory[rows][0]),
            misfit=scales.misfit[rows],
            level=scales.offset[rows],
            onset=ONSET_SHARE * frame.reference.steps,
            carried=frame.spec.residuals.misfit_memory,
        )
        total += float(multivariate_normal.logpdf((curves.points.loss - law)[rows], cov=covariance))
    return total


def places(compiled: Compiled, count: int) -> Floats:
    """Return unconstrained positions scattered over the prior."""
    start = compiled.white.start
    return np.asarray(start + 0.4 * np.random.default_rng(1).standard_normal((count, start.size)))


def density_at(white: Any, position: Floats) -> tuple[float, Floats]:
    evaluate = white.density(Metric(position, np.eye(position.size)))
    value, gradient = evaluate(np.zeros(position.size))
    return value, gradient


def independent_density(compiled: Compiled, setup: Setup, position: Floats) -> float:
    parameters, prior = prior_density(setup, compiled.white.unpack(position))
    return prior + dense_likelihood(setup, parameters)


def test_density_is_that_of_scipy(compiled: Compiled) -> None:
    for position in places(compiled, 4):
        expected = independent_density(compiled, compiled.setup, position)
        assert density_at(compiled.white, position)[0] == pytest.approx(expected, rel=1e-9)


def test_gradient_is_that_of_finite_differences(compiled: Compiled) -> None:
    position = places(compiled, 1)[0]
    _, gradient = density_at(compiled.white, position)
    step = 1e-5
    for i in range(position.size):
        shift = step * np.eye(position.size)[i]
        up, down = (density_at(compiled.white, position + sign * shift)[0] for sign in (1, -1))
        assert gradient[i] == pytest.approx((up - down) / (2 * step), rel=1e-4, abs=0.05)


def test_another_study_of_the_same_form_needs_no_compilation(compiled: Compiled) -> None:
    study = read_study(bundled_study())
    shorter = study.truncated({"r00_const": 400, "pt_trunk": 9000, "r25_cos": 1000})
    changed = replace(shorter, losses=shorter.losses.assign(loss=shorter.losses["loss"] + 0.1))
    setup = build_setup(compiled.setup.frame.spec, changed)
    assert setup.frame.reference == compiled.setup.frame.reference
    position = places(compiled, 1)[0]
    before = density_at(compiled.white, position)[0]
    other = compiled.white.with_data(model_data(setup))
    found = density_at(other, position)[0]
    assert found == pytest.approx(independent_density(compiled, setup, position), rel=1e-9)
    assert found != pytest.approx(before, rel=1e-3)
    again = other.with_data(model_data(compiled.setup))
    assert density_at(again, position)[0] == pytest.approx(before, rel=1e-12)


def test_all_data_are_named_data_of_the_model(compiled: Compiled) -> None:
    names = {variable.name for variable in compiled.model.data_vars}
    assert names == set(model_data(compiled.setup))
    assert {"points_loss", "bases_loss", "design_ramps"} <= names


def test_every_parameter_is_a_variable_of_its_own_name_and_dims(compiled: Compiled) -> None:
    frame = compiled.setup.frame
    info = frame.parameters()
    assert {variable.name for variable in compiled.model.free_RVs} == set(info)
    for variable in compiled.model.free_RVs:
        dims = compiled.model.named_vars_to_dims.get(variable.name)
        assert (dims[0] if dims else None) == info[variable.name].dims


def printed_setup() -> Setup:
    return build_setup(read_spec("cpt-replay-printed"), read_study(bundled_study()))


def test_fixed_parameters_are_constants() -> None:
    model = build_model(printed_setup())
    assert "memory" not in {variable.name for variable in model.free_RVs}


def test_independent_errors_are_normal_densities() -> None:
    """The whole density of the printed model at its initial point, by SciPy."""
    setup = printed_setup()
    model = build_model(setup)
    point = model.initial_point()
    found = float(model.compile_logp(mode="FAST_COMPILE")(point))
    values = {name: np.asarray(value, dtype=np.float64) for name, value in point.items()}
    parameters, prior = prior_density(setup, values)
    law, points = setup.frame.law, setup.curves.points
    curves = law.curve_loss(points, setup.curves.bases, law.coefficients(parameters, np), np)
    error = parameters["error"][points.domain_index]
    likelihood = norm.logpdf(points.loss, curves, error).sum()
    assert found == pytest.approx(prior + likelihood, rel=1e-9)


def test_roles_with_different_distributions_are_an_error_naming_the_prior() -> None:
    setup = printed_setup()
    spec = setup.frame.spec
    mixed = Prior(
        reason="mixed",
        general=Normal(distribution="normal", mean=3.0, sd=1.0),
        target=Fixed(distribution="fixed", value=3.0),
    )
    other = spec.model_copy(update={"priors": spec.priors | {"reference_loss": mixed}})
    with pytest.raises(SpecError, match=r"key priors\.reference_loss.*different distributions"):
        build_model(replace(setup, frame=replace(setup.frame, spec=other)))

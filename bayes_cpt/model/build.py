"""(specification, study) -> `pymc.Model`: priors, the law's curves, and the residual likelihood."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray

from bayes_cpt.errors import Problem, SpecError
from bayes_cpt.laws import Parameter
from bayes_cpt.model.compiled.likelihood_operation import log_likelihood
from bayes_cpt.model.prior_tables import Distribution, Fixed, LogitNormal, LogNormal, Normal, Prior
from bayes_cpt.model.setup import Frame, Setup


def build_model(setup: Setup) -> pm.Model:
    """Return the model: every parameter a named random variable, the curves' likelihood a potential.

    All data enter as `pymc.Data`, so another study of the same form needs no new compilation.
    """
    frame = setup.frame
    with pm.Model(coords=frame.coords()) as model:
        priors = frame.spec.priors
        sampled = {
            name: _variable(name, priors[name], info, frame)
            for name, info in frame.parameters().items()
        }
        data = {name: pm.Data(name, value) for name, value in model_data(setup).items()}
        points = setup.curves.points.map(lambda name, _: data[f"points_{name}"])
        bases = setup.curves.bases.map(lambda name, _: data[f"bases_{name}"])
        design = setup.design.map(lambda name, _: data[f"design_{name}"])
        coefficients = frame.law.coefficients(sampled, pt)
        expected = frame.law.curve_loss(points, bases, coefficients, pt)
        residual = points.loss - expected
        scales = frame.residual_scales(points, design.pretraining, sampled, coefficients, pt)
        likelihood = log_likelihood(residual, design, scales)
        pm.Potential("curves", likelihood)
    return model


def model_data(setup: Setup) -> dict[str, NDArray[Any]]:
    """Return the arrays that enter the model as data, by name."""
    found: dict[str, NDArray[Any]] = {}
    for prefix, part in (
        ("points", setup.curves.points),
        ("bases", setup.curves.bases),
        ("design", setup.design),
    ):
        found |= {f"{prefix}_{name}": value for name, value in part.arrays().items()}
    return found


def _variable(name: str, prior: Prior, info: Parameter, frame: Frame) -> Any:
    """Return the random variable of a parameter (or its constant), with its own name and dims."""
    if info.dims is None:
        return _random(name, [prior.of(None)], None)
    members = frame.coords()[info.dims]
    roles = dict(zip(frame.domains, frame.roles, strict=True))
    return _random(name, [prior.of(roles[domain]) for domain in members], info.dims)


def _random(name: str, priors: Sequence[Distribution], dims: str | None) -> Any:
    def values(key: str) -> Any:
        numbers = np.array([getattr(prior, key) for prior in priors], dtype=np.float64)
        return numbers if dims else numbers[0]

    first = priors[0]
    if len({type(prior) for prior in priors}) > 1:
        raise SpecError(
            [
                Problem(
                    f"key priors.{name}",
                    "general and target have different distributions",
                    "give both the same distribution, with parameters of their own",
                )
            ]
        )
    match first:
        case Fixed():
            return pt.as_tensor_variable(values("value"))
        case Normal():
            return pm.Normal(name, values("mean"), values("sd"), dims=dims)
        case LogitNormal():
            median = values("median")
            # PyMC 6.4 samples it on 0...1 as it stands, with walls, unless told to use logits.
            return pm.LogitNormal(
                name,
                np.log(median / (1 - median)),
                values("sigma"),
                dims=dims,
                transform=pm.distributions.transforms.logodds,
            )
        case LogNormal(lower=None):
            return pm.LogNormal(name, np.log(values("median")), values("sigma"), dims=dims)
        case _:
            unbounded = pm.LogNormal.dist(np.log(values("median")), values("sigma"))
            lower, upper = values("lower"), values("upper")
            return pm.Truncated(name, unbounded, lower=lower, upper=upper, dims=dims)

"""(study, specification) -> `pymc.Model`: the one definition of what is sampled.

Every parameter is a variable of its own name. Their values go into one operation, the law's curves with
the likelihood of their residuals (`bayes_cpt.model.likelihood`), whose code is printed from the terms
of the law. All data enter as `pymc.Data`: another study of the same form needs no new compilation.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayes_cpt.arrays import Floats
from bayes_cpt.model import joint_priors
from bayes_cpt.model.likelihood import CurveLogLikelihoods, study_tables
from bayes_cpt.model.priors import Distribution, Fixed, LogitNormal, LogNormal, Normal
from bayes_cpt.model.setup import BoundModel, Setup, build_setup, by_parameter, elements
from bayes_cpt.model.simulate import simulate
from bayes_cpt.model.spec import ModelSpec
from bayes_cpt.study.study import Study

# The observed variable.
LOSS = "loss"


def build_model(study: Study, spec: ModelSpec) -> pm.Model:
    """Return the model of a study under a specification: what `bayes_cpt.fit` samples.

    Parameters
    ----------
    study : Study
        Runs and measured losses.
    spec : ModelSpec
        From `bayes_cpt.read_spec`.

    Returns
    -------
    pymc.Model
        Its observed variable ``loss`` holds all points, curve by curve; its log likelihood has one entry
        per curve, because the points of a curve are not independent.

    Raises
    ------
    StudyError
        If the study lacks what the law needs, or has what it has no term for.

    Examples
    --------
    >>> from bayes_cpt import bundled_study, read_study
    >>> from bayes_cpt.model.spec import read_spec
    >>> model = build_model(read_study(bundled_study()), read_spec("cpt-replay"))
    >>> [variable.name for variable in model.observed_RVs]
    ['loss']
    """
    return model_of(build_setup(spec, study))


def model_of(setup: Setup) -> pm.Model:
    """Return the model of a setup (see `build_model`)."""
    frame = setup.frame
    tied, operation = joint_priors.correlated(frame), CurveLogLikelihoods(frame.spec, frame.roles)

    def draw(values: Floats, *arrays: Any, rng: Any, size: Any) -> Any:
        drawn = by_parameter(frame, np.asarray(values)[:, None])
        return simulate(frame, drawn, setup.curves, None, rng).loss[0]

    labels = {joint_priors.PARAMETER: tied.labels} if tied else {}
    with pm.Model(coords=frame.coords() | labels) as model:
        values = pt.concatenate([pt.atleast_1d(part) for part in _parameters(frame)])
        if frame.pooled:
            names = (*frame.pooled, frame.spread)
            parts = joint_priors.log_alikenesses(frame, {name: model[name] for name in names}, pt)
            pm.Potential(joint_priors.ALIKE, pt.stack(parts), dims="pooled")
        if tied:
            by_name = {element.name: model[element.name] for element in tied.elements}
            pm.Data(joint_priors.CORRELATION, tied.matrix)
            pm.Potential(joint_priors.CORRELATED, tied.log_density(by_name, pt))
        pm.CustomDist(
            LOSS,
            values,
            pm.Data("study", study_tables(setup)),
            # Says how many points a draw has.
            pm.Data("step", setup.curves.points.steps),
            logp=lambda loss, values, study, _: operation(loss, values, study)[0],
            random=draw,
            signature="(values),(study),(points)->(points)",
            observed=pm.Data("measured_loss", setup.curves.points.loss.astype(np.float64)),
            class_name="Curves",
        )
    return model


def _parameters(frame: BoundModel) -> list[Any]:
    """Return the variables of all parameters in the order of `elements`, constants where they are fixed.

    Fixed parameters that follow each other are one constant: the fewer parts, the sooner compiled.
    """
    infos, every, parts = frame.parameters(), elements(frame), []
    free = {element.name for element in every if not isinstance(element.prior, Fixed)}
    for name, own in groupby(every, key=lambda one: one.name if one.name in free else None):
        priors = [element.prior for element in own]
        if name:
            alike = len({type(prior) for prior in priors}) == 1
            parts.append((variable if alike else _mixed)(name, priors, infos[name].dims))
        else:
            parts.append(pt.as_tensor_variable([prior.center for prior in priors]))
    return parts


class _OfMembers(pm.distributions.transforms.Transform):  # type: ignore[misc]
    """From a variable's members to numbers without bounds, for those that have variables in a model apart.

    These are named by their places.
    """

    name = "free"

    def __init__(self, medians: Floats, apart: pm.Model) -> None:
        pairs = apart.rvs_to_transforms.items()
        self.medians, self.own = medians, [(int(v.name), how, v.owner.inputs) for v, how in pairs]

    def forward(self, value: Any, *_: Any) -> Any:
        pairs = [(value[k], how, at) for k, how, at in self.own]
        return pt.stack([how.forward(own, *at) if how else own for own, how, at in pairs])

    def backward(self, value: Any, *_: Any) -> Any:
        members = [pt.as_tensor_variable(median) for median in self.medians]
        for j, (k, how, at) in enumerate(self.own):
            members[k] = how.backward(value[j], *at) if how else value[j]
        return pt.stack(members)

    def log_jac_det(self, value: Any, *_: Any) -> Any:
        given = [(value[j], how, at) for j, (_, how, at) in enumerate(self.own) if how]
        return sum((how.log_jac_det(own, *at) for own, how, at in given), start=pt.zeros(()))


def _mixed(name: str, priors: Sequence[Distribution], dims: str | None) -> Any:
    """Return the variable of members with priors of several families, some of them fixed."""
    medians = np.array([float(prior.at(0.0)) for prior in priors])
    with pm.Model(model=None) as apart:
        for place, prior in enumerate(priors):
            variable(str(place), [prior])
    return pm.CustomDist(
        name,
        medians,
        logp=lambda value, _: sum(pm.logp(own, value[int(own.name)]) for own in apart.free_RVs),
        random=lambda _, rng, size: np.array([prior.draw(1, rng)[0] for prior in priors]),
        support_point=lambda rv, size, medians: medians,
        signature="(members)->(members)",
        dims=dims,
        transform=_OfMembers(medians, apart),
    )


def variable(name: str, priors: Sequence[Distribution], dims: str | None = None) -> Any:
    """Return the variable of members with priors of one family, or of the only one where it has no dims."""
    numbers = np.array([(prior.center, prior.spread, *prior.bounds) for prior in priors]).T
    center, spread, lower, upper = numbers if dims else numbers[:, 0]
    match priors[0]:
        case Normal():
            return pm.Normal(name, center, spread, dims=dims)
        case LogitNormal():
            # PyMC 6.4 samples it on 0...1 as it stands, with walls, unless asked to use logits.
            logits = pm.distributions.transforms.logodds
            return pm.LogitNormal(name, center, spread, dims=dims, transform=logits)
        case LogNormal() if np.any(lower > 0.0):
            unbounded = pm.LogNormal.dist(center, spread)
            return pm.Truncated(name, unbounded, lower=lower, upper=upper, dims=dims)
        case LogNormal():
            return pm.LogNormal(name, center, spread, dims=dims)
        case Fixed():
            return pt.as_tensor_variable(center)

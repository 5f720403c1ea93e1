"""Log prior and log likelihood of draws, part by part: what importance weights and checks are made of."""

from collections.abc import Mapping

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.model.evaluate import in_threads
from bayes_cpt.model.joint_priors import correlated, log_alikenesses
from bayes_cpt.model.points import Curves
from bayes_cpt.model.priors import Fixed
from bayes_cpt.model.setup import BoundModel, Setup, by_parameter, elements
from bayes_cpt.model.simulate import CurveResidual, measured, precision_products


def log_priors(frame: BoundModel, parameters: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return the log prior density of every sampled parameter, of the shape of its draws.

    Densities are per unit of the scale on which the prior is normal (a lognormal's log), as a sampler has
    them: raised to a power such a prior gets narrower around its median. Per unit of the value it would
    move as well. Fixed parameters are left out.
    """
    free, densities = set(), []
    for element in elements(frame):
        member = element.of(parameters)
        # On one validation set a parameter may be fixed that another has sampled.
        density = np.zeros_like(member)
        if not isinstance(element.prior, Fixed):
            density = element.prior.log_density(member) - element.prior.log_slope(member)
            free.add(element.name)
        densities.append(density)
    found = {name: own for name, own in by_parameter(frame, densities).items() if name in free}
    if frame.pooled:
        # With the spreads stands what they say of how alike targets are.
        found[frame.spread] += np.stack(log_alikenesses(frame, parameters), axis=1)
    if tied := correlated(frame):
        # What correlations say stands with the first of their parameters.
        tied.elements[0].of(found)[:] += tied.log_density(parameters)
    return found


def log_likelihoods(setup: Setup, parameters: Mapping[str, Floats]) -> Floats:
    """Return the log likelihood of every fitted curve in draws of all parameters, shape (draws, curves)."""
    from bayes_cpt.model import law_kernel
    from bayes_cpt.model.likelihood import law_code, study_tables

    law = law_code(setup.frame.spec, setup.frame.roles).in_c()
    places = law_kernel.likelihood_in_c().address, law.address
    loss, tables = setup.curves.points.loss, study_tables(setup)

    def of_draw(row: Floats) -> Floats:
        return np.asarray(law_kernel.log_likelihoods(*places, loss, row, tables)[0])

    values = np.stack([own.of(parameters) for own in elements(setup.frame)], axis=1)
    return np.stack(in_threads(of_draw, values))


def log_densities(
    frame: BoundModel, parameters: dict[str, Floats], curves: Curves, last_step: float | None = None
) -> Floats:
    """Return the log density of each measured curve, all its points together, shape (draws, curves).

    That of `log_likelihoods`, and beyond the studied steps also of the law's extrapolation. The misfit is
    laid out up to `last_step`, the last of these curves unless given.
    """
    residual, design, scales = measured(frame, parameters, curves, last_step)
    found = np.empty((len(residual), len(curves.curves)))
    for curve, rows in enumerate(design.rows):
        part = CurveResidual.of(design, scales, rows)
        products, determinants = precision_products(part, residual[:, rows, None])
        constant = part.steps.size * np.log(2.0 * np.pi)
        found[:, curve] = -0.5 * (products[:, 0, 0] + determinants + constant)
    return found

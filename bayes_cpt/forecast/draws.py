"""Draws of curves under one law: of its curve, of a new run, of a known one given what was measured."""

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.forecast.error_correlation import error_correlation
from bayes_cpt.forecast.plans import observed_curves
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.points import Curves
from bayes_cpt.model.simulate import CurveDraws, expected_loss, simulate


def draw_curves(
    law: Posterior,
    parameters: dict[str, Floats],
    curves: Curves,
    kind: str,
    generator: np.random.Generator,
) -> CurveDraws:
    """Return curves in draws of one law.

    Parameters
    ----------
    law : Posterior
        Of one law (see `Posterior.shares`).
    parameters : dict of str to ndarray, shape (draws, ...)
    curves : Curves
        Where losses are wanted.
    kind : {"expected", "new_run", "known_run"}
    generator : numpy.random.Generator

    Raises
    ------
    PlanError
        If a known run was not measured.
    """
    if kind == "expected":
        expected = expected_loss(law.frame, parameters, curves)
        return CurveDraws(expected, expected, expected)
    observed = observed_curves(law, curves) if kind == "known_run" else None
    alike = error_correlation(law) if observed is None else None
    return simulate(law.frame, parameters, curves, observed, generator, alike)

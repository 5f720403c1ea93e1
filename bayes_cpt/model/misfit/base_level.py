"""What is not known of the loss of a base that nobody measured, and what a CPT run from it keeps of that.

As the last point of a PT run such a base is off the law by the level of that run, by the law's misfit in PT
and by the fluctuation. A CPT run that starts from it is off by the same at its first step, and loses of it
what it would lose of a measured base's offset.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.laws.law import gather
from bayes_cpt.model.misfit.knots import KNOTS_PT, unit_ramps
from bayes_cpt.model.points import Curves
from bayes_cpt.model.residuals import ONSET_SHARE, Scales
from bayes_cpt.model.setup import Frame


def unmeasured_level(
    frame: Frame, parameters: dict[str, Any], domain_index: int, steps: float, rate: float
) -> Floats:
    """Return the sd of an unmeasured base's loss about the law's, shape (draws,), nats/token.

    Parameters
    ----------
    frame : Frame
    parameters : dict of str to ndarray, shape (draws, ...)
        What was sampled.
    domain_index : int
        Which validation set.
    steps, rate : float
        Steps of its PT, and its last learning rate, raw. 0 steps: nothing is known of its PT.
    """
    residuals = frame.spec.residuals
    if residuals.kind == "independent" or "offset_pt" not in parameters:
        return np.zeros(1)
    level, misfit, fluctuation, floor = (
        parameters[name][:, domain_index]
        for name in ("offset_pt", "misfit_pt", "fluctuation_pt", "fluctuation_floor")
    )
    onset = ONSET_SHARE * frame.reference.steps
    ramps = unit_ramps(np.array([float(steps)]), onset, residuals.misfit_memory_pt, KNOTS_PT)
    heat = floor + (1.0 - floor) * rate / frame.reference.learning_rate
    beyond = np.log(max(steps / frame.studied_pt, 1.0))
    variance = level**2 + misfit**2 * (ramps**2).sum() + (fluctuation * heat) ** 2
    if residuals.extrapolation:
        share, slope = (
            parameters[name][:, domain_index] for name in ("extrapolation_pt", "reference_slope")
        )
        variance = variance + (share * slope * beyond) ** 2
    return np.asarray(np.sqrt(variance))


def kept_level(frame: Frame, points: Any, coefficients: dict[str, Any]) -> Any:
    """Return the share of a base's level that is left at each point; all of it without a base offset.

    Parameters
    ----------
    frame : Frame
    points : Points or Columns
    coefficients : dict of str to ndarray
        Of the law.
    """
    if frame.law.base_offset is None:
        return np.ones(1)
    return frame.law.base_offset.kept(points, gather(points, coefficients, np), np)


def with_base_levels(
    frame: Frame,
    scales: Scales,
    parameters: dict[str, Any],
    coefficients: dict[str, Any],
    curves: Curves,
) -> Scales:
    """Return the sizes of residuals with the levels of CPT curves from bases that nobody measured.

    Parameters
    ----------
    frame : Frame
    scales : Scales
        Shapes (draws, points).
    parameters, coefficients : dict of str to ndarray, shape (draws, ...)
        What was sampled, and the law's coefficients.
    curves : Curves
    """
    unmeasured = [
        (index, curve)
        for index, curve in enumerate(curves.curves)
        if curve.continual and not curve.base_known and curve.base_steps
    ]
    if not unmeasured:
        return scales
    points = curves.points
    draws = len(parameters["reference_slope"])
    offset = np.array(np.broadcast_to(scales.offset, (draws, points.steps.size)))
    kept = np.broadcast_to(kept_level(frame, points, coefficients), offset.shape)
    for index, curve in unmeasured:
        rows = points.curve_index == index
        place = frame.domains.index(curve.domain)
        level = unmeasured_level(frame, parameters, place, curve.base_steps, curve.base_rate)
        offset[:, rows] = level[:, None] * kept[:, rows]
    return replace(scales, offset=offset)

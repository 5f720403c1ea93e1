"""Draws of curves: the law's curve, a new run's curve, and a known run's given what was measured.

Of known runs also the moments that these draws have.

NumPy only. Everything is vectorised over posterior draws; curves are taken one at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.model.misfit.base_level import with_base_levels
from bayes_cpt.model.misfit.curve_residuals import (
    CurveResidual,
    bridge,
    known_residual,
    known_residual_moments,
    precision_products,
)
from bayes_cpt.model.misfit.discrepancy import ErrorCorrelation, alike
from bayes_cpt.model.points import Curve, Curves
from bayes_cpt.model.residuals import ResidualDesign, Scales
from bayes_cpt.model.setup import Frame

type Innovations = Callable[[Curve, int], Floats | None]


@dataclass(frozen=True, eq=False)
class CurveDraws:
    """Draws at points, shape (draws, points).

    Parameters
    ----------
    expected : ndarray
        The law's curve.
    loss : ndarray
        A measured curve: the law's with misfit and fluctuation.
    slow : ndarray
        The same without its fluctuation.
    """

    expected: Floats
    loss: Floats
    slow: Floats


def expected_loss(frame: Frame, parameters: dict[str, Floats], curves: Curves) -> Floats:
    """Return the law's curves, shape (draws, points), from parameters of shape (draws, ...).

    Parameters
    ----------
    frame : Frame
    parameters : dict of str to ndarray, shape (draws, ...)
    curves : Curves
    """
    coefficients = frame.law.coefficients(parameters, np)
    return np.asarray(frame.law.curve_loss(curves.points, curves.bases, coefficients, np))


def simulate(
    frame: Frame,
    parameters: dict[str, Floats],
    curves: Curves,
    observed: Curves | None,
    generator: np.random.Generator,
    correlation: ErrorCorrelation | None = None,
    innovations: Innovations | None = None,
) -> CurveDraws:
    """Draw measured curves from the posterior predictive distribution.

    Parameters
    ----------
    frame : Frame
        Of the fit.
    parameters : dict of str to ndarray, shape (draws, ...)
        Posterior draws.
    curves : Curves
        Where losses are wanted.
    observed : Curves or None
        Measured points of the same curves, in the same order, to condition on; None for new runs.
    generator : numpy.random.Generator
        Source of the draws.
    correlation : ErrorCorrelation, optional
        Between the curves of one new run; they are independent unless given, as the model takes them.
    innovations : callable, optional
        Returns the innovations of the misfit of a new curve, shape (draws, knots), given the curve and the
        number of knots; None where they are to be drawn.
    """
    expected = expected_loss(frame, parameters, curves)
    steps = curves.elapsed
    if observed is not None:
        steps = np.concatenate([steps, observed.elapsed])
    last_step = float(steps.max())
    design = frame.residual_design(curves, last_step)
    scales = scales_of(frame, parameters, curves, design)
    given = None
    if observed is not None:
        seen = frame.residual_design(observed, last_step)
        residual = observed.points.loss - expected_loss(frame, parameters, observed)
        given = (residual, seen, scales_of(frame, parameters, observed, seen))
    loss, slow = np.empty_like(expected), np.empty_like(expected)
    chance = _Chance(generator, correlation)
    for curve, named in enumerate(curves.curves):
        rows = slice(int(design.first[curve]), int(design.last[curve]))
        part = CurveResidual.of(design, scales, rows)
        if given is None:
            of_run = innovations(named, design.knots) if innovations else None
            residual, lasting = chance.new_residual(named.run, part, curves.elapsed[rows], of_run)
        else:
            seen_rows = slice(int(given[1].first[curve]), int(given[1].last[curve]))
            residual, lasting = known_residual(
                part,
                curves.elapsed[rows],
                CurveResidual.of(given[1], given[2], seen_rows),
                given[0][:, seen_rows],
                observed.elapsed[seen_rows],  # type: ignore[union-attr]
                generator,
            )
        loss[:, rows] = expected[:, rows] + residual
        slow[:, rows] = expected[:, rows] + lasting
        if design.beyond[rows].any():
            # No point of a curve lies beyond the last that was measured, so none tells of this.
            share = generator.standard_normal((len(loss), 1))
            beyond = share * scales.extrapolation[:, rows] * design.beyond[rows]
            loss[:, rows] += beyond
            slow[:, rows] += beyond
    return CurveDraws(expected, loss, slow)


def scales_of(
    frame: Frame, parameters: dict[str, Floats], curves: Curves, design: ResidualDesign
) -> Scales:
    """Return the sizes of the residuals at the points of curves, levels of unmeasured bases included.

    Parameters
    ----------
    frame : Frame
    parameters : dict of str to ndarray, shape (draws, ...)
    curves : Curves
    design : ResidualDesign
        Of the curves.
    """
    coefficients = frame.law.coefficients(parameters, np)
    scales = frame.residual_scales(curves.points, design.pretraining, parameters, coefficients, np)
    return with_base_levels(frame, scales, parameters, coefficients, curves)


@dataclass
class _Sum:
    """What the curves of one run have drawn so far of numbers that correlate alike."""

    total: Any = 0.0
    count: int = 0

    def joined(self, new: Floats, correlation: float) -> Floats:
        """Return numbers of the next curve, from independent ones, and note them."""
        if self.count:
            new = np.asarray(alike(new, self.total, self.count, correlation), dtype=np.float64)
        self.total, self.count = self.total + new, self.count + 1
        return new


@dataclass
class _Chance:
    """Residuals of new curves, those of one run alike.

    Parameters
    ----------
    generator : numpy.random.Generator
    correlation : ErrorCorrelation or None
        None for independent curves.
    """

    generator: np.random.Generator
    correlation: ErrorCorrelation | None
    _run: str | None = None
    _weights: _Sum = field(default_factory=_Sum)
    _normals: dict[float, _Sum] = field(default_factory=dict)

    def new_residual(
        self, run: str, part: CurveResidual, steps: Floats, innovations: Floats | None
    ) -> tuple[Floats, Floats]:
        """Return residuals of a curve that was not measured, and what of them is not fluctuation.

        Parameters
        ----------
        run : str
            The curves of one run come one after the other.
        part : CurveResidual
        steps : ndarray
        innovations : ndarray, shape (draws, knots), or None
            Of the misfit, where they are known.
        """
        draws, _, columns = part.columns.shape
        weights = self.generator.standard_normal((draws, columns))
        normals = self.generator.standard_normal((steps.size, draws))
        if run != self._run:
            self._run, self._weights, self._normals = run, _Sum(), {}
        if self.correlation is not None:
            weights = self._weights.joined(weights, self.correlation.misfit)
            for step, curve_normals in zip(steps.tolist(), normals, strict=True):
                shared = self._normals.setdefault(step, _Sum())
                curve_normals[:] = shared.joined(curve_normals, self.correlation.fluctuation)
        if innovations is not None:
            weights = np.concatenate([weights[:, :1], innovations], axis=1)
        slow = np.einsum("dpk,dk->dp", part.columns, weights)
        nothing = np.empty((draws, 0))
        fast = bridge(steps, part, np.empty(0), nothing, normals)
        return np.asarray(slow + part.fluctuation * fast), np.asarray(slow)


def residual_products(
    frame: Frame, parameters: dict[str, Floats], curves: Curves, directions: Floats
) -> Floats:
    """Return inner products of residuals and directions along each curve, in its precision.

    With r what the law's curve leaves of the measured losses, X the directions and Sigma the covariance of
    r given the parameters, ``(r, X)' Sigma^-1 (r, X)``: what generalised least squares is made of.

    Parameters
    ----------
    frame : Frame
    parameters : dict of str to ndarray, shape (draws, ...)
    curves : Curves
        Measured points.
    directions : ndarray, shape (points, directions)

    Returns
    -------
    ndarray, shape (curves, draws, 1 + directions, 1 + directions)
    """
    residual = curves.points.loss - expected_loss(frame, parameters, curves)
    design = frame.residual_design(curves)
    scales = scales_of(frame, parameters, curves, design)
    products = []
    for first, last in zip(design.first, design.last, strict=True):
        rows = slice(int(first), int(last))
        part = CurveResidual.of(design, scales, rows)
        moving = np.broadcast_to(directions[rows], (len(residual), *directions[rows].shape))
        asked = np.concatenate([residual[:, rows, None], moving], axis=2)
        products.append(precision_products(part, curves.elapsed[rows], asked)[0])
    return np.stack(products)


def known_moments(
    frame: Frame, parameters: dict[str, Floats], curves: Curves, observed: Curves
) -> tuple[Floats, Floats]:
    """Return mean and variance of known curves in each draw, shape (draws, points) each.

    Given a posterior draw and the measured points a loss is normal: these are the moments of what
    `simulate` draws. Parameters are those of `simulate`.

    Parameters
    ----------
    frame : Frame
    parameters : dict of str to ndarray, shape (draws, ...)
    curves : Curves
        What is asked for.
    observed : Curves
        Measured points of the same runs.
    """
    last_step = float(max(curves.elapsed.max(), observed.elapsed.max()))
    design, seen_design = (
        frame.residual_design(points, last_step) for points in (curves, observed)
    )
    scales = scales_of(frame, parameters, curves, design)
    seen_scales = scales_of(frame, parameters, observed, seen_design)
    mean = expected_loss(frame, parameters, curves)
    residual = observed.points.loss - expected_loss(frame, parameters, observed)
    variance = (scales.extrapolation * design.beyond) ** 2
    for curve in range(len(curves.curves)):
        rows = slice(int(design.first[curve]), int(design.last[curve]))
        here = slice(int(seen_design.first[curve]), int(seen_design.last[curve]))
        added, spread = known_residual_moments(
            CurveResidual.of(design, scales, rows),
            curves.elapsed[rows],
            CurveResidual.of(seen_design, seen_scales, here),
            residual[:, here],
            observed.elapsed[here],
        )
        mean[:, rows] += added
        variance[:, rows] += spread
    return mean, variance

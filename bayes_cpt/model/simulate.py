"""Draws of curves: the law's curve, a new run's curve, and a known run's given what was measured.

Of known runs also the moments that these draws have.

NumPy only. Everything is vectorised over posterior draws; curves are taken one at a time.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.model.points import Curves
from bayes_cpt.model.residuals import ResidualDesign, Scales
from bayes_cpt.model.setup import Frame

type Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CurveDraws:
    """Draws at points, shape (draws, points).

    Parameters
    ----------
    expected : ndarray
        The law's curve.
    loss : ndarray
        A measured curve: the law's with misfit and fluctuation.
    """

    expected: Floats
    loss: Floats


def expected_loss(frame: Frame, parameters: dict[str, Floats], curves: Curves) -> Floats:
    """Return the law's curves, shape (draws, points), from parameters of shape (draws, ...)."""
    coefficients = frame.law.coefficients(parameters, np)
    return np.asarray(frame.law.curve_loss(curves.points, curves.bases, coefficients, np))


def simulate(
    frame: Frame,
    parameters: dict[str, Floats],
    curves: Curves,
    observed: Curves | None,
    generator: np.random.Generator,
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
    """
    expected = expected_loss(frame, parameters, curves)
    steps = curves.points.steps
    if observed is not None:
        steps = np.concatenate([steps, observed.points.steps])
    last_step = float(steps.max())
    design = frame.residual_design(curves, last_step)
    scales = _scales(frame, parameters, curves, design)
    given = None
    if observed is not None:
        seen = frame.residual_design(observed, last_step)
        residual = observed.points.loss - expected_loss(frame, parameters, observed)
        given = (residual, seen, _scales(frame, parameters, observed, seen))
    loss = np.empty_like(expected)
    for curve in range(len(curves.curves)):
        rows = slice(int(design.first[curve]), int(design.last[curve]))
        part = _Part.of(design, scales, rows)
        if given is None:
            residual = _new_residual(part, curves.points.steps[rows], generator)
        else:
            own = slice(int(given[1].first[curve]), int(given[1].last[curve]))
            residual = _known_residual(
                part,
                curves.points.steps[rows],
                _Part.of(given[1], given[2], own),
                given[0][:, own],
                observed.points.steps[own],  # type: ignore[union-attr]
                generator,
            )
        loss[:, rows] = expected[:, rows] + residual
        if design.beyond[rows].any():
            # No point of a curve lies beyond the last that was measured, so none tells of this.
            share = generator.standard_normal((len(loss), 1))
            loss[:, rows] += share * scales.extrapolation[:, rows] * design.beyond[rows]
    return CurveDraws(expected, loss)


def _scales(
    frame: Frame, parameters: dict[str, Floats], curves: Curves, design: ResidualDesign
) -> Scales:
    coefficients = frame.law.coefficients(parameters, np)
    return frame.residual_scales(curves.points, design.pretraining, parameters, coefficients, np)


@dataclass(frozen=True, eq=False)
class _Part:
    """One curve's residual design and scales; columns are its level and the misfit's steps."""

    anchored: bool
    columns: Floats
    fluctuation: Floats
    memory: Floats

    @classmethod
    def of(cls, design: ResidualDesign, scales: Scales, rows: slice) -> "_Part":
        level = (scales.offset[:, rows] * design.floating[rows])[..., None]
        misfit = scales.misfit[:, rows, None] * design.ramps[rows]
        return cls(
            anchored=bool(np.isfinite(design.gap[rows][0])),
            columns=np.concatenate([level, misfit], axis=2),
            fluctuation=scales.fluctuation[:, rows],
            memory=scales.memory[:, rows],
        )


def _new_residual(part: _Part, steps: Floats, generator: np.random.Generator) -> Floats:
    draws = part.columns.shape[0]
    weights = generator.standard_normal((draws, part.columns.shape[2]))
    slow = np.einsum("dpk,dk->dp", part.columns, weights)
    nothing = np.empty((draws, 0))
    fast = _bridge(steps, part, np.empty(0), nothing, generator)
    return np.asarray(slow + part.fluctuation * fast)


def _known_residual(
    part: _Part,
    steps: Floats,
    seen: _Part,
    residual: Floats,
    seen_steps: Floats,
    generator: np.random.Generator,
) -> Floats:
    """Return residuals at `steps` given those at `seen_steps`, shape (draws, points).

    The weights of level and misfit have a Gaussian posterior; given them the fluctuation at the
    measured points is known, and between them it is a bridge.
    """
    precision, projection = _weights_given(seen, residual, seen_steps)
    noise = generator.standard_normal(projection.shape)
    shifted = projection[..., None] + np.linalg.cholesky(precision) @ noise[..., None]
    weights = np.linalg.solve(precision, shifted)[..., 0]
    slow_seen = np.einsum("dpk,dk->dp", seen.columns, weights)
    known = (residual - slow_seen) / seen.fluctuation
    slow = np.einsum("dpk,dk->dp", part.columns, weights)
    loss = slow + part.fluctuation * _bridge(steps, part, seen_steps, known, generator)
    # What was measured is repeated exactly, free of rounding.
    _, here, there = np.intersect1d(steps, seen_steps, return_indices=True)
    loss[:, here] = residual[:, there]
    return np.asarray(loss)


def _weights_given(seen: _Part, residual: Floats, steps: Floats) -> tuple[Floats, Floats]:
    """Return what residuals tell of the weights: precision, and precision times mean, by draw."""
    white, _ = _white(seen, residual, steps)
    design, target = white[..., 1:], white[..., 0]
    precision = np.eye(design.shape[2]) + np.einsum("dpi,dpj->dij", design, design)
    return precision, np.einsum("dpi,dp->di", design, target)


def _white(seen: _Part, residual: Floats, steps: Floats) -> tuple[Floats, Floats]:
    """Return residuals and columns free of the fluctuation's correlation, and the sd of what it adds.

    Shapes are (draws, points, 1 + columns), the residuals first, and (draws, points).
    """
    scaled = (
        np.concatenate([residual[..., None], seen.columns], axis=2) / seen.fluctuation[..., None]
    )
    gap = np.diff(steps, prepend=0.0 if seen.anchored else -np.inf)
    correlation = np.exp(-gap / seen.memory)[..., None]
    innovation = np.sqrt(-np.expm1(-2.0 * gap / seen.memory))[..., None]
    before = np.concatenate([np.zeros_like(scaled[:, :1]), scaled[:, :-1]], axis=1)
    return (scaled - correlation * before) / innovation, innovation[..., 0] * seen.fluctuation


def log_densities(
    frame: Frame, parameters: dict[str, Floats], curves: Curves, last_step: float | None = None
) -> Floats:
    """Return the log density of each measured curve, all its points together, shape (draws, curves).

    The density behind `simulate`: that of `bayes_cpt.model.log_densities.log_likelihoods`, and beyond the
    studied steps also the law's extrapolation, of which no fitted curve tells.

    Parameters
    ----------
    frame : Frame
        Of the fit.
    parameters : dict of str to ndarray, shape (draws, ...)
    curves : Curves
        With their losses.
    last_step : float, optional
        As far as the misfit is laid out; the last of these curves unless given.
    """
    design = frame.residual_design(curves, last_step)
    scales = _scales(frame, parameters, curves, design)
    residual = curves.points.loss - expected_loss(frame, parameters, curves)
    found = np.empty((len(residual), len(curves.curves)))
    for curve in range(len(curves.curves)):
        rows = slice(int(design.first[curve]), int(design.last[curve]))
        part = _Part.of(design, scales, rows)
        beyond = (scales.extrapolation[:, rows] * design.beyond[rows])[..., None]
        part = replace(part, columns=np.concatenate([part.columns, beyond], axis=2))
        steps = curves.points.steps[rows]
        white, size = _white(part, residual[:, rows], steps)
        columns, target = white[..., 1:], white[..., 0]
        across = columns.transpose(0, 2, 1)
        precision, projection = across @ columns, across @ target[..., None]
        precision += np.eye(columns.shape[2])
        root = np.linalg.cholesky(precision)
        explained = np.linalg.solve(root, projection)[..., 0]
        squares = (target**2).sum(axis=1) - (explained**2).sum(axis=1)
        widths = np.log(size).sum(axis=1) + np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        found[:, curve] = -0.5 * squares - widths - 0.5 * steps.size * np.log(2.0 * np.pi)
    return found


def known_moments(
    frame: Frame, parameters: dict[str, Floats], curves: Curves, observed: Curves
) -> tuple[Floats, Floats]:
    """Return mean and variance of known curves in each draw, shape (draws, points) each.

    Given a posterior draw and the measured points a loss is normal: these are the moments of what
    `simulate` draws. Parameters are those of `simulate`.
    """
    last_step = float(max(curves.points.steps.max(), observed.points.steps.max()))
    design, seen_design = (frame.residual_design(own, last_step) for own in (curves, observed))
    scales = _scales(frame, parameters, curves, design)
    seen_scales = _scales(frame, parameters, observed, seen_design)
    mean = expected_loss(frame, parameters, curves)
    residual = observed.points.loss - expected_loss(frame, parameters, observed)
    variance = (scales.extrapolation * design.beyond) ** 2
    for curve in range(len(curves.curves)):
        rows = slice(int(design.first[curve]), int(design.last[curve]))
        own = slice(int(seen_design.first[curve]), int(seen_design.last[curve]))
        added, spread = _known_residual_moments(
            _Part.of(design, scales, rows),
            curves.points.steps[rows],
            _Part.of(seen_design, seen_scales, own),
            residual[:, own],
            observed.points.steps[own],
        )
        mean[:, rows] += added
        variance[:, rows] += spread
    return mean, variance


def _known_residual_moments(
    part: _Part, steps: Floats, seen: _Part, residual: Floats, seen_steps: Floats
) -> tuple[Floats, Floats]:
    """Return mean and variance of what `_known_residual` draws, shape (draws, points) each.

    A residual is linear in the weights of level and misfit once its neighbours are measured: the
    fluctuation between them is a bridge.
    """
    precision, projection = _weights_given(seen, residual, seen_steps)
    last = seen_steps.size - 1
    before = np.searchsorted(seen_steps, steps, side="right") - 1
    start = 0.0 if part.anchored else -np.inf
    at = np.where(before >= 0, seen_steps[before], start)
    ahead_at = np.where(before < last, seen_steps[np.minimum(before + 1, last)], np.inf)
    behind = np.exp(-(steps - at) / part.memory)
    ahead = np.exp(-(ahead_at - steps) / part.memory)
    free = -np.expm1(-2.0 * (steps - at) / part.memory)
    of_next = ahead * free / (1.0 - (behind * ahead) ** 2)
    of_last = np.where(before >= 0, behind * (1.0 - ahead * of_next), 0.0)
    neighbours = ((of_last, before), (of_next, np.minimum(before + 1, last)))
    mean, columns = np.zeros_like(behind), part.columns.copy()
    for share, place in neighbours:
        kept = part.fluctuation * share / seen.fluctuation[:, place]
        mean += kept * residual[:, place]
        columns -= kept[..., None] * seen.columns[:, place]
    weights = np.linalg.solve(precision, projection[..., None])[..., 0]
    root = np.linalg.solve(np.linalg.cholesky(precision), columns.transpose(0, 2, 1))
    bridge = part.fluctuation**2 * free * (1.0 - ahead * of_next)
    return mean + np.einsum("dpk,dk->dp", columns, weights), bridge + (root**2).sum(axis=1)


def _bridge(
    steps: Floats, part: _Part, known_steps: Floats, known: Floats, generator: np.random.Generator
) -> Floats:
    """Return a unit Ornstein-Uhlenbeck process at rising `steps`, given it at `known_steps`.

    It starts at 0 at step 0 where the curve is anchored at a measured base, else in equilibrium.
    """
    draws = part.columns.shape[0]
    values = np.empty((draws, steps.size))
    at, value = (0.0, np.zeros(draws)) if part.anchored else (-np.inf, np.zeros(draws))
    passed = 0
    for i, step in enumerate(steps):
        memory = part.memory[:, i]
        while passed < known_steps.size and known_steps[passed] <= step:
            at, value = known_steps[passed], known[:, passed]
            passed += 1
        behind = np.exp(-(step - at) / memory)
        mean, variance = behind * value, -np.expm1(-2.0 * (step - at) / memory)
        if passed < known_steps.size:
            ahead = np.exp(-(known_steps[passed] - step) / memory)
            weight = ahead * variance / (1.0 - (behind * ahead) ** 2)
            mean = mean + weight * (known[:, passed] - ahead * mean)
            variance = variance * (1.0 - ahead * weight)
        value = mean + np.sqrt(np.maximum(variance, 0.0)) * generator.standard_normal(draws)
        values[:, i], at = value, step
    return values

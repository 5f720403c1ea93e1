"""Draws of curves: the law's curve, a new run's curve, and a known run's given what was measured.

Of known runs also the moments that these draws have. NumPy only: vectorised over posterior draws, curve
by curve. *Parameters* are such draws, by name arrays of shape (draws, ...); *observed* are the measured
points of the same curves, in the same order.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.model.discrepancy import ErrorCorrelation, correlated
from bayes_cpt.model.evaluate import Draws, losses, scales_of
from bayes_cpt.model.points import Curve, Curves
from bayes_cpt.model.residuals import ResidualDesign, Scales
from bayes_cpt.model.setup import BoundModel


@dataclass(frozen=True, eq=False)
class CurveResidual:
    """One curve's residual design and scales in some draws."""

    anchored: bool  # whether the curve starts at a measured loss
    steps: Floats  # rising, since the curve started, (points,)
    # What standard normal weights of its level, of the extrapolation and of the misfit's innovations add,
    # nats/token, of shape (draws, points, columns)
    columns: Floats
    # Sd of the fluctuation, nats/token, and its correlation time, steps, of shape (draws, points)
    fluctuation: Floats
    memory: Floats

    @property
    def gap(self) -> Floats:
        """Steps since the point before, or since the measured start."""
        return np.diff(self.steps, prepend=0.0 if self.anchored else -np.inf)

    @property
    def innovation(self) -> Floats:
        """Sd of what a unit fluctuation adds at each point, shape (draws, points)."""
        return np.asarray(np.sqrt(-np.expm1(-2.0 * self.gap / self.memory)))

    @classmethod
    def of(cls, design: ResidualDesign, scales: Scales, rows: slice) -> "CurveResidual":
        """Return that of one curve."""
        level = scales.offset[:, rows] * design.floating[rows]
        beyond = scales.extrapolation[:, rows] * design.beyond[rows]
        misfit = scales.misfit[:, rows, None] * design.ramps[rows]
        return cls(
            anchored=bool(np.isfinite(design.gap[rows][0])),
            steps=design.steps[rows],
            columns=np.concatenate([level[..., None], beyond[..., None], misfit], axis=2),
            fluctuation=scales.fluctuation[:, rows],
            memory=scales.memory[:, rows],
        )


def known_residual(
    part: CurveResidual, seen: CurveResidual, residual: Floats, generator: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return residuals of a curve given those at measured points, and what of them is not fluctuation.

    The weights of level and misfit have a Gaussian posterior; given them the fluctuation at the
    measured points is known, and between them it is a bridge.

    What was measured less the law's curve has the shape (draws, seen points), both results (draws, points).
    """
    precision, projection = _weights_given(seen, residual)
    weights = normal_draw(precision, projection, generator.standard_normal(projection.shape))
    slow_seen = np.einsum("dpk,dk->dp", seen.columns, weights)
    known = (residual - slow_seen) / seen.fluctuation
    slow = np.einsum("dpk,dk->dp", part.columns, weights)
    normals = generator.standard_normal((part.steps.size, len(residual)))
    loss = slow + part.fluctuation * bridge(part, seen.steps, known, normals)
    # What was measured is repeated exactly, free of rounding.
    _, here, there = np.intersect1d(part.steps, seen.steps, return_indices=True)
    loss[:, here] = residual[:, there]
    return np.asarray(loss), np.asarray(slow)


def slow_mean(part: CurveResidual, seen: CurveResidual, residual: Floats) -> Floats:
    """Return the mean of what is not fluctuation, given as for `known_residual`, shape (draws, points)."""
    weights = normal_draw(*_weights_given(seen, residual))
    return np.asarray(np.einsum("dpk,dk->dp", part.columns, weights))


def normal_draw(precision: Floats, projection: Floats, noise: Floats | None = None) -> Floats:
    """Return weights, (draws, weights), by precision and precision times mean; their means if no noise."""
    shifted = projection[..., None]
    if noise is not None:
        shifted = shifted + np.linalg.cholesky(precision) @ noise[..., None]
    return np.asarray(np.linalg.solve(precision, shifted)[..., 0])


def _weights_given(seen: CurveResidual, residual: Floats) -> tuple[Floats, Floats]:
    """Return what residuals say about the weights: precision, and precision times mean, by draw."""
    white = whitened(np.concatenate([residual[..., None], seen.columns], axis=2), seen)
    design, target = white[..., 1:], white[..., 0]
    precision = np.eye(design.shape[2]) + np.einsum("dpi,dpj->dij", design, design)
    return precision, np.einsum("dpi,dp->di", design, target)


def whitened(columns: Floats, seen: CurveResidual) -> Floats:
    """Return columns, (draws, points, columns), in which a curve's fluctuation is white and of size 1."""
    scaled = columns / seen.fluctuation[..., None]
    correlation = np.exp(-seen.gap / seen.memory)[..., None]
    added = seen.innovation[..., None]
    before = np.concatenate([np.zeros_like(scaled[:, :1]), scaled[:, :-1]], axis=1)
    return np.asarray((scaled - correlation * before) / added)


def precision_products(part: CurveResidual, columns: Floats) -> tuple[Floats, Floats]:
    """Return ``columns' Sigma^-1 columns``, and ``log det Sigma``, of a curve's residual, by draw.

    Woodbury, for the weights of level and misfit are standard normal. Columns: (draws, points, columns).
    """
    white = whitened(np.concatenate([columns, part.columns], axis=2), part)
    count = columns.shape[2]
    inner = np.swapaxes(white, 1, 2) @ white
    across, weights = inner[:, count:, :count], inner[:, count:, count:]
    precision = np.eye(weights.shape[2]) + weights
    explained = np.swapaxes(across, 1, 2) @ np.linalg.solve(precision, across)
    sizes = np.log(part.fluctuation * part.innovation).sum(axis=1)
    determinant = 2.0 * sizes + np.linalg.slogdet(precision)[1]
    return inner[:, :count, :count] - explained, determinant


def known_residual_moments(
    part: CurveResidual, seen: CurveResidual, residual: Floats
) -> tuple[Floats, Floats]:
    """Return mean and variance of what `known_residual` draws, shape (draws, points) each.

    A residual is linear in the weights of level and misfit once its neighbours are measured: the
    fluctuation between them is a bridge.
    """
    precision, projection = _weights_given(seen, residual)
    steps, seen_steps = part.steps, seen.steps
    last = seen_steps.size - 1
    before = np.searchsorted(seen_steps, steps, side="right") - 1
    at = np.where(before >= 0, seen_steps[before], 0.0 if part.anchored else -np.inf)
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
    weights = normal_draw(precision, projection)
    root = np.linalg.solve(np.linalg.cholesky(precision), columns.transpose(0, 2, 1))
    between = part.fluctuation**2 * free * (1.0 - ahead * of_next)
    return mean + np.einsum("dpk,dk->dp", columns, weights), between + (root**2).sum(axis=1)


def bridge(part: CurveResidual, known_steps: Floats, known: Floats, normals: Floats) -> Floats:
    """Return the unit Ornstein-Uhlenbeck process of a curve, given it at `known_steps`, which rise.

    It starts at 0 at step 0 where the curve is anchored at a measured base, else in equilibrium. What is
    known has the shape (draws, known points), `normals`, its innovations over their size, (points, draws).
    """
    draws, steps = part.columns.shape[0], part.steps
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
        value = mean + np.sqrt(np.maximum(variance, 0.0)) * normals[i]
        values[:, i], at = value, step
    return values


type Innovations = Callable[[Curve, int], Floats | None]


@dataclass(frozen=True, eq=False)
class CurveDraws:
    """Draws at points, shape (draws, points)."""

    expected: Floats  # the law's curve
    loss: Floats  # a measured curve: the law's with misfit and fluctuation
    slow: Floats  # the same without its fluctuation


def expected_loss(frame: BoundModel, parameters: dict[str, Floats], curves: Curves) -> Floats:
    """Return the law's curves, shape (draws, points), from parameters of shape (draws, ...)."""
    draws = Draws.of(frame, parameters, curves.points.form)
    return np.ascontiguousarray(losses(curves, draws).T)


def simulate(
    frame: BoundModel,
    parameters: dict[str, Floats],
    curves: Curves,
    observed: Curves | None,
    generator: np.random.Generator,
    correlation: ErrorCorrelation | None = None,
    innovations: Innovations | None = None,
) -> CurveDraws:
    """Draw measured curves from the posterior predictive distribution, given `observed` if it is not None.

    Curves of one new run are independent without `correlation`. `innovations` gives those of the misfit of
    a new curve, (draws, knots), by the curve and the number of knots; None where they are to be drawn.
    """
    expected = expected_loss(frame, parameters, curves)
    loss, slow = expected.copy(), expected.copy()
    if observed is not None:
        for rows, part, seen, left in known_parts(frame, parameters, curves, observed):
            residual, lasting = known_residual(part, seen, left, generator)
            loss[:, rows] += residual
            slow[:, rows] += lasting
        return CurveDraws(expected, loss, slow)
    design, scales = frame.residual_design(curves), _scales(frame, parameters, curves)
    named = zip(curves.curves, design.rows, strict=True)
    # The curves of one run come one after the other.
    for _, of_run in groupby(named, key=lambda one: one[0].run):
        own = list(of_run)
        parts = [CurveResidual.of(design, scales, rows) for _, rows in own]
        given = [innovations(curve, design.knots) if innovations else None for curve, _ in own]
        drawn = _new_residuals(parts, given, generator, correlation)
        for (_, rows), (residual, lasting) in zip(own, drawn, strict=True):
            loss[:, rows] += residual
            slow[:, rows] += lasting
    return CurveDraws(expected, loss, slow)


def known_parts(
    frame: BoundModel, parameters: dict[str, Floats], curves: Curves, observed: Curves
) -> Iterator[tuple[slice, CurveResidual, CurveResidual, Floats]]:
    """Yield of each curve its points, its residual there and at its measured points, and what they left."""
    last_step = float(max(curves.elapsed.max(), observed.elapsed.max()))
    design, scales = frame.residual_design(curves, last_step), _scales(frame, parameters, curves)
    residual, seen_design, seen_scales = measured(frame, parameters, observed, last_step)
    for rows, here in zip(design.rows, seen_design.rows, strict=True):
        part = CurveResidual.of(design, scales, rows)
        seen = CurveResidual.of(seen_design, seen_scales, here)
        yield rows, part, seen, residual[:, here]


def _scales(frame: BoundModel, parameters: dict[str, Floats], curves: Curves) -> Scales:
    """Return the sizes of the residuals at the points of curves."""
    draws = Draws.of(frame, parameters, curves.points.form)
    return scales_of(curves, draws)


def measured(
    frame: BoundModel, parameters: dict[str, Floats], curves: Curves, last_step: float | None = None
) -> tuple[Floats, ResidualDesign, Scales]:
    """Return what the law leaves of measured losses, shape (draws, points), with design and sizes.

    The misfit is laid out up to `last_step`, the last of these points unless given.
    """
    design = frame.residual_design(curves, last_step)
    residual = curves.points.loss - expected_loss(frame, parameters, curves)
    return residual, design, _scales(frame, parameters, curves)


def _new_residuals(
    parts: Sequence[CurveResidual],
    innovations: Sequence[Floats | None],
    generator: np.random.Generator,
    correlation: ErrorCorrelation | None,
) -> Iterator[tuple[Floats, Floats]]:
    """Yield residuals of the curves of a run that was not measured, and what of them is not fluctuation."""
    weights, normals = [], []
    for part in parts:
        draws, points, columns = part.columns.shape
        weights.append(generator.standard_normal((draws, columns)))
        normals.append(generator.standard_normal((points, draws)))
    if correlation is not None:
        weights = list(correlated(np.stack(weights), correlation.misfit))
        at_step: dict[float, list[Floats]] = {}
        for part, own in zip(parts, normals, strict=True):
            for step, row in zip(part.steps.tolist(), own, strict=True):
                at_step.setdefault(step, []).append(row)
        for rows in at_step.values():
            alike = correlated(np.stack(rows), correlation.fluctuation)
            for row, mixed in zip(rows, alike, strict=True):
                row[:] = mixed
    for part, own, given, chance in zip(parts, weights, innovations, normals, strict=True):
        whole = own if given is None else np.concatenate([own[:, :2], given], axis=1)
        slow = np.einsum("dpk,dk->dp", part.columns, whole)
        fast = bridge(part, np.empty(0), np.empty((len(whole), 0)), chance)
        yield np.asarray(slow + part.fluctuation * fast), np.asarray(slow)


def residual_products(
    frame: BoundModel, parameters: dict[str, Floats], curves: Curves, directions: Floats
) -> Floats:
    """Return inner products of residuals and directions along each curve, in its precision.

    With r what the law's curve leaves of the measured losses, X the directions and Sigma the covariance of
    r given the parameters, ``(r, X)' Sigma^-1 (r, X)``: what generalised least squares is made of.
    Directions have the shape (points, directions), products that of (curves, draws, 1 + directions, 1 +
    directions).
    """
    residual, design, scales = measured(frame, parameters, curves)
    products = []
    for rows in design.rows:
        part = CurveResidual.of(design, scales, rows)
        moving = np.broadcast_to(directions[rows], (len(residual), *directions[rows].shape))
        asked = np.concatenate([residual[:, rows, None], moving], axis=2)
        products.append(precision_products(part, asked)[0])
    return np.stack(products)


def known_moments(
    frame: BoundModel, parameters: dict[str, Floats], curves: Curves, observed: Curves
) -> tuple[Floats, Floats]:
    """Return mean and variance of known curves in each draw, shape (draws, points) each.

    Given a posterior draw and the measured points a loss is normal: these are the moments of what
    `simulate` draws.
    """
    mean = expected_loss(frame, parameters, curves)
    variance = np.zeros_like(mean)
    for rows, part, seen, residual in known_parts(frame, parameters, curves, observed):
        added, spread = known_residual_moments(part, seen, residual)
        mean[:, rows] += added
        variance[:, rows] += spread
    return mean, variance

"""The residual of one curve in many draws: its design, what measured points tell of it, and draws of it."""

from dataclasses import dataclass

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.model.residuals import ResidualDesign, Scales


@dataclass(frozen=True, eq=False)
class CurveResidual:
    """One curve's residual design and scales in some draws.

    Parameters
    ----------
    anchored : bool
        Whether the curve starts at a measured loss. Steps are then counted from there.
    columns : ndarray, shape (draws, points, columns)
        What standard normal weights of its level and of the misfit's innovations add, nats/token.
    fluctuation, memory : ndarray, shape (draws, points)
        Sd of the fluctuation, nats/token, and its correlation time, steps.
    """

    anchored: bool
    columns: Floats
    fluctuation: Floats
    memory: Floats

    @classmethod
    def of(cls, design: ResidualDesign, scales: Scales, rows: slice) -> "CurveResidual":
        """Return that of one curve.

        Parameters
        ----------
        design : ResidualDesign
            Of all curves.
        scales : Scales
            Of all points.
        rows : slice
            The curve's points.
        """
        level = (scales.offset[:, rows] * design.floating[rows])[..., None]
        misfit = scales.misfit[:, rows, None] * design.ramps[rows]
        return cls(
            anchored=bool(np.isfinite(design.gap[rows][0])),
            columns=np.concatenate([level, misfit], axis=2),
            fluctuation=scales.fluctuation[:, rows],
            memory=scales.memory[:, rows],
        )


def known_residual(
    part: CurveResidual,
    steps: Floats,
    seen: CurveResidual,
    residual: Floats,
    seen_steps: Floats,
    generator: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Return residuals at `steps` given those at `seen_steps`, and what of them is not fluctuation.

    The weights of level and misfit have a Gaussian posterior; given them the fluctuation at the
    measured points is known, and between them it is a bridge.

    Parameters
    ----------
    part, seen : CurveResidual
        Of the points wanted, and of those measured.
    steps, seen_steps : ndarray, shape (points,)
        Rising.
    residual : ndarray, shape (draws, seen points)
        What was measured less the law's curve, nats/token.
    generator : numpy.random.Generator

    Returns
    -------
    residual, slow : ndarray, shape (draws, points)
        nats/token.
    """
    precision, projection = _weights_given(seen, residual, seen_steps)
    noise = generator.standard_normal(projection.shape)
    shifted = projection[..., None] + np.linalg.cholesky(precision) @ noise[..., None]
    weights = np.linalg.solve(precision, shifted)[..., 0]
    slow_seen = np.einsum("dpk,dk->dp", seen.columns, weights)
    known = (residual - slow_seen) / seen.fluctuation
    slow = np.einsum("dpk,dk->dp", part.columns, weights)
    normals = generator.standard_normal((steps.size, len(residual)))
    loss = slow + part.fluctuation * bridge(steps, part, seen_steps, known, normals)
    # What was measured is repeated exactly, free of rounding.
    _, here, there = np.intersect1d(steps, seen_steps, return_indices=True)
    loss[:, here] = residual[:, there]
    return np.asarray(loss), np.asarray(slow)


def slow_mean(part: CurveResidual, seen: CurveResidual, residual: Floats, steps: Floats) -> Floats:
    """Return the mean of what is not fluctuation given measured points, shape (draws, points).

    Parameters
    ----------
    part, seen : CurveResidual
        Of the points wanted, and of those measured.
    residual : ndarray, shape (draws, seen points)
        What was measured less the law's curve, nats/token.
    steps : ndarray, shape (seen points,)
    """
    precision, projection = _weights_given(seen, residual, steps)
    weights = np.linalg.solve(precision, projection[..., None])[..., 0]
    return np.asarray(np.einsum("dpk,dk->dp", part.columns, weights))


def _weights_given(seen: CurveResidual, residual: Floats, steps: Floats) -> tuple[Floats, Floats]:
    """Return what residuals tell of the weights: precision, and precision times mean, by draw.

    Parameters
    ----------
    seen : CurveResidual
    residual : ndarray, shape (draws, points)
    steps : ndarray, shape (points,)
    """
    white = whitened(np.concatenate([residual[..., None], seen.columns], axis=2), seen, steps)
    design, target = white[..., 1:], white[..., 0]
    precision = np.eye(design.shape[2]) + np.einsum("dpi,dpj->dij", design, design)
    return precision, np.einsum("dpi,dp->di", design, target)


def whitened(columns: Floats, seen: CurveResidual, steps: Floats) -> Floats:
    """Return columns along a curve in which its fluctuation is white and of size 1.

    Parameters
    ----------
    columns : ndarray, shape (draws, points, columns)
    seen : CurveResidual
    steps : ndarray, shape (points,)
    """
    scaled = columns / seen.fluctuation[..., None]
    gap = np.diff(steps, prepend=0.0 if seen.anchored else -np.inf)
    correlation = np.exp(-gap / seen.memory)[..., None]
    added = innovation(seen, steps)[..., None]
    before = np.concatenate([np.zeros_like(scaled[:, :1]), scaled[:, :-1]], axis=1)
    return np.asarray((scaled - correlation * before) / added)


def innovation(seen: CurveResidual, steps: Floats) -> Floats:
    """Return the sd of what a unit fluctuation adds at each point, shape (draws, points).

    Parameters
    ----------
    seen : CurveResidual
    steps : ndarray, shape (points,)
    """
    gap = np.diff(steps, prepend=0.0 if seen.anchored else -np.inf)
    return np.asarray(np.sqrt(-np.expm1(-2.0 * gap / seen.memory)))


def precision_products(
    part: CurveResidual, steps: Floats, columns: Floats
) -> tuple[Floats, Floats]:
    """Return inner products of columns in the precision of a curve's residual, and its log determinant.

    With Sigma the residual's covariance, ``columns' Sigma^-1 columns`` and ``log det Sigma``: Woodbury, for
    the weights of level and misfit are standard normal.

    Parameters
    ----------
    part : CurveResidual
    steps : ndarray, shape (points,)
    columns : ndarray, shape (draws, points, columns)

    Returns
    -------
    products : ndarray, shape (draws, columns, columns)
    log_determinant : ndarray, shape (draws,)
    """
    white = whitened(np.concatenate([columns, part.columns], axis=2), part, steps)
    count = columns.shape[2]
    inner = np.swapaxes(white, 1, 2) @ white
    across, weights = inner[:, count:, :count], inner[:, count:, count:]
    precision = np.eye(weights.shape[2]) + weights
    explained = np.swapaxes(across, 1, 2) @ np.linalg.solve(precision, across)
    sizes = np.log(part.fluctuation * innovation(part, steps)).sum(axis=1)
    determinant = 2.0 * sizes + np.linalg.slogdet(precision)[1]
    return inner[:, :count, :count] - explained, determinant


def known_residual_moments(
    part: CurveResidual, steps: Floats, seen: CurveResidual, residual: Floats, seen_steps: Floats
) -> tuple[Floats, Floats]:
    """Return mean and variance of what `known_residual` draws, shape (draws, points) each.

    A residual is linear in the weights of level and misfit once its neighbours are measured: the
    fluctuation between them is a bridge.

    Parameters
    ----------
    part, steps, seen, residual, seen_steps
        As there.
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
    between = part.fluctuation**2 * free * (1.0 - ahead * of_next)
    return mean + np.einsum("dpk,dk->dp", columns, weights), between + (root**2).sum(axis=1)


def bridge(
    steps: Floats, part: CurveResidual, known_steps: Floats, known: Floats, normals: Floats
) -> Floats:
    """Return a unit Ornstein-Uhlenbeck process at rising `steps`, given it at `known_steps`.

    It starts at 0 at step 0 where the curve is anchored at a measured base, else in equilibrium.

    Parameters
    ----------
    steps, known_steps : ndarray, shape (points,)
        Where it is wanted, and where it is known; rising.
    part : CurveResidual
        Of the points wanted.
    known : ndarray, shape (draws, known points)
    normals : ndarray, shape (points, draws)
        Its innovations over their size.
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
        value = mean + np.sqrt(np.maximum(variance, 0.0)) * normals[i]
        values[:, i], at = value, step
    return values

"""Draws of curves: the law's curve, a new run's curve, and a known run's given what was measured.

Of known runs also the moments that these draws have.

NumPy only. Everything is vectorised over posterior draws; curves are taken one at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.model.misfit.base_level import with_base_levels
from bayes_cpt.model.misfit.discrepancy import ErrorCorrelation
from bayes_cpt.model.points import Curve, Curves
from bayes_cpt.model.residuals import ResidualDesign, Scales
from bayes_cpt.model.setup import Frame

type Floats = NDArray[np.float64]
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
    chance = _Chance(generator, correlation)
    for curve, named in enumerate(curves.curves):
        rows = slice(int(design.first[curve]), int(design.last[curve]))
        part = _Part.of(design, scales, rows)
        if given is None:
            own = innovations(named, design.knots) if innovations else None
            residual = chance.new_residual(named.run, part, curves.points.steps[rows], own)
        else:
            seen_rows = slice(int(given[1].first[curve]), int(given[1].last[curve]))
            residual = _known_residual(
                part,
                curves.points.steps[rows],
                _Part.of(given[1], given[2], seen_rows),
                given[0][:, seen_rows],
                observed.points.steps[seen_rows],  # type: ignore[union-attr]
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
    scales = frame.residual_scales(curves.points, design.pretraining, parameters, coefficients, np)
    return with_base_levels(frame, scales, parameters, coefficients, curves)


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
    _weights: Floats | None = None
    _normals: dict[float, Floats] = field(default_factory=dict)

    def new_residual(
        self, run: str, part: _Part, steps: Floats, innovations: Floats | None
    ) -> Floats:
        """Return residuals of a curve that was not measured, shape (draws, points).

        Parameters
        ----------
        run : str
            The curves of one run come one after the other.
        part : _Part
        steps : ndarray
        innovations : ndarray, shape (draws, knots), or None
            Of the misfit, where they are known.
        """
        draws, _, columns = part.columns.shape
        weights = self.generator.standard_normal((draws, columns))
        normals = self.generator.standard_normal((steps.size, draws))
        if self.correlation is not None and run == self._run and self._weights is not None:
            weights = _alike(weights, self._weights, self.correlation.misfit)
            for step, own in zip(steps, normals, strict=True):
                if step in self._normals:
                    own[:] = _alike(own, self._normals[step], self.correlation.fluctuation)
        self._run, self._weights = run, weights
        self._normals = dict(zip(steps.tolist(), normals, strict=True))
        if innovations is not None:
            weights = np.concatenate([weights[:, :1], innovations], axis=1)
        slow = np.einsum("dpk,dk->dp", part.columns, weights)
        nothing = np.empty((draws, 0))
        fast = _bridge(steps, part, np.empty(0), nothing, normals)
        return np.asarray(slow + part.fluctuation * fast)


def _alike(new: Floats, other: Floats, correlation: float) -> Floats:
    return np.asarray(correlation * other + np.sqrt(1.0 - correlation**2) * new)


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
    normals = generator.standard_normal((steps.size, len(residual)))
    loss = slow + part.fluctuation * _bridge(steps, part, seen_steps, known, normals)
    # What was measured is repeated exactly, free of rounding.
    _, here, there = np.intersect1d(steps, seen_steps, return_indices=True)
    loss[:, here] = residual[:, there]
    return np.asarray(loss)


def _weights_given(seen: _Part, residual: Floats, steps: Floats) -> tuple[Floats, Floats]:
    """Return what residuals tell of the weights: precision, and precision times mean, by draw."""
    white = _white(np.concatenate([residual[..., None], seen.columns], axis=2), seen, steps)
    design, target = white[..., 1:], white[..., 0]
    precision = np.eye(design.shape[2]) + np.einsum("dpi,dpj->dij", design, design)
    return precision, np.einsum("dpi,dp->di", design, target)


def _white(columns: Floats, seen: _Part, steps: Floats) -> Floats:
    """Return columns along a curve, shape (draws, points, columns), in which its fluctuation is white."""
    scaled = columns / seen.fluctuation[..., None]
    gap = np.diff(steps, prepend=0.0 if seen.anchored else -np.inf)
    correlation = np.exp(-gap / seen.memory)[..., None]
    added = innovation(seen, steps)[..., None]
    before = np.concatenate([np.zeros_like(scaled[:, :1]), scaled[:, :-1]], axis=1)
    return np.asarray((scaled - correlation * before) / added)


def innovation(seen: _Part, steps: Floats) -> Floats:
    """Return the sd of what a unit fluctuation adds at each point, shape (draws, points).

    Parameters
    ----------
    seen : _Part
    steps : ndarray, shape (points,)
    """
    gap = np.diff(steps, prepend=0.0 if seen.anchored else -np.inf)
    return np.asarray(np.sqrt(-np.expm1(-2.0 * gap / seen.memory)))


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
    scales = _scales(frame, parameters, curves, design)
    products = []
    for first, last in zip(design.first, design.last, strict=True):
        rows = slice(int(first), int(last))
        part = _Part.of(design, scales, rows)
        own = np.broadcast_to(directions[rows], (len(residual), *directions[rows].shape))
        asked = np.concatenate([residual[:, rows, None], own], axis=2)
        white = _white(
            np.concatenate([asked, part.columns], axis=2), part, curves.points.steps[rows]
        )
        # Woodbury: weights of level and misfit are standard normal.
        few = asked.shape[2]
        wanted, weights = white[..., :few], white[..., few:]
        precision = np.eye(weights.shape[2]) + np.einsum("dpi,dpj->dij", weights, weights)
        across = np.einsum("dpi,dpj->dij", weights, wanted)
        explained = np.swapaxes(across, 1, 2) @ np.linalg.solve(precision, across)
        products.append(np.einsum("dpi,dpj->dij", wanted, wanted) - explained)
    return np.stack(products)


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
    steps: Floats, part: _Part, known_steps: Floats, known: Floats, normals: Floats
) -> Floats:
    """Return a unit Ornstein-Uhlenbeck process at rising `steps`, given it at `known_steps`.

    It starts at 0 at step 0 where the curve is anchored at a measured base, else in equilibrium. `normals`
    are its innovations over their size, shape (points, draws).
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

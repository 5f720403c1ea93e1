"""The residual model of one curve as a dense covariance matrix, written apart from `bayes_cpt`."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayes_cpt.arrays import Floats
from bayes_cpt.model.evaluate import Draws, losses, scales_of
from bayes_cpt.model.residuals import ONSET_SHARE, Scales
from bayes_cpt.model.setup import Setup
from bayes_cpt.model.spec import ModelSpec


def misfit_covariance(steps: ArrayLike, onset: float, carried: float, per_fold: int) -> Floats:
    """Return the covariance of the misfit of size 1.

    An autoregression at multiples of 1/per_fold of x = log(1 + t/onset), 0 at x = 0, linear in between. It
    keeps the share `carried` over a unit of x, in which its innovations add up to the variance 1. What is
    interpolated is stretched to the variance of an Ornstein-Uhlenbeck process in x that starts at 0.
    """
    position = per_fold * np.log1p(np.asarray(steps, dtype=np.float64) / onset)
    kept = carried ** (1.0 / per_fold)
    variance = 1.0 / sum(kept ** (2 * j) for j in range(per_fold))
    places = np.arange(np.ceil(position.max()) + 1)
    # What each knot keeps of the innovation of every knot from the second to itself.
    ages = places[:, None] - places[1:]
    shares = np.where(ages >= 0, kept ** np.maximum(ages, 0), 0.0)
    between = np.stack([np.interp(position, places, own) for own in variance * shares @ shares.T])
    line = np.stack([np.interp(position, places, own) for own in between.T])
    folds = position / per_fold
    process = folds if carried == 1 else (1 - carried ** (2 * folds)) / (1 - carried**2)
    stretch = np.sqrt(process / np.diag(line))
    return np.asarray(stretch[:, None] * line * stretch)


def walk(spec: ModelSpec, *, continual: bool) -> dict[str, Any]:
    """Return what the misfit of a phase keeps over an e-fold of steps, and its knots in one."""
    if continual:
        return {"carried": spec.residuals.misfit_memory, "per_fold": 1}
    return {"carried": spec.residuals.misfit_memory_pt, "per_fold": 8}


def fluctuation_covariance(steps: ArrayLike, memory: float, *, starts_at_0: bool) -> Floats:
    """Return the covariance of a unit Ornstein-Uhlenbeck process at the steps.

    In equilibrium, or at 0 at step 0.
    """
    t = np.asarray(steps, dtype=np.float64)
    equilibrium = np.exp(-np.abs(t[:, None] - t) / memory)
    return np.asarray(equilibrium - np.exp(-(t[:, None] + t) / memory) * starts_at_0)


def curve_covariance(
    steps: ArrayLike,
    *,
    anchored: bool,
    fluctuation: ArrayLike,
    memory: float,
    misfit: ArrayLike,
    level: ArrayLike,
    onset: float,
    carried: float,
    per_fold: int = 1,
) -> Floats:
    """Return the covariance of the residuals of one curve, of the sds of its three parts at each point.

    The level of an anchored one is known: it starts at a measured base. Memory is the correlation time of
    the fluctuation and onset is the misfit's, both in steps; carried is the share of the misfit that the
    autoregression keeps over an e-fold of steps, per_fold its knots in one: 1 in CPT, 8 in PT.
    """
    sizes = [np.asarray(part, dtype=np.float64) for part in (fluctuation, misfit, level)]
    f, m, o = (np.outer(size, size) for size in sizes)
    return np.asarray(
        f * fluctuation_covariance(steps, memory, starts_at_0=anchored)
        + m * misfit_covariance(steps, onset, carried, per_fold)
        + o * (not anchored)
    )


def curve_normals(setup: Setup, parameters: dict[str, Any]) -> Iterator[tuple[Floats, Floats]]:
    """Yield residuals and their covariance along each curve, for a single draw of the parameters."""
    frame, curves = setup.frame, setup.curves
    draws = Draws.of(frame, parameters, curves.points.form)
    (law,), found = losses(curves, draws).T, scales_of(curves, draws)
    scales = Scales(**{name: own[0] for name, own in vars(found).items()})
    onset = ONSET_SHARE * frame.reference.steps
    for i, curve in enumerate(curves.curves):
        rows = curves.points.curve_index == i
        since = curves.points.steps[rows] - curve.start
        covariance = curve_covariance(
            since,
            anchored=curve.base_known,
            fluctuation=scales.fluctuation[rows],
            memory=float(scales.memory[rows][0]),
            misfit=scales.misfit[rows],
            level=scales.offset[rows],
            onset=onset,
            **walk(frame.spec, continual=curve.continual),
        )
        if curve.start:
            # A branch leaves the level of its trunk.
            level = scales.offset[rows] * np.sqrt(1.0 - (1.0 + since / onset) ** -2.0)
            covariance = covariance + np.outer(level, level)
        yield (curves.points.loss - law)[rows], covariance

"""How much points tell about the parameters of a law, in the Laplace approximation.

Parameters are counted in prior standard deviations on the scale where their prior is normal, so that the
prior's precision is the identity. Around one place the law's curves are straight lines in them, and the
information of some curves is ``S' C^-1 S`` with their slopes S and the covariance C of their residuals.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.laws.law import gather
from bayes_cpt.model.points import Curves
from bayes_cpt.model.priors import Distribution, Fixed, LogNormal
from bayes_cpt.model.setup import BoundModel, Element, elements
from bayes_cpt.model.simulate import CurveResidual, expected_loss, precision_products

STEP = 1e-4
STEEPEST = 1e50
# Information from more points of one curve than this adds next to nothing: neighbours are correlated.
POINTS_PER_CURVE = 60
# Nats between a base and the PT law, as in the lab's studies.
TYPICAL_OFFSET = 0.03


@dataclass(frozen=True, eq=False)
class FreeParameters:
    """Everything that is sampled under a frame, one entry per validation set."""

    frame: BoundModel

    @cached_property
    def elements(self) -> dict[tuple[str, str], Element]:
        """Each by parameter and validation set (``all`` where it is shared)."""
        dims = {name: info.dims for name, info in self.frame.parameters().items()}
        return {
            (own.name, self.frame.members(dims[own.name])[own.member].label): own
            for own in elements(self.frame)
            if not isinstance(own.prior, Fixed)
        }

    @property
    def labels(self) -> list[tuple[str, str]]:
        """Parameter and validation set of each."""
        return list(self.elements)

    def values(self, places: Floats) -> dict[str, Floats]:
        """Return parameters, fixed ones too, from places of shape (places, free) in prior sds."""
        columns, found = iter(places.T), dict[str, list[Floats]]()
        for own in elements(self.frame):
            fixed = isinstance(own.prior, Fixed)
            value = (
                np.full(len(places), own.prior.center)
                if fixed
                else _value(own.prior, next(columns))
            )
            found.setdefault(own.name, []).append(value)
        dims = {name: info.dims for name, info in self.frame.parameters().items()}
        return {
            name: np.stack(own, axis=1) if dims[name] else own[0] for name, own in found.items()
        }

    def draws(self, values: Mapping[str, Floats]) -> dict[tuple[str, str], Floats]:
        """Return each, shape (draws,), of parameters of shape (draws, ...)."""
        return {
            label: values[own.name][:, own.member]
            if values[own.name].ndim == 2
            else values[own.name]
            for label, own in self.elements.items()
        }

    def places(self, values: Mapping[str, Floats]) -> Floats:
        """Return places, shape (draws, free), from parameters of shape (draws, ...)."""
        drawn = zip(self.elements.values(), self.draws(values).values(), strict=True)
        columns = [
            (own.prior.to_scale(draws) - own.prior.center) / own.prior.spread
            for own, draws in drawn
        ]
        return np.stack(columns, axis=1)


def _value(prior: Distribution, place: Floats) -> Floats:
    center, spread = prior.center, prior.spread
    value = np.asarray(prior.from_scale(center + spread * place))
    if isinstance(prior, LogNormal) and prior.lower and prior.upper:
        return np.clip(value, prior.lower, prior.upper)
    return value


def information(free: FreeParameters, curves: Curves, place: Floats) -> dict[str, Floats]:
    """Return what the curves of each run tell at one place, shape (free, free), by run.

    Parameters
    ----------
    place : ndarray, shape (free,)
        In prior standard deviations from the priors' medians.
    """
    frame, size = free.frame, place.size
    shifts = np.concatenate([place + STEP * np.eye(size), place[None]])
    values = free.values(shifts)
    here = {name: value[-1:] for name, value in values.items()}
    # A law far outside its range may overflow, and then tells nothing there.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        losses = expected_loss(frame, values, _typical_bases(frame, curves, here))
        # From the place on: slopes to a ten-thousandth are enough for what is taken to be straight.
        slopes = finite((losses[:size] - losses[size]).T / STEP)
        coefficients = frame.law.coefficients(here, np)
    design = frame.residual_design(curves)
    scales = frame.residual_scales(curves.points, design.pretraining, here, coefficients, np)
    by_run: dict[str, Floats] = {}
    for curve, rows in zip(curves.curves, design.rows, strict=True):
        # Every so many points, up to the last one.
        apart = -(-(rows.stop - rows.start) // POINTS_PER_CURVE)
        kept = slice(rows.start + (rows.stop - rows.start - 1) % apart, rows.stop, apart)
        part = CurveResidual.of(design, scales, kept)
        products, _ = precision_products(part, curves.elapsed[kept], slopes[None, kept])
        by_run[curve.run] = by_run.get(curve.run, 0.0) + products[0]
    return by_run


def marginal(whole: Floats, kept: list[int]) -> Floats:
    """Return the information about some parameters when nothing but their prior is known of the others.

    `whole` is the information about all of them, without the prior's identity.

    Examples
    --------
    >>> whole = np.array([[4.0, 2.0], [2.0, 3.0]])
    >>> marginal(whole, [0]).tolist(), float(np.linalg.inv(np.linalg.inv(whole + np.eye(2))[:1, :1])[0, 0])
    ([[3.0]], 4.0)
    """
    others = [place for place in range(len(whole)) if place not in set(kept)]
    within, across = whole[np.ix_(kept, kept)], whole[np.ix_(kept, others)]
    if not others:
        return within
    rest = whole[np.ix_(others, others)] + np.eye(len(others))
    return np.asarray(within - across @ np.linalg.solve(rest, across.T))


def finite(slopes: Floats) -> Floats:
    """Return slopes with those that are too steep for a number, or none, as nothing."""
    return np.where(np.abs(slopes) < STEEPEST, slopes, 0.0)


def _typical_bases(frame: BoundModel, curves: Curves, values: dict[str, Floats]) -> Curves:
    """Return curves with bases as far from the law as bases are, whatever was measured.

    The law at its prior's medians may lie a nat from these losses; taken as a base's own offset, that
    would seem to say everything about how offsets are kept.
    """
    coefficients = gather(curves.bases, frame.law.coefficients(values, np), np)
    loss = frame.law.loss(curves.bases, coefficients, np)[0] + TYPICAL_OFFSET
    return replace(curves, bases=replace(curves.bases, loss=loss))

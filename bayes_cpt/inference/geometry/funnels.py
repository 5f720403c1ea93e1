"""Directions in which the posterior widens with a sampled spread, and coordinates that open such a funnel.

Runs of PT lie off the law by offsets of an unknown size. What tells their levels (the level of the law,
what a peak does) is known as far as the offsets are small: over that and the log of their spread the
posterior is a funnel. Its neck asks for steps so small that its mouth takes ever so many.
`bayes_cpt.inference.geometry.coordinates.open_funnels` makes a tube of it; this module says in which
directions, and how wide.

Source: Betancourt and Girolami (2015), Hamiltonian Monte Carlo for hierarchical models, arXiv 1312.0906.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats
from bayes_cpt.inference.geometry.whitening import Evaluate, Metric, precision

# The spread of what runs lie off the law by.
OFFSETS = "offset_pt"
# How much wider, as a logarithm, a spread is made to see what widens with it.
WIDER = 2.0
# Variance at the mode that does not come of the spread, over that which does: with more of it a direction
# hardly widens, and stretched it would no longer be straight to the others.
LARGEST_FLOOR = 0.5
# Nothing is known without any error.
NARROWEST = 1e-3
# In place of 0 in a division.
SMALLEST = 1e-12


class _Funnels(NamedTuple):
    """Directions that widen with one spread, and what tells how far along each: (funnels, dimensions)."""

    directions: Floats
    readings: Floats
    floors: Floats


def funnels_of(density: Evaluate, offsets: NDArray[np.int64], metric: Metric) -> dict[str, Any]:
    """Return the funnels about a mode, whose coordinates there are as the density's own.

    Parameters
    ----------
    density : callable
        Of white coordinates: log density and gradient.
    offsets : ndarray of int, shape (offsets,)
        Where the logarithms of spreads that may have funnels stand.
    metric : Metric
        Of the Laplace approximation: what white coordinates stand for.

    Returns
    -------
    dict of str to ndarray
        What `bayes_cpt.inference.geometry.coordinates.open_funnels` takes, by name: funnels, directions,
        readings and widths. Nothing where no direction widens with a spread.
    """
    found = {int(place): _funnels(density, int(place), offsets, metric) for place in offsets}
    found = {place: funnels for place, funnels in found.items() if len(funnels.floors)}
    if not found:
        return {}
    directions, readings, floors = map(np.concatenate, zip(*found.values(), strict=True))
    spreads = np.repeat(list(found), [len(funnels.floors) for funnels in found.values()])
    widths = np.column_stack([readings @ metric.center, metric.center[spreads], floors])
    return {"funnels": spreads, "directions": directions, "readings": readings, "widths": widths}


def _funnels(
    density: Evaluate, spread: int, offsets: NDArray[np.int64], metric: Metric
) -> _Funnels:
    """Return the directions in which all else widens where one spread does, all spreads given.

    The covariance at the mode and where the spread is wider are those of a part that stays and one that
    grows as the square of the spread; both are diagonal in the same directions.
    """
    size = metric.center.size
    none = _Funnels(np.zeros((0, size)), np.zeros((0, size)), np.zeros(0))
    wider = WIDER * np.eye(size)[spread]
    there = precision(density, metric, np.linalg.solve(metric.factor, wider))
    if there is None:
        return none
    others = np.setdiff1d(np.arange(size), offsets)
    inverse = np.linalg.inv(metric.factor)
    before = (inverse.T @ inverse)[np.ix_(others, others)]
    white = np.linalg.inv(np.linalg.cholesky(before)).T
    narrower, turned = np.linalg.eigh(white.T @ there[np.ix_(others, others)] @ white)
    grown, most = 1.0 / np.maximum(narrower, SMALLEST), np.exp(2.0 * WIDER)
    floors = np.maximum((most - grown) / np.maximum(grown - 1.0, SMALLEST), NARROWEST)
    wide = (narrower > 0.0) & (floors < LARGEST_FLOOR)
    shape = (int(wide.sum()), size)
    found = _Funnels(np.zeros(shape), np.zeros(shape), floors[wide])
    found.directions[:, others] = (white @ turned[:, wide]).T
    found.readings[:, others] = turned[:, wide].T @ np.linalg.inv(white)
    return found

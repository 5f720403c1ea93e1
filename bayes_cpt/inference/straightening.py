"""Deviations of single sizes in coordinates in which the posterior over them and their spread is straight.

A deviation counts in sds of its spread and acts as their product. Of three sizes the losses tell three
levels, and level, slope and exponent of all sizes can make up for most of what a deviation does: what is
told is a sum, and the deviations themselves are as the prior says. Few directions are told by themselves.
"""

from dataclasses import replace

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.inference.density import Density
from bayes_cpt.inference.whitening import Metric

# A direction is told where its variance, as a share of the prior's, is below this.
TOLD = 0.5


def straightened(density: Density, metric: Metric) -> tuple[Density, Metric]:
    """Return the density with straight ridges over deviations and their spread, and its metric.

    Deviations of a spread are turned to the directions in which data tell them most and least. Those told
    by themselves are taken times their spread. Those told only where all else is known stay in sds, as the
    prior has them, and what can make up for them moves along: their range in sds is the same whatever the
    spread.

    The mode is looked for before, over the deviations themselves: times a spread, the density is highest
    where the spread is least, far from where most of it lies.

    Parameters
    ----------
    density : Density
        Over the deviations themselves.
    metric : Metric
        Of its Laplace approximation (`bayes_cpt.inference.whitening.laplace`).
    """
    if not len(density.deviations):
        return density, metric
    places, spreads = density.deviations.T
    center, factor, turns = metric.center.copy(), metric.factor.copy(), _turns(density, metric)
    center[places], factor[places] = turns.T @ center[places], turns.T @ factor[places]
    inverse = np.linalg.inv(factor)
    precision = inverse.T @ inverse
    prior = density.priors[2][places] ** 2
    told = np.diag(precision)[places] * prior > 1.0 / TOLD
    alone = told & ((factor[places] ** 2).sum(axis=1) < TOLD * prior)
    follows = told & ~alone
    centred, ridges = density.deviations[alone], density.deviations[follows]
    # A product of the same value as the deviation moves with the logarithm of its spread.
    products = factor[places] + center[places, None] * factor[spreads]
    factor[centred[:, 0]] = products[alone]
    moves = _moves(precision, center, ridges, np.setdiff1d(np.arange(center.size), spreads))
    sds = np.exp(center[ridges[:, 1]])
    changed = replace(
        density,
        turned=places.copy(),
        turns=turns,
        centred=centred,
        levels=center[centred[:, 1]],
        ridges=ridges,
        moves=moves,
    )
    center -= moves @ (center[ridges[:, 0]] * sds)
    factor -= moves @ (sds[:, None] * products[follows])
    return changed, Metric(center, factor)


def _turns(density: Density, metric: Metric) -> Floats:
    """Return directions of the deviations of each spread, the best told first, as columns."""
    places, spreads = density.deviations.T
    turns = np.zeros((places.size, places.size))
    for spread in np.unique(spreads):
        own = np.flatnonzero(spreads == spread)
        rows = metric.factor[places[own]]
        turns[np.ix_(own, own)] = np.linalg.eigh(rows @ rows.T)[1]
    return turns


def _moves(precision: Floats, center: Floats, ridges: Floats, numbers: Floats) -> Floats:
    """Return by how much all else is expected to move with each product, shape (dimensions, ridges)."""
    others = np.setdiff1d(numbers, ridges[:, 0])
    moves = np.zeros((center.size, len(ridges)))
    pull = precision[np.ix_(others, ridges[:, 0])]
    moves[others] = -np.linalg.solve(precision[np.ix_(others, others)], pull)
    return moves / np.exp(center[ridges[:, 1]])

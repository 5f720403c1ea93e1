"""Which deviations a sampler takes times their spread: those that data tell more of than their prior."""

from dataclasses import replace

import numpy as np

from bayes_cpt.inference.density import Density
from bayes_cpt.inference.whitening import Metric


def centred(density: Density, metric: Metric) -> tuple[Density, Metric]:
    """Return the density with the deviations that data tell times their spread, and its metric.

    The mode is looked for over the deviations themselves: times a spread, the density is highest where the
    spread is least, far from where most of it lies. What data tell of a deviation is its precision there,
    all else being known, beside the 1 of its prior: where all else can make up for it, it is still a ridge
    that is told.

    Parameters
    ----------
    density : Density
        Over the deviations themselves.
    metric : Metric
        Of its Laplace approximation (`bayes_cpt.inference.whitening.laplace`).
    """
    known = np.linalg.inv(metric.factor)
    precision = (known**2).sum(axis=0)
    places = density.deviations[:, 0]
    prior = density.priors[2][places] ** -2.0
    pairs = density.deviations[precision[places] > 2.0 * prior]
    levels = metric.center[pairs[:, 1]]
    factor = metric.factor.copy()
    # A product of the same value as the deviation moves with the logarithm of its spread.
    factor[pairs[:, 0]] += metric.center[pairs[:, 0], None] * metric.factor[pairs[:, 1]]
    return replace(density, centred=pairs, levels=levels), Metric(metric.center, factor)

"""How alike several targets are, as a sampler wants it: with slopes (`bayes_cpt.model.priors.pooling`)."""

import numba
import numpy as np


@numba.njit(cache=True, error_model="numpy")
def add_alikeness(standard, spread, slopes):  # type: ignore[no-untyped-def]
    """Return `log_alikeness` of one parameter and its slope by the spread; fill in those by the targets.

    Parameters
    ----------
    standard, slopes : ndarray, shape (targets,)
    spread : float
    """
    count, own = standard.size, spread * spread
    shared = own + count * (1.0 - own)
    total, square = 0.0, 0.0
    for k in range(count):
        total += standard[k]
        square += standard[k] ** 2
    pull = (1.0 - own) / (own * shared)
    value = -0.5 * ((count - 1) * np.log(own) + np.log(shared))
    value -= 0.5 * (square / own - pull * total**2 - square)
    for k in range(count):
        slopes[k] = standard[k] - standard[k] / own + pull * total
    pull_by_own = -(own * shared + (1.0 - own) * (shared - (count - 1) * own)) / (own * shared) ** 2
    by_own = -0.5 * (count - 1) * (1.0 / own - 1.0 / shared)
    by_own += 0.5 * (square / own**2 + pull_by_own * total**2)
    return value, 2.0 * spread * by_own

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
    count, separate = standard.size, spread * spread
    shared = separate + count * (1.0 - separate)
    total, square = 0.0, 0.0
    for k in range(count):
        total += standard[k]
        square += standard[k] ** 2
    pull = (1.0 - separate) / (separate * shared)
    value = -0.5 * ((count - 1) * np.log(separate) + np.log(shared))
    value -= 0.5 * (square / separate - pull * total**2 - square)
    for k in range(count):
        slopes[k] = standard[k] - standard[k] / separate + pull * total
    pull_by_separate = (
        -(separate * shared + (1.0 - separate) * (shared - (count - 1) * separate))
        / (separate * shared) ** 2
    )
    by_separate = -0.5 * (count - 1) * (1.0 / separate - 1.0 / shared)
    by_separate += 0.5 * (square / separate**2 + pull_by_separate * total**2)
    return value, 2.0 * spread * by_separate

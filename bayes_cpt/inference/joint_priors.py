"""What priors that depend on each other add to a density: where their parameters stand, compiled terms."""

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats
from bayes_cpt.jit import numba
from bayes_cpt.model.groups.grouping import BATCHES
from bayes_cpt.model.priors.correlations import CORRELATION, PARAMETER
from bayes_cpt.model.setup import POOLED

if TYPE_CHECKING:
    import pymc as pm


def pools_of(model: "pm.Model", where: dict[str, int]) -> NDArray[np.int64]:
    """Return where what is pooled of each parameter stands, a row for each population, its spread last.

    Parameters
    ----------
    model : pymc.Model
    where : dict of str to int
        Where each free variable begins among the sampled numbers.
    """
    names, domains = model.coords.get(POOLED) or (), model.coords["domain"]
    rows = []
    for place, name in enumerate(names):
        (dims,) = model.named_vars_to_dims[name]
        coordinate = model.coords[dims]
        if dims == BATCHES:
            spread, count = where["batch_spread"], len(coordinate) // len(domains)
            firsts = range(0, len(coordinate), count)
            pools = [list(range(first, first + count)) for first in firsts]
        else:
            spread = where["target_spread"]
            pools = [[k for k, domain in enumerate(coordinate) if domain != domains[0]]]
        rows += [[*(where[name] + k for k in own), spread + place] for own in pools]
    return np.array(rows or np.zeros((0, 1)), dtype=np.int64)


def correlations_of(model: "pm.Model", where: dict[str, int]) -> tuple[NDArray[np.int64], Floats]:
    """Return where correlated parameters stand, and their correlation matrix.

    Parameters
    ----------
    model : pymc.Model
    where : dict of str to int
        Where each free variable begins among the sampled numbers.
    """
    places = []
    for label in model.coords.get(PARAMETER) or ():
        name, _, domain = label.removesuffix("]").partition("[")
        member = 0
        if domain:
            (dims,) = model.named_vars_to_dims[name]
            member = model.coords[dims].index(domain)
        # A parameter whose members have priors of several families is a variable for each.
        places.append(where[name] + member if name in where else where[f"{name}_{member}"])
    matrix = model[CORRELATION].get_value() if places else np.zeros((0, 0))
    return np.array(places, dtype=np.int64), matrix


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
    value = -0.5 * ((count - 1) * math.log(separate) + math.log(shared))
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


@numba.njit(cache=True, error_model="numpy")
def add_correlations(standard, slopes, gradient, correlated, excess):  # type: ignore[no-untyped-def]
    """Return the log density of correlated numbers over that of independent ones, but for a constant.

    Parameters
    ----------
    standard, slopes : ndarray, shape (dimensions,)
        Every number in sds of its prior, and its slope by what is sampled.
    gradient : ndarray, shape (dimensions,)
        To it the slopes of this density are added.
    correlated : ndarray of int, shape (correlated,)
        Where the correlated ones stand.
    excess : ndarray, shape (correlated, correlated)
        From `bayes_cpt.model.priors.correlations.excess_precision`.
    """
    form = 0.0
    for p in range(correlated.size):
        i, along = correlated[p], 0.0
        for q in range(correlated.size):
            along += excess[p, q] * standard[correlated[q]]
        form += standard[i] * along
        gradient[i] -= along * slopes[i]
    return -0.5 * form


# What other compiled functions call; each stands in their file (`bayes_cpt.inference.native`).
COMPILED = (add_alikeness, add_correlations)

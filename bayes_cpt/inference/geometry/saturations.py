"""What half of the target data gives, in place of how far replay dilutes it.

Runs at a few replay ratios tell the product of the saturating replay factor and its dilution
(`bayes_cpt.laws.transfer.Shift.replay_factor`), and little of each. A factor that is near 1 at half of the
target data leaves all to the dilution, whatever its rate and exponent: over the three the posterior is a
bent ridge with a long arm. Over rate, exponent and the dilution less what makes up for the factor, it is
straight. That is a shear, so that densities stay what they are.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats
from bayes_cpt.jit import numba

if TYPE_CHECKING:
    import pymc as pm

# Rate, exponent and dilution, whose factors at this target share are taken together.
PARAMETERS = ("saturation_rate", "saturation_exponent", "replay_dilution")
SHARE = 0.5


def saturations_of(
    model: "pm.Model", where: dict[str, int], kinds: Floats, wanted: tuple[int, int, int]
) -> NDArray[np.int64]:
    """Return where rate, exponent and dilution of each validation set stand, shape (sets, 3).

    None of a model that does not sample all of them as is wanted.

    Parameters
    ----------
    model : pymc.Model
    where : dict of str to int
        Where each variable begins among the sampled numbers.
    kinds : ndarray, shape (dimensions,)
        How each number is sampled.
    wanted : tuple of int
        How the three are to be sampled: rate and exponent by their logarithms, the dilution itself.
    """
    if not all(name in where for name in PARAMETERS):
        return np.zeros((0, 3), dtype=np.int64)
    labels = {name: _labels(model, name) for name in PARAMETERS}
    rows: NDArray[np.int64] = np.array(
        [
            [where[name] + labels[name].index(label) for name in PARAMETERS]
            for label in labels[PARAMETERS[0]]
        ]
    )
    as_wanted = np.flatnonzero((kinds[rows] == np.array(wanted)).all(axis=1))
    return np.take(rows, as_wanted, axis=0)


def _labels(model: "pm.Model", name: str) -> list[Any]:
    (dimension,) = model.named_vars_to_dims[name]
    return list(model.coords[dimension])


@numba.njit(cache=True, error_model="numpy")
def _log_saturation(log_rate, log_exponent, share):  # type: ignore[no-untyped-def]
    """Return the log of -expm1(-exponent·log1p(rate·share)), and its slopes by both logarithms."""
    rate, exponent = math.exp(log_rate), math.exp(log_exponent)
    power = exponent * math.log1p(rate * share)
    reached = -math.expm1(-power)
    by_power = (1.0 - reached) / reached
    by_rate = by_power * exponent * rate * share / (1.0 + rate * share)
    return math.log(reached), by_rate, by_power * power


@numba.njit(cache=True, error_model="numpy")
def _making_up(position, saturation):  # type: ignore[no-untyped-def]
    """Return the dilution that takes the factor at half of the target data to 1, and its slopes."""
    log_rate, log_exponent = position[saturation[0]], position[saturation[1]]
    half, half_by_rate, half_by_exponent = _log_saturation(log_rate, log_exponent, SHARE)
    whole, whole_by_rate, whole_by_exponent = _log_saturation(log_rate, log_exponent, 1.0)
    by_exponent = (half_by_exponent - whole_by_exponent) / (1.0 - SHARE)
    return (
        (half - whole) / (1.0 - SHARE),
        (half_by_rate - whole_by_rate) / (1.0 - SHARE),
        by_exponent,
    )


@numba.njit(cache=True, error_model="numpy")
def add_saturation(position, saturations):  # type: ignore[no-untyped-def]
    """Turn what half of the target data gives into dilutions, in place.

    Parameters
    ----------
    position : ndarray, shape (dimensions,)
        Unconstrained values, but for dilutions less what makes up for the factors.
    saturations : ndarray of int, shape (sets, 3)
        From `saturations_of`.
    """
    for k in range(saturations.shape[0]):
        position[saturations[k, 2]] += _making_up(position, saturations[k])[0]


@numba.njit(cache=True, error_model="numpy")
def take_saturation(position, saturations):  # type: ignore[no-untyped-def]
    """Turn dilutions into what half of the target data gives, in place: `add_saturation` undone.

    Parameters
    ----------
    position, saturations
        As in `add_saturation`.
    """
    for k in range(saturations.shape[0]):
        position[saturations[k, 2]] -= _making_up(position, saturations[k])[0]


@numba.njit(cache=True, error_model="numpy")
def join_saturation_slopes(slopes, position, saturations):  # type: ignore[no-untyped-def]
    """Turn slopes by dilutions into those by what the sampler has, in place; positions, too.

    Parameters
    ----------
    slopes, position : ndarray, shape (dimensions,)
        The slopes and where they were taken, with dilutions.
    saturations
        As in `add_saturation`.
    """
    for k in range(saturations.shape[0]):
        rate, exponent, dilution = saturations[k]
        moved, by_rate, by_exponent = _making_up(position, saturations[k])
        slopes[rate] += slopes[dilution] * by_rate
        slopes[exponent] += slopes[dilution] * by_exponent
        position[dilution] -= moved


# All of them, each before those that call it.
COMPILED = (_log_saturation, _making_up, add_saturation, take_saturation, join_saturation_slopes)

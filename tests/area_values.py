"""What series of areas stand for, and areas in plain loops: written apart from `bayes_cpt.laws`."""

import math

import numpy as np
from numpy.typing import ArrayLike

from bayes_cpt.arrays import Floats
from bayes_cpt.laws.areas import AreaForm
from bayes_cpt.laws.pretraining import Annealing


def level_values(series: Floats, form: AreaForm, momenta: ArrayLike) -> Floats:
    """Return levels from their series, shape (..., points) for momenta of shape (...)."""
    return np.asarray(form.momenta.basis(np.log1p(-np.asarray(momenta))) @ series.T)


def annealing_area(rates: ArrayLike, momentum: float, before: float) -> Floats:
    """Return S2 after each step of a schedule by the annealing term at zeta 1 (Eq. 1), shape (steps,)."""
    rates = np.asarray(rates)
    level = plain_levels(rates, momentum, before, np.ones(rates.size))
    return np.asarray(Annealing().area(before, level, {"lambda": momentum, "C1": 1.0}, np))


def forward_values(series: Floats, form: AreaForm, power: float) -> Floats:
    """Return S1 from the series of its log, shape (points,)."""
    return np.exp(np.asarray(form.powers.basis(np.float64(power)) @ series.T))


def plain_levels(rates: Floats, momentum: float, before: float, paces: Floats) -> Floats:
    """Return the level after each step, one step at a time; the memory's clock moves by `paces`."""
    levels, level = [], before
    # What is kept is near 1 where the clock stands nearly still.
    taken = 1.0 if momentum == 0.0 else -np.expm1(paces * math.log(momentum))
    for own, share in zip(rates, np.broadcast_to(taken, rates.shape), strict=True):
        level += share * (own - level)
        levels.append(level)
    return np.array(levels)

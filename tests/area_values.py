"""What series of areas stand for, and areas in plain loops: written apart from `bayes_cpt.laws`."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayes_cpt.arrays import Floats
from bayes_cpt.laws import Annealing
from bayes_cpt.laws.areas import AreaForm, learning_rate_level


def level_values(series: Floats, form: AreaForm, momenta: ArrayLike) -> Floats:
    """Return levels from their series, shape (..., points) for momenta of shape (...)."""
    return np.asarray(form.momenta.basis(np.asarray(momenta)) @ series.T)


def annealing_area(rates: ArrayLike, momentum: float, before: float) -> Floats:
    """Return S2 after each step of a schedule by the annealing term at zeta 1 (Eq. 1), shape (steps,)."""
    level = learning_rate_level(rates, momentum, before)
    return np.asarray(Annealing().area(before, level, {"lambda": momentum, "C1": 1.0}, np))


def forward_values(series: Floats, form: AreaForm, power: float) -> Floats:
    """Return S1 from the series of its log, shape (points,)."""
    return np.exp(np.asarray(form.powers.basis(np.float64(power)) @ series.T))


def plain_level(rates: Any, momentum: float, before: float, clock: float, rate: float) -> float:
    """Return the level after all steps, one step at a time; `rate` is where the clock counts steps."""
    level = before
    for own in rates:
        # What is taken is far below 1 where the clock stands nearly still.
        taken = -math.expm1((own / rate) ** clock * math.log(momentum))
        level += taken * (own - level)
    return level

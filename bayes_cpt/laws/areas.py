"""Forward area S1, annealing area S2 and the level behind it (docs/law.md, "Areas").

The annealing area is reckoned by the *level* e of the learning rate: what the model still feels of it, an
exponential mean with the memory of the annealing, for which ``(1 - lambda)·S2 = eta_0 - e`` exactly.
Areas of whole runs are in `bayes_cpt.laws.phase_areas`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.laws.series import (
    MOMENTA,
    MomentumRange,
    PowerRange,
    momentum_parts,
)

# Levels and areas below this count as this: a power of 0 has no slope.
SMALLEST = 1e-30


@dataclass(frozen=True)
class AreaForm:
    """How a law reckons areas, and where the numbers that they depend on lie.

    With the defaults the areas are those of arXiv 2505.07796.

    Parameters
    ----------
    momenta : MomentumRange
        Where levels will be evaluated.
    powers : PowerRange
        Where forward areas will be evaluated; 1 in the printed law.
    reference_rate : float
        Raw learning rate at which the memory's clock counts steps.
    memory_clock : float
        nu: in a step at learning rate eta the memory fades by ``lambda^((eta/reference_rate)^nu)``.
        0 counts steps.
    count_warmup : bool
        Whether PT starts from level 0, and S2_pt counts from the reference rate. Else a warm-up does not
        count, and S2_pt counts from the run's own learning rate after it, as printed.
    carry_memory : bool
        Whether the level at the transfer is that of the base. Else, and where a run starts with a new
        optimiser, it is the base's last learning rate.
    shift_powers : PowerRange
        Where forward areas that the shift sees will be evaluated; 1 in the printed law.
    """

    momenta: MomentumRange = field(default_factory=MomentumRange)
    powers: PowerRange = field(default_factory=PowerRange)
    reference_rate: float = 1.0
    memory_clock: float = 0.0
    count_warmup: bool = False
    carry_memory: bool = False
    shift_powers: PowerRange = field(default_factory=PowerRange)

    def around(self, coefficients: Mapping[str, Any]) -> Self:
        """Return the form with ranges just around some coefficients: fewer terms in each series.

        Parameters
        ----------
        coefficients : mapping
            Of a law, with lambda, rho and rho_s where the law has them.
        """
        found = [np.ravel(coefficients[name]) for name in MOMENTA if name in coefficients]
        momenta = MomentumRange.around(np.concatenate(found)) if found else self.momenta
        powers = PowerRange.around(coefficients["rho"]) if "rho" in coefficients else self.powers
        shift = PowerRange.around(coefficients["rho_s"]) if "rho_s" in coefficients else None
        return replace(
            self, momenta=momenta, powers=powers, shift_powers=shift or self.shift_powers
        )

    def level_basis(self, coefficients: Mapping[str, Any]) -> Floats:
        """Return the basis of the series of levels on each validation set, shape (domains, draws, nodes).

        One stands for all where the law has no slow pace.

        Parameters
        ----------
        coefficients : mapping
            As for `bayes_cpt.laws.series.momentum_parts`, shape (draws,), and (draws, domains).
        """
        parts = momentum_parts(coefficients)
        return np.asarray(
            sum(
                np.atleast_2d(np.asarray(weight).T)[..., None] * self.momenta.basis(momentum)
                for momentum, weight in parts
            )
        )

    def levels(self, table: Any, coefficients: Mapping[str, Any], xp: Any = np) -> Any:
        """Return levels at points, shape (..., points).

        Parameters
        ----------
        table : array, shape (points, nodes)
            As in `bayes_cpt.laws.phase_areas.PhaseAreas`.
        coefficients : mapping
            As for `bayes_cpt.laws.series.momentum_parts`, with those of validation sets gathered per point.
        """
        parts = [
            weight * xp.maximum(self.momenta.basis(momentum, xp) @ table.T, SMALLEST)
            for momentum, weight in momentum_parts(coefficients)
        ]
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]

    def levels_in_draws(self, table: Floats, basis: Floats) -> Floats:
        """Return levels at points in draws, shape (points, draws), in the order of memory of the basis.

        Parameters
        ----------
        table : ndarray, shape (points, nodes)
            As in `bayes_cpt.laws.phase_areas.PhaseAreas`.
        basis : ndarray, shape (nodes, draws)
            From `level_basis`, of one validation set, draws last.
        """
        return np.maximum(table @ basis, SMALLEST)

    def forward_basis(self, coefficients: Mapping[str, Any], xp: Any = np) -> Any:
        """Return the basis of the series of log forward areas, shape (..., nodes)."""
        power = coefficients.get("rho", xp.ones_like(coefficients["lambda"]))
        return self.powers.basis(power, xp)

    def paces(self, learning_rates: Floats) -> Floats:
        """Return how far the memory's clock moves in each step, shape (steps,).

        Parameters
        ----------
        learning_rates : ndarray, shape (steps,)
            Raw.
        """
        return np.asarray((learning_rates / self.reference_rate) ** self.memory_clock)

    def log_shift_area(self, learning_rates: Floats, points: Ints) -> Floats:
        """Return the series of the log of the forward area that the shift sees, LR·steps.

        That is ``eta_ref·sum (eta/eta_ref)^rho_s``.

        Parameters
        ----------
        learning_rates : ndarray, shape (steps,)
            Raw.
        points : ndarray of int, shape (points,)
            0 is before the first step.

        Returns
        -------
        ndarray, shape (points, nodes)
        """
        interval = self.shift_powers.interval
        relative = learning_rates / self.reference_rate
        areas = self.reference_rate * forward_areas(relative, interval.at_nodes(), points)
        return interval.series(np.log(np.maximum(areas, SMALLEST)))

    def shift_basis(self, coefficients: Mapping[str, Any]) -> Floats:
        """Return the basis of that series on each validation set, shape (domains, draws, nodes).

        Parameters
        ----------
        coefficients : mapping
            With rho_s, shape (draws, domains), where it is free.
        """
        power = coefficients.get("rho_s", np.ones((1, 1)))
        return np.asarray(self.shift_powers.basis(np.asarray(power).T))


def forward_area(learning_rates: ArrayLike, power: float = 1.0) -> Floats:
    """Return the forward area S1, the sum of the learning rates to a power, after each step.

    Parameters
    ----------
    learning_rates : array_like, shape (steps,)
        Raw learning rate of each step.

    Returns
    -------
    ndarray, shape (steps,)
        S1 in LR^rho·steps.

    Examples
    --------
    >>> forward_area([0.5, 0.25, 0.25]).tolist()
    [0.5, 0.75, 1.0]
    """
    rates = np.asarray(learning_rates, dtype=np.float64)
    return np.cumsum(rates if power == 1.0 else rates**power)


def forward_areas(rates: Floats, powers: Floats, points: Ints) -> Floats:
    """Return the forward area of several powers after steps in any order, shape (points, powers).

    Parameters
    ----------
    rates : ndarray, shape (steps,)
        Raw learning rate of each step.
    powers : ndarray, shape (powers,)
        Values of rho, above 0.
    points : ndarray of int, shape (points,)
        0 is before the first step.
    """
    from bayes_cpt.laws.recursions import fill_forward_areas

    steps, place = np.unique(points, return_inverse=True)
    table = np.empty((steps.size, powers.size))
    fill_forward_areas(np.ascontiguousarray(rates), np.ascontiguousarray(powers), steps, table)
    return np.asarray(table[place])


def run_levels(
    rates: Floats, paces: Floats, start: Floats, momenta: Floats, points: Ints
) -> Floats:
    """Return the level e at steps in any order, shape (points, momenta).

    ``e_t = d_t·e_{t-1} + (1 - d_t)·eta_t`` with ``d_t = lambda^pace_t``.

    Parameters
    ----------
    rates, paces : ndarray, shape (steps,)
        Raw learning rate of each step, and how far the memory's clock moves in it.
    start : ndarray, shape (momenta,)
        e_0 for each momentum.
    momenta : ndarray, shape (momenta,)
        Rising or falling.
    points : ndarray of int, shape (points,)
    """
    from bayes_cpt.laws.recursions import fill_levels

    with np.errstate(divide="ignore"):
        logs = np.log(momenta)
    levels = np.array(start, dtype=np.float64)
    steps, place = np.unique(points, return_inverse=True)
    table = np.empty((steps.size, momenta.size))
    fill_levels(
        np.ascontiguousarray(rates), np.ascontiguousarray(paces), levels, logs, steps, table
    )
    return np.asarray(table[place])

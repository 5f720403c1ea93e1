"""Forward area S1, annealing area S2 and the level behind it (docs/law.md, "Areas").

The annealing area is reckoned by the *level* e of the learning rate: what the model still feels of it, an
exponential mean with the memory of the annealing, for which ``(1 - lambda)·S2 = eta_0 - e`` exactly.
Areas of whole runs are in `bayes_cpt.laws.phase_areas`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.laws.series import HIGHEST_POWER, LOWEST_POWER, SHORTEST, Interval, momentum_parts

# Levels and areas below this count as this: a power of 0 has no slope.
SMALLEST = 1e-30
# Room around numbers so that none lies on the edge of its range.
ROOM = 1e-3


@dataclass(frozen=True)
class AreaForm:
    """How a law reckons areas, and where the numbers that they depend on lie.

    With the defaults the areas are those of arXiv 2505.07796. Methods take the coefficients of a law in
    draws: lambda, and lambda_slow, rho, shape (draws,), w_slow, rho_s, shape (draws, domains), where it
    has them.
    """

    momenta: Interval = field(default_factory=Interval.of_momenta)  # where levels will be evaluated
    # Where forward areas will be evaluated; 1 in the printed law
    powers: Interval = field(default_factory=Interval.of_powers)
    reference_rate: float = 1.0  # raw learning rate at which the memory's clock counts steps
    # nu: in a step at learning rate eta the memory fades by ``lambda^((eta/reference_rate)^nu)``. 0 counts
    # steps.
    memory_clock: float = 0.0
    # Whether PT starts from level 0, and S2_pt counts from the reference rate. Else a warm-up does not
    # count, and S2_pt counts from the run's own learning rate after it, as printed.
    count_warmup: bool = False
    # Whether the level at the transfer is that of the base. Else, and where a run starts with a new
    # optimiser, it is the base's last learning rate.
    carry_memory: bool = False
    # Where forward areas that the shift sees will be evaluated; 1 in the printed law
    shift_powers: Interval = field(default_factory=Interval.of_powers)

    def around(self, coefficients: Mapping[str, Any]) -> Self:
        """Return the form with ranges just around some coefficients: fewer terms in each series."""
        distances = 1.0 - np.concatenate([np.ravel(own) for own, _ in momentum_parts(coefficients)])
        low = max(1.0 - float(distances.max()) * (1.0 + ROOM), SHORTEST)
        high = 1.0 - float(distances.min()) * (1.0 - ROOM)
        changed: dict[str, Any] = {"momenta": Interval.of_momenta(low, high)}
        for name, letter in (("powers", "rho"), ("shift_powers", "rho_s")):
            if letter in coefficients:
                low, high = float(coefficients[letter].min()), float(coefficients[letter].max())
                if low < high:
                    low = max(low * (1.0 - ROOM), LOWEST_POWER)
                    high = min(high * (1.0 + ROOM), HIGHEST_POWER)
                changed[name] = Interval.of_powers(low, high)
        return replace(self, **changed)

    def node_momenta(self) -> Floats:
        """Return the momentum at each node of the levels' series, shape (nodes,), rising."""
        return np.asarray(-np.expm1(self.momenta.at_nodes()))

    def level_basis(self, coefficients: Mapping[str, Any]) -> Floats:
        """Return the basis of the series of levels on each validation set, shape (domains, draws, nodes).

        One stands for all where the law has no slow pace.
        """
        whole: Any = 0.0
        for momentum, weight in momentum_parts(coefficients):
            shares = np.atleast_2d(np.asarray(weight).T)[..., None]
            whole = whole + shares * self.momenta.basis(np.log(1.0 - momentum))
        return np.asarray(whole)

    def forward_basis(self, coefficients: Mapping[str, Any]) -> Floats:
        """Return the basis of the series of log forward areas, shape (..., nodes)."""
        return self.powers.basis(coefficients.get("rho", np.ones_like(coefficients["lambda"])))

    def paces(self, learning_rates: Floats) -> Floats:
        """Return how far the memory's clock moves in each step at raw learning rates, shape (steps,)."""
        return np.asarray((learning_rates / self.reference_rate) ** self.memory_clock)

    def shift_basis(self, coefficients: Mapping[str, Any]) -> Floats:
        """Return the basis of the series of `log_areas` of the shift, shape (domains, draws, nodes)."""
        power = coefficients.get("rho_s", np.ones((1, 1)))
        return self.shift_powers.basis(np.asarray(power).T)


def forward_areas(rates: Floats, powers: Floats, points: Ints) -> Floats:
    """Return the forward area of several powers after steps in any order, shape (points, powers)."""
    from bayes_cpt.laws.recursions import fill_forward_areas

    return _at_steps(points, fill_forward_areas, rates, powers)


def log_areas(
    powers: Interval,
    learning_rates: Floats,
    points: Ints,
    before: Floats | float = 0.0,
    unit: float = 1.0,
) -> Floats:
    """Return the series of the log of the forward area ``unit·sum (eta/unit)^rho``, LR^rho·steps.

    It has the shape (points, nodes); `before` is the area before the first step, shape (nodes,) or ().
    """
    areas = unit * forward_areas(learning_rates / unit, powers.at_nodes(), points) + before
    return powers.series(np.log(np.maximum(areas, SMALLEST)))


def run_levels(
    rates: Floats, paces: Floats, start: Floats, momenta: Floats, points: Ints
) -> Floats:
    """Return the level e at steps in any order, shape (points, momenta), from e_0 of each momentum.

    ``e_t = d_t·e_{t-1} + (1 - d_t)·eta_t`` with ``d_t = lambda^pace_t``: in a step the memory's clock moves
    by its pace.
    """
    from bayes_cpt.laws.recursions import fill_levels

    with np.errstate(divide="ignore"):
        logs = np.log(momenta)
    return _at_steps(points, fill_levels, rates, paces, np.array(start, dtype=np.float64), logs)


def _at_steps(points: Ints, fill: Callable[..., None], *arrays: Floats) -> Floats:
    """Return what a recursion fills in at steps in any order, a column for each of the last array."""
    steps, place = np.unique(points, return_inverse=True)
    table = np.empty((steps.size, arrays[-1].size))
    fill(*map(np.ascontiguousarray, arrays), steps, table)
    return np.asarray(table[place])

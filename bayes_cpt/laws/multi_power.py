"""The multi-power term: what falls of the learning rate take off the loss (Luo et al., ICLR 2025).

Of arXiv 2503.12811, beside the power of the forward area:

    -B·sum_{k<=t} (eta_{k-1} - eta_k)·G(eta_k^-gamma·S_k(t)),    G(x) = 1 - (1 + C·x)^-beta

with S_k(t) = eta_k + ... + eta_t. It stands where the annealing area of Eq. 1 of arXiv 2505.07796 stands,
``-C1·S2``. There a fall takes effect in 1/(1 - lambda) steps, whatever the learning rate has become; here
as the model moves on, so that a learning rate of 0 gains nothing.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats
from bayes_cpt.laws.term import Parameter, Reference, Values

# The log of a number that counts as 0, and whose powers are still finite.
LOG_ZERO = -300.0
# Learning rates below this have the slope of this one: at 0 it is infinite.
SMALLEST = 1e-12
# Falls that a table keeps of each point: more are merged with their neighbours.
FALLS_KEPT = 64


@dataclass(frozen=True, eq=False)
class Falls:
    """The falls of a learning rate up to some steps, shape (points, falls) each; padded with falls of 0.

    Parameters
    ----------
    size : ndarray
        eta_{k-1} - eta_k, raw; negative where the learning rate rises.
    log_rate : ndarray
        log eta_k.
    log_rest : ndarray
        log S_k(t), of what is left of the forward area from the fall to the point.
    """

    size: Any
    log_rate: Any
    log_rest: Any

    @classmethod
    def of(
        cls, rates: Floats, before: float, steps: NDArray[np.int64], most: int | None = None
    ) -> Self:
        """Return the falls of a schedule up to some of its steps.

        Parameters
        ----------
        rates : ndarray, shape (schedule steps,)
            Raw learning rates.
        before : float
            eta_0: in CPT the last PT learning rate.
        steps : ndarray of int, shape (points,)
            At least 1.
        most : int, optional
            Neighbouring falls are merged until about as many are left, fewest of them next to the point
            and at the start; every fall is kept unless given.
        """
        sizes = -np.diff(rates, prepend=before)
        area = np.concatenate([[0.0], np.cumsum(rates)])
        rows = [_row(rates, sizes, area, int(step), most) for step in steps]
        width = max(row.shape[1] for row in rows)
        padded = [np.pad(row, ((0, 0), (0, width - row.shape[1]))) for row in rows]
        size, rate, rest = np.stack(padded, axis=1)
        return cls(size, _log(rate), _log(rest))


def _row(rates: Floats, sizes: Floats, area: Floats, step: int, most: int | None) -> Floats:
    """Return sizes, learning rates and areas left of the falls up to a step, shape (3, falls)."""
    kept = np.flatnonzero(sizes[:step])
    if most is None or kept.size <= most:
        return np.stack([sizes[kept], rates[kept], area[step] - area[kept]])
    # A fall next to the point has not yet taken effect, and a warm-up from 0 changes most at first.
    near = np.unique(np.round(np.geomspace(1.0, kept.size, most // 2)).astype(np.int64))
    first = np.union1d(near - 1, kept.size - near)
    middle = kept[(first + np.append(first[1:], kept.size)) // 2]
    merged = np.add.reduceat(sizes[kept], first)
    return np.stack([merged, rates[middle], area[step] - area[middle]])


def _log(values: Floats) -> Floats:
    return np.log(np.maximum(values, np.exp(LOG_ZERO)))


@dataclass(frozen=True)
class MultiPower:
    """``-B·sum_k (eta_{k-1} - eta_k)·(1 - (1 + C·eta_k^-gamma·S_k)^-beta)`` (Luo et al.).

    Points must carry their `Falls` as ``falls``.
    """

    name: str = "multi_power"

    def parameters(self) -> dict[str, Parameter]:
        """Return the gain of a full anneal, how fast a fall takes effect, and the two exponents."""
        return {
            "multi_power_gain": Parameter(
                "fall of the loss when the learning rate goes from the PT peak to near 0",
                "nats/token",
            ),
            "multi_power_rate": Parameter(
                "C·eta^(1 - gamma) at the PT peak: pace at which a fall takes effect", "1/steps"
            ),
            "multi_power_exponent": Parameter("beta of the multi-power term"),
            "multi_power_slowing": Parameter("gamma of the multi-power term"),
        }

    def coefficients(self, parameters: Values, reference: Reference, xp: Any) -> dict[str, Any]:
        """Return B, C, beta and gamma, named as this term's: the shift has a B and a beta too."""
        gamma = parameters["multi_power_slowing"]
        scale = xp.exp((gamma - 1.0) * np.log(reference.learning_rate))
        return {
            "B_mp": parameters["multi_power_gain"] / reference.learning_rate,
            "C_mp": parameters["multi_power_rate"] * scale,
            "beta_mp": parameters["multi_power_exponent"],
            "gamma_mp": gamma,
        }

    def reduced(self, falls: Falls, coefficients: Values, xp: Any) -> Any:
        """Return ``sum_k (eta_{k-1} - eta_k)·G``, the fall of the LR that has taken effect, (..., points).

        Parameters
        ----------
        falls : Falls
        coefficients : mapping
            C_mp, beta_mp and gamma_mp, shape (..., points) or (..., 1).
        xp : module
            `numpy` or `pytensor.tensor`.
        """
        pace, beta, gamma = (
            xp.expand_dims(coefficients[name], -1) for name in ("C_mp", "beta_mp", "gamma_mp")
        )
        moved = xp.exp(falls.log_rest - gamma * falls.log_rate)
        left = xp.exp(-beta * xp.log1p(pace * moved))
        return xp.sum(falls.size * (1.0 - left), axis=-1)

    def loss(self, points: Any, coefficients: Values, xp: Any) -> Any:
        """Return what falls of the learning rate take off the loss (rises add to it)."""
        return -coefficients["B_mp"] * self.reduced(points.falls, coefficients, xp)


def reduced_at_end(
    rates: Floats, counts: Floats, before: float, pace: Floats, beta: float, gamma: float
) -> tuple[Floats, Floats]:
    """Return `MultiPower.reduced` after the last step of a schedule, and its slope by every rate.

    Parameters
    ----------
    rates : ndarray, shape (stretches,)
        Raw learning rates.
    counts : ndarray, shape (stretches,)
        For how many steps each is held; all 1 where every step has its own.
    before : float
        eta_0.
    pace : ndarray, shape (nodes,)
        C_mp.
    beta, gamma : float

    Returns
    -------
    reduced : ndarray, shape (nodes,)
    slopes : ndarray, shape (nodes, stretches)
    """
    from bayes_cpt.laws.schedule_ends import fill_reduced

    safe = np.maximum(rates, SMALLEST)
    rest = np.cumsum((counts * rates)[::-1])[::-1]
    moved, by_rate = safe**-gamma, gamma * rest / safe
    reduced, slopes = np.empty(pace.size), np.empty((pace.size, rates.size))
    sizes = -np.diff(rates, prepend=before)
    fill_reduced(sizes, counts, moved, rest, by_rate, pace, beta, reduced, slopes)
    return reduced, slopes

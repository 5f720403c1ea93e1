"""Model size: what more parameters take off the loss, and how the other terms change with them (Eq. 7)."""

from dataclasses import dataclass
from typing import Any

from bayes_cpt.laws.term import FACTOR, Parameter, Reference, Values

# Coefficients that change with model size, each as a power of it, and the coefficient that is its exponent.
BY_SIZE = {"A": "gamma_A", "C1": "gamma_1", "C2": "gamma_2", "B": "gamma_B", "D": "gamma_B"}
# Coefficients of single sizes: the parameter that counts in sds of another, and that one.
OF_SIZES = {
    "delta_N": ("size_deviation", "size_misfit"),
    "epsilon_N": ("annealing_deviation", "annealing_misfit"),
}
# Of `BY_SIZE` those that a single size has off the power of size by ``exp(epsilon_N)``.
GAINS = ("C1", "C2")


@dataclass(frozen=True)
class ModelSize:
    """``F·(n^-gamma_3 - 1) + delta_N`` with ``n = N/N_ref`` (Eq. 7 of arXiv 2505.07796).

    The paper prints ``F·N^-gamma_3``. Counted from the reference size, L0 is that of a model of this size,
    and level and exponent are told by different things. Other coefficients change with size as well:
    ``A·n^gamma_A``, ``C1·n^gamma_1``, ``C2·n^gamma_2``, ``B·n^gamma_B`` (and D with B). Eq. 7 has gamma_1
    and gamma_2, and takes the power and the shift as the same for all sizes.

    No family of models lies on a power of its size. One size lies off it by ``delta_N``, and its annealing
    gain by a factor ``exp(epsilon_N)``: shared by all its runs, and drawn from the same distributions for
    all sizes, also for one that was never trained.

    Parameters
    ----------
    continual : bool
        Whether there is a CPT phase.
    """

    continual: bool = True
    name: str = "size"

    def parameters(self) -> dict[str, Parameter]:
        """Return slope and exponent at the reference size, the other exponents, and the single sizes."""
        parameters = {
            "size_slope": Parameter(
                "fall of the loss per e-fold of model size, at the reference size", "nats/token"
            ),
            "size_exponent": Parameter("gamma_3, exponent of model size"),
            "power_by_size": Parameter(
                "gamma_A, exponent of size in the power of the forward area"
            ),
            "annealing_by_size": Parameter("gamma_1, exponent of size in the annealing gain of PT"),
        }
        if self.continual:
            parameters |= {
                "ratio_by_size": Parameter(
                    "gamma_2 - gamma_1, exponent of size in the annealing gain of CPT against PT"
                ),
                "shift_by_size": Parameter("gamma_B, exponent of size in the distribution shift"),
            }
        return parameters | {
            "size_misfit": Parameter("sd of one size about the power of size", "nats/token"),
            "size_deviation": Parameter(
                "how far one size lies off the power of size, in its sds", dims="size_domain"
            ),
            "annealing_misfit": Parameter(
                "sd of the log annealing gain of one size about its power of size"
            ),
            "annealing_deviation": Parameter(
                "how far the log annealing gain of one size lies off its power of size, in its sds",
                dims="size_domain",
            ),
        }

    def coefficients(self, parameters: Values, reference: Reference, xp: Any) -> dict[str, Any]:
        """Return F, the exponents, and the level of each size."""
        exponent, annealing = parameters["size_exponent"], parameters["annealing_by_size"]
        coefficients = {
            "F": parameters["size_slope"] / exponent,
            "gamma_3": exponent,
            "gamma_A": parameters["power_by_size"],
            "gamma_1": annealing,
        }
        if self.continual:
            coefficients["gamma_2"] = annealing + parameters["ratio_by_size"]
            coefficients["gamma_B"] = parameters["shift_by_size"]
        for name, (sampled, spread) in OF_SIZES.items():
            deviation, misfit = parameters[sampled], parameters[spread]
            # The sizes of a validation set come one after the other.
            sizes = deviation.shape[-1] // misfit.shape[-1]
            coefficients[name] = deviation * xp.repeat(misfit, sizes, axis=-1)
        return coefficients

    def loss(self, points: Any, coefficients: Values, xp: Any) -> Any:
        """Return what size changes in the loss: 0 at the reference size, but for the size's own level."""
        change = xp.expm1(-coefficients["gamma_3"] * points.log_size)
        return coefficients["F"] * change + coefficients["delta_N"]


def size_factors(points: Any, gathered: Values, xp: Any) -> dict[str, Any]:
    """Return by what model size multiplies coefficients, for `bayes_cpt.laws.term.sized`.

    Parameters
    ----------
    points : Points
    gathered : mapping
        Coefficients of each point.
    xp : module
        `numpy` or `pytensor.tensor`.

    Returns
    -------
    dict of str to array
        Empty where the law has no size.
    """
    factors = {}
    for name, exponent in BY_SIZE.items():
        if name in gathered and exponent in gathered:
            power = gathered[exponent] * points.log_size
            log_factor = power + gathered["epsilon_N"] if name in GAINS else power
            factors[f"{name}{FACTOR}"] = xp.exp(log_factor)
    return factors

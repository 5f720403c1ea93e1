"""Several targets: what the share of each in the data does to every validation set (docs/targets.md)."""

from dataclasses import dataclass
from typing import Any

from bayes_cpt.laws.term import FACTOR, Parameter, Reference, Values

# Coefficients of what a transfer changes: on general data each target has a factor of its own for them.
FORGOTTEN = ("B", "D")
# Shares of its own data below this leave the pace of a target's shift where it is.
LEAST_SHARE = 1e-6


@dataclass(frozen=True)
class Mixture:
    """How a mixture of targets moves the validation set of each of them, and the general one.

    With r the share of all targets in the batches, w_k that of target k among them, ``x = r·w_k`` the share
    of its own data and ``y = r·(1 - w_k)`` that of the other targets', the shift of target k (Eq. 8) is

        B_k·(h_k(x) + psi_k·y)·(1 - (1 + E_k·(x/h_k(x))^omega_k·S1_cpt)^-beta_k)

    and its transient ``D_k·(x + psi_k·y)·(1 - exp(-t/tau))``: its own data act as a single target's do
    beside replay, the others' by a share psi_k, below 0 where they make it worse. On general data B and D
    of Eq. 8 are multiplied by ``sum_k w_k·phi_k``: targets differ in what they make a model forget. With
    one target, w = 1 and y = 0, it is the law of one target. The paper has no such form.
    """

    def parameters(self) -> dict[str, Parameter]:
        """Return psi, phi, and how unlike targets are."""
        return {
            "target_transfer": Parameter(
                "psi, what data of other targets do to a target, as a share of what its own do"
            ),
            "forgetting_factor": Parameter(
                "phi, by what a target multiplies the shift of the general validation set"
            ),
            "target_spread": Parameter(
                "sd of single targets about their mean, in sds of the prior of a parameter",
                dims="pooled",
            ),
        }

    def coefficients(self, parameters: Values, reference: Reference, xp: Any) -> dict[str, Any]:
        """Return psi and phi."""
        return {
            "psi": parameters["target_transfer"],
            "phi": parameters["forgetting_factor"],
        }


def own_share(points: Any, coefficients: Values) -> Any:
    """Return the share of a validation set's own data in the batches: all of the targets' for general data.

    Parameters
    ----------
    points : Points
    coefficients : mapping
        Gathered per point; with ``psi`` where there are several targets.
    """
    if "psi" not in coefficients:
        return points.target_share
    return points.target_share - points.other_share


def by_others(points: Any, coefficients: Values) -> Any:
    """Return what the data of other targets add to a replay factor: ``psi_k·y``, 0 for one target.

    Parameters
    ----------
    points : Points
    coefficients : mapping
        Gathered per point.
    """
    if "psi" not in coefficients:
        return 0.0
    return coefficients["psi"] * points.other_share


def mixture_factors(gathered: Values, factors: dict[str, Any]) -> dict[str, Any]:
    """Return the factors of `bayes_cpt.laws.term.sized` with those of the mixture of targets.

    Parameters
    ----------
    gathered : mapping
        Coefficients of each point; with phi where there are several targets.
    factors : dict of str to array
        Those of model size.
    """
    if "phi" not in gathered:
        return factors
    all_factors = dict(factors)
    for name in FORGOTTEN:
        if name in gathered:
            known = all_factors.get(f"{name}{FACTOR}")
            all_factors[f"{name}{FACTOR}"] = gathered["phi"] * (1.0 if known is None else known)
    return all_factors

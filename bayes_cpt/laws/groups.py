"""What groups of runs have for themselves: sizes (Eq. 7), batches (App. F), several targets."""

from dataclasses import dataclass
from typing import Any

from bayes_cpt.laws.term import FACTOR, Parameter, Reference, Values, not_worn_off, where_free
from bayes_cpt.laws.transfer import OF_BATCH, shift_progress

# Coefficients that change with model size, each as a power of it, and the coefficient that is its exponent.
BY_SIZE = {"A": "gamma_A", "C1": "gamma_1", "C2": "gamma_2", "B": "gamma_B"}
# Coefficients of single sizes: the parameter that counts in sds of another, and that one.
OF_SIZES = {
    "delta_N": ("size_deviation", "size_misfit"),
    "epsilon_N": ("annealing_deviation", "annealing_misfit"),
}
# Of `BY_SIZE` those that a single size has off the power of size by ``exp(epsilon_N)``, and that batch size
# changes.
GAINS = ("C1", "C2")


@dataclass(frozen=True)
class ModelSize:
    """``F·(n^-gamma_3 - 1) + delta_N`` with ``n = N/N_ref`` (Eq. 7 of arXiv 2505.07796).

    The paper prints ``F·N^-gamma_3``. Counted from the reference size, L0 is that of a model of this size,
    and different data determine level and exponent. Other coefficients change with size as well:
    ``A·n^gamma_A``, ``C1·n^gamma_1``, ``C2·n^gamma_2``, ``B·n^gamma_B``. Eq. 7 has gamma_1
    and gamma_2, and takes the power and the shift as the same for all sizes.

    No family of models lies on a power of its size. One size lies off it by ``delta_N``, and its annealing
    gain by a factor ``exp(epsilon_N)``: shared by all its runs, and drawn from the same distributions for
    all sizes, also for one that was never trained.

    Large models are trained in large batches, whose gradients have less noise for an anneal to take away:
    both gains change with the batch as ``V^gamma_V``, V being the tokens per step over the reference ones.
    """

    continual: bool = True  # whether there is a CPT phase
    # Whether the law tells what CPT changes from the measured loss of a base, and nothing of PT. What size
    # adds then comes with CPT, in the time of the base offset.
    starts_at_base: bool = False
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
            "annealing_by_batch": Parameter(
                "gamma_V, exponent of batch size in the annealing gain", printed=0.0
            ),
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
        """Return F, the exponents, and the level of each size; gamma_V where it is free."""
        exponent, annealing = parameters["size_exponent"], parameters["annealing_by_size"]
        coefficients = {
            "F": parameters["size_slope"] / exponent,
            "gamma_3": exponent,
            "gamma_A": parameters["power_by_size"],
            "gamma_1": annealing,
        } | where_free(parameters, annealing_by_batch="gamma_V")
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
        power = xp.expm1(-coefficients["gamma_3"] * points.log_size)
        change = coefficients["F"] * power + coefficients["delta_N"]
        if not self.starts_at_base:
            return change
        return change * (1.0 - not_worn_off(points, coefficients, xp))


@dataclass(frozen=True)
class Mixture:
    """How a mixture of targets moves the validation set of each of them, and the general one.

    With r the share of all targets in the batches, w_k that of target k among them, ``x = r·w_k`` the share
    of its own data and ``y = r·(1 - w_k)`` that of the other targets', the shift of target k (Eq. 8) is

        B_k·(h_k(x) + psi_k·y)·(1 - (1 + E_k·(x/h_k(x))^omega_k·S1_cpt)^-beta_k)

    Its own data act as a single target's do beside replay, the others' by a share psi_k, below 0 where they
    make it worse. On general data B of Eq. 8 is multiplied by ``sum_k w_k·phi_k``: targets differ in what
    they make a model forget. With one target, w = 1 and y = 0, it is the law of one target. The paper has
    no such form.
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
        return {"psi": parameters["target_transfer"], "phi": parameters["forgetting_factor"]}


# Coefficients that single batches have for themselves, and by what a batch multiplies each.
BY_BATCH = {"B": "q_B", "E": "q_E", "beta": "q_beta"}


@dataclass(frozen=True)
class Batches:
    """The shift of each batch: its size at the reference, its rate, and its exponent.

    The paper fits B, E and beta anew for another batch size or sequence length, and keeps the rest of the
    law. So does this: what `bayes_cpt.laws.transfer.Shift` samples has a value for every batch of every
    validation set, and these are alike as far as the data say (`bayes_cpt.model.joint_priors`). B, E
    and beta are those of the usual batch, the first; ``q_B`` ... are by what each batch multiplies them.
    """

    domains: int  # how many validation sets there are

    def parameters(self) -> dict[str, Parameter]:
        """Return how unlike batches are."""
        meaning = "sd of single batches about their mean, in sds of the prior of a parameter"
        return {"batch_spread": Parameter(meaning, dims="pooled")}

    def usual(self, parameters: Values) -> dict[str, Any]:
        """Return the parameters of the law in the usual batch.

        Those of batches come with the shape (..., validation sets times batches).
        """
        count = parameters["shift_rate"].shape[-1] // self.domains
        return dict(parameters) | {name: parameters[name][..., ::count] for name in OF_BATCH}

    def coefficients(self, parameters: Values, reference: Reference, xp: Any) -> dict[str, Any]:
        """Return by what each batch multiplies B, E and beta; nothing where there is one."""
        count = parameters["shift_rate"].shape[-1] // self.domains
        if count == 1:
            return {}
        usual = self.usual(parameters)
        size, rate, exponent = (parameters[name] for name in OF_BATCH)
        usual_size, usual_rate, usual_exponent = (
            xp.repeat(usual[name], count, axis=-1) for name in OF_BATCH
        )
        # How much of its limit the shift has reached at the reference.
        now = shift_progress(rate, 1.0, exponent, xp)
        before = shift_progress(usual_rate, 1.0, usual_exponent, xp)
        return {
            "q_B": size / usual_size * before / now,
            "q_E": rate / usual_rate,
            "q_beta": exponent / usual_exponent,
        }


def factors(points: Any, gathered: Values, xp: Any) -> dict[str, Any]:
    """Return by what size, mixture of targets and batch multiply coefficients: see `sized` of `term.py`."""
    found = {}
    for name, exponent in BY_SIZE.items():
        if name in gathered and exponent in gathered:
            power = gathered[exponent] * points.log_size
            if name in GAINS:
                power = power + gathered["epsilon_N"]
                if "gamma_V" in gathered:
                    power = power + gathered["gamma_V"] * points.log_batch
            found[name] = xp.exp(power)
    # What a transfer changes has, on general data, a factor of its own for each target.
    for name, own in (("B", "phi"), *BY_BATCH.items()):
        if own in gathered:
            found[name] = found[name] * gathered[own] if name in found else gathered[own]
    return {f"{name}{FACTOR}": factor for name, factor in found.items()}

"""The terms of pre-training: the power of the forward area and the annealing gain (Eq. 1)."""

from dataclasses import dataclass
from typing import Any

from bayes_cpt.laws.term import Parameter, Reference, Values


@dataclass(frozen=True)
class Power:
    """``L0 + A·(S1_pt + S1_cpt)^-alpha`` (Eq. 1 and 4 of arXiv 2505.07796).

    Parameters
    ----------
    unknown_base : bool
        Whether S1_pt, of the one base that there is, is a parameter (App. G). The reference forward area
        is then that of the base.
    """

    unknown_base: bool = False
    name: str = "power"

    def parameters(self) -> dict[str, Parameter]:
        """Return loss, slope and exponent at the reference forward area, and S1_pt where it is free."""
        found = {
            "reference_loss": Parameter(
                "PT loss at the reference forward area, before annealing", "nats/token"
            ),
            "reference_slope": Parameter(
                "fall of the PT loss per e-fold of forward area, at the reference", "nats/token"
            ),
            "exponent": Parameter("alpha, exponent of the forward area"),
        }
        if self.unknown_base:
            found["base_forward_area"] = Parameter(
                "S1_pt of the unknown base, as a multiple of the reference CPT forward area",
                dims=None,
            )
        return found

    def coefficients(self, parameters: Values, reference: Reference, xp: Any) -> dict[str, Any]:
        """Return L0, A and alpha, and S1_pt of the base where it is free."""
        alpha = parameters["exponent"]
        excess = parameters["reference_slope"] / alpha
        area = reference.forward_pt
        if self.unknown_base:
            multiple = last_axis(parameters["base_forward_area"])
            area = reference.forward_cpt * multiple * xp.ones_like(alpha)
        found = {
            "L0": parameters["reference_loss"] - excess,
            "A": excess * xp.exp(alpha * xp.log(area)),
            "alpha": alpha,
        }
        return found | {"S1_base": area} if self.unknown_base else found

    def loss(self, points: Any, coefficients: Values, xp: Any) -> Any:
        """Return the loss that a constant learning rate on general data would reach."""
        before = coefficients["S1_base"] if self.unknown_base else points.forward_pt
        area = xp.log(before + points.forward_cpt)
        return coefficients["L0"] + coefficients["A"] * xp.exp(-coefficients["alpha"] * area)


def power_gain(parameters: Values, xp: Any) -> Any:
    """Return what the power takes off the loss from an unknown base to the reference CPT forward area.

    Parameters
    ----------
    parameters : mapping
        Sampled values: exponent, reference_slope, base_forward_area.
    xp : module
        `numpy` or `pytensor.tensor`.
    """
    alpha, multiple = parameters["exponent"], last_axis(parameters["base_forward_area"])
    return -parameters["reference_slope"] / alpha * xp.expm1(-alpha * xp.log1p(1.0 / multiple))


@dataclass(frozen=True)
class Annealing:
    """``-C1·S2_pt - C2·S2_cpt·exp(a1·r_cpt)`` (Eq. 1, 4 and 8).

    The D_pt form printed with ``exp(a1·r_pt)`` is the same curve: its a1 is minus ours and its C2 is
    ours times exp(a1). Counted in r_cpt, C2 belongs to pure replay, that is to more pre-training, where
    it should equal C1.

    Parameters
    ----------
    continual : bool
        Whether there is a CPT phase (C2).
    replay : bool
        Whether the CPT gain depends on replay (a1).
    slow : bool
        Whether a share of the gain comes at a second, slow pace
        (`bayes_cpt.laws.momentum.annealing_basis`). Not in the printed law.
    unknown_base : bool
        Whether eta_0, the learning rate that the base was left at, is a parameter. Areas count from 0.
    """

    continual: bool = True
    replay: bool = True
    slow: bool = False
    unknown_base: bool = False
    name: str = "annealing"

    def parameters(self) -> dict[str, Parameter]:
        """Return the gain of a full anneal, its ratio in CPT, and the memory."""
        found = {
            "annealing_gain": Parameter(
                "fall of the loss when the learning rate goes from the PT peak to 0", "nats/token"
            ),
            "memory": Parameter("1/(1 - lambda), memory of the annealing", "steps", None),
        }
        if self.slow:
            found["slow_memory"] = Parameter("memory of the slow annealing", "steps", None)
            found["slow_share"] = Parameter("share of the annealing gain that is slow", "", None)
        if self.continual:
            found["gain_ratio"] = Parameter("C2/C1, annealing gain of CPT against PT")
        if self.replay:
            found["gain_replay"] = Parameter("a1, log change of the CPT gain at replay 0")
        if self.unknown_base:
            found["base_potential"] = Parameter(
                "last LR of the unknown base's PT, as a share of the reference LR", dims=None
            )
        return found

    def coefficients(self, parameters: Values, reference: Reference, xp: Any) -> dict[str, Any]:
        """Return lambda, its slow companion and share, C1, C2 and a1, and eta_0 where it is free."""
        memory = parameters["memory"]
        per_area = parameters["annealing_gain"] / reference.learning_rate
        found = {"lambda": 1.0 - 1.0 / memory, "C1": per_area / last_axis(memory)}
        if self.slow:
            found["lambda_slow"] = 1.0 - 1.0 / parameters["slow_memory"]
            found["slow_share"] = parameters["slow_share"]
        if self.continual:
            found["C2"] = found["C1"] * parameters["gain_ratio"]
        if self.replay:
            found["a1"] = parameters["gain_replay"]
        if self.unknown_base:
            rate = reference.learning_rate * last_axis(parameters["base_potential"])
            found["eta_0"] = rate * xp.ones_like(per_area)
        return found

    def continual_gain(self, share: Any, coefficients: Values, xp: Any) -> Any:
        """Return what a unit of S2_cpt takes off the loss at the target share r_cpt.

        Parameters
        ----------
        share : array
            r_cpt, 0 to 1.
        coefficients : mapping
            C2, and a1 where the gain depends on replay.
        xp : module
            `numpy` or `pytensor.tensor`.
        """
        if not self.replay:
            return coefficients["C2"]
        return coefficients["C2"] * xp.exp(coefficients["a1"] * share)

    def loss(self, points: Any, coefficients: Values, xp: Any) -> Any:
        """Return what annealing takes off the loss (a re-warm-up adds to it)."""
        annealing_pt, annealing_cpt = points.annealing_areas(coefficients, xp)
        loss = -coefficients["C1"] * annealing_pt
        if self.unknown_base:
            annealing_cpt = annealing_cpt + self._from_base(points.cpt_steps, coefficients, xp)
        if self.continual:
            gain = self.continual_gain(points.target_share, coefficients, xp)
            loss = loss - gain * annealing_cpt
        return loss

    def _from_base(self, steps: Any, coefficients: Values, xp: Any) -> Any:
        """Return the S2_cpt of a fall from eta_0 to 0 at the first step, at both paces."""
        first = coefficients["eta_0"]
        momentum = _beside(coefficients["lambda"], first)
        taken = -xp.expm1(steps * xp.log(momentum))
        if self.slow:
            share = _beside(coefficients["slow_share"], first)
            slow = _beside(coefficients["lambda_slow"], first)
            taken = taken - share * (taken + xp.expm1(steps * xp.log(slow)))
        return first * taken / (1.0 - momentum)


def _beside(shared: Any, gathered: Any) -> Any:
    """Return a shared value with the axis of points, where what is gathered has one."""
    dimensions = getattr(shared, "ndim", None)
    lacks = dimensions is not None and dimensions < getattr(gathered, "ndim", 0)
    return shared[..., None] if lacks else shared


def last_axis(shared: Any) -> Any:
    """Return a shared value with an axis to broadcast over domains, where it has draw axes.

    Parameters
    ----------
    shared : array, shape (...)
    """
    return shared[..., None] if getattr(shared, "ndim", 0) else shared

"""The terms of pre-training: the power of the forward area and the annealing gain (Eq. 1)."""

from dataclasses import dataclass
from typing import Any

from bayes_cpt.laws.series import momentum_parts
from bayes_cpt.laws.term import Parameter, Reference, Values, added_term, sized, where_free


@dataclass(frozen=True)
class Power:
    """``L0 + A·(S1_pt + S1_cpt)^-alpha`` (Eq. 1 and 4 of arXiv 2505.07796), S1 with a power of its own.

    The forward area is ``S1 = sum eta^rho``, the printed one where rho = 1.
    """

    # Whether S1_pt, of the one base that there is, is a parameter (App. G). The reference forward area is
    # then that of the base.
    unknown_base: bool = False
    name: str = "power"

    def parameters(self) -> dict[str, Parameter]:
        """Return loss, slope and exponent at the reference forward area, rho, and S1_pt where unknown."""
        parameters = {
            "reference_loss": Parameter(
                "PT loss at the reference forward area, before annealing", "nats/token"
            ),
            "reference_slope": Parameter(
                "fall of the PT loss per e-fold of forward area, at the reference", "nats/token"
            ),
            "exponent": Parameter("alpha, exponent of the forward area"),
            "forward_power": Parameter(
                "rho, power of the learning rate in the forward area", dims=None, printed=1.0
            ),
        }
        if self.unknown_base:
            meaning = "S1_pt of the unknown base, as a multiple of the reference CPT forward area"
            parameters["base_forward_area"] = Parameter(meaning, dims=None)
        return parameters

    def coefficients(self, parameters: Values, reference: Reference, xp: Any) -> dict[str, Any]:
        """Return L0, A and alpha, and rho and S1_pt of the base where they are free.

        An unknown base is itself the reference: its area is a multiple of that of CPT.
        """
        alpha = parameters["exponent"]
        excess = parameters["reference_slope"] / alpha
        log_area = log_reference_area(parameters, reference, xp) * xp.ones_like(alpha)
        if self.unknown_base:
            multiple = _last_axis(parameters["base_forward_area"])
            ratio = reference.forward_cpt / reference.forward_pt
            log_area = log_area + xp.log(ratio * multiple)
        coefficients = {
            "L0": parameters["reference_loss"] - excess,
            "A": excess * xp.exp(alpha * log_area),
            "alpha": alpha,
            **where_free(parameters, forward_power="rho"),
        }
        if self.unknown_base:
            coefficients["S1_base"] = xp.exp(log_area)
        return coefficients

    def loss(self, points: Any, coefficients: Values, xp: Any) -> Any:
        """Return the loss that a constant learning rate on general data would reach."""
        area = points.log_forward_area(coefficients, xp)
        if self.unknown_base:
            area = xp.log(coefficients["S1_base"] + xp.exp(area))
        return coefficients["L0"] + sized(coefficients, "A") * xp.exp(-coefficients["alpha"] * area)


def log_reference_area(parameters: Values, reference: Reference, xp: Any) -> Any:
    """Return the log of the reference forward area of PT, in LR^rho·steps.

    It is that of as many steps at the reference learning rate, whatever rho is: that keeps level and slope
    there apart from rho.
    """
    log_area = xp.log(reference.forward_pt)
    if "forward_power" not in parameters:
        return log_area
    power = _last_axis(parameters["forward_power"])
    return log_area + (power - 1.0) * xp.log(reference.learning_rate)


def power_gain(parameters: Values, xp: Any) -> Any:
    """Return what the power takes off the loss from an unknown base to the reference CPT forward area."""
    alpha, multiple = parameters["exponent"], _last_axis(parameters["base_forward_area"])
    return -parameters["reference_slope"] / alpha * xp.expm1(-alpha * xp.log1p(1.0 / multiple))


@dataclass(frozen=True)
class Annealing:
    """``-C1·S2_pt - C2·S2_cpt·exp(a1·r_cpt)`` (Eq. 1, 4 and 8), S2 with a power of its own.

    With the level e of the learning rate (`bayes_cpt.laws.areas`) it is
    ``S2 = (eta_0^zeta - e^zeta)/(1 - lambda)``, the printed one where zeta = 1.

    The D_pt form printed with ``exp(a1·r_pt)`` is the same curve: its a1 is minus ours and its C2 is
    ours times exp(a1). Counted in r_cpt, C2 belongs to pure replay, that is to more pre-training, where
    it should equal C1.

    Where w is above 0, that share of the gain comes at a second, slow pace
    (`bayes_cpt.laws.series.momentum_parts`). With xi the level counts as ``e·(eta_peak/eta_ref)^-xi``,
    with the highest learning rate of PT so far: at 1 it is a share of the peak. That needs S2_pt to count
    from the warm-up.
    """

    continual: bool = True  # whether there is a CPT phase (C2)
    # Whether eta_0, the learning rate that the base was left at, is a parameter. Areas count from 0.
    unknown_base: bool = False
    name: str = "annealing"

    def parameters(self) -> dict[str, Parameter]:
        """Return the gain of a full anneal, its ratio in CPT, memories, and powers."""
        parameters = {
            "annealing_gain": Parameter(
                "fall of the loss when the learning rate goes from the reference LR to 0",
                "nats/token",
            ),
            "memory": Parameter("1/(1 - lambda), memory of the annealing", "steps", None),
            "level_power": Parameter(
                "zeta, power of the learning rate's level in the annealing area",
                dims=None,
                printed=1.0,
            ),
            "peak_power": Parameter(
                "xi, power of the peak learning rate that the level is divided by",
                dims=None,
                printed=0.0,
            ),
            "slow_memory": Parameter(
                "memory of the slow annealing, as a share of the reference CPT steps",
                dims=None,
                beside="slow_share",
            ),
            "slow_share": Parameter(
                "w_slow, share of the annealing gain that is slow", printed=0.0
            ),
        }
        if self.continual:
            parameters |= {
                "gain_ratio": Parameter("C2/C1, annealing gain of CPT against PT"),
                "gain_replay": Parameter("a1, log change of the CPT gain at replay 0", printed=0.0),
            }
        if self.unknown_base:
            meaning = "last LR of the unknown base's PT, over the reference LR"
            parameters["base_potential"] = Parameter(meaning, dims=None)
        return parameters

    def coefficients(self, parameters: Values, reference: Reference, xp: Any) -> dict[str, Any]:
        """Return lambda, its slow companion and share, zeta, xi, C1, C2, a1, and eta_0 where free."""
        per_level = parameters["annealing_gain"] / reference.learning_rate
        if "level_power" in parameters:
            power = _last_axis(parameters["level_power"])
            scale = xp.exp(-power * xp.log(reference.learning_rate))
            per_level = parameters["annealing_gain"] * scale
        memory = parameters["memory"]
        coefficients = {"lambda": 1.0 - 1.0 / memory, "C1": per_level / _last_axis(memory)}
        coefficients |= where_free(
            parameters, level_power="zeta", peak_power="xi", slow_share="w_slow", gain_replay="a1"
        )
        if "slow_memory" in parameters:
            coefficients["lambda_slow"] = 1.0 - 1.0 / (parameters["slow_memory"] * reference.steps)
        if self.continual:
            coefficients["C2"] = coefficients["C1"] * parameters["gain_ratio"]
        if self.unknown_base:
            rate = reference.learning_rate * _last_axis(parameters["base_potential"])
            coefficients["eta_0"] = rate * xp.ones_like(per_level)
        return coefficients

    def area(self, start: Any, level: Any, coefficients: Values, xp: Any) -> Any:
        """Return S2 of a raw learning rate that fell from a start to a level, both above 0 with zeta."""
        fall = start - level
        if "zeta" in coefficients:
            power = coefficients["zeta"]
            fall = xp.exp(power * xp.log(start)) - xp.exp(power * xp.log(level))
        return fall / (1.0 - coefficients["lambda"])

    def areas(self, points: Any, coefficients: Values, xp: Any) -> tuple[Any, Any]:
        """Return S2_pt and S2_cpt at the points; S2_pt of an unknown base is 0."""
        level_pt, level_cpt = points.learning_rate_levels(coefficients, xp)
        start_cpt = points.start_cpt
        if "xi" in coefficients:
            per_peak = xp.exp(-coefficients["xi"] * points.log_peak_pt)
            level_pt, level_cpt = level_pt * per_peak, level_cpt * per_peak
            start_cpt = start_cpt * per_peak
        if self.unknown_base:
            start = coefficients["eta_0"]
            # The share of the base's level that is left.
            left = sum(
                weight * xp.exp(points.paced_steps * xp.log(momentum))
                for momentum, weight in momentum_parts(coefficients)
            )
            after = self.area(start, level_cpt + start * left, coefficients, xp)
            return 0.0 * after, after
        # A level that is carried across the transfer is itself where S2_cpt counts from.
        start = points.carried * level_pt + (1.0 - points.carried) * start_cpt
        before = self.area(points.start_pt, level_pt, coefficients, xp)
        return before, self.area(start, level_cpt, coefficients, xp)

    def shares(self, points: Any, coefficients: Values, xp: Any) -> tuple[Any, Any]:
        """Return what annealing in PT and in CPT adds to the loss."""
        annealing_pt, annealing_cpt = self.areas(points, coefficients, xp)
        before = -sized(coefficients, "C1") * annealing_pt
        if not self.continual:
            return before, 0.0 * before
        gain = sized(coefficients, "C2")
        if "a1" in coefficients:
            gain = gain * xp.exp(coefficients["a1"] * points.target_share)
        return before, -gain * annealing_cpt

    def loss(self, points: Any, coefficients: Values, xp: Any) -> Any:
        """Return what annealing takes off the loss (a re-warm-up adds to it)."""
        before, after = self.shares(points, coefficients, xp)
        return before + after


def _last_axis(shared: Any) -> Any:
    """Return a shared value with an axis to broadcast over domains, where it has draw axes."""
    return shared[..., None] if getattr(shared, "ndim", 0) else shared


@added_term(
    G1="rise of the loss per e-fold of the peak learning rate, at the reference, nats/token",
    G2="curvature of the loss in the log of the peak learning rate, nats/token",
)
@dataclass(frozen=True)
class PeakLevel:
    """``+ G1·p + G2·p^2`` with p the log of PT's highest learning rate so far, over the reference one.

    Of runs that differ in peak alone some peak in the middle ends lowest, and the loss about it is a
    parabola in the logarithm of the peak. Forward and annealing area tell how peaks differ along the
    way; this is what is left at the end. Not in the printed law: G1 = G2 = 0 there.
    """

    name: str = "peak"

    def parameters(self) -> dict[str, Parameter]:
        """Return slope and curvature."""
        return {
            "peak_slope": Parameter(
                "G1, rise of the loss per e-fold of peak learning rate, at the reference",
                "nats/token",
            ),
            "peak_curvature": Parameter(
                "G2, rise of the loss an e-fold of peak learning rate away, both ways", "nats/token"
            ),
        }

    def coefficients(self, parameters: Values, reference: Reference, xp: Any) -> dict[str, Any]:
        """Return G1 and G2."""
        return {"G1": parameters["peak_slope"], "G2": parameters["peak_curvature"]}

    def loss(self, points: Any, coefficients: Values, xp: Any) -> Any:
        """Return what the peak adds to the loss: nothing at the reference learning rate."""
        peak = points.log_peak_pt
        return coefficients["G1"] * peak + coefficients["G2"] * peak * peak

"""The terms of CPT: distribution shift (Eq. 3 and 8) with what repeated tokens count for, and damage."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayes_cpt.laws.pretraining import power_gain
from bayes_cpt.laws.term import (
    Parameter,
    Reference,
    Values,
    added_term,
    not_worn_off,
    relative_exponential,
    sized,
    where_free,
)


def effective_share(repeats: Any, constant: Any, xp: Any) -> Any:
    """Return the worth of all tokens seen as a share of what as many new ones would be worth, D'/D.

    Eq. 5 of arXiv 2305.16264: of U unique tokens, each repeated R times after the first epoch (R below 0:
    none), ``D' = U + U·R*·(1 - exp(-R/R*))``; and ``D = U·(1 + R)`` were seen.

    Examples
    --------
    >>> import numpy as np
    >>> effective_share(np.array([-0.5, 0.0, 3.0]), 15.0, np).round(3).tolist()
    [1.0, 1.0, 0.93]
    """
    repeated = xp.maximum(repeats, 0.0)
    return (1.0 - constant * xp.expm1(-repeated / constant)) / (1.0 + repeated)


# What each batch of a study has for itself, where the law compares them (App. F).
OF_BATCH = ("shift_share", "shift_rate", "shift_exponent")
# c of the saturating factor: runs at a few replay ratios tell delta and k, and c only beside them.
BEND = 16.0
# Where the power factor is sampled: a ratio that practitioners use, between pure target and half.
QUARTER = 0.25


# Shares of its own data below this leave the pace of a target's shift where it is.
LEAST_SHARE = 1e-6


@dataclass(frozen=True)
class Shift:
    """``B·h(r_cpt)·(1 - (1 + E_r·S1_cpt)^-beta)`` (Eq. 3 and 8; docs/law.md, "Distribution shift").

    The replay factor h has h(0) = 0 and h(1) = 1, in one of three forms per validation set:
    *exponential* ``expm1(-a x)/expm1(-a)`` (both printed forms are special cases); *saturating*
    ``(1 - (1 + c x)^-delta)/(1 - (1 + c)^-delta)``, which tends to the exponential form for large delta
    and rises faster near x = 0 for small; *power* ``x (1 + b (1 - x))^-gamma`` (Bethune et al. 2025).
    Each is multiplied by ``exp(-k (1 - x))``, which bends it towards or away from what the target share
    alone would leave.
    ``E_r = E·(r_cpt/h)^omega``: at omega = 1 the first steps
    of every run move in proportion to its target share and replay lowers only the level that is
    approached; at omega = 0, the printed form, replay scales the whole curve.
    """

    # Of each validation set: +1 where CPT makes it worse (D_pt), -1 where better (D_cpt); and which form of
    # h it has, or none
    signs: tuple[float, ...]
    replay_factors: tuple[str, ...]
    # Whether S1_pt is a parameter (see `Power`). What more of it gains, which few runs tell from the shift,
    # is then sampled as a part of the change.
    unknown_base: bool = False
    batches: bool = False  # whether each batch has values of its own of `OF_BATCH`
    name: str = "shift"

    def chosen(self, factor: str) -> list[int]:
        """Return the indices of the validation sets with that replay factor."""
        return [i for i, name in enumerate(self.replay_factors) if name == factor]

    def parameters(self) -> dict[str, Parameter]:
        """Return size and shape of the shift at the reference, and of the replay factor."""
        gain = " and what more forward area gains" if self.unknown_base else ""
        meaning = f"|shift| at replay 0 and the reference CPT forward area{gain}"
        # In nats, a prior wide enough for far targets takes the low losses of large models below 0.
        parameters = {
            "shift_share": Parameter(f"{meaning}, as a share of the reference loss"),
            "shift_rate": Parameter("E times the reference CPT forward area"),
            "repeat_constant": Parameter(
                "R*, epochs beyond the first after which a repeated token is worth 1/e of a new one",
                printed=math.inf,
            ),
            "shift_exponent": Parameter("beta, exponent of the shift"),
            "shift_power": Parameter(
                "rho_s, power of the learning rate in the forward area of the shift", printed=1.0
            ),
        }
        if self.chosen("exponential"):
            meaning = "a of the exponential replay factor"
            parameters["replay_curvature"] = Parameter(meaning, dims="exponential_domain")
        if self.chosen("saturating"):
            meaning = "delta of the saturating replay factor"
            parameters["saturation_exponent"] = Parameter(meaning, dims="saturating_domain")
        if self.chosen("power"):
            meaning = "b of the power replay factor"
            parameters["replay_onset"] = Parameter(meaning, dims="power_domain")
            parameters["replay_quarter"] = Parameter(
                "h(0.75)/0.75 of the power factor: share of the linear shift left at replay 0.25",
                dims="power_domain",
            )
        parameters |= {
            "replay_dilution": Parameter(
                "k, by how many e-folds replay takes away more of the shift than its factor does",
                printed=0.0,
            ),
            "replay_rate": Parameter("omega, how replay speeds the shift up", printed=0.0),
        }
        if self.batches:
            own = {name: replace(parameters[name], dims="batch_domain") for name in OF_BATCH}
            parameters |= own
        return parameters

    def coefficients(self, parameters: Values, reference: Reference, xp: Any) -> dict[str, Any]:
        """Return B, E and beta; a, c, delta, b, gamma, k, omega, rho_s and R_star where they are free."""
        rate, beta = parameters["shift_rate"], parameters["shift_exponent"]
        progress = shift_progress(rate, 1.0, beta, xp)
        level = parameters["reference_loss"]
        # A prior may have levels below 0; the sign of the shift is that of the validation set all the same.
        size = parameters["shift_share"] * xp.maximum(level, -level) * self.signs
        if self.unknown_base:
            size = size + power_gain(parameters, xp)
        coefficients = {"B": size / progress, "E": rate / reference.forward_cpt, "beta": beta}
        coefficients |= self._replay_coefficients(parameters, xp)
        coefficients |= where_free(parameters, shift_power="rho_s")
        if "repeat_constant" in parameters:
            constant = parameters["repeat_constant"]
            coefficients |= {"R_star": constant, "U_steps": reference.unique_steps + 0.0 * constant}
        return coefficients

    def _replay_coefficients(self, parameters: Values, xp: Any) -> dict[str, Any]:
        """Return those of the replay factors: of each, 0 on validation sets that have another one."""
        count = len(self.signs)
        coefficients = {}
        if chosen := self.chosen("exponential"):
            coefficients["a"] = parameters["replay_curvature"] @ np.eye(count)[chosen]
        if chosen := self.chosen("saturating"):
            spread = np.eye(count)[chosen]
            coefficients["delta"] = parameters["saturation_exponent"] @ spread
            coefficients["c"] = BEND * spread.sum(axis=0) + 0.0 * coefficients["delta"]
        if chosen := self.chosen("power"):
            onset, quarter = parameters["replay_onset"], parameters["replay_quarter"]
            gamma = -xp.log(quarter) / xp.log1p(QUARTER * onset)
            spread = np.eye(count)[chosen]
            coefficients |= {"b": onset @ spread, "gamma": gamma @ spread}
        return coefficients | where_free(parameters, replay_dilution="k", replay_rate="omega")

    def replay_factor(self, share: Any, coefficients: Values, xp: Any) -> Any:
        """Return h at the target share r_cpt."""
        if all(name == "none" for name in self.replay_factors):
            return xp.ones_like(share)
        factor = share
        if _counts("a", coefficients, xp):
            factor = relative_exponential(coefficients["a"], share, xp)
        if _counts("c", coefficients, xp):
            free = coefficients["c"] > 0
            rate = xp.where(free, coefficients["c"], 1.0)
            # Exponential in the log of the share: the printed closed form has no value at delta = 0.
            whole = xp.log1p(rate)
            bend = coefficients["delta"] * whole
            own = relative_exponential(bend, xp.log1p(rate * share) / whole, xp)
            factor = xp.where(free, own, factor)
        if _counts("b", coefficients, xp):
            dilution = xp.log1p(coefficients["b"] * (1.0 - share))
            factor = factor * xp.exp(-coefficients["gamma"] * dilution)
        if _counts("k", coefficients, xp):
            factor = factor * xp.exp(-coefficients["k"] * (1.0 - share))
        return factor

    def scales(self, share: Any, coefficients: Values, xp: Any) -> tuple[Any, Any]:
        """Return the limit ``B·h`` and the rate ``E_r`` of the shift at the target share r_cpt."""
        factor = self.replay_factor(share, coefficients, xp)
        rate = sized(coefficients, "E")
        if "omega" in coefficients:
            ratio = xp.where(share > 0, share, 1.0) / xp.where(share > 0, factor, 1.0)
            rate = rate * xp.exp(coefficients["omega"] * xp.log(ratio))
        return sized(coefficients, "B") * factor, rate

    def loss(self, points: Any, coefficients: Values, xp: Any) -> Any:
        """Return the shift, 0 at the transfer and wherever no target data are trained on."""
        share, has_mixture = points.target_share, "psi" in coefficients
        if has_mixture:
            # Of a target its own data; on the general validation set there are no others.
            share = share - points.other_share
        limit, rate = self.scales(share, coefficients, xp)
        if has_mixture:
            by_others = coefficients["psi"] * points.other_share
            limit = limit + sized(coefficients, "B") * by_others
            _, rate = self.scales(xp.maximum(share, LEAST_SHARE), coefficients, xp)
        area = self.forward_area(points, coefficients, xp)
        return limit * shift_progress(rate, area, sized(coefficients, "beta"), xp)

    def forward_area(self, points: Any, coefficients: Values, xp: Any) -> Any:
        """Return the forward area that the shift has seen, repeated target tokens discounted, LR·steps."""
        if "R_star" not in coefficients:
            return points.shift_area(coefficients, xp)
        # U_steps on target data alone go through them once.
        epochs = points.cpt_steps * points.target_share / coefficients["U_steps"]
        worth = effective_share(epochs - 1.0, coefficients["R_star"], xp)
        return points.shift_area(coefficients, xp) * worth


def shift_progress(rate: Any, forward_cpt: Any, exponent: Any, xp: Any) -> Any:
    """Return how much of its limit a shift has reached (Eq. 3)."""
    return -xp.expm1(-exponent * xp.log1p(rate * forward_cpt))


def _counts(name: str, coefficients: Values, xp: Any) -> bool:
    """Return whether a coefficient of a replay factor is there, for validation sets that have that factor.

    Of the others it is 0, and the factor is as without it: of numbers that need not be computed.
    """
    return name in coefficients and (xp is not np or bool(np.any(coefficients[name])))


# How soon replay keeps a target from what forgetting costs it: of a quarter 15 % is left.
KEPT = 16.0


@added_term(
    Q="rise of the loss by damage, per LR^2·step on target data alone, nats/token",
    Z="most that the loss of the target may rise as general data are forgotten, nats/token",
    S1_half="forward area of CPT after which half of that has come, LR·steps",
)
@dataclass(frozen=True)
class Damage:
    """What CPT costs the loss of the target, more on much target data. Not in the printed law: Q = Z = 0.

    ``+ Q·r_cpt·S3_cpt`` with S3 the sum of squared learning rates: runs at high learning rates end higher
    than annealing and shift tell (docs/results/laws.md, "Damage").

    ``+ Z·r/(17 - 16·r)·T/(T + S1_half)`` with r the share r_cpt and T the forward area of the shift:
    a target that has something in common with general data loses of what is forgotten of them, with replay
    next to nothing (docs/results/laws.md, "What forgetting costs the target").
    """

    name: str = "damage"

    def parameters(self) -> dict[str, Parameter]:
        """Return the sizes."""
        where = "in the reference CPT run, on target data alone"
        return {
            "damage": Parameter(f"rise of the loss by damage {where}", "nats/token"),
            "target_forgetting": Parameter(
                f"rise of the loss as general data are forgotten, {where}",
                "nats/token",
                printed=0.0,
            ),
        }

    def coefficients(self, parameters: Values, reference: Reference, xp: Any) -> dict[str, Any]:
        """Return Q; Z and S1_half where the second is free."""
        # S3 of a run that reaches the reference forward area at one learning rate.
        squared = reference.forward_cpt * (reference.forward_cpt / reference.steps)
        coefficients = {"Q": parameters["damage"] / squared}
        if "target_forgetting" in parameters:
            # Half of it has come in the reference run.
            size = parameters["target_forgetting"]
            coefficients |= {"Z": 2.0 * size, "S1_half": reference.forward_cpt + 0.0 * size}
        return coefficients

    def loss(self, points: Any, coefficients: Values, xp: Any) -> Any:
        """Return what is lost, nothing in PT."""
        share = points.target_share
        lost = coefficients["Q"] * share * points.squared_area
        if "Z" not in coefficients:
            return lost
        area = points.shift_area(coefficients, xp)
        come = shift_progress(1.0 / coefficients["S1_half"], area, 1.0, xp)
        return lost + coefficients["Z"] * share / (1.0 + KEPT * (1.0 - share)) * come


@dataclass(frozen=True)
class Jump:
    """What CPT changes at once, beside the shift: ``+ J·(1 - exp(-t/tau_0))``. Not in the printed law.

    Data in another format, or another optimizer state, show within the first per cents of a run. Only a law
    that starts at the loss of its base has it: elsewhere what wears off of the base's offset is as quick.
    """

    name: str = "jump"

    def parameters(self) -> dict[str, Parameter]:
        """Return the size."""
        meaning = "change of the loss at once, beside the shift"
        return {"jump": Parameter(meaning, "nats/token", printed=0.0)}

    def coefficients(self, parameters: Values, reference: Reference, xp: Any) -> dict[str, Any]:
        """Return J where it is free."""
        return where_free(parameters, jump="J")

    def loss(self, points: Any, coefficients: Values, xp: Any) -> Any:
        """Return what has come of it, nothing in PT; tau_0 is that of the base offset."""
        if "J" not in coefficients:
            return 0.0 * points.cpt_steps
        return coefficients["J"] * (1.0 - not_worn_off(points, coefficients, xp))

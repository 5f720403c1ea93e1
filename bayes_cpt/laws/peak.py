"""What the peak learning rate of pre-training leaves in the loss, however far it is annealed."""

from dataclasses import dataclass
from typing import Any

from bayes_cpt.laws.term import Parameter, Reference, Values, added_term


@added_term(
    "+ G1·p + G2·p^2",
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

from typing import Any

import numpy as np
import pytest
from hand_points import hand_points

from bayes_cpt.laws import Mixture, Reference, Shift
from bayes_cpt.laws.law import gather

REFERENCE = Reference(2e-4, 8.0, 4.0, 20_000.0)
# Of the general set and two targets.
B, E, BETA, OMEGA = np.array([0.4, -0.7, -0.5]), np.array([30.0, 900.0, 400.0]), 0.3, 0.4
CURVATURE, PSI, PHI = np.array([1.5, 3.0, 2.0]), np.array([0.0, 0.2, -0.3]), [1.0, 0.6, 1.8]
SHIFT = Shift((1.0, -1.0, -1.0), ("exponential",) * 3, replay_rate=True)


def coefficients() -> dict[str, Any]:
    shared: dict[str, np.ndarray] = {
        "beta": np.full(3, BETA),
        "omega": np.full(3, OMEGA),
    }
    sampled = {"target_transfer": PSI, "forgetting_factor": np.array(PHI)}
    own = Mixture().coefficients(sampled, REFERENCE, np)
    return {"B": B, "E": E, "a": CURVATURE, "lambda": np.float64(0.999)} | shared | own


def points(domain: int, share: float, weights: tuple[float, float]) -> object:
    return hand_points(
        steps=3000.0,
        forward_cpt=0.6,
        domain=domain,
        target_share=share,
        other_share=0.0 if domain == 0 else share * (1.0 - weights[domain - 1]),
        mixture=(0.0, *weights) if domain == 0 else (1.0, 0.0, 0.0),
    )


def written_out(domain: int, share: float, weights: tuple[float, float]) -> float:
    """The formula of docs/targets.md for one validation set, in plain numbers."""
    a, own = CURVATURE[domain], share
    factor, other = float(np.dot(weights, PHI[1:])), 0.0
    if domain > 0:
        own, factor = share * weights[domain - 1], 1.0
        other = PSI[domain] * (share - own)
    h = np.expm1(-a * own) / np.expm1(-a)
    pace = E[domain] * (own / h) ** OMEGA if own > 0 else E[domain] * (-np.expm1(-a) / a) ** OMEGA
    shift = B[domain] * (h + other) * (1.0 - (1.0 + pace * 0.6) ** -BETA)
    return float(factor * shift)


@pytest.mark.parametrize("domain", [0, 1, 2])
@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.7, 0.3), (0.0, 1.0)])
def test_a_mixture_moves_each_set_as_the_formula_says(
    domain: int, weights: tuple[float, float]
) -> None:
    where = points(domain, 0.8, weights)
    loss = SHIFT.loss(where, gather(where, coefficients(), np), np)
    np.testing.assert_allclose(loss, written_out(domain, 0.8, weights), rtol=1e-5)


def test_alone_a_target_moves_its_own_set_as_without_others() -> None:
    alone = {name: value for name, value in coefficients().items() if name not in ("psi", "phi")}
    for domain, weights in ((1, (1.0, 0.0)), (2, (0.0, 1.0))):
        where = points(domain, 0.65, weights)
        several, one = (gather(where, values, np) for values in (coefficients(), alone))
        np.testing.assert_allclose(SHIFT.loss(where, several, np), SHIFT.loss(where, one, np))


def test_pure_replay_moves_nothing() -> None:
    for domain in range(3):
        where = points(domain, 0.0, (0.5, 0.5))
        assert abs(SHIFT.loss(where, gather(where, coefficients(), np), np)[0]) < 1e-12

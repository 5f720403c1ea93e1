import math

import numpy as np
import pytest
from hand_points import MOMENTUM, hand_points
from hypothesis import given
from hypothesis import strategies as st

from bayes_cpt.laws import Annealing, Power, Reference

REFERENCE = Reference(learning_rate=2e-4, forward_pt=8.0, forward_cpt=4.0, steps=20_000.0)


def test_power_is_its_closed_form() -> None:
    points = hand_points(forward_pt=[0.5, 8.0, 8.0], forward_cpt=[0.0, 0.0, 3.0])
    found = Power().loss(points, {"L0": 3.057, "A": 0.49, "alpha": 0.497}, np)
    expected = [3.057 + 0.49 * area**-0.497 for area in (0.5, 8.0, 11.0)]
    np.testing.assert_allclose(found, expected, rtol=1e-14)


@given(st.floats(1.0, 6.0), st.floats(0.005, 1.0), st.floats(0.1, 2.0))
def test_power_has_the_sampled_loss_and_slope_at_the_reference(
    loss: float, slope: float, exponent: float
) -> None:
    parameters = {"reference_loss": loss, "reference_slope": slope, "exponent": exponent}
    term = Power()
    found = term.coefficients({k: np.float64(v) for k, v in parameters.items()}, REFERENCE, np)
    step = 1e-4
    areas = 8.0 * np.exp([-step, 0.0, step])
    before, here, after = term.loss(hand_points(forward_pt=areas), found, np)
    assert here == pytest.approx(loss, rel=1e-12)
    assert (before - after) / (2 * step) == pytest.approx(slope, rel=1e-5)
    # And A·alpha·S1^-alpha is the printed form of that slope.
    assert found["A"] * exponent * 8.0**-exponent == pytest.approx(slope, rel=1e-12)


def test_annealing_is_its_closed_form_and_a_rewarmup_raises_the_loss() -> None:
    points = hand_points(
        annealing_pt=[0.2, 0.2, 0.05], annealing_cpt=[0.0, -0.1, 0.15], target_share=[1.0, 0.5, 0.2]
    )
    coefficients = {"lambda": MOMENTUM, "C1": 0.299, "C2": 0.298, "a1": 0.055}
    found = Annealing().loss(points, coefficients, np)
    expected = [
        -0.299 * 0.2,
        -0.299 * 0.2 + 0.298 * 0.1 * math.exp(0.055 * 0.5),
        -0.299 * 0.05 - 0.298 * 0.15 * math.exp(0.055 * 0.2),
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert found[1] > found[0]


@given(st.floats(10.0, 5000.0), st.floats(0.01, 1.0), st.floats(0.5, 2.0))
def test_sampled_gain_is_what_a_full_anneal_takes_off(
    memory: float, gain: float, ratio: float
) -> None:
    """A drop from the reference LR to 0, held for long, gathers S2 = LR·memory."""
    values = {"memory": memory, "annealing_gain": gain, "gain_ratio": ratio, "gain_replay": 0.3}
    parameters = {name: np.float64(value) for name, value in values.items()}
    found = Annealing().coefficients(parameters, REFERENCE, np)
    full = REFERENCE.learning_rate / (1.0 - found["lambda"])
    assert found["C1"] * full == pytest.approx(gain, rel=1e-9)
    assert found["C2"] / found["C1"] == pytest.approx(ratio, rel=1e-12)
    assert found["a1"] == 0.3


def test_printed_form_in_replay_share_is_the_same_curve() -> None:
    """C2·exp(a1·r_pt) of Eq. 8 on D_pt is ours with C2·exp(a1) and -a1."""
    share = np.linspace(0.0, 1.0, 7)
    points = hand_points(annealing_cpt=0.13, target_share=share)
    ours = {
        "lambda": MOMENTUM,
        "C1": 0.28,
        "C2": 0.263 * math.exp(0.055),
        "a1": -0.055,
    }
    printed = -0.263 * 0.13 * np.exp(0.055 * (1.0 - share))
    np.testing.assert_allclose(Annealing().loss(points, ours, np), printed, rtol=1e-12)

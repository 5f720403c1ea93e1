import numpy as np
import pytest
from hand_points import hand_points
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from bayes_cpt.laws import Reference, Shift
from bayes_cpt.laws.law import gather
from bayes_cpt.laws.transfer import effective_share

REFERENCE = Reference(2e-4, 8.0, 4.0, 20_000.0, unique_steps=1000.0)
VALUES = {
    "shift_size": np.array([0.3, 0.5]),
    "shift_rate": np.array([5.0, 40.0]),
    "shift_exponent": np.array([0.2, 0.3]),
    "repeat_constant": np.array([15.0, 4.0]),
}


@given(st.floats(0, 100), st.floats(0.1, 100))
def test_each_repeat_is_worth_less_than_the_one_before(repeats: float, constant: float) -> None:
    # The worth of a token after r repeats is exp(-r/R*): its mean over all that were seen.
    whole, _ = quad(lambda r: np.exp(-r / constant), 0.0, repeats)
    wanted = (1.0 + whole) / (1.0 + repeats)
    found = float(effective_share(np.float64(repeats), np.float64(constant), np))
    assert found == pytest.approx(wanted, rel=1e-6)
    assert 0 < found <= 1


def test_printed_worths() -> None:
    # Four epochs of 15.4 lose a tenth, and without end nothing more than R* epochs is gained.
    assert float(effective_share(3.0, 15.39, np)) == pytest.approx(0.931, abs=1e-3)
    for repeats in (1e4, 1e6):
        total = float(effective_share(repeats, 15.39, np)) * (1 + repeats)
        assert total == pytest.approx(1 + 15.39, rel=1e-9)


def shift(*, repeated: bool) -> Shift:
    return Shift((1.0, -1.0), ("none", "none"), repeated_tokens=repeated)


def test_repeats_slow_the_shift_as_fewer_steps_would() -> None:
    points = hand_points(forward_cpt=[2.0], steps=[10_000.0], target_share=[0.5])
    term = shift(repeated=True)
    coefficients = gather(points, term.coefficients(VALUES, REFERENCE, np), np)
    # 10,000 steps at half target data are five epochs of 1000 steps.
    effective = (1 + 15.0 * (1 - np.exp(-4 / 15.0))) / 5
    fewer = hand_points(forward_cpt=[2.0 * effective], steps=[100.0], target_share=[0.5])
    plain = shift(repeated=False)
    wanted = plain.loss(fewer, gather(fewer, plain.coefficients(VALUES, REFERENCE, np), np), np)
    np.testing.assert_allclose(term.loss(points, coefficients, np), wanted, rtol=1e-12)

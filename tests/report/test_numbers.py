"""Numbers carry the digits that their uncertainty supports."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from bayes_cpt.report.numbers import DECIMALS, Estimate, decimals, fixed, signed, supported


@pytest.mark.parametrize(
    ("gain", "sd", "said"),
    [
        (0.0003, 0.002, "about as high ("),
        (-0.0003, 0.002, "about as high ("),
        (0.0427, 0.0115, "0.043 nats higher (+0.024 to +0.062; over 99 %)"),
        (-0.31, 0.05, "0.31 nats lower (−0.39 to −0.23; over 99 %)"),
    ],
)
def test_a_difference_below_its_uncertainty_is_none(gain: float, sd: float, said: str) -> None:
    # Draws at the quantiles of a normal: median, interval and probability are those of the closed form.
    draws = norm(gain, sd).ppf((np.arange(4000) + 0.5) / 4000)
    assert Estimate.of(draws, 0.9).moved.startswith(said)


@given(st.floats(1e-3, 10.0), st.floats(-50.0, 50.0))
def test_a_last_digit_is_a_thirtieth_to_a_third_of_the_spread(spread: float, value: float) -> None:
    last = 10.0 ** -decimals(spread)
    if 0 < decimals(spread) < DECIMALS:
        assert 3.0 * (1.0 - 1e-9) <= spread / last < 30.0 * (1.0 + 1e-9)
    shown = float(fixed(value, spread).replace("−", "-"))
    assert abs(shown - value) <= 0.5 * last + 1e-12
    assert float(signed(value, spread).replace("−", "-")) == shown


@given(st.floats(1e-3, 10.0), st.floats(-50.0, 50.0))
def test_tables_and_sentences_round_alike(spread: float, value: float) -> None:
    if 0 < decimals(spread) < DECIMALS:
        assert supported(value, spread).removeprefix("−") == fixed(value, spread).removeprefix("−")


@pytest.mark.parametrize(
    ("value", "spread", "said"),
    [
        (1.2346e-9, 4e-11, "1.235e-09"),
        (-2.5e-4, 3e-5, "−0.00025"),
        (12_345.0, 579.0, "12300"),
        (3.0, 0.0, "3"),
    ],
)
def test_quantities_of_any_unit(value: float, spread: float, said: str) -> None:
    assert supported(value, spread) == said

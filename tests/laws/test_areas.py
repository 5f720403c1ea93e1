import numpy as np
from area_values import annealing_area
from hypothesis import given
from hypothesis import strategies as st
from strategies import RATES

from bayes_cpt.laws.areas import AreaForm, forward_areas, log_areas
from bayes_cpt.laws.series import Interval

POWERS = st.floats(0.1, 2.0)


def double_sum(rates: list[float], momentum: float, before: float) -> list[float]:
    """S2 as Eq. 1 prints it: sum over i <= t and k <= i of (eta_{k-1} - eta_k) lambda^(i-k)."""
    eta = [before, *rates]
    return [
        sum(
            (eta[k - 1] - eta[k]) * momentum ** (i - k)
            for i in range(1, t + 1)
            for k in range(1, i + 1)
        )
        for t in range(1, len(eta))
    ]


@given(
    st.lists(st.floats(0, 1e-2), min_size=1, max_size=15), st.floats(0, 0.9999), st.floats(0, 1e-2)
)
def test_annealing_area_is_a_double_sum(rates: list[float], momentum: float, before: float) -> None:
    expected = double_sum(rates, momentum, before)
    np.testing.assert_allclose(
        annealing_area(rates, momentum, before), expected, rtol=1e-9, atol=1e-15
    )


@given(st.lists(st.floats(0, 1e-2), min_size=1, max_size=30), POWERS)
def test_forward_area_is_the_sum_of_powers(rates: list[float], power: float) -> None:
    expected = [sum(rate**power for rate in rates[: i + 1]) for i in range(len(rates))]
    found = forward_areas(np.array(rates), np.array([power]), np.arange(1, len(rates) + 1))
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-12)


@given(
    st.lists(RATES, min_size=1, max_size=30), st.lists(st.floats(0.3, 2.5), min_size=2, max_size=2)
)
def test_the_shift_has_its_own_area_on_each_set(rates: list[float], powers: list[float]) -> None:
    """``eta_ref·sum (eta/eta_ref)^rho_s`` at powers that are no nodes of the series, in draws."""
    form = AreaForm(reference_rate=1e-3, shift_powers=Interval.of_powers(0.3, 2.5))
    steps = np.arange(len(rates) + 1)
    table = log_areas(form.shift_powers, np.array(rates), steps, unit=form.reference_rate)
    # Of one draw, and of two validation sets.
    basis = form.shift_basis({"rho_s": np.array([powers])})
    for own, power in zip(np.exp(basis[:, 0] @ table.T), powers, strict=True):
        sums = [sum(1e-3 * (rate / 1e-3) ** power for rate in rates[:step]) for step in steps]
        np.testing.assert_allclose(own, sums, rtol=1e-8, atol=1e-25)

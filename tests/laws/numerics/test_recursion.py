import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bayes_cpt.laws.recursions import fill_levels

RATES = st.lists(st.floats(0, 1e-2), min_size=1, max_size=30)


@given(RATES, st.floats(0, 1e-2), st.lists(st.integers(0, 30), min_size=1, max_size=8))
def test_levels_leave_the_sums_of_the_falls(
    rates: list[float], before: float, wanted: list[int]
) -> None:
    """With the memory m of Eq. 1, ``e = eta_t + lambda·m_t``, from any level to begin with."""
    points = np.array(sorted(min(step, len(rates)) for step in wanted))
    momenta = np.array([0.3, 0.99, 0.9999])
    starts = before + np.array([0.0, 1e-3, 2e-3])
    table, last = np.empty((points.size, 3)), starts.copy()
    fill_levels(np.array(rates), np.ones(len(rates)), last, np.log(momenta), points, table)
    falls = -np.diff([before, *rates])
    every = np.array([before, *rates])
    for j, momentum in enumerate(momenta):
        memory = [(starts[j] - before) / momentum]
        for fall in falls:
            memory.append(momentum * memory[-1] + fall)
        levels = every + momentum * np.array(memory)
        np.testing.assert_allclose(table[:, j], levels[points], rtol=1e-10, atol=1e-16)
        np.testing.assert_allclose(last[j], levels[points[-1]], rtol=1e-10, atol=1e-16)

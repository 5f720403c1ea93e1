import numpy as np
import pytest
from area_values import plain_level
from hypothesis import given
from hypothesis import strategies as st

from bayes_cpt.laws.recursions import fill_levels
from bayes_cpt.laws.schedule_ends import level_slopes

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


@given(
    st.lists(st.tuples(st.floats(1e-5, 1e-2), st.integers(1, 60)), min_size=1, max_size=8),
    st.floats(1e-5, 1e-2),
    st.sampled_from([0.0, 0.7, 1.0]),
)
def test_slopes_of_the_last_level_are_those_of_central_differences(
    stretches: list[tuple[float, int]], before: float, clock: float
) -> None:
    """At momenta from one whose memory is far shorter than a stretch to one that is far longer."""
    rate = 2e-3
    rates, counts = (np.array(own, dtype=np.float64) for own in zip(*stretches, strict=True))
    momenta = np.array([0.6, 0.98, 0.9997])

    def last_levels(own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        levels, slopes = np.full(3, before), np.empty((3, own.size))
        paces = (own / rate) ** clock
        by_rate = clock * paces / own
        level_slopes(own, counts, paces, by_rate, np.log(momenta), levels, slopes)
        return levels, slopes

    found, slopes = last_levels(rates)
    single = np.repeat(rates, counts.astype(int))
    expected = [plain_level(single, momentum, before, clock, rate) for momentum in momenta]
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    for k in range(rates.size):
        step = 1e-5 * rates[k] * np.eye(rates.size)[k]
        difference = (last_levels(rates + step)[0] - last_levels(rates - step)[0]) / (2 * step[k])
        assert slopes[:, k] == pytest.approx(difference, rel=1e-5, abs=1e-6)

"""Sums by panels against sums over every step, and the ends of schedules against runs along them."""

import numpy as np
import pytest

from bayes_cpt.laws.schedule_ends import NODES, panels


def test_a_panel_sums_polynomials_exactly_and_up_to_each_node() -> None:
    own = panels()
    for steps, nodes, weights, sums_to in zip(
        own.steps, own.nodes, own.weights, own.sums_to, strict=True
    ):
        every = np.arange(1.0, steps + 1.0)
        for degree in range(2 * NODES):
            whole = np.sum((every / steps) ** degree)
            assert weights @ (nodes / steps) ** degree == pytest.approx(whole, rel=1e-11)
        # Sums of i and of i^2 up to n, for n that is no step.
        np.testing.assert_allclose(sums_to @ nodes, nodes * (nodes + 1) / 2, rtol=1e-10)
        cubic = nodes * (nodes + 1) * (2 * nodes + 1) / 6
        # Rounding errors are those of the largest sum.
        np.testing.assert_allclose(sums_to @ nodes**2, cubic, rtol=1e-11, atol=1e-14 * cubic[-1])

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from strategies import schedules

from bayes_cpt.laws.areas import (
    MomentumRange,
    annealing_area,
    annealing_memory,
    chebyshev_basis,
    continual_areas,
    forward_area,
    pretraining_areas,
)
from bayes_cpt.study.schedules import Schedule, constant, cosine, linear, warmup_stable_decay

MOMENTA = st.floats(0.9, 0.9999)


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
    st.lists(st.floats(0, 1e-2), min_size=1, max_size=15),
    st.floats(0, 0.9999),
    st.floats(0, 1e-2),
)
def test_annealing_area_is_the_double_sum(
    rates: list[float], momentum: float, before: float
) -> None:
    expected = double_sum(rates, momentum, before)
    np.testing.assert_allclose(
        annealing_area(rates, momentum, before), expected, rtol=1e-9, atol=1e-15
    )


@pytest.mark.parametrize("momentum", [0.5, 0.99, 0.999, 0.9999])
def test_closed_form_of_a_drop(momentum: float) -> None:
    steps = np.arange(1, 5001)
    expected = 1.5e-3 * -np.expm1(steps * math.log(momentum)) / (1 - momentum)
    got = annealing_area(np.full(5000, 5e-4), momentum, 2e-3)
    np.testing.assert_allclose(got, expected, rtol=1e-11)


@pytest.mark.parametrize("momentum", [0.99, 0.999])
def test_closed_form_of_a_linear_decay(momentum: float) -> None:
    steps, peak = 4000, 2e-3
    t = np.arange(1, steps + 1)
    memory_sum = momentum * -np.expm1(t * math.log(momentum)) / (1 - momentum)
    expected = peak / steps * (t - memory_sum) / (1 - momentum)
    rates = linear(steps, peak, 0.0).learning_rates()
    np.testing.assert_allclose(annealing_area(rates, momentum, peak), expected, rtol=1e-9)
    np.testing.assert_allclose(
        forward_area(rates), peak * (t - t * (t + 1) / (2 * steps)), rtol=1e-11
    )


@given(schedules(), st.floats(0.0, 0.9999), st.floats(0, 1e-2), st.integers(0, 400))
def test_annealing_continues_from_its_memory(
    schedule: Schedule, momentum: float, before: float, cut: int
) -> None:
    rates = schedule.learning_rates()
    cut = min(cut, rates.size)
    whole = annealing_area(rates, momentum, before)
    memory = annealing_memory(rates[:cut], momentum, before)
    start = whole[cut - 1] if cut else 0.0
    middle = rates[cut - 1] if cut else before
    rest = annealing_area(rates[cut:], momentum, middle, initial_memory=memory)
    np.testing.assert_allclose(start + rest, whole[cut:], rtol=1e-9, atol=1e-13)


@given(schedules(), st.floats(0.0, 0.9999), st.floats(0.1, 10))
def test_both_areas_are_linear_in_the_learning_rate(
    schedule: Schedule, momentum: float, factor: float
) -> None:
    rates, scaled = schedule.learning_rates(), schedule.scaled(factor).learning_rates()
    np.testing.assert_allclose(forward_area(scaled), factor * forward_area(rates), rtol=1e-10)
    np.testing.assert_allclose(
        annealing_area(scaled, momentum, scaled[0]),
        factor * annealing_area(rates, momentum, rates[0]),
        rtol=1e-9,
        atol=1e-14,
    )


def test_rewarming_gives_a_negative_area() -> None:
    areas = continual_areas(
        linear(100, 0, 2e-3) + linear(400, 2e-3, 0.0), linear(50, 0, 2e-3), np.arange(51)
    )
    assert areas.annealing_cpt.evaluate(0.999)[0] == pytest.approx(0.0, abs=1e-14)
    assert np.all(areas.annealing_cpt.evaluate(0.999)[1:] < 0)


@pytest.mark.parametrize("momentum", [-0.1, 1.0, math.nan])
def test_momentum_out_of_range(momentum: float) -> None:
    with pytest.raises(ValueError, match="momentum"):
        annealing_area([1e-3], momentum, 1e-3)


@pytest.mark.parametrize(("low", "high"), [(0.0, 0.9), (0.9, 0.9), (0.99, 0.9), (0.9, 1.0)])
def test_momentum_range_out_of_order(low: float, high: float) -> None:
    with pytest.raises(ValueError, match="low < high < 1"):
        MomentumRange(low, high)


def relative_error(
    schedule: Schedule, momenta: NDArray[np.float64], momentum_range: MomentumRange
) -> float:
    """Return the interpolant's largest error over the steps and momenta, against the recursion."""
    rates = schedule.learning_rates()
    steps = np.unique(np.geomspace(1, rates.size, 60).astype(int))
    base = constant(10, 5e-3)
    areas = continual_areas(base, schedule, steps, momentum_range=momentum_range)
    exact = np.array([annealing_area(rates, m, base.final)[steps - 1] for m in momenta])
    error = np.abs(areas.annealing_cpt.evaluate(momenta) - exact).max()
    # Where the rate never changes there is nothing to be relative to, and the error is that of an exact 0.
    return float(error / (np.abs(exact).max() or 1.0))


@settings(max_examples=40)
@given(schedules(max_steps=2500), st.lists(MOMENTA, min_size=1, max_size=5))
@example(constant(30, 5e-3), [0.95])
def test_interpolant_meets_its_stated_error(schedule: Schedule, momenta: list[float]) -> None:
    every = np.array([0.9, 0.99, 0.9999, *momenta])
    assert relative_error(schedule, every, MomentumRange()) < 1e-8


@pytest.mark.parametrize(
    "momentum_range",
    [MomentumRange(), MomentumRange(0.1, 0.9999), MomentumRange(0.95, 0.99999)],
    ids=str,
)
@pytest.mark.parametrize(
    "schedule",
    [
        cosine(100_000, 1e-3, warmup_steps=2000),
        linear(100, 0, 1e-3) + constant(50_000, 1e-3) + constant(49_900, 1e-4),
        warmup_stable_decay(20_000, 2e-3, decay_steps=4000, warmup_steps=300),
    ],
    ids=["cosine", "drop", "wsd"],
)
def test_interpolant_of_long_schedules(schedule: Schedule, momentum_range: MomentumRange) -> None:
    momenta = -np.expm1(
        np.linspace(math.log1p(-momentum_range.low), math.log1p(-momentum_range.high), 9)[1:-1]
    )
    momenta = np.array([momentum_range.low, *momenta, momentum_range.high])
    # Relative to each momentum's own curve, which is stricter than what is stated.
    for momentum in momenta:
        assert relative_error(schedule, np.array([momentum]), momentum_range) < 1e-9


def test_interpolant_refuses_other_momenta() -> None:
    areas = pretraining_areas(constant(10, 1e-3), [10], MomentumRange(0.9, 0.99))
    with pytest.raises(ValueError, match="build a wider interpolant"):
        areas.annealing_pt.evaluate(0.999)


def test_basis_is_the_same_in_pytensor_with_a_finite_slope() -> None:
    pytensor = pytest.importorskip("pytensor")
    momentum_range = MomentumRange()
    momentum = pytensor.tensor.dscalar()
    basis = chebyshev_basis(momentum, momentum_range, pytensor.tensor)
    slope = pytensor.grad(basis.sum(), momentum)
    function = pytensor.function([momentum], [basis, slope], mode="FAST_COMPILE")
    for value in (0.9, 0.99, 0.9999):
        in_pytensor, gradient = function(value)
        np.testing.assert_allclose(in_pytensor, chebyshev_basis(value, momentum_range), rtol=1e-10)
        step = 1e-6 * (1 - value)
        above, below = (
            chebyshev_basis(value + sign * step, momentum_range).sum() for sign in (1, -1)
        )
        assert gradient == pytest.approx((above - below) / (2 * step), rel=1e-4)


def test_pretraining_counts_warmup_forward_only() -> None:
    schedule = linear(50, 0, 2e-3) + linear(100, 2e-3, 0)
    areas = pretraining_areas(schedule, [0, 25, 50, 60, 150])
    rates = schedule.learning_rates()
    np.testing.assert_allclose(areas.forward_pt, np.array([0, *np.cumsum(rates)])[areas.steps])
    decay = annealing_area(rates[50:], 0.99, 2e-3)
    np.testing.assert_allclose(
        areas.annealing_pt.evaluate(0.99), [0, 0, 0, decay[9], decay[99]], atol=1e-13
    )
    assert not areas.forward_cpt.any()
    assert not areas.annealing_cpt.evaluate(0.99).any()
    assert areas.learning_rates == pytest.approx([rates[0], 1e-3, 2e-3, 1.8e-3, 0.0])


def test_pretraining_without_warmup_starts_unannealed() -> None:
    areas = pretraining_areas(constant(10, 1e-3), np.arange(11))
    assert not areas.annealing_pt.evaluate(0.999).any()


@pytest.mark.parametrize("carry_memory", [False, True])
def test_transfer_adds_up(carry_memory: bool) -> None:
    base = linear(20, 0, 2e-3) + constant(60, 2e-3) + linear(40, 2e-3, 1e-3)
    run = linear(30, 1e-3, 5e-4) + constant(30, 5e-4)
    areas = continual_areas(base, run, np.arange(61), carry_memory=carry_memory)
    whole = pretraining_areas(base + run, base.steps + np.arange(61))
    momentum = 0.97
    split = areas.annealing_pt.evaluate(momentum) + areas.annealing_cpt.evaluate(momentum)
    carried_over = whole.annealing_pt.evaluate(momentum) - split
    if carry_memory:
        np.testing.assert_allclose(carried_over, 0, atol=1e-13)
    else:
        memory = annealing_memory(base.learning_rates()[20:], momentum, 2e-3)
        decay = memory * momentum * (1 - momentum ** np.arange(61)) / (1 - momentum)
        np.testing.assert_allclose(carried_over, decay, rtol=1e-8, atol=1e-13)
    np.testing.assert_allclose(areas.forward_pt + areas.forward_cpt, whole.forward_pt)
    np.testing.assert_array_equal(areas.learning_rates, whole.learning_rates)


def test_unknown_base_is_taken_as_annealed() -> None:
    run = linear(30, 0, 1e-3)
    areas = continual_areas(None, run, [0, 30])
    assert areas.learning_rates.tolist() == [0.0, 1e-3]
    assert not areas.forward_pt.any()
    assert not areas.annealing_pt.evaluate(0.99).any()
    expected = annealing_area(run.learning_rates(), 0.99, 0.0)[-1]
    assert areas.annealing_cpt.evaluate(0.99)[1] == pytest.approx(expected)


@pytest.mark.parametrize("step", [-1, 31])
def test_steps_outside_the_schedule(step: int) -> None:
    with pytest.raises(ValueError, match="the schedule has steps 0 to 30"):
        continual_areas(None, linear(30, 0, 1e-3), [step])


def test_evaluate_takes_many_momenta() -> None:
    areas = pretraining_areas(cosine(100, 1e-3), [10, 50, 100])
    momenta = np.array([[0.95, 0.99], [0.999, 0.9995]])
    values = areas.annealing_pt.evaluate(momenta)
    assert values.shape == (2, 2, 3)
    np.testing.assert_allclose(values[1, 0], areas.annealing_pt.evaluate(0.999), rtol=1e-12)

"""The terms of the law: each is its closed form, and the paper prints what it reduces to."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hand_points import MOMENTUM, hand_points
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike
from scipy.integrate import quad

from bayes_cpt.laws.groups import Batches, Mixture, ModelSize
from bayes_cpt.laws.law import Law, gather
from bayes_cpt.laws.pretraining import Annealing, Power
from bayes_cpt.laws.term import Reference, relative_exponential
from bayes_cpt.laws.transfer import Damage, Shift, effective_share

REFERENCE = Reference(learning_rate=2e-4, forward_pt=8.0, forward_cpt=4.0, steps=20_000.0)


def test_law_is_the_sum_of_its_terms_written_out() -> None:
    coefficients = {
        "L0": np.array([3.057, 3.024]),
        "A": np.array([0.490, 0.412]),
        "alpha": np.array([0.497, 0.677]),
        "C1": np.array([0.299, 0.278]),
        "C2": np.array([0.298, 0.324]),
        "B": np.array([0.366, -0.666]),
        "E": np.array([28.0, 5662.0]),
        "beta": np.array([0.189, 0.146]),
        "lambda": np.float64(MOMENTUM),
    }
    terms = (Power(), Annealing(), Shift((1.0, -1.0), ("none", "none")))
    points = hand_points(
        domain=[0, 1], forward_cpt=2.0, annealing_pt=0.15, annealing_cpt=0.05, steps=10_000.0
    )
    found = Law(terms, REFERENCE).loss(points, gather(points, coefficients, np), np)
    general = 3.057 + 0.49 * 10.0**-0.497 - 0.299 * 0.15 - 0.298 * 0.05 + 0.366 * (1 - 57.0**-0.189)
    target = (
        3.024 + 0.412 * 10.0**-0.677 - 0.278 * 0.15 - 0.324 * 0.05 - 0.666 * (1 - 11325.0**-0.146)
    )
    np.testing.assert_allclose(found, [general, target], rtol=1e-12)


# --- power and annealing --------------------------------------------------------------------------


@given(st.floats(1.0, 6.0), st.floats(0.005, 1.0), st.floats(0.1, 2.0))
def test_power_has_the_sampled_loss_and_slope(loss: float, slope: float, exponent: float) -> None:
    parameters = {"reference_loss": loss, "reference_slope": slope, "exponent": exponent}
    found = Power().coefficients({k: np.float64(v) for k, v in parameters.items()}, REFERENCE, np)
    step = 1e-4
    areas = 8.0 * np.exp([-step, 0.0, step])
    before, here, after = Power().loss(hand_points(forward_pt=areas), found, np)
    assert here == pytest.approx(loss, rel=1e-12)
    assert (before - after) / (2 * step) == pytest.approx(slope, rel=1e-5)
    # And A·alpha·S1^-alpha is the printed form of that slope.
    assert found["A"] * exponent * 8.0**-exponent == pytest.approx(slope, rel=1e-12)


@given(st.floats(10.0, 5000.0), st.floats(0.01, 1.0), st.floats(0.5, 2.0))
def test_the_gain_is_what_a_full_anneal_takes_off(memory: float, gain: float, ratio: float) -> None:
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
    ours = {"lambda": MOMENTUM, "C1": 0.28, "C2": 0.263 * math.exp(0.055), "a1": -0.055}
    printed = -0.263 * 0.13 * np.exp(0.055 * (1.0 - share))
    np.testing.assert_allclose(Annealing().loss(points, ours, np), printed, rtol=1e-12)


# --- shift and replay -----------------------------------------------------------------------------

SHIFT = Shift((1.0, -1.0), ("power", "exponential"))

POSITIVE = st.floats(0.01, 5.0)
SHIFT_PARAMETERS = st.fixed_dictionaries(
    {
        "reference_loss": st.tuples(POSITIVE, POSITIVE),
        "shift_share": st.tuples(POSITIVE, POSITIVE),
        "shift_rate": st.tuples(st.floats(0.1, 1e4), st.floats(0.1, 1e4)),
        "shift_exponent": st.tuples(st.floats(0.02, 3.0), st.floats(0.02, 3.0)),
        "replay_onset": st.tuples(st.floats(1.0, 2e3)),
        "replay_quarter": st.tuples(st.floats(0.02, 0.98)),
        "replay_curvature": st.tuples(st.floats(-8.0, 8.0)),
        "replay_rate": st.tuples(st.floats(-0.5, 1.5), st.floats(-0.5, 1.5)),
    }
)


DILUTED = Shift((1.0, -1.0), ("power", "saturating"))


def test_diluted_factors_reach_both_printed_forms() -> None:
    """docs/law.md states k and the largest distance, the rest of each form being linear."""
    x = np.linspace(0.0, 1.0, 101)
    linear = {"b": 150.0, "gamma": 0.0}
    general = (1 - np.exp(-3.238 * x)) / (1 - math.exp(-3.238))
    found = DILUTED.replay_factor(x, linear | {"k": -1.1}, np)
    assert np.max(np.abs(found - general)) == pytest.approx(0.041, abs=0.001)
    target = np.expm1(5.696 * x) / math.expm1(5.696)
    nearly_linear = {"c": np.float64(1e-9), "delta": np.float64(1.0)}
    found = DILUTED.replay_factor(x, nearly_linear | {"k": 4.6}, np)
    assert np.max(np.abs(found - target)) == pytest.approx(0.005, abs=0.001)


@given(SHIFT_PARAMETERS, st.just(0.0) | st.floats(1e-6, 1.0), st.floats(0.0, 100.0))
def test_shift_has_its_size_at_the_reference_and_is_zero_at_the_transfer_and_at_pure_replay(
    drawn: dict[str, Any], share: float, area: float
) -> None:
    parameters = {name: np.array(value) for name, value in drawn.items()}
    coefficients = SHIFT.coefficients(parameters, REFERENCE, np)

    def loss(**where: float) -> Any:
        points = hand_points(domain=[0, 1], **where)
        return SHIFT.loss(points, gather(points, coefficients, np), np)

    size = parameters["shift_share"] * parameters["reference_loss"]
    np.testing.assert_allclose(loss(forward_cpt=4.0), size * [1.0, -1.0], rtol=1e-9)
    np.testing.assert_allclose(coefficients["E"] * 4.0, drawn["shift_rate"], rtol=1e-12)
    np.testing.assert_allclose(coefficients["beta"], drawn["shift_exponent"])
    np.testing.assert_array_equal(loss(forward_cpt=0.0, target_share=share), 0.0)
    np.testing.assert_array_equal(loss(forward_cpt=area, target_share=0.0), 0.0)


@pytest.mark.parametrize("curvature", [3.238, 5.696])
def test_exponential_factor_covers_both_printed_forms(curvature: float) -> None:
    """1 - exp(-a2·r) and exp(a2·r) - 1 of Eq. 8, each divided by its value at r = 1."""
    x = np.linspace(0.0, 1.0, 9)
    saturating = (1 - np.exp(-curvature * x)) / (1 - math.exp(-curvature))
    convex = (np.exp(curvature * x) - 1) / (math.exp(curvature) - 1)
    full = np.full(9, curvature)
    np.testing.assert_allclose(relative_exponential(full, x, np), saturating, rtol=1e-12)
    np.testing.assert_allclose(relative_exponential(-full, x, np), convex, rtol=1e-12)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_relative_exponential_is_continuous_where_its_series_takes_over(sign: float) -> None:
    x = np.linspace(0.0, 1.0, 21)
    inside = relative_exponential(np.full(21, sign * 0.9999999e-4), x, np)
    outside = relative_exponential(np.full(21, sign * 1.0000001e-4), x, np)
    np.testing.assert_allclose(inside, outside, rtol=0, atol=2e-9)
    tiny = relative_exponential(np.full(21, sign * 1e-12), x, np)
    np.testing.assert_allclose(tiny, x, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("exponent", "expected"),
    [
        (0.7, lambda x: (1 - (1 + 16 * x) ** -0.7) / (1 - 17**-0.7)),
        (0.0, lambda x: np.log(1 + 16 * x) / np.log(17)),
        (-0.5, lambda x: (np.sqrt(1 + 16 * x) - 1) / (np.sqrt(17) - 1)),
        (-1.0, lambda x: x),
        (-2.0, lambda x: ((1 + 16 * x) ** 2 - 1) / 288),
    ],
)
def test_saturating_factor_is_its_closed_form(exponent: float, expected: Any) -> None:
    share = np.linspace(0.0, 1.0, 21)
    found = DILUTED.replay_factor(share, {"c": 16.0, "delta": exponent}, np)
    np.testing.assert_allclose(found, expected(share), atol=1e-12)


# --- repeated tokens ------------------------------------------------------------------------------

LASTING = replace(REFERENCE, unique_steps=1000.0)
OF_REPEATS = {
    "reference_loss": np.array([1.0, 1.0]),
    "shift_share": np.array([0.3, 0.5]),
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


def test_repeats_slow_the_shift_as_fewer_steps_would() -> None:
    points = hand_points(forward_cpt=[2.0], steps=[10_000.0], target_share=[0.5])
    term = Shift((1.0, -1.0), ("none", "none"))
    coefficients = gather(points, term.coefficients(OF_REPEATS, LASTING, np), np)
    # 10,000 steps at half target data are five epochs of 1000 steps.
    effective = (1 + 15.0 * (1 - np.exp(-4 / 15.0))) / 5
    fewer = hand_points(forward_cpt=[2.0 * effective], steps=[100.0], target_share=[0.5])
    new = {name: value for name, value in OF_REPEATS.items() if name != "repeat_constant"}
    wanted = term.loss(fewer, gather(fewer, term.coefficients(new, LASTING, np), np), np)
    np.testing.assert_allclose(term.loss(points, coefficients, np), wanted, rtol=1e-12)


# --- model sizes ----------------------------------------------------------------------------------

SIZED = replace(REFERENCE, model_size=400.0)
# Fig. 15 of the paper, D_pt; sizes in millions of parameters.
F, GAMMA_1, GAMMA_2, GAMMA_3 = 3.072, 0.235, 0.199, 0.195
SIZES = np.array([106.0, 594.0, 1720.0])


def of_size(**others: float) -> dict[str, np.ndarray]:
    at_reference = F * SIZED.model_size**-GAMMA_3
    values = {
        "size_slope": at_reference * GAMMA_3,
        "size_exponent": GAMMA_3,
        "annealing_by_size": GAMMA_1,
        "ratio_by_size": GAMMA_2 - GAMMA_1,
        **dict.fromkeys(("power_by_size", "shift_by_size", "size_misfit", "annealing_misfit"), 0.0),
    }
    found = {name: np.array([value]) for name, value in (values | others).items()}
    return found | {f"{kind}_deviation": np.ones(3) for kind in ("size", "annealing")}


def loss_of_sizes(
    term: Any,
    parameters: dict[str, np.ndarray] | None = None,
    log_batch: ArrayLike = 0.0,
    **coefficients: float,
) -> np.ndarray:
    """Return what a term with these coefficients adds at each of `SIZES`."""
    points = hand_points(
        log_size=np.log(SIZES / SIZED.model_size),
        size_member=np.arange(3),
        forward_cpt=2.0,
        annealing_pt=0.5,
        annealing_cpt=0.2,
        log_batch=log_batch,
    )
    own = ModelSize().coefficients(parameters or of_size(), SIZED, np)
    own |= {name: np.array([value]) for name, value in coefficients.items()}
    own["lambda"] = np.float64(0.999)
    return np.asarray(term.loss(points, gather(points, own, np), np))


def test_size_adds_the_printed_power() -> None:
    """Eq. 7 counts F·N^-gamma_3 from 0, the term from the reference size."""
    printed = F * SIZES**-GAMMA_3 - F * SIZED.model_size**-GAMMA_3
    np.testing.assert_allclose(loss_of_sizes(ModelSize()), printed, rtol=1e-12)


def test_annealing_changes_with_the_printed_powers_of_size_and_with_that_of_batch_size() -> None:
    """Eq. 7 prints C1·N^gamma_1, N in millions; counted from the reference, C1 is that of its size."""
    before, after = 0.090, 0.103
    gains = {"C1": before * SIZED.model_size**GAMMA_1, "C2": after * SIZED.model_size**GAMMA_2}
    usual = loss_of_sizes(Annealing(), **gains)
    printed = -before * SIZES**GAMMA_1 * 0.5 - after * SIZES**GAMMA_2 * 0.2
    np.testing.assert_allclose(usual, printed, rtol=1e-9)
    # Four times the batch at exponent -1/2: half the gain of the same size.
    found = loss_of_sizes(Annealing(), log_batch=np.log([1.0, 4.0, 16.0]), gamma_V=-0.5, **gains)
    np.testing.assert_allclose(found / usual, [1.0, 0.5, 0.25], rtol=1e-12)


def test_power_and_shift_change_with_size_only_as_their_exponents_say() -> None:
    power, shift = Power(), Shift((1.0,), ("none",))
    given: dict[str, Any] = {"L0": 0.0, "A": 0.5, "alpha": 0.5, "B": 0.3, "E": 20.0, "beta": 0.2}
    for term in (power, shift):
        assert np.ptp(loss_of_sizes(term, **given | {"L0": 3.0})) == pytest.approx(0.0, abs=1e-15)
    own, ratio = of_size(power_by_size=0.1, shift_by_size=-0.2), SIZES / SIZED.model_size
    for term, wanted in (
        (power, 0.5 * 10.0**-0.5 * ratio**0.1),
        (shift, 0.3 * (1 - 41.0**-0.2) * ratio**-0.2),
    ):
        np.testing.assert_allclose(loss_of_sizes(term, own, **given), wanted, rtol=1e-12)


def test_a_size_has_its_own_level_and_gain() -> None:
    """Deviations of two validation sets lie one after the other, each in its own sds."""
    values = of_size() | {
        "size_misfit": np.array([0.01, 0.1]),
        "size_deviation": np.array([1.0, -2.0, 3.0, 1.0]),
        "annealing_misfit": np.array([0.5, 1.0]),
        "annealing_deviation": np.array([0.0, 1.0, 1.0, 2.0]),
    }
    found = ModelSize().coefficients(values, SIZED, np)
    np.testing.assert_allclose(found["delta_N"], [0.01, -0.02, 0.3, 0.1])
    np.testing.assert_allclose(found["epsilon_N"], [0.0, 0.5, 1.0, 2.0])


# --- batches --------------------------------------------------------------------------------------

AREAS = np.array([0.5, 4.0, 9.0])
# Of three batches on each of two validation sets.
OF_BATCHES = {
    "reference_loss": np.array([1.0, 1.0]),
    "shift_share": np.array([0.3, 0.4, 0.2, 0.6, 0.5, 0.7]),
    "shift_rate": np.array([20.0, 12.0, 55.0, 300.0, 200.0, 150.0]),
    "shift_exponent": np.array([0.4, 0.44, 0.3, 0.2, 0.3, 0.15]),
}


def law_of(batches: int) -> Law:
    shift = Shift((1.0, -1.0), ("none", "none"), batches=batches > 1)
    return Law((shift,), REFERENCE, batches=Batches(2) if batches > 1 else None)


@pytest.mark.parametrize("domain", [0, 1])
@pytest.mark.parametrize("batch", [0, 1, 2])
def test_a_batch_has_the_law_whose_parameters_are_its_own(batch: int, domain: int) -> None:
    """App. F: the same form, with B, E and beta of its own."""
    points = hand_points(
        forward_cpt=AREAS,
        batch_member=3 * domain + batch,
        domain=domain,
        steps=20_000.0 * AREAS / 4.0,
        target_share=0.7,
    )
    rows = [batch, 3 + batch]
    single = {k: values[rows] if values.size > 2 else values for k, values in OF_BATCHES.items()}
    found, expected = (
        each.loss(points, gather(points, each.coefficients(values, np), np), np)
        for each, values in ((law_of(3), OF_BATCHES), (law_of(1), single))
    )
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_coefficients_are_those_of_the_usual_batch_and_ratios_to_it() -> None:
    found = law_of(3).coefficients(OF_BATCHES, np)
    np.testing.assert_allclose(found["E"], [20.0 / 4.0, 300.0 / 4.0])
    np.testing.assert_allclose(found["q_E"], [1.0, 0.6, 2.75, 1.0, 2 / 3, 0.5])
    for name in ("q_B", "q_beta"):
        np.testing.assert_allclose(found[name][[0, 3]], 1.0)


# --- several targets ------------------------------------------------------------------------------

# Of the general set and two targets.
B, E, BETA, OMEGA = np.array([0.4, -0.7, -0.5]), np.array([30.0, 900.0, 400.0]), 0.3, 0.4
CURVATURE, PSI, PHI = np.array([1.5, 3.0, 2.0]), np.array([0.0, 0.2, -0.3]), [1.0, 0.6, 1.8]
MIXED = Shift((1.0, -1.0, -1.0), ("exponential",) * 3)


def of_targets() -> dict[str, Any]:
    shared = {"beta": np.full(3, BETA), "omega": np.full(3, OMEGA), "lambda": np.float64(0.999)}
    sampled = {"target_transfer": PSI, "forgetting_factor": np.array(PHI)}
    own = Mixture().coefficients(sampled, REFERENCE, np)
    return {"B": B, "E": E, "a": CURVATURE} | shared | own


def of_mixture(domain: int, share: float, weights: tuple[float, float]) -> object:
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
    pace = E[domain] * (own / h if own > 0 else -np.expm1(-a) / a) ** OMEGA
    shift = B[domain] * (h + other) * (1.0 - (1.0 + pace * 0.6) ** -BETA)
    return float(factor * shift)


@pytest.mark.parametrize("domain", [0, 1, 2])
@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.7, 0.3), (0.0, 1.0)])
def test_a_mixture_moves_each_set_as_the_formula_says_and_pure_replay_moves_none(
    domain: int, weights: tuple[float, float]
) -> None:
    loss, of_replay_alone = (
        MIXED.loss(where, gather(where, of_targets(), np), np)
        for where in (of_mixture(domain, share, weights) for share in (0.8, 0.0))
    )
    np.testing.assert_allclose(loss, written_out(domain, 0.8, weights), rtol=1e-5)
    assert abs(of_replay_alone[0]) < 1e-12


def test_damage_is_in_proportion_to_squared_rates_and_the_target_share() -> None:
    # A typical run of 20,000 steps has S1 = 4, so one at a constant rate has S3 = 20,000 (4/20,000)^2.
    found = Damage().coefficients({"damage": np.array([0.0, 0.008])}, REFERENCE, np)
    points = hand_points(domain=[1, 1, 1, 0], target_share=[1.0, 0.5, 0.5, 1.0])
    points = replace(points, squared_area=np.array([8e-4, 8e-4, 1.6e-3, 8e-4]))
    loss = Damage().loss(points, gather(points, found, np), np)
    np.testing.assert_allclose(loss, [0.008, 0.004, 0.008, 0.0], rtol=1e-12)


def test_forgetting_costs_the_target_less_with_replay_and_levels_off() -> None:
    # The reference area is 4; a quarter of replay leaves 15 % of the cost.
    values = {"damage": np.zeros(2), "target_forgetting": np.array([0.0, 0.05])}
    found = Damage().coefficients(values, REFERENCE, np)
    points = hand_points(
        domain=[1, 1, 1, 0], target_share=[1.0, 0.75, 1.0, 1.0], forward_cpt=[4.0, 4.0, 12.0, 4.0]
    )
    loss = Damage().loss(points, gather(points, found, np), np)
    np.testing.assert_allclose(loss, [0.05, 0.0075, 0.075, 0.0], rtol=1e-12)

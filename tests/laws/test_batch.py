import numpy as np
import pytest
from hand_points import hand_points

from bayes_cpt.laws import Adaptation, Batches, Reference, Shift
from bayes_cpt.laws.law import gather

REFERENCE = Reference(2e-4, 8.0, 4.0, 20_000.0)
AREAS = np.array([0.5, 4.0, 9.0])
SIZE, RATE, BETA = 0.3, 20.0, 0.4
# Logs of the factors of three batches.
SHIFT, PACE, EXPONENT = (
    np.array([0.0, 0.3, -0.2]),
    np.array([0.0, -0.5, 1.0]),
    np.array([0.0, 0.1, -0.3]),
)


def sampled(**others: np.ndarray) -> dict[str, np.ndarray]:
    one = {"shift_size": SIZE, "shift_rate": RATE, "shift_exponent": BETA, "adaptation_share": 0.2}
    found = {name: np.array([value]) for name, value in one.items()}
    found["adaptation_time"] = np.array([0.1])
    spreads = {"shift": 0.5, "rate": 2.0, "exponent": 0.1}
    for kind, logs in (("shift", SHIFT), ("rate", PACE), ("exponent", EXPONENT)):
        found[f"batch_{kind}_spread"] = np.array([spreads[kind]])
        found[f"batch_{kind}_deviation"] = logs / spreads[kind]
    return found | others


@pytest.mark.parametrize("batch", [0, 1, 2])
def test_a_batch_has_the_shift_of_a_law_whose_parameters_are_its_own(batch: int) -> None:
    """App. F: the same form, with B, E and beta of its own; here B by the shift at the reference."""
    terms = (Shift((1.0,), ("none",), adaptation=True), Adaptation((1.0,)))
    values = sampled()
    points = hand_points(
        forward_cpt=AREAS, batch_member=batch, steps=20_000.0 * AREAS / 4.0, target_share=0.7
    )
    whole = Batches(adaptation=True).coefficients(values, REFERENCE, np)
    own = values | {
        "shift_size": values["shift_size"] * np.exp(SHIFT[batch]),
        "shift_rate": values["shift_rate"] * np.exp(PACE[batch]),
        "shift_exponent": values["shift_exponent"] * np.exp(EXPONENT[batch]),
    }
    for term in terms:
        both = term.coefficients(values, REFERENCE, np)
        found = term.loss(points, gather(points, both | whole, np), np)
        alone = term.coefficients(own, REFERENCE, np)
        expected = term.loss(points, gather(points, alone, np), np)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_the_printed_shift_of_one_batch() -> None:
    values = sampled()
    found = Batches().coefficients(values, REFERENCE, np)
    area, rate, beta = 9.0, RATE / 4.0 * np.exp(1.0), BETA * np.exp(-0.3)
    limit = SIZE * np.exp(-0.2) / (1 - (1 + 4.0 * rate) ** -beta)
    shift = Shift((-1.0,), ("none",))
    points = hand_points(forward_cpt=area, batch_member=2)
    loss = shift.loss(
        points, gather(points, shift.coefficients(values, REFERENCE, np) | found, np), np
    )
    np.testing.assert_allclose(loss, -limit * (1 - (1 + area * rate) ** -beta), rtol=1e-12)


def test_deviations_of_two_validation_sets_lie_one_after_the_other() -> None:
    values = sampled(
        shift_rate=np.array([2.0, 3.0]),
        shift_exponent=np.array([0.3, 0.4]),
        batch_shift_spread=np.array([0.1, 0.2]),
        batch_shift_deviation=np.zeros(4),
        batch_rate_spread=np.array([0.5, 1.0]),
        batch_rate_deviation=np.array([0.0, 2.0, -1.0, 0.0]),
        batch_exponent_spread=np.array([0.1, 0.2]),
        batch_exponent_deviation=np.zeros(4),
    )
    found = Batches().coefficients(values, REFERENCE, np)
    np.testing.assert_allclose(np.log(found["q_E"]), [0.0, 1.0, -1.0, 0.0], atol=1e-15)
    np.testing.assert_allclose(found["q_beta"], 1.0)


def test_an_exponential_shift_has_no_exponent_to_differ_in() -> None:
    batches = Batches(exponential=True)
    assert not [name for name in batches.parameters() if "exponent" in name]
    assert set(batches.coefficients(sampled(), REFERENCE, np)) == {"q_B", "q_E"}

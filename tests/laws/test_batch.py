import numpy as np
import pytest
from hand_points import hand_points

from bayes_cpt.laws import Batches, Law, Reference, Shift
from bayes_cpt.laws.law import gather

REFERENCE = Reference(2e-4, 8.0, 4.0, 20_000.0)
AREAS = np.array([0.5, 4.0, 9.0])
# Of three batches on each of two validation sets.
OWN = {
    "shift_size": np.array([0.3, 0.4, 0.2, 0.6, 0.5, 0.7]),
    "shift_rate": np.array([20.0, 12.0, 55.0, 300.0, 200.0, 150.0]),
    "shift_exponent": np.array([0.4, 0.44, 0.3, 0.2, 0.3, 0.15]),
}


def law(batches: int) -> Law:
    signs, factors = (1.0, -1.0), ("none", "none")
    shift = Shift(signs, factors, batches=batches > 1)
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
    together, alone = law(3), law(1)
    single = {name: values[[batch, 3 + batch]] for name, values in OWN.items()}
    found, expected = (
        each.loss(points, gather(points, each.coefficients(values, np), np), np)
        for each, values in ((together, OWN), (alone, single))
    )
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_coefficients_are_those_of_the_usual_batch_and_ratios_to_it() -> None:
    found = law(3).coefficients(OWN, np)
    np.testing.assert_allclose(found["E"], [20.0 / 4.0, 300.0 / 4.0])
    np.testing.assert_allclose(found["q_E"], [1.0, 0.6, 2.75, 1.0, 2 / 3, 0.5])
    for name in ("q_B", "q_beta"):
        np.testing.assert_allclose(found[name][[0, 3]], 1.0)

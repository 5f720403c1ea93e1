import numpy as np
import pytest
from hand_points import hand_points

from bayes_cpt.laws import Annealing, ModelSize, Power, Reference, Shift
from bayes_cpt.laws.law import gather

REFERENCE = Reference(2e-4, 8.0, 4.0, 20_000.0, model_size=400.0)
# Fig. 15 of the paper, D_pt; sizes in millions of parameters.
F, GAMMA_1, GAMMA_2, GAMMA_3 = 3.072, 0.235, 0.199, 0.195
SIZES = np.array([106.0, 594.0, 1720.0])


def sampled(**others: float) -> dict[str, np.ndarray]:
    at_reference = F * REFERENCE.model_size**-GAMMA_3
    values = {
        "size_slope": at_reference * GAMMA_3,
        "size_exponent": GAMMA_3,
        "power_by_size": 0.0,
        "annealing_by_size": GAMMA_1,
        "ratio_by_size": GAMMA_2 - GAMMA_1,
        "shift_by_size": 0.0,
        "size_misfit": 0.0,
        "annealing_misfit": 0.0,
    }
    found = {name: np.array([value]) for name, value in (values | others).items()}
    return found | {f"{kind}_deviation": np.ones(3) for kind in ("size", "annealing")}


def points() -> object:
    return hand_points(
        log_size=np.log(SIZES / REFERENCE.model_size),
        size_member=np.arange(3),
        forward_cpt=2.0,
        annealing_pt=0.5,
        annealing_cpt=0.2,
    )


def gathered(**coefficients: float) -> dict[str, np.ndarray]:
    own = ModelSize().coefficients(sampled(), REFERENCE, np)
    given = {name: np.array([value]) for name, value in coefficients.items()}
    return gather(points(), own | given | {"lambda": np.float64(0.999)}, np)


def test_size_adds_the_printed_power() -> None:
    """Eq. 7 counts F·N^-gamma_3 from 0, the term from the reference size."""
    printed = F * SIZES**-GAMMA_3 - F * REFERENCE.model_size**-GAMMA_3
    np.testing.assert_allclose(ModelSize().loss(points(), gathered(), np), printed, rtol=1e-12)


def test_annealing_grows_with_the_printed_powers_of_size() -> None:
    """Eq. 7 prints C1·N^gamma_1, N in millions; counted from the reference, C1 is that of its size."""
    before, after = 0.090, 0.103
    own = gathered(
        C1=before * REFERENCE.model_size**GAMMA_1, C2=after * REFERENCE.model_size**GAMMA_2
    )
    printed = -before * SIZES**GAMMA_1 * 0.5 - after * SIZES**GAMMA_2 * 0.2
    found = Annealing(replay=False).loss(points(), own, np)
    np.testing.assert_allclose(found, printed, rtol=1e-9)


def test_power_and_shift_change_with_size_only_as_their_exponents_say() -> None:
    power, shift = Power(), Shift((1.0,), ("none",))
    alike = gathered(L0=3.0, A=0.5, alpha=0.5, B=0.3, E=20.0, beta=0.2)
    for term in (power, shift):
        assert np.ptp(term.loss(points(), alike, np)) == pytest.approx(0.0, abs=1e-15)
    values = sampled(power_by_size=0.1, shift_by_size=-0.2)
    given = {"L0": 0.0, "A": 0.5, "alpha": 0.5, "B": 0.3, "E": 20.0, "beta": 0.2}
    own = ModelSize().coefficients(values, REFERENCE, np)
    moved = gather(points(), own | {name: np.array([v]) for name, v in given.items()}, np)
    ratio = SIZES / REFERENCE.model_size
    np.testing.assert_allclose(
        power.loss(points(), moved, np), 0.5 * 10.0**-0.5 * ratio**0.1, rtol=1e-12
    )
    np.testing.assert_allclose(
        shift.loss(points(), moved, np), 0.3 * (1 - 41.0**-0.2) * ratio**-0.2, rtol=1e-12
    )


def test_a_size_has_its_own_level_and_gain() -> None:
    """Deviations of two validation sets lie one after the other, each in its own sds."""
    values = sampled() | {
        "size_misfit": np.array([0.01, 0.1]),
        "size_deviation": np.array([1.0, -2.0, 3.0, 1.0]),
        "annealing_misfit": np.array([0.5, 1.0]),
        "annealing_deviation": np.array([0.0, 1.0, 1.0, 2.0]),
    }
    found = ModelSize().coefficients(values, REFERENCE, np)
    np.testing.assert_allclose(found["delta_N"], [0.01, -0.02, 0.3, 0.1])
    np.testing.assert_allclose(found["epsilon_N"], [0.0, 0.5, 1.0, 2.0])

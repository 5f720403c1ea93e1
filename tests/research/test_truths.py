import numpy as np
import pytest
from printed import COEFFICIENTS, MEMORY
from testbench import truths
from testbench.short_studies import PEAK, design
from testbench.truths import REPLAY, SPREAD, draw_truth

NAMES = ("L0", "A", "alpha", "C1", "C2", "B", "E", "beta")


@pytest.mark.parametrize("shift", ["moderate", "strong"])
def test_without_spread_it_is_the_printed_law(shift: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPREAD", "FLOOR_SPREAD", "RATIO_SPREAD"):
        monkeypatch.setattr(truths, name, 0.0)
    frame, _ = design()
    truth = draw_truth(frame, shift, np.random.default_rng(1))
    coefficients = frame.law.coefficients(truth, np)
    for name, printed in zip(NAMES, np.array(COEFFICIENTS[shift]).T, strict=True):
        np.testing.assert_allclose(coefficients[name][0], printed, err_msg=name)
    assert coefficients["lambda"] == pytest.approx([1.0 - 1.0 / MEMORY])
    assert np.all(coefficients["D"] == 0.0)
    assert frame.reference.learning_rate == PEAK


def test_truths_have_all_parameters_and_the_stated_spread() -> None:
    frame, _ = design()
    generator = np.random.default_rng(2)
    drawn = [draw_truth(frame, "moderate", generator) for _ in range(400)]
    assert set(drawn[0]) == set(frame.parameters())
    exponents = np.log([truth["exponent"][0] for truth in drawn])
    np.testing.assert_allclose(exponents.std(axis=0), SPREAD, rtol=0.15)
    assert abs(np.corrcoef(exponents.T)[0, 1]) < 0.2
    for name in REPLAY:
        assert np.ptp([truth[name][0, 0] for truth in drawn]) > 0.3, name

from types import SimpleNamespace

import numpy as np
import pytest
from printed import COEFFICIENTS, MEMORY
from testbench import truths
from testbench.short_studies import PEAK, design
from testbench.truths import draw_truth

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
    assert frame.reference.learning_rate == PEAK


def test_other_forms_enter_replay_and_steps_as_they_are_written() -> None:
    """The printed factors of D_pt and D_cpt, and an exponential approach, from the truth's own numbers."""
    share = np.array([0.25, 0.6])
    for form in ("printed", "mixing"):
        frame, _ = design(form)
        truth = draw_truth(frame, "strong", np.random.default_rng(3))
        law = frame.law.coefficients(truth, np)
        shift = next(term for term in frame.law.terms if term.name == "shift")
        own = {name: law[name][0] for name in ("a", "B", "E", "beta")}
        bend, forward = own["a"], np.array([0.1, 0.9])
        points = SimpleNamespace(target_share=share, shift_area=lambda *_, own=forward: own)
        progress = 1.0 - (1.0 + own["E"] * forward) ** -own["beta"]
        if form == "mixing":
            rate = own["E"] * own["beta"]
            np.testing.assert_allclose(progress, 1.0 - np.exp(-rate * forward), atol=1e-3)
        # B·(1 - exp(-a2 r_cpt)) on D_pt and B·(exp(a2 r_cpt) - 1) on D_cpt, B over its value at replay 0.
        factor = (np.exp(-bend * share) - 1.0) / (np.exp(-bend) - 1.0)
        np.testing.assert_allclose(shift.loss(points, own, np), own["B"] * factor * progress)

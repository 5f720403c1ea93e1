"""What a peak leaves: a parabola, and the peaks that it is reckoned from."""

import numpy as np
import pytest

from bayes_cpt.errors import SpecError
from bayes_cpt.laws import PeakLevel, Reference
from bayes_cpt.laws.areas import AreaForm
from bayes_cpt.laws.phase_areas import continual_areas, pretraining_areas
from bayes_cpt.model.spec import parse_spec, read_spec
from bayes_cpt.study.schedules import constant, warmup_stable_decay

REFERENCE = Reference(1e-3, 2.0, 1.0, 2000.0)
FORM = AreaForm(reference_rate=1e-3)
TWO_STAGES = warmup_stable_decay(100, 2e-3, decay_steps=20, warmup_steps=10) + constant(50, 4e-3)


class Peaks:
    """Points that differ in peak alone."""

    def __init__(self, shares: list[float]) -> None:
        self.log_peak_pt = np.log(shares)


def test_the_loss_about_the_best_peak_is_a_parabola() -> None:
    coefficients = PeakLevel().coefficients(
        {"peak_slope": np.float64(-0.04), "peak_curvature": np.float64(0.02)}, REFERENCE, np
    )
    shares = np.exp([0.0, 1.0, -1.0, 2.0]).tolist()
    left = PeakLevel().loss(Peaks(shares), coefficients, np)
    np.testing.assert_allclose(left, [0.0, -0.02, 0.06, 0.0], atol=1e-15)


def test_the_peak_is_the_highest_rate_so_far_and_a_warm_up_counts_as_done() -> None:
    areas = pretraining_areas(TWO_STAGES, [0, 1, 5, 10, 100, 101, 150], FORM)
    np.testing.assert_allclose(np.exp(areas.log_peak_pt), [2, 2, 2, 2, 2, 4, 4])


def test_a_cpt_run_keeps_the_peak_of_its_base() -> None:
    run = constant(30, 9e-3)
    areas = continual_areas(TWO_STAGES, run, [0, 30], FORM)
    np.testing.assert_allclose(np.exp(areas.log_peak_pt), 4.0)
    np.testing.assert_array_equal(continual_areas(None, run, [0, 30], FORM).log_peak_pt, 0.0)


def test_levels_by_the_peak_need_the_warm_up_to_count() -> None:
    table = read_spec("pretrain").model_dump(mode="json")
    table["law"]["count_warmup"] = False
    with pytest.raises(SpecError, match="set count_warmup = true"):
        parse_spec(table, "test")

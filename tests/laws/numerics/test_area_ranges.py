import math

import pytest

from bayes_cpt.laws.series import MomentumRange, PowerRange


@pytest.mark.parametrize("ends", [(0.0, 0.9), (0.99, 0.9), (0.9, 1.0), (math.nan, 0.9)])
def test_momentum_range_out_of_order(ends: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match=r"give 0\.1 <= low <= high < 1"):
        MomentumRange(*ends)


@pytest.mark.parametrize("ends", [(0.0, 1.0), (1.0, 0.5), (0.5, 3.5), (math.nan, 1.0)])
def test_power_range_out_of_order(ends: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match=r"give 0\.02 <= low <= high <= 3"):
        PowerRange(*ends)


def test_a_range_around_numbers_holds_them_all_inside_its_bounds() -> None:
    momenta = MomentumRange.around([0.99, 0.9, 0.999])
    assert momenta.low < 0.9 < 0.999 < momenta.high < 1.0
    powers = PowerRange.around([0.65, 0.3, 1.2])
    assert powers.low < 0.3 < 1.2 < powers.high
    assert MomentumRange.around([0.1]).low == 0.1
    assert PowerRange.around([0.02, 3.0]) == PowerRange(0.02, 3.0)


def test_a_number_that_is_fixed_takes_one_term() -> None:
    assert PowerRange(1.0, 1.0).interval.nodes == 1
    assert MomentumRange(0.999, 0.999).interval.nodes == 1
    assert PowerRange.around([0.7, 0.7]) == PowerRange(0.7, 0.7)

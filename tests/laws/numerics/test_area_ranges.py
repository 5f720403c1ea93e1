import math

import numpy as np
import pytest
from interpreted import INTERPRETED

from bayes_cpt.laws.series import MomentumRange, PowerRange, momentum_parts


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


def test_nodes_lie_inside_a_range_a_little_wider_than_asked() -> None:
    momenta = MomentumRange(0.5, 0.9999).node_momenta()
    assert np.all(np.diff(momenta) > 0)
    assert momenta[0] < 0.51
    assert 0.9999 < momenta[-1] < 1.0


@pytest.mark.parametrize("kind", ["momentum", "power"])
def test_basis_is_the_same_in_pytensor_with_a_finite_slope(kind: str) -> None:
    pytensor = pytest.importorskip("pytensor")
    own = MomentumRange() if kind == "momentum" else PowerRange(0.1, 1.6)
    number = pytensor.tensor.dscalar()
    basis = own.basis(number, pytensor.tensor)
    slope = pytensor.grad(basis.sum(), number)
    function = pytensor.function([number], [basis, slope], mode=INTERPRETED)
    for value in (own.low, 0.5 * (own.low + own.high), own.high):
        in_pytensor, gradient = function(value)
        np.testing.assert_allclose(in_pytensor, own.basis(value), rtol=1e-10, atol=1e-14)
        step = 1e-6 * (1 - value if kind == "momentum" else 1.0)
        above, below = (own.basis(value + sign * step).sum() for sign in (1, -1))
        assert gradient == pytest.approx((above - below) / (2 * step), rel=1e-4)


def test_two_paces_share_the_level() -> None:
    fast = {"lambda": np.float64(0.98)}
    assert momentum_parts(fast) == [(0.98, 1.0)]
    both = fast | {"lambda_slow": np.float64(0.998), "slow_share": np.float64(0.3)}
    assert momentum_parts(both) == [(0.98, 0.7), (0.998, 0.3)]

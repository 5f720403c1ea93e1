import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from bayes_cpt.validate.uniformity import (
    EDGE,
    FAILS,
    HOLDS,
    ecdf,
    ecdf_bands,
    family_mass,
    judge,
    transforms,
)

DRAWS = 100


def ranks(generator: np.random.Generator, count: int, quantities: int) -> pd.DataFrame:
    values = generator.integers(0, DRAWS + 1, size=(count, quantities))
    return pd.DataFrame(values, columns=[f"q{i}" for i in range(quantities)])


def truths_among_draws(widen: float, shift: float, count: int = 300) -> pd.DataFrame:
    generator = np.random.default_rng(5)
    draws = shift + widen * generator.standard_normal((count, DRAWS))
    truth = generator.standard_normal((count, 1))
    return pd.DataFrame({"q": (draws < truth).sum(axis=1)})


def test_bands_hold_the_ecdf_of_uniform_values_as_often_as_they_say() -> None:
    generator = np.random.default_rng(1)
    for count, mass in ((40, 0.8), (200, 0.95)):
        _, lower, upper = ecdf_bands(count, mass)
        curves = np.array([ecdf(generator.uniform(size=count)) for _ in range(2000)])
        inside = int(np.all((lower <= curves) & (curves <= upper), axis=1).sum())
        # The band is simulated too: a tolerance of a few hundredths.
        assert (
            binom.ppf(1e-4, 2000, mass - 0.02) <= inside <= binom.ppf(1 - 1e-4, 2000, mass + 0.02)
        )


def test_bands_start_at_0_and_end_at_1_and_narrow_with_the_number_of_values() -> None:
    widths = []
    for count in (50, 200):
        points, lower, upper = ecdf_bands(count, 0.95)
        assert points.size == lower.size == upper.size == count + 1
        assert (lower[0], upper[0], lower[-1], upper[-1]) == (0, 0, 1, 1)
        assert (lower <= points).all()
        assert (points <= upper).all()
        widths.append((upper - lower).max())
    # As one over the root of the number.
    assert widths[1] == pytest.approx(widths[0] / 2, rel=0.2)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=30))
def test_the_ecdf_counts_values(values: list[float]) -> None:
    points = np.arange(len(values) + 1) / len(values)
    curve = ecdf(values)
    for point, height in zip(points[1:-1], curve[1:-1], strict=True):
        assert height == sum(value <= point for value in values) / len(values)
    assert (curve[0], curve[-1]) == (0, 1)


@settings(max_examples=30)
@given(st.integers(1, 60), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_transforms_keep_the_order_of_ranks_and_stay_between_0_and_1(
    count: int, quantities: int, seed: int
) -> None:
    table = ranks(np.random.default_rng(seed), count, quantities)
    values = transforms(table, DRAWS)
    assert ((values > 0) & (values < 1)).to_numpy().all()
    np.testing.assert_array_equal(np.floor(values * (DRAWS + 1)), table)
    pd.testing.assert_frame_equal(values, transforms(table, DRAWS))


def test_uniform_ranks_hold_and_few_are_at_the_edge() -> None:
    judged = judge(ranks(np.random.default_rng(3), 100, 100), DRAWS)
    assert not (judged["verdict"] == FAILS).any()
    assert 1 <= (judged["verdict"] == EDGE).sum() <= 13
    assert judged["mean"].mean() == pytest.approx(0.5, abs=0.01)
    assert judged["spread"].mean() == pytest.approx(1.0, abs=0.01)


def test_all_quantities_together_seldom_raise_a_false_alarm() -> None:
    generator = np.random.default_rng(4)
    alarms = [
        (judge(ranks(generator, 100, 20), DRAWS)["verdict"] == FAILS).any() for _ in range(200)
    ]
    assert np.sum(alarms) <= binom.ppf(0.999, 200, 0.05)
    assert family_mass(20) == pytest.approx(0.9975)


@pytest.mark.parametrize(
    ("widen", "shift", "mean", "spread"),
    [
        (0.6, 0.0, (0.45, 0.55), (1.2, 1.6)),
        (1.8, 0.0, (0.45, 0.55), (0.4, 0.8)),
        (1.0, -0.5, (0.6, 0.7), (0.9, 1.4)),
    ],
)
def test_wrong_posteriors_fail_and_the_table_says_how(
    widen: float, shift: float, mean: tuple[float, float], spread: tuple[float, float]
) -> None:
    judged = judge(truths_among_draws(widen, shift), DRAWS).iloc[0]
    assert judged["verdict"] == FAILS
    assert mean[0] < judged["mean"] < mean[1]
    assert spread[0] < judged["spread"] < spread[1]


def test_a_right_posterior_holds() -> None:
    assert judge(truths_among_draws(1.0, 0.0), DRAWS)["verdict"].tolist() == [HOLDS]

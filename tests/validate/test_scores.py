from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bayes_cpt.validate.scores import (
    ALL_DOMAINS,
    ALL_RUNS,
    EQUAL_RUNS,
    by_horizon,
    crps,
    probability_transform,
    score_points,
    summarize,
)

VALUES = st.floats(-10, 10)
DRAWS = arrays(np.float64, st.tuples(st.integers(2, 12), st.just(3)), elements=VALUES)
OBSERVED = arrays(np.float64, 3, elements=VALUES)


def points_with(losses: np.ndarray, **columns: object) -> pd.DataFrame:
    steps = np.arange(1, len(losses) + 1)
    return pd.DataFrame({"run": "a", "domain": "general", "step": steps, "loss": losses, **columns})


@given(DRAWS, OBSERVED)
def test_crps_is_the_mean_over_pairs(draws: np.ndarray, observed: np.ndarray) -> None:
    count = len(draws)
    pairs = np.abs(draws[:, None] - draws[None]).sum(axis=(0, 1)) / (count * (count - 1))
    expected = np.abs(draws - observed).mean(axis=0) - pairs / 2
    np.testing.assert_allclose(crps(draws, observed), expected, atol=1e-9)


@settings(max_examples=30)
@given(DRAWS, OBSERVED, st.floats(-100, 100), st.floats(0.01, 100))
def test_scores_follow_shift_and_scale(
    draws: np.ndarray, observed: np.ndarray, shift: float, scale: float
) -> None:
    plain = score_points(points_with(observed), draws)
    moved = score_points(points_with(shift + scale * observed), shift + scale * draws)
    for column in ("crps", "error", "absolute_error", "width_50", "width_90"):
        np.testing.assert_allclose(moved[column], scale * plain[column], rtol=1e-7, atol=1e-9)


@pytest.mark.slow
def test_bands_of_uniform_draws_cover_their_mass() -> None:
    generator = np.random.default_rng(3)
    draws = np.linspace(0, 1, 1001)[:, None] + np.zeros(40_000)
    scored = score_points(points_with(generator.uniform(size=40_000)), draws)
    for mass in (50, 80, 90):
        assert scored[f"covered_{mass}"].mean() == pytest.approx(mass / 100, abs=0.01)
        np.testing.assert_allclose(scored[f"width_{mass}"], mass / 100)
        np.testing.assert_allclose(scored[f"lower_{mass}"], (1 - mass / 100) / 2)


def test_pooled_rows_weigh_points_or_runs() -> None:
    points = points_with(np.ones(4), run=["long", "long", "long", "short"])
    draws = np.array([[1.0, 1.0, 1.0, 2.0]] * 2)
    table = summarize(score_points(points, draws)).set_index(["run", "domain"])
    assert table.loc[(ALL_RUNS, "general"), "mae"] == pytest.approx(1 / 4)
    assert table.loc[(EQUAL_RUNS, "general"), "mae"] == pytest.approx(1 / 2)
    assert table.loc[(EQUAL_RUNS, ALL_DOMAINS), "points"] == 4
    assert table.loc[(ALL_RUNS, ALL_DOMAINS), "coverage_90"] == pytest.approx(3 / 4)


def test_the_error_of_coverage_counts_runs_not_points() -> None:
    """Two validation sets of a run are one observation too."""
    points = points_with(
        np.ones(8),
        run=["a", "a", "a", "a", "b", "b", "c", "c"],
        domain=["general", "general", "target", "target", "general", "target", "general", "target"],
    )
    draws = np.array([[1.0, 2.0, 2.0, 2.0, 1.0, 1.0, 2.0, 1.0]] * 2)
    table = summarize(score_points(points, draws)).set_index(["run", "domain"])
    of_runs = {"general": np.array([0.5, 1.0, 0.0]), ALL_DOMAINS: np.array([0.25, 1.0, 0.5])}
    for pool, (domain, own) in product((ALL_RUNS, EQUAL_RUNS), of_runs.items()):
        found = table.loc[(pool, domain), "coverage_90_error"]
        # As the spread of one more run that lies wholly in bands or out of them adds to theirs.
        assert found == pytest.approx(np.sqrt(((own - own.mean()) ** 2).sum() + 0.9 * 0.1) / 3)
    whole = table.loc[(EQUAL_RUNS, ALL_DOMAINS), "coverage_90"]
    assert whole == pytest.approx(of_runs[ALL_DOMAINS].mean())
    assert np.isnan(table.loc[("a", "general"), "coverage_90_error"])


def test_a_draw_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="not finite at run a, general, step 2"):
        score_points(points_with(np.zeros(2)), np.array([[0.0, np.nan], [0.0, 1.0]]))


@given(DRAWS, OBSERVED)
def test_the_transform_counts_draws_below_and_half_of_those_equal(
    draws: np.ndarray, observed: np.ndarray
) -> None:
    counts = [
        sum(1.0 if draw < truth else 0.5 if draw == truth else 0.0 for draw in column) / len(column)
        for column, truth in zip(draws.T, observed, strict=True)
    ]
    np.testing.assert_allclose(probability_transform(draws, observed), counts)


def test_horizons_split_runs_by_share_and_by_ratio() -> None:
    points = points_with(
        np.ones(6),
        share=[0.01, 0.05, 0.06, 0.5, 0.51, 1.0],
        ratio=[0.5, 1.0, 1.2, 2.5, 3.0, 4.0],
        run=["a", "a", "a", "b", "b", "b"],
        method="x",
    )
    draws = np.array([[0.0, 1.0, 1.0, 1.0, 1.0, 3.0]] * 2)
    scored = score_points(points, draws)
    share = by_horizon(scored, "share", ["method"]).set_index("horizon")
    later = ("5 to 25 %", "25 to 50 %", "50 to 75 %", "75 to 100 %")
    assert share["points"].to_dict() == {"first 5 %": 2} | dict.fromkeys(later, 1)
    assert share.loc["first 5 %", "bias"] == pytest.approx(-0.5)
    assert share.loc["75 to 100 %", "bias"] == pytest.approx(2.0)
    ratio = by_horizon(scored, "ratio").set_index("horizon")
    assert ratio["points"].to_dict() == {"up to 1x": 2, "1 to 1.5x": 1, "2 to 3x": 2, "over 3x": 1}
    assert (ratio["runs"] == 1).all()
    assert by_horizon(scored.assign(ratio=0.5), "ratio")["runs"].tolist() == [2]

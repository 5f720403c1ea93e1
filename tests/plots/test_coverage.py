"""Figures of what was held out: coverage, and laws side by side."""

import numpy as np
import pandas as pd
import pytest
from figures import check_figure, legend_texts
from matplotlib.axes import Axes
from matplotlib.patches import StepPatch
from stand_in import held_out_points
from synthetic import lab

from bayes_cpt import plots
from bayes_cpt.validate.comparison import Comparison
from bayes_cpt.validate.law_scores import STACK, LawScores
from bayes_cpt.validate.scores import HORIZONS, by_horizon

DOMAINS = ["general", "kernel"]
RUNS = ["one", "two", "three"]


def points(spread: float = 1.0) -> pd.DataFrame:
    return held_out_points(RUNS, DOMAINS, spread)


def coverage_axes(axes: list[Axes]) -> list[Axes]:
    return [one for one in axes if one.get_ylabel().startswith("points inside")]


def densities(axes: list[Axes]) -> list[np.ndarray]:
    """Return the heights of each histogram of the PIT."""
    steps = [patch for one in axes for patch in one.patches if isinstance(patch, StepPatch)]
    return [np.asarray(patch.get_data()[0]) for patch in steps]


@pytest.mark.parametrize("axis", ["share", "ratio"])
def test_each_validation_set_has_a_block_with_coverage_and_a_histogram(axis: str) -> None:
    figure = plots.coverage(points(), axis)  # type: ignore[arg-type]
    sets = ["validation set: general", "validation set: kernel"]
    assert [part.get_suptitle() for part in figure.subfigs] == sets
    assert len(coverage_axes(figure.axes)) == 2
    assert len(figure.axes) == 4
    assert legend_texts(figure)[:2] == ["inside the 50 % band", "inside the 80 % band"]
    check_figure(figure)


def test_the_lines_are_the_coverage_of_the_tables() -> None:
    table = points()
    expected = by_horizon(table, "share", ["domain"])
    for axes, domain in zip(coverage_axes(plots.coverage(table).axes), DOMAINS, strict=True):
        containers = [container for container in axes.containers if container]
        own = expected[expected["domain"] == domain]
        for mass, container in zip((50, 80, 90), containers, strict=True):
            heights = np.asarray(container[0].get_ydata(), dtype=float)
            np.testing.assert_allclose(heights, 100 * own[f"coverage_{mass}"])
            assert len(container[2]) == 1
        labels = [label.get_text().split("\n")[0] for label in axes.get_xticklabels()]
        assert labels == list(HORIZONS["share"])


def test_histograms_are_densities_of_the_transform_high_at_the_ends_of_a_narrow_forecast() -> None:
    even, narrow = (densities(plots.coverage(points(spread)).axes) for spread in (1.0, 0.3))
    assert len(even) == 2
    for heights in even:
        assert heights.mean() == pytest.approx(1.0)
    assert np.mean([(heights[0], heights[-1]) for heights in narrow]) > 2.0


def test_empty_bins_and_single_runs_are_no_trouble() -> None:
    table = points()
    figure = plots.coverage(table[(table["ratio"] > 2) & (table["run"] == "one")], "ratio")
    assert len(coverage_axes(figure.axes)[0].get_xticklabels()) == 2
    check_figure(figure)


def test_nothing_to_draw_is_said() -> None:
    with pytest.raises(ValueError, match="there are no scored points"):
        plots.coverage(points().head(0))


LAWS = ("one", "other")
FOLDS = ["a", "b", "c", "d"]


def scores() -> LawScores:
    generator = np.random.default_rng(1)
    log_scores = pd.DataFrame(generator.normal(size=(4, 3)), columns=[*LAWS, STACK])
    log_scores["one"] += 5.0
    alike = pd.DataFrame(
        {"fold": FOLDS, "run": FOLDS, "seen": 0.0, "covered_50": 0.5, "width_90": 0.1}
    )
    points = pd.concat(
        alike.assign(
            method=method,
            crps=generator.uniform(0.01, 0.02, 4),
            covered_90=generator.uniform(0.8, 1.0, 4),
        )
        for method in (*LAWS, STACK)
    )
    return LawScores(
        laws=LAWS,
        points=points,
        log_scores=log_scores.assign(fold=FOLDS, run=FOLDS, seen=0.0),
        refits=pd.DataFrame({"trustworthy": [True]}),
        weights={"one": 0.8, "other": 0.2},
        fold_weights=pd.DataFrame({"one": 0.8, "other": 0.2}, index=FOLDS),
        effective_draws=20.0,
    )


def test_a_row_per_law_and_a_dot_per_run() -> None:
    own = scores()
    figure = plots.comparison(Comparison(lab(), 0, {}, "no reason", own))
    check_figure(figure)
    left, right = figure.axes
    labels = [label.get_text() for label in left.get_yticklabels()]
    assert labels == ["one\n80 % of the stack", "other\n20 % of the stack", STACK]
    dots = [line for line in left.lines if line.get_marker() == "."]
    gaps = own.log_scores["other"] - own.log_scores["one"]
    np.testing.assert_allclose(np.asarray(dots[1].get_xdata(), dtype=np.float64), gaps)
    assert "one" in right.get_title()
    assert legend_texts(figure) == ["one run left out", "mean, ± 1 standard error"]
    with pytest.raises(ValueError, match="no run was left out"):
        plots.comparison(Comparison(lab(), 0, {}, "no reason", None))

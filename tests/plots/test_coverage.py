import numpy as np
import pandas as pd
import pytest
from figures import check_figure, legend_texts
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from bayes_cpt import plots
from bayes_cpt.validate.scores import HORIZONS, by_horizon, score_points

METHODS = ["bayes_cpt", "paper"]
DOMAINS = ["general", "kernel"]
RUNS = ["one", "two", "three"]


def points(spread: float = 1.0) -> pd.DataFrame:
    generator = np.random.default_rng(2)
    parts = []
    for method in METHODS:
        for domain in DOMAINS:
            for run in RUNS:
                step = np.linspace(30, 3000, 40).astype(int)
                table = pd.DataFrame({"run": run, "domain": domain, "step": step})
                table = table.assign(share=step / 3000, ratio=step / 750, method=method)
                table["loss"] = 3.0 + generator.standard_normal(step.size)
                draws = 3.0 + spread * generator.standard_normal((200, step.size))
                parts.append(score_points(table, draws))
    return pd.concat(parts, ignore_index=True)


def coverage_axes(axes: list[Axes]) -> list[Axes]:
    return [one for one in axes if one.get_ylabel().startswith("points inside")]


def bars(axes: Axes) -> list[Rectangle]:
    return [patch for patch in axes.patches if isinstance(patch, Rectangle)]


@pytest.mark.parametrize("axis", ["share", "ratio"])
def test_each_validation_set_has_a_block_with_coverage_and_a_histogram_per_bin(axis: str) -> None:
    figure = plots.coverage(points(), axis)  # type: ignore[arg-type]
    assert [part.get_suptitle() for part in figure.subfigs] == [
        "validation set: general",
        "validation set: kernel",
    ]
    assert len(coverage_axes(figure.axes)) == 2
    assert len(figure.axes) == 2 * (1 + 2 * len(HORIZONS[axis]))
    assert legend_texts(figure)[:2] == METHODS
    check_figure(figure)


def test_the_lines_are_the_coverage_of_the_tables() -> None:
    table = points()
    expected = by_horizon(table, "share", ["method", "domain"])
    figure = plots.coverage(table)
    for axes, domain in zip(coverage_axes(figure.axes), DOMAINS, strict=True):
        containers = [container for container in axes.containers if container]
        assert len(containers) == len(METHODS) * 3
        for number, container in enumerate(containers):
            method, mass = METHODS[number // 3], (50, 80, 90)[number % 3]
            own = expected[(expected["method"] == method) & (expected["domain"] == domain)]
            heights = np.asarray(container[0].get_ydata(), dtype=float)
            np.testing.assert_allclose(heights, 100 * own[f"coverage_{mass}"])
            assert len(container[2]) == 1
        assert [label.get_text() for label in axes.get_xticklabels()] == [
            word for _, word in HORIZONS["share"]
        ]


def test_histograms_are_densities_of_the_transform() -> None:
    table = points()
    figure = plots.coverage(table)
    histograms = [axes for axes in figure.axes if axes not in coverage_axes(figure.axes)]
    for axes in histograms:
        assert sum(bar.get_height() * bar.get_width() for bar in bars(axes)) == pytest.approx(1.0)
        assert max(bar.get_height() for bar in bars(axes)) <= axes.get_ylim()[1]
    counts = [int(axes.texts[0].get_text().split()[0]) for axes in histograms]
    assert sum(counts) == len(table)


def test_a_narrow_forecast_shows_at_the_ends() -> None:
    narrow = plots.coverage(points(spread=0.3))
    histograms = [axes for axes in narrow.axes if axes not in coverage_axes(narrow.axes)]
    outer = np.mean(
        [[bars(axes)[0].get_height(), bars(axes)[-1].get_height()] for axes in histograms]
    )
    assert outer > 2.0


def test_empty_bins_and_single_runs_are_no_trouble() -> None:
    table = points()
    late = table[(table["ratio"] > 2) & (table["run"] == "one") & (table["method"] == "paper")]
    figure = plots.coverage(late, "ratio")
    assert len(figure.axes) == 2 * (1 + 2)
    check_figure(figure)


def test_nothing_to_draw_is_said() -> None:
    with pytest.raises(ValueError, match="there are no scored points"):
        plots.coverage(points().head(0))

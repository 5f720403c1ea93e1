import numpy as np
import pandas as pd
import pytest
from figures import band_edges, check_figure, legend_texts
from matplotlib.colors import to_hex

from bayes_cpt import plots
from bayes_cpt.plots.calibration import SHADES
from bayes_cpt.validate.calibration import EDGE, FAILS, HOLDS, judge

DRAWS = 100
NAMES = [
    "memory",
    *(f"{name}[{domain}]" for name in ("shift_size", "final loss") for domain in "ab"),
]


def ranks(count: int = 200, names: list[str] | None = None) -> pd.DataFrame:
    chosen = names or NAMES
    values = np.random.default_rng(1).integers(0, DRAWS + 1, size=(count, len(chosen)))
    return pd.DataFrame(values, columns=chosen)


def wrong(table: pd.DataFrame) -> pd.DataFrame:
    """Return the ranks with those of one quantity crowded in the middle."""
    middle = 30 + table["shift_size[a]"] * 4 // 10
    return table.assign(**{"shift_size[a]": middle})


def test_each_quantity_has_a_panel_with_its_name_and_validation_set() -> None:
    figure = plots.calibration(ranks())
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["memory", "shift_size", "shift_size", "final loss", "final loss"]
    notes = [axes.texts[0].get_text() for axes in figure.axes]
    assert notes == ["shared", "a", "b", "a", "b"]
    check_figure(figure)


def test_the_figure_of_a_whole_model_is_legible() -> None:
    names = [f"fluctuation_memory{i}[held_out, general]" for i in range(53)]
    figure = plots.calibration(ranks(300, [name.replace("memory", "") for name in names]))
    assert len(figure.axes) == 53
    check_figure(figure)


def test_the_colour_of_a_curve_is_its_verdict() -> None:
    table = wrong(ranks())
    figure = plots.calibration(table)
    for axes, verdict in zip(figure.axes, judge(table, DRAWS)["verdict"], strict=True):
        assert to_hex(axes.lines[0].get_color()) == to_hex(SHADES[verdict])
    assert to_hex(figure.axes[1].lines[0].get_color()) == to_hex(SHADES[FAILS])
    assert {HOLDS, EDGE, FAILS} <= set(legend_texts(figure))


def test_curves_are_differences_of_the_ecdf_and_lie_within_their_panels() -> None:
    table = wrong(ranks())
    for axes, name in zip(plots.calibration(table).axes, table, strict=True):
        places, heights = (np.asarray(values) for values in axes.lines[0].get_data())
        assert (heights[0], heights[-1]) == (0.0, 0.0)
        below = [(table[name] < place * (DRAWS + 1) - 1).mean() for place in places]
        above = [(table[name] < place * (DRAWS + 1)).mean() for place in places]
        assert np.all((np.array(below) - places <= heights + 1e-9)[1:-1])
        assert np.all((heights <= np.array(above) - places + 0.03)[1:-1])
        low, high = axes.get_ylim()
        assert low < heights.min()
        assert heights.max() < high


def test_the_band_of_all_quantities_holds_that_of_one() -> None:
    axes = plots.calibration(ranks()).axes[0]
    steps = np.asarray(axes.lines[0].get_xdata())[1:-1]
    together, own = (np.array(band_edges(axes, index, steps)) for index in (0, 1))
    assert (together[0] <= own[0]).all()
    assert (own[1] <= together[1]).all()
    assert (own[1] < together[1]).any()


def test_few_quantities_make_a_small_figure() -> None:
    figure = plots.calibration(ranks(20, ["memory"]))
    check_figure(figure)


def test_a_single_simulation_cannot_be_drawn() -> None:
    with pytest.raises(ValueError, match="there are 1 simulations"):
        plots.calibration(ranks(1))

from typing import Any

import numpy as np
from figures import check_figure, legend_texts
from synthetic import lab_posterior

from bayes_cpt import plots
from bayes_cpt.decisions.schedule_choice import choose_schedule


def test_schedules_and_gains_are_drawn() -> None:
    choice = choose_schedule(lab_posterior(), "annealed_30pct", 0.25, 500, draws=12)
    figure = plots.free_schedule(choice)
    whole, last, *_ = figure.axes
    lines = dict(zip(("wsd", "cosine", "free"), whole.lines, strict=True))
    for family, line in lines.items():
        rates = choice.schedules["both", family].learning_rates()
        np.testing.assert_allclose(np.asarray(line.get_ydata()), rates)
    alone = choice.schedules["annealing", "free"].learning_rates()
    np.testing.assert_allclose(np.asarray(last.lines[0].get_ydata()), alone)
    assert np.asarray(last.lines[0].get_xdata())[0] == 500
    gains = 1000.0 * choice.gains(choice.criterion, "wsd", "annealing")
    patches: list[Any] = list(figure.axes[3].patches)
    bars = patches[: len(patches) // 2]
    assert bars[0].get_x() <= gains.min()
    assert sum(bar.get_height() for bar in bars) == gains.size
    assert "best WSD" in legend_texts(figure)
    check_figure(figure)


def test_one_draw_makes_a_figure() -> None:
    choice = choose_schedule(lab_posterior(), "stable_12k", 0.0, 200, draws=4)
    check_figure(plots.free_schedule(choice))

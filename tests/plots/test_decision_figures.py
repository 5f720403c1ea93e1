from functools import cache
from typing import Any

import numpy as np
import pytest
from figures import band_edges, check_figure, legend_texts
from synthetic import lab_posterior

from bayes_cpt import plots
from bayes_cpt.decisions.decision import Decision, decide
from bayes_cpt.decisions.next_run import Affordable, RunValues, next_run
from bayes_cpt.decisions.schedule_choice import choose_schedule

FIXED = {"bases": "stable_12k", "relative_peak": 1.0}
WHOLE: dict[str, Any] = {"decay_share": 1.0, "relative_final": 0.1}
SPACES: dict[str, dict[str, Any]] = {
    "default": {},
    "ranges": {
        "bases": "annealed_0pct",
        "steps": {"low": 1000, "high": 9000},
        "peak": {"low": 2e-4, "high": 2e-3},
        "decay_shape": ["cosine", "linear"],
    },
    "lists": {"replay": [0.0, 0.25, 0.5], "relative_peak": [0.5, 1.0], **WHOLE},
    "fixed": {"bases": "stable_12k", "replay": 0.25, "peak": 1e-3, **WHOLE},
}


@cache
def decided(space: str) -> Decision:
    return decide(lab_posterior(), "balanced", SPACES[space], draws=60, candidates=512)


@pytest.mark.parametrize("space", SPACES)
def test_nothing_is_cut_off_or_overlaps(space: str) -> None:
    check_figure(plots.decision(decided(space)))


def test_what_is_drawn_is_the_decision() -> None:
    own = decided("default")
    figure = plots.decision(own)
    histogram = figure.axes[0].patches[-1]
    assert histogram.get_data().values.sum() == pytest.approx(1.0)  # type: ignore[attr-defined]
    chosen = own.contenders.candidates.replay[0]
    assert chosen in [line.get_xdata()[0] for line in figure.axes[0].lines]  # type: ignore[index]
    front = figure.axes[4].lines[0]
    np.testing.assert_allclose(np.asarray(front.get_data()), own.front.losses.mean(axis=2))
    cost = figure.axes[5].lines[0]
    slice_ = next(part for part in own.slices if part.name == "replay")
    np.testing.assert_allclose(np.asarray(cost.get_ydata()), slice_.costs.mean(axis=1))
    low, high = band_edges(figure.axes[5], 0, slice_.values)
    np.testing.assert_allclose([low, high], np.quantile(slice_.costs, [0.05, 0.95], axis=1))


def test_listed_values_are_bars_and_dots() -> None:
    own = decided("lists")
    figure = plots.decision(own)
    shares = [bar.get_width() for bar in figure.axes[0].patches]  # type: ignore[attr-defined]
    wanted = [np.mean(own.optimum.replay == value) for value in (0.0, 0.25, 0.5)]
    np.testing.assert_allclose(shares, wanted)
    assert figure.axes[4].lines[0].get_linestyle() == "None"


def test_broken_constraints_are_marked() -> None:
    constraint = {"domain": "general", "rise": 0.1, "probability": 0.5}
    objective = {"preset": "balanced", "constraints": [constraint]}
    own = decide(lab_posterior(), objective, {}, draws=60, candidates=512)
    assert own.feasible
    assert not all(part.allowed.all() for part in own.slices)
    figure = plots.decision(own)
    assert "breaks a constraint" in legend_texts(figure)
    check_figure(figure)


def values(count: int) -> RunValues:
    posterior = lab_posterior()
    every = Affordable.default(posterior, 60)
    runs = Affordable(every.plan.subset([run.name for run in every.plan.runs[:count]]))
    return next_run(posterior, "balanced", FIXED, runs, draws=80, candidates=16)


def test_the_best_runs_are_drawn_from_the_top() -> None:
    found = values(18)
    figure = plots.next_run(found)
    (worth,) = figure.axes
    assert [text.get_text() for text in worth.get_yticklabels()] == found.order[:16]
    table = found.table().head(16)
    dots, hurdles = worth.lines[:2]
    np.testing.assert_allclose(np.asarray(dots.get_xdata(), float), table["per_1000_steps"])
    np.testing.assert_allclose(
        np.asarray(hurdles.get_xdata(), float), table["hurdle"] * 1000 / table["cost"]
    )
    assert "value, ± 2 Monte Carlo errors" in legend_texts(figure)
    check_figure(figure)


def test_one_run_makes_a_figure() -> None:
    check_figure(plots.next_run(values(1)))


@pytest.mark.usefixtures("few_candidates")
def test_schedules_are_drawn() -> None:
    choice = choose_schedule(lab_posterior(), "annealed_30pct", 0.25, 500, draws=12)
    figure = plots.schedules(choice)
    whole, last = figure.axes
    lines = dict(zip(("wsd", "cosine"), whole.lines, strict=True))
    for family, line in lines.items():
        rates = choice.plan.run(family).schedule.learning_rates()
        np.testing.assert_allclose(np.asarray(line.get_ydata()), rates)
    assert np.asarray(last.lines[0].get_xdata())[0] == 500
    assert "best WSD" in legend_texts(figure)
    check_figure(figure)

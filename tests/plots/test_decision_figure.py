from functools import cache
from typing import Any

import numpy as np
import pytest
from figures import band_edges, check_figure, legend_texts
from synthetic import lab_posterior

from bayes_cpt import plots
from bayes_cpt.decisions.decision import Decision, decide

SPACES: dict[str, dict[str, Any]] = {
    "default": {},
    "ranges": {
        "bases": "annealed_0pct",
        "loss_potential": {"low": 0, "high": 1},
        "steps": {"low": 1000, "high": 9000},
        "peak": {"low": 2e-4, "high": 2e-3},
        "decay_shape": ["cosine", "linear"],
    },
    "lists": {"replay": [0.0, 0.25, 0.5], "relative_peak": [0.5, 1.0]},
    "fixed": {"bases": "stable_12k", "replay": 0.25, "peak": 1e-3},
}


@cache
def decided(space: str) -> Decision:
    return decide(lab_posterior(), "balanced", SPACES[space], draws=60, candidates=512)


@pytest.mark.parametrize("space", SPACES)
def test_nothing_is_cut_off_or_overlaps(space: str) -> None:
    check_figure(plots.decision(decided(space)))


def test_panels_of_the_default_space() -> None:
    figure = plots.decision(decided("default"))
    labels = [axes.get_xlabel() for axes in figure.axes]
    assert labels == [
        "replay ratio",
        "peak LR / PT peak (logarithmic)",
        "share of the draws",
        "loss on general (nats/token)",
        "replay ratio",
        "peak LR / PT peak (logarithmic)",
    ]
    assert figure.axes[2].get_ylabel() == "base"
    assert figure.axes[4].get_ylabel() == "cost of choosing otherwise (nats)"
    assert "Objective balanced, by expected loss" in str(figure.get_suptitle())
    assert {"recommended", "each draw's own best", "0.005 nats"} <= set(legend_texts(figure))


def test_what_is_drawn_is_the_decision() -> None:
    own = decided("default")
    figure = plots.decision(own)
    histogram = figure.axes[0].patches[-1]
    assert histogram.get_data().values.sum() == pytest.approx(1.0)  # type: ignore[attr-defined]
    chosen = own.contenders.candidates.replay[0]
    assert chosen in [line.get_xdata()[0] for line in figure.axes[0].lines]  # type: ignore[index]
    front = figure.axes[3].lines[0]
    np.testing.assert_allclose(np.asarray(front.get_data()), own.front.losses.mean(axis=2))
    cost = figure.axes[4].lines[0]
    slice_ = next(part for part in own.slices if part.name == "replay")
    np.testing.assert_allclose(np.asarray(cost.get_ydata()), slice_.costs.mean(axis=1))
    low, high = band_edges(figure.axes[4], 0, slice_.values)
    wanted = np.quantile(slice_.costs, [0.05, 0.95], axis=1)
    np.testing.assert_allclose([low, high], wanted)


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

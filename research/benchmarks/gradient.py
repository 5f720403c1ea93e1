"""One log density with its gradient on the bundled study, beside the law's losses alone in NumPy."""

from typing import Any

import numpy as np
from synthetic import lab

from bayes_cpt import read_spec
from bayes_cpt.inference.density import Density
from bayes_cpt.inference.metric import Metric
from bayes_cpt.model.joint_priors import draw_priors
from bayes_cpt.model.setup import Setup, build_setup
from bayes_cpt.model.simulate import expected_loss
from benchmarks.report import Row, fastest

CALLS = 50


def measure(*, quick: bool = False) -> list[Row]:
    """Return the cost of a call."""
    setup = build_setup(read_spec("cpt-replay-printed" if quick else "cpt-replay"), lab())
    size = setup.curves.points.steps.size
    one, law = (_microseconds(own) for own in (gradient_of(setup), law_of(setup)))
    return [
        Row(f"log density and gradient, {size} points", one, "us", "the law, NumPy", law),
        Row("a point of it", 1e3 * one / size, "ns", "the law's", 1e3 * law / size),
    ]


def _microseconds(function: Any) -> float:
    """Return what a call costs once the function is compiled."""
    function()
    return 1e6 / CALLS * fastest(lambda: [function() for _ in range(CALLS)])


def gradient_of(setup: Setup) -> Any:
    """Return a call of log density and gradient at the priors' medians."""
    density = Density(setup)
    size = density.size
    function = density.in_metric(Metric(density.starts[0], np.eye(size)))
    white = np.zeros(size)
    return lambda: function(white)


def law_of(setup: Setup) -> Any:
    """Return an evaluation of the law in array expressions."""
    frame, curves = setup.frame, setup.curves
    parameters = draw_priors(frame, 1, seed=0)
    return lambda: expected_loss(frame, parameters, curves)

"""The evaluator against the law and the residual model as they are written down, at points in any order."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from synthetic import lab, practice, prior_as_posterior

from bayes_cpt.forecast import evaluate
from bayes_cpt.forecast.evaluate import Draws, losses, noise, some_of, variances
from bayes_cpt.forecast.plans import prepare
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.points import Curves
from bayes_cpt.model.residuals import Placed, predictive_variance
from bayes_cpt.model.simulate import expected_loss, scales_of

MODELS = ("cpt-replay", "cpt-replay-printed")


def of_model(model: str) -> tuple[Posterior, Curves, Draws]:
    """Return curves of runs of both phases, one from a base that was not measured, and draws."""
    posterior = prior_as_posterior(lab(), model, draws=40, spread=0.3)
    unmeasured = replace(lab().bases[0], name="unmeasured", run=None)
    runs = (
        *(run for run in practice().continual_runs[:2]),
        replace(lab().continual_runs[0], name="from elsewhere", base="unmeasured"),
        replace(lab().pretraining_runs[0], name="trained"),
    )
    bases = (*lab().bases, *practice().bases, unmeasured)
    named = {base.name: base for base in bases}
    plan = replace(
        lab(), bases=tuple(named.values()), runs=runs, losses=lab().losses.iloc[:0], is_plan=True
    )
    curves = prepare(posterior, plan).curves(posterior.frame)
    form = posterior.frame.area_form
    return posterior, curves, Draws.of(posterior.frame, posterior.parameters(), form)


@pytest.mark.parametrize("model", MODELS)
def test_losses_and_noise_are_those_of_the_model_in_any_order_and_in_tiles(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    posterior, curves, draws = of_model(model)
    frame, parameters = posterior.frame, posterior.parameters()
    design = frame.residual_design(curves)
    scales = scales_of(frame, parameters, curves, design)
    placed = Placed(scales, curves.elapsed, design.floating, design.anchored, design.beyond)
    wanted = expected_loss(frame, parameters, curves).T
    spread = np.sqrt(predictive_variance(placed, (design.ramps**2).sum(axis=1), np)).T
    monkeypatch.setattr(evaluate, "ROWS", 7)
    monkeypatch.setattr(evaluate, "COLUMNS", 50)
    generator = np.random.default_rng(0)
    every = generator.permutation(wanted.shape[0])
    for rows in (every, every[:12], np.sort(every)):
        some = some_of(curves, rows)
        np.testing.assert_allclose(losses(some, draws), wanted[rows], rtol=1e-12)
        np.testing.assert_allclose(noise(some, draws), spread[rows], rtol=1e-9)
        parts = variances(some, draws)
        np.testing.assert_allclose(sum(parts), spread[rows] ** 2, rtol=1e-9)
    known = np.array([curve.base_known for curve in curves.curves])
    assert not known.all()
    assert known.any()
    # A CPT curve from a measured base has no unknown level.
    measured = known[curves.points.curve_index] & (curves.points.branched == 0)
    assert (variances(curves, draws).level[measured] == 0).all()


def test_some_draws_are_those_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    _, curves, draws = of_model(MODELS[0])
    which: Any
    for which in (slice(3, 90), np.array([5, 17, 2])):
        for function in (losses, noise):
            few = function(curves, draws.take(which))
            np.testing.assert_allclose(few, function(curves, draws)[:, which], rtol=1e-12)
    single = losses(curves, draws.astype(np.float32))
    assert single.dtype == np.float32

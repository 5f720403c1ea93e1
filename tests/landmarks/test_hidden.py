from dataclasses import replace

import numpy as np
import pytest
from printed import COEFFICIENTS, PEAK, pretraining, printed_posterior, stepwise_losses, study
from synthetic import lab_posterior, practice

from bayes_cpt.landmarks import hidden_curves
from bayes_cpt.study.schedules import cosine


@pytest.mark.parametrize("shift", COEFFICIENTS)
def test_hidden_curves_are_the_law_without_a_shift_and_with_all_of_it(shift: str) -> None:
    run = cosine(2000, PEAK)
    found = hidden_curves(printed_posterior(shift), study(run)).isel(draw=0, run=0)
    steps = found["step"].to_numpy()
    for own, domain in zip(COEFFICIENTS[shift], ("general", "target"), strict=True):
        limit = own[5]
        without = (*own[:5], 0.0, *own[6:])
        never_left = stepwise_losses(without, pretraining(), run)[steps]
        here = found.sel(domain=domain)
        np.testing.assert_allclose(here["never_left"], never_left, rtol=0, atol=1e-9)
        np.testing.assert_allclose(here["arrived"], never_left + limit, rtol=0, atol=1e-9)
        expected = stepwise_losses(own, pretraining(), run)[steps]
        np.testing.assert_allclose(here["expected"], expected, rtol=0, atol=1e-9)


def test_curves_move_from_the_one_towards_the_other() -> None:
    plan = practice()
    found = hidden_curves(lab_posterior(), plan, ["r25_cos_12k"], draws=40).isel(run=0)
    start = found.isel(step=0)
    gone = abs(start["expected"] - start["never_left"]) / abs(
        start["arrived"] - start["never_left"]
    )
    assert gone.median() < 0.05
    target = found.sel(domain="kernel").isel(step=-1)
    assert (target["arrived"] < target["expected"]).all()
    assert (target["expected"] < target["never_left"]).all()


def test_pure_replay_never_leaves() -> None:
    plan = practice().subset(["r90_wsd_5k"]).without_losses()
    pure = tuple(replace(run, replay=1.0) for run in plan.runs)
    found = hidden_curves(lab_posterior(), replace(plan, runs=pure), draws=40)
    np.testing.assert_allclose(found["expected"], found["never_left"], rtol=0, atol=1e-12)

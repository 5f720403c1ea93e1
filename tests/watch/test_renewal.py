import numpy as np
import pandas as pd
import pytest
from synthetic import lab, prior_as_posterior

from bayes_cpt.inference.fitting import fit
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.watch.renewal import renewed, run_weights, with_run

RUN = "r25_lin05"
REST = [run.name for run in lab().runs if run.name != RUN]


def points(until: int) -> dict[int, dict[str, float]]:
    found: dict[int, dict[str, float]] = {}
    for domain in ("general", "kernel"):
        for step, loss in zip(*lab().curve(RUN, domain), strict=True):
            if 0 < step <= until:
                found.setdefault(int(step), {})[domain] = float(loss)
    return found


def test_a_study_with_the_run_is_that_of_all_runs() -> None:
    plan = lab().subset([RUN]).without_losses()
    found = with_run(lab().subset(REST), lab().run(RUN), lab().subset([RUN]), points(3000))
    assert plan.runs[0] in found.runs
    for domain in ("general", "kernel"):
        expected, own = lab().curve(RUN, domain), found.curve(RUN, domain)
        np.testing.assert_array_equal(own[0], expected[0])
        np.testing.assert_array_equal(own[1], expected[1])


def test_draws_are_weighed_by_the_density_of_the_points() -> None:
    posterior = prior_as_posterior(lab().subset(REST), draws=250, spread=0.01)
    run, plan = lab().run(RUN), lab().subset([RUN])
    found = renewed(posterior, run, plan, points(50), fewest=1.0)
    assert not found.refitted
    weights = run_weights(posterior, run, found.posterior.study)
    assert found.effective == pytest.approx(1.0 / (weights**2).sum())
    for name in ("reference_loss", "shift_share"):
        before = posterior.parameters()[name]
        expected = np.average(before, axis=0, weights=weights)
        spread = np.sqrt(np.average((before - expected) ** 2, axis=0, weights=weights))
        own = found.posterior.parameters()[name]
        # Systematic resampling repeats a draw as often as its weight says, to one.
        assert np.abs(own.mean(axis=0) - expected).max() < 0.02 * np.ptp(before)
        assert set(np.unique(own)) <= set(np.unique(before))
        assert spread.shape == expected.shape


@pytest.mark.slow
def test_weighing_agrees_with_a_full_refit_and_gives_way_to_it() -> None:
    """After a few points draws suffice; at the end of the run they do not, and the fit is that of all."""
    run, plan = lab().run(RUN), lab().subset([RUN])
    before = fit(lab().subset(REST), seed=1, draws=1000)
    few = points(50)
    weighed = renewed(before, run, plan, few, fewest=50.0)
    again = renewed(before, run, plan, few, fewest=1e9)
    assert not weighed.refitted
    assert again.refitted
    ends = [end_of_run(own.posterior) for own in (weighed, again)]
    np.testing.assert_allclose(ends[0][0], ends[1][0], atol=0.25 * ends[1][1].max())
    np.testing.assert_allclose(ends[0][1], ends[1][1], rtol=0.25)


def end_of_run(posterior: Posterior) -> tuple[np.ndarray, np.ndarray]:
    bands = posterior.predict(kind="known_run", at=pd.DataFrame(
        {"run": RUN, "domain": ["general", "kernel"], "step": 3000}))  # fmt: skip
    found = bands.sel(run=RUN, step=3000)
    return found["mean"].to_numpy(), found["sd"].to_numpy()

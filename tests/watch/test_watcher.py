import json
import math
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from synthetic import lab, prior_as_posterior

from bayes_cpt.forecast.error_correlation import error_correlation
from bayes_cpt.forecast.plans import planned_curves
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.misfit.discrepancy import ErrorCorrelation
from bayes_cpt.model.simulate import simulate
from bayes_cpt.study.study import Study
from bayes_cpt.watch import Watcher
from bayes_cpt.watch.faults import faulty
from bayes_cpt.watch.learnt.curve_sizes import TAUS, Sizes
from bayes_cpt.watch.learnt.experience import Experience
from bayes_cpt.watch.predictive import Predictive
from bayes_cpt.watch.stretches import STRETCHES
from bayes_cpt.watch.watcher import WatchError, save_state

RUN = "r25_lin05"
STEPS = [10, 40, 100, 250, 600, 1200, 2000, 3000]


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    return prior_as_posterior(lab(), draws=250, spread=0.05)


@pytest.fixture(scope="module")
def curves(posterior: Posterior) -> Any:
    """Return drawn losses of the run, shape (curves, domains, steps)."""
    at = pd.MultiIndex.from_product(
        [[RUN], posterior.frame.domains, STEPS], names=["run", "domain", "step"]
    ).to_frame(index=False)
    _, wanted = planned_curves(posterior, lab().subset([RUN]).without_losses(), at=at)
    alike, generator = error_correlation(posterior), np.random.default_rng(3)
    parameters = posterior.parameters(100)
    drawn = simulate(posterior.frame, parameters, wanted, None, generator, alike)
    return drawn.loss.reshape(len(drawn.loss), len(posterior.frame.domains), len(STEPS))


def told(posterior: Posterior, curve: Any, place: int) -> dict[str, float]:
    return dict(zip(posterior.frame.domains, curve[:, place].tolist(), strict=True))


def test_conditioning_agrees_with_the_draws_of_a_known_run(
    posterior: Posterior, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given the coefficients all is Gaussian: the end is that of `simulate`, given the same points.

    Which takes the two losses of a known run for independent.
    """
    independent = ErrorCorrelation(misfit=0.0, fluctuation=0.0)
    monkeypatch.setattr("bayes_cpt.watch.drawn.error_correlation", lambda law: independent)
    values = posterior.parameters(4)
    one = {name: np.repeat(own[:1], 4000, axis=0) for name, own in values.items()}
    single = replace_parameters(posterior, one)
    study = lab().subset([RUN])
    run = study.run(RUN)
    predictive = Predictive.of(single, run, study.without_losses(), STEPS, sizes=Sizes.same())
    domains = posterior.frame.domains
    seen = [i for i, row in enumerate(predictive.rows) if row.step in STEPS[:5]]
    losses = predictive.usual[0, 7, seen]
    mean, spread = predictive.given(seen, losses)
    rows = [
        (RUN, predictive.rows[i].step, predictive.rows[i].domain, loss)
        for i, loss in zip(seen, losses, strict=True)
    ]
    starts = study.losses[study.losses["step"] == 0]
    table = pd.concat([starts, pd.DataFrame(rows, columns=list(starts.columns))])
    measured: Study = replace(study, losses=table)
    frame = posterior.frame
    here = frame.curves(measured, lambda own, domain: STEPS[:5], [run])
    there = frame.curves(measured, lambda own, domain: [STEPS[-1]], [run])
    drawn = simulate(frame, one, there, here, np.random.default_rng(1)).loss
    ends = [i for domain in domains for i, row in enumerate(predictive.rows)
            if row.step == STEPS[-1] and row.domain == domain]  # fmt: skip
    # Of 3,000 curves that the covariance is from, and of 4,000 draws.
    np.testing.assert_allclose(mean[ends], drawn.mean(axis=0), atol=0.12 * drawn.std(axis=0).max())
    np.testing.assert_allclose(spread[ends], drawn.std(axis=0), rtol=0.08)


def replace_parameters(posterior: Posterior, values: dict[str, Any]) -> Any:
    """Return a stand-in with other draws of the parameters."""

    class Fixed(Posterior):
        def parameters(self, draws: int | None = None) -> dict[str, Any]:
            return values

    return Fixed(posterior.tree, posterior.study, posterior.frame)


def test_alarms_are_false_about_as_often_as_stated(posterior: Posterior, curves: Any) -> None:
    watcher = Watcher(posterior, RUN, level=0.1, experience=Experience.none())
    watcher.expect(STEPS)
    start = watcher.state()
    alarms = 0
    for curve in curves:
        watcher.restore(start)
        statuses = [watcher.update(step, told(posterior, curve, i)) for i, step in enumerate(STEPS)]
        alarms += any(not status.on_track for status in statuses)
    # Binomial, four standard errors.
    assert abs(alarms / len(curves) - 0.1) < 4 * math.sqrt(0.1 * 0.9 / len(curves))


def test_a_wrong_learning_rate_is_found_and_named(posterior: Posterior) -> None:
    study = lab().subset([RUN]).without_losses()
    run = study.run(RUN)
    wrong = faulty(run)["a peak learning rate twice as high"]
    drawn = Predictive.of(posterior, wrong, study, STEPS, seed=5, sizes=Sizes.same())
    watcher = Watcher(posterior, RUN, experience=Experience.none())
    watcher.expect(STEPS)
    for i, row in enumerate(drawn.rows):
        watcher.tell(row.step, {row.domain: float(drawn.usual[0, 0, i])})
    status = watcher.status()
    assert not status.on_track
    assert status.looks_like == "a peak learning rate twice as high"
    assert "OFF TRACK" in status.words()


def test_the_forecast_of_the_end_narrows_onto_it(posterior: Posterior, curves: Any) -> None:
    watcher = Watcher(posterior, RUN, experience=Experience.none())
    watcher.expect(STEPS)
    widths = []
    for i, step in enumerate(STEPS):
        status = watcher.update(step, told(posterior, curves[0], i))
        own = status.forecast["kernel"]
        widths.append(own["upper"] - own["lower"])
    assert widths[0] > 1.5 * widths[-2]
    assert status.forecast["kernel"]["mean"] == pytest.approx(curves[0][1, -1], abs=1e-3)
    assert status.gain_left["kernel"]["mean"] == pytest.approx(0.0, abs=1e-3)


def test_memory_is_flat_over_10000_updates(posterior: Posterior) -> None:
    run = lab().run(RUN)
    long = replace(run, name="long", schedule=run.schedule.stretched(100_000))
    plan = replace(lab(), runs=(long,), losses=lab().losses.iloc[:0], is_plan=True)
    watcher = Watcher(posterior, "long", plan, experience=Experience.none())
    watcher.expect(range(10, 100_001, 10))
    tracemalloc.start()
    sizes = []
    for count, step in enumerate(range(10, 100_001, 10)):
        watcher.tell(step, {"general": 3.3, "kernel": 2.4})
        if count in (2000, 9999):
            sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert sizes[1] - sizes[0] < 20_000
    assert len(watcher.points) <= STRETCHES + 1
    assert len(json.dumps(watcher.state())) < 10_000
    assert watcher.status().step == 100_000


def test_a_watch_goes_on_from_its_state(posterior: Posterior, curves: Any, tmp_path: Path) -> None:
    whole, first, second = (Watcher(posterior, RUN, experience=Experience.none()) for _ in range(3))
    for watcher in (whole, first, second):
        watcher.expect(STEPS)
    for i, step in enumerate(STEPS[:4]):
        first.tell(step, told(posterior, curves[1], i))
        whole.tell(step, told(posterior, curves[1], i))
    save_state(tmp_path / "state.json", first.state())
    second.restore(json.loads((tmp_path / "state.json").read_text()))
    second.tell(STEPS[4], told(posterior, curves[1], 4))
    whole.tell(STEPS[4], told(posterior, curves[1], 4))
    assert second.status() == whole.status()
    with pytest.raises(WatchError, match="another run"):
        Watcher(posterior, "r00_cos").restore(first.state())


def test_what_the_fitted_curves_told_is_not_learnt_again(
    posterior: Posterior, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the fit is another."""
    learnt = Experience(Sizes(np.eye(TAUS.size)[3], np.eye(TAUS.size)[5]), 12.0, 15.0)
    asked: list[Posterior] = []

    def learn(law: Posterior, *, continual: bool) -> Experience:
        asked.append(law)
        return learnt

    monkeypatch.setattr(Experience, "of", learn)
    first = Watcher(posterior, RUN)
    first.status()
    state = json.loads(json.dumps(first.state()))
    again = Watcher(posterior, RUN)
    again.restore(state)
    assert again.status() == first.status()
    assert len(asked) == 1
    other = Watcher(prior_as_posterior(lab(), draws=50, spread=0.06), RUN)
    other.restore(state)
    other.status()
    assert len(asked) == 2


def test_what_comes_before_the_law_of_pretraining_holds_is_not_judged() -> None:
    """A loss at initialisation is no departure; one as far off later is."""
    posterior = prior_as_posterior(lab().subset(["pt_trunk", "pt_cosine"]), "pretrain", draws=50)
    watcher = Watcher(posterior, "pt_cosine", experience=Experience.none())
    watcher.expect([1, 100, 6000, 12000])
    early = watcher.update(100, {"general": 6.9})
    assert (early.on_track, early.losses) == (True, {"general": 6.9})
    assert early.probability == 1.0
    assert not watcher.update(6000, {"general": 9.9}).on_track


def test_a_run_that_diverges_is_off_track_until_it_is_restarted_from_before(
    posterior: Posterior, curves: Any
) -> None:
    watcher = Watcher(posterior, RUN, experience=Experience.none())
    watcher.expect(STEPS)
    assert watcher.update(STEPS[0], told(posterior, curves[2], 0)).on_track
    status = watcher.update(STEPS[1], {"kernel": math.nan})
    assert not status.on_track
    assert "diverged" in status.notes[0]
    watcher.tell(STEPS[0], told(posterior, curves[2], 0))
    assert watcher.update(STEPS[1], told(posterior, curves[2], 1)).probability > 0.05

"""A running job against its forecast: alarms, what they look like, ways on from here."""

import json
import math
import tracemalloc
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats
from synthetic import lab, prior_as_posterior

from bayes_cpt import Posterior, Run, Study
from bayes_cpt.errors import ProblemError
from bayes_cpt.forecast.plans import with_base_losses
from bayes_cpt.report.forecasts import advice, ends_below
from bayes_cpt.study.logs.raw import Stated
from bayes_cpt.study.logs.reading import Log
from bayes_cpt.study.schedules import constant
from bayes_cpt.watch import Watcher
from bayes_cpt.watch.expected import Expected, Row, drawn_curves, faulty, rows_at
from bayes_cpt.watch.watcher import STOP, STRETCHES, Continuations, schedules_from

RUN = "r25_lin05"
STEPS = [10, 40, 100, 250, 600, 1200, 2000, 3000]


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    return prior_as_posterior(lab(), draws=250, spread=0.05)


def plan_of(run: Run) -> Study:
    return replace(lab(), runs=(run,), losses=lab().losses.iloc[:0], is_plan=True)


@pytest.fixture(scope="module")
def curves(posterior: Posterior) -> Any:
    """Return drawn losses of the run, shape (curves, domains, steps)."""
    plan = lab().subset([RUN]).without_losses()
    rows = rows_at(posterior.frame.domains, STEPS)
    drawn = drawn_curves(posterior, plan, plan.run(RUN), rows, 100, seed=3)[0]
    return drawn.reshape(100, len(STEPS), len(posterior.frame.domains)).swapaxes(1, 2)


@pytest.fixture(scope="module")
def expecting(posterior: Posterior) -> Watcher:
    """Return a watcher that knows when the run is evaluated: what it draws serves all tests."""
    watcher = Watcher(posterior, RUN, inflation=1.0)
    watcher.expect(STEPS)
    return watcher


def anew(watcher: Watcher) -> Watcher:
    """Return a watcher that expects the same and has seen nothing."""
    own = copy(watcher)
    own.restore(watcher.state())
    return own


@pytest.fixture
def watcher(expecting: Watcher) -> Watcher:
    return anew(expecting)


def told(posterior: Posterior, curve: Any, place: int) -> dict[str, float]:
    return dict(zip(posterior.frame.domains, curve[:, place].tolist(), strict=True))


def test_given_losses_agree_with_the_joint_density() -> None:
    """Bayes' rule by a grid over the last loss."""
    steps = np.arange(5.0)
    covariance = 0.04 * np.exp(-abs(steps[:, None] - steps) / 3.0)
    rows = tuple(Row(step, "general") for step in range(1, 6))
    expected = Expected(rows, np.linspace(3.0, 2.0, 5), covariance, np.zeros((2, 5)), {})
    seen, losses = [0, 2], np.array([3.5, 2.9])
    grid, three = np.linspace(0.0, 4.0, 4001), [0, 2, 4]
    points = np.column_stack([np.tile(losses, (grid.size, 1)), grid])
    own = stats.multivariate_normal(expected.mean[three], covariance[np.ix_(three, three)])
    density = own.pdf(points) / own.pdf(points).sum()
    mean, spread = expected.given(seen, losses)
    assert mean[4] == pytest.approx(density @ grid, abs=1e-6)
    assert spread[4] == pytest.approx(np.sqrt(density @ (grid - mean[4]) ** 2), rel=1e-6)
    np.testing.assert_allclose(spread[seen], 0.0, atol=1e-6)


def test_alarms_are_false_about_as_often_as_stated(
    watcher: Watcher, posterior: Posterior, curves: Any
) -> None:
    watcher.level = 0.1
    start = watcher.state()
    alarms = 0
    for curve in curves:
        watcher.restore(start)
        statuses = [watcher.update(step, told(posterior, curve, i)) for i, step in enumerate(STEPS)]
        alarms += any(not status.on_track for status in statuses)
    # Binomial, four standard errors.
    assert abs(alarms / len(curves) - 0.1) < 4 * math.sqrt(0.1 * 0.9 / len(curves))


def test_a_wrong_learning_rate_is_found_and_named(watcher: Watcher) -> None:
    study = lab().subset([RUN]).without_losses()
    wrong = faulty(study.run(RUN))["a peak learning rate twice as high"]
    tell_drawn(watcher, wrong, study, STEPS, seed=5)
    status = watcher.status()
    assert not status.on_track
    assert status.looks_like == "a peak learning rate twice as high"
    assert "OFF TRACK" in status.words()
    assert not watcher.continuations("balanced").ways
    # Not where the log has the planned rates.
    rates = ((1500, float(study.run(RUN).schedule.learning_rates()[1499])),)
    watcher.compare(Log("log.csv", {}, (), rates, Stated(), (), ()))
    assert not watcher.status().disagreements
    assert watcher.status().looks_like is None


def test_one_set_is_judged_and_forecast_by_its_newest_evaluation(
    watcher: Watcher, posterior: Posterior, curves: Any
) -> None:
    healthy = [told(posterior, curves[4], i)["general"] for i in range(len(STEPS))]
    for step, loss in zip(STEPS[:-1], healthy[:-1], strict=True):
        watcher.tell(step, {"general": loss})
    before = watcher.status().forecast["general"]
    assert not anew(watcher).update(STEPS[-1], {"general": healthy[-1] + 1.0}).on_track
    # One of a stretch that has its evaluation is not kept, yet tells of the end.
    status = watcher.update(STEPS[-2] + 1, {"general": healthy[-2] - 0.05})
    assert STEPS[-2] + 1 not in watcher.points
    assert status.on_track
    assert status.forecast["general"]["mean"] < before["mean"]
    assert status.gain_left["general"]["mean"] == pytest.approx(
        healthy[-2] - 0.05 - status.forecast["general"]["mean"]
    )


@pytest.mark.parametrize(
    ("stated", "rates", "losses", "said"),
    [
        (Stated(steps=600), (), (), "The log announces 600 steps, the plan 3000."),
        (Stated(batch_tokens=4096), (), (), "The log has 4096 tokens a step, the plan 2048."),
        (Stated(), ((1500, 2.0),), (), "The logged learning rate is 2 at step 1500"),
        (Stated(), (), ((0, "kernel", 9.5),), "The log starts from a loss of 9.500 on kernel"),
    ],
)
def test_a_log_of_another_run_is_said_first_and_never_stopped(
    watcher: Watcher,
    posterior: Posterior,
    stated: Stated,
    rates: tuple[tuple[int, float], ...],
    losses: tuple[tuple[int, str, float], ...],
    said: str,
) -> None:
    watcher.compare(Log("log.csv", {}, losses, rates, stated, (), ()))
    status = watcher.update(600, {"general": 9.5, "kernel": 9.5})
    assert not status.on_track
    first, second, _ = status.verdict()
    assert first.startswith(f"NOT THE PLANNED RUN, at step 600 of 3000. {said}")
    assert second.startswith("How sure: the log states it.")
    assert "stop it" not in status.words()
    assert ends_below(status, {"kernel": 9.9}, 0.9) == []
    assert not watcher.continuations("balanced").ways
    later = Watcher(posterior, RUN)
    later.restore(json.loads(json.dumps(watcher.state())))
    assert later.disagreements == watcher.disagreements


def test_a_log_of_the_planned_run_agrees_to_the_printed_digits(posterior: Posterior) -> None:
    rates = tuple(enumerate(lab().run(RUN).schedule.learning_rates().tolist(), start=1))
    printed = tuple((step, float(f"{rate:.1e}")) for step, rate in rates if step % 10 == 0)
    watcher = Watcher(posterior, RUN)
    # As a trainer logs what the next step will have, and warms up from 0.
    ahead = tuple((step - 1, rate) for step, rate in rates[1:])
    for logged in (rates, printed, ahead):
        watcher.compare(Log("log.csv", {}, (), logged, Stated(steps=3000), (), ()))
    assert not watcher.disagreements


def test_memory_is_flat_over_10000_updates(posterior: Posterior) -> None:
    run = lab().run(RUN)
    plan = plan_of(replace(run, name="long", schedule=run.schedule.stretched(100_000)))
    watcher = Watcher(posterior, "long", plan, inflation=1.0)
    watcher.expect(range(10, 100_001, 10))
    for step in range(10, 100_001, 10):
        if step == 20_000:
            tracemalloc.start()
        watcher.tell(step, {"general": 3.3, "kernel": 2.4})
    assert tracemalloc.get_traced_memory()[0] < 20_000
    tracemalloc.stop()
    assert len(watcher.points) <= STRETCHES + 1
    assert len(json.dumps(watcher.state())) < 10_000
    assert watcher.status().step == 100_000


def test_a_watch_goes_on_from_its_state(
    expecting: Watcher, posterior: Posterior, curves: Any
) -> None:
    whole, first, second = (anew(expecting) for _ in range(3))
    for i, step in enumerate(STEPS[:4]):
        first.tell(step, told(posterior, curves[1], i))
        whole.tell(step, told(posterior, curves[1], i))
    second.restore(json.loads(json.dumps(first.state())))
    second.tell(STEPS[4], told(posterior, curves[1], 4))
    whole.tell(STEPS[4], told(posterior, curves[1], 4))
    assert second.status() == whole.status()
    with pytest.raises(ProblemError, match="another run"):
        Watcher(posterior, "r00_cos").restore(first.state())
    with pytest.raises(ValueError, match="valid integer"):
        second.restore(first.state() | {"_latest": "x"})


def test_what_comes_before_the_law_of_pretraining_holds_is_not_judged() -> None:
    """A loss at initialisation is no departure; one as far off later is."""
    posterior = prior_as_posterior(lab().subset(["pt_trunk", "pt_cosine"]), "pretrain", draws=50)
    watcher = Watcher(posterior, "pt_cosine", inflation=1.0)
    watcher.expect([1, 100, 6000, 12000])
    early = watcher.update(100, {"general": 6.9})
    assert (early.on_track, early.losses) == (True, {"general": 6.9})
    assert early.probability == 1.0
    assert not watcher.update(6000, {"general": 9.9}).on_track


def test_a_run_that_diverges_is_off_track_until_it_is_restarted_from_before(
    watcher: Watcher, posterior: Posterior, curves: Any
) -> None:
    assert watcher.update(STEPS[0], told(posterior, curves[2], 0)).on_track
    status = watcher.update(STEPS[1], {"kernel": math.nan})
    assert not status.on_track
    assert "diverged" in status.notes[0]
    assert (status.step, status.off_since, status.forecast) == (STEPS[1], STEPS[1], {})
    # A log that is read again from its start is no restart.
    watcher.disagreements = {"steps": "The log announces 600 steps."}
    watcher.tell(STEPS[0], told(posterior, curves[2], 0))
    assert watcher.update(STEPS[1], {"kernel": math.nan}).disagreements
    assert watcher.update(STEPS[2], {"kernel": math.nan}).step == STEPS[2]
    restarted = watcher.update(STEPS[0], told(posterior, curves[2], 0))
    assert restarted.step == STEPS[0]
    assert restarted.forecast
    assert watcher.update(STEPS[1], told(posterior, curves[2], 1)).probability > 0.05
    # Restarted again, for losses that were off: nothing is left of the run that was given up.
    assert not watcher.update(STEPS[2], {"kernel": 9.5, "general": 9.5}).on_track
    again = {name: loss + 1e-3 for name, loss in told(posterior, curves[2], 0).items()}
    status = watcher.update(STEPS[0], again)
    assert (status.step, status.on_track, status.off_since) == (STEPS[0], True, None)
    assert not status.disagreements


NOW = 1200


@pytest.fixture(scope="module")
def held(posterior: Posterior) -> tuple[Run, Study]:
    """Return a run whose plan never decays."""
    run = lab().run("r25_cos")
    schedule = constant(run.schedule.steps, float(run.schedule.peak))
    plan = plan_of(replace(run, name="held", schedule=schedule))
    return plan.runs[0], with_base_losses(lab(), posterior.frame.domains, plan)


def tell_drawn(watcher: Watcher, run: Run, plan: Study, steps: list[int], seed: int) -> None:
    """Tell a watcher of one drawn curve of a run."""
    rows = rows_at(watcher.posterior.frame.domains, steps)
    drawn = drawn_curves(watcher.posterior, plan, run, rows, 1, seed)[0][0]
    for row, loss in zip(rows, drawn.tolist(), strict=True):
        watcher.tell(row.step, {row.domain: loss})


def asked(posterior: Posterior, held: tuple[Run, Study], **costs: float) -> Continuations:
    run, plan = held
    watcher = Watcher(posterior, run.name, plan)
    # The last two are of one stretch: what is advised begins at the newest.
    tell_drawn(watcher, run, plan, [50, 300, 700, NOW - 10, NOW], seed=2)
    assert NOW not in watcher.points
    return watcher.continuations({"weights": {"general": 0.5, "target": 0.5}, **costs})


def test_a_plan_that_never_decays_is_beaten(posterior: Posterior, held: tuple[Run, Study]) -> None:
    found = asked(posterior, held)
    assert found.advised is not None
    assert found.advised.name.startswith("decay")
    assert found.advised.lower < found.advised.mean < found.advised.upper
    assert "decay" in advice(found, NOW, 3000)
    assert next(own for own in found.ways if own.name == STOP).mean < found.advised.mean


def test_a_cost_per_step_is_saved_by_a_stop(posterior: Posterior, held: tuple[Run, Study]) -> None:
    free, dear = (asked(posterior, held, cost_per_1000_steps=cost) for cost in (0.0, 1.0))
    by_name = {own.name: own for own in free.ways}
    for own in dear.ways:
        saved = (3000 - own.end) / 1000
        assert own.mean - by_name[own.name].mean == pytest.approx(saved, abs=1e-9)
    assert dear.ways[0].name == STOP


def test_the_plan_itself_gains_nothing(posterior: Posterior, held: tuple[Run, Study]) -> None:
    """For a run that decays evenly from now on this continuation is the plan itself."""
    run, plan = held
    same = replace(run, schedule=schedules_from(run, NOW)["decay to 0 evenly from now on"][0])
    found = asked(posterior, (same, replace(plan, runs=(same,))))
    even = next(own for own in found.ways if own.name.startswith("decay to 0 evenly"))
    assert even.mean == pytest.approx(0.0, abs=1e-9)
    assert even.upper - even.lower < 1e-6


def test_before_the_first_point_and_after_the_last_nothing_is_advised(posterior: Posterior) -> None:
    found = Watcher(posterior, "r25_cos").continuations("balanced")
    assert found.ways == ()
    assert found.advised is None
    assert advice(found, 0, 3000) == ""

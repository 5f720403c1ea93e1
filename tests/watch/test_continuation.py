from dataclasses import replace

import pytest
from synthetic import lab, prior_as_posterior

from bayes_cpt import Posterior, Run, Study
from bayes_cpt.forecast.plans import with_base_losses
from bayes_cpt.report.forecasts import advice
from bayes_cpt.study.schedules import constant
from bayes_cpt.watch import Watcher
from bayes_cpt.watch.expected import drawn_curves, rows_at
from bayes_cpt.watch.watcher import STOP, Continuations, schedules_from

NOW = 1200


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    return prior_as_posterior(lab(), draws=250, spread=0.05)


@pytest.fixture(scope="module")
def held(posterior: Posterior) -> tuple[Run, Study]:
    """Return a run whose plan never decays."""
    run = lab().run("r25_cos")
    total = run.schedule.steps
    own = replace(run, name="held", schedule=constant(total, float(run.schedule.peak)))
    plan = replace(lab(), runs=(own,), losses=lab().losses.iloc[:0], is_plan=True)
    return own, with_base_losses(lab(), posterior.frame.domains, plan)


def seen(posterior: Posterior, run: Run, plan: Study) -> dict[int, dict[str, float]]:
    """Return points of one drawn curve of the run up to now."""
    steps = [50, 300, 700, NOW]
    rows = rows_at(posterior.frame.domains, steps)
    drawn = drawn_curves(posterior, plan, run, rows, 1, seed=2)[0][0]
    points: dict[int, dict[str, float]] = {}
    for row, loss in zip(rows, drawn, strict=True):
        points.setdefault(row.step, {})[row.domain] = float(loss)
    return points


def asked(posterior: Posterior, held: tuple[Run, Study], **costs: float) -> Continuations:
    run, plan = held
    watcher = Watcher(posterior, run.name, plan)
    for step, losses in seen(posterior, run, plan).items():
        watcher.tell(step, losses)
    return watcher.continuations({"weights": {"general": 0.5, "target": 0.5}, **costs})


def test_a_plan_that_never_decays_is_beaten_by_one_that_does(
    posterior: Posterior, held: tuple[Run, Study]
) -> None:
    found = asked(posterior, held)
    assert found.advised is not None
    assert found.advised.name.startswith("decay")
    assert found.advised.lower < found.advised.mean < found.advised.upper
    assert "decay" in advice(found, NOW, 3000)
    stop = next(own for own in found.ways if own.name == STOP)
    assert stop.mean < found.advised.mean


def test_a_cost_per_step_is_saved_by_stopping(
    posterior: Posterior, held: tuple[Run, Study]
) -> None:
    free, dear = (asked(posterior, held, cost_per_1000_steps=cost) for cost in (0.0, 1.0))
    by_name = {own.name: own for own in free.ways}
    for own in dear.ways:
        saved = (3000 - own.end) / 1000
        assert own.mean - by_name[own.name].mean == pytest.approx(saved, abs=1e-9)
    assert dear.ways[0].name == STOP


def test_the_plan_itself_gains_nothing(posterior: Posterior, held: tuple[Run, Study]) -> None:
    """For a run that decays evenly from now on this continuation is the plan itself."""
    run, plan = held
    schedule = schedules_from(run, NOW)["decay to 0 evenly from now on"][0]
    same = replace(run, schedule=schedule)
    found = asked(posterior, (same, replace(plan, runs=(same,))))
    even = next(own for own in found.ways if own.name.startswith("decay to 0 evenly"))
    assert even.mean == pytest.approx(0.0, abs=1e-9)
    assert even.upper - even.lower < 1e-6


def test_before_the_first_point_and_after_the_last_nothing_is_advised(posterior: Posterior) -> None:
    watcher = Watcher(posterior, "r25_cos")
    found = watcher.continuations("balanced")
    assert found.ways == ()
    assert found.advised is None
    assert advice(found, 0, 3000) == ""

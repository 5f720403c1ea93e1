"""The end of one run by its log alone."""

import json
import sys
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_log import NOW, PLANNED_RATES, PT, TOTAL, log_of, loss_at
from stand_in import stand_in
from synthetic import prior_as_posterior

import bayes_cpt
from bayes_cpt import Run, forecast_log
from bayes_cpt.errors import StudyError
from bayes_cpt.study.logs.reading import Log, Reading
from bayes_cpt.study.logs.runs import Recipe, logged_run
from bayes_cpt.study.schedules import Schedule, constant, cosine, linear
from bayes_cpt.watch import callback
from bayes_cpt.watch.in_loop import RunForecaster
from bayes_cpt.watch.log_forecast import (
    ANNEAL,
    FEWEST,
    HELD,
    PLANNED,
    RUN,
    LogForecast,
    forecast_run,
    phase_of,
    study_of,
    ways_on,
)


def rows_to(last: int, noise: float = 0.0) -> list[tuple[int, str, float]]:
    """Return losses of the planned run up to a step."""
    steps = list(range(250 if noise else 500, last + 1, 250 if noise else 500))
    losses = loss_at(PLANNED_RATES, steps) + noise * np.sin(np.square(steps))
    return [(step, "val", loss) for step, loss in zip(steps, losses.tolist(), strict=True)]


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, at="bayes_cpt.watch.log_forecast.fit", spread=0.1)


def test_a_run_of_known_law_ends_in_its_band_and_nearer_than_its_last_value(
    tmp_path: Path,
) -> None:
    path = log_of(tmp_path / "log.csv", NOW)
    stated = PLANNED_RATES.to_toml()
    found = forecast_log(str(path), schedule=stated, phase="pt", steps=8_000, seed=1)
    assert not found.problems
    ends = found.table.set_index("way")
    assert list(ends["step"]) == [TOTAL, 6250, 8000]
    for way, schedule in found.ways.items():
        truth = loss_at(schedule, [schedule.steps])[0]
        end = ends.loc[way]
        assert end["lower"] < truth < end["upper"]
        assert abs(end["mean"] - truth) < 0.3 * abs(end["now"] - truth)
        assert end["upper"] - end["lower"] < 0.15
    assert "annealing gains" in found.verdict()[-1]
    assert found.verdict()[0].startswith("As planned: the run ends at step 10000 at ")


def test_bands_are_those_of_a_fit_of_the_run_alone(narrow: None) -> None:
    rows = rows_to(NOW)
    found = forecast_run(PT, rows, NOW)
    study = study_of(PT, "val", pd.DataFrame(rows, columns=["step", "domain", "loss"]))
    own = prior_as_posterior(study, "pretrain-log", spread=0.1)
    planned = found.curves[found.curves["way"] == PLANNED]
    at = planned.assign(run=RUN)[["run", "domain", "step"]]
    expected = bayes_cpt.bands(own, kind="known_run", at=at)
    np.testing.assert_allclose(planned["mean"], expected["mean"], rtol=1e-12)
    np.testing.assert_allclose(planned["upper"], expected["upper"], rtol=1e-12)
    assert planned["step"].min() == NOW + 1


@given(
    now=st.integers(200, 9_000),
    longer=st.integers(1, 20_000),
    decay=st.floats(0.05, 0.5),
    planned=st.sampled_from([PLANNED_RATES, cosine(TOTAL, 1e-3, 1e-4), linear(TOTAL, 1e-3, 1e-3)]),
)
def test_each_way_begins_as_the_run(now: int, longer: int, decay: float, planned: Schedule) -> None:
    ways = ways_on(replace(PT, schedule=planned), now, now + longer, decay)
    done = planned.learning_rates()[:now]
    for name, schedule in ways.items():
        rates = schedule.learning_rates()
        assert rates.max() <= planned.peak
        if "same schedule" in name:
            assert schedule.steps == now + longer
            continue
        np.testing.assert_allclose(rates[:now], done, rtol=1e-12)
        assert (np.diff(rates[now:]) <= 1e-18).all()
        if name != PLANNED:
            assert rates[-1] == pytest.approx(0.0, abs=2e-3 * planned.peak)
    assert PLANNED in ways
    if ANNEAL in ways:
        whole = ways[ANNEAL].steps
        assert (whole - now) / whole == pytest.approx(decay, abs=2 / now + 0.01)


@pytest.mark.filterwarnings("ignore:learning rates, run log")
def test_a_rate_that_is_held_for_want_of_a_plan_is_no_plan(narrow: None) -> None:
    known = Schedule.from_log(range(1, NOW), 1e-3 + 1e-4 * np.sin(range(1, NOW)), TOTAL)
    found = forecast_run(replace(PT, schedule=known), rows_to(NOW), NOW)
    assert list(found.ways) == [HELD, ANNEAL]
    said = replace(found, phase_given=False).verdict()[0]
    assert "not known: state it by --schedule. Taken as pre-training, by its losses (else" in said


@pytest.mark.parametrize(
    ("total", "stated", "way"),
    [(TOTAL, False, HELD), (TOTAL, True, PLANNED), (3_010, False, PLANNED)],
)
def test_a_rate_that_was_constant_may_fall_yet(
    total: int, stated: bool, way: str, tmp_path: Path, narrow: None
) -> None:
    """Unless the schedule is stated, or the run all but over."""
    steady = constant(total, 1e-3)
    path = log_of(tmp_path / "log.csv", 3_000, replace(PT, schedule=steady))
    schedule = {"schedule": steady.to_toml()} if stated else {"total_steps": total}
    found = forecast_log(str(path), phase="pt", **schedule)
    assert next(iter(found.ways)) == way
    assert ("not known: state it by --schedule" in found.verdict()[0]) == (way == HELD)


@pytest.mark.parametrize(("done", "way"), [(0.5, HELD), (0.999, PLANNED)])
def test_rates_of_no_shape_are_not_missed_at_the_end_of_a_run(done: float, way: str) -> None:
    now = round(done * TOTAL)
    known = Schedule.from_log(range(1, now), 1e-3 + 1e-4 * np.sin(range(1, now)), TOTAL)
    assert next(iter(ways_on(replace(PT, schedule=known), now, None, 0.2))) == way


def test_a_log_in_parts_tells_what_the_whole_does(tmp_path: Path, narrow: None) -> None:
    whole, *parts = (tmp_path / f"{name}.csv" for name in ("whole", "a", "b"))
    table = pd.read_csv(log_of(whole, NOW))
    for part, (_, rows) in zip(parts, table.groupby(table["step"] > 2500), strict=True):
        rows.to_csv(part, index=False)
    known: Any = {"total_steps": TOTAL, "phase": "pt"}
    one = forecast_log(str(whole), **known)
    two = forecast_log([str(part) for part in parts], **known)
    pd.testing.assert_frame_equal(one.table, two.table)


def test_sets_of_a_cpt_run_are_told_apart_by_what_they_do(narrow: None) -> None:
    run = Run("run", "cpt", cosine(1_000, 1e-4, 0.0), base="base", replay=0.0)
    rows = [
        (step, name, loss + sign * 0.1 * step / 500 + 0.002 * np.sin(step**2))
        for step in range(0, 501, 50)
        for name, loss, sign in (("web", 2.5, 1), ("code", 1.5, -1))
    ]
    assert list(forecast_run(run, rows, 500).on_priors) == ["web", "code"]
    table = pd.DataFrame(rows, columns=["step", "domain", "loss"])
    web, code = (study_of(run, name, table.query("domain == @name")) for name in ("web", "code"))
    assert (web.general, web.target) == ("web", None)
    assert (code.general, code.target) == (None, "code")


@pytest.mark.parametrize(
    ("losses", "phase"),
    [([9.0, 5.0, 4.0], "pt"), ([4.2, 3.6, 3.1], "pt"), ([2.4, 2.0, 0.9], "cpt")],
)
def test_the_phase_is_taken_by_the_losses(losses: list[float], phase: str, tmp_path: Path) -> None:
    table = pd.DataFrame({"step": range(1, 4), "lr": 1e-4, "val_loss": losses})
    table.to_csv(tmp_path / "log.csv", index=False)
    assert phase_of(Reading().changed(paths=(str(tmp_path / "log.csv"),)).read()) == phase


@pytest.mark.parametrize(("sums", "phase"), [(1, "pt"), (4, "cpt")])
def test_pretraining_is_known_by_its_training_losses(sums: int, phase: str, tmp_path: Path) -> None:
    """Evaluations may begin late; a training loss summed over micro-batches tells nothing."""
    rows = ["step,lr,train_loss,val_loss"]
    for step, trained, loss in ((10, 9.1, ""), (2_000, 3.4, 3.3), (4_000, 3.0, 3.0)):
        rows.append(f"{step},1e-4,{sums * trained},{loss}")
    (tmp_path / "log.csv").write_text("\n".join(rows))
    assert phase_of(Reading().changed(paths=(str(tmp_path / "log.csv"),)).read()) == phase


@pytest.mark.filterwarnings("ignore:study, run log")
@pytest.mark.parametrize(
    ("low", "rise", "said"),
    [
        (2.0, 0.4, "on val the loss has risen since step 2250, from 2.0"),
        (0.0, 0.0, "val: the band reaches -"),
        (2.0, 0.0, ""),
    ],
)
def test_what_the_law_does_not_hold_for_is_not_to_be_trusted(
    low: float, rise: float, said: str, narrow: None
) -> None:
    """Overfitting, whose rise no healthy run has, and losses near 0."""
    rows = [
        (step, name, loss - 2.6 + low + rise * max(0.0, step / 2_500 - 1.0))
        for step, name, loss in rows_to(5_000, 1e-3)
    ]
    found = forecast_run(PT, rows, NOW)
    assert [said in problem for problem in found.problems] == ([True] if said else [])
    assert f"do not trust this: {said}" in found.verdict()[-1] or not said


@pytest.mark.filterwarnings("ignore:study, run log")
def test_what_is_wrong_with_the_schedule_is_said_once(narrow: None) -> None:
    run = replace(PT, schedule=constant(500, 1e-4) + linear(9_500, 1e-3, 1e-4))
    rows = [
        (step, name, loss) for name in ("code", "web") for step, _, loss in rows_to(5_000, 1e-3)
    ]
    problems = forecast_run(run, rows, NOW).problems
    assert sum("jumps to 0.001 at the start of segment 2" in own for own in problems) == 1


def test_losses_of_a_formula_are_refused() -> None:
    with pytest.raises(StudyError, match=r"validation set val: its losses do not fluctuate"):
        forecast_run(PT, rows_to(9_000), 9_000)


def test_a_run_in_its_warm_up_is_not_forecast() -> None:
    run = Run("run", "pt", linear(600, 0.0, 1e-3) + linear(400, 1e-3, 0.0))
    rows = [(step, "val", 4.0) for step in range(50, 601, 50)]
    with pytest.raises(StudyError, match="at step 500 the run still warms up"):
        forecast_run(run, rows[:10], 500)


def test_without_evaluations_the_training_loss_is_forecast(tmp_path: Path, narrow: None) -> None:
    """As the Trainer of Hugging Face writes it: nothing at step 0, and a mean of the whole at the end."""
    history = [
        {"step": step, "loss": 2.0 + 0.002 * np.sin(step), "learning_rate": 1e-5 - step * 1e-8}
        for step in range(10, 501, 10)
    ]
    state = {"max_steps": 1_000, "global_step": 500, "log_history": history}
    state["log_history"] = [*history, {"step": 500, "train_loss": 1.95}]
    (tmp_path / "trainer_state.json").write_text(json.dumps(state))
    found = forecast_log(str(tmp_path / "trainer_state.json"))
    assert found.run.phase == "cpt"
    assert list(found.measured["loss"]) == [row["loss"] for row in history]
    assert set(found.table["domain"]) == {"train"}
    assert any("the training loss, loss, takes its place" in note for note in found.notes)


# In the loop.

EVALUATIONS = {250 * i: 3.0 - 0.01 * i for i in range(1, 6)}
SETS = ("val", "code", "math")


class Answer:
    """Stands for the process of a forecaster: it answers at once, or fails, as it is told."""

    def __init__(self, answers: Callable[[], pd.DataFrame]) -> None:
        self.answers = answers
        self.asked: list[tuple[Recipe, Log]] = []

    def __call__(self, *args: Any, **options: Any) -> "Answer":
        return self

    def submit(self, function: Any, recipe: Recipe, log: Log, *, now: int) -> "Future[LogForecast]":
        self.asked.append((recipe, log))
        future: Future[LogForecast] = Future()
        try:
            curves = self.answers()
            problems = curves.attrs.get("problems", ())
            future.set_result(LogForecast(PT, now, pd.DataFrame(), {}, curves, {}, problems))
        except (StudyError, OSError) as error:
            future.set_exception(error)
        return future

    def shutdown(self, *, kill_workers: bool) -> None:
        assert kill_workers


def curves_to(end: float) -> pd.DataFrame:
    """Return a forecast that ends at a loss, with a band of 0.1."""
    step, mean = np.array([1001, TOTAL]), np.array([2.96, end])
    bands = {"mean": mean, "median": mean, "sd": 0.01, "lower": mean - 0.05, "upper": mean + 0.05}
    return pd.DataFrame({"way": PLANNED, "domain": "val", "step": step, **bands})


@pytest.fixture
def forecast(monkeypatch: pytest.MonkeyPatch) -> Answer:
    answer = Answer(lambda: curves_to(2.5))
    monkeypatch.setattr("bayes_cpt.watch.in_loop.ProcessPoolExecutor", answer)
    return answer


def test_a_loop_is_given_the_newest_forecast_and_told_of_losses_outside(forecast: Answer) -> None:
    said: list[str] = []
    with RunForecaster(list(PLANNED_RATES.learning_rates()), warn=said.append) as forecaster:
        given_back = [forecaster.evaluated(step, {"val": v}) for step, v in EVALUATIONS.items()]
        assert given_back[0] == {}
        band = {"forecast_end_val_lower": 2.45, "forecast_end_val_upper": 2.55}
        assert given_back[-1] == pytest.approx({"forecast_end_val": 2.5, **band})
        assert not said
        forecaster.evaluated(1500, {"val": 3.4})
        assert "step 1500: the loss on val is 3.400" in said[0]
        assert "above its forecast" in said[0]
        assert forecaster.evaluated(1600, {"val": np.nan}) == {}
        assert said[1:] == ["the loss is not finite at step 1600: the run has diverged"]
    recipe, log = forecast.asked[0]
    assert (log.stated.steps, log.losses[0]) == (TOTAL, (250, "val", 2.99))
    assert logged_run("run", log, recipe, {"phase": "pt"}, []).run.schedule == PLANNED_RATES


def test_a_set_told_of_after_a_new_forecast_began_is_compared_with_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starts = iter([1001] * 3 + [1501] * 3)

    def answers() -> pd.DataFrame:
        curves, start = curves_to(2.5), next(starts)
        sets = [curves.assign(domain=name, step=[start, TOTAL]) for name in SETS]
        return pd.concat(sets, ignore_index=True)

    monkeypatch.setattr("bayes_cpt.watch.in_loop.ProcessPoolExecutor", Answer(answers))
    said: list[str] = []
    with RunForecaster(total_steps=TOTAL, warn=said.append) as forecaster:
        for step in [*range(1, FEWEST + 1), 1500]:
            for name in SETS:
                forecaster.evaluated(step, {name: 3.4 if step == 1500 else 2.9}, 1e-3)
    wanted = [f"step 1500: the loss on {name} is 3.400" for name in SETS]
    assert [line.split(",")[0] for line in said] == wanted


def test_a_forecast_that_fails_leaves_the_one_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = iter([0, 2, 1, 3, 0])

    def answers() -> pd.DataFrame:
        code = next(codes)
        if code == 2:
            raise StudyError.at("the log", "it is too short", "wait")
        if code == 3:
            raise OSError("no space left")
        curves = curves_to(code)
        curves.attrs["problems"] = ("val: 3 divergences",) if code else ()
        return curves

    monkeypatch.setattr("bayes_cpt.watch.in_loop.ProcessPoolExecutor", Answer(answers))
    said: list[str] = []
    with RunForecaster(total_steps=TOTAL, warn=said.append) as forecaster:
        ends = [forecaster.evaluated(step, {"val": 2.0}, 1e-3) for step in range(1, 9)]
    reasons = ["val: 3 divergences", "OSError('no space left')"]
    assert [line for line in said if "forecast:" in line] == [
        f"the end is not forecast: {r}" for r in reasons
    ]
    assert [end.get("forecast_end_val") for end in ends] == [None] * 3 + [0] * 5
    with pytest.raises(ValueError, match="give rates or total_steps"):
        RunForecaster().evaluated(1, {"val": 2.0}, 1e-3)


def test_the_process_of_a_forecaster_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it is told is a log that is forecast; here it is refused, as it has no losses of its own."""
    with RunForecaster(total_steps=TOTAL, phase="pt") as forecaster:
        for step in range(1, FEWEST + 1):
            forecaster.evaluated(step, {"val": 2.0}, 1e-3)
        running = forecaster._running
        assert running is not None
        with pytest.raises(StudyError, match="it is too short to say anything"):
            running.result(60)
        assert forecaster.wait(60) == {}


def test_callbacks_of_trainers_tell_a_forecaster_of_every_evaluation(
    monkeypatch: pytest.MonkeyPatch, forecast: Answer
) -> None:
    for library in ("transformers", "lightning", "lightning.pytorch"):
        monkeypatch.setitem(sys.modules, library, ModuleType(library))
    monkeypatch.setattr(sys.modules["transformers"], "TrainerCallback", object, raising=False)
    monkeypatch.setattr(sys.modules["lightning.pytorch"], "Callback", object, raising=False)
    logged: list[dict[str, float]] = []
    # Of many processes one forecasts.
    idle = SimpleNamespace(is_world_process_zero=False, max_steps=TOTAL)
    another = callback.ForecastCallback()
    another.on_train_begin(None, idle, None)
    for _ in range(6):
        another.on_evaluate(None, idle, None, metrics={"eval_loss": 2.0})
    assert not forecast.asked
    scheduler = SimpleNamespace(base_lrs=[1e-3], lr_lambdas=[lambda step: 1.0 - step / TOTAL])
    state = SimpleNamespace(
        max_steps=TOTAL, global_step=0, log_history=[], is_world_process_zero=True
    )
    one = callback.ForecastCallback(log=logged.append)
    one.on_train_begin(None, state, None, lr_scheduler=scheduler)
    for step, loss in EVALUATIONS.items():
        state.global_step = step
        one.on_evaluate(None, state, None, metrics={"eval_loss": loss, "eval_runtime": 3.0})
        # A Trainer tells of each validation set on its own.
        one.on_evaluate(None, state, None, metrics={"eval_code_loss": loss - 1.0})
    one.on_train_end(None, state, None)
    assert logged[-1]["forecast_end_val"] == 2.5
    assert state.log_history[-1] == {**logged[-1], "step": 1250}
    told = {domain for step, domain, _ in forecast.asked[-1][1].losses if step == 1000}
    assert told == {"val", "code"}
    metrics: list[tuple[dict[str, float], int]] = []
    other = callback.LightningForecastCallback()
    for step, loss in EVALUATIONS.items():
        trainer = SimpleNamespace(
            sanity_checking=False,
            is_global_zero=True,
            estimated_stepping_batches=TOTAL,
            global_step=step,
            callback_metrics={"val_loss": loss},
            optimizers=[SimpleNamespace(param_groups=[{"lr": 1e-3}])],
            logger=SimpleNamespace(log_metrics=lambda found, step: metrics.append((found, step))),
        )
        other.on_validation_end(trainer, None)
    other.teardown(None, None, "fit")
    assert metrics[-1] == (logged[-1], 1250)


def test_of_a_run_that_is_over_a_longer_one_is_forecast(narrow: None) -> None:
    (way,) = forecast_run(PT, rows_to(TOTAL), TOTAL).ways.values()
    assert (way.steps, way.peak) == (2 * TOTAL, PLANNED_RATES.peak)
    (way,) = forecast_run(PT, rows_to(TOTAL), TOTAL, steps=30_000).ways.values()
    assert way.steps == 30_000

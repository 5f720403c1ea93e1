"""Decisions on simulated studies: rows from forecasts made by hand, truths, rivals; slow, their quality."""

import logging
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from printed import COEFFICIENTS, MEMORY
from testbench import baselines, truths
from testbench.baselines import inputs_of, printed_losses
from testbench.choosers import gaussian_process, plug_in
from testbench.decision_report import markdown, mean_and_error, proportion
from testbench.decisions import decide_all
from testbench.one_decision import (
    CONSTRAINTS,
    OBJECTIVES,
    OURS,
    PLUG_IN,
    SHARES,
    Forecast,
    Task,
    World,
    choice_rows,
    constraint_rows,
    statement_rows,
)
from testbench.short_studies import (
    DOMAINS,
    LONG,
    PEAK,
    blank,
    design,
    package_noise,
    simulated_study,
)
from testbench.simulation import TRUTH
from testbench.truths import draw_truth

from bayes_cpt.arrays import Floats
from bayes_cpt.decisions.decision import TOLERANCE
from bayes_cpt.model.simulate import expected_loss
from bayes_cpt.study.study import Study

# --- rows of a study ------------------------------------------------------------------------------

WEIGHTS = {"domain-focus": (0.1, 0.9), "balanced": (0.5, 0.5), "general-preserving": (0.8, 0.2)}


@pytest.fixture(scope="module")
def world() -> World:
    return World.of(Task("0", "moderate", 11, shared=False))


def forecast(losses: Floats, sd: float = 0.01) -> Forecast:
    """Return a forecast of draws, shape (domains, draws, candidates)."""
    return Forecast(losses, losses, {name: np.full(losses.shape[1:], sd) for name in SHARES})


def scattered(world: World, draws: int = 40, sd: float = 0.01) -> Forecast:
    """Return draws whose slopes in replay lie about the truth's."""
    slopes = sd * np.random.default_rng(1).standard_normal((2, draws, 1))
    return forecast(world.losses[:, None] + slopes * world.choices.column("replay"), sd)


def test_a_method_that_knows_the_truth_has_no_regret(world: World) -> None:
    rows = pd.DataFrame(choice_rows(world, {"knows": world.losses, "errs": -world.losses}))
    table = rows.set_index(["objective", "method"])
    assert set(table.index.get_level_values("objective")) == set(OBJECTIVES) == set(WEIGHTS)
    for name, weights in WEIGHTS.items():
        value = np.dot(weights, world.losses)
        assert table.loc[(name, "knows"), "regret"] == 0.0
        assert table.loc[(name, "oracle"), "regret"] == 0.0
        assert table.loc[(name, "errs"), "regret"] == pytest.approx(np.ptp(value))
        best = value.argmin()
        found = table.loc[(name, "knows"), ["replay", "relative_peak"]].to_list()
        assert found == [
            world.choices.column(column)[best] for column in ("replay", "relative_peak")
        ]
        assert table.loc[(name, "rule"), "replay"] == 0.25


def test_statements_are_those_of_plain_arithmetic(world: World) -> None:
    given = scattered(world)
    for row in statement_rows(world, given):
        weights = np.array(WEIGHTS[row["objective"]])
        draws = np.einsum("k,kdc->dc", weights, given.losses)
        value = weights @ world.losses
        chosen = draws.mean(axis=0).argmin()
        lowest = draws.min(axis=1)
        assert row["stated"] == pytest.approx(np.mean(draws[:, chosen] - lowest))
        assert row["realised"] == pytest.approx(value[chosen] - value.min())
        assert row["stated_best"] == np.mean(draws[:, chosen] == lowest)
        assert row["stated_near"] == np.mean(draws[:, chosen] <= lowest + TOLERANCE)
        assert row["near"] == (row["realised"] <= TOLERANCE)
        assert row["best"] == (row["realised"] == 0.0)
        assert (row["lower"], row["upper"]) == pytest.approx(
            tuple(np.quantile(lowest, [0.05, 0.95]))
        )
        assert row["optimum"] == value.min()


def test_the_best_choice_that_keeps_a_constraint(world: World) -> None:
    given = scattered(world)
    limits = {"general": 0.05, "mixed": 0.0}
    weights = {"general": (1.0, 0.0), "mixed": (0.8, 0.2)}
    start = [float(world.study.base_loss("annealed", name) or 0.0) for name in DOMAINS]
    generator = np.random.default_rng(2)
    rows = constraint_rows(world, given, world.losses)
    assert [(row["loss"], row["allowed"], row["method"]) for row in rows] == [
        (constraint.domain, constraint.probability, method)
        for constraint in CONSTRAINTS
        for method in (OURS, PLUG_IN)
    ]
    mean = np.dot((0.1, 0.9), given.losses.mean(axis=1))
    for row in rows:
        own = np.array(weights[row["loss"]])
        highest = own @ start + limits[row["loss"]]
        law = np.einsum("k,kdc->dc", own, given.losses)
        drawn = law + 0.01 * generator.standard_normal((500, *law.shape))
        above = (drawn > highest).mean(axis=(0, 1))
        replay, peak = (world.choices.column(name) for name in ("replay", "relative_peak"))
        place = np.flatnonzero((replay == row["replay"]) & (peak == row["relative_peak"])).item()
        if row["method"] == PLUG_IN:
            allowed = own @ world.losses <= highest
            assert place == np.where(allowed, np.dot((0.1, 0.9), world.losses), np.inf).argmin()
            assert np.isnan(row["stated"])
            continue
        assert row["stated"] <= row["allowed"]
        assert row["stated"] == pytest.approx(above[place], abs=0.01)
        # Whatever is clearly better in the mean breaks the constraint.
        assert np.all(above[mean < mean[place]] > row["allowed"] - 0.01)
        assert row["violated"] == (own @ world.measured_end(world.choices, place) > highest)


def test_the_oracle_is_the_law_run_step_by_step(world: World) -> None:
    rows = [0, 100, 314]
    runs = tuple(world.choices.run(row, f"choice {row}") for row in rows)
    starts = world.study.losses.query("run == 'pure' and step == 0")
    plan = blank(runs, starts.assign(run=runs[0].name))
    curves = world.frame.curves(plan, lambda run, _: [run.schedule.steps], runs)
    stepwise = expected_loss(world.frame, world.truth, curves)[0].reshape(len(rows), 2).T
    # To the tolerance of the interpolation over momenta.
    np.testing.assert_allclose(world.losses[:, rows], stepwise, atol=1e-5)


# --- truths ---------------------------------------------------------------------------------------

NAMES = ("L0", "A", "alpha", "C1", "C2", "B", "E", "beta")


@pytest.mark.parametrize("shift", ["moderate", "strong"])
def test_without_spread_it_is_the_printed_law(shift: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPREAD", "FLOOR_SPREAD", "RATIO_SPREAD"):
        monkeypatch.setattr(truths, name, 0.0)
    frame, _ = design()
    coefficients = frame.law.coefficients(draw_truth(frame, shift, np.random.default_rng(1)), np)
    for name, printed in zip(NAMES, np.array(COEFFICIENTS[shift]).T, strict=True):
        np.testing.assert_allclose(coefficients[name][0], printed, err_msg=name)
    assert coefficients["lambda"] == pytest.approx([1.0 - 1.0 / MEMORY])
    assert frame.reference.learning_rate == PEAK


def test_other_forms_enter_replay_and_steps_as_they_are_written() -> None:
    """The printed factors of D_pt and D_cpt, and an exponential approach, from the truth's own numbers."""
    share = np.array([0.25, 0.6])
    for form in ("printed", "mixing"):
        frame, _ = design(form)
        law = frame.law.coefficients(draw_truth(frame, "strong", np.random.default_rng(3)), np)
        shift = next(term for term in frame.law.terms if term.name == "shift")
        own = {name: law[name][0] for name in ("a", "B", "E", "beta")}
        bend, forward = own["a"], np.array([0.1, 0.9])
        points = SimpleNamespace(target_share=share, shift_area=lambda *_, own=forward: own)
        progress = 1.0 - (1.0 + own["E"] * forward) ** -own["beta"]
        if form == "mixing":
            rate = own["E"] * own["beta"]
            np.testing.assert_allclose(progress, 1.0 - np.exp(-rate * forward), atol=1e-3)
        # B·(1 - exp(-a2 r_cpt)) on D_pt and B·(exp(a2 r_cpt) - 1) on D_cpt, B over its value at replay 0.
        factor = (np.exp(-bend * share) - 1.0) / (np.exp(-bend) - 1.0)
        np.testing.assert_allclose(shift.loss(points, own, np), own["B"] * factor * progress)


# --- rivals ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def study() -> Study:
    frame, _ = design()
    truth = draw_truth(frame, "moderate", np.random.default_rng(1))
    return simulated_study(frame, truth, package_noise, np.random.default_rng(2))


def test_the_plug_in_is_the_fitted_law_at_the_end_of_each_choice(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, choices = design()
    truths = iter(TRUTH.values())
    monkeypatch.setattr(baselines.PointFit, "from_many_starts", lambda *_: next(truths))
    runs = [choices.run(row, f"choice {row}") for row in (0, 123)]
    found = plug_in(study, blank(tuple(runs)), runs, 0)
    assert found.shape == (2, 2)
    inputs = inputs_of(blank((runs[1],)), runs[1], [LONG])
    for index, is_target in enumerate((False, True)):
        expected = printed_losses(TRUTH[is_target], inputs, is_target=is_target)
        assert found[index, 1] == pytest.approx(expected.item())


# General loss falls in this made-up trend, which the package finds odd.
@pytest.mark.filterwarnings("ignore::bayes_cpt.errors.StudyWarning")
def test_the_gaussian_process_follows_a_trend_beyond_the_measured_steps(study: Study) -> None:
    pytest.importorskip("sklearn")
    _, choices = design()
    runs = {run.name: run for run in study.continual_runs}
    losses = study.losses.copy()
    for place, row in losses.iterrows():
        if row["run"] in runs and row["step"] > 0:
            run = runs[row["run"]]
            falls = 0.1 * np.log(row["step"]) + 0.05 * np.log(run.schedule.peak / PEAK)
            losses.loc[place, "loss"] = 3.0 + 0.3 * float(run.replay or 0.0) - falls
    asked = [choices.run(row, f"choice {row}") for row in range(len(choices))]
    found = gaussian_process(replace(study, losses=losses), blank(tuple(asked)), asked, 0)
    replay, peak = choices.column("replay"), np.log(choices.column("relative_peak"))
    expected = 3.0 + 0.3 * replay - 0.1 * np.log(LONG) - 0.05 * peak
    np.testing.assert_allclose(found, np.stack([expected, expected]), atol=0.01)


# --- quality --------------------------------------------------------------------------------------

STUDIES = 200
# Of differences from what is stated: seven are tested.
FAR = 3.0
KEPT = Path(__file__).parents[2] / "research" / "testbench" / "decided"


def test_decisions_that_are_kept_are_as_good_as_is_said() -> None:
    """Less regret than any other method, by no objective more; what is stated errs to the safe side.

    Under mixing truths the law expects a further fall, so that its intervals lie too low.
    """
    names = ("choices", "statements", "constraints")
    tables = {name: pd.read_csv(KEPT / f"{name}.csv") for name in names}
    own = tables["choices"].pivot_table(
        index=["objective", "task"], columns="method", values="regret"
    )
    others = own.columns.difference([OURS, "oracle"])
    assert others.size == 4
    more = own[others].sub(own[OURS], axis=0)
    of_a_study = more.groupby("task").mean()
    for method in others:
        mean, error = mean_and_error(of_a_study[method])
        assert mean > 2.0 * error, method
        for objective, of_an_objective in more[method].groupby("objective"):
            mean, error = mean_and_error(of_an_objective)
            assert mean > -2.0 * error, (objective, method)
    for objective, stated in tables["statements"].groupby("objective"):
        mean, error = mean_and_error(stated["realised"] - stated["stated"])
        assert mean < 2.0 * error, objective
        known = stated[stated["form"] != "mixing"]
        inside = known["optimum"].between(known["lower"], known["upper"])
        assert proportion(inside)[2] > 0.9, objective
    constraints = tables["constraints"].query("method == @OURS").dropna(subset="violated")
    for (_, allowed), kept in constraints.groupby(["loss", "allowed"]):
        assert proportion(kept["violated"])[1] < allowed, allowed


@pytest.mark.slow
@pytest.mark.xfail(
    raises=AssertionError, reason="bands widen beyond the studied steps; these truths do not"
)
def test_decisions_have_the_lowest_regret_and_say_how_much() -> None:
    """Less regret than any other method; stated regret and probabilities as they come.

    Of truths of our own law's form with the lab's misfit: docs/results/decisions.md says how it stands with
    others.
    """
    pytest.importorskip("sklearn")
    tables = decide_all(STUDIES, seed=0, jobs=2)
    logging.getLogger(__name__).info(markdown(tables))
    choices = tables["choices"].groupby(["objective", "method"])["regret"].mean().unstack()
    others = choices.drop(columns=[OURS, "oracle"])
    assert others.shape == (len(OBJECTIVES), 4)
    for objective, own in tables["choices"].groupby("objective"):
        assert choices.loc[objective, OURS] < others.loc[objective].min(), objective
        wide = own.pivot(index="task", columns="method", values="regret")
        for method in others.columns:
            mean, error = mean_and_error(wide[method] - wide[OURS])
            assert mean > 2.0 * error, (objective, method)
    for objective, own in tables["statements"].groupby("objective"):
        mean, error = mean_and_error(own["realised"] - own["stated"])
        assert abs(mean) < FAR * error, objective
        assert proportion(own["optimum"].between(own["lower"], own["upper"]))[2] > 0.9, objective
    constraints = tables["constraints"].query("method == @OURS").dropna(subset="violated")
    for (_, allowed), own in constraints.groupby(["loss", "allowed"]):
        _, low, high = proportion(own["violated"])
        assert low < allowed, allowed
        assert low < own["stated"].mean() < high, allowed

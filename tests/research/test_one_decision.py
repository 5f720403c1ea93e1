"""Rows of a study, from forecasts made by hand: nothing is fitted."""

import numpy as np
import pandas as pd
import pytest
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
from testbench.short_studies import DOMAINS, blank

from bayes_cpt.arrays import Floats
from bayes_cpt.decisions.decision import TOLERANCE
from bayes_cpt.model.simulate import expected_loss

WEIGHTS = {"domain-focus": (0.1, 0.9), "balanced": (0.5, 0.5), "general-preserving": (0.8, 0.2)}


@pytest.fixture(scope="module")
def world() -> World:
    return World.of(Task("0", "moderate", 11, shared=False))


def forecast(losses: Floats, sd: float = 0.01) -> Forecast:
    """Return a forecast of draws, shape (domains, draws, candidates)."""
    noise = {name: np.full(losses.shape[1:], sd) for name in SHARES}
    return Forecast(losses, losses, noise)


def scattered(world: World, draws: int = 40, sd: float = 0.01) -> Forecast:
    """Return draws whose slopes in replay lie about the truth's."""
    slopes = sd * np.random.default_rng(1).standard_normal((2, draws, 1))
    return forecast(world.losses[:, None] + slopes * world.choices.column("replay"), sd)


def test_a_method_that_knows_the_truth_has_no_regret(world: World) -> None:
    flipped = -world.losses
    rows = pd.DataFrame(choice_rows(world, {"knows": world.losses, "errs": flipped}))
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
        columns = (world.choices.column(name) for name in ("replay", "relative_peak"))
        replay, peak = columns
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


def test_the_oracle_is_the_law_run_step_by_step() -> None:
    world = World.of(Task("0", "moderate", 3, shared=False))
    rows = [0, 100, 314]
    runs = tuple(world.choices.run(row, f"choice {row}") for row in rows)
    starts = world.study.losses.query("run == 'pure' and step == 0")
    plan = blank(runs, starts.assign(run=runs[0].name))
    curves = world.frame.curves(plan, lambda run, _: [run.schedule.steps], runs)
    stepwise = expected_loss(world.frame, world.truth, curves)[0].reshape(len(rows), 2).T
    # To the tolerance of the interpolation over momenta.
    np.testing.assert_allclose(world.losses[:, rows], stepwise, atol=1e-5)

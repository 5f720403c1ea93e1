"""What to expect, and to train first, before any run."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayes_cpt import Base, Run, Study, read_plan
from bayes_cpt.cli import run as run_command
from bayes_cpt.decisions.advice import PEAKS, REPLAYS, Advice, advise, spec_of
from bayes_cpt.identify.prior_predictive import expected_ends, frame_of
from bayes_cpt.model.joint_priors import draw_priors
from bayes_cpt.study.schedules import cosine

pytestmark = pytest.mark.usefixtures("few_candidates")


@cache
def advised(base: str = "annealed", target: str = "far") -> Advice:
    return advise(7e9, 20e9, base=base, target=target)


def of(found: Advice, domain: str) -> Any:
    rows = found.ends[found.ends["domain"] == domain]
    return rows.pivot_table(index="replay", columns="peak", values="median")


def test_replay_keeps_general_loss_and_a_higher_peak_forgets_more() -> None:
    general, target = (of(advised(), name).to_numpy() for name in ("general", "target"))
    assert general.shape == target.shape == (len(REPLAYS), len(PEAKS))
    assert (np.diff(general, axis=0) < 0).all()
    assert (np.diff(general, axis=1) > 0).all()
    assert (np.diff(target[1:], axis=0) > 0).all()
    assert (target < 0).all()


def test_a_near_target_changes_less_than_a_far_one() -> None:
    near, far = advised(target="near"), advised()
    assert (of(near, "target") > of(far, "target")).all(axis=None)
    assert (of(near, "general") < of(far, "general")).all(axis=None)


def test_a_base_that_has_not_annealed_falls_further() -> None:
    stable, far = advised("stable"), advised()
    assert (of(stable, "target") < of(far, "target")).all(axis=None)
    assert (of(stable, "general") < of(far, "general")).all(axis=None)


def test_changes_grow_with_the_loss_of_the_base() -> None:
    low, high = (advise(7e9, 20e9, losses={"general": loss, "target": loss}) for loss in (1.0, 3.0))
    assert (of(high, "target") / of(low, "target") > 2.0).all(axis=None)


def test_each_row_is_what_the_prior_expects_of_its_run() -> None:
    """Of runs planned by hand, which `bayes-cpt prior` shows."""
    found = advise(7e9, 20e9, base="stable", target="near", batch=4e6, peak=3e-4)
    runs = tuple(
        Run(f"{p:g}-{r:g}", "cpt", cosine(5000, p * 3e-4, warmup_steps=100), base="b", replay=r)
        for p in PEAKS
        for r in REPLAYS
    )
    none, base = found.plan.losses, Base("b", known=False)
    plan = Study("plan", "general", "target", (base,), runs, none, is_plan=True)
    frame = frame_of(spec_of("stable", "near", {}), plan)
    # The base was left at the peak of pre-training, whatever the peaks of the runs.
    left_at = frame.law.coefficients(draw_priors(frame, 400, seed=0), np)["eta_0"]
    assert np.median(left_at) == pytest.approx(3e-4, rel=0.02)
    ends = expected_ends(frame, plan)
    named = found.ends["peak"].map("{:g}".format) + "-" + found.ends["replay"].map("{:g}".format)
    mine = found.ends.assign(run=named).merge(ends, on=["run", "domain"])
    assert len(mine) == len(ends) == 2 * len(runs)
    np.testing.assert_allclose(mine["median_x"], mine["median_y"], rtol=1e-9)
    np.testing.assert_allclose(mine["upper_x"], mine["upper_y"], rtol=1e-9)


def test_short_runs_are_fewer_and_each_narrows_more() -> None:
    far = advised()
    assert list(far.told["steps"]) == [500] * 3
    assert (np.diff(far.told["narrowed"]) > 0).all()
    assert 0.3 < far.told["narrowed"].iloc[0] < 1.0
    assert [run.name for run in far.plan.runs] == list(far.told["run"])


def test_the_folder_holds_a_plan_and_arguments_for_each_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "advice"
    options = ["--size", "7B", "--tokens", "20B", "--base", "annealed", "-o", str(out)]
    assert run_command(["advise", *options, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 5000
    plan = read_plan(out / "plan.toml")
    assert [run.name for run in plan.runs] == list(advised().told["run"])
    for run in plan.runs:
        arguments = json.loads((out / f"{run.name}.json").read_text(encoding="utf-8"))
        assert arguments["max_steps"] == 500
        assert arguments["learning_rate"] == pytest.approx(run.schedule.peak)

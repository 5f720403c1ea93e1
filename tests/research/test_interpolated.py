"""Choosing between interpolated runs: nothing is fitted here."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from synthetic import lab, lab_posterior
from testbench import interpolated
from testbench.interpolated import alike_in_all_but_replay, expected_ends, main, tasks
from testbench.one_decision import OURS, RULE

from bayes_cpt import bundled_study
from bayes_cpt.arrays import Floats
from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study

QUALITY = {"rhat": 1.0, "ess": 500.0, "divergences": 0, "trustworthy": True}
COSINES = ("r00_cos", "r25_cos", "r50_cos")
KINDS = ("expected", "new_run")
WEIGHTS = {"domain-focus": (0.1, 0.9), "balanced": (0.5, 0.5), "general-preserving": (0.8, 0.2)}


def test_runs_that_differ_in_replay_alone_are_found() -> None:
    study = lab()
    assert alike_in_all_but_replay(study) == COSINES
    first, *others = tasks(bundled_study(), 0)
    # A third of every CPT run, and all of PT.
    seen = first.seen(study)
    assert seen.curve("r00_cos", "general")[0].max() <= 1000
    assert seen.curve("pt_trunk", "general")[0].size == study.curve("pt_trunk", "general")[0].size
    for task in others:
        assert not set(COSINES) & {run.name for run in task.seen(study).runs}
    assert len(others) == 8
    assert len({task.label for task in (first, *others)}) == 9


def test_a_study_without_three_such_runs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    study = lab()
    few = study.subset(run.name for run in study.runs if run.name != "r25_cos")
    monkeypatch.setattr(interpolated, "read_study", lambda path: few)
    with pytest.raises(ValueError, match="only 2 CPT runs differ in replay alone"):
        tasks(Path("few"), 0)


def test_expected_ends_are_the_law_with_the_misfit_that_like_runs_share() -> None:
    posterior, study = lab_posterior(), lab()
    runs = tuple(study.run(name) for name in COSINES)
    draws = expected_ends(posterior, study, runs, 1)
    law, new = (posterior.predict(study.subset(COSINES), kind=kind)["loss"] for kind in KINDS)
    for place, run in enumerate(runs):
        for domain, name in enumerate((study.general, str(study.target))):
            chosen = {"run": run.name, "domain": name}
            expected, measured = (
                own.sel(chosen).dropna("step")[..., -1].to_numpy().ravel() for own in (law, new)
            )
            shared = draws[domain, :, place] - expected
            assert shared.mean() == pytest.approx(0.0, abs=0.5 * shared.std())
            # Beside it a new run has a misfit of its own, and fluctuates.
            assert 0.4 * (measured - expected).std() < shared.std() < (measured - expected).std()


def test_the_truth_is_a_monotone_cubic_between_measured_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    study, calls = lab(), []

    def forecast(seen: Study, plan: Study, runs: tuple[Run, ...], seed: int) -> Any:
        calls.append(seed)
        assert all(plan.curve(run.name, study.general)[0].size <= 1 for run in runs)
        assert np.diff([float(run.replay or 0.0) for run in runs]) == pytest.approx(0.05)
        # Three draws in four say that the last is best, one that it is the first by far.
        draws = np.zeros((2, 4, len(runs)))
        draws[:, :3, -1], draws[:, 3, 0] = -0.01, -0.02
        return draws, QUALITY

    monkeypatch.setattr(interpolated, "_forecast", forecast)
    monkeypatch.setattr(interpolated, "PREDICTORS", {})
    for _ in range(2):
        main([str(bundled_study()), "-o", str(tmp_path / "out")])
    assert len(calls) == 9
    table = pd.read_csv(tmp_path / "out" / "choices.csv")
    ends: Floats = np.array(
        [[study.curve(name, d)[1][-1] for name in COSINES] for d in (study.general, "kernel")]
    )
    for objective, weights in WEIGHTS.items():
        own = table[(table["objective"] == objective) & (table["task"] == "cpt-lab: first part")]
        ours, rule = (own[own["method"] == name].iloc[0] for name in (OURS, RULE))
        value = np.dot(weights, ends)
        assert ours["replay"] == 0.5
        assert rule["replay"] == 0.25
        # Between the knots a monotone curve is never below both of its ends.
        lowest = value[2] - ours["regret"]
        assert lowest == pytest.approx(value[1] - rule["regret"])
        assert lowest <= value.min() + 1e-12
        # One draw in four, by .02 on both losses.
        assert ours["stated"] == pytest.approx(0.25 * 0.02)
        assert ours["stated_near"] == 0.75
    assert "| cpt-lab | other runs | balanced | 8 |" in capsys.readouterr().out

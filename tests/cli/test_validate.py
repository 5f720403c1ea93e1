import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_line import Answer, Call
from conjugate import NormalMean
from malformed import FILES, write_files

from bayes_cpt.validate import held_out
from bayes_cpt.validate.calibration import ModelReplicates, Row
from bayes_cpt.validate.folds import Question

SBC = ("validate", "sbc", "-n", 40, "--jobs", 1)
FORECAST = ("validate", "forecast", "data/cpt-lab", "--jobs", 1)
SHORT = ("--runs", "r25_cos,r50_cos", "--tails", "0.5")


def test_help_without_a_sub_command(call: Call) -> None:
    answer = call("validate")
    assert answer == call("validate", "--help")
    assert answer.code == 0
    assert "forecast" in answer.out
    assert "sbc" in answer.out


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> list[ModelReplicates]:
    """Calibrate a toy in place of the model; what was asked for is returned."""
    asked: list[ModelReplicates] = []
    wrong = {"seed": 0}

    def replicate(own: ModelReplicates, seed: int) -> Row:
        asked.append(own)
        wrong["seed"] = seed
        return NormalMean(widen=0.5 if own.spec.name == "pretrain" else 1.0)(seed)

    monkeypatch.setattr(ModelReplicates, "__call__", replicate)
    return asked


def test_a_calibrated_model_passes(call: Call, toy: list[ModelReplicates], tmp_path: Path) -> None:
    folder = tmp_path / "sbc"
    answer = call(*SBC, "-o", folder)
    assert answer.code == 0
    use, sure, change = answer.out.splitlines()[:3]
    assert use.startswith("So far nothing speaks against the intervals of cpt-replay: ")
    # The standard error of a share of 0.9 among 40.
    assert "40 simulations, by which the coverage of a 90 % interval is known to ± 5 %" in sure
    assert "Of 2 quantities 2 hold, 0 are at the edge (0.1 expected), 0 fail." in sure
    assert change == (
        "What would change it: more simulations (-n), or runs unlike those of cpt-lab (--design)."
    )
    assert "40 simulated studies of 14 runs" in answer.out
    assert "40 refits meet their diagnostics, 0 do not" in answer.out
    assert {path.name for path in folder.iterdir()} == {
        *("ranks.csv", "verdict.csv", "ranks.png", "settings.json")
    }
    assert len(pd.read_csv(folder / "ranks.csv")) == 40
    assert pd.read_csv(folder / "verdict.csv")["quantity"].tolist() == ["mean", "next"]
    assert toy[0].held_out == ("held_out",)
    assert len({id(own) for own in toy}) == 1
    many = call("validate", "sbc", "-n", 120, "--jobs", 1)
    assert many.out.startswith("Trust the intervals of cpt-replay: ")


def test_a_model_that_is_not_calibrated_fails(
    call: Call, toy: list[ModelReplicates], tmp_path: Path
) -> None:
    answer = call("validate", "sbc", "--model", "pretrain", "-n", 200, "--jobs", 1)
    assert answer.code == 1
    assert "Not calibrated: ranks are not uniform: mean" in answer.err
    assert answer.out.startswith("Do not trust the intervals of pretrain: ")
    assert "Quantities outside their own 95 % band" in answer.out
    quiet = call("validate", "sbc", "--model", "pretrain", "-n", 200, "--jobs", 1, "-q")
    assert quiet.code == 1
    assert quiet.out == ""
    assert "Not calibrated" in quiet.err


def test_a_rerun_goes_on_and_other_settings_are_refused(
    call: Call, toy: list[ModelReplicates], tmp_path: Path
) -> None:
    folder = tmp_path / "sbc"
    assert call(*SBC, "-o", folder, "-q").code == 0
    more = call("validate", "sbc", "-n", 50, "--jobs", 1, "-o", folder, "--json")
    assert more.json()["simulations"] == 50
    assert len(toy) == 50
    for other in (("--seed", 2), ("--model", "cpt"), ("--points", 5)):
        answer = call("validate", "sbc", "-n", 50, "--jobs", 1, "-o", folder, *other)
        assert answer.code == 2
        assert "the folder holds results of another run" in answer.err
    assert len(toy) == 50


def test_json_of_a_calibration(call: Call, toy: list[ModelReplicates]) -> None:
    found = call(*SBC, "--json").json()
    assert found["passed"] is True
    assert len(found["verdict"]) == 3
    assert (found["model"], found["design"], found["failed"]) == ("cpt-replay", "cpt-lab", 0)
    assert [row["verdict"] for row in found["quantities"]] == ["holds", "holds"]


def test_a_design_and_a_plan_of_one_s_own(
    call: Call, toy: list[ModelReplicates], tmp_path: Path
) -> None:
    plan = "data/cpt-lab/plan-example.toml"
    practice = "tests/data/cpt-lab-practice"
    assert call(*SBC, "-q", "--plan", plan).code == 0
    assert toy[-1].held_out == ("long_r25", "rewarmed_r50")
    assert call(*SBC, "-q", "--design", practice, "--points", 4).code == 0
    assert {run.name for run in toy[-1].design.continual_runs} >= {"r25_cos_12k", "held_out"}
    steps, _ = toy[-1].design.curve("r25_cos_12k", "general")
    assert steps.size == 4
    settings = tmp_path / "runs.toml"
    text = Path(practice, "study.toml").read_text()
    settings.write_text(text)
    assert call(*SBC, "-q", "--design", settings).code == 0
    assert toy[-1].design.curve("r25_cos_12k", "general")[0].size == 12


def stand_in(
    question: Question, seed: int, *, level: float = 2.8, problems: tuple[str, ...] = (), **_: Any
) -> held_out.Answer:
    generator = np.random.default_rng(seed)
    return held_out.Answer(generator.normal(level, 0.2, (60, len(question.points))), problems)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer without fitting."""
    monkeypatch.setattr(held_out, "package_method", stand_in)
    monkeypatch.setattr(held_out, "paper_answer", partial(stand_in, level=3.6))


@pytest.mark.usefixtures("quick")
def test_scores_are_shown_and_written(call: Call, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    answer = call(*FORECAST, *SHORT, "-o", folder)
    assert answer.code == 0
    for words in ("whole runs", "after 50 %", "Run by run", "r25_cos"):
        assert words in answer.out
    use, sure, change = answer.out.splitlines()[:3]
    assert "the 90 % bands held" in use
    assert "(whole runs); after 50 %: " in use
    assert (
        sure
        == "How sure: 2 runs, each one observation; none of 4 refits fall short of the diagnostics."
    )
    assert change.startswith("What would change it: ")
    assert "…" not in answer.out
    assert "By the place in the run" in answer.out
    assert "8 refits (paper" in answer.out
    assert {path.name for path in folder.iterdir()} == {
        *("points.csv", "refits.csv", "scores.csv", "horizons.csv", "settings.json"),
        *("coverage-runs.png", "coverage-tails.png"),
    }
    points = pd.read_csv(folder / "points.csv")
    assert set(points["method"]) == {"bayes_cpt", "paper"}
    assert {"pit", "crps", "covered_90", "share", "ratio", "seen"} <= set(points)
    scores = pd.read_csv(folder / "scores.csv")
    whole = scores[(scores["seen"] == 0) & (scores["run"] == "r25_cos")]
    assert whole["method"].tolist() == ["paper", "bayes_cpt"] * 2


@pytest.mark.usefixtures("quick")
def test_json_of_a_forecast_and_no_baseline(call: Call) -> None:
    found = call(*FORECAST, *SHORT, "--no-baseline", "--no-whole", "--json").json()
    assert found["trustworthy"] is True
    assert {row["method"] for row in found["scores"]} == {"bayes_cpt"}
    assert {row["seen"] for row in found["scores"]} == {0.5}
    assert [row["fold"] for row in found["refits"]] == ["r25_cos after 50 %", "r50_cos after 50 %"]
    assert {row["axis"] for row in found["horizons"]} == {"ratio"}
    assert found["files"] == {}


@pytest.mark.usefixtures("quick")
def test_another_study_can_be_predicted(call: Call) -> None:
    practice = "tests/data/cpt-lab-practice"
    found = call(*FORECAST, "--held-out", practice, "--json").json()
    assert [row["fold"] for row in found["refits"]] == ["cpt-lab-practice"] * 2
    runs = {row["run"] for row in found["scores"]}
    assert {"r25_cos_12k", "all points"} <= runs


def test_a_refit_that_falls_short_is_said(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_out, "package_method", partial(stand_in, problems=("R-hat is 1.2",)))
    answer = call(*FORECAST, *SHORT, "--no-baseline", "-q")
    assert answer.code == 1
    assert answer.out == ""
    assert "Not trustworthy: bayes_cpt, r25_cos: R-hat is 1.2" in answer.err


@pytest.mark.usefixtures("quick")
def test_a_rerun_of_a_forecast_goes_on(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    first = call(*FORECAST, *SHORT, "-o", folder, "--json").json()

    def fails(*_: object, **__: object) -> held_out.Answer:
        raise AssertionError("this was done already")

    monkeypatch.setattr(held_out, "package_method", fails)
    monkeypatch.setattr(held_out, "paper_answer", fails)
    again = call(*FORECAST, *SHORT, "-o", folder, "--json").json()
    assert again == first
    assert json.loads((folder / "settings.json").read_text())["model"] == "cpt-replay"
    assert call(*FORECAST, *SHORT, "-o", folder, "--seed", 9).code == 2


def test_what_cannot_be_fitted_is_said_before_any_fit(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(held_out, "package_method", lambda *_, **__: pytest.fail("a fit ran"))
    monkeypatch.setattr(held_out, "paper_answer", lambda *_, **__: pytest.fail("a fit ran"))
    logged = 'base = "open"\nreplay = 0.5'
    text = FILES["study.toml"].replace('base = "half"\nreplay = 0.5', logged)
    files: dict[str, str | bytes] = {
        **FILES,
        "study.toml": text + "\n[bases.open]\nknown = false\n",
    }
    folder = write_files(tmp_path / "study", files)
    answer: Answer = call("validate", "forecast", folder, "--jobs", 1, "--tails", "none")
    assert answer.code == 2
    assert "base open: its pre-training is not known, and the study also has" in answer.err

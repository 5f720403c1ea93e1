import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_line import Answer, Call, check_refusal
from malformed import FILES, write_files

from bayes_cpt.validate import held_out
from bayes_cpt.validate.folds import Question

FORECAST = ("validate", "forecast", "data/cpt-lab", "--jobs", 1)
SHORT = ("--runs", "r25_cos,r50_cos", "--tails", "0.5")


def test_help_without_a_sub_command(call: Call) -> None:
    answer = call("validate")
    assert answer == call("validate", "--help")
    assert answer.code == 0
    assert "forecast" in answer.out


def stand_in(
    question: Question, seed: int, *, problems: tuple[str, ...] = (), **_: Any
) -> held_out.Answer:
    generator = np.random.default_rng(seed)
    return held_out.Answer(generator.normal(2.8, 0.2, (60, len(question.points))), problems)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer without fitting."""
    monkeypatch.setattr(held_out, "package_method", stand_in)


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
    assert "4 refits, 0 s; 0 fail their diagnostics." in answer.out
    assert {path.name for path in folder.iterdir()} == {
        *("points.csv", "refits.csv", "scores.csv", "horizons.csv", "settings.json"),
        *("coverage-runs.png", "coverage-tails.png"),
    }
    points = pd.read_csv(folder / "points.csv")
    assert {"pit", "crps", "covered_90", "share", "ratio", "seen"} <= set(points)
    scores = pd.read_csv(folder / "scores.csv")
    whole = scores[(scores["seen"] == 0) & (scores["run"] == "r25_cos")]
    assert whole["domain"].tolist() == ["general", "kernel"]


@pytest.mark.usefixtures("quick")
def test_json_of_a_forecast(call: Call) -> None:
    found = call(*FORECAST, *SHORT, "--no-whole", "--json").json()
    assert found["trustworthy"] is True
    assert {row["seen"] for row in found["scores"]} == {0.5}
    assert [row["fold"] for row in found["refits"]] == ["r25_cos after 50 %", "r50_cos after 50 %"]
    assert {row["axis"] for row in found["horizons"]} == {"ratio"}
    assert found["files"] == {}


@pytest.mark.usefixtures("quick")
def test_another_study_can_be_predicted(call: Call) -> None:
    practice = "tests/data/cpt-lab-practice"
    found = call(*FORECAST, "--held-out", practice, "--json").json()
    assert [row["fold"] for row in found["refits"]] == ["cpt-lab-practice"]
    runs = {row["run"] for row in found["scores"]}
    assert {"r25_cos_12k", "all points"} <= runs


def test_a_refit_that_falls_short_is_said(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_out, "package_method", partial(stand_in, problems=("R-hat is 1.2",)))
    answer = call(*FORECAST, *SHORT, "-q")
    assert answer.code == 1
    assert answer.out == ""
    assert "Not trustworthy: r25_cos: R-hat is 1.2" in answer.err


@pytest.mark.usefixtures("quick", "empty_figures")
def test_a_rerun_of_a_forecast_goes_on(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    first = call(*FORECAST, *SHORT, "-o", folder, "--json").json()

    def fails(*_: object, **__: object) -> held_out.Answer:
        raise AssertionError("this was done already")

    monkeypatch.setattr(held_out, "package_method", fails)
    again = call(*FORECAST, *SHORT, "-o", folder, "--json").json()
    assert again == first
    assert json.loads((folder / "settings.json").read_text())["model"] == "cpt-replay"
    other = call(*FORECAST, *SHORT, "-o", folder, "--seed", 9)
    check_refusal(other, ("with seed 0 and not 9. Choose another folder",))


def test_what_cannot_be_fitted_is_said_before_any_fit(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(held_out, "package_method", lambda *_, **__: pytest.fail("a fit ran"))
    logged = 'base = "open"\nreplay = 0.5'
    text = FILES["study.toml"].replace('base = "half"\nreplay = 0.5', logged)
    text += "\n[bases.open]\nknown = false\n"
    folder = write_files(tmp_path / "study", {"study.toml": text})
    answer: Answer = call("validate", "forecast", folder, "--jobs", 1, "--tails", "none")
    assert answer.code == 2
    assert "base open: its pre-training is not known, and the study also has" in answer.err

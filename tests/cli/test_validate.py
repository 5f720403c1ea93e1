"""Forecasts of held-out runs are scored, by one law and by several."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import Call, check_refusal
from malformed import FILES, write_files
from stand_in import Fits, guess, held_out_points, stand_in

from bayes_cpt.inference.posterior import load
from bayes_cpt.report.forecasts import held_out_verdict
from bayes_cpt.report.page import pooled
from bayes_cpt.validate import held_out

FORECAST = ("validate", "data/cpt-lab", "--jobs", 1)
SHORT = ("--runs", "r25_cos,r50_cos", "--tails", "0.5")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer without fitting."""
    monkeypatch.setattr(held_out, "package_method", guess(2.8, 0.2))


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
    how = "2 runs, each one observation; none of 4 refits fall short of the diagnostics."
    assert sure == f"How sure: {how}"
    assert change.startswith("What would change it: ")
    assert "…" not in answer.out
    assert "By the place in the run" in answer.out
    assert re.search(r"4 refits, \d+ s; 0 fail their diagnostics\.", answer.out)
    assert {path.name for path in folder.iterdir()} == {
        *("points.csv", "refits.csv", "scores.csv", "horizons.csv", "settings.json", "tasks"),
        *("coverage-runs.png", "coverage-tails.png"),
    }
    points = pd.read_csv(folder / "points.csv")
    assert {"pit", "crps", "covered_90", "share", "ratio", "seen"} <= set(points)
    scores = pd.read_csv(folder / "scores.csv")
    whole = scores[(scores["seen"] == 0) & (scores["run"] == "r25_cos")]
    assert whole["domain"].tolist() == ["general", "kernel"]


@pytest.mark.usefixtures("quick")
def test_another_study_can_be_predicted(call: Call, tmp_path: Path) -> None:
    line = (*FORECAST, "-o", tmp_path / "out", "--held-out")
    found = call(*line, "tests/data/cpt-lab-practice", "--json").json()
    assert [row["fold"] for row in found["refits"]] == ["cpt-lab-practice"]
    assert {"r25_cos_12k", "all points"} <= {row["run"] for row in found["scores"]}
    for other in ((*line, "tests/data/cpt-lab-strong"), (*line[:-1], *SHORT)):
        check_refusal(call(*other), ("results of another run, with held-out ",))


@pytest.mark.parametrize(
    ("shares", "told"),
    [
        ([1.0] * 4, "4 runs cannot tell whether to trust the bands: the 90 % bands held 100 ± 8 %"),
        ([0.0, 0.9, 0.95], "3 runs cannot tell whether to trust the bands: the 90 % bands held 62 ± "),
        ([0.9], "1 run cannot tell whether to trust the bands: "),
        ([0.7, 0.65, 0.75] * 4, "The bands are too narrow: "),
        ([0.9, 0.95, 1.0] * 3, "Trust the bands: "),
        # That all of ten runs lie in the bands has a probability of .35 where nine in ten do.
        ([1.0] * 10, "Trust the bands: "),
        ([1.0] * 40, "The bands are wider than they need be: "),
    ],
)  # fmt: skip
def test_bands_are_judged_run_by_run(shares: list[float], told: str) -> None:
    points = held_out_points([f"run {place}" for place in range(len(shares))], ["general"])
    inside = np.concatenate([np.arange(40) < round(40 * share) for share in shares])
    points = points.assign(covered_90=inside, seen=0.0)
    scores = pooled(held_out.score_table(points))
    assert held_out_verdict(scores, pd.DataFrame({"trustworthy": [True]}))[0].startswith(told)


def test_a_refit_that_falls_short_is_said(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_out, "package_method", guess(2.8, 0.2, problems=("R-hat is 1.2",)))
    answer = call(*FORECAST, *SHORT, "-q")
    assert (answer.code, answer.out) == (1, "")
    assert "Not trustworthy: r25_cos: R-hat is 1.2" in answer.err


@pytest.mark.usefixtures("quick", "empty_figures")
def test_a_rerun_of_a_forecast_goes_on(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    line = (*FORECAST, *SHORT, "--no-whole", "-o", folder)
    first = call(*line, "--json").json()
    assert first["trustworthy"] is True
    assert {row["seen"] for row in first["scores"]} == {0.5}
    assert [row["fold"] for row in first["refits"]] == ["r25_cos after 50 %", "r50_cos after 50 %"]
    assert {row["axis"] for row in first["horizons"]} == {"ratio"}

    def fails(*_: object, **__: object) -> held_out.Answer:
        raise AssertionError("this was done already")

    monkeypatch.setattr(held_out, "package_method", fails)
    assert call(*line, "--json").json() == first
    assert json.loads((folder / "settings.json").read_text())["model"] == "cpt-replay"
    check_refusal(call(*line, "--seed", 9), ("with seed 0 and not 9. Choose another folder",))


def test_what_cannot_be_fitted_is_said_before_any_fit(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(held_out, "package_method", lambda *_, **__: pytest.fail("a fit ran"))
    text = FILES["study.toml"].replace('base = "half"\nreplay = 0.5', 'base = "open"\nreplay = 0.5')
    text += "\n[bases.open]\nknown = false\n"
    folder = write_files(tmp_path / "study", {"study.toml": text})
    answer = call("validate", folder, "--jobs", 1, "--tails", "none")
    check_refusal(answer, ("base open: its pre-training is not known, and the study also has",))


MODELS = "cpt-replay,cpt-replay-printed"
COMPARE = ("compare", "data/cpt-lab", "--models", MODELS, "--jobs", 1)
THREE = ("--runs", "r00_cos,r25_cos,r50_cos", "--tails", "none")


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> Fits:
    return stand_in(monkeypatch, draws=10, spread=0.05)


@pytest.mark.usefixtures("fits")
def test_a_comparison_is_shown_and_written(call: Call, tmp_path: Path) -> None:
    folder = tmp_path / "comparison"
    answer = call(*COMPARE, *THREE, "-o", folder)
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0].startswith("Use ")
    assert lines[1].startswith("How sure: ")
    assert "nats per run" in lines[1]
    assert "Forecasts of what was left out" in answer.out
    assert "…" not in answer.out
    assert "No answer before the refits" in answer.err
    assert {path.name for path in folder.iterdir()} == {
        *("stack.nc", "cpt-replay.nc", "cpt-replay-printed.nc", "settings.json", "words.txt"),
        *("scores.csv", "runs.csv", "points.csv", "log_scores.csv", "quantiles.csv", "refits.csv"),
        *("comparison.png", "tasks"),
    }
    stack = load(folder / "stack.nc")
    assert stack.stacked
    table = pd.read_csv(folder / "scores.csv").set_index("method")
    for law, weight in zip(stack.laws, stack.weights, strict=True):
        assert table.loc[law.frame.spec.name, "weight"] == pytest.approx(weight)
    bands = call("predict", folder / "stack.nc", "-o", tmp_path / "bands.csv", "--draws", 40)
    assert bands.code == 0
    assert "Forecast by a stack of" in bands.out
    again = call(*COMPARE, *THREE, "-o", folder, "--json").json()
    assert again["trustworthy"] is True
    assert again["best"] in MODELS
    assert sum(again["weights"].values()) == pytest.approx(1.0)
    assert [row["method"] for row in again["scores"]] == [*MODELS.split(","), "stack"]


def test_fits_that_fall_short_are_named(call: Call, fits: Fits) -> None:
    fits.problems.append("R-hat is 1.2")
    answer = call(*COMPARE, *THREE, "-q")
    assert answer.code == 1
    # Of ten problems, a fit of each law and three refits of it with both, the first stand for all.
    first = "Not trustworthy: cpt-replay: R-hat is 1.2; cpt-replay-printed: R-hat is 1.2"
    for said in (first, "cpt-replay, without r00_cos: R-hat is 1.2"):
        assert said in answer.err
    assert answer.err.rstrip().endswith("more")
    assert answer.err.count("R-hat") == 4

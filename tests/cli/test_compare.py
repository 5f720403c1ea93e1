from pathlib import Path

import pandas as pd
import pytest
from command_line import Call
from stand_in import Fits, stand_in

from bayes_cpt.inference.posterior import load

MODELS = "cpt-replay,cpt-replay-printed"
COMPARE = ("compare", "data/cpt-lab", "--models", MODELS, "--jobs", 1)
SHORT = ("--runs", "r00_cos,r25_cos,r50_cos", "--tails", "none")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Fits:
    return stand_in(monkeypatch, draws=10, spread=0.05)


@pytest.mark.usefixtures("quick")
def test_a_comparison_is_shown_and_written(call: Call, tmp_path: Path) -> None:
    folder = tmp_path / "comparison"
    answer = call(*COMPARE, *SHORT, "-o", folder)
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
        "comparison.png",
    }
    stack = load(folder / "stack.nc")
    assert stack.stacked
    table = pd.read_csv(folder / "scores.csv").set_index("method")
    for law, weight in zip(stack.laws, stack.weights, strict=True):
        assert table.loc[law.frame.spec.name, "weight"] == pytest.approx(weight)
    bands = call("predict", folder / "stack.nc", "-o", tmp_path / "bands.csv", "--draws", 40)
    assert bands.code == 0
    assert "Forecast by a stack of" in bands.out
    again = call(*COMPARE, *SHORT, "-o", folder, "--json").json()
    assert again["trustworthy"] is True
    assert again["best"] in MODELS
    assert sum(again["weights"].values()) == pytest.approx(1.0)
    assert [row["method"] for row in again["scores"]] == [*MODELS.split(","), "stack"]


def test_fits_that_fall_short_are_named(call: Call, quick: Fits) -> None:
    quick.problems.append("R-hat is 1.2")
    answer = call(*COMPARE, *SHORT, "-q")
    assert answer.code == 1
    # Of ten problems, a fit of each law and three refits of it with both, the first stand for all.
    assert (
        "Not trustworthy: cpt-replay: R-hat is 1.2; cpt-replay-printed: R-hat is 1.2" in answer.err
    )
    assert "cpt-replay, without r00_cos: R-hat is 1.2" in answer.err
    assert answer.err.rstrip().endswith("more")
    assert answer.err.count("R-hat") == 4

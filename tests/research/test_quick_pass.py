"""A short pass of the scripts of research/, so that they cannot rot: tiny sizes, real fits."""

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks import __main__ as benchmarks
from synthetic import lab
from testbench import baselines, choosers, decisions, held_out

from bayes_cpt.study.folder import write_study

# A number, or none, under each heading of the table.
NUMBERS = ("measured", "other", "ratio")


def table_of(path: Path) -> pd.DataFrame:
    """Return a table of benchmarks, every number above 0."""
    table = pd.read_csv(path)
    for column in NUMBERS:
        numbers = table[column].dropna()
        assert np.isfinite(numbers).all()
        assert (numbers > 0).all()
    return table


@pytest.mark.parametrize("name", ["gradient", "decide", "forecast"])
def test_benchmarks_in_process(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "table.csv"
    monkeypatch.setattr(sys, "argv", ["benchmarks", name, "--quick", "-o", str(output)])
    benchmarks.main()
    table = table_of(output)
    assert set(table["benchmark"]) == {name}
    # The first row is what the benchmark is about: beside something, or with a target.
    assert table.loc[0, ["other", "target"]].notna().any()


def test_every_benchmark_can_be_called() -> None:
    """Those that take minutes by their nature are at least whole: they import, and take `quick`."""
    for name in benchmarks.BENCHMARKS:
        assert import_module(f"benchmarks.{name}").measure.__kwdefaults__ == {"quick": False}


@pytest.fixture
def small_efforts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make baselines quick, and leave out what is not installed."""
    few = baselines.Effort(starts=4, refits=20, residuals=5)
    monkeypatch.setattr(baselines, "PAPER_EFFORT", few)
    monkeypatch.setattr(choosers, "PAPER_EFFORT", few)
    if find_spec("sklearn") is None:
        monkeypatch.delitem(choosers.PREDICTORS, "Gaussian process")


@pytest.mark.slow
@pytest.mark.usefixtures("small_efforts")
def test_held_out_runs(tmp_path: Path) -> None:
    """A study of three runs, one of them predicted from the others."""
    write_study(lab().subset(["pt_trunk", "r00_cos", "r25_cos", "r50_cos"]), tmp_path / "study")
    out = tmp_path / "out"
    held_out.main(
        [
            *(str(tmp_path / "study"), "--fit-runs", "pt_trunk,r00_cos,r50_cos"),
            *("--methods", "paper,bayes_cpt", "--out", str(out)),
        ]
    )
    points = pd.read_csv(out / "points.csv")
    assert set(points["run"]) == {"r25_cos"}
    # A fit of two runs is within a tenth of a nat of the run between them.
    assert points.groupby("method")["crps"].mean()["bayes_cpt"] < 0.1


@pytest.mark.slow
@pytest.mark.usefixtures("small_efforts")
def test_a_simulated_decision(tmp_path: Path) -> None:
    decisions.main(["-n", "1", "-o", str(tmp_path / "out")])
    choices = pd.read_csv(tmp_path / "out" / "choices.csv").set_index("method")["regret"]
    assert (choices >= 0).all()
    assert (choices.loc["oracle"] == 0).all()
    assert choices.loc["bayes_cpt"].max() < 0.2
    free = pd.read_csv(tmp_path / "out" / "free.csv").set_index("loss")
    assert free.loc[["general", "mixed"], "violated"].isin([True, False]).all()
    assert (free["realised"].dropna() < 0.2).all()
    assert "bayes_cpt" in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")

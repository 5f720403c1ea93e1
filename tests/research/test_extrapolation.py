"""Errors by steps over the longest fitted run, against means taken by hand."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from testbench import extrapolation

# Study, run, steps over the longest fitted run, error, sd, whether in the 90 % band.
POINTS = (
    ("a", "one", 0.8, 0.01, 0.02, 1.0),
    ("a", "one", 0.9, 0.03, 0.02, 1.0),
    ("a", "two", 0.9, 0.04, 0.02, 0.0),
    ("b", "one", 0.6, 0.02, 0.01, 0.0),
    ("b", "one", 3.0, -0.05, 0.05, 1.0),
)


@pytest.fixture
def points() -> pd.DataFrame:
    table = pd.DataFrame(POINTS, columns=["study", "run", "ratio", "error", "sd", "covered_90"])
    table["task"] = "bayes_cpt: " + table["study"] + ": fold"
    return table.assign(width_90=2 * 1.6448536269514722 * table["sd"], method="bayes_cpt")


def test_runs_count_alike_within_a_study_and_studies_alike(points: pd.DataFrame) -> None:
    near, far = extrapolation.errors_by_steps(points).itertuples(index=False)
    of_a = ((0.01**2 + 0.03**2) / 2 + 0.04**2) / 2
    assert near.error == pytest.approx(np.sqrt((of_a + 0.02**2) / 2))
    assert near.stated == pytest.approx(np.sqrt((0.02**2 + 0.01**2) / 2))
    assert near.ratio == pytest.approx(np.sqrt((of_a / 0.02**2 + 4.0) / 2))
    assert (near.studies, near.runs, near.covered) == (2, 3, 0.25)
    assert (far.studies, far.runs, far.error, far.covered) == (1, 1, pytest.approx(0.05), 1.0)


def test_a_table_for_some_studies(
    points: pd.DataFrame,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "points.csv"
    points.to_csv(path, index=False)
    monkeypatch.setattr(sys, "argv", ["extrapolation", str(path), "--without", "b"])
    extrapolation.main()
    assert len(capsys.readouterr().out.splitlines()) == 2
    monkeypatch.setattr(sys, "argv", ["extrapolation", str(path), "--without", "c"])
    with pytest.raises(SystemExit):
        extrapolation.main()
    assert "has no c" in capsys.readouterr().err

from pathlib import Path

import pandas as pd
import pytest
from command_line import Call

import bayes_cpt
from bayes_cpt.decisions.next_run import next_run

pytestmark = pytest.mark.usefixtures("few_candidates")

PROBES = """
[runs.short]
phase = "cpt"
base = "stable_12k"
replay = 0.5
schedule = [ { shape = "cosine", steps = 300, start = 0.002, end = 0 } ]

[runs.far]
phase = "cpt"
base = "annealed_0pct"
replay = 0.9
cost = 1500
schedule = [ { shape = "linear", steps = 300, start = 0, end = 0.001 } ]
"""
FEW = ("--draws", 60, "--candidates", 16)


@pytest.fixture
def probes(tmp_path: Path) -> Path:
    path = tmp_path / "probes.toml"
    path.write_text(PROBES, encoding="utf-8")
    return path


def test_tables_and_words_are_those_of_the_values(
    call: Call, fit_file: Path, probes: Path, tmp_path: Path
) -> None:
    space = tmp_path / "space.toml"
    space.write_text('bases = ["stable_12k"]\nreplay = [0.0, 0.25, 0.5]\n', encoding="utf-8")
    given = ("--runs", probes, "--objective", "domain-focus", "--space", space, "--seed", 2)
    found = call("next-run", fit_file, *given, *FEW, "--json").json()
    expected = next_run(
        bayes_cpt.load(fit_file), "domain-focus", space, probes,
        draws=60, candidates=16, seed=2,
    )  # fmt: skip
    pd.testing.assert_frame_equal(
        pd.DataFrame(found["runs"]), expected.table(), check_exact=False, check_dtype=False
    )
    assert len(found["information"]) == 2 * len(expected.quantities)
    assert found["sentences"] == expected.sentences()
    assert found["verdict"] == expected.verdict()
    assert found["value_of_perfect_information"]["nats"] == pytest.approx(expected.perfect[0])
    assert found["files"] == {}


def test_the_table_has_what_the_runs_cost_and_where_they_leave_what_was_fitted(
    call: Call, fit_file: Path, probes: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "next"
    assert call("next-run", fit_file, "--runs", probes, "-o", folder, *FEW).code == 0
    table = pd.read_csv(folder / "runs.csv").set_index("run")
    assert table["cost"].to_dict() == {"short": 300.0, "far": 1500.0}
    assert "replay 0.9" in table.loc["far", "outside"]


def test_runs_need_not_be_named(call: Call, fit_file: Path) -> None:
    answer = call("next-run", fit_file, "--run-steps", 40, "--steps", 4000, *FEW)
    assert answer.out.startswith("Before the long run of 4000 steps, ")
    assert "more are in --json" in answer.out
    # The run that check and summary advise is among those that are shown, and valued.
    assert "a CPT run 4 times as long" in answer.out
    [row] = [line for line in answer.out.splitlines() if line.startswith(" most_telling")]
    assert " 12000 " in row
    assert "_constant" in answer.out

from pathlib import Path

import pytest
from command_line import Call, check_refusal
from malformed import FILES, TABLE, Malformed, write_files
from synthetic import lab

from bayes_cpt.study.folder import write_study

# All of them are read in tests/study/test_validation.py.
SOME = TABLE[::6]


def test_what_is_in_the_bundled_study_is_printed(call: Call) -> None:
    answer = call("check", "data/cpt-lab", "--verbose")
    assert answer.code == 0
    assert answer.err == ""
    rows = [" ".join(line.split()) for line in answer.out.splitlines()]
    assert "r25_lin05 cpt stable_12k 0.25 3000 0.002 0 38 38 38" in rows
    assert any(row.startswith("annealed_30pct pt_anneal30 14000 ") for row in rows)
    assert "cpt 0 to 0.75 0.0006 to 0.002 3000" in rows
    assert "general (general) and kernel (target)" in answer.out
    assert "What these runs can tell of cpt-replay" in answer.out
    # What nobody tried.
    told = answer.out.split("length_effect")[1].split("Contraction:")[0]
    assert told.count("* ") == told.count("a CPT run 4 times as long") == 2
    table = call("check", "data/cpt-lab", "--json").json()["parameters"]
    pairs = [(row["quantity"], *row["moves_with"][0]) for row in table if row["moves_with"]]
    assert pairs
    for _, other, _, correlation in pairs:
        assert f" {other} {correlation:+.2f} " in answer.out


def test_a_first_reader_is_told_what_the_runs_can_tell_and_what_is_in_the_study(call: Call) -> None:
    out = call("check", "data/cpt-lab").out
    first, determined, left = out.splitlines()[:3]
    assert first.startswith("cpt-lab can be fitted: 10 CPT and 4 PT runs")
    assert determined.startswith("What a fit can be expected to determine: ")
    assert left.endswith("Most telling of that: a CPT run 4 times as long.")
    assert "r25_lin05" in out
    assert "What these runs can tell of" not in out


def test_json_is_the_only_thing_on_stdout(call: Call) -> None:
    found = call("check", "data/cpt-lab", "--json").json()
    assert [base["name"] for base in found["bases"]][:2] == ["stable_12k", "stable_6k"]
    assert found["model"] == "cpt-replay"
    shares = {row["quantity"]: row["contraction"] for row in found["parameters"]}
    assert 0 <= min(shares.values()) <= max(shares.values()) <= 1
    rows = {(row["quantity"], row["domain"]): row for row in found["effects"]}
    assert rows["length_effect", "kernel"]["tried"] is False
    assert 0 < rows["run_change", "kernel"]["sd"] < 0.1
    assert rows["rate_effect", "kernel"]["moves_with"] == []


def test_quiet_says_nothing(call: Call) -> None:
    assert call("check", "data/cpt-lab", "--quiet") == (0, "", "")


def test_a_study_without_cpt_is_asked_about_pretraining(call: Call, tmp_path: Path) -> None:
    settings = FILES["study.toml"].split("[runs.mixed]")[0]
    losses = [row for row in FILES["losses.csv"].splitlines() if row[:3] in ("run", "tru")]
    files = {"study.toml": settings, "losses.csv": "\n".join(losses), "lr.csv": None}
    folder = write_files(tmp_path / "study", files)
    assert call("check", folder, "--json").json()["model"] == "pretrain"


def test_cautions_are_shown_once_each(call: Call, tmp_path: Path) -> None:
    losses = FILES["losses.csv"].replace("mixed,25,code,3.9", "mixed,25,code,39")
    folder = write_files(tmp_path / "study", {"losses.csv": losses})
    answer = call("check", folder, "--json")
    assert answer.code == 0
    notes = [line for line in answer.err.splitlines() if line]
    assert notes == [f"Note: {text}" for text in answer.json()["warnings"]]
    assert notes


@pytest.mark.parametrize("case", SOME, ids=[case.id for case in SOME])
def test_malformed_studies(case: Malformed, call: Call, tmp_path: Path) -> None:
    path = case.write(tmp_path / "study")
    answer = call("check", path)
    check_refusal(answer, case.fragments)
    for paragraph in answer.err.strip().split("\n\n"):
        assert paragraph.startswith(str(path))
    told = call("check", path, "--json")
    assert told.err == answer.err
    assert len(told.json()["problems"]) == len(answer.err.strip().split("\n\n"))
    assert call("fit", path, "-o", tmp_path / "fit.nc") == answer
    assert not list(tmp_path.glob("*fit*"))


def test_contractions_with_the_advised_run_are_printed(call: Call, tmp_path: Path) -> None:
    write_study(lab().subset(["pt_trunk", "r25_cos", "r25_lin05"]), tmp_path / "one ratio")
    assert "(makes it 0." in call("check", tmp_path / "one ratio", "-v").out

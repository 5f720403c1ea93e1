from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import Call, check_refusal

import bayes_cpt
from bayes_cpt.bundled import bundled_study
from bayes_cpt.landmarks import survey

PLAN = bundled_study() / "plan-example.toml"
FEW = ("--draws", 8)
TABLES = ("turning_length", "critical_point", "loss_potential", "peak_learning_rate", "bases")
FIGURES = (*TABLES, "hidden_curves", "decomposition")


def test_tables_and_words_are_those_of_the_survey(call: Call, fit_file: Path) -> None:
    arguments = ("landmarks", fit_file, "--plan", PLAN, "--run", "rewarmed_r50", *FEW)
    found = call(*arguments, "--interval", 0.8, "--balance", 0.7, "--json").json()
    expected = survey(bayes_cpt.load(fit_file), PLAN, "rewarmed_r50", balance=0.7, draws=8)
    assert found["run"] == "rewarmed_r50"
    assert found["sentences"] == expected.sentences(0.8)
    assert found["files"] == {}
    for name, table in expected.tables(0.8).items():
        read = pd.DataFrame(found[name])
        assert list(read.columns) == list(table.columns)
        for column in ("median", "lower", "upper"):
            # JSON knows neither infinity nor NaN.
            wanted = table[column].where(np.isfinite(table[column]))
            np.testing.assert_allclose(read[column].astype(float), wanted)


def test_everything_is_written_into_a_new_folder(
    call: Call, fit_file: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "landmarks"
    answer = call("landmarks", fit_file, "--plan", PLAN, "-o", folder, *FEW)
    assert answer.code == 0
    assert {path.name for path in folder.iterdir()} == {
        *(f"{name}.csv" for name in TABLES),
        *(f"{name}.png" for name in FIGURES),
        "words.txt",
    }
    words = (folder / "words.txt").read_text(encoding="utf-8").split("\n\n")
    for sentence in words:
        assert sentence.strip() in answer.out
    table = pd.read_csv(folder / "turning_length.csv")
    assert table["run"].unique().tolist() == ["long_r25", "rewarmed_r50"]
    assert " long_r25      drawn out     general " in answer.out
    assert "Last loss of long_r25 against loss potential of the base" in answer.out


def test_quiet_prints_nothing(call: Call, fit_file: Path) -> None:
    assert call("landmarks", fit_file, "--plan", PLAN, "-q", *FEW) == (0, "", "")


def test_an_untrustworthy_fit_gives_exit_code_1(call: Call, weak_fit_file: Path) -> None:
    answer = call("landmarks", weak_fit_file, "--plan", PLAN, "-q", *FEW)
    assert answer.code == 1
    assert "Not trustworthy" in answer.err


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        (("--run", "long_r26"), ("no run 'long_r26'", "long_r25")),
        (("--balance", 1.5), ("--balance", "less than or equal to 1")),
        (("--plan", "nowhere.toml"), ("nowhere.toml",)),
        (("-o", PLAN), ("this is a file", "choose another one")),
    ],
)
def test_bad_input_is_refused(
    arguments: tuple[object, ...],
    fragments: tuple[str, ...],
    call: Call,
    fit_file: Path,
    tmp_path: Path,
) -> None:
    given = ("landmarks", fit_file, "--plan", PLAN, "-o", tmp_path / "new", *arguments)
    check_refusal(call(*given), fragments)
    assert not (tmp_path / "new").exists()

import json
from pathlib import Path

import pandas as pd
import pytest

from bayes_cpt.validate.records import Records, RecordsError

SETTINGS = {"seed": 1, "tails": (0.25, 0.5), "model": "cpt"}
NAMES = ("points", "refits")


def rows(value: float, text: str = "none") -> dict[str, pd.DataFrame]:
    points = pd.DataFrame({"loss": [value, value / 3.0], "note": [text, "a, b"]})
    return {"points": points, "refits": pd.DataFrame({"fine": [True], "problems": [text]})}


def test_what_was_added_is_found_again_bit_by_bit(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    records = Records.open(folder, SETTINGS, NAMES)
    assert records.done == set()
    records.add("one", rows(0.1 + 0.2))
    records.add("two", rows(1e-17, "R-hat"))
    again = Records.open(folder, SETTINGS, NAMES)
    assert again.done == {"one", "two"}
    for name in NAMES:
        pd.testing.assert_frame_equal(again.tables[name], records.tables[name], check_dtype=False)
    assert again.tables["points"]["loss"].tolist() == [0.1 + 0.2, (0.1 + 0.2) / 3, 1e-17, 1e-17 / 3]
    assert {path.name for path in folder.iterdir()} == {"settings.json", "points.csv", "refits.csv"}


def test_rows_of_a_task_that_was_stopped_between_tables_are_replaced(tmp_path: Path) -> None:
    records = Records.open(tmp_path, SETTINGS, NAMES)
    records.add("one", {"points": rows(1.0)["points"]})
    again = Records.open(tmp_path, SETTINGS, NAMES)
    assert again.done == set()
    again.add("one", rows(2.0))
    assert again.tables["points"]["loss"].tolist() == [2.0, 2.0 / 3.0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": 2}, "with seed 1 and not 2. Choose another folder"),
        ({"tails": (0.5,)}, r"tails \[0.25, 0.5\] and not \[0.5\]"),
        ({"plan": "a"}, "plan None and not a"),
    ],
)
def test_results_with_other_settings_are_not_mixed(
    change: dict[str, object], words: str, tmp_path: Path
) -> None:
    Records.open(tmp_path, SETTINGS, NAMES).add("one", rows(1.0))
    with pytest.raises(RecordsError, match=words):
        Records.open(tmp_path, SETTINGS | change, NAMES)


@pytest.mark.parametrize("content", ["", "[1]", "{", b"\xff\xfe"])
def test_a_settings_file_of_something_else_is_left_alone(
    content: str | bytes, tmp_path: Path
) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(RecordsError, match=r"settings.json: this is not what an earlier run wrote"):
        Records.open(tmp_path, SETTINGS, NAMES)


def test_no_folder_keeps_results_in_memory() -> None:
    records = Records.open(None, SETTINGS, NAMES)
    records.add("one", rows(1.0))
    assert records.done == {"one"}


def test_settings_are_readable(tmp_path: Path) -> None:
    Records.open(tmp_path, SETTINGS, NAMES)
    found = json.loads((tmp_path / "settings.json").read_text())
    assert found == {"seed": 1, "tails": [0.25, 0.5], "model": "cpt"}

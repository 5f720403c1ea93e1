from pathlib import Path

import pytest
from command_line import Call
from stand_in import Fits

import bayes_cpt

FIGURES = {"checked.png", "forecast.png", "fitted.png"}
FILES = {"fit.nc", "forecast.csv", "plan-example.toml", *FIGURES}


def test_all_is_written_into_a_new_folder(call: Call, quick_fit: Fits, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    answer = call("demo", "-o", folder)
    assert answer.code == 0
    assert {path.name for path in folder.iterdir()} == FILES
    for name in FIGURES:
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    for name in FILES:
        assert name in answer.out
    assert bayes_cpt.load(folder / "fit.nc").study.name == "cpt-lab"
    assert "long_r25" in answer.out
    # The command that it ends with works as it stands, from the folder where the demo was started.
    (printed,) = (line for line in answer.out.splitlines() if "bayes-cpt predict" in line)
    assert call(*printed.partition("bayes-cpt ")[2].split()).code == 0
    assert (folder / "own.csv").is_file()


@pytest.mark.usefixtures("empty_figures")
def test_json_and_an_untrustworthy_fit(call: Call, quick_fit: Fits, tmp_path: Path) -> None:
    quick_fit.problems.append("bulk ESS of memory is 12, below 400")
    answer = call("demo", "-o", tmp_path, "--json")
    assert answer.code == 1
    assert set(answer.json()["files"]) == FILES
    assert answer.json()["fit"]["trustworthy"] is False

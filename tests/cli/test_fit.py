"""`bayes-cpt fit` and `demo`, most of it without sampling."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from command_line import STAGES, Call, check_refusal
from malformed import FILES, write_files
from stand_in import Fits

import bayes_cpt
from bayes_cpt.identify.determination import FACTS


def test_the_file_is_written_and_summed_up(call: Call, quick_fit: Fits, tmp_path: Path) -> None:
    target = tmp_path / "fit.nc"
    answer = call("fit", "data/cpt-lab", "--seed", 7, "-o", target)
    assert answer.code == 0
    assert bayes_cpt.load(target).seed == 7
    use, sure, change = answer.out.splitlines()[:3]
    assert use.startswith("Use this fit of cpt-replay to cpt-lab. ")
    assert sure.startswith("How sure: the sampler converged")
    assert change.startswith("What would change it: ")
    assert "R-hat" in answer.out
    assert f"Written to {target}" in answer.out
    # Not a terminal: one line per stage, however often it is told.
    assert [line.split(" ", 1)[1] for line in answer.err.splitlines()] == list(STAGES)


def test_json(call: Call, quick_fit: Fits, tmp_path: Path) -> None:
    found = call("fit", "data/cpt-lab", "-o", tmp_path / "fit.nc", "--json", "--draws", 120).json()
    assert found["trustworthy"] is True
    assert quick_fit.asked[0]["draws"] == 120
    assert found["draws"] == 25
    assert found["output"] == str(tmp_path / "fit.nc")
    # Kept, so that no later command works them out again.
    assert json.loads(bayes_cpt.load(tmp_path / "fit.nc").tree.attrs[FACTS]) == found["facts"]
    assert [row["points"] for row in found["quality"]] == [370, 370]
    assert {"min_ess_bulk", "min_ess_tail", "max_r_hat", "attempts", "seconds"} <= set(found)


@pytest.mark.parametrize("loud", [[], ["--quiet"], ["--json"]])
def test_an_untrustworthy_fit_is_written_and_marked(
    loud: list[str], call: Call, quick_fit: Fits, tmp_path: Path
) -> None:
    quick_fit.problems.append("R-hat of memory is 1.2, above 1.01")
    target = tmp_path / "fit.nc"
    answer = call("fit", "data/cpt-lab", "-o", target, *loud)
    assert answer.code == 1
    said = answer.err.splitlines()[-1] if loud else answer.out
    assert said.startswith("Not trustworthy: the posterior falls short")
    assert "R-hat of memory is 1.2" in said
    assert not bayes_cpt.load(target).trustworthy
    if "--json" in loud:
        assert answer.json()["problems"] == quick_fit.problems
        assert answer.json()["verdict"] == [said]


def test_quiet_says_nothing_and_an_old_file_is_replaced_with_a_note(
    call: Call, quick_fit: Fits, tmp_path: Path
) -> None:
    line, target = ("fit", "data/cpt-lab", "-o", tmp_path / "fit.nc"), tmp_path / "fit.nc"
    target.write_text("old")
    assert call(*line, "-q") == (0, "", "")
    assert f"Written to {target}, in place of the file that was there" in call(*line).out
    assert bayes_cpt.load(target).trustworthy


def test_a_model_of_ones_own(call: Call, quick_fit: Fits, tmp_path: Path) -> None:
    model = tmp_path / "mine.toml"
    model.write_text('extends = "pretrain"\nname = "mine"\n')
    line = ("fit", "data/cpt-lab", "--model", model, "-o", tmp_path / "fit.nc")
    answer = call(*line, "--json")
    assert answer.json()["model"] == "mine"
    assert [row["phase"] for row in answer.json()["quality"]] == ["pt"]
    assert "Its CPT runs (10) are left out" in call(*line).out


def test_what_the_study_lacks_is_said_before_the_fit(call: Call, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "study")
    answer = call("fit", folder, "--model", "cpt", "-o", tmp_path / "fit.nc")
    check_refusal(answer, ("replay ratios 0.25 to 0.5", "Use --model cpt-replay"))
    assert not (tmp_path / "fit.nc").exists()


def test_losses_that_tell_nothing_are_refused_by_check_and_fit(call: Call, tmp_path: Path) -> None:
    flat = re.sub(r"(?<=prose,).*", "3.5", FILES["losses.csv"])
    folder = write_files(tmp_path / "study", {"losses.csv": flat})
    for line in (("check", folder), ("fit", folder, "-o", tmp_path / "fit.nc")):
        check_refusal(call(*line), ("study small, domain prose: all 6 losses are 3.5",))
    assert not (tmp_path / "fit.nc").exists()


def test_an_interrupted_fit_says_that_it_cannot_be_resumed_and_leaves_nothing(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(*_: object, progress: Any, **__: object) -> None:
        progress(STAGES[0], 0.0)
        raise KeyboardInterrupt

    monkeypatch.setattr("bayes_cpt.inference.fitting.fit", interrupted)
    answer = call("fit", "data/cpt-lab", "-o", tmp_path / "fit.nc", "-q")
    assert (answer.code, answer.out) == (130, "")
    assert answer.err.count("\n") == 1
    assert "nothing was written. A fit cannot be resumed: start it again" in answer.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_real_fit_meets_its_diagnostics(call: Call, tmp_path: Path) -> None:
    target = tmp_path / "fit.nc"
    arguments = ("fit", "data/cpt-lab", "--model", "pretrain", "--seed", 1, "--json")
    answer = call(*arguments, "-o", target)
    assert answer.code == 0
    assert answer.json()["min_ess_tail"] >= 400
    assert answer.json()["quality"][0]["r2"] > 0.95
    assert bayes_cpt.load(target).trustworthy


FIGURES = {"checked.png", "forecast.png", "fitted.png"}
OF_DEMO = {"fit.nc", "forecast.csv", "plan-example.toml", *FIGURES}


def test_a_demo_writes_all_into_a_new_folder(call: Call, quick_fit: Fits, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    answer = call("demo", "-o", folder)
    assert answer.code == 0
    assert {path.name for path in folder.iterdir()} == OF_DEMO
    for name in FIGURES:
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    for name in OF_DEMO:
        assert name in answer.out
    assert bayes_cpt.load(folder / "fit.nc").study.name == "cpt-lab"
    assert "long_r25" in answer.out
    # The command that it ends with works as it stands, from the folder where the demo was started.
    (printed,) = (line for line in answer.out.splitlines() if "bayes-cpt predict" in line)
    assert call(*printed.partition("bayes-cpt ")[2].split()).code == 0
    assert (folder / "own.csv").is_file()


@pytest.mark.usefixtures("empty_figures")
def test_a_demo_marks_an_untrustworthy_fit(call: Call, quick_fit: Fits, tmp_path: Path) -> None:
    quick_fit.problems.append("bulk ESS of memory is 12, below 400")
    answer = call("demo", "-o", tmp_path, "--json")
    assert answer.code == 1
    assert set(answer.json()["files"]) == OF_DEMO
    assert answer.json()["fit"]["trustworthy"] is False

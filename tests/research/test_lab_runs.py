"""Lists of runs to train, and the studies of what was trained."""

import json
from pathlib import Path
from typing import Any

import pytest
from lab.errors import LabError
from lab.export import chosen_runs, main, measured_study
from lab.training.run_list import RunList, read_run_list

from bayes_cpt import read_study
from bayes_cpt.cli import run
from bayes_cpt.errors import StudyError

# --- the list -------------------------------------------------------------------------------------

LISTS = Path(__file__).parents[2] / "research" / "lab"


@pytest.fixture(scope="module")
def toy() -> RunList:
    return read_run_list(LISTS / "toy.toml")


def test_a_branch_repeats_the_schedule_that_it_branches_off(toy: RunList) -> None:
    branch = toy.runs["pt_anneal"]
    assert [part.steps for part in toy.full_schedule(branch).segments] == [20, 100, 30]
    assert toy.start(branch) == 120
    assert list(toy.measured_steps(branch)) == [120, 122, 125, 130, 150]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("layers = 4", "depth = 4", "table model: layers is missing"),
        ("heads = 3", "heads = 5", "a head has no even width"),
        ("vocabulary = 2048", "vocabulary = 70000", "tokens do not fit 16 bits"),
        ('"float32"', '"float8"', "precision is 'float8'"),
        ('domains = ["general", "python"]', 'domains = ["general"]', "python is not measured"),
        ("replay = 0.5", "replay = 50", "base is 'stable' and replay is 50"),
        ("step = 120", "step = 130", "run pt_trunk trains steps 1 to 120, not 130"),
        ('run = "pt_trunk"', 'run = "r00_cosine"', "is of a run that is not trained before it"),
        ('base = "stable"\nreplay', 'base = "unknown"\nreplay', "there is no base unknown"),
        ("end = 2e-3", "end = 2.0", "the peak learning rate is 2"),
        ('shape = "cosine"', 'shape = "cos"', "shape is 'cos'"),
        ('phase = "cpt"', 'phase = "sft"', "it is neither PT nor CPT"),
    ],
)
def test_a_wrong_list_is_answered_with_its_place(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    text = (LISTS / "toy.toml").read_text()
    assert old in text
    path = tmp_path / "runs.toml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(StudyError, match=message) as answer:
        read_run_list(path)
    assert str(path) in str(answer.value)


# --- its study ------------------------------------------------------------------------------------


def write_losses(listed: RunList, folder: Path) -> Path:
    """Write losses that fall with the steps, as lab.train writes them."""
    losses = folder / "losses"
    losses.mkdir()
    ends: dict[str, Any] = {}
    for number, (name, run_) in enumerate(listed.runs.items()):
        lines: list[dict[str, Any]] = [
            {
                "step": step,
                "losses": {
                    "general": 3 + 1 / (step + 9),
                    "python": 2 + number / 100 + 1 / (step + 9),
                },
            }
            for step in listed.measured_steps(run_)
        ]
        # The base is the same model in every run from it, and on the PT run that it lies on.
        if run_.base is not None:
            lines[0]["losses"] = ends[listed.bases[run_.base][0]]
        ends[name] = lines[-1]["losses"]
        ended = {"done": True, "seconds": 12.0, "steps": run_.steps}
        text = "\n".join(json.dumps(line) for line in [*lines, ended])
        (losses / f"{name}.jsonl").write_text(text + "\n")
    return losses


def test_a_study_of_the_short_runs_and_one_of_the_long_ones(
    toy: RunList, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = [str(LISTS / "toy.toml"), "--losses", str(write_losses(toy, tmp_path))]
    assert main([*common, "-o", str(tmp_path / "short"), "--leave-out", "long_*"]) == 0
    assert main([*common, "-o", str(tmp_path / "long"), "--only", "long_*"]) == 0
    short, long = read_study(tmp_path / "short"), read_study(tmp_path / "long")
    assert [run.name for run in long.runs] == ["pt_trunk", "pt_anneal", "long_rule_of_thumb"]
    assert len(short.continual_runs) == 4
    assert short.run("pt_anneal").schedule.steps == 150
    assert short.base("annealed").loss_potential == 0
    table = short.losses.set_index(["run", "domain", "step"])["loss"]
    assert table["pt_anneal", "general", 130] == pytest.approx(3 + 1 / 139, abs=1e-6)
    capsys.readouterr()
    assert run(["check", str(tmp_path / "short"), "--json"]) == 0
    assert {row["name"] for row in json.loads(capsys.readouterr().out)["runs"]} == set(toy.runs) - {
        "long_rule_of_thumb"
    }


def test_what_is_not_done_or_of_another_list_is_refused(toy: RunList, tmp_path: Path) -> None:
    losses = write_losses(toy, tmp_path)
    path = losses / "r50_cosine.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:-1]) + "\n")
    with pytest.raises(LabError, match="it is not done"):
        measured_study(toy, losses, ["pt_trunk", "r50_cosine"])
    path.write_text("\n".join(lines[1:]) + "\n")
    with pytest.raises(LabError, match="not those of the list"):
        measured_study(toy, losses, ["pt_trunk", "r50_cosine"])
    path.write_text(lines[0][:20])
    with pytest.raises(LabError, match="a line is broken"):
        measured_study(toy, losses, ["pt_trunk", "r50_cosine"])
    path.unlink()
    with pytest.raises(LabError, match="the run has no losses"):
        measured_study(toy, losses, ["pt_trunk", "r50_cosine"])
    with pytest.raises(LabError, match="no run matches"):
        chosen_runs(toy, only=("none*",))

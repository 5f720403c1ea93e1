"""The chain at toy size: packages of this machine -> tokens -> runs -> study.

The trainer needs torch and tokenizers, which the project does not install: LAB_PYTHON names an interpreter
that has them, as the machine with the accelerator has its own.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab_sample import package_list

from bayes_cpt import read_study

ROOT = Path(__file__).parents[2]
TOY = ROOT / "research" / "lab" / "toy.toml"
PYTHON = os.environ.get("LAB_PYTHON", sys.executable)
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "research"), "OMP_NUM_THREADS": "1"}


def has_torch() -> bool:
    look = "import importlib.util as u; print(all(map(u.find_spec, ('torch', 'tokenizers'))))"
    done = subprocess.run([PYTHON, "-c", look], capture_output=True, text=True, check=False)
    return done.stdout.strip() == "True"


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not has_torch(), reason="needs torch and tokenizers (LAB_PYTHON)"),
]


def start(module: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [PYTHON, "-m", module, *map(str, arguments)],
        env=ENVIRONMENT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def call(module: str, *arguments: object, code: int = 0) -> str:
    process = start(module, *arguments)
    out, _ = process.communicate()
    assert process.returncode == code, out
    return out


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lab")
    call("lab.corpus", package_list(folder), "-o", folder / "corpus")
    call(
        "lab.tokens", "build", folder / "corpus", "-o", folder / "tokens",
        "--vocabulary", 2048, "--shard-tokens", 65536,
    )  # fmt: skip
    return folder / "tokens"


@pytest.fixture(scope="module")
def runs(tokens: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of all toy runs, trained without interruption."""
    folder = tmp_path_factory.mktemp("runs")
    call("lab.train", TOY, "--data", tokens, "-o", folder)
    return folder


def lines(folder: Path, run: str) -> list[dict[str, Any]]:
    """Return a run's lines but for the seconds, which are never the same."""
    return [
        {key: value for key, value in json.loads(line).items() if key != "seconds"}
        for line in (folder / "losses" / f"{run}.jsonl").read_text().splitlines()
    ]


def test_the_losses_are_those_of_a_model_that_learns(runs: Path) -> None:
    trunk = lines(runs, "pt_trunk")
    assert trunk[0]["losses"]["general"] > trunk[-2]["losses"]["general"] + 0.5
    anneal, rewarm = lines(runs, "pt_anneal"), lines(runs, "r25_rewarm")
    # One base is one model, wherever it is measured; the learning rate is the schedule's.
    assert anneal[0]["losses"] == trunk[-2]["losses"]
    assert rewarm[0]["losses"] == anneal[-2]["losses"]
    assert rewarm[-2]["lr"] == 0.0
    pure, replayed = lines(runs, "r00_cosine")[-2], lines(runs, "r50_cosine")[-2]
    assert pure["losses"]["python"] < lines(runs, "r00_cosine")[0]["losses"]["python"] - 0.2
    assert pure["losses"]["general"] > replayed["losses"]["general"]
    assert pure["tokens"] == 60 * 8 * 64


@pytest.mark.parametrize("run", ["pt_trunk", "pt_anneal", "r50_cosine"])
def test_a_killed_run_goes_on_with_the_same_losses(
    run: str, tokens: Path, runs: Path, tmp_path: Path
) -> None:
    (tmp_path / "bases").mkdir()
    for base in (runs / "bases").iterdir():
        (tmp_path / "bases" / base.name).write_bytes(base.read_bytes())
    command = (
        "lab.train", TOY, "--data", tokens, "-o", tmp_path, "--run", run, "--checkpoint-every", 8
    )  # fmt: skip
    written = tmp_path / "losses" / f"{run}.jsonl"
    checkpoint = tmp_path / "checkpoints" / f"{run}.pt"
    process = start(*command)
    wait_for(
        lambda: (
            checkpoint.exists() and written.exists() and len(written.read_text().splitlines()) >= 2
        )
    )
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert '"done"' not in written.read_text()
    assert f"{run}: goes on after step" in call(*command)
    assert lines(tmp_path, run) == lines(runs, run)


def test_a_run_whose_time_is_up_goes_on_later(tokens: Path, runs: Path, tmp_path: Path) -> None:
    command = ("lab.train", TOY, "--data", tokens, "-o", tmp_path, "--run", "pt_trunk")
    assert "pt_trunk: stopped after step" in call(*command, "--seconds", 0.1, code=3)
    call(*command)
    assert lines(tmp_path, "pt_trunk") == lines(runs, "pt_trunk")
    assert call(*command) == ""


def test_the_study_of_the_toy_runs_can_be_checked(runs: Path, tmp_path: Path) -> None:
    from lab.export import main

    study = tmp_path / "study"
    arguments = [str(TOY), "--losses", str(runs / "losses")]
    assert main([*arguments, "-o", str(study), "--leave-out", "long_*"]) == 0
    assert len(read_study(study).continual_runs) == 4
    command = [sys.executable, "-m", "bayes_cpt", "check", str(study), "--quiet"]
    assert subprocess.run(command, check=False).returncode == 0


def wait_for(condition: Callable[[], bool], seconds: float = 600.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)

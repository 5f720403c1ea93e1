"""docs/from-logs.md: three logs to a decision, by the commands that stand there; and logs to a watch."""

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from journey import TRACKERS, forecast, study_of, watched
from stand_in import stand_in
from synthetic import prior_as_posterior

from bayes_cpt import read_study
from bayes_cpt.cli import run
from bayes_cpt.watch import expected

ROOT = Path(__file__).parents[1]
LOGS = ROOT / "tests" / "data" / "logs" / "hf"
MOST_COMMANDS = 5


def commands() -> list[list[str]]:
    """Return the command lines of the guide's first block."""
    text = (ROOT / "docs" / "from-logs.md").read_text()
    block = re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)[0]
    return [shlex.split(line) for line in block.strip().splitlines()]


def test_three_logs_to_a_decision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch)
    for name in ("r00", "r25", "r50"):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        shutil.copy(LOGS / name / "trainer_state.json", folder)
    monkeypatch.chdir(tmp_path)
    lines = commands()
    assert len(lines) <= MOST_COMMANDS
    for program, *arguments in lines:
        assert program == "bayes-cpt"
        assert run(arguments) == 0, arguments
    assert (tmp_path / "decision" / "plan.toml").is_file()
    assert (tmp_path / "arguments.json").is_file()


# The last evaluation of each kept log.
LAST = {"r25": 300, **dict.fromkeys(TRACKERS, 200)}


def states(folder: Path) -> dict[str, Any]:
    """Return what the watch of each run has learnt."""
    return {name: json.loads((folder / f"{name}.json").read_text())["watcher"] for name in LAST}


@pytest.mark.parametrize("fitted", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_kept_logs_of_four_libraries_go_to_a_watch(
    fitted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way by the commands; quickly with all but the sampling and beside few curves."""
    study, fit = tmp_path / "study", tmp_path / "fit.nc"
    study_of(LOGS.parent, study)
    if fitted:
        assert run(["fit", str(study), "--seed", "1", "--draws", "250", "-o", str(fit)]) in (0, 1)
    else:
        monkeypatch.setattr(expected, "CURVES", 300)
        monkeypatch.setattr(expected, "HEALTHY_CURVES", 100)
        prior_as_posterior(read_study(study), draws=25).save(fit)
    # Few draws may fall short of the diagnostics.
    assert forecast(fit, tmp_path) in ((0, 1) if fitted else (0,))
    assert set(pd.read_csv(tmp_path / "forecast.csv")["run"]) >= set(LAST)
    codes = watched(fit, LOGS.parent, tmp_path)
    assert set(codes) == set(LAST)
    # The fit saw all four runs: off track, code 3, would be a false alarm of it.
    assert set(codes.values()) <= ({0, 1} if fitted else {0, 3})
    for name, told in states(tmp_path).items():
        assert told["_latest"] == LAST[name]
        assert set(told["_losses"]) == {"general", "target"}
        assert not fitted or told["off_since"] is None

"""docs/from-logs.md: three logs to a decision, by the commands that stand there."""

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from synthetic import prior_as_posterior

from bayes_cpt.cli import run

ROOT = Path(__file__).parents[1]
LOGS = ROOT / "tests" / "data" / "logs" / "hf"
MOST_COMMANDS = 5


def commands() -> list[list[str]]:
    """Return the command lines of the guide's first block."""
    text = (ROOT / "docs" / "from-logs.md").read_text()
    block = re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)[0]
    return [shlex.split(line) for line in block.strip().splitlines()]


def test_three_logs_to_a_decision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def quick(study: Any, spec: Any, seed: int, **rest: Any) -> Any:
        return prior_as_posterior(study, spec, draws=25)

    monkeypatch.setattr("bayes_cpt.inference.fitting.fit", quick)
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

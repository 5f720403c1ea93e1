"""A run on a W&B server, whose library is stood in for: it gives the history that the real one logged."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bayes_cpt.study.logs.raw import LogError
from bayes_cpt.study.logs.readers import read_logs
from bayes_cpt.study.logs.reading import Reading, clean

LOGS = Path(__file__).parents[2] / "data" / "logs"
HISTORY = LOGS / "tables" / "history.jsonl"
ADDRESS = "wandb:team/project/tiny"


def history() -> Iterator[dict[str, Any]]:
    for line in HISTORY.read_text(encoding="utf-8").splitlines():
        yield {"_runtime": 1.0, **json.loads(line)}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of runs that the server was asked for."""
    names: list[str] = []

    def run(name: str) -> SimpleNamespace:
        names.append(name)
        if name != ADDRESS.removeprefix("wandb:"):
            raise ValueError(f"Could not find run {name}")
        return SimpleNamespace(scan_history=history)

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(Api=lambda: SimpleNamespace(run=run)))
    monkeypatch.setenv("WANDB_API_KEY", "key")
    return names


def test_a_run_on_the_server_is_the_run_of_its_export(asked: list[str]) -> None:
    found, expected = (
        clean(read_logs("wandb", [own]), Reading()) for own in (ADDRESS, str(HISTORY))
    )
    assert asked == ["team/project/tiny"]
    assert found.domains == expected.domains
    assert found.losses == expected.losses


@pytest.mark.usefixtures("asked")
def test_what_the_server_does_not_give_is_named_with_what_to_write() -> None:
    with pytest.raises(LogError, match=r"(?s)Could not find run.*ENTITY/PROJECT/RUN_ID"):
        read_logs("wandb", ["wandb:team/project/other"])


@pytest.mark.usefixtures("asked")
def test_a_key_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_API_KEY")
    with pytest.raises(LogError, match="WANDB_API_KEY is not set"):
        read_logs("wandb", [ADDRESS])


def test_without_the_library_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(LogError, match=r"pip install 'bayes-cpt\[logs\]'"):
        read_logs("wandb", [ADDRESS])

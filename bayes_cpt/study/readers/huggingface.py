"""Hugging Face: trainer_state.json and the checkpoint folders that hold it."""

import json
import re
from pathlib import Path
from typing import Any

from bayes_cpt.study.logs.raw import TOTAL_STEPS, RawLog, as_number, fail

STATE = "trainer_state.json"
# Beside the losses: how long an evaluation took, and where in the data it was.
ASIDE = ("_runtime", "_per_second", "epoch", "total_flos", "_model_preparation_time")


def read_huggingface(path: Path) -> RawLog:
    """Read the log of a Hugging Face Trainer.

    Parameters
    ----------
    path : Path
        A trainer_state.json, the folder of a checkpoint, or an output folder with checkpoint-N folders in
        it, of which all are read: a run that was resumed has parts of its log in several.

    Raises
    ------
    LogError
        If there is none, or it is damaged; naming file and entry.
    """
    files = _states(path)
    log = RawLog(str(path))
    for file in files:
        log.extend(_read_state(file))
    if len(files) > 1:
        log.notes.append(f"{path}: the logs of {len(files)} checkpoints were read together")
    return log


def _states(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if (path / STATE).is_file():
        return [path / STATE]
    checkpoints = {
        int(match[1]): folder / STATE
        for folder in path.glob("checkpoint-*")
        if (match := re.fullmatch(r"checkpoint-(\d+)", folder.name)) and (folder / STATE).is_file()
    }
    if not checkpoints:
        raise fail(
            str(path),
            f"there is no {STATE} here, nor in folders checkpoint-N",
            "name the Trainer's output folder, one of its checkpoints, or the file",
        )
    return [checkpoints[step] for step in sorted(checkpoints)]


def _read_state(file: Path) -> RawLog:
    state = read_json(file)
    history = state.get("log_history") if isinstance(state, dict) else None
    if not isinstance(history, list):
        raise fail(
            str(file),
            "it has no log_history",
            f"name the {STATE} that the Trainer wrote into a checkpoint",
        )
    log = RawLog(str(file))
    for number, row in enumerate(history, start=1):
        place = f"{file}, log_history entry {number}"
        step = as_number(row.get("step")) if isinstance(row, dict) else None
        if step is None:
            raise fail(place, "the entry has no step", "restore the file from the checkpoint")
        for series, cell in row.items():
            value = as_number(cell)
            if series != "step" and value is not None and not series.endswith(ASIDE):
                log.add(step, series, value, place)
    total = as_number(state.get("max_steps"))
    if total is not None and total > 0:
        log.facts[TOTAL_STEPS] = total
    return log


def read_json(file: Path) -> Any:
    """Return what a JSON file holds.

    Parameters
    ----------
    file : Path

    Raises
    ------
    LogError
        If it is not UTF-8, empty, cut off, or not JSON.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
        return json.loads(text)
    except UnicodeDecodeError as error:
        raise fail(str(file), f"byte {error.start} is not UTF-8", "save it as UTF-8") from None
    except (ValueError, RecursionError) as error:
        said = "it is empty" if not text.strip() else f"this is not JSON: {error}"
        raise fail(str(file), said, "copy it again: it was cut off or damaged on its way") from None

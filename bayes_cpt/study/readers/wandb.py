"""Weights & Biases: offline run folders, and runs on the server where a key is set."""

import json
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bayes_cpt.study.logs.raw import WARMUP_STEPS, RawLog, as_number, fail
from bayes_cpt.study.readers.columns import flat, read_columns
from bayes_cpt.study.readers.records import DamagedRecordError, fields, inner, signed

# A file of records in LevelDB's framing: blocks with a header per piece of a record.
BLOCK, FILE_HEAD, MAGIC = 32768, 7, b":W&B"
PIECE = struct.Struct("<IHB")
WHOLE, FIRST, MIDDLE, LAST = 1, 2, 3, 4
# Field numbers of Record, HistoryRecord, HistoryItem and RunRecord in wandb_internal.proto.
RECORD_HISTORY, RECORD_RUN = 2, 17
HISTORY_ITEM, HISTORY_STEP, STEP_NUMBER = 1, 2, 1
ITEM_KEY, ITEM_NESTED, ITEM_JSON = 1, 2, 16
RUN_CONFIG, CONFIG_UPDATE = 4, 1
ADDRESS, KEY = "wandb:", "WANDB_API_KEY"


def read_wandb(path: Path) -> RawLog:
    """Read a run of W&B.

    Parameters
    ----------
    path : Path
        An offline run folder or its .wandb file, a history exported as CSV, JSON or Parquet, or
        ``wandb:ENTITY/PROJECT/RUN`` for a run on the server, which takes the library and a key.

    Raises
    ------
    LogError
        Naming file and byte. A last record that is cut off is left out and noted.
    """
    if str(path).startswith(ADDRESS):
        return _read_server(str(path).removeprefix(ADDRESS))
    if path.is_file() and path.suffix != ".wandb":
        return read_columns(path)
    files = [path] if path.is_file() else sorted(path.rglob("*.wandb"))
    if not files:
        raise fail(str(path), "there is no .wandb file", "name the folder wandb/offline-run-...")
    runs = {file.parent for file in files}
    if len(runs) > 1:
        raise fail(
            str(path),
            f"there are {len(runs)} runs: {', '.join(sorted(run.name for run in runs)[:6])}",
            "name one of these folders",
        )
    log = RawLog(str(path))
    for file in files:
        _read_file(log, file)
    return log


def _read_file(log: RawLog, file: Path) -> None:
    number = 0
    for record in _records(log, file):
        try:
            for field, value in fields(record):
                if field == RECORD_HISTORY:
                    number += 1
                    _add_history(log, inner(value), f"{file}, history row {number}")
                elif field == RECORD_RUN:
                    _add_facts(log, inner(value))
        except (DamagedRecordError, ValueError) as error:
            raise _damaged(f"{file}, after history row {number}", str(error)) from None


def _add_history(log: RawLog, record: bytes, place: str) -> None:
    row: dict[str, Any] = {}
    step: float | None = None
    for field, value in fields(record):
        if field == HISTORY_ITEM:
            name, content = _item(inner(value))
            row[name] = content
        elif field == HISTORY_STEP:
            counts = [
                signed(field_value)
                for key, field_value in fields(inner(value))
                if key == STEP_NUMBER
            ]
            step = float(counts[0]) if counts else 0.0
    row = flat(row)
    count = as_number(row.pop("_step", None))
    at = count if count is not None else step
    for name, content in row.items():
        number = as_number(content)
        if number is not None and not name.startswith("_") and at is not None:
            log.add(at, name, number, place)


def _item(item: bytes) -> tuple[str, Any]:
    names, content = [], None
    for field, value in fields(item):
        if field in (ITEM_KEY, ITEM_NESTED):
            names.append(inner(value).decode())
        elif field == ITEM_JSON:
            content = json.loads(inner(value))
    return "/".join(names), content


def _add_facts(log: RawLog, run: bytes) -> None:
    for field, value in fields(run):
        for key, update in fields(inner(value)) if field == RUN_CONFIG else ():
            if key == CONFIG_UPDATE:
                name, content = _item(inner(update))
                number = as_number(content)
                if name == WARMUP_STEPS and number is not None:
                    log.facts[WARMUP_STEPS] = number


def _records(log: RawLog, file: Path) -> Iterator[bytes]:
    content = file.read_bytes()
    if not content.startswith(MAGIC):
        raise _damaged(str(file), "it does not begin as a .wandb file does")
    place, parts = FILE_HEAD, b""
    while place < len(content):
        left = BLOCK - place % BLOCK
        if left < PIECE.size:
            place += left
            continue
        if place + PIECE.size > len(content):
            break
        checksum, length, kind = PIECE.unpack_from(content, place)
        start = place + PIECE.size
        if start + length > len(content):
            break
        data = content[start : start + length]
        if zlib.crc32(bytes([kind]) + data) != checksum:
            raise _damaged(f"{file}, byte {place}", "a record fails its checksum")
        place = start + length
        parts = data if kind in (WHOLE, FIRST) else parts + data
        if kind in (WHOLE, LAST):
            yield parts
    if place < len(content):
        log.notes.append(f"{file}, byte {place}: the last record is cut off and was left out")


def _damaged(place: str, said: str) -> Exception:
    return fail(
        place, f"the W&B file is damaged: {said}", "copy it again from where it was written"
    )


def _read_server(name: str) -> RawLog:
    place = f"{ADDRESS}{name}"
    try:
        import wandb
    except ImportError:
        raise fail(
            place,
            "W&B's library, which reads from the server, is not installed",
            "install it with pip install 'bayes-cpt[logs]', or export the run as CSV",
        ) from None
    if not os.environ.get(KEY):
        raise fail(place, f"{KEY} is not set", f"set {KEY}, or export the run's history as CSV")
    try:
        rows = list(wandb.Api().run(name).scan_history())
    except Exception as error:
        said = " ".join(str(error).split())[:200]
        raise fail(
            place,
            f"the server does not give the run: {said}",
            "write wandb:ENTITY/PROJECT/RUN_ID and check the key",
        ) from error
    log = RawLog(place)
    for number, row in enumerate(rows, start=1):
        count = as_number(row.get("_step"))
        for series, cell in flat(row).items():
            value = as_number(cell)
            if value is not None and count is not None and not series.startswith("_"):
                log.add(count, series, value, f"{place}, history row {number}")
    return log

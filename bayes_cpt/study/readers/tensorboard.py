"""TensorBoard event files: scalars of torch's SummaryWriter, TensorFlow, Keras and JAX."""

import struct
from collections.abc import Iterator
from pathlib import Path

from bayes_cpt.study.logs.raw import RawLog, fail
from bayes_cpt.study.readers.records import DamagedRecordError, Value, fields, floats, inner, signed

PATTERN = "*tfevents*"
# Field numbers of Event, Summary, Summary.Value and TensorProto in TensorBoard's .proto files.
EVENT_STEP, EVENT_SUMMARY = 2, 5
SUMMARY_VALUE = 1
VALUE_TAG, VALUE_SIMPLE, VALUE_TENSOR = 1, 2, 8
TENSOR_TYPE, TENSOR_CONTENT, TENSOR_FLOATS, TENSOR_DOUBLES = 1, 4, 5, 6
TYPE_FORMS = {1: "f", 2: "d"}
HEAD = struct.Struct("<QI")
TAIL_BYTES = 4
LARGEST_RECORD = 2**30


def read_tensorboard(path: Path) -> RawLog:
    """Read the scalars of TensorBoard event files.

    Parameters
    ----------
    path : Path
        An event file, or a folder with event files in it or below it. A restarted job writes a new file:
        they are read in the order of their names, which begin with the time.

    Raises
    ------
    LogError
        If there is none, or one is damaged; naming file and byte. A last event that is cut off is left out
        and noted: the job may still be writing it.
    """
    files = [path] if path.is_file() else sorted(path.rglob(PATTERN), key=_time_order)
    if not files:
        raise fail(str(path), "there is no TensorBoard event file (*tfevents*)", "name its folder")
    log = RawLog(str(path))
    for file in files:
        below = "" if path.is_file() else file.parent.relative_to(path).as_posix()
        _read_file(log, file, "" if below == "." else below)
    if len(files) > 1:
        log.notes.append(f"{path}: {len(files)} event files were read, in the order of their names")
    return log


def _time_order(file: Path) -> tuple[str, str]:
    return file.name, str(file)


def _read_file(log: RawLog, file: Path, below: str) -> None:
    """Add the scalars of a file; SummaryWriter.add_scalars has one folder per line of a figure."""
    for number, event in enumerate(_records(log, file), start=1):
        place = f"{file}, event {number}"
        try:
            step, summaries = 0, []
            for field, value in fields(event):
                if field == EVENT_STEP:
                    step = signed(value)
                elif field == EVENT_SUMMARY:
                    summaries.append(inner(value))
            for summary in summaries:
                for field, value in fields(summary):
                    if field == SUMMARY_VALUE and (scalar := _scalar(inner(value))) is not None:
                        tag, number_read = scalar
                        log.add(step, f"{below}/{tag}" if below else tag, number_read, place)
        except (DamagedRecordError, UnicodeDecodeError) as error:
            raise _damaged(place, str(error)) from None


def _records(log: RawLog, file: Path) -> Iterator[bytes]:
    """Yield the records of a file in TensorFlow's framing: length, its checksum, data, its checksum."""
    content, place = file.read_bytes(), 0
    while place < len(content):
        if place + HEAD.size > len(content):
            break
        length, checksum = HEAD.unpack_from(content, place)
        if _masked(_crc32c(content[place : place + 8])) != checksum or length > LARGEST_RECORD:
            raise _damaged(f"{file}, byte {place}", "the length of an event fails its checksum")
        start = place + HEAD.size
        if start + length + TAIL_BYTES > len(content):
            break
        yield content[start : start + length]
        place = start + length + TAIL_BYTES
    if place < len(content):
        log.notes.append(f"{file}, byte {place}: the last event is cut off and was left out")


def _scalar(value: bytes) -> tuple[str, float] | None:
    tag, logged = "", None
    for field, content in fields(value):
        if field == VALUE_TAG:
            tag = inner(content).decode()
        elif field == VALUE_SIMPLE:
            (logged,) = floats(content, "f")
        elif field == VALUE_TENSOR:
            logged = _tensor(inner(content))
    return None if logged is None else (tag, logged)


def _tensor(tensor: bytes) -> float | None:
    parts: dict[int, Value] = dict(fields(tensor))
    form = TYPE_FORMS.get(signed(parts.get(TENSOR_TYPE, 0)))
    if form is None:
        return None
    key = TENSOR_FLOATS if form == "f" else TENSOR_DOUBLES
    numbers = floats(parts.get(TENSOR_CONTENT, parts.get(key, b"")), form)
    return numbers[0] if len(numbers) == 1 else None


def _damaged(place: str, said: str) -> Exception:
    return fail(
        place, f"the event file is damaged: {said}", "copy it again from where it was written"
    )


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _table()


def _crc32c(content: bytes) -> int:
    """Return the Castagnoli checksum (RFC 3720, B.4)."""
    checksum = 0xFFFFFFFF
    for byte in content:
        checksum = (checksum >> 8) ^ _TABLE[(checksum ^ byte) & 0xFF]
    return checksum ^ 0xFFFFFFFF


def _masked(checksum: int) -> int:
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF

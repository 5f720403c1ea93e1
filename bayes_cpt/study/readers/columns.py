"""CSV, JSON lines and Parquet: a row per step, a column per series; or rows of run, step, domain, loss."""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayes_cpt.checks import suggestion
from bayes_cpt.study.logs.raw import RawLog, as_number, fail
from bayes_cpt.study.readers.huggingface import read_json
from bayes_cpt.study.readers.tables import read_table

STEP_NAMES = (
    "step", "_step", "schritt",
    "steps", "global_step", "trainer/global_step", "iteration", "iter", "train/step",
    "train/global_step", "optimizer_step",
)  # fmt: skip
# Counts of something else than steps: they serve where there are no steps, and are said.
TOKEN_NAMES = (
    "tokens", "num_tokens", "total_tokens", "tokens_seen", "consumed_tokens", "num_input_tokens_seen",
    "throughput/total_tokens", "n_tokens_seen",
)  # fmt: skip
SAMPLE_NAMES = ("samples", "consumed_samples", "consumed samples", "num_samples", "samples_seen")
DELIMITERS = ",;\t|"
EMPTY_CELLS = ("", "na", "n/a", "null", "none", "-")
DECIMAL_COMMA = re.compile(r"[+-]?\d{1,3}(\.\d{3})*,\d+([eE][+-]?\d+)?|[+-]?\d+,\d+([eE][+-]?\d+)?")

type Row = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Layout:
    """Which columns of a table mean what; what is left out is recognised.

    Parameters
    ----------
    step : str, optional
        Column of the step.
    run : str, optional
        Only rows whose column ``run`` has this name; for tables of several runs.
    """

    step: str | None = None
    run: str | None = None


def read_columns(path: Path, layout: Layout | None = None) -> RawLog:
    """Read a table of logged numbers.

    Parameters
    ----------
    path : Path
        .csv, .tsv or .txt (delimiter, byte-order mark and decimal commas are recognised), .jsonl or .json
        (a list of rows, or of W&B's history), or .parquet.
    layout : Layout, optional

    Raises
    ------
    LogError
        Naming file, line and the fix.
    """
    layout = layout or Layout()
    log = RawLog(str(path))
    rows = list(_rows(path, log))
    if not rows:
        raise fail(str(path), "there is no row", "log at least one evaluation before importing")
    columns = list(dict.fromkeys(name for _, row in rows for name in row))
    step = _step_column(path, columns, layout)
    for counts, names in (("tokens", TOKEN_NAMES), ("samples", SAMPLE_NAMES)):
        if step in names and layout.step is None:
            log.counts = counts
            log.notes.append(f"{path}: steps are counted by the column {step!r}")
    rows = _of_run(path, rows, columns, layout)
    long = {"domain", "loss"} <= set(columns)
    for place, row in rows:
        _add_row(log, place, row, step, long)
    return log


def _add_row(log: RawLog, place: str, row: Mapping[str, Any], step: str, long: bool) -> None:
    count = number_of(row.get(step))
    values = {
        name: value
        for name, cell in row.items()
        if name != step and (value := number_of(cell)) is not None
    }
    if not values:
        return
    if count is None:
        raise fail(
            place,
            f"the {step} is {row.get(step)!r}",
            "give every row the step that it was logged at, or remove the row",
        )
    for name, value in values.items():
        series = f"{row['domain']}_val_loss" if long and name == "loss" else name
        log.add(count, series, value, place)


def _step_column(path: Path, columns: list[str], layout: Layout) -> str:
    if layout.step is not None:
        if layout.step in columns:
            return layout.step
        raise fail(
            f"{path}, column {layout.step}",
            f"the column {layout.step!r} is missing{suggestion(layout.step, columns)}",
            f"name one of {', '.join(columns)}",
        )
    by_case = {name.strip().lower(): name for name in reversed(columns)}
    for known in (*STEP_NAMES, *TOKEN_NAMES, *SAMPLE_NAMES):
        if known in by_case:
            return by_case[known]
    raise fail(
        str(path),
        f"no column is called step; there are {', '.join(columns)}",
        "say which one counts the steps, --step COLUMN",
    )


def _of_run(path: Path, rows: list[Row], columns: list[str], layout: Layout) -> list[Row]:
    if "run" not in columns:
        return rows
    names = list(dict.fromkeys(str(row.get("run")) for _, row in rows))
    if layout.run is None and len(names) > 1:
        raise fail(
            f"{path}, column run",
            f"there are rows of {len(names)} runs: {', '.join(names[:6])}",
            "say which one, --row-run NAME",
        )
    if layout.run is not None and layout.run not in names:
        raise fail(
            f"{path}, column run",
            f"there is no run {layout.run!r}{suggestion(layout.run, names)}",
            f"name one of {', '.join(names[:20])}",
        )
    chosen = layout.run or names[0]
    return [
        (place, {name: cell for name, cell in row.items() if name != "run"})
        for place, row in rows
        if str(row.get("run")) == chosen
    ]


def _rows(path: Path, log: RawLog) -> Iterable[Row]:
    if path.suffix == ".parquet":
        table = read_table(path)
        # A column of floats has NaN for an empty cell.
        return (
            (
                f"{path}, row {label}",
                {
                    str(name): cell
                    for name, cell in zip(table.columns, row, strict=True)
                    if cell == cell
                },
            )
            for label, row in zip(table.index, table.itertuples(index=False), strict=True)
        )
    if path.suffix == ".jsonl" or path.suffix == ".ndjson":
        return _json_lines(path, log)
    if path.suffix == ".json":
        return _json_rows(path)
    return _csv_rows(path, log)


def _json_rows(path: Path) -> Iterator[Row]:
    content = read_json(path)
    if isinstance(content, dict) and isinstance(content.get("history"), list):
        content = content["history"]
    if not isinstance(content, list):
        raise fail(str(path), "this is no list of rows", "export the history as a list of objects")
    for number, row in enumerate(content, start=1):
        place = f"{path}, entry {number}"
        if not isinstance(row, dict):
            raise fail(place, f"this is {row!r}", "give an object per step")
        yield place, flat(row)


def _json_lines(path: Path, log: RawLog) -> Iterator[Row]:
    lines = decoded(path).split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines):
                # Without a line break at its end the last line is still being written.
                log.notes.append(f"{place}: the last line is cut off and was left out")
                return
            raise fail(place, f"this is not JSON: {error}", "remove or restore the line") from None
        if not isinstance(row, dict):
            raise fail(place, f"this is {row!r}", "give an object per line")
        yield place, flat(row)


def flat(row: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return nested tables as one, names joined by slashes.

    Parameters
    ----------
    row : mapping of str to object
        Tables, one in the other.
    above : str
        What stands before every name.

    Examples
    --------
    >>> flat({"step": 3, "eval": {"loss": 2.5}})
    {'step': 3, 'eval/loss': 2.5}
    """
    joined: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            joined |= flat(value, f"{above}{name}/")
        else:
            joined[f"{above}{name}"] = value
    return joined


def decoded(path: Path) -> str:
    """Return the text of a UTF-8 (or, by its byte-order mark, UTF-16) file.

    Parameters
    ----------
    path : Path

    Raises
    ------
    LogError
        Naming the byte that is neither.
    """
    content = path.read_bytes()
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        raise fail(
            str(path), f"byte {error.start} is not UTF-8", "save the file as UTF-8"
        ) from None
    if "\0" in text:
        byte = text.index("\0")
        raise fail(f"{path}, character {byte + 1}", "there is a null byte: this is no text",
                   "copy the file again, or name the right kind of log")  # fmt: skip
    return text


def _csv_rows(path: Path, log: RawLog) -> Iterator[Row]:
    text = decoded(path)
    header_line = text.split("\n", 1)[0]
    delimiter = max(DELIMITERS, key=header_line.count)
    if delimiter != "," and header_line.count(delimiter):
        log.notes.append(f"{path}: columns are separated by {delimiter!r}")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = [cell.strip() for cell in next(reader, [])]
        if len(set(header)) < len(header):
            twice = next(name for name in header if header.count(name) > 1)
            raise fail(f"{path}, line 1, column {twice}", f"two columns are called {twice!r}",
                       "rename one of them")  # fmt: skip
        commas = False
        for cells in reader:
            place = f"{path}, line {reader.line_num}"
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                raise fail(
                    place,
                    f"the line has {len(cells)} cells, the header {len(header)}",
                    "restore the line, or put cells with commas in quotes",
                )
            cells = [cell.strip() for cell in cells]
            commas |= any(DECIMAL_COMMA.fullmatch(cell) for cell in cells)
            yield place, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise fail(f"{path}, line {reader.line_num}", f"this is not CSV: {error}",
                   "close the quotes and save it again") from None  # fmt: skip
    if commas:
        log.notes.append(f"{path}: numbers were read with decimal commas")


def number_of(cell: Any) -> float | None:
    """Return a cell as a number, None where it holds none; decimal commas are understood.

    Parameters
    ----------
    cell : object
        Of a table.

    Examples
    --------
    >>> number_of("1.234,5"), number_of("3,25e-4"), number_of("2e-4"), number_of("adam")
    (1234.5, 0.000325, 0.0002, None)
    """
    if isinstance(cell, str):
        text = cell.strip()
        if text.lower() in EMPTY_CELLS:
            return None
        if DECIMAL_COMMA.fullmatch(text):
            return float(text.replace(".", "").replace(",", "."))
        if text.lower().startswith(("0x", "_")):
            return None
        return as_number(text)
    return as_number(cell)

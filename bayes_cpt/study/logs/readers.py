"""A small reader for each kind of log, and what kind a path is: all give the rows of a `RawLog`.

TensorBoard's event files are read by its own library, the optional extra ``logs``.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, count
from pathlib import Path
from typing import Any

import numpy as np

from bayes_cpt.checks import unknown
from bayes_cpt.errors import StudyError
from bayes_cpt.study.logs import naming, raw
from bayes_cpt.study.logs.patterns import Format, formats, read_text, text_kinds, unknown_format
from bayes_cpt.study.logs.raw import Cells, RawLog, Row, as_number, empty, fail
from bayes_cpt.study.tables import csv_lines, cut_off, read_table, separator_of

AUTO = "auto"
TABLES = ("table", "csv", "jsonl", "parquet")
KINDS = (AUTO, "hf", *TABLES, "tensorboard", *text_kinds())
JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
TABLE_SUFFIXES = (".csv", ".tsv", ".parquet", *JSON_SUFFIXES)
# Between the objects of JSON lines, whatever the file is called.
OBJECTS = re.compile(r"^\{.*\}\s*\n\{", re.MULTILINE)
# What separates columns, besides blanks.
MARKS = r"[,;\t|]"
STATE = "trainer_state.json"
EVENTS = "*tfevents*"
# By what folders of each kind are known, those that hold others' files first.
FOLDERS = {"hf": STATE, "tensorboard": EVENTS}
# Enough of a text to see what program wrote it.
SNIFFED = 200_000
# Rows that show whether a column says of which data a loss is.
LOOKED_AT = 1000
# Lines of an object at most.
LONGEST_OBJECT = 200


def read_logs(kind: str, paths: Iterable[str], patterns: Sequence[str] = ()) -> RawLog:
    """Read the logs of one run."""
    if kind not in KINDS:
        raise fail(f"kind {kind}", *unknown("kind", kind, KINDS))
    logs = [_read(kind, path, patterns) for path in paths]
    if not logs:
        raise fail("PATH", "no log is named", "name at least one file or folder")
    if len({log.from_zero for log in logs}) > 1:
        # What a program prints and what it writes may count the same steps from 0 and from 1.
        logs = [_counted_from_1(log) for log in logs]
    log, *later = logs
    for other in later:
        log.rows += other.rows
        log.counter = log.counter or other.counter
        log.stated |= other.stated
        log.notes += [note for note in other.notes if note not in log.notes]
    return log


def _counted_from_1(log: RawLog) -> RawLog:
    counts = (as_number(row.cells.get(log.counter)) for row in log.rows)
    added = ({} if count is None else {log.counter: count + 1.0} for count in counts)
    rows = [Row(row.place, {**row.cells, **own}) for row, own in zip(log.rows, added, strict=True)]
    return replace(log, rows=rows, from_zero=False) if log.from_zero else log


def _read(kind: str, name: str, patterns: Sequence[str]) -> RawLog:
    if patterns and kind not in (AUTO, *text_kinds()):
        problem = f"a log of the kind {kind} has no lines"
        raise fail("--pattern", problem, "leave one of the two out")
    path = Path(name)
    if not path.exists():
        fix = "check the spelling of the path; a run on a server is read from its export as CSV"
        raise fail(name, "there is no such file or folder", fix)
    chosen = kind_of(path) if kind == AUTO and not patterns else kind
    readers = {"hf": _huggingface, "tensorboard": _tensorboard}
    if chosen in readers:
        return readers[chosen](path)
    if path.is_dir():
        fix = "name the files of the log" + (": --pattern is for lines of text" if patterns else "")
        raise fail(name, "this is a folder", fix)
    if patterns:
        return read_text(path, Format.from_patterns(patterns))
    return read_text(path, formats()[chosen], chosen) if chosen in formats() else _table(path)


def kind_of(path: Path) -> str:
    """Return what kind of log a path is, by its name and what is in it."""
    plain = raw.inner_name(path)
    if path.is_dir():
        for kind, pattern in FOLDERS.items():
            if next(path.rglob(pattern), None) is not None:
                return kind
        fix = "name the log: the printed text, or a table (csv, jsonl, parquet) as of W&B or MLflow"
        raise fail(str(path), "it is not a Trainer's or TensorBoard folder", fix)
    for form in formats().values():
        if plain.suffix in form.endings:
            raise fail(str(path), f"this is {form.program}", form.instead)
    if "tfevents" in path.name:
        return "tensorboard"
    content = b"" if plain.suffix in JSON_SUFFIXES[:2] else raw.content_of(path)[:SNIFFED]
    if content.lstrip().startswith(b"{") and b'"log_history"' in content:
        return "hf"
    if plain.suffix in TABLE_SUFFIXES:
        return "table"
    whole = raw.printed_text(path)
    # What launchers say before the first step may be long.
    text = "\n".join((whole[:SNIFFED], whole[SNIFFED:][-SNIFFED:]))
    if not text.strip():
        raise fail(str(path), "it is empty", "log at least one evaluation before importing")
    lines = text.replace("\r", "\n").splitlines()
    counts = {kind: sum(map(form.counts, lines)) for kind, form in formats().items()}
    best = max(counts, key=lambda kind: counts[kind])
    if counts[best]:
        return best
    if _is_table(text) or any(_json_in(line) for _, line in _objects("\n".join(lines))):
        return "table"
    raise unknown_format(path, lines)


# Tables: a row per step, a column per series; or rows of run, step, domain, loss.


def _table(path: Path) -> RawLog:
    log = RawLog(str(path))
    suffix = raw.inner_name(path).suffix
    text = "" if suffix == ".parquet" else raw.text_of(path)
    if suffix == ".parquet":
        rows = _parquet_rows(path)
    elif suffix == ".json" and not OBJECTS.search(text):
        rows = _json_rows(text, path)
    elif suffix in JSON_SUFFIXES:
        rows = _json_lines(text, log)
    elif suffix not in TABLE_SUFFIXES and any(_json_in(line) for _, line in _objects(text)):
        rows = _printed_json(text, log)
    else:
        rows = _csv_rows(text, log)
    log.rows = list(rows)
    if not log.rows:
        raise fail(str(path), "there is no row", "log at least one evaluation before importing")
    _widen(log, path)
    return log


def _widen(log: RawLog, path: Path) -> None:
    """Give a series its name where it stands in a cell, or in the name of the file or of the column."""
    names, first = Cells(log.rows).names, Cells(log.rows[:LOOKED_AT])
    by_case = {name.lower(): name for name in names}
    texts = {name: {str(own).lower() for own in first.column(name)} - {"none"} for name in names}
    trained = naming.WORDS["training"]
    parts = naming.WORDS["held_out"] | trained
    of_parts = [name for name, own in texts.items() if own and own <= parts]

    def named(value: str, label: str, called: str) -> Iterator[Row]:
        for row in log.rows:
            own = row.cells.get(label)
            cells = {key: cell for key, cell in row.cells.items() if key not in (value, label)}
            part = next((str(row.cells.get(key)).lower() for key in of_parts if key != label), "")
            of_part = part in trained or (part in parts and called == "{}")
            form = "{}_loss" if str(own).lower() in trained and "_" in called else called
            name = f"{part}_{own}" if of_part else form.replace("{}", str(own))
            whole = {**cells, name: row.cells.get(value)}
            yield row if empty(own) or empty(row.cells.get(value)) else row._replace(cells=whole)

    for table in naming.LABELS:
        labels = [*table["labels"], *map(str.lower, of_parts if table["end"] == "_loss" else ())]
        losses = [by_case[key] for key in table["values"] if key in by_case]
        label = next((by_case[key] for key in labels if key in by_case), None)
        if losses and label is not None:
            # A label that all rows have is of what was trained on, where a loss beside it was measured.
            beside = list(filter(naming.measured_unit, losses)) if len(texts[label]) == 1 else []
            value = (beside or losses)[0]
            log.rows = list(named(value, label, f"{{}}{table['end']}"))
            return
    if set(by_case) == {"wall time", "step", "value"}:
        tag = re.search(r"tag-(.+)$", path.name.split(".csv")[0])
        called = tag[1].replace("_", "/", 1) if tag else path.stem
        log.rows = list(named(by_case["value"], by_case["wall time"], called))
        log.notes.append(f"{path}: the one series of this TensorBoard export is taken as {called}")
    elif names[1:] and all(" - " in name for name in names[1:]):
        log.rows = list(_chart_rows(log.rows, names))


def _chart_rows(rows: Sequence[Row], names: Sequence[str]) -> Iterator[Row]:
    """Yield what the export of a W&B chart has of each run, in columns RUN - SERIES, and their bounds."""
    # The chart's own axis: W&B's count of calls, unless another was chosen.
    axis = {name: "_step" if name == "Step" else name for name in names if " - " not in name}
    runs: dict[str, dict[str, str]] = {}
    for name in names:
        if name not in axis and not name.endswith(("__MIN", "__MAX")):
            run, series = name.rsplit(" - ", 1)
            runs.setdefault(run, {})[name] = series
    for row in rows:
        for run, own_series in runs.items():
            if not all(empty(row.cells.get(name)) for name in own_series):
                cells = {own: row.cells.get(name) for name, own in (axis | own_series).items()}
                yield row._replace(cells={"run": run, **cells})


def _parquet_rows(path: Path) -> Iterator[Row]:
    table = read_table(path)
    names = [str(name) for name in table.columns]
    for label, cells in zip(table.index, table.itertuples(index=False), strict=True):
        # A column of floats has NaN for an empty cell.
        pairs = zip(names, cells, strict=True)
        yield Row(f"{path}, row {label}", {name: cell for name, cell in pairs if cell == cell})


def _loaded(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        said = f"this is not JSON: {error}" if text.strip() else "it is empty"
        fix = "restore or remove it, or copy it again: it was cut off or damaged on its way"
        raise fail(place, said, fix) from None


def _json_rows(text: str, path: Path) -> Iterator[Row]:
    content = _loaded(text, str(path))
    if isinstance(content, dict) and isinstance(content.get("history"), list):
        content = content["history"]
    columns = list(content.values()) if isinstance(content, dict) else []
    if all(isinstance(own, list) for own in columns) and len(set(map(len, columns))) == 1:
        content = [dict(zip(content, cells, strict=True)) for cells in zip(*columns, strict=True)]
    if not isinstance(content, list):
        fix = "export the history as a list of objects, one for each step"
        raise fail(str(path), "this is not a list of rows", fix)
    for number, row in enumerate(content, start=1):
        yield _json_row(row, f"{path}, entry {number}")


def _json_row(row: object, place: str) -> Row:
    if not isinstance(row, dict):
        raise fail(place, f"this is {row!r}", "give an object for each step")
    return Row(place, flat(row))


def _json_lines(text: str, log: RawLog) -> Iterator[Row]:
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        place = f"{log.source}, line {number}"
        try:
            if line.strip():
                yield _json_row(_loaded(line, place), place)
        except StudyError:
            if number < len(lines):
                raise
            # Without a line break at its end the last line is still being written.
            log.notes.append(f"{place}: {raw.CUT_OFF}")


def _printed_json(text: str, log: RawLog) -> Iterator[Row]:
    """Yield the objects in the lines of a text log, whatever stands before and between them."""
    for number, line in _objects(text):
        place = f"{log.source}, line {number}"
        if row := _json_in(line):
            yield Row(place, row)
        elif re.search(r"\{[\"'].*loss", line):
            log.notes.append(f"{place}: it holds no whole object; left out")


def _objects(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text and their numbers; an object that is printed over several is one."""
    held: list[str] = []
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        held.append(line)
        begins = re.search(r"\{$|\{[\"'][^}]*,$", held[0].rstrip()) and "}" not in line
        if not begins or len(held) > LONGEST_OBJECT or number == len(lines):
            yield number - len(held) + 1, " ".join(held)
            held = []


def _json_in(line: str) -> dict[str, Any]:
    """Return the object at the end of a line, in JSON or Python, if it counts something, else none."""
    found = re.search(r"""\{["'].*\}\s*$""", line)
    text = re.sub(r"(?:np\.\w+|tensor)\(([^,()]+)[^()]*\)", r"\1", found[0] if found else "{}")
    if text[1] == "'":
        text = re.sub(r"\bnan\b", "NaN", re.sub(r"\binf\b", "Infinity", text.replace("'", '"')))
    try:
        row = flat(json.loads(text))
    except (ValueError, RecursionError):
        return {}
    return row if any(map(naming.count_of, row)) else {}


def flat(row: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return nested tables as one, names joined by slashes; those that only hold it all have none.

    ms-swift writes two counts as one text, and fairseq counts its evaluations by another name.

    Examples
    --------
    >>> flat({"step": 3, "eval": {"loss": 2.5}, "global_step/max_steps": "3/60"})
    {'step': 3, 'eval/loss': 2.5, 'global_step': '3', 'max_steps': '60'}
    >>> flat({"valid_num_updates": "3", "data": {"val/loss": 2.5}})
    {'num_updates': '3', 'val/loss': 2.5}
    """
    joined: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            inner = flat(value, above if name in naming.NAMES["wrappers"] else f"{above}{name}/")
            joined |= {key: own for key, own in inner.items() if key not in joined}
        elif name.endswith(f"_{naming.FAIRSEQ}"):
            joined[naming.FAIRSEQ] = value
        elif "/" in name and isinstance(value, str) and re.fullmatch(r"\d+/\d+", value):
            joined |= dict(zip(name.split("/"), value.split("/"), strict=False))
        else:
            joined[f"{above}{name}"] = value
    return joined


def _headed(text: str) -> tuple[list[str], int]:
    """Return the lines of a table of text from its header on, and how many are before it.

    In a Markdown table, as of model cards, bars are around each line; a header may be a comment, as NumPy
    writes it.
    """
    lines = text.splitlines()
    if text.startswith("|"):
        inner = [line.strip().strip("|") for line in lines]
        lines = [line if line.strip(" :|-") else "" for line in inner]
    own = (i for i, line in enumerate(lines) if line.strip() and not line.startswith(("#", "sep=")))
    above = next(own, 0)
    if above and _all_numbers(lines[above]):
        above -= 1
        lines[above] = lines[above].lstrip("# ")
    # A comment has no columns.
    remark = re.compile(rf"#(?!.*{MARKS})")
    below = ["" if remark.match(line) else line for line in lines[above + 1 :]]
    return [*lines[above : above + 1], *below] or [""], above


def _is_table(text: str) -> bool:
    """Whether the first line names columns, one of which counts; where blanks part them, above numbers."""
    header, below = (*_headed(text)[0], "")[:2]
    marked = re.search(MARKS, header) or _all_numbers(below)
    cells = re.split(MARKS if re.search(MARKS, header) else r"\s+", header)
    counts = any(naming.count_of(cell.strip(' "')) for cell in cells)
    return bool(marked) and len(cells) > 1 and counts


def _all_numbers(line: str) -> bool:
    return all(as_number(cell) is not None for cell in re.split(rf"{MARKS}|\s+", line.strip()))


def _csv_rows(text: str, log: RawLog) -> Iterator[Row]:
    path = log.source
    file = f"{path}, line"
    lines, above = _headed(text)
    delimiter = separator_of(lines[0])
    fewer = lines[-1].count(delimiter) < lines[0].count(delimiter)
    if not text.endswith("\n") and (fewer or cut_off(lines)):
        log.notes.append(f"{file} {above + len(lines)}: {raw.CUT_OFF}")
        lines.pop()
    header, rows = csv_lines("\n".join(lines), path, delimiter)
    for place, name in enumerate(header, start=1):
        # The first may be an index, as pandas writes it.
        if not name and place > 1 and any(cells[place - 1].strip() for _, cells in rows):
            fix = "write a name above each column, and nothing above the names"
            raise fail(f"{file} {above + 1}", f"column {place} has no name", fix)
        if name and header.count(name) > 1:
            problem = f"two columns are called {name!r}"
            raise fail(f"{file} {above + 1}, column {name}", problem, "rename one of them")
    if delimiter != ",":
        log.notes.append(f"{path}: columns are separated by {delimiter!r}")
        if any(raw.decimal_mark(cell.strip()) == "," for _, cells in rows for cell in cells):
            log.notes.append(f"{path}: numbers were read with decimal commas")
    for number, cells in rows:
        # A job that was resumed may have written its header again.
        if cells != header:
            named = {name: cell for name, cell in zip(header, cells, strict=True) if name}
            yield Row(f"{file} {number + above}", named)


# Hugging Face: trainer_state.json, and the checkpoint folders that hold it.


def _huggingface(path: Path) -> RawLog:
    """Read a state, a checkpoint, or a folder of checkpoints: a resumed run has parts in several."""
    files = [path, path / STATE, *(folder / STATE for folder in path.glob("checkpoint-*"))]
    states = [_state(file) for file in files if file.is_file()]
    if not states:
        problem = f"there is no {STATE} here, nor in folders checkpoint-N"
        fix = "name the Trainer's output folder, one of its checkpoints, or the file"
        raise fail(str(path), problem, fix)
    # Of states of one run the latest has the log of the others, but for what a resumed job did again.
    newest = max(states, key=_last_step)
    for state in states:
        if (begins := _first_trained(state)) and begins != _first_trained(newest):
            ours, theirs = (Path(either.source).parent for either in (newest, state))
            problem = f"there are two runs in it: {ours.name} lacks the log of {theirs.name}"
            fix = f"name one of its checkpoints, {ours} or {theirs}, or move the other run's away"
            raise fail(str(path), problem, fix)
    if len(states) > 1:
        file = Path(newest.source).relative_to(path)
        said = f"of {len(states)} states the newest is {file}, at step {_last_step(newest):g}"
        newest.notes.append(f"{path}: {said}; it was read")
    return replace(newest, source=str(path), counter="step", from_zero=False, trains_between=True)


def _state(file: Path) -> RawLog:
    state = _loaded(raw.text_of(file), str(file))
    history = state.get("log_history") if isinstance(state, dict) else None
    if not isinstance(history, list) or not all(isinstance(entry, dict) for entry in history):
        fix = f"name the {STATE} that the Trainer wrote into a checkpoint"
        raise fail(str(file), "it has no log_history", fix)
    place = f"{file}, log_history entry"
    rows = [Row(f"{place} {number}", entry) for number, entry in enumerate(history, start=1)]
    steps = raw.as_count(state.get("max_steps"))
    return RawLog(str(file), rows, stated={"steps": steps} if steps else {})


def _step(row: Row) -> float:
    return as_number(row.cells.get("step")) or 0.0


def _last_step(state: RawLog) -> float:
    return max(map(_step, state.rows), default=0.0)


def _first_trained(state: RawLog) -> Mapping[str, Any]:
    """Return the first entry after the base itself, which runs have in common."""
    return next((row.cells for row in state.rows if _step(row) > 0), {})


# TensorBoard.


def _tensorboard(path: Path) -> RawLog:
    """Read event files; a restarted job writes a new one, and their names begin with the time."""
    files = sorted([path] if path.is_file() else path.rglob(EVENTS))
    if not files:
        raise fail(str(path), f"there is no TensorBoard event file ({EVENTS})", "name its folder")
    log = RawLog(str(path), counter="step")
    folders = {file.parent for file in files}
    series: dict[str, set[str]] = {}
    for file in files:
        # SummaryWriter.add_scalars has a folder for each line of a figure.
        inside = len(folders) > 1 and file.parent != path
        below = f"{file.parent.relative_to(path).as_posix()}/" if inside else ""
        before = len(log.rows)
        _read_events(log, file, below)
        names = {name for row in log.rows[before:] for name in row.cells} - {"step"}
        series.setdefault(below, set()).update(name.removeprefix(below) for name in names)
    for one, other in combinations(series, 2):
        both = series[one] & series[other]
        # A figure's folders are called after it, others after what was measured.
        of_figure = {name for name in both if Path(one).name.startswith(name.replace("/", "_"))}
        held_out = naming.WORDS["held_out"].intersection(naming.words(f"{one}/{other}"))
        if len(both) > 1 or (both > of_figure and not held_out):
            said = f"the folders {one or '.'} and {other or '.'} have the same series"
            fix = "name one of these folders, or those of one resumed job in their order"
            raise fail(str(path), f"{said}: they are of two runs", fix)
    if len(files) > 1:
        log.notes.append(f"{path}: {len(files)} event files were read, in the order of their names")
    return log


def _read_events(log: RawLog, file: Path, below: str) -> None:
    """Add the numbers of an event file to a log: those that follow one another at a step are a row."""
    try:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.tensorflow_stub import errors
        from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import PyRecordReader_New
        from tensorboard.util.tensor_util import make_ndarray
    except ImportError:
        fix = "install it with pip install 'bayes-cpt[logs]', or export the run as CSV"
        raise fail(str(file), "its library, tensorboard, is not installed", fix) from None
    records = PyRecordReader_New(str(file))
    cells: dict[str, Any] = {}
    for number in count(1):
        place = f"{file}, event {number}"
        try:
            records.GetNext()
            event = Event.FromString(records.record())
        except errors.OutOfRangeError:
            return
        except Exception as error:
            if "truncated" in str(error).lower():
                log.notes.append(f"{place}: it is cut off and was left out")
                return
            problem = f"the file is damaged: {' '.join(str(error).split())[:200]}"
            raise fail(place, problem, "copy it again from where it was written") from None
        for value in event.summary.value:
            found = np.array([value.simple_value])
            if value.WhichOneof("value") != "simple_value":
                # Single or double precision.
                is_float = value.HasField("tensor") and value.tensor.dtype in (1, 2)
                found = make_ndarray(value.tensor) if is_float else np.empty(0)
            if found.size == 1:
                name = f"{below}{value.tag}"
                if cells.get("step") != event.step or name in cells:
                    cells = {"step": event.step}
                    log.rows.append(Row(place, cells))
                cells[name] = found.item()

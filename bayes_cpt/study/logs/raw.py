"""A raw log: rows of named cells as a reader found them, each with its place; and the numbers in cells."""

import bz2
import gzip
import io
import lzma
import math
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.errors import StudyError
from bayes_cpt.study.tables import PLAIN, UTF_16, decoded

EMPTY_CELLS = ("na", "n/a", "null", "none", "-", "--")
CUT_OFF = "the last line has no line break, as if it was cut off: it was left out"
COMPRESSED = (".gz", ".bz2", ".xz", ".zip")
# One separator before three digits: the thousands of a whole number, or a decimal mark.
UNCLEAR = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")
GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(?:([., \u00a0\u2009\u202f_'’])\d{3})(?:\1\d{3})*")
WITH_DECIMALS = re.compile(r"[+-]?(?:\d+|\d{1,3}(?:[., ]\d{3})+)([.,])\d+(?:e[+-]?\d+)?", re.I)
SUFFIXED = re.compile(r"([+-]?\d+(?:[.,]\d+)?)\s?([kmbg])", re.IGNORECASE)
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# What launchers and collectors of logs put before each line: a time, and of which process it is.
TIME = re.compile(
    r"^\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d[\d:.,]*(?:Z|[+-]\d\d:?\d\d)?\]?[ :]+(?:std(?:out|err) [FP] )?",
    re.M,
)
RANK = re.compile(r"^\[?(?:default|rank)?\d+\]?: ?", re.M)
LINES_OF_A_RANK = 5
FACTORS = {"k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9}


def _files_in(archive: zipfile.ZipFile) -> list[str]:
    # macOS packs a second one with what it knows of each.
    return [n for n in archive.namelist() if not n.endswith("/") and not n.startswith("__MACOSX/")]


def _unzipped(content: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = _files_in(archive)
        if len(names) != 1:
            raise ValueError(f"{len(names)} files are in it")
        return archive.read(names[0])


# By how a packed file begins.
UNPACK = {
    b"\x1f\x8b": gzip.decompress,
    b"BZh": bz2.decompress,
    b"\xfd7zXZ": lzma.decompress,
    b"PK\x03\x04": _unzipped,
}


# The error of one problem.
fail = StudyError.at


@dataclass(frozen=True)
class Stated:
    """What a log states of its job beside the numbers of its curves; None where it does not say."""

    steps: int | None = None  # optimiser steps that were announced
    batch_tokens: float | None = None  # tokens of an optimiser step


class Row(NamedTuple):
    """What was logged together: cells by the name of their series."""

    place: str  # as in ``train.csv, line 12``
    cells: Mapping[str, Any]


@dataclass
class RawLog:
    """A log as it was found, before anything is chosen, converted or left out."""

    source: str  # its path
    # In the order of the log: a restart is seen by steps that fall
    rows: list[Row] = field(default_factory=list)
    # The series in which its format counts steps, empty where that is not settled
    counter: str = ""
    # Whether the first step is called 0; None where the evaluations are to tell
    from_zero: bool | None = None
    # Whether its format repeats the last validation loss on each line until there is a new one; None where
    # the values are to tell
    carries: bool | None = None
    # Whether a second evaluation at a step can only be of another checkpoint, as the job logs all else
    trains_between: bool = False
    no_rates: str = ""  # why its format has no learning rates
    # Fields of `Stated`, as far as they were found
    stated: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # what was assumed or left out while reading


class Cells:
    """The cells of some rows by the name of their series, in order of appearance; empty ones are None."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        self.names = list(dict.fromkeys(name for row in rows for name in row.cells))
        self._columns: dict[str, list[Any]] = {}

    def column(self, name: str) -> list[Any]:
        """Return the cells of a series, one a row."""
        if name not in self._columns:
            cells = (row.cells.get(name) for row in self.rows)
            self._columns[name] = [None if empty(cell) else cell for cell in cells]
        return self._columns[name]

    def given(self, names: Iterable[str]) -> NDArray[np.bool_]:
        """Return in which rows any of some series has a cell."""
        found = np.zeros(len(self.rows), dtype=bool)
        for name in names:
            found |= [cell is not None for cell in self.column(name)]
        return found

    def kept(self, which: NDArray[np.bool_]) -> "Cells":
        """Return some of the rows."""
        return Cells(list(compress(self.rows, which)))


def says_empty(cell: Any) -> bool:
    """Whether a cell says in words or signs that nothing is in it."""
    return isinstance(cell, str) and cell.strip().lower() in EMPTY_CELLS


def empty(cell: Any) -> bool:
    """Whether a cell has nothing in it."""
    return cell is None or (isinstance(cell, str) and not cell.strip())


def as_number(value: object) -> float | None:
    """Return a cell or JSON value as a plain number, None where it is not one.

    Examples
    --------
    >>> as_number("2e-4"), as_number(True), as_number("n/a"), as_number(3)
    (0.0002, None, None, 3.0)
    """
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        return float(value) if PLAIN.fullmatch(value.strip()) else None
    if isinstance(value, int):
        # A whole number may be too large for any float.
        return float(value) if abs(value) < 1e300 else math.inf
    return float(value) if hasattr(value, "__float__") else None


def as_count(value: object) -> int | None:
    """Return a cell or JSON value as a number of at least one, None where it is none."""
    number = as_number(value)
    return int(number) if number is not None and 1.0 <= number < math.inf else None


def numbers(
    cells: Sequence[Any], rows: Iterable[Row] = (), *, whole: bool = False
) -> tuple[list[float | None], list[int], list[int]]:
    """Return cells as numbers, None for empty ones; the places of those that are none, and of unclear ones.

    Whether the sign in 1.000 and 2,871 is a decimal mark is settled by the other cells, and by the rows of
    the whole table.

    Examples
    --------
    >>> numbers(["1,000", "12k", "1 500", "-"], whole=True)[0]
    [1000.0, 12000.0, 1500.0, None]
    >>> numbers(["1.234,5", "3,25e-4", "2,871"])[0]
    [1234.5, 0.000325, 2.871]
    """
    read: list[float | None] = []
    wrong: list[int] = []
    unclear: list[int] = []
    for place, cell in enumerate(cells):
        text = cell.strip() if isinstance(cell, str) else ""
        value = _of_text(text) if text else as_number(cell)
        if text[-4:-3] in (".", ",") and UNCLEAR.fullmatch(text):
            unclear.append(place)
        elif value is None and not empty(cell) and not says_empty(cell):
            wrong.append(place)
        read.append(value)
    if not unclear:
        return read, wrong, unclear
    texts = [str(cell).strip() for cell in cells]
    sure = _sure_mark("," if "," in texts[unclear[0]] else ".", texts, rows, whole=whole)
    for place in unclear:
        own = "," if "," in texts[place] else "."
        digits = texts[place].replace(own, "." if own == sure else "")
        read[place] = None if sure is None else float(digits)
    return read, wrong, unclear if sure is None else []


def printed_spacing(cells: Iterable[Any]) -> float:
    """Return by how much numbers differ at least as they are printed, 0 where that is not told.

    Examples
    --------
    >>> printed_spacing(["131.1M", "262M"]), printed_spacing([0.1311, 0.131]), printed_spacing(["1e9"])
    (100000.0, 0.0001, 0.0)
    """
    shown = r"\d+(?:[.,](\d+))?\s?([kmbg]?)"
    found = [re.fullmatch(shown, str(cell).strip(), re.I) for cell in cells if not empty(cell)]
    told = [FACTORS.get(own[2].lower(), 1.0) / 10 ** len(own[1] or "") for own in found if own]
    return min(told) if told and len(told) == len(found) else 0.0


def _of_text(text: str) -> float | None:
    """Return the number of a text that can be read in one way only."""
    if PLAIN.fullmatch(text):
        return float(text)
    if found := SUFFIXED.fullmatch(text):
        return float(found[1].replace(",", ".")) * FACTORS[found[2].lower()]
    if GROUPED.fullmatch(text):
        return float(re.sub(r"[^\d+-]", "", text))
    if found := WITH_DECIMALS.fullmatch(text):
        other = "," if found[1] == "." else "."
        return float(re.sub(f"[{other} \u00a0]", "", text).replace(",", "."))
    return None


def decimal_mark(text: str) -> str | None:
    """Return the sign that is a decimal mark in a number for certain, None where none is.

    Examples
    --------
    >>> decimal_mark("2.8708"), decimal_mark("1,000"), decimal_mark("1.000.000")
    ('.', None, None)
    """
    found = WITH_DECIMALS.fullmatch(text)
    return found[1] if found and not GROUPED.fullmatch(text) else None


def _sure_mark(mark: str, texts: list[str], rows: Iterable[Row], *, whole: bool) -> str | None:
    """Return the decimal mark of unclear numbers, empty where they have thousands, None if it is open."""
    others = (str(cell).strip() for row in rows for cell in row.cells.values())
    own, marks = ({decimal_mark(text) for text in of} - {None} for of in (texts, others))
    marks |= own
    if not whole:
        return mark if marks <= {mark} else None
    if marks == {mark}:
        # In a count 1.000 beside 0.5 is still no sure one, and beside 1000.000 it is.
        return mark if own else None
    small = any(re.fullmatch(r"[1-9]\d{0,2}", text) for text in texts)
    odd = any(UNCLEAR.fullmatch(text) and not text.endswith("000") for text in texts)
    return "" if marks or mark == "," or small or odd else None


def content_of(path: Path) -> bytes:
    """Return the bytes of a file, unpacked if it is packed alone."""
    content = path.read_bytes()
    try:
        for start, unpack in UNPACK.items():
            if content.startswith(start):
                return unpack(content)
    except (OSError, EOFError, ValueError, lzma.LZMAError, zipfile.BadZipFile) as error:
        fix = "copy it again, or unpack it and name the log"
        raise fail(str(path), f"it cannot be unpacked: {error}", fix) from None
    return content


def text_of(path: Path) -> str:
    """Return the text of a file, packed or not."""
    return decoded(content_of(path), str(path))


def printed_text(path: Path, *, stripped: bool = True) -> str:
    """Return what a program printed, in which bytes may be damaged, without colours and prefixes."""
    content = content_of(path)
    encoding = "utf-16" if content.startswith(UTF_16) else "utf-8-sig"
    text = CONTROL.sub("", content.decode(encoding, errors="replace"))
    if not stripped:
        return text
    text = TIME.sub("", text)
    ranks = RANK.findall(text)
    # A step stands before a few lines at most, a process before many.
    return RANK.sub("", text) if len(ranks) >= LINES_OF_A_RANK * len({*ranks}) else text


def unpacked_name(path: Path) -> Path:
    """Return a path without the ending that says that it is packed."""
    return path.with_suffix("") if path.suffix in COMPRESSED else path


def inner_name(path: Path) -> Path:
    """Return the name of the one file of a zip, of any other path as `unpacked_name`."""
    if path.suffix == ".zip" and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if len(names := _files_in(archive)) == 1:
                return Path(names[0])
    return unpacked_name(path)

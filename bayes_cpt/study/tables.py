"""Tables of a study, losses and logged learning rates: files read, cells checked, then converted."""

import codecs
import csv
import io
import re
import warnings
from collections.abc import Hashable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.checks import Check, suggestion
from bayes_cpt.errors import Problem, StudyError, StudyWarning

# A number as much of the world writes it.
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(e[+-]?\d+)?", re.IGNORECASE)
THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+")
LOSS_COLUMNS = ("run", "step", "domain", "loss")
RATE_COLUMNS = ("run", "step", "lr")
TEXT_COLUMNS = ("run", "domain")
# No cross-entropy, nor a perplexity that somebody forgot to take the log of, lies outside.
LOWEST_LOSS, HIGHEST_LOSS = 1e-12, 1e7
# Within what a number must lie, and what to say if it does not.
NUMBER_COLUMNS = {
    "step": (0.0, np.inf, "give a whole number of steps, not below 0"),
    "loss": (
        LOWEST_LOSS,
        HIGHEST_LOSS,
        "give a cross-entropy in nats/token above 0, or remove the row",
    ),
    "lr": (0.0, np.inf, "give a raw learning rate, a number not below 0, or remove the row"),
}
SUFFIXES = (".csv", ".parquet")
# What programs separate columns by, besides blanks.
SEPARATORS = ",;\t|"
# Its number and its cells.
type Line = tuple[int, list[str]]
# Of each run, by validation set, the steps and the losses there (nats/token).
type LossCurves = dict[str, dict[str, tuple[Ints, Floats]]]
# Enough to see how the numbers at their ends are printed.
FEW_LINES = 6
# Numbers of fewer may end in a whole one.
FEWEST_DECIMALS = 3
PLAIN = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|[+-]?(?:nan|inf|infinity)", re.I)
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def find_table(folder: Path, stem: str) -> Path | None:
    """Return the path of the table of that stem, None where there is none; refuse one in two formats."""
    files = [path for suffix in SUFFIXES if (path := folder / f"{stem}{suffix}").is_file()]
    if len(files) > 1:
        problem = f"both {files[0].name} and {files[1].name} are there"
        raise StudyError.at(str(folder), problem, "remove one of them")
    return files[0] if files else None


def read_table(path: Path) -> pd.DataFrame:
    """Read a table; the cells of a CSV file stay text, and its index is the line number.

    Refused if the file is empty, not UTF-8, or a row has the wrong number of cells.
    """
    if path.suffix == ".csv":
        return _read_csv(path)
    try:
        table = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        problem = f"this is not a Parquet file: {str(error).splitlines()[0]}"
        raise StudyError.at(str(path), problem, "write it again, or as CSV") from error
    # Columns that pandas had as its index stay.
    table = table.reset_index(drop=table.index.names == [None])
    table.index += 1
    return table


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write a table of a study as its file name says; the numbers of a Parquet file are numbers."""
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    else:
        kinds = {name: "int64" if name == "step" else "float64" for name in NUMBER_COLUMNS}
        of_table = {name: kind for name, kind in kinds.items() if name in table}
        table.astype(of_table).to_parquet(path, index=False)


def loss_curves(losses: pd.DataFrame) -> LossCurves:
    """Return the curves of checked losses, rows in their order; arrays are read-only."""
    columns = (losses["step"].to_numpy(dtype=np.int64), losses["loss"].to_numpy(dtype=np.float64))
    curves: LossCurves = {}
    for (run, domain), rows in losses.groupby(["run", "domain"], sort=False).indices.items():
        steps, values = (column[rows] for column in columns)
        for own in (steps, values):
            own.setflags(write=False)
        curves.setdefault(run, {})[domain] = (steps, values)
    return curves


def row_word(file: str | Path) -> str:
    """Return what messages call a row of that file."""
    return "line" if Path(file).suffix == ".csv" else "row"


def separator_of(header: str) -> str:
    """Return what separates the columns of a header line: a blank where it has no other sign."""
    mark = max(SEPARATORS, key=header.count)
    return " " if mark not in header and " " in header.strip() else mark


def _read_csv(path: Path) -> pd.DataFrame:
    text = decoded(path.read_bytes(), str(path))
    if text.startswith("#"):
        fix = "begin the file with the names of its columns, without #"
        raise StudyError.at(f"{path}, line 1", "the first line is a comment", fix)
    header, lines = csv_lines(text, str(path), separator_of(text.partition("\n")[0]))
    if not header:
        fix = "write a header line and one row per measurement"
        raise StudyError.at(str(path), "the file is empty", fix)
    if not text.endswith("\n") and cut_off(text.splitlines()):
        problem = "the last number is shorter than the others, and no line break follows: it may be cut off"
        caution = Problem(str(path), problem, "copy the file again, or end it with a line break")
        warnings.warn(str(caution), StudyWarning, stacklevel=3)
    rows = [[cell.strip() for cell in cells] for _, cells in lines]
    return pd.DataFrame(rows, columns=header, index=[number for number, _ in lines], dtype=object)


def decoded(content: bytes, place: str) -> str:
    """Return the text of a file in UTF-8 or, by its byte-order mark, in UTF-16; refuse any other."""
    encoding = "utf-16" if content.startswith(UTF_16) else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        problem = f"byte {error.start} is not UTF-8"
        raise StudyError.at(place, problem, "save the file as UTF-8") from None
    if "\0" in text:
        problem = f"character {text.index(chr(0)) + 1} is a null byte: this is not a text file"
        raise StudyError.at(place, problem, "copy the file again, or name the right kind of log")
    return text


def cut_off(lines: Sequence[str]) -> bool:
    """Whether the last of some lines ends within a number, shorter than that of all lines that begin alike.

    Or without the point or the exponent that the last numbers before it have.

    Examples
    --------
    >>> cut_off(["step,loss", "10,2.912", "20,2.8"]), cut_off(["10,2.91", "20,2.87"])
    (True, False)
    >>> cut_off(["step,lr", "10,1.5e-4", "20,1.4e-4", "30,1.3"]), cut_off(["10,2e-5", "20,1e-5", "30,0.0"])
    (True, False)
    """
    ends = [(re.split(r"\d", line)[0], len(re.split(r"\D", line)[-1])) for line in lines]
    begin, digits = ends[-1]
    *before, last = (re.split(r"[,;\t| ]", line)[-1].lower() for line in lines[-FEW_LINES:])
    numbers_before = [own for own in before if PLAIN.fullmatch(own)]
    signs = set(".e").intersection(*numbers_before) if len(numbers_before) > 1 else set()
    # All but one: a first loss may be round.
    decimals = sorted(len(own.partition(".")[2]) for own in numbers_before)
    if decimals and decimals[min(1, len(decimals) - 1)] < FEWEST_DECIMALS:
        signs -= {"."}
    # A number that lost its exponent is one that an exponent may follow, and not 0 or 0.001.
    unlike = PLAIN.fullmatch(last) is not None and not signs <= set(last) and float(last) >= 1.0
    return unlike or digits < min((own for start, own in ends[:-1] if start == begin), default=0)


def csv_lines(text: str, place: str, delimiter: str = ",") -> tuple[list[str], list[Line]]:
    """Return the header of a CSV text, and the number and the cells of each line that is not blank.

    Refused if it is no CSV, or lines have more or fewer cells than the header.
    """
    file = io.StringIO(text, newline="")
    reader = csv.reader(file, delimiter=delimiter, skipinitialspace=True, strict=True)
    check, lines = Check(), []
    try:
        header = [cell.strip() for cell in next(reader, [])]
        for cells in reader:
            if len(cells) == len(header):
                lines.append((reader.line_num, cells))
            elif any(map(str.strip, cells)):
                # The comma of a number makes two cells of it.
                decimal = len(cells) > len(header) and all(cell.isdigit() for cell in cells[-2:])
                problem = f"the line has {len(cells)} cells, the header {len(header)}"
                point = f": write {'.'.join(cells[-2:])} with a point" if decimal else ""
                fix = f"give it the cells {', '.join(header)}{point}"
                check.add(f"{place}, line {reader.line_num}", problem, fix)
    except csv.Error as error:
        place, problem = f"{place}, line {reader.line_num}", f"this is not CSV: {error}"
        raise StudyError.at(place, problem, "close the quotes and save it again") from None
    check.raise_problems()
    return header, lines


class TableCheck(Check):
    """Problems of one table, whose index labels its rows; messages call it by its file."""

    def __init__(self, table: pd.DataFrame, file: str) -> None:
        super().__init__()
        self.table = table
        self.file = file
        self.row = row_word(file)
        self.cautions = Check()  # what is odd, though usable

    def place(self, label: Hashable) -> str:
        """Return the place of a row: file, line, and the run, step and domain it is about."""
        row = self.table.loc[label]
        about = [f"{key} {row[key]}" for key in ("run", "step", "domain") if key in row]
        return ", ".join([self.file, f"{self.row} {label}", *about])

    def columns(self, expected: Sequence[str]) -> None:
        """Note missing, unknown and repeated columns."""
        names = [str(column) for column in self.table.columns]
        others = [column for column in names if column not in expected]
        missing = [column for column in expected if column not in names]
        fix = f"name the columns {', '.join(expected)}, or import it: bayes-cpt import csv --help"
        if missing == ["domain", "loss"] and len(others) > 1:
            problem = f"the columns {', '.join(others)} stand in place of domain and loss"
            fix = f"write a row for each validation set; {fix}"
            self.add(f"{self.file}, column loss", problem, fix)
            return
        problems = {column: f"is missing among {', '.join(names) or 'none'}" for column in missing}
        problems |= {column: f"is unknown{suggestion(column, expected)}" for column in others}
        problems |= {"": "has no name (pandas writes none with index=False)"} if "" in names else {}
        repeated = (column for column in names if names.count(column) > 1)
        problems |= {column: f"stands there {names.count(column)} times" for column in repeated}
        for column, problem in problems.items():
            self.add(f"{self.file}, column {column}", f"the column {column!r} {problem}", fix)

    def cells(self) -> pd.DataFrame:
        """Note every cell that is not what its column holds; return the good rows, converted."""
        good = np.ones(len(self.table), dtype=bool)
        converted = {}
        for column in self.table.columns:
            cells = self.table[column]
            if column in TEXT_COLUMNS:
                values = cells.astype(object)
                fine = np.array([isinstance(own, str) and own != "" for own in cells], dtype=bool)
                fix = f"give the name of a {column}"
            else:
                lowest, highest, fix = NUMBER_COLUMNS[column]
                values = pd.to_numeric(cells, errors="coerce").astype("float64")
                numbers = values.to_numpy()
                # True and False would pass as 1 and 0.
                truths = np.array([isinstance(cell, bool | np.bool_) for cell in cells], dtype=bool)
                fine = np.isfinite(numbers) & (numbers >= lowest) & (numbers <= highest) & ~truths
                fine &= (column != "step") | (numbers == np.floor(numbers))
            for label in self.table.index[~fine]:
                cell = self.table.at[label, column]
                cell = cell.item() if isinstance(cell, np.generic) else cell
                whole = column == "step"
                comma = (THOUSANDS if whole else DECIMAL_COMMA).fullmatch(str(cell))
                mend = f"write {str(cell).replace(',', '' if whole else '.')}, without a comma"
                wrong = f"the {column} is {cell!r}"
                self.add(self.place(label), wrong, mend if comma and values.dtype == float else fix)
            good &= fine
            converted[column] = values
        return pd.DataFrame(converted, index=self.table.index)[good].astype({"step": "int64"})

    def duplicates(self, table: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
        """Note rows that repeat the keys of an earlier row; return the table without them."""
        alike = table[table.duplicated(keys, keep=False)]
        labels = alike.assign(label=alike.index).groupby(keys, sort=False)["label"]
        for label, before in labels.transform("first")[alike.duplicated(keys)].items():
            problem = f"{self.row} {before} already holds this {', '.join(keys)}"
            self.add(self.place(label), problem, "keep one of the two rows")
        return table.drop_duplicates(keys)

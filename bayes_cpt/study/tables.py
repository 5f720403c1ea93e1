"""Tables of a study, losses and logged learning rates: files read, cells checked, then converted."""

import codecs
import csv
import re
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats
from bayes_cpt.checks import Check, suggestion
from bayes_cpt.errors import StudyError

if TYPE_CHECKING:
    import pandas as pd

# A number as much of the world writes it.
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(e[+-]?\d+)?", re.IGNORECASE)
LOSS_COLUMNS = ("run", "step", "domain", "loss")
RATE_COLUMNS = ("run", "step", "lr")
TEXT_COLUMNS = ("run", "domain")
# No cross-entropy, nor a perplexity that somebody forgot to take the log of, lies outside.
LOWEST_LOSS, HIGHEST_LOSS = 1e-12, 1e7
# What a number must be besides finite, and what to say if it is not.
NUMBER_COLUMNS: dict[str, tuple[Callable[[Floats], NDArray[np.bool_]], str]] = {
    "step": (
        lambda step: (step >= 0) & (step == np.floor(step)),
        "give a whole number of steps, not below 0",
    ),
    "loss": (
        lambda loss: (loss >= LOWEST_LOSS) & (loss <= HIGHEST_LOSS),
        "give a cross-entropy in nats/token, a finite number above 0, or remove the row",
    ),
    "lr": (
        lambda rate: rate >= 0,
        "give a raw learning rate, a finite number not below 0, or remove the row",
    ),
}
SUFFIXES = (".csv", ".parquet")
# What programs separate columns by beside commas, and what messages call it.
SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars", " ": "blanks"}
# Of any table of a study.
FEWEST_COLUMNS = 3
# Bytes that are enough to tell how a table is written.
LOOKED_AT = 4096


def find_table(folder: Path, stem: str) -> Path | None:
    """Return the path of the table of that stem, None where there is none.

    Raises
    ------
    StudyError
        If it is there both as CSV and as Parquet.
    """
    files = [path for suffix in SUFFIXES if (path := folder / f"{stem}{suffix}").is_file()]
    if len(files) > 1:
        problem = f"both {files[0].name} and {files[1].name} are there"
        raise StudyError.at(str(folder), problem, "remove one of them")
    return files[0] if files else None


def read_table(path: Path) -> "pd.DataFrame":
    """Read a table; the cells of a CSV file stay text, and its index is the line number.

    Raises
    ------
    StudyError
        If the file is empty, not UTF-8, or a row has the wrong number of cells.
    """
    if path.suffix == ".csv":
        return _read_csv(path)
    import pandas as pd

    try:
        table = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        problem = f"this is no Parquet file: {str(error).splitlines()[0]}"
        raise StudyError.at(str(path), problem, "write it again, or as CSV") from error
    table = table.reset_index(drop=True)
    table.index += 1
    return table


def row_word(path: Path) -> str:
    """Return what messages call a row of that file."""
    return "line" if path.suffix == ".csv" else "row"


def check_separator(path: Path) -> None:
    """Refuse a table whose cells are separated by anything but commas, as many spreadsheets write it.

    Raises
    ------
    StudyError
        Naming the separator, decimal commas too, and the reader that takes them.
    """
    with path.open("rb") as file:
        content = file.read(LOOKED_AT)
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        problem = "the file is UTF-16, as spreadsheets export Unicode text"
        raise StudyError.at(str(path), problem, "save it as CSV in UTF-8")
    header, *rows = content.decode("utf-8-sig", errors="replace").splitlines() or [""]
    counts = {mark: len(header.split(mark)) for mark in SEPARATORS}
    separator = max(counts, key=counts.__getitem__)
    if "," in header or counts[separator] < FEWEST_COLUMNS:
        return
    problem = f"the columns are separated by {SEPARATORS[separator]}"
    cells = [cell for row in rows for cell in row.split(separator)]
    if any(DECIMAL_COMMA.fullmatch(cell.strip(' "')) for cell in cells):
        problem += " and numbers have decimal commas"
    fix = (
        "save it with commas between the columns and decimal points, or have it read as it is: "
        "bayes-cpt import csv --help"
    )
    raise StudyError.at(str(path), problem, fix)


def _read_csv(path: Path) -> "pd.DataFrame":
    import pandas as pd

    check_separator(path)
    check = Check()
    rows, lines = [], []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, skipinitialspace=True, strict=True)
            header = [cell.strip() for cell in next(reader, [])]
            for row in reader:
                if not row:
                    continue
                if len(row) != len(header):
                    # The comma of a number makes two cells of it.
                    decimal = len(row) > len(header) and all(cell.isdigit() for cell in row[-2:])
                    hint = f": write {'.'.join(row[-2:])} with a point" if decimal else ""
                    check.add(
                        f"{path}, line {reader.line_num}",
                        f"the line has {len(row)} cells, the header {len(header)}",
                        f"give it the {len(header)} cells {', '.join(header)}{hint}",
                    )
                    continue
                rows.append([cell.strip() for cell in row])
                lines.append(reader.line_num)
    except UnicodeDecodeError as error:
        problem = f"byte {error.start} is not UTF-8"
        raise StudyError.at(str(path), problem, "save the file as UTF-8") from error
    except csv.Error as error:
        place = f"{path}, line {reader.line_num}"
        problem = f"this is not CSV: {error}"
        raise StudyError.at(place, problem, "close the quotes and save it again") from error
    if not header:
        check.add(str(path), "the file is empty", "write a header line and one row per measurement")
    check.raise_problems()
    return pd.DataFrame(rows, columns=header, index=lines, dtype=object)


class TableCheck(Check):
    """Problems of one table, whose index labels its rows.

    Parameters
    ----------
    file : str
        What messages call the table.
    row : str
        What messages call a row label: "line" in a CSV file.
    """

    def __init__(self, table: "pd.DataFrame", file: str, row: str) -> None:
        super().__init__()
        self.table = table
        self.file = file
        self.row = row

    def place(self, label: Hashable) -> str:
        """Return the place of a row: file, line, and the run, step and domain it is about."""
        row = self.table.loc[label]
        about = [f"{key} {row[key]}" for key in ("run", "step", "domain") if key in row]
        return ", ".join([self.file, f"{self.row} {label}", *about])

    def columns(self, expected: Sequence[str]) -> None:
        """Note missing, unknown and repeated columns."""
        wanted = ", ".join(expected)
        names = [str(column) for column in self.table.columns]
        others = [column for column in names if column not in expected]
        if set(expected) - set(names) == {"domain", "loss"} and len(others) > 1:
            self.add(
                f"{self.file}, column loss",
                f"the columns {', '.join(others)} stand in place of domain and loss",
                f"write a row for each validation set, with the columns {wanted}, or have the table read "
                "as it is: bayes-cpt import csv --help",
            )
            return
        for column in expected:
            if column not in names:
                self.add(
                    f"{self.file}, column {column}",
                    f"the column {column!r} is missing among {', '.join(names) or 'none'}",
                    f"name the columns {wanted}, separated by commas; bayes-cpt import csv --help "
                    "says how to map others",
                )
        for column in names:
            if column not in expected:
                self.add(
                    f"{self.file}, column {column}",
                    f"the column {column!r} is unknown{suggestion(column, expected)}",
                    f"keep only the columns {wanted}",
                )
        for column in {column for column in names if names.count(column) > 1}:
            self.add(
                f"{self.file}, column {column}",
                f"the column {column!r} stands there {names.count(column)} times",
                "keep it once",
            )

    def cells(self) -> "pd.DataFrame":
        """Note every cell that is not what its column holds; return the good rows, converted."""
        import pandas as pd

        good = np.ones(len(self.table), dtype=bool)
        converted = {}
        for column in self.table.columns:
            cells = self.table[column]
            if column in TEXT_COLUMNS:
                values = cells.astype(object)
                fine = _is_text(cells)
                fix = f"give the name of a {column}"
            else:
                is_allowed, fix = NUMBER_COLUMNS[column]
                values = pd.to_numeric(cells, errors="coerce").astype("float64")
                numbers = values.to_numpy()
                fine = np.isfinite(numbers) & is_allowed(numbers) & ~_is_truth(cells)
            for label in self.table.index[~fine]:
                cell = self.table.at[label, column]
                with_point = f"write {str(cell).replace(',', '.')} with a decimal point"
                decimal = column not in TEXT_COLUMNS and DECIMAL_COMMA.fullmatch(str(cell))
                self.add(
                    self.place(label), f"the {column} is {cell!r}", with_point if decimal else fix
                )
            good &= fine
            converted[column] = values
        table = pd.DataFrame(converted, index=self.table.index)[good]
        return table.astype({"step": "int64"})

    def duplicates(self, table: "pd.DataFrame", keys: list[str]) -> "pd.DataFrame":
        """Note rows that repeat the keys of an earlier row; return the table without them."""
        repeated = table.duplicated(keys).to_numpy()
        if not repeated.any():
            return table
        first = table[~repeated].reset_index(names="first_label").set_index(keys)["first_label"]
        for label in table.index[repeated]:
            before = first.loc[tuple(table.loc[label, keys])]
            self.add(
                self.place(label),
                f"{self.row} {before} already holds this {', '.join(keys)}",
                "keep one of the two rows",
            )
        return table[~repeated]


def _is_text(cells: "pd.Series") -> NDArray[np.bool_]:
    """Return which cells hold a text that is not empty."""
    import pandas as pd

    if isinstance(cells.dtype, pd.StringDtype):
        return np.asarray((cells.notna() & (cells != "")).to_numpy(dtype=bool, na_value=False))
    if pd.api.types.infer_dtype(cells, skipna=False) == "string":
        return np.asarray(cells.to_numpy() != "", dtype=bool)
    return np.array([isinstance(cell, str) and cell != "" for cell in cells], dtype=bool)


def _is_truth(cells: "pd.Series") -> NDArray[np.bool_]:
    """Return which cells hold true or false: they would pass as 1 and 0."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(cells) and not pd.api.types.is_bool_dtype(cells):
        return np.zeros(len(cells), dtype=bool)
    return np.array([isinstance(cell, bool | np.bool_) for cell in cells], dtype=bool)

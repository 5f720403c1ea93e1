"""Tables of a study folder: CSV or Parquet -> DataFrame whose index names the rows."""

import codecs
import csv
from pathlib import Path
from typing import TYPE_CHECKING

from bayes_cpt.checks import Check
from bayes_cpt.errors import StudyError
from bayes_cpt.study.tables import DECIMAL_COMMA

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".csv", ".parquet")
# What programs separate columns by beside commas, and what messages call it.
SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars", " ": "blanks"}
# Of any table of a study.
FEWEST_COLUMNS = 3
# Bytes that are enough to tell how a table is written.
LOOKED_AT = 4096


def find_table(folder: Path, stem: str) -> Path | None:
    """Return the path of the table of that stem, None where there is none.

    Parameters
    ----------
    folder : Path
    stem : str
        As in ``losses``.

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

    Parameters
    ----------
    path : Path
        A CSV or Parquet file.

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
    """Return what messages call a row of that file.

    Parameters
    ----------
    path : Path
        A CSV or Parquet file.
    """
    return "line" if path.suffix == ".csv" else "row"


def check_separator(path: Path) -> None:
    """Refuse a table whose cells are separated by anything but commas, as many spreadsheets write it.

    Parameters
    ----------
    path : Path
        A text file.

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

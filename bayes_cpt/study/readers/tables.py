"""Tables of a study folder: CSV or Parquet -> DataFrame whose index names the rows."""

import csv
from pathlib import Path
from typing import TYPE_CHECKING

from bayes_cpt.checks import Check
from bayes_cpt.errors import Problem, StudyError

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".csv", ".parquet")


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
    found = [path for suffix in SUFFIXES if (path := folder / f"{stem}{suffix}").is_file()]
    if len(found) > 1:
        problem = f"both {found[0].name} and {found[1].name} are there"
        raise StudyError([Problem(str(folder), problem, "remove one of them")])
    return found[0] if found else None


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
        raise StudyError([Problem(str(path), problem, "write it again, or as CSV")]) from error
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


def _read_csv(path: Path) -> "pd.DataFrame":
    import pandas as pd

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
                    check.add(
                        f"{path}, line {reader.line_num}",
                        f"the line has {len(row)} cells, the header {len(header)}",
                        f"give it the {len(header)} cells {', '.join(header)}",
                    )
                    continue
                rows.append([cell.strip() for cell in row])
                lines.append(reader.line_num)
    except UnicodeDecodeError as error:
        problem = f"byte {error.start} is not UTF-8"
        raise StudyError([Problem(str(path), problem, "save the file as UTF-8")]) from error
    except csv.Error as error:
        place = f"{path}, line {reader.line_num}"
        problem = f"this is not CSV: {error}"
        raise StudyError([Problem(place, problem, "close the quotes and save it again")]) from error
    if not header:
        check.add(str(path), "the file is empty", "write a header line and one row per measurement")
    check.raise_problems()
    return pd.DataFrame(rows, columns=header, index=lines, dtype=object)

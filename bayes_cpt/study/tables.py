"""Tables of a study, losses and logged learning rates: cells checked, then converted."""

import re
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats
from bayes_cpt.checks import Check, suggestion

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

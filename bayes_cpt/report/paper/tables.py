"""Tables as papers have them: LaTeX with booktabs, Markdown and CSV.

A `TextTable` holds the cells as they are printed, with the digits that their uncertainty supports, and
beside them the numbers, which a CSV file keeps whole.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bayes_cpt.report.paper.notation import latex_symbol

if TYPE_CHECKING:
    import pandas as pd

# What LaTeX takes for a command, and signs that it does not print from text.
SIGNS = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\n": " ",
    "−": "$-$",
    "±": r"$\pm$",
    "²": "$^2$",
    "→": r"$\rightarrow$",
    "λ": r"$\lambda$",
    "…": r"\ldots{}",
}


@dataclass(frozen=True, eq=False)
class TextTable:
    """A table of a result.

    Parameters
    ----------
    caption : str
        A sentence, without a full stop.
    cells : DataFrame of str
        As they are printed, with their headings.
    values : DataFrame
        The numbers behind them, for machines.
    numbers : int
        How many of the last columns hold numbers.
    note : str
        What a reader needs besides; empty where that is nothing.
    symbol : str or None
        The column whose cells are names of coefficients, to be printed as letters.
    label : str
        What LaTeX refers to it by, without ``tab:``.
    """

    caption: str
    cells: "pd.DataFrame"
    values: "pd.DataFrame"
    numbers: int = 0
    note: str = ""
    symbol: str | None = None
    label: str = "result"

    @property
    def legend(self) -> str:
        """Caption and note as sentences."""
        return " ".join(f"{text}." for text in (self.caption, self.note.rstrip(".")) if text)


def latex(table: TextTable) -> str:
    """Return a table as LaTeX; it needs the package booktabs.

    Parameters
    ----------
    table : TextTable
    """
    letters = table.symbol
    cells = table.cells
    others = [name for name in cells.columns if name != letters]
    style = cells.style.hide(axis="index").format(escape, subset=others)
    style = style.format_index(escape, axis=1)
    if letters is not None:
        style = style.format(_letter, subset=[letters])
    texts = len(cells.columns) - table.numbers
    text = style.to_latex(
        hrules=True,
        column_format="l" * texts + "r" * table.numbers,
        position="t",
        position_float="centering",
        caption=escape(table.legend),
        label=f"tab:{table.label}",
    )
    return str(text)


def _letter(name: str) -> str:
    return f"${latex_symbol(name)}$" if name else ""


def escape(text: str) -> str:
    r"""Return a text as LaTeX prints it.

    Parameters
    ----------
    text : str

    Examples
    --------
    >>> escape("90 % of long_run: −0.1")
    '90 \\% of long\\_run: $-$0.1'
    """
    return "".join(SIGNS.get(sign, sign) for sign in text)


def markdown(table: TextTable) -> str:
    """Return a table as Markdown, its caption above it.

    Parameters
    ----------
    table : TextTable
    """
    texts = len(table.cells.columns) - table.numbers
    rows = [[str(name) for name in table.cells.columns]]
    rows += [["---"] * texts + ["---:"] * table.numbers]
    place = list(table.cells.columns).index(table.symbol) if table.symbol else -1
    for row in table.cells.itertuples(index=False):
        rows.append(
            [
                _letter(cell) if index == place else str(cell).replace("|", "\\|")
                for index, cell in enumerate(row)
            ]
        )
    lines = [f"| {' | '.join(cell.replace(chr(10), ' ') for cell in row)} |" for row in rows]
    return "\n".join([f"**{table.legend}**", "", *lines, ""])


def csv(table: TextTable) -> str:
    """Return the numbers of a table as CSV.

    Parameters
    ----------
    table : TextTable
    """
    return str(table.values.to_csv(index=False))


WRITERS: dict[str, Callable[[TextTable], str]] = {".csv": csv, ".md": markdown, ".tex": latex}
SUFFIXES = tuple(WRITERS)

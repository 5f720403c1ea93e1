"""Tables of results: tidy rows, and how they are printed in a terminal, a page or a paper.

A `Table` keeps a result's rows with all their digits, and says what each column shows of them.
"""

import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Self

from bayes_cpt.toml_files import packaged

if TYPE_CHECKING:
    import pandas as pd

type Row = dict[str, Any]
type Form = str | Callable[[Any], str]
# Where the cells of a column come from: the name of a column of the rows, alone or with how its values are
# formatted (see `FORMS` and `ENDS`), or what makes a text of a row. All of them by heading, or as a text:
# "run | on=domain | weight:%".
type Cells = str | tuple[str, Form] | Callable[[Row], str]
type Columns = str | Mapping[str, Cells]

# What LaTeX takes for a command, and signs that it does not print from text.
SIGNS = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    # Where it begins a row, the end of the one before would take it for its own option.
    "[": "{[}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\n": " ",
    "−": "$-$",
    "±": r"$\pm$",
    "·": r"$\cdot$",
    "²": "$^2$",
    "→": r"$\rightarrow$",
    "λ": r"$\lambda$",
    "…": r"\ldots{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}
# The columns whose cells are names of coefficients, and what these are: both are printed with letters.
SYMBOL, MEANING = "symbol", "meaning"
# Of a table in LaTeX, in letters of its type: the width of an article, what lies between two columns, and
# the least that a text is folded to; and how many rows a page has room for.
ARTICLE, BETWEEN, SHORTEST, TALLEST = 85, 1.5, 12, 45


@dataclass(frozen=True, eq=False)
class Table:
    """A table of a result."""

    caption: str  # a sentence, without a full stop
    rows: "pd.DataFrame"
    # What is shown (see `Columns`), all of it unless given. Texts of a column that goes by its name alone
    # stand left, its numbers have four digits; all else counts as numbers.
    columns: Columns = ""
    note: str = ""  # what a reader needs besides, without its full stop
    marked: Sequence[object] = ()  # rows to highlight, by truth
    group: str = ""  # a heading below which a repeated value is left blank
    close: bool = False  # whether columns stand close in a terminal, to have room on 80 characters
    label: str = ""  # what LaTeX refers to it by, without ``tab:``
    numbers: "pd.DataFrame | None" = None  # those behind it, where the rows are not they

    @classmethod
    def of(
        cls,
        kind: str,
        rows: "pd.DataFrame",
        columns: Columns = "",
        *,
        marked: Sequence[object] = (),
        numbers: "pd.DataFrame | None" = None,
        **words: Any,
    ) -> Self:
        """Return a table of a kind of ``tables.toml``; `words` are what its texts have in braces.

        An `interval` among them is also the ``mass``, as in 90 %.
        """
        if "interval" in words:
            words["mass"] = f"{100 * words['interval']:g} %"
        texts: dict[str, Any] = {
            key: text.format(**words) if isinstance(text, str) else text
            for key, text in kinds()[kind].items()
        }
        star = texts.pop("star", "* outside the fitted range, to be trusted less")
        if starred := texts.pop("starred", ""):
            numbers = rows if numbers is None else numbers
            marked = rows["outside"] != ""
            rows = rows.assign(**{starred: rows[starred].mask(marked, rows[starred] + " *")})
            notes = [texts.get("note", ""), star if any(marked) else ""]
            texts["note"] = ". ".join(filter(None, notes))
        made = {"columns": columns} if columns else {}
        return cls(rows=rows, marked=marked, numbers=numbers, label=kind, **texts | made)

    @cached_property
    def made(self) -> Mapping[str, Cells]:
        """Where the cells of each column come from, by heading, which has line ends where it may break."""
        if not isinstance(self.columns, str):
            return self.columns
        return columns(self.columns or " | ".join(map(str, self.rows)))

    @cached_property
    def cells(self) -> "pd.DataFrame":
        """The cells as they are printed, by heading in one line."""
        import pandas as pd

        rows = self.rows.to_dict("records")
        made = {
            re.sub("(-?)\n", lambda end: end[1] or " ", name): [_cell(own, row) for row in rows]
            for name, own in self.made.items()
        }
        cells = pd.DataFrame(made, dtype=object)
        if self.group:
            names = cells[self.group]
            cells[self.group] = names.where(names != names.shift(), "")
        return cells

    @property
    def values(self) -> "pd.DataFrame":
        """The numbers, with all their digits."""
        return self.rows if self.numbers is None else self.numbers

    @cached_property
    def is_text(self) -> list[bool]:
        """Whether each column holds text, which stands left."""
        return [
            isinstance(own, str) and self.rows[own].dtype.kind not in "biuf"
            for own in self.made.values()
        ]

    @property
    def legend(self) -> str:
        """Caption and note as sentences."""
        return " ".join(f"{text}." for text in (self.caption, self.note) if text)


@cache
def kinds() -> dict[str, dict[str, Any]]:
    """Return captions, columns and notes of tables, by kind."""
    return packaged("report", "tables.toml")


def columns(text: str) -> dict[str, Cells]:
    """Return the columns that a text names: ``name``, ``heading=name``, each with ``:form`` if need be.

    Examples
    --------
    >>> columns("run | on=domain | weight:%")
    {'run': 'run', 'on': 'domain', 'weight': ('weight', '%')}
    """
    shown: dict[str, Cells] = {}
    for column in text.split(" | "):
        heading, headed, source = column.rpartition("=")
        name, _, form = source.partition(":")
        shown[heading if headed else name] = (name, form) if form else name
    return shown


def _cell(made: Cells, row: Row) -> str:
    from bayes_cpt.report.numbers import NONE, chance, number, typeset

    if callable(made):
        return made(row)
    name, form = made if isinstance(made, tuple) else (made, "")
    value = row[name]
    if callable(form):
        return form(value)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return NONE
    if form in ENDS:
        return with_interval(row, name, form)
    if form in FORMS:
        return FORMS[form](value)
    if form.isdigit():
        return number(value, int(form))
    if form:
        return chance(value) if form == "chance" else typeset(format(value, form))
    if isinstance(value, bool):
        return "yes" if value else ""
    return value if isinstance(value, str) else number(value)


def with_interval(row: Row, name: str, form: str) -> str:
    """Return a value and its interval of a row, with the digits that the interval supports.

    Examples
    --------
    >>> with_interval({"gain": 0.123, "gain_lower": -0.01, "gain_upper": 0.25}, "gain", "change")
    '+0.12 (−0.01 to +0.25)'
    >>> with_interval({"b": 241, "b_lower": 64.4, "b_upper": 1283}, "b", "quantity")
    '240 (60 to 1280)'
    """
    from bayes_cpt.report import numbers

    stem = name.removesuffix("median").removesuffix("mean")
    prefix = stem if stem != name else f"{name}_"
    values = [row[name], row[f"{prefix}lower"], row[f"{prefix}upper"]]
    forms: dict[str, Callable[[float, float], str]] = {
        "interval": numbers.fixed,
        "change": numbers.signed,
        "quantity": numbers.supported,
        # Of what may span decades each end has its own digits.
        "wide": lambda value, spread: numbers.number(value, 2),
        "steps": lambda value, spread: numbers.steps(value),
    }
    spread = numbers.spread_of(*values)
    middle, lower, upper = (forms[form](value, spread) for value in values)
    return middle if lower == upper else f"{middle} ({lower} to {upper})"


def span(values: Sequence[float]) -> str:
    """Return the range of some numbers."""
    from bayes_cpt.report.numbers import number

    low, high = number(min(values)), number(max(values))
    return low if low == high else f"{low} to {high}"


def _sd(value: float) -> str:
    from bayes_cpt.report.numbers import supported

    return supported(value, value)


# How values are formatted, besides a number of digits, formats such as ".3f", and "chance" for a share that
# is estimated from draws.
FORMS: dict[str, Callable[[Any], str]] = {
    "%": lambda share: f"{100 * share:.0f} %",
    "text": str,
    "span": span,
    "sd": _sd,
}
# Forms of a value with its interval: of columns NAME, NAME_lower, NAME_upper, or median, lower, upper.
ENDS = ("interval", "change", "quantity", "wide", "steps")


def latex(table: Table) -> str:
    """Return a table as LaTeX that fits an article, in parts if need be; it needs the package booktabs.

    Headings wrap; where need be several columns of intervals have these below their values, and then texts
    fold, the widest first.
    """
    starts = range(0, max(len(table.rows), 1), TALLEST)
    pages = (replace(table, rows=table.rows[start : start + TALLEST]) for start in starts)
    style = r"\footnotesize\setlength{\tabcolsep}{2.75pt}\setlength{\belowcaptionskip}{5pt}"
    # The number stands in the first line: docs/report.md has the first {table} of each line replaced.
    number, caption = "", f"\\caption{{{escape(table.legend)}}}\n\\label{{tab:{table.label}}}"
    floats = []
    for tabular in (own for page in pages for own in _tabulars(page)):
        floats += [rf"\begin{{table}}[t]{number}", rf"\centering{style}", caption, tabular]
        floats.append("\\end{table}\n")
        number, caption = r"\addtocounter{table}{-1}", r"\caption{Continued.}"
    return "\n".join(floats)


def _tabulars(table: Table) -> list[str]:
    """Return a table without its caption, in parts that all begin with its first column if too wide."""
    text, cells = table.is_text, table.cells.replace("\n", " ", regex=True)
    numbers = [name for name, own in zip(cells, text, strict=True) if not own]
    broken = cells[numbers].map(lambda cell: cell.replace(" (", "\n("))
    stackable = (broken != cells[numbers]).any().sum() > 1
    for shown in (cells, cells.assign(**broken)):
        # Some signs are as wide as two letters.
        lines = shown.map(lambda cell: re.sub("[%+&]", "mm", cell).split("\n"))
        longest = [max((len(line) for cell in lines[own] for line in cell), default=0)
                   for own in shown]  # fmt: skip
        heads = list(map(_wrapped, table.made, longest))
        widths = [max(own, *map(len, head)) for own, head in zip(longest, heads, strict=True)]
        over = math.ceil(sum(widths) + BETWEEN * (len(widths) - 1) - ARTICLE)
        if over <= 0 or not stackable:
            break
    written = _with_letters(shown, lambda cell: _stacked(cell, "t", "r"))
    sides = ["l" if own else "r" for own in text]
    titles = [_stacked("\n".join(head), "b", side) for head, side in zip(heads, sides, strict=True)]
    # A star stands beside its column, so that digits are below digits.
    written[numbers] = written[numbers].replace(r" \*(?=$|\\)", r"\\rlap{$^*$}", regex=True)
    forms = dict(zip(written, sides, strict=True))
    for width, name in sorted(zip(widths, written, strict=True), key=lambda own: -own[0]):
        less = min(over, width - SHORTEST)
        if name not in numbers and less > 0:
            over -= less
            forms[name] = rf"p{{{(width - less) / ARTICLE:.2f}\linewidth}}"
            written[name] = written[name].str.replace(r"\_", r"\_\allowbreak{}")
    if over > 0 and len(forms) > 2:
        first, *others = table.made.items()
        half = len(others) // 2
        parts = (dict([first, *own]) for own in (others[:half], others[half:]))
        return [own for part in parts for own in _tabulars(replace(table, columns=part))]
    head, *body = (rf"{' & '.join(row)} \\" for row in [titles, *written.to_numpy().tolist()])
    lines = [
        rf"\begin{{tabular}}{{@{{}}{''.join(forms.values())}@{{}}}}",
        *(r"\toprule", head, r"\midrule", *body, r"\bottomrule"),
        r"\end{tabular}",
    ]
    return ["\n".join(lines)]


def _wrapped(heading: str, width: int) -> list[str]:
    """Return the lines of a heading over cells of that width; a name breaks after an underscore too."""
    parts = heading.replace("_", "_ ").split("\n")
    lines = [textwrap.fill(part, max(width, 1), break_long_words=False) for part in parts]
    return "\n".join(lines).replace("_ ", "_").split("\n")


def _stacked(cell: str, on: str, side: str) -> str:
    """Return a cell as LaTeX; of several lines it stands on the first (t) or the last (b)."""
    stack = r"\\".join(map(escape, cell.split("\n")))
    tabular = rf"\begin{{tabular}}[{on}]{{@{{}}{side}@{{}}}}{stack}\end{{tabular}}"
    return tabular if "\n" in cell else stack


def _with_letters(cells: "pd.DataFrame", write: Callable[[str], str]) -> "pd.DataFrame":
    """Return the cells of a table as they are written, letters of the law as formulas."""
    from bayes_cpt.report.equation import latex_symbol, lettered

    def formula(name: str) -> str:
        return f"${latex_symbol(name)}$" if name else ""

    written = cells.map(write)
    if SYMBOL in cells:
        written[SYMBOL] = cells[SYMBOL].map(formula)
    if MEANING in cells:
        written[MEANING] = [lettered(said, formula, write) for said in cells[MEANING]]
    return written


def escape(text: str) -> str:
    r"""Return a text as LaTeX prints it.

    Examples
    --------
    >>> escape("90 % of long_run: −0.1")
    '90 \\% of long\\_run: $-$0.1'
    """
    printed = "".join(SIGNS.get(sign, sign) for sign in text)
    return re.sub("-(?=-)", "-{}", printed)


def markdown(table: Table) -> str:
    """Return a table as Markdown, its caption above it."""
    one_line = table.cells.replace("\n", " ", regex=True)
    cells = _with_letters(one_line, lambda cell: cell.replace("|", "\\|"))
    ruled = ["---" if text else "---:" for text in table.is_text]
    rows = [list(cells), ruled, *cells.to_numpy().tolist()]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([f"**{table.legend}**", "", *lines, ""])


def csv(table: Table) -> str:
    """Return the numbers of a table as CSV."""
    return str(table.values.to_csv(index=False))


WRITERS: dict[str, Callable[[Table], str]] = {".csv": csv, ".md": markdown, ".tex": latex}

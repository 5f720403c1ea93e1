"""What a verb writes: tables and words for people, JSON for machines, files whole or not at all."""

import json
import math
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bayes_cpt.errors import Problem, ProblemError, StudyWarning
from bayes_cpt.files import replacing

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# Where nobody sees the width, lines are as long as their content.
UNSEEN_WIDTH = 400
# Seconds of a stage after which its quarters are reported.
WORTH_A_LINE = 5.0
# Endings of files that `write_numbers` writes.
NUMBERS = (".parquet", ".json")
# What a run takes of data, time and money, and the heading of each.
TAKEN = {
    "general_epochs": "general\nepochs",
    "target_epochs": "target\nepochs",
    "gpu_hours": "GPU-\nhours",
    "money": "money",
}
DPI = 150

type Progress = Callable[[str, float], None]
# Where the cells of columns come from, by heading: the name of a column, alone or with how its values are
# formatted (see `FORMS`), or what makes a text of a row. Or as a text: "run | on=domain | weight:%".
type Row = dict[str, Any]
type Form = str | Callable[[Any], str]
type Cells = str | tuple[str, Form] | Callable[[Row], str]
type Columns = str | Mapping[str, Cells]


class OutputError(ProblemError):
    """An output file that cannot be written, and why."""


class _Console(Console):
    """A console that prints names as they are and leaves a broken pipe to `run`."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False)
        if not self.is_terminal and "COLUMNS" not in self._environ:
            self.width = UNSEEN_WIDTH

    def paragraph(self, text: str, style: str) -> None:
        """Print a text, wrapped only where somebody sees it."""
        self.print(Text(text, style=style), soft_wrap=not self.is_terminal)

    def on_broken_pipe(self) -> None:
        """Leave it to the caller: Rich would end the program with the code of a bad posterior."""
        raise BrokenPipeError


class Output:
    """Where a verb's words go.

    A verb writes its files before it prints: a reader of its output may stop early.

    Parameters
    ----------
    quiet : bool
        Only errors.
    machine : bool
        One JSON object on stdout and no tables.
    """

    def __init__(self, quiet: bool, machine: bool) -> None:
        self.quiet, self.machine = quiet, machine
        self.out, self.err = _Console(), _Console(stderr=True)

    def text(self, text: str = "", style: str = "") -> None:
        """Print a paragraph for people."""
        if not self.quiet and not self.machine:
            self.out.paragraph(text, style)

    def verdict(self, lines: Sequence[str]) -> None:
        """Print what a result comes to: what to do stands out."""
        for index, line in enumerate(lines):
            self.text(line, "bold" if index == 0 else "")

    def heading(self, text: str) -> None:
        """Print the title of what follows."""
        self.text()
        self.text(text, "bold")

    def table(
        self,
        rows: "pd.DataFrame",
        cells: Columns = "",
        *,
        marked: Sequence[object] = (),
        group: str = "",
        close: bool = False,
    ) -> None:
        """Print a tidy table for people.

        Parameters
        ----------
        rows : DataFrame
            One row each.
        cells : str or mapping, optional
            The columns to show (see `Columns`); all of them unless given. Texts of a column that goes by
            its name alone stand left, its numbers have four digits; all else counts as numbers.
        marked : sequence
            Rows to highlight, by truth.
        group : str
            A heading below which a repeated value is left blank.
        close : bool
            Whether columns stand close, to have room on 80 characters.
        """
        if self.quiet or self.machine:
            return
        if isinstance(cells, str):
            cells = columns(cells) if cells else {str(name): str(name) for name in rows}
        table = Table(
            box=None, pad_edge=False, padding=(0, 1 if close else 2, 0, 0), header_style="dim"
        )
        text = [
            isinstance(made, str) and rows[made].dtype.kind not in "biuf" for made in cells.values()
        ]
        for index, heading in enumerate(cells):
            # Only prose, which comes last, may wrap.
            prose = index == len(text) - 1 and all(text)
            table.add_column(heading, justify="left" if text[index] else "right", no_wrap=not prose)
        marks, last = list(marked) or [False] * len(rows), None
        for mark, row in zip(marks, rows.to_dict("records"), strict=True):
            values = {heading: _cell(made, row) for heading, made in cells.items()}
            if group:
                first = values[group]
                values[group] = "" if first == last else first
                last = first
            table.add_row(*values.values(), style="yellow" if mark else "")
        self.out.print(Padding(table, (0, 0, 0, 1), expand=False))

    def words(self, sentences: Sequence[str]) -> None:
        """Print what the result comes to in words."""
        self.heading("In words")
        for sentence in sentences:
            self.text(f"{sentence}\n")

    def note(self, text: str) -> None:
        """Print what the reader should know, on stderr."""
        if not self.quiet:
            self.err.paragraph(text, "yellow")

    def error(self, text: str) -> None:
        """Print what makes the result worthless, however quiet."""
        self.err.paragraph(text, "bold red")

    def result(self, content: Mapping[str, Any]) -> None:
        """Print the result for machines; a table becomes the list of its rows."""
        if self.machine:
            text = json.dumps(_plain(content), ensure_ascii=False, indent=2, allow_nan=False)
            self.out.file.write(f"{text}\n")

    @contextmanager
    def cautions(self) -> Iterator[None]:
        """Show the `StudyWarning` of what happens inside, each once."""
        shown: list[str] = []
        with warnings.catch_warnings():
            warnings.simplefilter("always", StudyWarning)
            usual = warnings.showwarning

            def show(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
                if not issubclass(category, StudyWarning):
                    usual(message, category, *rest, **more)
                elif str(message) not in shown:
                    shown.append(str(message))
                    self.note(f"Note: {message}")

            warnings.showwarning = show
            yield

    @contextmanager
    def progress(self) -> Iterator[Progress]:
        """Give what reports stages to the reader: bars on a terminal, a line each elsewhere."""
        if self.quiet:
            yield lambda stage, share: None
        elif self.err.is_terminal:
            with _bars(self.err) as report:
                yield report
        else:
            yield _lines(self.err)


def columns(text: str) -> dict[str, Cells]:
    """Return where cells come from, by heading, as a text says it: "run | on=domain | weight:%"."""
    shown: dict[str, Cells] = {}
    for column in text.split(" | "):
        heading, headed, source = column.rpartition("=")
        name, _, form = source.partition(":")
        shown[heading if headed else name] = (name, form) if form else name
    return shown


def _cell(made: Cells, row: Row) -> str:
    if callable(made):
        return made(row)
    name, form = made if isinstance(made, tuple) else (made, "")
    value = row[name]
    if callable(form):
        return form(value)
    if form in FORMS:
        return FORMS[form](value)
    if form.isdigit():
        return number(value, int(form))
    if form:
        return format(value, form)
    return value if isinstance(value, str) else number(value)


def number(value: float | None, digits: int = 4) -> str:
    """Return a number for a table, a dash where there is none.

    Examples
    --------
    >>> number(0.000213456), number(1234567), number(None)
    ('0.0002135', '1234567', '-')
    """
    if value is None or math.isnan(value):
        return "-"
    if math.isinf(value):
        return "none"
    return f"{value:.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"


def share(probability: float) -> str:
    """Return a probability for a table, nothing where there is none."""
    return "" if math.isnan(probability) else f"{100 * probability:.0f} %"


# How values are formatted, besides a number of digits and formats such as ".3f".
FORMS: dict[str, Callable[[Any], str]] = {"%": share, "text": str}


def starred(table: "pd.DataFrame", name: str) -> "pd.DataFrame":
    """Return a table whose column of names has a star where a row leaves what was fitted."""
    return table.assign(**{name: table[name].mask(table["outside"] != "", table[name] + " *")})


def with_beyond(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return a table with a column that says which rows leave what was fitted."""
    return table.assign(beyond=table["outside"].ne("").map({True: "outside", False: ""}))


def footnote(outside: Sequence[object]) -> list[str]:
    """Return what the star says, where there is one."""
    return ["* outside what was fitted, to be trusted less"] if any(outside) else []


@contextmanager
def _bars(console: Console) -> Iterator[Progress]:
    from rich.progress import Progress, TaskID, TimeElapsedColumn

    layout = (*Progress.get_default_columns(), TimeElapsedColumn())
    tasks: dict[str, TaskID] = {}
    with Progress(*layout, console=console, transient=True) as bars:

        def report(stage: str, share: float) -> None:
            if stage not in tasks:
                for earlier in tasks.values():
                    bars.update(earlier, total=1.0, completed=1.0)
                tasks[stage] = bars.add_task(stage, total=None)
            if share > 0:
                bars.update(tasks[stage], total=1.0, completed=share)

        yield report


def _lines(console: Console) -> Progress:
    """Return what prints a line for each stage, and for each quarter of it with the time left."""
    started: dict[str, float] = {}
    quarters: dict[str, int] = {}

    def line(text: str) -> None:
        console.print(Text(f"{time.strftime('%H:%M:%S')} {text}"))

    def report(stage: str, share: float) -> None:
        if stage not in started:
            started[stage], quarters[stage] = time.monotonic(), 0
            line(stage)
        quarter, passed = int(4 * share), time.monotonic() - started[stage]
        if passed >= WORTH_A_LINE and quarters[stage] < quarter < 4:
            quarters[stage] = quarter
            left = passed * (1.0 - share) / share
            line(f"{stage}: {share:.0%} done, about {left:.0f} s left")

    return report


def _plain(value: Any) -> Any:
    """Return a value in JSON's own types; JSON knows no NaN."""
    if hasattr(value, "to_dict"):
        value = value.to_dict("records")
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def check_target(path: Path, suffixes: tuple[str, ...], inputs: tuple[Path, ...] = ()) -> None:
    """Find out whether a file can be written, before the work that it is to hold.

    Parameters
    ----------
    path : Path
    suffixes : tuple of str
        How its name may end.
    inputs : tuple of Path
        Files that must not be overwritten.

    Raises
    ------
    OutputError
    """
    if path.is_dir():
        _fail(path, "this is a folder", f"name a file, as in {path / ('out' + suffixes[0])}")
    if path.suffix not in suffixes:
        ending = " or ".join(suffixes)
        problem = f"the name ends in {path.suffix!r}" if path.suffix else "the name has no ending"
        _fail(path, problem, f"let it end in {ending}")
    for source in inputs:
        if path.exists() and source.exists() and path.samefile(source):
            _fail(path, "this is the input", "write to another file")
    check_folder(path.parent)


def check_folder(folder: Path | None, *, new: bool = False) -> None:
    """Find out whether files can be written into a folder; a new one may still have to be made.

    Raises
    ------
    OutputError
    """
    if folder is None:
        return
    place = folder.parent if new and not folder.exists() else folder
    if not place.is_dir():
        problem = "this is a file, not a folder" if place.exists() else "there is no such folder"
        _fail(place, problem, "make the folder, or choose another one with -o")
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        _refused(place, error)


def make_folder(folder: Path) -> None:
    """Make a folder, in one that is there, and find out whether it can be written into.

    Raises
    ------
    OutputError
    """
    check_folder(folder, new=True)
    folder.mkdir(exist_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Give a file to write, and put it in the place of `path` once it is whole.

    Raises
    ------
    OutputError
        If it cannot be written; an old file is then left as it was.
    """
    try:
        with replacing(path) as unfinished:
            yield unfinished
    except BrokenPipeError:
        raise
    except OSError as error:
        _refused(path, error)


def _refused(path: Path, error: OSError) -> None:
    reason = error.strerror or str(error).splitlines()[0]
    fix = "make room or ask for the right to write there, or choose another place"
    _fail(path, f"this cannot be written: {reason}", fix)


def _fail(path: Path, problem: str, fix: str) -> None:
    raise OutputError(Problem(str(path), problem, fix)) from None


class OutputFile:
    """A file that a verb is asked for, or not: checked first, written before tables, named after them.

    Parameters
    ----------
    path : Path or None
    suffixes : tuple of str
        How its name may end.
    *inputs : Path, str or None
        Files that must not be overwritten.
    """

    def __init__(
        self, path: Path | None, suffixes: tuple[str, ...], *inputs: Path | str | None
    ) -> None:
        if path is not None:
            check_target(path, suffixes, tuple(Path(source) for source in inputs if source))
        self.path, self.replaces = path, path is not None and path.exists()

    def write(self, content: str | Callable[[Path], Any]) -> None:
        """Write a text, or what writes into the file that it gets; nothing where none is asked for."""
        if self.path is not None:
            write(self.path, content)

    def say(self, written: Output) -> None:
        """Say where the file is, and whether another one was there before."""
        if self.path is not None:
            written.text(f"\nWritten to {self.path}")
        if self.replaces:
            written.note(f"Note: {self.path} was there already and has been replaced.")


def write(path: Path, content: str | Callable[[Path], Any]) -> None:
    """Write a text, or what writes into the file that it gets: whole, or not at all."""
    with writing(path) as unfinished:
        if callable(content):
            content(unfinished)
        else:
            unfinished.write_text(content, encoding="utf-8")


class Results:
    """A folder that a verb fills; each file is written whole or not at all."""

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        self.folder = folder
        self.paths: dict[str, Path] = {}

    def tables(self, tables: "Mapping[str, pd.DataFrame]") -> None:
        """Write tables, by name, as CSV."""
        for name, table in tables.items():
            self.paths[name] = self.folder / f"{name}.csv"
            write(self.paths[name], partial(table.to_csv, index=False))

    def text(self, file: str, text: str, name: str = "") -> None:
        """Write a text into a file of the folder; it goes by `name`, or the file's without the suffix."""
        path = self.folder / file
        self.paths[name or path.stem] = path
        write(path, text)

    def words(self, sentences: Sequence[str]) -> None:
        """Write what the result comes to in words."""
        self.text("words.txt", "\n\n".join(sentences) + "\n")

    def figure(self, name: str, figure: "Figure", file: str) -> None:
        """Write a figure."""
        self.paths[name] = self.folder / file
        save_figure(figure, self.paths[name])

    @property
    def files(self) -> dict[str, str]:
        """What was written, for machines."""
        return {name: str(path) for name, path in self.paths.items()}

    def say(self, written: Output) -> None:
        """Say what was written where."""
        names = ", ".join(path.name for path in self.paths.values())
        written.text(f"Written to {self.folder}: {names}")

    def shown(self, written: Output) -> dict[str, str]:
        """Say what was written where, and return it."""
        self.say(written)
        return self.files


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure, whole or not at all."""
    write(path, partial(figure.savefig, dpi=DPI))


def write_numbers(table: "pd.DataFrame", path: Path, **metadata: str) -> None:
    """Write a table with all its digits, as Parquet, which takes metadata, or as a JSON list of rows."""
    if path.suffix == ".json":
        table.to_json(path, orient="records", double_precision=15, indent=1)
        return
    import pyarrow
    import pyarrow.parquet

    arrow = pyarrow.Table.from_pandas(table, preserve_index=False)
    added = {key.encode(): value.encode() for key, value in metadata.items()}
    schema = {**(arrow.schema.metadata or {}), **added}
    pyarrow.parquet.write_table(arrow.replace_schema_metadata(schema), path)


def extended(model: str, target: Path) -> str:
    """Return what a model's file says that it extends: a shipped model's name, or a path seen from it."""
    from bayes_cpt.model.spec import shipped_models

    if model in shipped_models():
        return model
    return str(Path(model).resolve().relative_to(target.parent.resolve(), walk_up=True))

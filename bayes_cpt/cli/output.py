"""What a verb writes: tables and words for people, JSON for machines, files whole or not at all."""

import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pydantic_core import to_json
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from bayes_cpt.errors import BeyondLawWarning, ProblemError, StudyWarning
from bayes_cpt.files import replacing
from bayes_cpt.report.tables import Table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

BAD_INPUT = 2
# Characters to which a column of texts may shrink on a narrow terminal.
SHORTEST_TEXT = 12
# Where nobody sees the width, lines are as long as their content.
UNSEEN_WIDTH = 400
# Seconds of a stage after which its quarters are reported.
WORTH_A_LINE = 5.0
# Endings of files that `write_numbers` writes.
NUMBERS = (".csv", ".parquet", ".json")
# Endings of files for figures, and dots per inch.
FIGURES, DPI = (".png", ".pdf", ".svg"), 150

type Progress = Callable[[str, float], None]
# A paragraph, as it is or styled, or a table with its caption above it and its note below.
type Part = str | Text | Table
# A text, or what writes into the file that it gets.
type Content = str | Callable[[Path], Any]


@dataclass(frozen=True)
class Answer:
    """What a verb has found and written; nothing is printed before that."""

    # For machines, besides what was asked for; a table becomes the list of its rows
    content: Mapping[str, Any]
    verdict: Sequence[str] = ()  # what to do, how sure that is, what would change it
    parts: Sequence[Part] = ()  # what is printed below it
    # What makes the result worthless: said however quiet, and told by the exit code
    problems: Sequence[str] = ()
    notes: Sequence[str] = ()  # what the reader should know besides
    written: "Sequence[OutputFile | Results]" = ()  # said at the end


def heading(text: str) -> Text:
    """Return the title of what follows."""
    return Text(f"\n{text}", "bold")


def in_words(sentences: Sequence[str]) -> list[Part]:
    """Return what a result comes to in words."""
    return [heading("In words"), *(f"{sentence}\n" for sentence in sentences)]


class _Console(Console):
    """A console that prints names as they are and leaves what cannot be printed on stdout to `run`."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False)
        if not self.is_terminal and "COLUMNS" not in self._environ:
            self.width = UNSEEN_WIDTH

    def paragraph(self, text: str | Text, style: str = "") -> None:
        """Print a text, wrapped only where somebody sees it."""
        shown = text if isinstance(text, Text) else Text(text, style)
        self.print(shown, soft_wrap=not self.is_terminal)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print; a result is not lost for words on stderr."""
        try:
            super().print(*objects, **options)
        except OSError:
            if not self.stderr:
                raise
            silence(self.file)

    def on_broken_pipe(self) -> None:
        """Leave it to the caller: Rich would end the program with the code of a bad posterior."""
        raise BrokenPipeError


def silence(stream: IO[str]) -> None:
    """Drop what else a stream is told that fails: Python would complain of it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _widths(table: Table, room: int, gap: int) -> list[int]:
    """Return how wide columns are: to fit, headings wrap and then texts fold; no number is cut off."""
    cells = [max(map(cell_len, own), default=0) for _, own in table.cells.items()]
    names = [max(map(cell_len, name.split("\n"))) for name in table.made]
    widths = list(map(max, names, cells))
    over = sum(widths) + gap * (len(widths) - 1) - room
    words = [max(map(cell_len, name.split()), default=0) for name in table.made]
    folded = [
        min(own, SHORTEST_TEXT) if is_text else own
        for own, is_text in zip(cells, table.is_text, strict=True)
    ]
    for least in (cells, folded):
        # The widest first.
        for place in sorted(range(len(widths)), key=lambda place: -widths[place]):
            to_spare = widths[place] - max(least[place], words[place])
            less = max(0, min(over, to_spare))
            widths[place] -= less
            over -= less
    return widths


class Output:
    """Where a verb's words go: if quiet only errors; for a machine one JSON object and no tables."""

    def __init__(self, quiet: bool, machine: bool) -> None:
        self.quiet, self.machine, self.worthless = quiet, machine, False
        self.out, self.err = _Console(), _Console(stderr=True)

    def give(self, answer: Answer, asked: dict[str, Any]) -> int:
        """Print an answer to what was asked for, by the names of options, and return the exit code."""
        for problem in answer.problems:
            # What is a line of the verdict is said there, where that is printed.
            if self.quiet or self.machine or problem not in answer.verdict:
                self.error(problem)
        for place, line in enumerate(answer.verdict):
            style = "bold red" if line in answer.problems else ""
            self.show(Text(line, style if place else style or "bold"))
        for part in (*answer.parts, *(said for own in answer.written for said in own.said)):
            self.show(part)
        for note in answer.notes:
            self.note(note)
        files = {name: str(path) for own in answer.written for name, path in own.paths.items()}
        told = {"verdict": answer.verdict} | dict(answer.content) | {"files": files}
        failed = [str(own.failed) for own in answer.written if own.failed]
        for error in failed:
            self.error(error)
        self.result(asked | told | ({"error": failed[0]} if failed else {}))
        return BAD_INPUT if failed else int(bool(answer.problems or self.worthless))

    def show(self, part: Part) -> None:
        """Print a paragraph for people, or a table below its caption and above its note."""
        if self.quiet or self.machine:
            return
        if not isinstance(part, Table):
            self.out.paragraph(part)
            return
        if part.caption:
            self.show(heading(part.caption))
        gap = 1 if part.close else 2
        widths = _widths(part, self.out.width - 1, gap)
        grid = Grid(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="dim")
        for name, is_text, width in zip(part.made, part.is_text, widths, strict=True):
            side: Any = "left" if is_text else "right"
            grid.add_column(name, justify=side, overflow="fold", width=width)
        marks = list(part.marked) or [False] * len(part.cells)
        for mark, row in zip(marks, part.cells.itertuples(index=False), strict=True):
            grid.add_row(*row, style="yellow" if mark else "")
        # What is wider than a terminal is wrapped by it, and nothing is lost.
        wide = _Console()
        wide.width = max(wide.width, 1 + sum(widths) + gap * (len(widths) - 1))
        wide.print(Padding(grid, (0, 0, 0, 1), expand=False))
        if part.note:
            self.show(Text(f"{part.note}.", "dim"))

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
            # JSON knows no NaN.
            text = to_json(content, indent=2, inf_nan_mode="null", fallback=_plain).decode()
            self.out.file.write(f"{text}\n")

    @contextmanager
    def cautions(self) -> Iterator[None]:
        """Show the `StudyWarning` of what happens inside, and what figures cannot spell, each once."""
        shown: list[str] = []
        with warnings.catch_warnings():
            warnings.simplefilter("always", StudyWarning)
            usual = warnings.showwarning

            def show(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
                text = str(message)
                if text.startswith("Glyph"):
                    text = "the figures' font lacks letters of a name: they are drawn as boxes"
                elif not issubclass(category, StudyWarning):
                    usual(message, category, *rest, **more)
                    return
                if text not in shown:
                    shown.append(text)
                    self.worthless |= (worthless := issubclass(category, BeyondLawWarning))
                    (self.error if worthless else self.note)(f"Note: {text}")

            warnings.showwarning = show
            yield

    def progress(self) -> AbstractContextManager[Progress]:
        """Give what reports stages to the reader: bars on a terminal, a line each elsewhere."""
        if self.quiet:
            return nullcontext(lambda stage, share: None)
        return _bars(self.err) if self.err.is_terminal else nullcontext(_lines(self.err))


@contextmanager
def _bars(console: Console) -> Iterator[Progress]:
    from rich.progress import Progress, TaskID, TimeElapsedColumn

    layout = (*Progress.get_default_columns(), TimeElapsedColumn())
    tasks: dict[str, TaskID] = {}
    with Progress(*layout, console=console, transient=True) as bars:

        def report(stage: str, share: float) -> None:
            if stage not in tasks:
                for earlier in tasks.values():
                    bars.update(earlier, completed=1.0)
                tasks[stage] = bars.add_task(stage, total=1.0)
            bars.update(tasks[stage], completed=share)

        yield report


def _lines(console: Console) -> Progress:
    """Return what prints a line for each stage, for each quarter and minute of it with the time left."""
    started: dict[str, float] = {}
    told: dict[str, tuple[int, int]] = {}

    def report(stage: str, share: float) -> None:
        text = "" if stage in started else stage
        passed = time.monotonic() - started.setdefault(stage, time.monotonic())
        quarter, minute = int(4 * share), int(passed / 60.0)
        before = told.get(stage, (0, 0))
        is_news = quarter > before[0] or minute > before[1]
        if passed >= WORTH_A_LINE and 0.0 < share < 1.0 and is_news:
            told[stage] = quarter, minute
            left = passed * (1.0 - share) / share
            text = f"{stage}: {share:.0%} done, about {left:.0f} s left"
        if text:
            console.print(Text(f"{time.strftime('%H:%M:%S')} {text}"))

    return report


def _plain(value: Any) -> Any:
    """Return a table as the list of its rows, and a number of NumPy as one of Python."""
    return value.to_dict("records") if hasattr(value, "to_dict") else value.item()


def check_folder(folder: Path, option: str = "-o") -> None:
    """Refuse a folder, of an option, that cannot be written to."""
    if not folder.is_dir():
        problem = "this is a file, not a folder" if folder.exists() else "there is no such folder"
        _fail(folder, problem, f"make the folder, or choose another one with {option}")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        _refused(folder, error)


def write(path: Path, content: Content) -> None:
    """Write a file, whole or not at all: if it cannot be written, an old file is left as it was."""
    try:
        with replacing(path) as unfinished:
            if callable(content):
                content(unfinished)
            else:
                unfinished.write_text(content, encoding="utf-8")
    except OSError as error:
        _refused(path, error)


def _refused(path: Path, error: OSError) -> None:
    reason = error.strerror or str(error).splitlines()[0]
    fix = "make room or ask for the right to write there, or choose another place"
    _fail(path, f"this cannot be written: {reason}", fix)


def _fail(path: Path, problem: str, fix: str) -> None:
    raise ProblemError.at(str(path), problem, fix) from None


class _Written:
    """What a verb has written; what cannot be written after all has failed, and the answer is printed."""

    def __init__(self) -> None:
        self.failed: ProblemError | None = None
        # By the names of the files; of a folder also of those that others wrote there.
        self.paths: dict[str, Path] = {}

    def put(self, path: Path, content: Content) -> None:
        """Write a file, as far as that is possible."""
        try:
            write(path, content)
            self.paths[path.name] = path
        except ProblemError as error:
            self.failed = error


class OutputFile(_Written):
    """A file, of an option, that a verb is asked for: found to be writable before the work it is to hold.

    Its name ends with one of the suffixes, and the inputs must not be overwritten.
    """

    def __init__(
        self,
        path: Path | None,
        suffixes: tuple[str, ...],
        *inputs: Path | str | None,
        option: str = "-o",
    ) -> None:
        super().__init__()
        self.path, self.replaces = path, path is not None and path.exists()
        if path is None:
            return
        if path.is_dir():
            _fail(path, "this is a folder", f"name a file, as in {path / ('out' + suffixes[0])}")
        if path.suffix not in suffixes:
            ending = f"ends in {path.suffix!r}" if path.suffix else "has no ending"
            _fail(path, f"the name {ending}", f"let it end in {' or '.join(suffixes)}")
        there = [own for own in inputs if own and Path(own).exists()]
        if self.replaces and any(map(path.samefile, there)):
            _fail(path, "this is the input", "write to another file")
        check_folder((path.resolve() if path.is_symlink() else path).parent, option)

    def write(self, content: Content) -> None:
        """Write it, where it is asked for."""
        if self.path is not None:
            # A fit is written twice: the last time counts.
            self.failed = None
            self.put(self.path, content)

    @property
    def said(self) -> list[Part]:
        """Where the file is, that another was there before, and what is beside it."""
        before = ", in place of the file that was there" if self.replaces else ""
        own = self.paths.values()
        return [f"\nWritten to {path}{before if path == self.path else ''}" for path in own]


class Results(_Written):
    """A folder, of an option, that a verb may fill: found to be writable, made with the first file."""

    def __init__(self, folder: Path | None, option: str = "-o") -> None:
        super().__init__()
        self.folder = folder
        if folder is not None:
            check_folder(folder if folder.exists() else folder.parent, option)

    def write(self, name: str, content: Content) -> None:
        """Write a file of that name."""
        if self.folder is not None:
            self.folder.mkdir(exist_ok=True)
            self.put(self.folder / name, content)

    def there(self, *names: str) -> None:
        """Tell of files that others write, or have written."""
        if self.folder is not None:
            self.paths |= {name: self.folder / name for name in names}

    def drop(self, *names: str) -> None:
        """Remove files of these names: an earlier result had them, this one has none."""
        if self.folder is not None:
            for name in names:
                (self.folder / name).unlink(missing_ok=True)

    def tables(self, tables: "Mapping[str, pd.DataFrame]") -> None:
        """Write tables as CSV, by the names of their files without ending."""
        for name, table in tables.items():
            self.write(f"{name}.csv", partial(table.to_csv, index=False))

    def words(self, verdict: Sequence[str], sentences: Sequence[str]) -> None:
        """Write what the result comes to in words."""
        self.write("words.txt", "\n\n".join(["\n".join(verdict), *sentences]) + "\n")

    def figures(self, figures: "Mapping[str, Callable[[], Figure]]", suffix: str = ".png") -> None:
        """Draw and write figures, by the names of their files without ending."""
        for name, draw in figures.items() if self.folder else ():
            self.write(f"{name}{suffix}", figure_file(draw()))

    @property
    def said(self) -> list[Part]:
        """What is there, for people."""
        return [f"Written to {self.folder}: {', '.join(self.paths)}"] if self.paths else []


def figure_file(figure: "Figure") -> Content:
    """Return what writes a figure into a file."""
    from matplotlib import rc_context

    from bayes_cpt.plots.style import SETTINGS

    # Its format's own settings count as a file is written.
    return rc_context(SETTINGS)(partial(figure.savefig, dpi=DPI))


def write_numbers(table: "pd.DataFrame", path: Path) -> None:
    """Write a table with all its digits: as CSV, Parquet, or a JSON list of rows."""
    if path.suffix == ".parquet":
        table.to_parquet(path, index=False)
    elif path.suffix == ".json":
        table.to_json(path, orient="records", double_precision=15, indent=1)
    else:
        table.to_csv(path, index=False)

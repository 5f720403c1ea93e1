"""What a verb writes: tables for people, JSON for machines, notes and progress on stderr."""

import json
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bayes_cpt.errors import StudyWarning

# Where nobody sees the width, lines are as long as their content.
UNSEEN_WIDTH = 400
# Seconds of a stage after which its quarters are told.
WORTH_A_LINE = 5.0

type Progress = Callable[[str, float], None]


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

    def table(self, table: Table) -> None:
        """Print a table for people."""
        if not self.quiet and not self.machine:
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

    def result(self, content: dict[str, Any]) -> None:
        """Print the result for machines."""
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
        """Give what tells the reader about stages: bars on a terminal, a line each elsewhere."""
        if self.quiet:
            yield lambda stage, share: None
        elif self.err.is_terminal:
            with _bars(self.err) as tell:
                yield tell
        else:
            yield _lines(self.err)


# What a run takes of data, time and money, and the heading of each.
TAKEN = {
    "general_epochs": "general\nepochs",
    "target_epochs": "target\nepochs",
    "gpu_hours": "GPU-\nhours",
    "money": "money",
}


def columns(*headers: str, numbers: int = 0) -> Table:
    """Return an empty table whose last columns, as many as `numbers`, hold numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for index, header in enumerate(headers):
        right = index >= len(headers) - numbers
        # Only prose, which comes last, may wrap.
        prose = not numbers and index == len(headers) - 1
        table.add_column(header, justify="right" if right else "left", no_wrap=not prose)
    return table


def number(value: float | None, digits: int = 4) -> str:
    """Return a number for a table, a dash where there is none.

    Examples
    --------
    >>> number(0.000213456), number(1234567), number(None)
    ('0.0002135', '1234567', '-')
    """
    if value is None or math.isnan(value):
        return "-"
    return f"{value:.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"


@contextmanager
def _bars(console: Console) -> Iterator[Progress]:
    from rich.progress import (
        BarColumn,
        Progress,
        TaskID,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    layout = (
        TextColumn("{task.description:<24}"),
        BarColumn(bar_width=20),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    tasks: dict[str, TaskID] = {}
    with Progress(*layout, console=console, transient=True) as bars:

        def tell(stage: str, share: float) -> None:
            if stage not in tasks:
                for earlier in tasks.values():
                    bars.update(earlier, total=1.0, completed=1.0)
                tasks[stage] = bars.add_task(stage, total=None)
            if share > 0:
                bars.update(tasks[stage], total=1.0, completed=share)

        yield tell


def _lines(console: Console) -> Progress:
    """Return what prints a line for each stage, and for each quarter of it with the time left."""
    started: dict[str, float] = {}
    quarters: dict[str, int] = {}

    def line(text: str) -> None:
        console.print(Text(f"{time.strftime('%H:%M:%S')} {text}"))

    def tell(stage: str, share: float) -> None:
        if stage not in started:
            started[stage], quarters[stage] = time.monotonic(), 0
            line(stage)
        quarter, passed = int(4 * share), time.monotonic() - started[stage]
        if passed >= WORTH_A_LINE and quarters[stage] < quarter < 4:
            quarters[stage] = quarter
            left = passed * (1.0 - share) / share
            line(f"{stage}: {share:.0%} done, about {left:.0f} s left")

    return tell


def _plain(value: Any) -> Any:
    """Return a value in JSON's own types; JSON knows no NaN."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value

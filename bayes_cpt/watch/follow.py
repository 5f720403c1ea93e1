"""What is new in a log that is being written: rotated, truncated or half-written, it goes on."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bayes_cpt.errors import StudyError
from bayes_cpt.study.logs.clean import Choices, Log, clean
from bayes_cpt.study.logs.names import domain_of
from bayes_cpt.study.logs.raw import LogError
from bayes_cpt.study.readers.columns import Layout
from bayes_cpt.study.readers.logs import AUTO, kind_of, read_logs
from bayes_cpt.study.readers.text import FORMATS

# Of logs that grow line by line only the end is read: what is new, and so much before it.
OVERLAP_BYTES = 16384
BY_LINE = ("csv", "jsonl", *FORMATS)


@dataclass
class Follower:
    """Reads what has come since the last look.

    Parameters
    ----------
    path : str
        As for `bayes_cpt.study.readers.logs.read_logs`.
    kind : str
    choices : Choices
    layout : Layout, optional

    Attributes
    ----------
    trouble : str
        What kept the last look from reading the log, empty where nothing did: a log that is not there yet,
        half-written or damaged may be whole at the next look.
    unnamed : str
        What the last look found in place of a validation loss, empty where it found one: a log of training
        rows alone so far, or one whose losses have other names.
    """

    path: str
    kind: str = AUTO
    choices: Choices = field(default_factory=Choices)
    layout: Layout | None = None
    trouble: str = field(default="", init=False)
    unnamed: str = field(default="", init=False)
    _offset: int = field(default=0, init=False)
    _file: int = field(default=0, init=False)
    _seen: tuple[int, int] = field(default=(0, 0), init=False)

    def new(self) -> dict[int, dict[str, float]]:
        """Return the evaluations that are new, by step; one may come again.

        A loss that is no number is among them: the run has diverged.
        """
        self.trouble = self.unnamed = ""
        try:
            return self._new()
        except LogError as error:
            self.trouble = str(error.problems[0])
        except (OSError, StudyError) as error:
            self.trouble = str(error)
        return {}

    def _new(self) -> dict[int, dict[str, float]]:
        file = Path(self.path)
        if not file.is_file():
            return self._points(self.path)
        state = file.stat()
        if (state.st_mtime_ns, state.st_size) == self._seen:
            return {}
        kind = self._kind(file)
        if kind not in BY_LINE:
            losses = self._points(self.path)
            self._seen = (state.st_mtime_ns, state.st_size)
            return losses
        if state.st_ino != self._file or state.st_size < self._offset:
            self._offset, self._file = 0, state.st_ino
        with file.open("rb") as log:
            head = log.readline() if kind == "csv" else b""
            begin = max(len(head), self._offset - OVERLAP_BYTES)
            log.seek(begin)
            part = log.read()
        # A last line without its break is still being written.
        whole = part[: part.rfind(b"\n") + 1]
        if begin > len(head):
            whole = whole[whole.find(b"\n") + 1 :]
        losses = self._in_part(head + whole, kind) if whole.strip() else {}
        self._offset = begin + part.rfind(b"\n") + 1
        self._seen = (state.st_mtime_ns, state.st_size)
        return losses

    def _kind(self, file: Path) -> str:
        kind = kind_of(file) if self.kind == AUTO else self.kind
        if kind == "table":
            return {".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}.get(
                file.suffix, kind
            )
        return kind

    def _in_part(self, content: bytes, kind: str) -> dict[int, dict[str, float]]:
        with tempfile.TemporaryDirectory() as folder:
            suffix = Path(self.path).suffix if kind in ("csv", "jsonl") else ".log"
            part = Path(folder) / f"log{suffix}"
            part.write_bytes(content)
            try:
                return self._points(str(part), kind)
            except LogError as error:
                if "no series is called" in str(error) or "there is no row" in str(error):
                    # Training rows alone, it may be: the next evaluation is yet to come.
                    self.unnamed = f"{error.problems[0].problem}; {error.problems[0].fix}"
                    return {}
                raise

    def _points(self, path: str, kind: str | None = None) -> dict[int, dict[str, float]]:
        raw = read_logs(kind or self.kind, [path], self.layout)
        log = clean(raw, self.choices)
        losses = _by_step(log)
        names: Mapping[str, Any] = self.choices.losses
        wrong = [
            e
            for e in raw.entries
            if not np.isfinite(e.value)
            and (
                e.series in names or "loss" in e.series or domain_of(e.series) in self.choices.sets
            )
        ]
        for entry in wrong:
            step = round(entry.step / (self.choices.per_step or 1.0)) - self.choices.start
            if step > max(losses, default=0):
                losses[step] = dict.fromkeys(log.domains, entry.value)
        return losses

    def state(self) -> list[int]:
        """Return how far the log was read."""
        return [self._offset, self._file]

    def restore(self, state: Sequence[int]) -> None:
        """Go on from where `state` says.

        Parameters
        ----------
        state : sequence of int
            What `state` gave.
        """
        self._offset, self._file = (int(number) for number in state)


def following(
    path: str, kind: str, layout: Layout | None, sets: tuple[str, ...] = (), **choices: Any
) -> Follower:
    """Return what follows a log of a running job: the later of two numbers counts, NaN ends it.

    Parameters
    ----------
    path : str
    kind : str
        Of the log.
    layout : Layout or None
        Which columns are what, where the log does not say.
    sets : tuple of str
        Validation sets that are forecast; see `Choices`.
    **choices
        Of the reader of that kind.
    """
    return Follower(
        path, kind, Choices(sets=sets, overlap="last", drop_nan=True, **choices), layout
    )


def _by_step(log: Log) -> dict[int, dict[str, float]]:
    losses: dict[int, dict[str, float]] = {}
    for step, domain, loss in sorted(log.losses):
        losses.setdefault(step, {})[domain] = loss
    return losses

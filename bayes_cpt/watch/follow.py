"""What is new in a log that is being written: rotated, truncated or half-written, it goes on."""

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bayes_cpt.errors import StudyError
from bayes_cpt.study.logs.patterns import text_kinds
from bayes_cpt.study.logs.raw import LogError
from bayes_cpt.study.logs.readers import AUTO, kind_of
from bayes_cpt.study.logs.reading import Log, Reading

# Of logs that grow line by line only the end is read: what is new, and so much before it.
OVERLAP_BYTES = 16384
BY_LINE = ("csv", "jsonl", *text_kinds())


@dataclass
class Follower:
    """Reads what has come since the last look.

    Parameters
    ----------
    path : str
        As for `bayes_cpt.study.logs.readers.read_logs`.
    reading : Reading
        How the log is read.
    sets : tuple of str
        Validation sets that are forecast.

    Attributes
    ----------
    trouble : str
        What kept the last look from reading the log, empty where nothing did: a log that is not there yet,
        half-written or damaged may be whole at the next look.
    unnamed : str
        What the last look found in place of a validation loss, empty where it found one: a log of training
        rows alone so far, or one whose losses have other names.
    log : Log or None
        What the last look read: of a log that grows line by line, its end.
    """

    path: str
    reading: Reading = field(default_factory=Reading)
    sets: tuple[str, ...] = ()
    trouble: str = field(default="", init=False)
    unnamed: str = field(default="", init=False)
    log: Log | None = field(default=None, init=False)
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
        if self.reading.patterns:
            return text_kinds()[0]
        kind = kind_of(file) if self.reading.kind == AUTO else self.reading.kind
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
        known = kind is not None and not self.reading.patterns
        reading = self.reading.changed(paths=(path,), **({"kind": kind} if known else {}))
        self.log = reading.read(self.sets)
        losses: dict[int, dict[str, float]] = {}
        for step, domain, loss in sorted(self.log.losses):
            losses.setdefault(step, {})[domain] = loss
        for step in self.log.diverged:
            if step > max(losses, default=0):
                losses[step] = dict.fromkeys(self.log.domains or self.sets, math.nan)
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


def following(path: str, kind: str, sets: tuple[str, ...] = (), **reading: Any) -> Follower:
    """Return what follows a log of a running job: the later of two numbers counts, NaN ends it.

    Parameters
    ----------
    path : str
    kind : str
        Of the log.
    sets : tuple of str
        Validation sets that are forecast.
    **reading
        Fields of `bayes_cpt.study.logs.reading.Reading`.
    """
    return Follower(
        path, Reading().changed(kind=kind, overlap="last", drop_nan=True, **reading), sets
    )

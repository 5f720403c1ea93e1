"""What is new in a log that is being written: rotated, truncated or half-written, it goes on."""

import math
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

from bayes_cpt.errors import StudyError
from bayes_cpt.study.logs.raw import COMPRESSED, fail
from bayes_cpt.study.logs.reading import Log, Reading
from bayes_cpt.study.tables import UTF_16

# Of files that do not grow line by line.
WHOLE = (".json", ".parquet", *COMPRESSED)


@dataclass
class Follower:
    """Reads the log of a running job again whenever it has changed."""

    # How the log is read, and where it is. The later of two numbers counts, and NaN ends the job.
    reading: Reading
    # Validation sets that are forecast; a log of others alone is refused
    sets: tuple[str, ...] = ()
    steps: int | None = None  # of the run; a log of later steps alone is refused
    once: bool = False  # whether there is no later look
    # What kept the last look from reading the log, empty where nothing did: a log that is not there yet,
    # half-written or damaged may be whole at the next look.
    trouble: str = field(default="", init=False)
    # What the last look found in place of a validation loss, empty where it found one: a log of training
    # rows alone so far, or one whose losses have other names.
    unnamed: str = field(default="", init=False)
    log: Log | None = field(default=None, init=False)  # what the last look read
    _seen: tuple[int, int] = field(default=(0, 0), init=False)
    _whole: bool = field(default=False, init=False)  # whether that was read to its end
    _read_as: str = field(default="", init=False)  # the log, or the copy of its whole lines

    def __post_init__(self) -> None:
        self.reading = self.reading.changed(overlap="last", drop_nan=True)

    @property
    def path(self) -> str:
        """Where the log is."""
        return self.reading.paths[0]

    def new(self) -> dict[int, dict[str, float]]:
        """Return the evaluations in a log that has changed, by step; most come again.

        One of the losses is not finite: the run has diverged.
        """
        self.trouble = self.unnamed = ""
        try:
            return self._new(Path(self.path))
        except StudyError as error:
            said = error.problems[0]
            if "no series is called" in said.problem or "there is no row" in said.problem:
                # Training rows alone, it may be: the next evaluation is yet to come.
                self.unnamed = f"{said.problem}; {said.fix}"
            else:
                self.trouble = str(said).replace(self._read_as, self.path)
        except OSError as error:
            self.trouble = str(error)
        return {}

    def _new(self, file: Path) -> dict[int, dict[str, float]]:
        if not file.is_file():
            return self._points(self.path)
        state = file.stat()
        changed = (state.st_mtime_ns, state.st_size)
        settled, self._seen = changed == self._seen, changed
        if settled and self._whole:
            return {}
        by_line = file.suffix not in WHOLE and "tfevents" not in file.name
        content = file.read_bytes() if by_line else b""
        if content.startswith(UTF_16):
            content = content.decode("utf-16", errors="ignore").encode()
        lines = content[: content.rfind(b"\n") + 1]
        self._whole = False
        if settled or self.once or lines == content:
            losses = self._points(self.path)
            self._whole = True
            return losses
        # A last line without its break is still being written, unless the next look finds the same.
        with tempfile.TemporaryDirectory() as folder:
            part = Path(folder) / file.name
            part.write_bytes(lines)
            return self._points(str(part))

    def _points(self, path: str) -> dict[int, dict[str, float]]:
        self._read_as = path
        log = self.reading.changed(paths=(path,)).read(self.sets)
        self._check(log)
        notes = tuple(note.replace(path, self.path) for note in log.notes)
        self.log = replace(log, notes=notes)
        losses: dict[int, dict[str, float]] = {}
        for step, domain, loss in sorted(self.log.losses):
            losses.setdefault(step, {})[domain] = loss
        for step in self.log.diverged:
            if step > max(losses, default=0):
                losses[step] = dict.fromkeys(self.log.domains or self.sets, math.nan)
        return losses

    def _check(self, log: Log) -> None:
        """Refuse a log none of whose evaluations is one of the run that is forecast."""
        steps = [step for step, *_ in log.losses]
        if self.steps is not None and steps and min(steps) > self.steps:
            problem = f"it is evaluated at steps {min(steps)} to {max(steps)}"
            problem += f", and the run ends at step {self.steps}"
            fix = "name the log of this run; where its counter goes on from an earlier run, say at "
            raise fail(log.source, problem, fix + "which count this run begins, --start N")
        if self.sets and steps and set(self.sets).isdisjoint(log.domains):
            there = ", ".join(f"{series} is {domain}" for series, domain in log.series.items())
            problem = f"none of its validation sets is {' or '.join(self.sets)}, those of the fit: {there}"
            fix = f"say which each is, as in --loss {next(iter(log.series))}={self.sets[-1]}"
            raise fail(log.source, problem, fix)

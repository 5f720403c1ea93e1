"""Learning-rate schedules: composable segments and logged rates -> one learning rate per step.

Learning rates are raw (2e-4, not 2.0). Steps count from 1; the i-th of a segment's n steps takes
the shape at i/n, so the last step of a segment is exactly at its `end` (docs/study.md, "study.toml").
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from bayes_cpt.arrays import Floats
from bayes_cpt.checks import Check, is_integer, suggestion
from bayes_cpt.errors import StudyError

# No training run is longer; a schedule is held in memory step by step.
LONGEST_STEPS = 10_000_000

# Each maps (start, end, share of the segment done) to learning rates.
SHAPES: dict[str, Callable[[float, float, Floats], Floats]] = {
    "constant": lambda start, end, share: np.full_like(share, end),
    "linear": lambda start, end, share: start + (end - start) * share,
    "cosine": lambda start, end, share: end + (start - end) * 0.5 * (1.0 + np.cos(np.pi * share)),
    "one_minus_sqrt": lambda start, end, share: start + (end - start) * np.sqrt(share),
    "exponential": lambda start, end, share: start * (end / start) ** share,
}


@dataclass(frozen=True)
class Segment:
    """A stretch of a schedule with one shape.

    Parameters
    ----------
    shape : str
        ``constant``, ``linear``, ``cosine``, ``one_minus_sqrt`` (``start + (end - start) *
        sqrt(i/n)``) or ``exponential`` (geometric from `start` to `end`).
    steps : int
        Number of optimiser steps, at least 1.
    start, end : float
        Raw learning rates before the first step and at the last step. Equal for ``constant``, both
        positive for ``exponential``.

    Raises
    ------
    StudyError
        If a value is impossible; all problems of the segment at once.

    Examples
    --------
    >>> Segment("linear", 4, 0.0, 2e-3).learning_rates().tolist()
    [0.0005, 0.001, 0.0015, 0.002]
    """

    shape: str
    steps: int
    start: float
    end: float
    KEYS: ClassVar[tuple[str, ...]] = ("shape", "steps", "start", "end")

    def __post_init__(self) -> None:
        check = Check()
        if not isinstance(self.shape, str) or self.shape not in SHAPES:
            fix = f"write one of {', '.join(SHAPES)}{suggestion(self.shape, SHAPES)}"
            check.add("key shape", f"shape is {self.shape!r}", fix)
        check_length(check, self.steps)
        rates_fine = check.rate("start", self.start) & check.rate("end", self.end)
        if rates_fine and self.shape == "constant" and self.start != self.end:
            problem = f"a constant segment starts at {self.start:g} and ends at {self.end:g}"
            check.add("key end", problem, "make start and end equal, or write shape = linear")
        if rates_fine and self.shape == "exponential" and not (self.start > 0 and self.end > 0):
            fix = "end it at a small positive learning rate, or choose another shape"
            check.add("key end", "an exponential segment cannot start or end at 0", fix)
        check.raise_problems()
        for key, kind in (("steps", int), ("start", float), ("end", float)):
            object.__setattr__(self, key, kind(getattr(self, key)))

    @property
    def rises(self) -> bool:
        """Whether this is a linear segment that rises: at the start of a run, its warm-up."""
        return self.shape == "linear" and self.end > self.start

    @property
    def highest(self) -> float:
        """The higher of its two ends."""
        return max(self.start, self.end)

    def learning_rates(self) -> Floats:
        """Return the raw learning rate of each step, shape (steps,)."""
        rates = SHAPES[self.shape](self.start, self.end, np.arange(1, self.steps + 1) / self.steps)
        # Rounding must not keep a segment from meeting the next one exactly.
        rates[-1] = self.end
        return rates

    def scaled(self, factor: float) -> Self:
        """Return the segment with both learning rates multiplied by `factor`."""
        return replace(self, start=self.start * factor, end=self.end * factor)

    def stretched(self, steps: int) -> Self:
        """Return the same shape over another number of steps."""
        return replace(self, steps=steps)


@dataclass(frozen=True)
class LoggedSegment:
    """Raw learning rates read from a log, at some or all steps of a stretch.

    Between them rates are interpolated linearly; before the first and after the last they are held.
    """

    steps: int  # of the stretch
    logged_steps: tuple[int, ...]  # strictly rising, from 1 to `steps`
    logged_rates: tuple[float, ...]

    def __post_init__(self) -> None:
        check = Check()
        check_length(check, self.steps)
        steps, rates = np.asarray(self.logged_steps), np.asarray(self.logged_rates)
        if steps.ndim != 1 or steps.shape != rates.shape or not steps.size:
            problem = f"{steps.size} steps and {rates.size} learning rates are logged"
            fix = "log one learning rate per logged step, and at least one"
            check.add("logged learning rates", problem, fix)
        check.raise_problems()
        falls = np.diff(steps, prepend=-np.inf) <= 0
        outside, odd = (steps < 1) | (steps > self.steps), ~np.isfinite(rates) | (rates < 0)
        no_rate = "its learning rate is not a finite number of at least 0"
        for wrong, problem, fix in (
            (falls, "it follows the same or a later step", "log every step once, in rising order"),
            (outside, f"it lies outside 1 to {self.steps}", "count steps from 1 inside the phase"),
            (odd, no_rate, "log raw learning rates"),
        ):
            for step in steps[wrong][:1]:
                check.add(f"logged step {step}", problem, fix)
        check.raise_problems()

    @property
    def highest(self) -> float:
        """Highest logged learning rate."""
        return max(self.logged_rates)

    def learning_rates(self) -> Floats:
        """Return the raw learning rate of each step, shape (steps,)."""
        return np.interp(np.arange(1, self.steps + 1), self.logged_steps, self.logged_rates)

    def scaled(self, factor: float) -> Self:
        """Return the segment with every learning rate multiplied by `factor`."""
        return replace(self, logged_rates=tuple(rate * factor for rate in self.logged_rates))

    def stretched(self, steps: int) -> "LoggedSegment":
        """Return the same course over another number of steps: the last step keeps its rate."""
        places = np.arange(1, steps + 1) * (self.steps / steps)
        return _every_step(np.interp(places, np.arange(1, self.steps + 1), self.learning_rates()))


def _every_step(rates: Floats) -> LoggedSegment:
    """Return a stretch with a logged learning rate at each step."""
    return LoggedSegment(rates.size, tuple(range(1, rates.size + 1)), tuple(rates.tolist()))


def _first(segment: Segment | LoggedSegment, steps: int) -> Segment | LoggedSegment:
    """Return the first steps of a stretch, to the last digit: as a log unless it is constant."""
    if isinstance(segment, Segment) and segment.shape == "constant":
        return segment.stretched(steps)
    return _every_step(segment.learning_rates()[:steps])


def check_length(check: Check, steps: object) -> None:
    """Note a problem unless `steps` is a number of steps that can be trained."""
    if check.count("steps", steps) and int(steps) > LONGEST_STEPS:  # type: ignore[call-overload]
        problem = f"steps is {steps}, more than the {LONGEST_STEPS} that any run has"
        check.add("key steps", problem, "count optimiser steps, not tokens or samples")


def segment_from_toml(table: object) -> Segment:
    """Return the segment that a table of a study.toml describes."""
    check = Check()
    keys = check.keys(table, allowed=Segment.KEYS, required=Segment.KEYS)
    check.raise_problems()
    return Segment(**keys)


@dataclass(frozen=True)
class Schedule:
    """The learning rate of every step of one phase: segments one after the other.

    Parameters
    ----------
    segments : tuple of Segment or LoggedSegment
        At least one. Schedules are compared and hashed by their segments.

    Examples
    --------
    >>> warm = linear(300, 0.0, 2e-3) + cosine(2700, 2e-3, 0.0)
    >>> warm.steps, warm.peak, warm.final, warm.warmup_steps
    (3000, 0.002, 0.0, 300)
    """

    segments: tuple[Segment | LoggedSegment, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "segments", tuple(self.segments))
        if not self.segments:
            problem = "the schedule has no segment"
            raise StudyError.at("key schedule", problem, "give at least one segment")
        check = Check()
        check_length(check, self.steps)
        check.raise_problems()

    @classmethod
    def from_log(
        cls, steps: ArrayLike, learning_rates: ArrayLike, total_steps: int | None = None
    ) -> Self:
        """Build a schedule from logged learning rates.

        Parameters
        ----------
        steps : array_like of int, shape (logged,)
            Strictly rising steps, counted from 1.
        learning_rates : array_like of float, shape (logged,)
            Raw learning rates. Gaps are interpolated linearly; see `interpolated_steps`.
        """
        logged_steps = tuple(np.asarray(steps, dtype=np.int64).tolist())
        logged_rates = tuple(np.asarray(learning_rates, dtype=np.float64).tolist())
        last = max(logged_steps, default=1) if total_steps is None else total_steps
        return cls((LoggedSegment(last, logged_steps, logged_rates),))

    @classmethod
    def from_toml(cls, tables: Sequence[Any]) -> Self:
        """Build a schedule from the segment tables of a study.toml (`to_toml` undone)."""
        if not isinstance(tables, list | tuple):
            fix = "write a list of segments, schedule = [ { shape, steps, start, end } ]"
            raise StudyError.at("key schedule", f"the schedule is {tables!r}", fix)
        check = Check()
        numbered = enumerate(tables, start=1)
        segments = [check.run(f"segment {n}", segment_from_toml, table) for n, table in numbered]
        check.raise_problems()
        return cls(tuple(filter(None, segments)))

    def to_toml(self) -> list[dict[str, Any]]:
        """Return the segments as the tables of a study.toml.

        Raises
        ------
        StudyError
            If part of the schedule is a log: logs are kept in lr.csv, not in study.toml.
        """
        if self.is_logged:
            problem = "a logged learning rate cannot be written as segments"
            fix = "write lr_log = true and keep the log in lr.csv"
            raise StudyError.at("key schedule", problem, fix)
        return [{key: getattr(part, key) for key in Segment.KEYS} for part in self.segments]

    @property
    def steps(self) -> int:
        """Number of steps."""
        return sum(segment.steps for segment in self.segments)

    @property
    def is_logged(self) -> bool:
        """Whether any part comes from a log."""
        return any(isinstance(segment, LoggedSegment) for segment in self.segments)

    @property
    def interpolated_steps(self) -> int:
        """How many steps of logged stretches were interpolated, not logged."""
        logged = (part for part in self.segments if isinstance(part, LoggedSegment))
        return sum(part.steps - len(part.logged_steps) for part in logged)

    @cached_property
    def _rates(self) -> Floats:
        rates = np.concatenate([segment.learning_rates() for segment in self.segments])
        rates.setflags(write=False)
        return rates

    def learning_rates(self) -> Floats:
        """Return the raw learning rate of each step, shape (steps,), read-only."""
        return self._rates

    @property
    def peak(self) -> float:
        """Highest learning rate that a segment starts or ends at, or that is logged.

        A decay from 2e-3 has this peak, though its first step is already a little below.
        """
        return max(segment.highest for segment in self.segments)

    @property
    def final(self) -> float:
        """Learning rate of the last step."""
        return float(self._rates[-1])

    @property
    def warmup_steps(self) -> int:
        """Length of the initial warm-up, 0 without one.

        The rising linear segments at the start; in a log, its strictly rising first stretch.
        """
        steps = 0
        for segment in self.segments:
            if isinstance(segment, LoggedSegment):
                falls = np.diff(segment.learning_rates(), append=-np.inf) <= 0
                stretch = int(np.argmax(falls)) + 1
                return steps + (stretch if stretch > 1 else 0)
            if not segment.rises:
                break
            steps += segment.steps
        return steps

    def first(self, steps: int) -> "Schedule":
        """Return the schedule of the first `steps` steps; one that is cut becomes a log."""
        if not is_integer(steps) or not 1 <= steps <= self.steps:
            problem = f"the first {steps} of {self.steps} steps are asked for"
            raise StudyError.at("key steps", problem, f"ask for 1 to {self.steps}")
        kept: list[Segment | LoggedSegment] = []
        left = steps
        for segment in self.segments:
            if left > 0:
                kept.append(segment if segment.steps <= left else _first(segment, left))
            left -= segment.steps
        return Schedule(tuple(kept))

    def scaled(self, factor: float) -> "Schedule":
        """Return the schedule with every learning rate multiplied by `factor` (> 0)."""
        if not (math.isfinite(factor) and factor > 0):
            raise StudyError.at("factor", f"the factor is {factor}", "scale by a positive number")
        return Schedule(tuple(segment.scaled(factor) for segment in self.segments))

    def stretched(self, steps: int) -> "Schedule":
        """Return the schedule drawn out or shortened to `steps` steps, every segment by the same factor.

        Segments that shrink to nothing are left out; the last step keeps its learning rate.

        Examples
        --------
        >>> short = (constant(300, 1e-3) + linear(100, 1e-3, 0)).stretched(40)
        >>> [segment.steps for segment in short.segments]
        [30, 10]
        """
        if not is_integer(steps) or steps < 1:
            raise StudyError.at("key steps", f"{steps} steps are asked for", "ask for at least 1")
        ends = np.cumsum([segment.steps for segment in self.segments])
        ends = np.rint(ends * (steps / self.steps)).astype(int)
        # The last segment keeps a step, and with it the final learning rate.
        ends[:-1] = np.minimum(ends[:-1], steps - 1)
        pairs = zip(self.segments, np.diff(ends, prepend=0), strict=True)
        return Schedule(tuple(part.stretched(int(length)) for part, length in pairs if length))

    def __add__(self, other: "Schedule") -> "Schedule":
        """Return this schedule followed by `other`."""
        return Schedule(self.segments + other.segments)


def constant(steps: int, learning_rate: float) -> Schedule:
    """Return a schedule of `steps` steps at one learning rate."""
    return Schedule((Segment("constant", steps, learning_rate, learning_rate),))


def linear(steps: int, start: float, end: float) -> Schedule:
    """Return a straight line from `start` (before the first step) to `end` (last step)."""
    return Schedule((Segment("linear", steps, start, end),))


def cosine(
    steps: int, peak: float, end: float = 0.0, *, warmup_steps: int = 0, start: float = 0.0
) -> Schedule:
    """Return a half-cosine from `peak` to `end`, after an optional linear warm-up from `start`.

    `steps` counts the warm-up; for a re-warm-up give the base's last learning rate as `start`.
    """
    decay = Schedule((Segment("cosine", steps - warmup_steps, peak, end),))
    return linear(warmup_steps, start, peak) + decay if warmup_steps else decay


def warmup_stable_decay(
    steps: int,
    peak: float,
    end: float = 0.0,
    *,
    decay_steps: int,
    warmup_steps: int = 0,
    start: float = 0.0,
    decay_shape: str = "linear",
) -> Schedule:
    """Return warm-up, a constant stretch and a decay (WSD).

    Parameters
    ----------
    start : float
        Learning rate before the warm-up; for a re-warm-up the base's last learning rate.

    Examples
    --------
    >>> schedule = warmup_stable_decay(1000, 2e-3, decay_steps=200, warmup_steps=50)
    >>> [segment.steps for segment in schedule.segments]
    [50, 750, 200]
    """
    stable_steps = steps - warmup_steps - decay_steps
    segments: Iterable[tuple[str, int, float, float]] = (
        ("linear", warmup_steps, start, peak),
        ("constant", stable_steps, peak, peak),
        (decay_shape, decay_steps, peak, end),
    )
    return Schedule(tuple(Segment(*segment) for segment in segments if segment[1] != 0))

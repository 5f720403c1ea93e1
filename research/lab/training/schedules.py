"""Learning-rate schedules in the segments of the study format, without bayes_cpt.

The i-th of a segment's n steps takes its shape at i/n, so the last step is at `end`. A test holds these
shapes and those of bayes_cpt.study.schedules together.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lab.errors import LabError

SHAPES: dict[str, Callable[[float, float, float], float]] = {
    "constant": lambda start, end, fraction: end,
    "linear": lambda start, end, fraction: start + (end - start) * fraction,
    "cosine": lambda start, end, fraction: (
        end + (start - end) * 0.5 * (1.0 + math.cos(math.pi * fraction))
    ),
    "one_minus_sqrt": lambda start, end, fraction: start + (end - start) * math.sqrt(fraction),
    "exponential": lambda start, end, fraction: start * (end / start) ** fraction,
}
KEYS = ("shape", "steps", "start", "end")


@dataclass(frozen=True)
class Segment:
    """A stretch of `steps` optimiser steps from learning rate `start` to `end` (raw, as 2e-4)."""

    shape: str
    steps: int
    start: float
    end: float


def read_schedule(place: str, tables: object) -> tuple[Segment, ...]:
    """Return the segments of a run."""
    if not isinstance(tables, list) or not tables:
        raise LabError(
            place, "the schedule has no segments", "list at least one { shape, steps, start, end }"
        )
    return tuple(
        _read_segment(f"{place}, segment {number}", table)
        for number, table in enumerate(tables, start=1)
    )


def _read_segment(place: str, table: Any) -> Segment:
    if not isinstance(table, dict) or set(table) != set(KEYS):
        raise LabError(place, f"it is {table!r}", f"give just the keys {', '.join(KEYS)}")
    if table["shape"] not in SHAPES:
        raise LabError(place, f"shape is {table['shape']!r}", f"write one of {', '.join(SHAPES)}")
    if not isinstance(table["steps"], int) or table["steps"] < 1:
        raise LabError(place, f"steps is {table['steps']!r}", "write a whole number above 0")
    for key in ("start", "end"):
        if not isinstance(table[key], int | float) or not 0 <= table[key] <= 0.1:
            raise LabError(
                place, f"{key} is {table[key]!r}", "write a raw learning rate, 2e-4 and not 2.0"
            )
    if table["shape"] == "exponential" and not (table["start"] > 0 and table["end"] > 0):
        raise LabError(place, "an exponential segment starts or ends at 0", "end it above 0")
    return Segment(table["shape"], table["steps"], float(table["start"]), float(table["end"]))


def total_steps(schedule: Sequence[Segment]) -> int:
    """Return the number of steps of a schedule."""
    return sum(segment.steps for segment in schedule)


def learning_rate(schedule: Sequence[Segment], step: int) -> float:
    """Return the learning rate of a step, counted from 1."""
    before = 0
    for segment in schedule:
        if before < step <= before + segment.steps:
            if step == before + segment.steps:
                return segment.end
            return SHAPES[segment.shape](
                segment.start, segment.end, (step - before) / segment.steps
            )
        before += segment.steps
    raise IndexError(f"step {step} of {before}")

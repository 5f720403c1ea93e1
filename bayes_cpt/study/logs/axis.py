"""The axis of a log: which column counts, what it counts, and the step of each row."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from bayes_cpt.checks import Check, suggestion
from bayes_cpt.study.logs.names import (
    CALLS,
    COUNTERS,
    EPOCHS,
    OWN_COUNTERS,
    SAMPLES,
    TOKENS,
    is_loss,
    measured_unit,
    rate_series,
)
from bayes_cpt.study.logs.raw import RawLog, Row, as_number, fail, numbers
from bayes_cpt.study.schedules import LONGEST_STEPS

STEP_UNITS = ("steps", "tokens", "samples", "micro-batches", "epochs")
# Whole to rounding: tokens over tokens per step.
WHOLE = 1e-6
SHOWN = 12


@dataclass(frozen=True)
class Counting:
    """What a log counts.

    Parameters
    ----------
    step : str, optional
        Series that counts the steps.
    step_unit : {"steps", "tokens", "samples", "micro-batches", "epochs"}, optional
        What the log counts; as the name of its counter says, else steps.
    per_step : float, optional
        Tokens, samples or micro-batches of an optimiser step.
    per_epoch : float, optional
        Optimiser steps of an epoch.
    start : int
        The step of the log at which the run begins; its own steps count from there.
    """

    step: str | None = None
    step_unit: str | None = None
    per_step: float | None = None
    per_epoch: float | None = None
    start: int = 0

    def checked(self) -> Check:
        """Return what is wrong or missing."""
        check = Check()
        if self.step_unit not in (None, *STEP_UNITS):
            fix = f"write one of {', '.join(STEP_UNITS)}"
            check.add("key step_unit", f"step_unit is {self.step_unit!r}", fix)
        if self.step_unit == "epochs" and self.per_epoch is None:
            fix = "give --per-epoch N, the optimiser steps of an epoch"
            check.add("key per_epoch", "nothing says how many steps an epoch has", fix)
        if self.step_unit in STEP_UNITS[1:4] and self.per_step is None:
            check.add(
                "key per_step",
                f"nothing says how many {self.step_unit} a step takes",
                f"give --per-step N, the {self.step_unit} of an optimiser step",
            )
        for key in ("per_step", "per_epoch"):
            if getattr(self, key) is not None:
                check.positive(key, getattr(self, key), f"what {key} counts")
        return check


def empty(cell: Any) -> bool:
    """Whether a cell has nothing in it."""
    return cell is None or (isinstance(cell, str) and not cell.strip())


def step_axis(
    raw: RawLog,
    rows: Sequence[Row],
    names: Sequence[str],
    losses: Sequence[str],
    counting: Counting,
    notes: list[str],
) -> tuple[str, list[int | None]]:
    """Return the counter and the step of each row inside the run, None where a row is left out."""
    if counting.step is not None and counting.step not in names:
        raise fail(
            f"{raw.source}, column {counting.step}",
            f"the column {counting.step!r} is missing{suggestion(counting.step, names)}",
            f"name one of {', '.join(names)}",
        )
    counter = counting.step or raw.counter or _counter(raw, rows, names, losses, notes)
    low = counter.lower()
    unit = counting.step_unit or next(
        (
            unit
            for unit, known in (("tokens", TOKENS), ("samples", SAMPLES), ("epochs", EPOCHS))
            if low in known
        ),
        "steps",
    )
    per_step = counting.per_step
    if unit != "steps" and per_step is None and counting.per_epoch is None:
        factor = "--per-epoch N, the optimiser steps of an epoch"
        if unit != "epochs":
            factor = "--per-step N, those of an optimiser step"
        raise fail(
            f"{raw.source}, column {counter}",
            f"it counts {unit}, and a study has steps",
            f"give --step-unit {unit} and {factor}, or name the column of the steps with --step COLUMN",
        )
    counts, unreadable = numbers([row.cells.get(counter) for row in rows], rows, whole=True)
    for row, cell, unclear in unreadable:
        problem = f"the {counter} is {cell!r}"
        problem += ", which can be read as two numbers" if unclear else ""
        raise fail(rows[row].place, problem, "write steps as whole numbers without separators")
    counts = _with_steps(raw, rows, counts, counter, losses, notes)
    return counter, _whole_steps(raw, rows, counts, unit, losses, counting, notes)


def _counter(
    raw: RawLog, rows: Sequence[Row], names: Sequence[str], losses: Sequence[str], notes: list[str]
) -> str:
    """Return the column that counts the steps; two that differ are refused."""
    by_case = {name.strip().lower(): name for name in reversed(names)}
    tiers = (OWN_COUNTERS, COUNTERS, (CALLS,), TOKENS, SAMPLES, EPOCHS)
    found = [[by_case[name] for name in tier if name in by_case] for tier in tiers]
    tier = next((columns for columns in found if columns), [])
    if not tier:
        raise fail(
            raw.source,
            f"no column is called step; there are {', '.join(names)}",
            "say which one counts the steps, --step COLUMN",
        )
    # A column in which no evaluation has a number counts something else.
    own = [row for row in rows if any(not empty(row.cells.get(name)) for name in losses)]

    def covered(name: str) -> int:
        return sum(not empty(row.cells.get(name)) for row in own)

    best = max(tier, key=covered)
    for other in (name for name in tier if name != best):
        if (row := _differing(rows, best, other)) is not None:
            raise fail(
                row.place,
                f"two columns could be the step: {best} is {row.cells[best]} here and {other} is "
                f"{row.cells[other]}",
                f"say which, --step {best} or --step {other}; where it counts micro-batches, "
                "--step-unit micro-batches --per-step N too, N being the gradient accumulation",
            )
    if tier == found[2]:
        _check_calls(raw, rows, losses)
    others = [name for columns in found[1:3] for name in columns if name not in tier]
    if others or tier[0] not in by_case.values() or best.lower() not in ("step", CALLS):
        besides = f", not by {', '.join(others)}" if others else ""
        notes.append(f"{raw.source}: steps are counted by the column {best!r}{besides}")
    elif tier == found[2]:
        notes.append(
            f"{raw.source}: steps are taken from W&B's _step, which counts them only if wandb.log was "
            "given the step"
        )
    return best


def _differing(rows: Sequence[Row], first: str, second: str) -> Row | None:
    for row in rows:
        cells = [row.cells.get(first), row.cells.get(second)]
        if not any(map(empty, cells)) and as_number(cells[0]) != as_number(cells[1]):
            return row
    return None


def _check_calls(raw: RawLog, rows: Sequence[Row], losses: Sequence[str]) -> None:
    """Refuse W&B's count where it is one of calls: evaluations and training have calls of their own."""
    counts = [as_number(row.cells.get(CALLS)) for row in raw.rows]
    known = [count for count in counts if count is not None]
    by_one = all(after - before == 1 for before, after in pairwise(known))
    alone = [
        all(
            measured_unit(name) or empty(cell) or not _trains(name)
            for name, cell in row.cells.items()
        )
        for row in rows
        if any(not empty(row.cells.get(name)) for name in losses)
    ]
    chart = any(column.lower() == "run" for column in raw.names()) and not by_one
    if (by_one and len(alone) > 1 and all(alone) and len(alone) < len(known)) or chart:
        raise fail(
            f"{raw.source}, column {CALLS}",
            "it is W&B's own count of calls of wandb.log, and not the trainer's of steps",
            "export the run with the trainer's counter too (train/global_step, as the x axis of a "
            f"chart), or say --step {CALLS} if wandb.log was given the step",
        )


def _trains(series: str) -> bool:
    return is_loss(series) or rate_series([series]) is not None


def _with_steps(
    raw: RawLog,
    rows: Sequence[Row],
    counts: list[float | None],
    counter: str,
    losses: Sequence[str],
    notes: list[str],
) -> list[float | None]:
    """Leave out what has no step, and say so; refuse it in a table, where a cell of it is empty."""
    missing = [i for i, count in enumerate(counts) if count is None]
    if not missing:
        return counts
    of_losses = [
        i for i in range(len(rows)) if any(not empty(rows[i].cells.get(n)) for n in losses)
    ]
    first = next((rows[i] for i in missing if counter in rows[i].cells), None)
    if first is None and of_losses and all(counts[i] is None for i in of_losses):
        first = rows[of_losses[0]]
    if first is not None:
        others = [
            f"{name} {first.cells[name]}"
            for name in first.cells
            if name.lower() in (*OWN_COUNTERS, *COUNTERS, CALLS) and not empty(first.cells[name])
        ]
        has = f"; the row has {', '.join(others)}" if others else ""
        raise fail(
            first.place,
            f"the {counter} is {first.cells.get(counter)!r}{has}",
            "give every row the step that it was logged at, or remove the row",
        )
    names = list(dict.fromkeys(name for i in missing for name in rows[i].cells if is_loss(name)))
    notes.append(
        f"{rows[missing[0]].place}: {len(missing)} entries without a step, such as a prediction or a "
        f"summary, were left out ({', '.join(names[:SHOWN])})"
    )
    return counts


def _whole_steps(
    raw: RawLog,
    rows: Sequence[Row],
    counts: list[float | None],
    unit: str,
    losses: Sequence[str],
    counting: Counting,
    notes: list[str],
) -> list[int | None]:
    """Return counts as steps inside the run; refuse what is not a whole number of them."""
    values = np.array([math.nan if count is None else count for count in counts], dtype=np.float64)
    known = np.flatnonzero(~np.isnan(values))
    if unit == "epochs":
        values *= counting.per_epoch or 1.0
    elif unit == "micro-batches":
        values = _of_micro_batches(raw, rows, values, losses, counting, notes)
    else:
        values /= counting.per_step or 1.0
    if raw.from_zero and unit == "steps":
        values += 1
        notes.append(f"{raw.source}: its steps are counted from 0; one was added to each")
    steps = np.full(values.size, -1, dtype=np.int64)
    with np.errstate(invalid="ignore"):
        steps[known] = np.rint(np.clip(values[known], -1e18, 1e18)).astype(np.int64)
        apart = np.abs(values - steps) > WHOLE * np.maximum(1.0, np.abs(values))
    for place, problem, fix in (
        (
            known[apart[known] | ~np.isfinite(values[known])],
            "{0:g} is no whole number of steps",
            f"correct --per-step {counting.per_step:g}" if counting.per_step is not None
            else f"correct --per-epoch {counting.per_epoch:g}" if counting.per_epoch is not None
            else "count optimiser steps; if these are epochs, name the column of the steps, --step "
            "COLUMN, or give --step-unit epochs and --per-epoch N, the optimiser steps of an epoch",
        ),
        (known[steps[known] < 0], "the step is {0:g}", "count steps from 0"),
        (
            known[steps[known] - counting.start > LONGEST_STEPS],
            "step {0:g} is more than any run has: these are tokens or samples",
            "give --step-unit tokens (or samples) and --per-step N, those of an optimiser step",
        ),
    ):  # fmt: skip
        if place.size:
            row = int(place[0])
            said = "{0}" if "more than" in problem else "{0:g}"
            value = steps[row] if "more than" in problem else values[row]
            raise fail(rows[row].place, problem.replace("{0:g}", said).format(value), fix)
    inside = set(known.tolist())
    return [int(step) - counting.start if i in inside else None for i, step in enumerate(steps)]


def _of_micro_batches(
    raw: RawLog,
    rows: Sequence[Row],
    values: np.ndarray[Any, np.dtype[np.float64]],
    losses: Sequence[str],
    counting: Counting,
    notes: list[str],
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the steps that micro-batches belong to, counted from 1 or, as evaluations tell, from 0."""
    per_step = counting.per_step or 1.0
    measured = [
        count
        for row, count in zip(rows, values, strict=True)
        if count > 0 and any(not empty(row.cells.get(name)) for name in losses)
    ]
    for first in (1, 0):
        if all((count + 1 - first) % per_step == 0 for count in measured):
            if not first:
                notes.append(f"{raw.source}: its micro-batches are counted from 0")
            return np.ceil((values + 1 - first) / per_step)
    return values / per_step

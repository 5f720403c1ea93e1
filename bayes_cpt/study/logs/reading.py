"""A raw log -> its axis, the steps of the run -> its series, losses and learning rates by step.

All that was chosen, merged or left out is said.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np

from bayes_cpt.checks import Check, suggestion
from bayes_cpt.study.logs.names import (
    CALLS,
    COUNTERS,
    EPOCHS,
    LENGTHS,
    OTHER_AXIS,
    OWN_COUNTERS,
    SAMPLES,
    TOKENS,
    UNITS,
    domain_of,
    is_loss,
    measured_unit,
    rate_series,
)
from bayes_cpt.study.logs.raw import LogError, RawLog, Row, Stated, as_number, fail, numbers
from bayes_cpt.study.logs.readers import AUTO, read_logs
from bayes_cpt.study.schedules import LONGEST_STEPS
from bayes_cpt.study.validation import HIGHEST_LOSS

STEP_UNITS = ("steps", "tokens", "samples", "micro-batches", "epochs")
OVERLAPS = ("refuse", "first", "last")
# Between a log in double precision and one in single precision of the same number.
SAME_VALUE = 1e-6
# Whole to rounding: tokens over tokens per step.
WHOLE = 1e-6
SHOWN = 12
RUN_COLUMNS = ("run", "run_name", "run_id", "experiment", "name", "seed", "model")


@dataclass(frozen=True)
class Reading:
    """How a log is read: what it cannot tell of itself.

    Parameters
    ----------
    kind : str
        One of `bayes_cpt.study.logs.readers.KINDS`.
    paths : tuple of str
        Files, folders or addresses, in the order in which they were written.
    patterns : tuple of str
        Of text logs of no known program: what their lines look like.
    losses : mapping of str to str
        Series of a validation loss and the validation set that it is of; those whose names say so unless
        given.
    rate, step : str, optional
        Series of the learning rate, and that counts the steps.
    row_run : str, optional
        Of tables of several runs: the one meant.
    step_unit : {"steps", "tokens", "samples", "micro-batches", "epochs"}, optional
        What the log counts; as the name of its counter says, else steps.
    per_step : float, optional
        Tokens, samples or micro-batches of an optimiser step.
    per_epoch : float, optional
        Optimiser steps of an epoch.
    loss_unit : {"nats", "bits", "perplexity"}, optional
        Per token; as the names say, else nats.
    start : int
        The step of the log at which the run begins; its own steps count from there.
    overlap : {"refuse", "first", "last"}
        Which of two numbers of a step counts where the log does not say.
    drop_nan : bool
        Leave out losses that are not finite, and say so.
    """

    kind: str = AUTO
    paths: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    losses: Mapping[str, str] = field(default_factory=dict)
    rate: str | None = None
    step: str | None = None
    row_run: str | None = None
    step_unit: str | None = None
    per_step: float | None = None
    per_epoch: float | None = None
    loss_unit: str | None = None
    start: int = 0
    overlap: str = "refuse"
    drop_nan: bool = False

    def __post_init__(self) -> None:
        check = Check()
        for key, value, allowed in (
            ("step_unit", self.step_unit, STEP_UNITS),
            ("loss_unit", self.loss_unit, UNITS),
            ("overlap", self.overlap, OVERLAPS),
        ):
            if value is not None and value not in allowed:
                check.add(f"key {key}", f"{key} is {value!r}", f"write one of {', '.join(allowed)}")
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
        check.raise_problems()

    def read(self, sets: Sequence[str] = ()) -> "Log":
        """Read the log.

        Parameters
        ----------
        sets : sequence of str
            Validation sets that the losses can be of, where they are known: where no name says a
            validation loss, a series that is called by one of them is its.

        Raises
        ------
        LogError
            With every problem, each naming the place in the log and the fix.
        """
        return clean(read_logs(self.kind, self.paths, self.patterns), self, sets)


@dataclass(frozen=True)
class Log:
    """What a log tells about one run, in the units of a study.

    Parameters
    ----------
    source : str
    series : mapping of str to str
        Series of validation losses and the set that each is of.
    losses : tuple of (int, str, float)
        Step inside the run, validation set, nats/token; rising in step within a set.
    rates : tuple of (int, float)
        Step inside the run, raw learning rate; rising in step.
    stated : Stated
        What it states of its job; steps as the run counts them.
    diverged : tuple of int
        Steps at which a loss, of training or validation, is not finite.
    notes : tuple of str
        All that was assumed, merged or left out.
    no_rates : str
        Why it has no learning rates, where its program prints none.
    """

    source: str
    series: Mapping[str, str]
    losses: tuple[tuple[int, str, float], ...]
    rates: tuple[tuple[int, float], ...]
    stated: Stated
    diverged: tuple[int, ...]
    notes: tuple[str, ...]
    no_rates: str = ""

    @property
    def domains(self) -> tuple[str, ...]:
        """Validation sets, in the order of the log."""
        return tuple(dict.fromkeys(domain for _, domain, _ in self.losses))

    @property
    def last_step(self) -> int:
        """Last step of which anything is told."""
        return max([int(row[0]) for row in (*self.losses, *self.rates)], default=0)


class _Point(NamedTuple):
    """A number of a series: its step in the run, the value and the row that it stands in."""

    step: int
    value: float
    row: Row


def clean(raw: RawLog, reading: Reading, sets: Sequence[str] = ()) -> Log:
    """Choose, convert and merge what a raw log holds; see `Reading.read`."""
    notes = list(raw.notes)
    rows = _with_counter(raw, _of_run(raw, reading), notes)
    names = raw.names()
    chosen = _loss_series(raw, rows, names, reading, sets, notes)
    rate = _rate_series(raw, names, reading, notes)
    unit = _unit(raw, chosen, reading, notes)
    tokens = [name for name in names if name.lower() in TOKENS][:1]
    wanted = [*chosen, *([rate] if rate else []), *tokens]
    rows = [row for row in rows if any(not _empty(row.cells.get(name)) for name in wanted)]
    counter, steps = _axis(raw, rows, names, list(chosen), reading, notes)
    check = Check()
    losses: list[tuple[int, str, float]] = []
    for domain in dict.fromkeys(chosen.values()):
        series = [name for name, own in chosen.items() if own == domain]
        points = _points(check, rows, steps, series, notes)
        points = _once(points, raw.carries, f"losses of {domain}", notes)
        points = _merged(check, points, f"losses of {domain}", reading, raw, rows, notes)
        losses += [(point.step, domain, _in_nats(point.value, unit)) for point in points]
        _check_size(check, points, series[0], unit)
    at_rates = _points(check, rows, steps, [rate] if rate else [], notes)
    at_rates = _merged(check, at_rates, "learning rates", reading, raw, rows, notes)
    if check.problems:
        raise LogError(check.problems)
    rates = tuple((point.step, point.value) for point in at_rates)
    stated = _stated(raw, rows, steps, names, counter, rates, reading)
    diverged = _diverged(rows, steps, [name for name in names if is_loss(name) or name in chosen])
    said = tuple(dict.fromkeys(notes))
    return Log(raw.source, chosen, tuple(losses), rates, stated, diverged, said, raw.no_rates)


def _with_counter(raw: RawLog, rows: list[Row], notes: list[str]) -> list[Row]:
    """Return the rows that have a step, of a format that gives all its own one."""
    without = [row for row in rows if raw.counter and _empty(row.cells.get(raw.counter))]
    names = list(dict.fromkeys(name for row in without for name in row.cells if is_loss(name)))
    if names:
        notes.append(
            f"{without[0].place}: {len(without)} entries without a step, such as a prediction or a "
            f"summary, were left out ({', '.join(names[:SHOWN])})"
        )
    return [row for row in rows if not _empty(row.cells.get(raw.counter))] if without else rows


def _empty(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())


# Which rows: those of one run.


def _of_run(raw: RawLog, reading: Reading) -> list[Row]:
    column = next((name for name in raw.names() if name.lower() == "run"), None)
    if reading.row_run is not None:
        column = column or _telling(raw.rows, reading.row_run)
    if column is None:
        if reading.row_run is None:
            return raw.rows
        raise fail(
            raw.source,
            f"no column of it names runs, so there is no run {reading.row_run!r}",
            "leave --row-run out; it is for tables of several runs",
        )
    runs = list(dict.fromkeys(str(row.cells.get(column)) for row in raw.rows))
    if reading.row_run is None and len(runs) > 1:
        raise fail(
            f"{raw.source}, column {column}",
            f"there are rows of {len(runs)} runs: {', '.join(runs[:6])}",
            "say which one, --row-run NAME",
        )
    if reading.row_run is not None and reading.row_run not in runs:
        raise fail(
            f"{raw.source}, column {column}",
            f"there is no run {reading.row_run!r}{suggestion(reading.row_run, runs)}",
            f"name one of {', '.join(runs[:SHOWN])}",
        )
    kept = reading.row_run or runs[0]
    return [row for row in raw.rows if str(row.cells.get(column)) == kept]


def _telling(rows: Sequence[Row], name: str | None = None) -> str | None:
    """Return the column that tells runs apart: one of text, or that has a name for runs."""
    columns = list(dict.fromkeys(column for row in rows for column in row.cells))
    columns.sort(key=lambda column: column.lower() not in RUN_COLUMNS)
    for column in columns:
        cells = [row.cells.get(column) for row in rows]
        texts = {str(cell) for cell in cells if not _empty(cell)}
        if name is not None and name in texts:
            return column
        named = column.lower() in RUN_COLUMNS or all(as_number(text) is None for text in texts)
        if name is None and named and 1 < len(texts) < len(rows) / 2:
            return column
    return None


# Which series: losses, and the learning rate.


def _known(raw: RawLog, series: str, names: Sequence[str]) -> None:
    if series not in names:
        raise fail(
            f"{raw.source}, series {series}",
            f"there is no series {series!r}{suggestion(series, names)}",
            f"name one of {', '.join(names[:SHOWN])}",
        )


def _loss_series(
    raw: RawLog,
    rows: Sequence[Row],
    names: Sequence[str],
    reading: Reading,
    sets: Sequence[str],
    notes: list[str],
) -> dict[str, str]:
    if reading.losses:
        for series in reading.losses:
            _known(raw, series, names)
        return dict(reading.losses)
    units = {name: unit for name in names if (unit := measured_unit(name)) is not None}
    units = {
        name: unit
        for name, unit in units.items()
        if any(not _empty(row.cells.get(name)) for row in rows)
    }
    # One sort of measurement: a loss beside its own perplexity would be the same set twice.
    kept = reading.loss_unit or next((known for known in UNITS if known in units.values()), None)
    domains = {name: domain_of(name) for name, unit in units.items() if unit == kept}
    if not domains and reading.loss_unit:
        domains = {name: domain_of(name) for name in units}
    if not domains:
        called = {name: domain_of(name) for name in names}
        domains = {name: domain for name, domain in called.items() if domain in sets}
    if not domains:
        raise fail(
            raw.source,
            f"no series is called a validation loss; there are {', '.join(names[:SHOWN])}",
            "say which are, --loss SERIES=SET for each (a training loss is none)",
        )
    if len(set(domains.values())) < len(domains):
        raise fail(
            raw.source,
            f"two series are of one validation set: {', '.join(domains)}",
            "say which are meant, --loss SERIES=SET for each",
        )
    words = ", ".join(f"{series} is {domain}" for series, domain in domains.items())
    notes.append(f"{raw.source}: validation sets by the names of the series: {words}")
    if other := [name for name in names if OTHER_AXIS.search(name) and is_loss(name)]:
        notes.append(
            f"{raw.source}: {', '.join(other[:SHOWN])}: the same numbers against another axis, or "
            "smoothed; left out"
        )
    return domains


def _rate_series(
    raw: RawLog, names: Sequence[str], reading: Reading, notes: list[str]
) -> str | None:
    if reading.rate is not None:
        _known(raw, reading.rate, names)
        return reading.rate
    series = rate_series(names)
    if series is not None:
        notes.append(f"{raw.source}: the learning rate is the series {series}")
    return series


def _unit(raw: RawLog, chosen: Mapping[str, str], reading: Reading, notes: list[str]) -> str:
    if reading.loss_unit is not None:
        if reading.loss_unit != "nats":
            notes.append(
                f"{raw.source}: losses were converted from {reading.loss_unit} to nats/token"
            )
        return reading.loss_unit
    for series in chosen:
        said = measured_unit(f"val_{series}")
        if said not in (None, "nats"):
            raise fail(
                f"{raw.source}, series {series}",
                f"it is called {said}, and a study has nats/token",
                f"give --unit {said} to convert it, or --loss SERIES=SET with a loss",
            )
    notes.append(f"{raw.source}: losses are taken as nats/token")
    return "nats"


def _in_nats(value: float, unit: str) -> float:
    if unit == "perplexity":
        return math.log(value) if value > 0 else math.nan
    return value * math.log(2.0) if unit == "bits" else value


def _check_size(check: Check, points: Sequence[_Point], series: str, unit: str) -> None:
    for point in points:
        loss = _in_nats(point.value, unit)
        if loss > 0 and loss <= HIGHEST_LOSS:
            continue
        problem = f"the loss {series} is {point.value:g}"
        fix = "give a cross-entropy above 0; a log-likelihood needs its sign turned"
        if loss > HIGHEST_LOSS:
            problem += ", more than a uniform guess costs"
            fix = "give --unit perplexity if it is one, or --loss SERIES=SET with a mean per token"
        check.add(point.row.place, problem, fix)
        return


# The axis: which column counts, what it counts, and the step of each row.


def _axis(
    raw: RawLog,
    rows: Sequence[Row],
    names: Sequence[str],
    losses: Sequence[str],
    reading: Reading,
    notes: list[str],
) -> tuple[str, list[int | None]]:
    """Return the counter and the step of each row inside the run, None where a row is left out."""
    if reading.step is not None and reading.step not in names:
        raise fail(
            f"{raw.source}, column {reading.step}",
            f"the column {reading.step!r} is missing{suggestion(reading.step, names)}",
            f"name one of {', '.join(names)}",
        )
    counter = reading.step or raw.counter or _counter(raw, rows, names, losses, notes)
    low = counter.lower()
    unit = reading.step_unit or next(
        (
            unit
            for unit, known in (("tokens", TOKENS), ("samples", SAMPLES), ("epochs", EPOCHS))
            if low in known
        ),
        "steps",
    )
    per_step = reading.per_step
    if unit != "steps" and per_step is None and reading.per_epoch is None:
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
    return counter, _whole_steps(raw, rows, counts, unit, losses, reading, notes)


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
    own = [row for row in rows if any(not _empty(row.cells.get(name)) for name in losses)]

    def covered(name: str) -> int:
        return sum(not _empty(row.cells.get(name)) for row in own)

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
        if not any(map(_empty, cells)) and as_number(cells[0]) != as_number(cells[1]):
            return row
    return None


def _check_calls(raw: RawLog, rows: Sequence[Row], losses: Sequence[str]) -> None:
    """Refuse W&B's count where it is one of calls: evaluations and training have calls of their own."""
    counts = [as_number(row.cells.get(CALLS)) for row in raw.rows]
    known = [count for count in counts if count is not None]
    by_one = all(after - before == 1 for before, after in pairwise(known))
    alone = [
        all(
            measured_unit(name) or _empty(cell) or not _trains(name)
            for name, cell in row.cells.items()
        )
        for row in rows
        if any(not _empty(row.cells.get(name)) for name in losses)
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
        i for i in range(len(rows)) if any(not _empty(rows[i].cells.get(n)) for n in losses)
    ]
    first = next((rows[i] for i in missing if counter in rows[i].cells), None)
    if first is None and of_losses and all(counts[i] is None for i in of_losses):
        first = rows[of_losses[0]]
    if first is not None:
        others = [
            f"{name} {first.cells[name]}"
            for name in first.cells
            if name.lower() in (*OWN_COUNTERS, *COUNTERS, CALLS) and not _empty(first.cells[name])
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
    reading: Reading,
    notes: list[str],
) -> list[int | None]:
    """Return counts as steps inside the run; refuse what is not a whole number of them."""
    values = np.array([math.nan if count is None else count for count in counts], dtype=np.float64)
    known = np.flatnonzero(~np.isnan(values))
    if unit == "epochs":
        values *= reading.per_epoch or 1.0
    elif unit == "micro-batches":
        values = _of_micro_batches(raw, rows, values, losses, reading, notes)
    else:
        values /= reading.per_step or 1.0
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
            f"correct --per-step {reading.per_step:g}" if reading.per_step is not None
            else f"correct --per-epoch {reading.per_epoch:g}" if reading.per_epoch is not None
            else "count optimiser steps; if these are epochs, name the column of the steps, --step "
            "COLUMN, or give --step-unit epochs and --per-epoch N, the optimiser steps of an epoch",
        ),
        (known[steps[known] < 0], "the step is {0:g}", "count steps from 0"),
        (
            known[steps[known] - reading.start > LONGEST_STEPS],
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
    return [int(step) - reading.start if i in inside else None for i, step in enumerate(steps)]


def _of_micro_batches(
    raw: RawLog,
    rows: Sequence[Row],
    values: np.ndarray[Any, np.dtype[np.float64]],
    losses: Sequence[str],
    reading: Reading,
    notes: list[str],
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the steps that micro-batches belong to, counted from 1 or, as evaluations tell, from 0."""
    per_step = reading.per_step or 1.0
    measured = [
        count
        for row, count in zip(rows, values, strict=True)
        if count > 0 and any(not _empty(row.cells.get(name)) for name in losses)
    ]
    for first in (1, 0):
        if all((count + 1 - first) % per_step == 0 for count in measured):
            if not first:
                notes.append(f"{raw.source}: its micro-batches are counted from 0")
            return np.ceil((values + 1 - first) / per_step)
    return values / per_step


# The series: points, each measurement once.


def _points(
    check: Check,
    rows: Sequence[Row],
    steps: Sequence[int | None],
    series: Sequence[str],
    notes: list[str],
) -> list[_Point]:
    """Return the numbers of series in the order of the log; cells that hold none are named."""
    points = []
    for name in series:
        own = [
            (row, step)
            for row, step in zip(rows, steps, strict=True)
            if not _empty(row.cells.get(name))
        ]
        values, unreadable = numbers([row.cells[name] for row, _ in own], rows)
        if unreadable:
            clear = [cell for cell in unreadable if not cell.unclear]
            for cell in [cell for cell in unreadable if cell.unclear][:1]:
                problem = f"the {name} is {cell.cell!r}, which can be read as two numbers"
                check.add(own[cell.row][0].place, problem, "write it with a decimal point")
            if clear and len(clear) == len(own):
                check.add(
                    own[0][0].place,
                    f"no cell of {name} holds a number; this one is {clear[0].cell!r}",
                    "write numbers, or name another series",
                )
            elif clear:
                shown = ", ".join(
                    f"{c.cell.strip()!r} ({own[c.row][0].place})" for c in clear[:SHOWN]
                )
                notes.append(
                    f"{len(clear)} cells of {name} hold no number and were left out: {shown}"
                )
        points += [
            _Point(step, value, row)
            for (row, step), value in zip(own, values, strict=True)
            if value is not None and step is not None
        ]
    return points


def _once(points: list[_Point], carries: bool, what: str, notes: list[str]) -> list[_Point]:
    """Return measurements once each: a value that is carried along from row to row is no new one."""
    blocks = [list(block) for _, block in groupby(points, key=lambda point: point.value)]
    lengths = [len({point.step for point in block}) for block in blocks]
    trained = any(_changing(block) for block in blocks if len(block) > 2)
    often = len(blocks) > 2 and all(length > 1 for length in lengths[:-1])
    if not (carries or often or (len(blocks) == 1 and trained)) or len(points) == len(blocks):
        return points
    notes.append(
        f"{what}: {len(points) - len(blocks)} rows carry the last measurement along; each is "
        "taken once, where it first appears"
    )
    return [block[0] for block in blocks]


def _changing(block: Sequence[_Point]) -> bool:
    """Whether the training loss of rows changes while a validation loss stays the same."""
    names = {name for name in block[0].row.cells if is_loss(name) and measured_unit(name) is None}
    return any(len({str(point.row.cells.get(name)) for point in block}) > 2 for name in names)


def _merged(
    check: Check,
    points: Sequence[_Point],
    what: str,
    reading: Reading,
    raw: RawLog,
    rows: Sequence[Row],
    notes: list[str],
) -> list[_Point]:
    """Return one point for each step of the run, in rising order; what was merged is said.

    Two values at a step are told apart by what the log says: where the steps fall and go on from there, the
    job was resumed and the later one counts; the best checkpoint evaluated at the end is not the run.
    """
    kept: dict[int, _Point] = {}
    count = dict.fromkeys(("repeat", "before", "dropped", "resumed", "chosen"), 0)
    first = newest = -1
    last: float = -math.inf
    resumed, anew = "", False
    best: list[_Point] = []
    for point in points:
        step, value = point.step, point.value
        if step < last:
            resumed = resumed or point.row.place
            anew = step <= first
        first = step if first < 0 else first
        last = step
        if step < 0:
            count["before"] += 1
        elif not math.isfinite(value):
            count["dropped"] += 1
            if not reading.drop_nan:
                check.add(
                    point.row.place,
                    f"the value of the {what} is {value:g} at step {step}",
                    "give --drop-nan to leave such rows out, if the run went on from there; a run "
                    "that diverged tells nothing about the law",
                )
                return []
        elif step not in kept:
            kept[step] = point
            newest = max(newest, step)
        elif _same(value, kept[step].value):
            count["repeat"] += 1
        elif step == newest and (
            (raw.trains_between and not resumed)
            or any(_same(value, other.value) for other in kept.values() if other.step < step)
        ):
            best.append(point)
        elif resumed and not anew:
            count["resumed"] += 1
            kept[step] = point
        elif reading.overlap == "refuse":
            check.add(*_two_values(kept[step], point, what, rows, anew))
            return []
        else:
            count["chosen"] += 1
            if reading.overlap == "last":
                kept[step] = point
    said = {
        "repeat": "{} rows repeat an earlier one and were merged",
        "before": f"{{}} rows before step {reading.start}, the run's start, were left out",
        "dropped": "{} rows that are not finite were left out",
        "resumed": "of {} steps that were logged twice the resumed job's counts",
        "chosen": f"of {{}} steps that were logged twice the {reading.overlap} was kept",
    }
    if resumed:
        notes.append(f"{resumed}: the steps of the {what} fall here: the job was resumed")
    notes += [f"{what}: {said[key].format(number)}" for key, number in count.items() if number]
    for point in best:
        same = next((p.step for p in kept.values() if _same(p.value, point.value)), None)
        which = "of another checkpoint" if same is None else f"that of step {same} again"
        notes.append(
            f"{point.row.place}: the second evaluation of step {point.step} is {which}, as when the best "
            "one is evaluated at the end (load_best_model_at_end): the first is the run's"
        )
    return [kept[step] for step in sorted(kept)]


def _same(value: float, other: float) -> bool:
    return abs(value - other) <= SAME_VALUE * abs(value)


def _two_values(
    kept: _Point, point: _Point, what: str, rows: Sequence[Row], anew: bool
) -> tuple[str, str, str]:
    """Return the problem of two values at a step: several runs, where the log shows that, or one twice."""
    problem = (
        f"the value of the {what} is {point.value:g} at step {point.step}, but {kept.value:g} in "
        f"{kept.row.place}"
    )
    column = _telling(rows)
    if column is not None and kept.row.cells.get(column) != point.row.cells.get(column):
        runs = list(dict.fromkeys(str(row.cells.get(column)) for row in rows))
        return (
            point.row.place,
            f"{problem}: the column {column} has rows of {len(runs)} runs, {', '.join(runs[:6])}",
            f"say which one, --row-run {runs[0]}",
        )
    if anew and kept.row.file != point.row.file:
        return (
            point.row.place,
            f"{problem}: these are logs of two runs, or of two validation sets of one",
            "name the logs of one run only; a log for each set is imported one after the other, each "
            "with its own --loss SERIES=SET",
        )
    if anew:
        return (
            point.row.place,
            f"{problem}: the steps begin again, so this is the log of two runs",
            "keep the part of one run, or give --overlap last if the job was started anew",
        )
    return (
        point.row.place,
        problem,
        "give --overlap first if the last is an evaluation of another checkpoint, such as the best one "
        "(load_best_model_at_end); --overlap last to keep what a restarted job logged",
    )


# What the log states of its job.


def _stated(
    raw: RawLog,
    rows: Sequence[Row],
    steps: Sequence[int | None],
    names: Sequence[str],
    counter: str,
    rates: Sequence[tuple[int, float]],
    reading: Reading,
) -> Stated:
    stated = dict(raw.stated)
    for name in names:
        if name.lower() in LENGTHS:
            lengths = [as_number(row.cells.get(name)) for row in rows]
            known = [length for length in lengths if length is not None and length > 0]
            stated |= {"steps": int(known[-1])} if known else {}
    if stated.get("steps") is not None:
        stated["steps"] -= reading.start
    if rates:
        stated.setdefault("peak_rate", max(rate for _, rate in rates))
    tokens = next((name for name in names if name.lower() in TOKENS and name != counter), None)
    if tokens is not None:
        read, _ = numbers([row.cells.get(tokens) for row in rows], rows, whole=True)
        sizes = [
            count / (step + reading.start)
            for count, step in zip(read, steps, strict=True)
            if count and step is not None and step > 0
        ]
        if sizes and max(sizes) <= 1.01 * min(sizes):
            stated.setdefault("batch_tokens", sizes[-1])
    return Stated(**stated)


def _diverged(
    rows: Sequence[Row], steps: Sequence[int | None], names: Sequence[str]
) -> tuple[int, ...]:
    found = set()
    for name in names:
        for row, step in zip(rows, steps, strict=True):
            value = row.cells.get(name)
            # Nearly all begin with a digit.
            if value is None or step is None or (isinstance(value, str) and value[:1].isdigit()):
                continue
            number = as_number(value)
            if number is not None and not math.isfinite(number):
                found.add(step)
    return tuple(sorted(found))

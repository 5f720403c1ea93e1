"""A raw log -> its axis, the steps of the run -> its series, losses and learning rates by step.

All that was chosen, merged or left out is said.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from bayes_cpt.checks import Check, suggestion
from bayes_cpt.study.logs.axis import SHOWN, Counting, empty, step_axis
from bayes_cpt.study.logs.names import (
    CALLS,
    COUNTERS,
    LENGTHS,
    OTHER_AXIS,
    OWN_COUNTERS,
    TOKENS,
    UNITS,
    domain_of,
    is_loss,
    measured_unit,
    rate_series,
)
from bayes_cpt.study.logs.raw import LogError, RawLog, Row, Stated, as_number, fail, numbers
from bayes_cpt.study.logs.readers import AUTO, read_logs
from bayes_cpt.study.validation import HIGHEST_LOSS

OVERLAPS = ("refuse", "first", "last")
# Between a log in double precision and one in single precision of the same number.
SAME_VALUE = 1e-6
RUN_COLUMNS = ("run", "run_name", "run_id", "experiment", "name", "seed", "model")


@dataclass(frozen=True)
class Reading(Counting):
    """How a log is read: what it cannot tell of itself, besides what it counts.

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
    rate : str, optional
        Series of the learning rate.
    row_run : str, optional
        Of tables of several runs: the one meant.
    loss_unit : {"nats", "bits", "perplexity"}, optional
        Per token; as the names say, else nats.
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
    row_run: str | None = None
    loss_unit: str | None = None
    overlap: str = "refuse"
    drop_nan: bool = False

    def __post_init__(self) -> None:
        check = self.checked()
        for key, value, allowed in (
            ("loss_unit", self.loss_unit, UNITS),
            ("overlap", self.overlap, OVERLAPS),
        ):
            if value is not None and value not in allowed:
                check.add(f"key {key}", f"{key} is {value!r}", f"write one of {', '.join(allowed)}")
        check.raise_problems()

    def read(self, sets: Sequence[str] = ()) -> "Log":
        """Read the log."""
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
    rows = [row for row in rows if any(not empty(row.cells.get(name)) for name in wanted)]
    counter, steps = step_axis(raw, rows, names, list(chosen), reading, notes)
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
    without = [row for row in rows if raw.counter and empty(row.cells.get(raw.counter))]
    names = list(dict.fromkeys(name for row in without for name in row.cells if is_loss(name)))
    if names:
        notes.append(
            f"{without[0].place}: {len(without)} entries without a step, such as a prediction or a "
            f"summary, were left out ({', '.join(names[:SHOWN])})"
        )
    return [row for row in rows if not empty(row.cells.get(raw.counter))] if without else rows


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
        texts = {str(cell) for cell in cells if not empty(cell)}
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
        if any(not empty(row.cells.get(name)) for row in rows)
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
        others = [name for name in names if name.lower() not in (*OWN_COUNTERS, *COUNTERS, CALLS)]
        raise fail(
            raw.source,
            f"no series is called a validation loss; there are {', '.join(others[:SHOWN])}",
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
            if not empty(row.cells.get(name))
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

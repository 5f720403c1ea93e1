"""A raw log -> its axis, the steps of the run -> its series, losses and learning rates by step.

All that was chosen, merged or left out is said.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise, product
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import BeforeValidator, Field

from bayes_cpt.arrays import Ints
from bayes_cpt.checks import Check, unknown
from bayes_cpt.errors import StudyError
from bayes_cpt.study.logs import naming, raw
from bayes_cpt.study.logs.axis import SHOWN, Counting, StepAxis, without_step
from bayes_cpt.study.logs.raw import Cells, RawLog, Row, Stated, as_number, fail
from bayes_cpt.study.logs.readers import AUTO, read_logs
from bayes_cpt.study.logs.recognize import digits_of
from bayes_cpt.study.validation import UNIFORM_GUESS

# Between a log in double precision and one in single precision of the same number.
SAME_VALUE = 1e-6
# Several losses of so many significant digits are equal only where one was carried along.
PRECISE = 5
# Losses of so few digits are equal by chance.
FEW_DIGITS = 3
# So many blocks of rows in which a precise loss stays the same are no chance.
FEWEST_BLOCKS = 4
# A job that is resumed does not go back to so small a share of what it did.
NEAR_START = 0.1
# Rows of a job, on average, at the least.
FEWEST_ROWS = 5
# So many steps may have a second evaluation, of another checkpoint.
MOST_AGAIN = 2
# Such a share of a loss may be worse than a guess.
MOST_HIGH = 0.05
BEST_AGAIN = "as when the best one is evaluated at the end (load_best_model_at_end)"
NO_SETS = (
    "against another axis, smoothed, a best, spread, sum, part or task, by the names; left out"
)
WHICH_RUN = "say which one, --row-run NAME; take the column out if they are of one job"
# One text or several.
type Texts = Annotated[
    tuple[str, ...], BeforeValidator(lambda texts: (texts,) if isinstance(texts, str) else texts)
]


class Reading(Counting):
    """How a log is read: what it does not contain, besides what it counts."""

    kind: str = AUTO  # one of `bayes_cpt.study.logs.readers.KINDS`
    paths: Texts = ()  # files or folders, in the order in which they were written
    patterns: Texts = ()  # of text logs of no known program: what their lines look like
    # Series of a validation loss and the set that it is of; those whose names say so unless given
    losses: dict[str, str] = Field(default_factory=dict)
    rate: str | None = None  # series of the learning rate
    row_run: str | None = None  # of tables of several runs: the one meant
    # Per token; as the names say, else nats
    loss_unit: Literal["nats", "bits", "perplexity"] | None = None
    # Which of two numbers of a step counts where the log does not say
    overlap: Literal["refuse", "first", "last"] = "refuse"
    drop_nan: bool = False  # leave out losses that are not finite, and say so

    def read(self, sets: Sequence[str] = ()) -> "Log":
        """Read the log; a series that is called as one of the sets is taken for its losses.

        Where ``train`` is one of them a log without validation losses is read by its training loss.
        """
        found = read_logs(self.kind, self.paths, self.patterns)
        return _Cleaning(found, self, Cells(found.rows), list(found.notes)).log(sets)


@dataclass(frozen=True)
class Log:
    """What a log tells about one run, in the units of a study."""

    source: str
    # Series of validation losses and the set that each is of
    series: Mapping[str, str] = field(default_factory=dict)
    # Step inside the run, validation set, nats/token; rising in step within a set
    losses: tuple[tuple[int, str, float], ...] = ()
    # Step inside the run, raw learning rate; rising in step
    rates: tuple[tuple[int, float], ...] = ()
    # What it states of its job; steps as the run counts them
    stated: Stated = field(default=Stated())
    # First and last training loss, as the log has them; empty where it has none
    trained: tuple[float, ...] = ()
    # Steps at which a loss, of training or validation, is not finite
    diverged: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()  # all that was assumed, merged or left out
    no_rates: str = ""  # why it has no learning rates, where its program prints none

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
    job: int  # 0, and one more after each time that a job was resumed


@dataclass
class _Cleaning:
    """The way of a raw log to the losses and learning rates of one run."""

    raw: RawLog
    reading: Reading
    cells: Cells
    notes: list[str]
    check: Check = field(default_factory=Check)

    def log(self, sets: Sequence[str]) -> Log:
        """Return what the log tells."""
        self._keep_one_run()
        names = self.cells.names
        counters = {self.reading.step or self.raw.counter} & {*names}
        counters = counters or {*filter(naming.count_of, names)}
        # An empty cell has a step that is wrong, which is not passed over.
        has_step = np.array([not row.cells.keys().isdisjoint(counters) for row in self.cells.rows])
        if has_step.any() and not has_step.all():
            self.notes += without_step(self.cells.kept(~has_step))
            self.cells = self.cells.kept(has_step)
        chosen = self._loss_series(sets)
        trained = self._trained()
        rate = self._rate_series()
        in_nats = IN_NATS[self._unit(chosen)]
        tokens = [name for name in names if naming.count_of(name) == "tokens"][:1]
        wanted = [*chosen, *([rate] if rate else []), *tokens]
        self.cells = self.cells.kept(self.cells.given(wanted))
        axis = StepAxis(self.raw, self.cells, list(chosen), self.reading, self.notes)
        counter, self.cells, steps = axis.steps()
        if steps.size > 1 and (np.diff(steps) < 0).all():
            # A table may begin with the newest row.
            self.cells, steps, trained = Cells(self.cells.rows[::-1]), steps[::-1], trained[::-1]
        self._check_one_run(chosen, steps)
        jobs = _jobs(steps)
        if self.reading.overlap == "last" and jobs.any():
            # Of the run that was given up, until the job comes there again.
            beyond = (jobs < jobs[-1]) & (steps > steps[jobs == jobs[-1]].max())
            self.cells, steps, jobs = self.cells.kept(~beyond), steps[~beyond], jobs[~beyond]
            if beyond.any():
                said = f"{beyond.sum()} rows of an earlier job were left out"
                self.notes.append(f"{said}: the resumed one has not come there again")
        losses: list[tuple[int, str, float]] = []
        for domain in dict.fromkeys(chosen.values()):
            what = f"losses of {domain}"
            series = [name for name, own in chosen.items() if own == domain]
            points = self._points(series, steps, jobs)
            # What carries a measurement along is a validation loss.
            if not all(map(naming.is_training_loss, series)):
                points = self._once(points, what)
            points = self._merged(points, what)
            nats = [in_nats(point.value) for point in points]
            self._check_size(points, nats, series[0])
            losses += [(point.step, domain, loss) for point, loss in zip(points, nats, strict=True)]
        at_rates = self._merged(self._points([rate] if rate else [], steps, jobs), "learning rates")
        rates = [(point.step, point.value) for point in at_rates]
        if times := naming.PATTERNS["times"].search(rate or ""):
            rates = [(step, float(f"{value * float(times[1]):.12g}")) for step, value in rates]
        self.check.raise_problems()
        return Log(
            source=self.raw.source,
            series=chosen,
            losses=tuple(losses),
            rates=tuple(rates),
            stated=self._stated(counter, steps, [name for name in tokens if name != counter]),
            trained=trained,
            diverged=self._diverged(steps, {*chosen, *filter(naming.is_loss, names)}),
            notes=tuple(dict.fromkeys(self.notes)),
            no_rates=self.raw.no_rates,
        )

    def _say(self, note: str) -> None:
        self.notes.append(f"{self.raw.source}: {note}")

    # Which rows: those of one run.

    def _keep_one_run(self) -> None:
        wanted, names = self.reading.row_run, self.cells.names
        if wanted is None:
            for column in self._naming_runs():
                if column.lower() == "run" and len(self._runs(column)) > 1:
                    raise self._several(column)
            return
        # Those that are called so first.
        columns = (*self._naming_runs(), *names)
        column = next((own for own in columns if wanted in self._texts(own)), "")
        if not column:
            problem = f"no column names runs, and none is called {wanted!r}"
            fix = "give --row-run NAME as a column has it; leave it out for a log of one run"
            raise fail(self.raw.source, problem, fix)
        which = [run == wanted for run in self._texts(column)]
        self.cells = self.cells.kept(np.array(which, dtype=bool))

    def _check_one_run(self, losses: Iterable[str], steps: Ints) -> None:
        """Refuse rows of several runs: of a column that names runs, where the steps of two overlap.

        A job that was resumed under another name goes on where the first one ended.
        """
        wanted = self.reading.row_run
        for column, series in product(self._naming_runs() if wanted is None else (), losses):
            measured = self.cells.given([series]) & self.cells.given([column])
            runs = np.array(self._texts(column))[measured]
            own = [steps[measured][runs == run] for run in np.unique(runs)]
            spans = sorted((run.min(), run.max()) for run in own)
            if any(after < end or after == begin for (begin, end), (after, _) in pairwise(spans)):
                raise self._several(column)
            if len(own) > 1:
                said = f"{self._of_runs(column)}, by {column}, one after the other"
                self._say(f"{said}: taken as one job")

    def _naming_runs(self) -> list[str]:
        """Return the columns that say of which run a row is."""
        names = self.cells.names
        called = (n for n in names if not naming.WORDS["run"].isdisjoint(naming.words(n)))
        texts = [own for own in called if not any(map(as_number, self.cells.column(own)))]
        return [n for n in names if n.lower() in naming.NAMES["runs"] or n in texts]

    def _texts(self, column: str) -> list[str]:
        return list(map(str, self.cells.column(column)))

    def _runs(self, column: str) -> list[str]:
        named = (cell for cell in self.cells.column(column) if cell is not None)
        return list(dict.fromkeys(map(str, named)))

    def _of_runs(self, column: str) -> str:
        runs = self._runs(column)
        return f"there are rows of {len(runs)} runs: {', '.join(runs[:6])}"

    def _several(self, column: str) -> StudyError:
        return fail(f"{self.raw.source}, column {column}", self._of_runs(column), WHICH_RUN)

    # Which series: losses, and the learning rate.

    def _check_known(self, series: Iterable[str]) -> None:
        names = self.cells.names
        for name in series:
            if name not in names:
                raise fail(f"{self.raw.source}, series {name}", *unknown("series", name, names))

    def _loss_series(self, sets: Sequence[str]) -> dict[str, str]:
        """Return the series of validation losses, and of which set each is."""
        if self.reading.losses:
            self._check_known(self.reading.losses)
            return dict(self.reading.losses)
        names = self.cells.names
        said = {name: naming.measured_unit(name) for name in names}
        units = {name: own for name, own in said.items() if own and self.cells.given([name]).any()}
        # One sort of measurement: a loss beside its own perplexity would be the same set twice.
        order = (self.reading.loss_unit, *naming.UNITS, naming.OF_A_BYTE)
        kept = next((unit for unit in order if unit in units.values()), None)
        chosen = [name for name, unit in units.items() if unit == kept]
        # As in val_general, general_loss.
        chosen = chosen or [name for name in names if naming.domain_of(name) in sets]
        domains = {name: naming.domain_of(name) for name in chosen}
        if naming.TRAIN in sets and not units and (series := self._training_series()):
            self._say(f"no validation loss; the training loss, {series}, takes its place")
            return {series: naming.TRAIN}
        if not domains:
            others = [n for n in names if naming.count_of(n) not in ("own", "steps", "calls")]
            there = ", ".join(others[:SHOWN]) or "none"
            none = [f"no series is called a validation loss; there are {there}", *self.notes]
            fix = "say which are, --loss SERIES=SET for each (a training loss is not one)"
            if not any(map(naming.is_loss, others)):
                none[0] = f"no series is called a loss; there are {there}"
                fix = "name the log that has the losses; if one of these is one, --loss SERIES=SET"
            raise fail(self.raw.source, "; ".join(none), fix)
        if len(set(domains.values())) < len(domains):
            problem = f"two series are of one validation set: {', '.join(domains)}"
            raise fail(self.raw.source, problem, "say which are meant, --loss SERIES=SET for each")
        sets_of = ", ".join(f"{series} is {domain}" for series, domain in domains.items())
        self._say(f"validation sets by the names of the series: {sets_of}")
        no_set = naming.PATTERNS["no_set"].search
        if other := [own for own in filter(naming.is_loss, names) if no_set(naming.joined(own))]:
            self._say(f"{', '.join(other[:SHOWN])}: {NO_SETS}")
        if left := [name for name in units if naming.domain_of(name) not in domains.values()]:
            self._say(f"{', '.join(left[:SHOWN])}: sets measured in {units[left[0]]}; left out")
        return domains

    def _training_series(self) -> str:
        """Return the series of training losses that has most of them, "" if none has any."""
        names = filter(naming.is_training_loss, self.cells.names)
        return max(names, key=lambda name: int(self.cells.given([name]).sum()), default="")

    def _trained(self) -> tuple[float, ...]:
        """Return the first and the last training loss."""
        numbers = map(as_number, self.cells.column(self._training_series()))
        known = [number for number in numbers if number and math.isfinite(number)]
        return (known[0], known[-1]) if known else ()

    def _rate_series(self) -> str | None:
        if self.reading.rate is not None:
            self._check_known([self.reading.rate])
            return self.reading.rate
        if not (series := naming.rate_series(self.cells.names)):
            return None
        besides = f", not {', '.join(series[1 : SHOWN + 1])} (--rate)" if series[1:] else ""
        self._say(f"the learning rate is the series {series[0]}{besides}")
        return series[0]

    def _unit(self, chosen: Iterable[str]) -> str:
        unit = self.reading.loss_unit
        if unit is not None:
            if unit != "nats":
                self._say(f"losses were converted from {unit} per token to nats/token")
            return unit
        for series in chosen:
            said = naming.measured_unit(f"val_{series}")
            fix = f"give --unit {said} to convert it, or --loss SERIES=SET with a loss"
            if said == naming.OF_A_BYTE:
                fix = "make a table in which it is multiplied by the bytes (characters, words) of a token, "
                fix += f"bits also by {math.log(2):.4f}; of what is per token give --unit nats (bits ...)"
            if said not in (None, "nats"):
                problem = f"by its name it is {said}, and a study has nats/token"
                raise fail(f"{self.raw.source}, series {series}", problem, fix)
        if naming.FAIRSEQ in self.cells.names:
            problem = "it is a log of fairseq, whose losses are in base 2"
            raise fail(self.raw.source, problem, "give --unit bits, and the series with --loss")
        self._say("losses are taken as nats/token")
        return "nats"

    def _check_size(self, points: Sequence[_Point], nats: Sequence[float], series: str) -> None:
        """Note the first point that is no loss in nats/token."""
        high = sum(loss > UNIFORM_GUESS for loss in nats)
        # An untrained model may be far worse than a guess, and so may single losses after its first steps.
        is_loss = naming.is_training_loss(series) or naming.measured_unit(series) == "nats"
        single = is_loss and high <= MOST_HIGH * len(nats)
        for point, loss in zip(points, nats, strict=True):
            if loss <= 0 or (loss > UNIFORM_GUESS and point.step > 0 and not single):
                problem = f"the loss {series} is {point.value:g}"
                fix = "give a cross-entropy above 0; a log-likelihood needs its sign turned"
                if loss > UNIFORM_GUESS:
                    problem += ", more than a uniform guess costs"
                    fix = "give --unit perplexity if it is one, or --loss SERIES=SET with a mean per token"
                    if is_loss and 2 * high < len(nats):
                        problem += f", as are {high} of its {len(nats)} values"
                        fix = "remove those rows if the run was not itself there; else " + fix
                self.check.add(point.row.place, problem, fix)
                return

    # The series: points, each measurement once.

    def _points(self, series: Sequence[str], steps: Ints, jobs: Ints) -> list[_Point]:
        """Return the numbers of series in the order of the log; cells that hold none are named."""
        points = []
        rows = self.cells.rows
        for name in series:
            given = np.flatnonzero(self.cells.given([name])).tolist()
            column = self.cells.column(name)
            cells, own = [column[i] for i in given], [rows[i] for i in given]
            values, wrong, unclear = raw.numbers(cells, rows)
            for i in unclear[:1]:
                problem = f"the {name} is {cells[i]!r}, which can be read as two numbers"
                self.check.add(own[i].place, problem, "write it with a decimal point")
            none = [f"{str(cells[i]).strip()!r} ({own[i].place})" for i in wrong]
            if none and len(none) == len(given):
                problem = f"no cell of {name} holds a number, as this one, {none[0]}"
                self.check.add(own[0].place, problem, "write numbers, or name another series")
            elif none:
                said = f"{len(none)} cells of {name} hold no number and were left out"
                self.notes.append(f"{said}: {', '.join(none[:SHOWN])}")
            if blank := [str(cell).strip() for cell in filter(raw.says_empty, cells)]:
                said = f"{len(blank)} cells of {name} are taken as empty"
                self.notes.append(f"{said}: {', '.join(dict.fromkeys(blank))}")
            low = [value for value in values if value is not None and value <= 0.0]
            sentinel = None
            if naming.is_loss(name) and _is_sentinel(low, values):
                sentinel = low[0]
                said = f"{len(low)} cells of {name} are {sentinel:g}, as where nothing was measured"
                self.notes.append(f"{said}; taken as empty")
            read = zip(steps[given].tolist(), values, own, jobs[given].tolist(), strict=True)
            points += [
                _Point(step, value, row, job)
                for step, value, row, job in read
                if value is not None and value != sentinel
            ]
        return points

    def _once(self, points: list[_Point], what: str) -> list[_Point]:
        """Return measurements once each: a value that is carried along from row to row is no new one."""
        blocks = [list(block) for _, block in groupby(points, key=lambda point: point.value)]
        rows = [len({point.step for point in block}) for block in blocks]
        # A log may begin within a block.
        digits = max((digits_of(block[0].value) for block in blocks[1:-1]), default=0)
        often = digits > FEW_DIGITS or any(map(_trains_on, blocks[:1]))
        often &= all(times > 1 for times in rows[:-1])
        often |= len(blocks) > FEWEST_BLOCKS and digits >= PRECISE and min(rows[1:-1]) > 1
        # At the end of a decay single losses stay the same; one that is carried along does so all the time.
        mostly = 2 * len(blocks) <= sum(rows)
        kept: list[_Point] = []
        for block, times in zip(blocks, rows, strict=True):
            precise = times > 2 and digits_of(block[0].value) >= PRECISE and mostly
            carries = (often or precise) if self.raw.carries is None else self.raw.carries
            kept += block[:1] if carries else block
        if len(kept) < len(points):
            carried = f"{len(points) - len(kept)} rows carry the last measurement along"
            self.notes.append(f"{what}: {carried}; each is taken once, where it first appears")
        return kept

    def _merged(self, points: Sequence[_Point], what: str) -> list[_Point]:
        """Return one point for each step of the run, in rising order; what was merged is said.

        Two values at a step are told apart by what the log says: where the steps fall and go on from there,
        the job was resumed and the later one counts; the best checkpoint evaluated at the end is not the
        run.
        """
        overlap = self.reading.overlap
        said = {
            "repeat": "{} rows repeat an earlier one and were merged",
            "before": f"{{}} rows before step {self.reading.before}, the run's start, were left out",
            "dropped": "{} rows that are not finite were left out",
            "resumed": "of {} steps that were logged twice the resumed job's counts",
            "chosen": f"of {{}} steps that were logged twice the {overlap} was kept",
        }
        kept: dict[int, _Point] = {}
        count: Counter[str] = Counter()
        last = -math.inf
        # One checkpoint may be evaluated again, at the end, and not many.
        pairs = pairwise(points)
        twice = sum(a.step == b.step and not _same(a.value, b.value) for a, b in pairs) > MOST_AGAIN
        first = points[0].step if points else 0
        end = max((point.step for point in points), default=0)
        resumed, anew, since = "", False, 0
        for point in points:
            step, before = point.step, kept.get(point.step)
            since += 1
            if step < last:
                resumed = resumed or point.row.place
                anew, since = step <= first + NEAR_START * (last - first), 1
            last = step
            if step < 0:
                count["before"] += 1
            elif not math.isfinite(point.value):
                count["dropped"] += 1
                if not self.reading.drop_nan:
                    problem = f"the value of the {what} is {point.value:g} at step {step}"
                    fix = "give --drop-nan to leave such rows out, if the run went on from there"
                    self.check.add(point.row.place, problem, fix)
                    return []
            elif before is None:
                kept[step] = point
            elif _same(point.value, before.value):
                count["repeat"] += 1
            elif (
                step == max(kept)
                and not twice
                and (again := self._of_another(point, kept, bool(resumed) or step < end))
            ):
                said_of_it = f"{point.row.place}: the second evaluation of step {step} is {again}"
                self.notes.append(f"{said_of_it}, {BEST_AGAIN}: the first is the run's")
            # A job that goes on from its last checkpoint may evaluate that first.
            elif (not anew and (resumed or point.job > before.job)) or (
                self.raw.trains_between and not twice and step < end
            ):
                count["resumed"] += 1
                kept[step] = point
            elif overlap != "refuse":
                count["chosen"] += 1
                kept[step] = point if overlap == "last" else before
            else:
                problem = f"the value of the {what} is {point.value:g} at step {step}"
                problem += f", but {before.value:g} in {before.row.place}"
                self.check.add(point.row.place, *_two_values(problem, anew))
                return []
        twice = count["resumed"] + count["repeat"] + count["chosen"] > 0
        if anew and since > MOST_AGAIN and not twice and overlap == "refuse":
            self.check.add(resumed, *_two_values(f"the {what} go back to the first steps", anew))
        elif resumed:
            said_of_it = "the job was resumed" if twice else "rows are not in the order of steps"
            self.notes.append(f"{resumed}: the steps of the {what} fall here: {said_of_it}")
        self.notes += [f"{what}: {said[key].format(number)}" for key, number in count.items()]
        return [kept[step] for step in sorted(kept)]

    def _of_another(self, point: _Point, kept: Mapping[int, _Point], goes_on: bool) -> str | None:
        """Return of which checkpoint the second evaluation of the newest step is, None if of its own."""
        for other in kept.values():
            if other.step < point.step and _same(point.value, other.value):
                return f"that of step {other.step} again"
        again = "of another checkpoint, or of the same one again"
        return again if self.raw.trains_between and not goes_on else None

    # What the log states of its job.

    def _stated(self, counter: str, steps: Ints, tokens: Iterable[str]) -> Stated:
        stated = dict(self.raw.stated)
        if counter == self.raw.counter and "steps" in stated:
            # A format announces what it counts.
            size = self.reading.per_epoch or 1.0 / (self.reading.per_step or 1.0)
            stated["steps"] = round(stated["steps"] * size)
        for name in (own for own in self.cells.names if own.lower() in naming.NAMES["lengths"]):
            known = list(filter(None, map(raw.as_count, self.cells.column(name))))
            stated = {"steps": known[-1], **stated} if known else stated
        if "steps" in stated:
            stated["steps"] -= self.reading.before
        for name in tokens:
            counts, *_ = raw.numbers(self.cells.column(name), self.cells.rows, whole=True)
            unit = naming.scaled(name)[1]
            done = zip(counts, steps + self.reading.before, strict=True)
            sizes = [float(count * unit / step) for count, step in done if count and step > 0]
            if sizes and max(sizes) <= 1.01 * min(sizes):
                stated.setdefault("batch_tokens", sizes[-1])
        return Stated(**stated)

    def _diverged(self, steps: Ints, series: Iterable[str]) -> tuple[int, ...]:
        """Return the steps at which a series is not finite."""
        found = {
            int(steps[row])
            for name in series
            for row, cell in enumerate(self.cells.column(name))
            # Nearly all begin with a digit.
            if not str(cell)[:1].isdigit() and not math.isfinite(as_number(cell) or 0.0)
        }
        return tuple(sorted(found))


# How a number of each unit becomes nats.
IN_NATS: dict[str, Callable[[float], float]] = {
    "nats": lambda value: value,
    "bits": lambda value: value * math.log(2.0),
    "perplexity": lambda value: math.log(value) if value > 0 else math.nan,
}


def _is_sentinel(low: Sequence[float], values: Sequence[float | None]) -> bool:
    """Whether numbers of a loss that are not above 0 say that nothing was measured: it goes on after."""
    if len(low) < 2 or len({*low}) > 1 or not low[0].is_integer():
        return False
    after = values[values.index(low[0]) :]
    return any(value is not None and value > 0.0 for value in after)


def _jobs(steps: Ints) -> Ints:
    """Return to which job each row belongs: one that is resumed goes back, and not to the first steps."""
    if not (steps > 0).any():
        return np.zeros_like(steps)
    begin = max(int(steps[steps > 0].min()), int(steps[0]))
    behind, falls = np.maximum.accumulate(steps)[:-1], np.diff(steps) < 0
    resumed = falls & (steps[1:] > np.maximum(begin, steps[0] + NEAR_START * (behind - steps[0])))
    # One row back is a late evaluation, or another checkpoint; back to the begin, another run.
    resumed[:-1] &= steps[2:] <= behind[:-1]
    resumed[-1:] = False
    resumed &= not (falls & (steps[1:] <= begin)).any()
    # Rows of two jobs that run at once, or in no order, are of none that was resumed.
    few = FEWEST_ROWS * resumed.sum() <= steps.size
    jobs: Ints = np.concatenate([[0], np.cumsum(resumed)])[: steps.size] * few
    return jobs


def _same(value: float, other: float) -> bool:
    return abs(value - other) <= SAME_VALUE * abs(value)


def _two_values(problem: str, anew: bool) -> tuple[str, str]:
    """Return the problem of two values at a step: several runs where the log shows it, or one twice."""
    if anew:
        fix = "keep to one run, or give --overlap last if the job was started anew; import a log "
        fix += "for each set, with its own --loss SERIES=SET (or its own [[logs.NAME]])"
        both = "it is the log of two runs, or of two validation sets of one"
        return f"{problem}: the steps begin again, so {both}", fix
    fix = f"give --overlap first if the last is of another checkpoint, {BEST_AGAIN}, --overlap last of a "
    fix += "restarted job, or where several batches or processes write the losses of one step; "
    fix += "of two validation sets under one name give each its own; of several runs choose "
    return problem, f"{fix}one by its name in a column, --row-run NAME"


def _trains_on(block: Sequence[_Point]) -> bool:
    """Whether the training loss of rows changes while a validation loss stays the same."""
    names = {n for n in block[0].row.cells if naming.is_loss(n) and naming.measured_unit(n) is None}
    return any(len({str(point.row.cells.get(name)) for point in block}) > 2 for name in names)

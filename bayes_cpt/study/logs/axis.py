"""The axis of a log: which column counts, what it counts, and the step of each row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.checks import unknown
from bayes_cpt.strict import Strict, checked
from bayes_cpt.study.logs import naming
from bayes_cpt.study.logs.raw import Cells, RawLog, as_number, fail, numbers, printed_spacing
from bayes_cpt.study.schedules import LONGEST_STEPS

# Whole to rounding: tokens over tokens per step.
WHOLE = 1e-6
SHOWN = 12
# What is counted that is no step.
OTHER_UNITS = ("tokens", "samples", "epochs")
# Evaluations more steps apart do not all come one step early by chance.
FEWEST_BETWEEN = 4
NO_STEPS = (
    "count optimiser steps; if these are epochs, name the column of the steps, --step COLUMN, or give "
    "--step-unit epochs and --per-epoch N, the steps of an epoch"
)
MICRO_BATCHES = "of micro-batches also --step-unit micro-batches --per-step N, those of a step"
ROUNDED = "if the counts are rounded, write steps into a column, and name it, --step COLUMN"
# What each size says of what is counted.
SIZES = {"per_step": "how many {} a step takes", "per_epoch": "how many steps an epoch has"}


class Counting(Strict):
    """What a log counts."""

    step: str | None = None  # series that counts the steps
    # What the log counts; as the name of its counter says, else steps
    step_unit: Literal["steps", "tokens", "samples", "micro-batches", "epochs"] | None = None
    # Tokens, samples or micro-batches of an optimiser step
    per_step: float | None = Field(default=None, gt=0)
    per_epoch: float | None = Field(default=None, gt=0)  # optimiser steps of an epoch
    # The step of the log at which the run begins, else 0; its own steps count from there
    start: int | None = None

    @property
    def before(self) -> int:
        """Steps that were counted before the run."""
        return self.start or 0

    def changed(self, **keys: Any) -> Self:
        """Return a checked copy with other keys."""
        every = {**self.model_dump(exclude_unset=True), **keys}
        return checked(type(self), every, "how the log is read", "see bayes-cpt import --help")


@dataclass
class StepAxis:
    """The way from what a log counts to the steps of its run."""

    raw: RawLog
    cells: Cells
    losses: Sequence[str]  # series of validation losses: what counts their rows counts the steps
    counting: Counting
    notes: list[str]  # what is assumed or left out is added to it

    def steps(self) -> tuple[str, Cells, Ints]:
        """Return the counter, the rows that it counts, and the step of each inside the run."""
        named, names = self.counting.step, self.cells.names
        if named is not None and named not in names:
            raise fail(f"{self.raw.source}, --step {named}", *unknown("column", named, names))
        counter = named or self.raw.counter or self._counter()
        counted = naming.count_of(counter)
        unit = self.counting.step_unit or (counted if counted in OTHER_UNITS else "steps")
        size = self._size(counter, unit)
        counts = self._counts(counter)
        known = ~np.isnan(counts)
        if not known.all():
            self._leave_out(counter, known)
            self.cells, counts = self.cells.kept(known), counts[known]
        spacing = 0.0
        if unit in ("tokens", "samples"):
            # They are printed in few digits.
            spacing = printed_spacing(self.cells.column(counter)) * naming.scaled(counter)[1] / size
        steps = self._whole(self._in_steps(counts, unit, size), spacing)
        start = self.counting.before
        if steps.size and steps.max() < start:
            problem = f"the log ends at step {steps.max()}"
            fix = "say at which step this run begins"
            raise fail(f"{self.raw.source}, --start {start}", problem, fix)
        return counter, self.cells, steps - start

    def _size(self, counter: str, unit: str) -> float:
        """Return the size of a step, or the steps of an epoch; one that lacks or has no use is refused."""
        needed = {"steps": "", "epochs": "per_epoch"}.get(unit, "per_step")
        given = {key: size for key in SIZES if (size := getattr(self.counting, key)) is not None}
        for key in sorted(given.keys() - {needed}):
            problem = f"{counter} counts {unit}, to which this does not apply"
            fix = "say what it counts, --step-unit UNIT, or leave it out"
            raise fail(f"{self.raw.source}, --{key.replace('_', '-')} {given[key]:g}", problem, fix)
        if needed and not given:
            problem = f"it counts {unit}, and nothing says {SIZES[needed].format(unit)}"
            size = f"--{needed.replace('_', '-')} N"
            fix = f"give --step-unit {unit} and {size}, or the column of the steps, --step COLUMN"
            raise fail(f"{self.raw.source}, column {counter}", problem, fix)
        return float(given.get(needed, 1.0))

    def _counter(self) -> str:
        """Return the column that counts the steps; two that differ are refused."""
        names = self.cells.names
        found = {rank: [n for n in names if naming.count_of(n) == rank] for rank in naming.RANKS}
        rank = next((rank for rank in naming.RANKS if found[rank]), None)
        if rank is None:
            problem = f"no column is called step; there are {', '.join(names)}"
            raise fail(self.raw.source, problem, "say which one counts the steps, --step COLUMN")
        # A column in which no evaluation has a number counts something else.
        measured = self.cells.given(self.losses)
        best = max(found[rank], key=lambda name: (self.cells.given([name]) & measured).sum())
        for other in (name for name in found[rank] if name != best):
            pairs = zip(self.cells.column(best), self.cells.column(other), strict=True)
            for row, (one, two) in zip(self.cells.rows, pairs, strict=True):
                if None not in (one, two) and as_number(one) != as_number(two):
                    problem = f"two columns could be the step: {best} is {one} and {other} is {two}"
                    fix = f"say which, --step {best} or --step {other}; {MICRO_BATCHES}"
                    raise fail(row.place, problem, fix)
        others = [n for n in (*found["steps"], *found["calls"]) if n not in found[rank]]
        besides = f", not by {', '.join(others)}" if others else ""
        said = f"steps are counted by the column {best!r}{besides}"
        if rank == "calls":
            self._check_calls(best)
            said = f"steps are W&B's {best}: right only if wandb.log was given the step"
        self.notes.append(f"{self.raw.source}: {said}")
        return best

    def _check_calls(self, calls: str) -> None:
        """Refuse W&B's count where it is one of calls: evaluations and training have calls of their own."""
        measured = self.cells.given(self.losses)
        names = [n for n in self.cells.names if naming.measured_unit(n) is None]
        trained = self.cells.given([*filter(naming.is_loss, names), *naming.rate_series(names)])
        alone = 1 < measured.sum() < len(self.raw.rows) and not (measured & trained).any()
        # A chart, and the Trainer of Hugging Face, which never gives the step.
        is_count = not naming.WORDS["counted"].isdisjoint(map(str.lower, self.cells.names))
        if is_count or alone:
            problem = "it is W&B's own count of calls of wandb.log, and not the trainer's of steps"
            fix = f"say --step {calls} if wandb.log was given the step, else export the trainer's counter "
            fix += "with it (train/global_step, or as x axis of a chart)"
            raise fail(f"{self.raw.source}, column {calls}", problem, fix)

    def _counts(self, counter: str) -> Floats:
        """Return what is counted in each row, NaN where nothing is."""
        cells, rows = self.cells.column(counter), self.cells.rows
        counts, wrong, unclear = numbers(cells, rows, whole=True)
        for place in [*wrong, *unclear][:1]:
            problem = f"the {counter} is {cells[place]!r}"
            problem += ", which can be read as two numbers" if unclear else ""
            fix = "write steps as whole numbers without separators"
            raise fail(rows[place].place, problem, fix)
        return np.array(counts, dtype=np.float64) * naming.scaled(counter)[1]

    def _leave_out(self, counter: str, known: NDArray[np.bool_]) -> None:
        """Say what has no step; refuse it in a table, where a cell of it is empty, and of all losses."""
        rows, measured = self.cells.rows, self.cells.given(self.losses)
        at_fault = [i for i in np.flatnonzero(~known).tolist() if counter in rows[i].cells]
        if not (measured & known).any():
            at_fault += np.flatnonzero(measured).tolist()
        for i in at_fault[:1]:
            cells = rows[i].cells.items()
            others = {name: cell for name, cell in cells if cell and naming.count_of(name)}
            problem = f"the {counter} is {rows[i].cells.get(counter)!r}"
            fix = "give every row the step that it was logged at, or remove the row"
            if others:
                problem += f"; the row has {', '.join(map('{0[0]} {0[1]}'.format, others.items()))}"
                fix = f"say --step {next(iter(others))} if that counts in every row, else {fix}"
            raise fail(rows[i].place, problem, fix)
        self.notes += without_step(self.cells.kept(~known))

    def _in_steps(self, counts: Floats, unit: str, size: float) -> Floats:
        """Return counts as numbers of optimiser steps."""
        measured = self.cells.given(self.losses)
        after = counts[measured & (counts > 0)]
        from_zero = f"{self.raw.source}: its {unit} are counted from 0"
        if unit == "epochs":
            # Keras counts them from 0, and writes each when it is over: its training loss is there.
            trained = self.cells.given(filter(naming.is_training_loss, self.cells.names))
            first = (counts == 0) & measured & trained
            self.notes += [from_zero] if first.any() else []
            return (counts + float(first.any())) * size
        if unit == "micro-batches":
            # They are counted from 1 or, as the evaluations tell, from 0.
            evaluated = self.cells.given(n for n in self.losses if not naming.is_training_loss(n))
            after = counts[evaluated & (counts > 0)]
            shifts = [shift for shift in (0, 1) if ((after + shift) % size == 0).all()]
            if shifts:
                self.notes += [from_zero] if shifts == [1] else []
                return np.ceil((counts + shifts[0]) / size)
        if unit == "steps" and self.raw.from_zero:
            said = "one was added to each, and a line without a step is of the one before it"
            self.notes.append(f"{from_zero}; {said}")
            return counts + 1.0
        if unit == "steps" and self.raw.from_zero is None and _one_early(after):
            said = "as evaluations one step before each round one tell (Lightning, MaxText)"
            self.notes.append(f"{from_zero}, {said}; one was added to each")
            # Only an evaluation before the training is truly of step 0.
            return np.where(measured & (counts == 0), 0.0, counts + 1.0)
        return counts / size

    def _whole(self, values: Floats, spacing: float) -> Ints:
        """Return the steps of values whose digits are so far apart; refuse what no run can have."""
        steps = np.rint(np.clip(values, -1e18, 1e18))
        size = self.counting.per_step or self.counting.per_epoch
        per = "--per-step" if self.counting.per_step else "--per-epoch"
        unit = f"correct {per} {size:g}; {ROUNDED}" if size else NO_STEPS
        exact = WHOLE * np.maximum(1.0, np.abs(values))
        off = np.abs(values - steps)
        whole = off <= exact + (0.5 * spacing if spacing < 1.0 else 0.0)
        far = "step {:.0f} is more than any run has: these are tokens or samples"
        tokens = "give --step-unit tokens (or samples) and --per-step N, those of an optimiser step"
        for wrong, problem, fix in (
            (~whole, "{:g} is not a whole number of steps", unit),
            (steps < 0, "the step is {:g}", "count steps from 0"),
            (steps - self.counting.before > LONGEST_STEPS, far, tokens),
        ):
            for row in np.flatnonzero(wrong)[:1]:
                raise fail(self.cells.rows[row].place, problem.format(values[row]), fix)
        if (off > exact).any():
            self.notes.append(f"{self.raw.source}: counts are rounded; steps are the nearest")
        return steps.astype(np.int64)


def _one_early(measured: Floats) -> bool:
    """Whether what is measured after every 100 steps stands at 99, 199 ..., but for the end of the run.

    A resumed job begins at any of them.
    """
    steps = np.unique(measured) + 1
    every = min(steps.min(initial=np.inf), np.diff(steps[:-1]).min(initial=np.inf))
    even = steps % every == 0
    return bool(every > FEWEST_BETWEEN and even[:-1].all() and even.sum() > 1)


def without_step(cells: Cells) -> list[str]:
    """Say that rows without a step are left out, where they hold a loss."""
    losses = ", ".join(list(filter(naming.is_loss, cells.names))[:SHOWN])
    said = f"{len(cells.rows)} entries without a step, such as a prediction or a summary, were left out"
    return [f"{cells.rows[0].place}: {said} ({losses})"] if losses else []

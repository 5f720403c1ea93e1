"""Raw logs -> measured losses and learning rates by step; all that was chosen or merged is said."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bayes_cpt.checks import Check, suggestion
from bayes_cpt.study.logs.names import UNITS, domain_of, measured_unit, rate_series
from bayes_cpt.study.logs.raw import TOTAL_STEPS, Entry, LogError, RawLog, fail
from bayes_cpt.study.schedules import LONGEST_STEPS
from bayes_cpt.study.validation import HIGHEST_LOSS

STEP_UNITS = ("steps", "tokens", "samples")
OVERLAPS = ("refuse", "first", "last")
# Between a log in double precision and one in single precision of the same number.
SAME_VALUE = 1e-6
# Whole to rounding: tokens over tokens per step.
WHOLE = 1e-6
SHOWN_NAMES = 12


@dataclass(frozen=True)
class Choices:
    """What a log cannot tell of itself.

    Parameters
    ----------
    losses : mapping of str to str
        Series of a validation loss and the validation set that it is of; those whose names say so unless
        given.
    sets : tuple of str
        Validation sets that the losses can be of, where they are known: where no name says a validation
        loss, a series that is called by one of them is its.
    rate : str, optional
        Series of the learning rate.
    step_unit : {"steps", "tokens", "samples"}
        What the log counts.
    per_step : float, optional
        Tokens or samples per optimiser step.
    loss_unit : {"nats", "bits", "perplexity"}, optional
        Per token; as the names say, else nats.
    start : int
        The step of the log at which the run begins; its own steps count from there.
    overlap : {"refuse", "first", "last"}
        Which of two numbers of a step counts where a restarted job logged it twice and differently.
    drop_nan : bool
        Leave out losses that are no numbers, and say so.
    """

    losses: Mapping[str, str] = field(default_factory=dict)
    sets: tuple[str, ...] = ()
    rate: str | None = None
    step_unit: str = "steps"
    per_step: float | None = None
    loss_unit: str | None = None
    start: int = 0
    overlap: str = "refuse"
    drop_nan: bool = False

    def __post_init__(self) -> None:
        check = Check()
        for key, value, allowed in (
            ("step_unit", self.step_unit, STEP_UNITS),
            ("loss_unit", self.loss_unit, (None, *UNITS)),
            ("overlap", self.overlap, OVERLAPS),
        ):
            if value not in allowed:
                named = [name for name in allowed if name]
                check.add(f"key {key}", f"{key} is {value!r}", f"write one of {', '.join(named)}")
        if self.step_unit != "steps" and self.per_step is None:
            check.add(
                "key per_step",
                f"nothing says how many {self.step_unit} a step takes",
                f"give --per-step N, the {self.step_unit} of an optimiser step",
            )
        if self.per_step is not None:
            check.positive("per_step", self.per_step, "tokens or samples per step")
        check.raise_problems()


@dataclass(frozen=True)
class Log:
    """What a log tells about one run, in the units of a study.

    Parameters
    ----------
    source : str
    losses : tuple of (int, str, float)
        Step inside the run, validation set, nats/token; rising in step within a set.
    rates : tuple of (int, float)
        Step inside the run, raw learning rate; rising in step.
    facts : mapping of str to float
        See `RawLog`; steps as the run counts them.
    notes : tuple of str
        All that was assumed, merged or left out.
    """

    source: str
    losses: tuple[tuple[int, str, float], ...]
    rates: tuple[tuple[int, float], ...]
    facts: Mapping[str, float]
    notes: tuple[str, ...]

    @property
    def domains(self) -> tuple[str, ...]:
        """Validation sets, in the order of the log."""
        return tuple(dict.fromkeys(domain for _, domain, _ in self.losses))

    @property
    def last_step(self) -> int:
        """Last step of which anything is told."""
        return max([int(row[0]) for row in (*self.losses, *self.rates)], default=0)


def clean(raw: RawLog, choices: Choices | None = None) -> Log:
    """Choose, convert and merge what a raw log holds.

    Parameters
    ----------
    raw : RawLog
        All that a reader found.
    choices : Choices, optional
        What the log cannot tell; by the names in it unless given.

    Raises
    ------
    LogError
        With every problem, each naming the place in the log and the fix.
    """
    choices = choices or Choices()
    if choices.step_unit == "steps" and raw.counts != "steps":
        raise fail(
            raw.source,
            f"it counts {raw.counts}, and a study has steps",
            f"give --step-unit {raw.counts} and --per-step N, those of an optimiser step, or name the "
            "column of the steps with --step COLUMN",
        )
    notes = list(raw.notes)
    chosen = _loss_series(raw, choices, notes)
    rate = _rate_series(raw, choices, notes)
    unit = _unit(raw, chosen, choices, notes)
    losses: list[tuple[int, str, float]] = []
    check = Check()
    for domain in dict.fromkeys(chosen.values()):
        entries = [entry for entry in raw.entries if chosen.get(entry.series) == domain]
        points = _points(check, entries, f"losses of {domain}", choices, notes)
        losses += [(step, domain, _in_nats(entry.value, unit)) for step, entry in points]
        _check_size(check, points, unit)
    entries = [entry for entry in raw.entries if entry.series == rate]
    at_rates = _points(check, entries, "learning rates", choices, notes)
    rates = tuple((step, entry.value) for step, entry in at_rates)
    if check.problems:
        raise LogError(check.problems)
    facts = dict(raw.facts)
    if TOTAL_STEPS in facts:
        facts[TOTAL_STEPS] -= choices.start
    return Log(raw.source, tuple(losses), rates, facts, tuple(dict.fromkeys(notes)))


def _loss_series(raw: RawLog, choices: Choices, notes: list[str]) -> dict[str, str]:
    names = raw.series()
    if choices.losses:
        for series in choices.losses:
            if series not in names:
                raise fail(
                    f"{raw.source}, series {series}",
                    f"there is no series {series!r}{suggestion(series, names)}",
                    f"name one of {', '.join(names[:SHOWN_NAMES])}",
                )
        return dict(choices.losses)
    units = {name: unit for name in names if (unit := measured_unit(name)) is not None}
    # One sort of measurement: a loss beside its own perplexity would be the same set twice.
    kept = choices.loss_unit or next((known for known in UNITS if known in units.values()), None)
    domains = {name: domain_of(name) for name, unit in units.items() if unit == kept}
    if not domains and choices.loss_unit:
        domains = {name: domain_of(name) for name in units}
    if not domains:
        called = {name: domain_of(name) for name in names}
        domains = {name: domain for name, domain in called.items() if domain in choices.sets}
    if not domains:
        raise fail(
            raw.source,
            f"no series is called a validation loss; there are {', '.join(names[:SHOWN_NAMES])}",
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
    return domains


def _rate_series(raw: RawLog, choices: Choices, notes: list[str]) -> str | None:
    names = raw.series()
    if choices.rate is not None and choices.rate not in names:
        raise fail(
            f"{raw.source}, series {choices.rate}",
            f"there is no series {choices.rate!r}{suggestion(choices.rate, names)}",
            f"name one of {', '.join(names[:SHOWN_NAMES])}",
        )
    series = choices.rate or rate_series(names)
    if series is not None and choices.rate is None:
        notes.append(f"{raw.source}: the learning rate is the series {series}")
    return series


def _unit(raw: RawLog, chosen: Mapping[str, str], choices: Choices, notes: list[str]) -> str:
    if choices.loss_unit is not None:
        if choices.loss_unit != "nats":
            notes.append(
                f"{raw.source}: losses were converted from {choices.loss_unit} to nats/token"
            )
        return choices.loss_unit
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


def _check_size(check: Check, points: Sequence[tuple[int, Entry]], unit: str) -> None:
    for _, entry in points:
        loss = _in_nats(entry.value, unit)
        if not loss > 0:
            check.add(
                entry.place,
                f"the loss {entry.series} is {entry.value:g}",
                "give a cross-entropy above 0; a log-likelihood needs its sign turned",
            )
        elif loss > HIGHEST_LOSS:
            check.add(
                entry.place,
                f"the loss {entry.series} is {entry.value:g}, more than a uniform guess costs",
                "give --unit perplexity if it is one, or --loss SERIES=SET with a mean per token",
            )
        else:
            continue
        return


def _points(
    check: Check, entries: Sequence[Entry], what: str, choices: Choices, notes: list[str]
) -> list[tuple[int, Entry]]:
    """Return one entry per step of the run, in rising order."""
    kept: dict[int, Entry] = {}
    merged, before, dropped, replaced = 0, 0, 0, 0
    last, restart = -math.inf, ""
    for entry in entries:
        step = _step(check, entry, choices)
        if step is None:
            return []
        if step < last and not restart:
            restart = entry.place
        last = step
        if step < 0:
            before += 1
        elif not math.isfinite(entry.value):
            dropped += 1
            if not choices.drop_nan:
                check.add(
                    entry.place,
                    f"{entry.series} is {entry.value:g} at step {entry.step:g}",
                    "give --drop-nan to leave such rows out, if the run went on from there; a run "
                    "that diverged tells nothing about the law",
                )
                return []
        elif step not in kept:
            kept[step] = entry
        elif abs(entry.value - kept[step].value) <= SAME_VALUE * abs(entry.value):
            merged += 1
        elif choices.overlap == "refuse":
            check.add(
                entry.place,
                f"{entry.series} is {entry.value:g} at step {entry.step:g}, but "
                f"{kept[step].value:g} in {kept[step].place}",
                "give --overlap last to keep what the restarted job logged, --overlap first for the other",
            )
            return []
        else:
            replaced += 1
            if choices.overlap == "last":
                kept[step] = entry
    _say(notes, what, merged, before, dropped, replaced, restart, choices)
    return sorted(kept.items())


def _say(
    notes: list[str],
    what: str,
    merged: int,
    before: int,
    dropped: int,
    replaced: int,
    restart: str,
    choices: Choices,
) -> None:
    if restart:
        notes.append(f"{restart}: the steps of the {what} fall here: the job was restarted")
    if merged:
        notes.append(f"{what}: {merged} rows repeat an earlier one and were merged")
    if replaced:
        notes.append(f"{what}: of {replaced} steps logged twice the {choices.overlap} was kept")
    if dropped:
        notes.append(f"{what}: {dropped} rows that are no numbers were left out")
    if before:
        notes.append(
            f"{what}: {before} rows before step {choices.start}, the run's start, were left out"
        )


def _step(check: Check, entry: Entry, choices: Choices) -> int | None:
    """Return the step of an entry inside its run; None with the problem noted."""
    counted = entry.step / (choices.per_step or 1.0)
    step = round(counted) if math.isfinite(counted) else 0
    if not math.isfinite(counted) or abs(counted - step) > WHOLE * max(1.0, abs(counted)):
        fix = (
            "count optimiser steps; if these are epochs, name the column of the steps, --step COLUMN"
            if choices.per_step is None
            else f"correct --per-step {choices.per_step:g}"
        )
        check.add(entry.place, f"{counted:g} is no whole number of steps", fix)
        return None
    if step < 0:
        check.add(entry.place, f"the step is {step}", "count steps from 0")
        return None
    step -= choices.start
    if step > LONGEST_STEPS:
        check.add(
            entry.place,
            f"step {step} is more than any run has: these are tokens or samples",
            "give --step-unit tokens (or samples) and --per-step N, those of an optimiser step",
        )
        return None
    return step

"""A cleaned log and what else is known -> a run of a study and its losses; and what a plan says of it.

The answers to the questions that logs leave open, by flags, a TOML or a person, are kept in the study's
imports.toml, so that a grown log is imported again by its name alone. A run may have several logs, one for
each validation set: then it has several recipes.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bayes_cpt.checks import Check
from bayes_cpt.errors import StudyError
from bayes_cpt.study.folder import RUN_KEYS as OF_RUN
from bayes_cpt.study.logs.raw import Stated, fail, unpacked_name
from bayes_cpt.study.logs.readers import STATE
from bayes_cpt.study.logs.reading import NEAR_START, Log, Reading
from bayes_cpt.study.logs.recognize import coarse_decimals, digits_of, recognize
from bayes_cpt.study.runs import Run
from bayes_cpt.study.schedules import Schedule

# Of the peak: by how much a logged learning rate may differ from a stated schedule. A trainer that counts
# from 0 is one step off.
SAME_RATE = 1e-3
# Losses that one program prints in two files differ by no more than their last digits (nats).
SAME_LOSS = 1e-4
NO_BASE = "--pt RUN and its log, --open-base NAME, or [bases.NAME] in --answers FILE"
# A log of a run that began at 0 begins within so many of its first intervals, or by that share of the run.
FIRST_INTERVALS, FIRST_SHARE = 3, 0.05


class Recipe(Reading):
    """How the logs of a run are read, and what else is known about it."""

    total_steps: int | None = None  # length of the run; what the log says, else its last step
    schedule: list[dict[str, Any]] | None = None  # segments, where the log has no learning rates
    # As in study.toml
    phase: str | None = None
    base: str | None = None
    replay: float | None = None
    model_size: float | None = None
    batch_tokens: float | None = None
    sequence_length: int | None = None
    optimizer_state: str | None = None


# Keys of a run in study.toml that a log may not tell.
RUN_KEYS = tuple(key for key in OF_RUN if key in Recipe.model_fields and key != "schedule")


@dataclass(frozen=True)
class LoggedRun:
    """A run read from a log."""

    run: Run
    losses: tuple[tuple[int, str, float], ...]  # step, validation set, nats/token
    notes: tuple[str, ...]  # all that was assumed, merged or left out


def run_name(path: str) -> str:
    """Return what a run is called after its log: the folder or file that tells runs apart.

    Examples
    --------
    >>> run_name("out/r25/checkpoint-300/trainer_state.json"), run_name("logs/r00.csv.gz")
    ('r25', 'r00')
    """
    parts = [part for part in re.split(r"[/\\]", path) if part not in ("", ".", "..")]
    while len(parts) > 1 and (parts[-1] == STATE or re.fullmatch(r"checkpoint-\d+", parts[-1])):
        parts.pop()
    return unpacked_name(Path(parts[-1])).stem if parts else "run"


def read_run_log(
    name: str, recipes: Sequence[Recipe], sets: Sequence[str] = ()
) -> tuple[list[Recipe], Log]:
    """Read the logs of a run: one for each validation set, else the parts of one log.

    Those of a resumed job, or of one series each, are parts. Sets are as in `Reading.read`.
    """
    paths = tuple(path for recipe in recipes for path in recipe.paths)
    whole = recipes[0].changed(paths=paths)
    try:
        return _log_of_each_set(name, list(recipes), sets)
    except StudyError:
        if len(recipes) == 1 or any(own.changed(paths=paths) != whole for own in recipes):
            raise
    log = whole.read(sets)
    said = f"{', '.join(paths)}: taken as parts of one log, in this order"
    return [whole], replace(log, notes=(said, *log.notes))


def _log_of_each_set(
    name: str, recipes: list[Recipe], sets: Sequence[str]
) -> tuple[list[Recipe], Log]:
    """Read a log for each validation set.

    Where all call their only set alike, as programs do that know of one, it is called after the file, less
    the name of the run.
    """
    logs = [recipe.read(sets) for recipe in recipes]
    alike = all(len(log.series) == 1 and log.domains == logs[0].domains for log in logs)
    if len(logs) > 1 and alike and not any(map(_is_part, logs, logs[1:])):
        run = re.escape(name)
        of_run = re.compile(rf"^{run}[-_. ](?=.)|(?<=.)[-_. ]{run}$")
        called = [of_run.sub("", run_name(recipe.paths[0])) for recipe in recipes]
        recipes = [
            recipe.changed(losses=dict.fromkeys(log.series, own))
            for recipe, log, own in zip(recipes, logs, called, strict=True)
        ]
        logs = [recipe.read() for recipe in recipes]
    every = [domain for log in logs for domain in log.domains]
    if twice := sorted({domain for domain in every if every.count(domain) > 1}):
        problem = f"two logs have losses of the validation set {', '.join(twice)!r}"
        fix = "say of which set each is, with losses = { SERIES = SET } in its table of --answers"
        raise fail(f"run {name}, {logs[-1].source}", problem, fix)
    return recipes, replace(
        logs[0],
        losses=tuple(row for log in logs for row in log.losses),
        rates=next((log.rates for log in logs if log.rates), ()),
        stated=next((log.stated for log in logs if log.stated != Stated()), Stated()),
        notes=tuple(dict.fromkeys(note for log in logs for note in log.notes)),
    )


def _is_part(log: Log, later: Log) -> bool:
    """Whether a later log of a set goes on from one, or holds its losses, and is of no other set."""
    known = {step: loss for step, _, loss in log.losses}
    again = [abs(known[step] - loss) for step, _, loss in later.losses if step in known]
    (first, *_), (last, *_) = log.losses[0], log.losses[-1]
    goes_on = later.losses[0][0] > first + NEAR_START * (last - first)
    return goes_on or max(again, default=math.inf) < SAME_LOSS


def foreign(
    old: Mapping[tuple[int, str], float], new: Mapping[tuple[int, str], float]
) -> set[tuple[int, str]]:
    """Return which losses of a run a log of the same sets contradicts: it neither repeats one nor goes on.

    All runs of a base have its loss, at step 0.
    """
    theirs = {key for key in old if key[1] in {domain for _, domain in new}}
    trained = [key for key in theirs if key[0] > 0]
    goes_on = min(new, default=(0, ""))[0] > NEAR_START * max(trained, default=(0, ""))[0]
    again = (abs(new.get(key, math.inf) - old[key]) < SAME_LOSS for key in trained)
    return set() if not trained or goes_on or any(again) else theirs


def logged_run(
    name: str,
    log: Log,
    recipe: Recipe,
    known: Mapping[str, Any],
    bases: Sequence[str],
    stated: Schedule | None = None,
    earlier: Schedule | None = None,
) -> LoggedRun:
    """Return the run that a log is of.

    What the recipe leaves out stands among the `known` keys of the run in study.toml. The `stated` schedule
    is study.toml's, for a log without learning rates or to check them; the `earlier` one is what was read
    when the log still had its first part.
    """
    notes = list(log.notes)
    place = f"run {name}"
    check = Check()
    keys = {**known, **recipe.model_dump(include=set(RUN_KEYS), exclude_none=True)}
    if keys.get("phase") is None:
        keys["phase"] = "cpt"
        notes.append(f"{place}: taken as continual pre-training (--phase pt if it is not)")
    continual = keys["phase"] == "cpt"
    if continual and keys.get("base") is None:
        keys["base"] = bases[0] if len(bases) == 1 else None
        notes.append(f"{place}: it starts from {keys['base']}, the study's only base")
        if keys["base"] is None:
            option = f"--base NAME, one of {', '.join(bases)}" if bases else NO_BASE
            check.add(f"{place}, key base", "nothing says what it starts from", f"give {option}")
    if continual and keys.get("replay") is None:
        problem = "no log tells the share of general data in the batches"
        fix = f"give --replay, 0.25 for 25 % (to init --replay {name}=SHARE, or --pt {name})"
        check.add(f"{place}, key replay", problem, fix)
    if recipe.schedule is not None:
        stated = check.run(f"{place}, --schedule", Schedule.from_toml, recipe.schedule)
    check.raise_problems()
    if stated is None:
        schedule = _logged_schedule(place, log, recipe, notes, earlier)
    elif (wrong := differing_rate(log, stated)) is not None:
        step, rate, planned = wrong
        problem = f"the logged learning rate is {rate:g}, and {planned:g} by the stated schedule"
        fix = "correct it (--schedule, or in study.toml), or leave it out: the log has the rates"
        raise fail(f"{place}, step {step}", problem, fix)
    else:
        schedule = stated
    losses = tuple(row for row in log.losses if continual or row[0] > 0)
    if left := len(log.losses) - len(losses):
        notes.append(f"{place}: {left} losses at step 0 were left out, as a PT run has none")
    if continual and not any(step == 0 for step, *_ in losses):
        said = "the log has no loss at step 0, the base itself, which would narrow forecasts"
        notes.append(f"{place}: {said} (Hugging Face: eval_on_start=True)")
    return LoggedRun(Run(name, schedule=schedule, **keys), losses, tuple(dict.fromkeys(notes)))


def _logged_schedule(
    place: str, log: Log, recipe: Recipe, notes: list[str], earlier: Schedule | None
) -> Schedule:
    """Return the schedule that the learning rates of a log follow."""
    rates = list(log.rates)
    if recipe.start is None and (late := _late_start(log)):
        if earlier is None:
            raise late
        before = earlier.learning_rates()[: min([step for step, _ in rates], default=1) - 1]
        rates[:0] = enumerate(before.tolist(), start=1)
        notes.append(f"{place}: its first part is gone from the log; the study has it")
    if recipe.total_steps is not None and recipe.total_steps < max(log.last_step, 1):
        problem = f"the log goes on to step {log.last_step}"
        fix = "give the steps of the whole run, those of the log among them"
        raise fail(f"{place}, --total-steps {recipe.total_steps}", problem, fix)
    announced = recipe.total_steps or log.stated.steps or 0
    total = max(announced, log.last_step)
    if not any(rate > 0 for _, rate in log.rates):
        why = f": {log.no_rates}" if log.no_rates else ""
        problem = f"no learning rate is in {log.source}{why}"
        if log.last_step < announced:
            problem += f"; {announced} steps were announced, and it ends at {log.last_step}: give as steps "
            problem += "those over which the rate was planned"
        segment = f'{{ shape = "constant", steps = {max(total, 1)}, start = 1e-4, end = 1e-4 }}'
        fix = f"give --rate SERIES if it has another name; else state it, --schedule '[{segment}]'"
        raise fail(f"{place}, key schedule", problem, fix)
    if not announced:
        said = f"its length is taken as {total} steps, the last of the log (--total-steps)"
        notes.append(f"{place}: {said}")
    elif announced != log.last_step:
        notes.append(f"{place}: {announced} steps were announced, the log has {log.last_step}")
    steps, values = zip(*rates, strict=True)
    rises = len(steps) > 1 and bool((np.diff(values) > 0).all())
    if rises and total - steps[-1] > steps[-1] - steps[-2]:
        problem = f"of {total} steps its learning rates are known to step {steps[-1]}, where they "
        problem += "still rise: the log ends in its warm-up"
        fix = "state what was planned, --schedule SEGMENTS (see --help), or come back after it"
        raise fail(f"{place}, key schedule", problem, fix)
    schedule, said_of_it = recognize(steps, values, total)
    if decimals := coarse_decimals(np.asarray(values), schedule):
        problem = f"its learning rates have {decimals} decimals, too few to tell their course"
        fix = "name a log that has them whole, or state them, --schedule SEGMENTS (see --help)"
        raise fail(f"{place}, key schedule", problem, fix)
    notes += [f"{place}: {note}" for note in said_of_it]
    return schedule


def _late_start(log: Log) -> StudyError | None:
    """Return what to say of a log that begins so far above step 0 that it may be of no whole run."""
    steps = np.unique([int(row[0]) for row in (*log.losses, *log.rates)]).tolist()
    first = min(steps, default=0)
    apart = max(np.diff(steps[: 2 * FIRST_INTERVALS]).tolist(), default=first)
    if first <= max(FIRST_INTERVALS * apart, FIRST_SHARE * log.last_step):
        return None
    late = f"its first step, of one every {apart} steps: its counter goes on from other training"
    fix = "give the first part too, or --start STEP, the count at which the run began (--start 0)"
    return fail(f"{log.source}, step {first}", f"{late}, or its first part is missing", fix)


def differing_rate(
    log: Log, schedule: Schedule, *others: Schedule
) -> tuple[int, float, float] | None:
    """Return the first logged rate that no schedule has near its step, and what the first one has there."""
    tables = [own.learning_rates() for own in (schedule, *others)]
    # A program that prints 1.2e-04 is right to half of the last digit.
    digits = max([2, *(digits_of(rate) for _, rate in log.rates)])
    for step, rate in log.rates:
        last_digit = math.floor(math.log10(rate)) - digits + 1 if rate > 0 else -math.inf
        precise = max(SAME_RATE * schedule.peak, 0.51 * 10.0**last_digit)
        near = np.concatenate([rates[max(0, step - 2) : step + 1] for rates in tables])
        if 1 <= step <= schedule.steps and np.abs(near - rate).min() > precise:
            return step, rate, float(tables[0][step - 1])
    return None

"""A cleaned log and what else is known -> a run of a study and its losses; and what a plan says of it."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bayes_cpt.checks import Check
from bayes_cpt.errors import StudyError
from bayes_cpt.study.logs.raw import Stated, fail
from bayes_cpt.study.logs.readers import STATE
from bayes_cpt.study.logs.reading import Log
from bayes_cpt.study.logs.recipes import Recipe
from bayes_cpt.study.logs.recognize import digits_of, recognize
from bayes_cpt.study.runs import Run
from bayes_cpt.study.schedules import Schedule

# Of the peak: by how much a logged learning rate may differ from a stated schedule. A trainer that counts
# from 0 is one step off.
SAME_RATE = 1e-3
# By what share the tokens of a step may differ from the plan's.
SAME_BATCH = 0.02


@dataclass(frozen=True)
class LoggedRun:
    """A run read from a log.

    Parameters
    ----------
    run : Run
    losses : tuple of (int, str, float)
        Step, validation set, nats/token.
    notes : tuple of str
        All that was assumed, merged or left out.
    """

    run: Run
    losses: tuple[tuple[int, str, float], ...]
    notes: tuple[str, ...]


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
    return Path(parts[-1].removesuffix(".gz").removesuffix(".zip")).stem if parts else "run"


def read_run_log(name: str, recipes: Sequence[Recipe]) -> tuple[list[Recipe], Log]:
    """Read the logs of a run; one with several has a log for each validation set.

    Where all call their only set alike, as programs do that know of one, it is called after the file.
    """
    logs = [recipe.read() for recipe in recipes]
    recipes = list(recipes)
    if len(logs) > 1 and all(
        len(log.series) == 1 and log.domains == logs[0].domains for log in logs
    ):
        for i, recipe in enumerate(recipes):
            named = dict.fromkeys(logs[i].series, run_name(recipe.paths[0]))
            recipes[i] = replace(recipe, losses=named)
            logs[i] = recipes[i].read()
    seen: set[str] = set()
    for log in logs:
        if twice := seen & set(log.domains):
            raise fail(
                f"run {name}, {log.source}",
                f"two logs have losses of the validation set {', '.join(sorted(twice))!r}",
                "say of which set each is, with losses = { SERIES = SET } in its table of --answers",
            )
        seen |= set(log.domains)
    stated = {
        key: next((v for log in logs if (v := getattr(log.stated, key)) is not None), None)
        for key in Stated.__dataclass_fields__
    }
    return recipes, replace(
        logs[0],
        losses=tuple(row for log in logs for row in log.losses),
        rates=next((log.rates for log in logs if log.rates), ()),
        stated=Stated(**stated),
        notes=tuple(dict.fromkeys(note for log in logs for note in log.notes)),
    )


def logged_run(
    name: str,
    log: Log,
    recipe: Recipe,
    known: Mapping[str, Any],
    bases: Sequence[str],
    stated: Schedule | None = None,
) -> LoggedRun:
    """Return the run that a log is of."""
    notes = list(log.notes)
    place = f"run {name}"
    keys = _run_keys(place, {**known, **recipe.run_keys()}, bases, notes)
    try:
        if recipe.schedule is not None:
            stated = Schedule.from_toml(recipe.schedule)
    except StudyError as error:
        raise error.within(f"{place}, --schedule") from None
    schedule = _schedule(place, log, recipe, stated, notes)
    losses = log.losses
    if keys["phase"] == "pt" and any(step == 0 for step, *_ in losses):
        losses = tuple(row for row in losses if row[0] > 0)
        left = len(log.losses) - len(losses)
        notes.append(f"{place}: {left} losses at step 0 were left out, as a PT run has none")
    elif keys["phase"] == "cpt" and not any(step == 0 for step, *_ in losses):
        notes.append(
            f"{place}: the log has no loss at step 0, the base itself; forecasts are wider without it "
            "(Hugging Face: eval_on_start=True)"
        )
    run = Run(name, schedule=schedule, **keys)
    return LoggedRun(run, losses, tuple(dict.fromkeys(notes)))


def _run_keys(
    place: str, keys: dict[str, Any], bases: Sequence[str], notes: list[str]
) -> dict[str, Any]:
    if keys.get("phase") is None:
        keys["phase"] = "cpt"
        notes.append(f"{place}: taken as continual pre-training (--phase pt if it is not)")
    if keys["phase"] == "pt":
        return keys
    check = Check()
    if keys.get("base") is None and len(bases) == 1:
        keys["base"] = bases[0]
        notes.append(f"{place}: it starts from {bases[0]}, the study's only base")
    elif keys.get("base") is None:
        check.add(
            f"{place}, key base",
            "nothing says which base it starts from",
            f"give --base NAME, one of {', '.join(bases) or 'the bases of the study'}",
        )
    if keys.get("replay") is None:
        check.add(
            f"{place}, key replay",
            "no log tells the share of general data in the batches",
            "give --replay, as in --replay 0.25",
        )
    check.raise_problems()
    return keys


def _schedule(
    place: str, log: Log, recipe: Recipe, stated: Schedule | None, notes: list[str]
) -> Schedule:
    announced = recipe.total_steps or log.stated.steps or 0
    total = max(announced, log.last_step)
    if stated is not None:
        if log.rates and (wrong := _differing_rate(log, stated)) is not None:
            step, rate, planned = wrong
            raise fail(
                f"{place}, step {step}",
                f"the logged learning rate is {rate:g}, and {planned:g} by the stated schedule",
                "correct the schedule in study.toml, or take it out and let it be read from the log",
            )
        if log.last_step > stated.steps:
            raise fail(
                f"{place}, step {log.last_step}",
                f"the log goes on beyond the {stated.steps} steps of the stated schedule",
                "lengthen the schedule in study.toml, or say where the run starts, --start STEP",
            )
        return stated
    if not any(rate > 0 for _, rate in log.rates):
        raise fail(
            f"{place}, key schedule",
            f"no learning rate is in {log.source}{f': {log.no_rates}' if log.no_rates else ''}",
            "give --rate SERIES if it is there by another name; else state it, as in --schedule "
            f"'[{{ shape = \"constant\", steps = {max(total, 1)}, start = 1e-4, end = 1e-4 }}]'",
        )
    if announced and announced < log.last_step:
        notes.append(f"{place}: {announced} steps were announced, the log has {log.last_step}")
    if not announced:
        notes.append(
            f"{place}: its length is taken as {total} steps, the last of the log (--total-steps)"
        )
    elif total > log.last_step:
        notes.append(f"{place}: the log reaches step {log.last_step} of {total}")
    steps, rates = zip(*log.rates, strict=True)
    recognized = recognize(steps, rates, total, name=place)
    notes += recognized.notes
    return recognized.schedule


def _differing_rate(log: Log, schedule: Schedule) -> tuple[int, float, float] | None:
    """Return the first logged rate that is not the schedule's, nor its neighbours', and the schedule's."""
    rates = schedule.learning_rates()
    # A program that prints 1.2e-04 is right to half of the last digit.
    digits = max((digits_of(rate) for _, rate in log.rates), default=0)
    for step, rate in log.rates:
        if 1 <= step <= rates.size:
            near = rates[max(0, step - 2) : step]
            printed = (
                0.51 * 10.0 ** (math.floor(math.log10(rate)) - max(digits, 2) + 1)
                if rate > 0
                else 0.0
            )
            if np.abs(near - rate).min() > max(SAME_RATE * schedule.peak, printed):
                return step, rate, float(rates[step - 1])
    return None


def disagreements(log: Log, run: Run, tokens_per_step: float | None = None) -> dict[str, str]:
    """Say what a log states of its job that is not as a run was planned: by what, a sentence each."""
    said = {}
    planned = run.schedule.steps
    if log.stated.steps is not None and log.stated.steps != planned:
        said["steps"] = f"The log announces {log.stated.steps} steps, the plan {planned}."
    if (wrong := _differing_rate(log, run.schedule)) is not None:
        step, rate, meant = wrong
        times = f", {rate / meant:.3g} times as much" if meant > 0 else ""
        said["learning rate"] = (
            f"The logged learning rate is {rate:g} at step {step}, the planned one {meant:g}{times}."
        )
    tokens, own = log.stated.batch_tokens, run.batch_tokens or tokens_per_step
    if tokens and own and abs(tokens - own) > SAME_BATCH * own:
        said["tokens"] = f"The log has {tokens:g} tokens a step, the plan {own:g}."
    return said

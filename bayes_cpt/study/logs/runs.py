"""A cleaned log and what else is known -> a run of a study and its losses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayes_cpt.checks import Check
from bayes_cpt.errors import StudyError
from bayes_cpt.study.logs.clean import Log
from bayes_cpt.study.logs.raw import TOTAL_STEPS, fail
from bayes_cpt.study.logs.recipe import Recipe
from bayes_cpt.study.logs.recognize import recognize
from bayes_cpt.study.runs import Run
from bayes_cpt.study.schedules import Schedule

# Of the peak: by how much a logged learning rate may differ from a stated schedule. A trainer that counts
# from 0 is one step off.
SAME_RATE = 1e-3


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


def logged_run(
    name: str,
    log: Log,
    recipe: Recipe,
    known: Mapping[str, Any],
    bases: Sequence[str],
    stated: Schedule | None = None,
) -> LoggedRun:
    """Return the run that a log is of.

    Parameters
    ----------
    name : str
    log : Log
    recipe : Recipe
        What is said of the run.
    known : mapping
        What study.toml says of it already; the recipe goes before.
    bases : sequence of str
        Bases of the study: a single one need not be named.
    stated : Schedule, optional
        The run's schedule where it was written by hand; it is checked against the log.

    Raises
    ------
    StudyError
        With what is missing and which flag gives it.
    """
    notes = list(log.notes)
    keys = {**known, **recipe.run_keys()}
    _complete(name, keys, bases, notes)
    if recipe.schedule is not None:
        stated = _collected(f"run {name}", Schedule.from_toml, recipe.schedule)
    schedule = _schedule(name, log, recipe, stated, notes)
    losses = log.losses
    if keys["phase"] == "pt" and any(step == 0 for step, *_ in losses):
        kept = tuple(row for row in losses if row[0] > 0)
        notes.append(
            f"run {name}: {len(losses) - len(kept)} losses at step 0 were left out, as a PT run has none"
        )
        losses = kept
    elif keys["phase"] == "cpt" and not any(step == 0 for step, *_ in losses):
        notes.append(
            f"run {name}: the log has no loss at step 0, the base itself; forecasts are wider without it "
            "(Hugging Face: eval_on_start=True)"
        )
    run = _collected("", Run, name, schedule=schedule, **keys)
    return LoggedRun(run, losses, tuple(dict.fromkeys(notes)))


def _collected(place: str, build: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        return build(*args, **kwargs)
    except StudyError as error:
        raise (error.within(place) if place else error) from None


def _complete(name: str, keys: dict[str, Any], bases: Sequence[str], notes: list[str]) -> None:
    place = f"run {name}"
    if keys.get("phase") is None:
        keys["phase"] = "cpt"
        notes.append(f"{place}: taken as continual pre-training (--phase pt if it is not)")
    if keys["phase"] == "pt":
        return
    check = Check()
    if keys.get("base") is None:
        if len(bases) == 1:
            keys["base"] = bases[0]
            notes.append(f"{place}: it starts from {bases[0]}, the study's only base")
        else:
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


def _schedule(
    name: str, log: Log, recipe: Recipe, stated: Schedule | None, notes: list[str]
) -> Schedule:
    place = f"run {name}"
    told = recipe.total_steps or int(log.facts.get(TOTAL_STEPS, 0))
    total = max(told, log.last_step)
    if stated is not None:
        _check_stated(place, log, stated)
        return stated
    if len(log.rates) < 1 or not any(rate > 0 for _, rate in log.rates):
        raise fail(
            f"{place}, key schedule",
            f"no learning rate is in {log.source}",
            "give --rate SERIES if it is there by another name, or --schedule SEGMENTS",
        )
    if told and told < log.last_step:
        notes.append(f"{place}: {told} steps were announced, the log has {log.last_step}")
    if not told:
        notes.append(
            f"{place}: its length is taken as {total} steps, the last of the log (--total-steps)"
        )
    elif total > log.last_step:
        notes.append(f"{place}: the log reaches step {log.last_step} of {total}")
    steps, rates = zip(*log.rates, strict=True)
    recognized = recognize(steps, rates, total, name=place)
    notes += recognized.notes
    return recognized.schedule


def _check_stated(place: str, log: Log, stated: Schedule) -> None:
    """Raise where a logged learning rate is not the stated schedule's, nor its neighbours'."""
    rates = stated.learning_rates()
    for step, rate in log.rates:
        if not 1 <= step <= rates.size:
            continue
        near = rates[max(0, step - 2) : step]
        if np.abs(near - rate).min() > SAME_RATE * stated.peak:
            raise fail(
                f"{place}, step {step}",
                f"the logged learning rate is {rate:g}, and {rates[step - 1]:g} by the stated schedule",
                "correct the schedule in study.toml, or take it out and let it be read from the log",
            )
    if log.last_step > rates.size:
        raise fail(
            f"{place}, step {log.last_step}",
            f"the log goes on beyond the {rates.size} steps of the stated schedule",
            "lengthen the schedule in study.toml, or say where the run starts, --start STEP",
        )

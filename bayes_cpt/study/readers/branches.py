"""Runs that branch off another one, ``branch = { run = "X", step = N }``, and do not repeat it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayes_cpt.checks import Check, suggestion
from bayes_cpt.errors import StudyError
from bayes_cpt.study.runs import Branch, Run
from bayes_cpt.study.schedules import Schedule

BRANCH_KEYS = ("run", "step")


def trunks_first(check: Check, entries: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return the runs of a study in an order in which a trunk comes before what branches off it.

    Runs that branch off each other in a ring are noted and come last, their trunk unknown.

    Parameters
    ----------
    check : Check
        Collects the problems.
    entries : sequence of (str, object)
        Names of the runs, and what study.toml says of them.
    """
    left = dict(entries)
    ordered: list[tuple[str, Any]] = []
    while left:
        ready = [name for name, table in left.items() if _trunk(table) not in left]
        if not ready:
            for name in left:
                check.add(
                    f"run {name}, key branch",
                    "the runs branch off each other in a ring",
                    "give the run that was trained first its whole schedule and no branch",
                )
            return ordered
        ordered += [(name, left.pop(name)) for name in ready]
    return ordered


def _trunk(table: object) -> object:
    branch = table.get("branch") if isinstance(table, dict) else None
    name = branch.get("run") if isinstance(branch, dict) else None
    return name if isinstance(name, str) else None


def branched(
    branch: object, rest: Schedule | None, built: dict[str, Run], keys: dict[str, Any]
) -> tuple[Branch, Schedule | None]:
    """Return where a run branches off, and its whole schedule: the trunk's up to there, then its own.

    Parameters
    ----------
    branch : object
        What study.toml says.
    rest : Schedule or None
        The part after the branch. Of a logged one the steps count on from the trunk's; if it repeats the
        trunk it is taken as it is.
    built : dict of str to Run
        The runs before it.
    keys : dict
        The run's table.

    Raises
    ------
    StudyError
        If there is no such run, or it has no such step.
    """
    check = Check()
    table = check.keys(branch, allowed=BRANCH_KEYS, required=BRANCH_KEYS)
    check.raise_problems()
    name, step = table["run"], table["step"]
    if not isinstance(name, str) or name not in built:
        problem = f"there is no run {name!r} to branch off{suggestion(name, built)}"
        fix = f"name one of {', '.join(built) or 'the runs of the study'}"
        raise StudyError.at("key run", problem, fix)
    trunk = built[name]
    if trunk.phase != keys.get("phase", trunk.phase) or trunk.base != keys.get("base"):
        problem = f"the run {name} is of another phase or base"
        raise StudyError.at("key run", problem, "branch off a run of the same phase and base")
    before, place = trunk.schedule.first(step), Branch(name, step)
    if rest is None:
        return place, None
    if keys.get("lr_log", False):
        return place, _after_log(before, rest)
    return place, before + rest


def _after_log(before: Schedule, rest: Schedule) -> Schedule:
    """Return the trunk with a log behind it whose steps count on from the trunk's."""
    (segment,) = rest.segments
    steps = np.asarray(getattr(segment, "logged_steps"))  # noqa: B009
    if steps[0] <= before.steps:
        return rest
    rates = rest.learning_rates()[steps - 1]
    return before + Schedule.from_log(steps - before.steps, rates)

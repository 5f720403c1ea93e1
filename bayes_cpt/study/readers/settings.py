"""study.toml -> bases, runs and the names of the validation sets, all problems collected."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from bayes_cpt.checks import Check, is_number
from bayes_cpt.errors import Problem, StudyError
from bayes_cpt.study.readers.branches import branched, trunks_first
from bayes_cpt.study.resources.resources import Compute, UniqueTokens
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.schedules import Schedule

TABLES = ("study", "bases", "runs")
STUDY_KEYS = (
    "name",
    "general",
    "target",
    "description",
    "lr_unit",
    "tokens_per_step",
    "unique_tokens",
    "compute",
)
# Tables inside [study], and what reads each.
RESOURCES: dict[str, Callable[[object], Any]] = {
    "unique_tokens": UniqueTokens.read,
    "compute": Compute.read,
}
BASE_KEYS = ("steps", "schedule", "run", "model_size", "known")
RUN_KEYS = (
    "phase",
    "base",
    "replay",
    "schedule",
    "lr_log",
    "model_size",
    "batch_tokens",
    "sequence_length",
    "optimizer_state",
    "targets",
    "branch",
)


@dataclass
class Settings:
    """What a study.toml says, as far as it could be understood.

    Attributes
    ----------
    study : dict
        Keys of the [study] table.
    bases, runs : list
        Those that could be built.
    malformed : set of str
        Names of the others.
    problems : list of Problem
    """

    study: dict[str, Any] = field(default_factory=dict)
    bases: list[Base] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    malformed: set[str] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)


def logged_runs(tables: dict[str, Any]) -> list[str]:
    """Return the names of the runs whose learning rates are in lr.csv.

    Parameters
    ----------
    tables : dict
        Of a study.toml.
    """
    runs = tables.get("runs")
    if not isinstance(runs, dict):
        return []
    return [
        name for name, run in runs.items() if isinstance(run, dict) and run.get("lr_log", False)
    ]


def build_settings(
    tables: dict[str, Any],
    logs: dict[str, Schedule] | None,
    place: str,
    trunks: Iterable[Run] = (),
) -> Settings:
    """Build bases and runs from the tables of a study.toml.

    Parameters
    ----------
    tables : dict
        The parsed file.
    logs : dict of str to Schedule, or None
        Logged learning rates of the runs that have them; None if they could not be read, which
        makes those runs malformed without a problem of their own.
    place : str
        What messages call the file.
    trunks : iterable of Run
        Runs of elsewhere that those of the file may branch off.
    """
    check = Check()
    settings = Settings()
    check.keys(tables, allowed=TABLES)
    settings.study = dict(_table(check, tables, "study", STUDY_KEYS))
    if not isinstance(settings.study.get("description", ""), str):
        check.text("description", settings.study.pop("description"))
    for key in settings.study.keys() & RESOURCES.keys():
        table = settings.study[key]
        settings.study[key] = check.run(f"table study, key {key}", RESOURCES[key], table)
    unit = _learning_rate_unit(check, settings.study.pop("lr_unit", 1.0))
    runs: dict[str, Run] = {}
    known = {run.name: run for run in trunks}
    for name, table in trunks_first(check, _entries(check, tables, "runs")):
        place_of_run = f"run {name}"
        run = _collect(check, place_of_run, _build_run, name, table, unit, logs, known | runs)
        if run is None:
            settings.malformed.add(name)
        else:
            runs[name] = run
    settings.runs = [runs[name] for name, _ in _entries(Check(), tables, "runs") if name in runs]
    for name, table in _entries(check, tables, "bases"):
        base = _collect(check, f"base {name}", _build_base, name, table, unit, runs)
        if base is None:
            settings.malformed.add(name)
        else:
            settings.bases.append(base)
    settings.problems = [problem.within(place) for problem in check.problems]
    return settings


def _table(
    check: Check, tables: dict[str, Any], name: str, allowed: tuple[str, ...]
) -> dict[str, Any]:
    inner = Check()
    table = inner.keys(tables.get(name, {}), allowed=allowed)
    check.problems += [problem.within(f"table {name}") for problem in inner.problems]
    return {key: value for key, value in table.items() if key in allowed}


def _entries(check: Check, tables: dict[str, Any], name: str) -> list[tuple[str, Any]]:
    entries = tables.get(name, {})
    if isinstance(entries, dict):
        return list(entries.items())
    check.add(f"table {name}", f"{name} is {entries!r}", f"write a table [{name}.NAME] for each")
    return []


def _learning_rate_unit(check: Check, unit: object) -> float:
    if is_number(unit) and float(unit) > 0:  # type: ignore[arg-type]
        return float(unit)  # type: ignore[arg-type]
    check.add(
        "table study, key lr_unit",
        f"lr_unit is {unit!r}",
        "give the positive number that learning rates are multiples of, or leave it out",
    )
    return 1.0


def _collect[**P, T](
    check: Check, place: str, build: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T | None:
    """Note the problems of a base or run under its place, unless they name it already."""
    try:
        return build(*args, **kwargs)
    except StudyError as error:
        check.problems += [
            problem if problem.place.startswith(f"{place}, ") else problem.within(place)
            for problem in error.problems
        ]
        return None


def _build_schedule(check: Check, table: dict[str, Any], unit: float) -> Schedule | None:
    schedule = check.run("", Schedule.from_toml, table["schedule"])
    return schedule.scaled(unit) if schedule and unit != 1.0 else schedule


def _build_run(
    name: str,
    table: object,
    unit: float,
    logs: dict[str, Schedule] | None,
    built: dict[str, Run],
) -> Run:
    check = Check()
    keys = check.keys(table, allowed=RUN_KEYS, required=("phase",))
    schedule = None
    if not isinstance(keys.get("lr_log", False), bool):
        check.add("key lr_log", f"lr_log is {keys['lr_log']!r}", "write true or false, no quotes")
    elif keys.get("lr_log", False):
        schedule = _logged_schedule(check, name, keys, unit, logs)
    elif "schedule" in keys:
        schedule = _build_schedule(check, keys, unit)
    elif isinstance(table, dict):
        check.add(
            "key schedule",
            "the run has no learning rates",
            "add schedule = [ ... ], or lr_log = true and an lr.csv",
        )
    aside = ("schedule", "lr_log", "branch")
    rest = {key: keys[key] for key in keys if key in RUN_KEYS and key not in aside}
    if "branch" in keys:
        joined = check.run("key branch", branched, keys["branch"], schedule, built, keys)
        rest["branch"], schedule = joined or (None, None)
    if "phase" in rest:
        # Where the schedule is at fault the other keys are still worth checking.
        run = check.run("", Run, name, schedule=schedule or _PLACEHOLDER, **rest)
        if run is not None and schedule is not None and not check.problems:
            return run
    raise StudyError(check.problems)


def _logged_schedule(
    check: Check, name: str, keys: dict[str, Any], unit: float, logs: dict[str, Schedule] | None
) -> Schedule | None:
    if "schedule" in keys:
        check.add(
            "key lr_log", "the run has both a schedule and lr_log", "keep only one of the two"
        )
        return None
    if logs is not None and name not in logs:
        check.add(
            "key lr_log",
            "no usable learning rate of this run is in lr.csv",
            "add rows run, step, lr for it beside study.toml, or give a schedule",
        )
    if logs is None or name not in logs:
        return None
    return logs[name].scaled(unit) if unit != 1.0 else logs[name]


def _build_base(name: str, table: object, unit: float, runs: dict[str, Run]) -> Base:
    check = Check()
    keys = check.keys(table, allowed=BASE_KEYS)
    values = {key: value for key, value in keys.items() if key in BASE_KEYS}
    if "schedule" in keys:
        values["schedule"] = _build_schedule(check, keys, unit) or _PLACEHOLDER
    elif isinstance(keys.get("run"), str) and keys["run"] in runs and "steps" in keys:
        # The checkpoint of a logged run has no segments of its own.
        values["schedule"] = check.run("", runs[keys["run"]].schedule.first, keys["steps"])
    if values.get("schedule") is _PLACEHOLDER:
        values["known"] = False
    base = check.run("", Base, name, **values)
    if base is None or check.problems:
        raise StudyError(check.problems)
    return base


_PLACEHOLDER = Schedule.from_toml([{"shape": "constant", "steps": 1, "start": 1e-3, "end": 1e-3}])

"""Study folders and plans: study.toml, losses and logged learning rates <-> Study (docs/study.md)."""

import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bayes_cpt.checks import Check, is_number, suggestion
from bayes_cpt.errors import Problem, StudyError
from bayes_cpt.study.resources import RESOURCES
from bayes_cpt.study.runs import Base, Branch, Run
from bayes_cpt.study.schedules import LoggedSegment, Schedule
from bayes_cpt.study.study import Study
from bayes_cpt.study.tables import (
    LOSS_COLUMNS,
    RATE_COLUMNS,
    TableCheck,
    find_table,
    read_table,
    row_word,
)
from bayes_cpt.study.trunks import branch_of
from bayes_cpt.study.validation import Origin, examine
from bayes_cpt.toml_files import read_toml

if TYPE_CHECKING:
    import pandas as pd


BRANCH_KEYS = ("run", "step")


def trunks_first(check: Check, entries: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return the runs of a study in an order in which a trunk comes before what branches off it.

    Runs that branch off each other in a ring are noted and come last, their trunk unknown.
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
    rest : Schedule or None
        The part after the branch. Of a logged one the steps count on from the trunk's; if it repeats the
        trunk it is taken as it is.
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
    """

    study: dict[str, Any] = field(default_factory=dict)
    bases: list[Base] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    malformed: set[str] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)


def logged_runs(tables: dict[str, Any]) -> list[str]:
    """Return the names of the runs whose learning rates are in lr.csv."""
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
    logs : dict of str to Schedule, or None
        Logged learning rates of the runs that have them; None if they could not be read, which
        makes those runs malformed without a problem of their own.
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


# What training takes: a plan that says nothing of it has what the fitted study has.
RESOURCE_KEYS = ("tokens_per_step", "unique_tokens", "compute")


def read_study(path: str | Path) -> Study:
    """Read a study folder (docs/study.md).

    Parameters
    ----------
    path : path
        Folder with study.toml, losses.csv (or .parquet) and, for `lr_log` runs, lr.csv (or
        .parquet).

    Raises
    ------
    StudyError
        With every problem of the folder, each naming file, run, step and the fix.

    Warns
    -----
    StudyWarning
        For what is suspicious though usable; see `Study.warnings`.
    """
    folder = Path(path)
    if folder.is_file():
        raise StudyError.at(str(folder), "this is a file", "give the folder that holds study.toml")
    return _read(folder, is_plan=False, fitted=None)


def read_plan(
    path: str | Path, study: Study | None = None, *, aside: Collection[str] = ()
) -> Study:
    """Read runs to predict: a study folder whose losses may be missing, or one TOML file.

    Parameters
    ----------
    path : path
        Folder or TOML file. Of its losses only rows at step 0 are kept.
    study : Study, optional
        The fitted study. It supplies the validation sets and the bases that the plan leaves out.
    aside : collection of str
        Keys of a run that are somebody else's: they are left alone (see `run_keys`).

    Raises
    ------
    StudyError
        As `read_study`; also where the plan contradicts the study.
    """
    return _read(Path(path), is_plan=True, fitted=study, aside=aside)


def run_keys(path: str | Path, key: str) -> dict[str, Any]:
    """Return what the runs of a plan say under a key that `read_plan` sets aside, by run."""
    source = Path(path)
    tables = read_toml(source if source.is_file() else source / "study.toml")
    return {name: run[key] for name, run in tables["runs"].items() if key in run}


def _read(path: Path, *, is_plan: bool, fitted: Study | None, aside: Collection[str] = ()) -> Study:
    import pandas as pd

    settings_path = path if path.is_file() else path / "study.toml"
    if not path.exists():
        what = "file" if path.suffix == ".toml" else "folder"
        raise StudyError.at(str(path), f"there is no such {what}", "check the spelling of the path")
    if not settings_path.is_file():
        raise StudyError.at(
            str(settings_path), "the file is missing", "write it, as the README shows"
        )
    folder = None if path.is_file() else path
    check = Check()
    tables = check.run("", read_toml, settings_path)
    if aside and tables is not None:
        _set_aside(tables, aside)
    losses_path = check.run("", find_table, folder, "losses") if folder else None
    if losses_path is None and not is_plan and not check.problems:
        check.add(
            str(path / "losses.csv"),
            "the file is missing",
            f"write the losses with the columns {', '.join(LOSS_COLUMNS)}",
        )
    losses = check.run("", read_table, losses_path) if losses_path else None
    settings = Settings()
    if tables is not None:
        logs = check.run("", _read_logs, folder, logged_runs(tables))
        trunks = fitted.runs if fitted else ()
        settings = build_settings(tables, logs, str(settings_path), trunks)
        check.problems = settings.problems + check.problems
    if is_plan:
        settings.study.setdefault("name", path.stem)
        check.problems += _complete(settings, fitted, str(settings_path))
    origin = Origin(
        settings=str(settings_path),
        losses=str(losses_path or path),
        rates=str(path / "lr.csv"),
        row=row_word(losses_path) if losses_path else "row",
    )
    parts: dict[str, Any] = {
        "name": settings.study.get("name"),
        "general": settings.study.get("general"),
        "target": settings.study.get("target"),
        **{key: settings.study.get(key) for key in RESOURCE_KEYS},
        "bases": settings.bases,
        "runs": settings.runs,
        "losses": pd.DataFrame(columns=list(LOSS_COLUMNS)) if losses is None else losses,
        "is_plan": is_plan,
        "origin": origin,
    }
    if not check.problems:
        return Study(**parts, description=settings.study.get("description", ""))
    if tables is not None and losses is not None:
        del parts["compute"]
        check.problems += examine(**parts, malformed=settings.malformed).problems
    raise StudyError(check.problems)


def _set_aside(tables: dict[str, Any], keys: Collection[str]) -> None:
    runs = tables.get("runs")
    for run in runs.values() if isinstance(runs, dict) else ():
        if isinstance(run, dict):
            for key in keys:
                run.pop(key, None)


def _read_logs(folder: Path | None, names: list[str]) -> dict[str, Schedule]:
    """Return the logged schedule of each run in lr.csv."""
    path = find_table(folder, "lr") if folder else None
    if path is None:
        return {}
    table = read_table(path)
    check = TableCheck(table, str(path), row_word(path))
    check.columns(RATE_COLUMNS)
    check.raise_problems()
    rates = check.duplicates(check.cells(), ["run", "step"])
    for label in rates.index[rates["step"] == 0]:
        check.add(check.place(label), "a learning rate is logged at step 0", "count steps from 1")
    schedules = {}
    for name, rows in rates[rates["step"] > 0].groupby("run", sort=False):
        if name not in names:
            check.add(
                check.place(rows.index[0]),
                f"the run {name!r} has {len(rows)} logged learning rates but no lr_log = true",
                "add lr_log = true to its table in place of the schedule, or remove the rows",
            )
            continue
        rows = rows.sort_values("step")
        schedules[str(name)] = Schedule.from_log(rows["step"], rows["lr"])
    check.raise_problems()
    return schedules


def _complete(settings: Settings, fitted: Study | None, place: str) -> list[Problem]:
    """Fill what a plan leaves out from the fitted study; return where the two contradict."""
    if fitted is None:
        return []
    check = Check()
    for key in ("general", "target"):
        theirs = getattr(fitted, key)
        theirs = list(theirs) if isinstance(theirs, tuple) else theirs
        if settings.study.setdefault(key, theirs) != theirs:
            check.add(
                f"{place}, table study, key {key}",
                f"{key} is {settings.study[key]!r} but {theirs!r} in the fitted study",
                f"write {theirs!r} or leave the key out",
            )
    for key in RESOURCE_KEYS:
        settings.study.setdefault(key, getattr(fitted, key))
    theirs_by_name = {base.name: base for base in fitted.bases}
    for base in settings.bases:
        if base.name in theirs_by_name and not _same_base(base, theirs_by_name[base.name]):
            check.add(
                f"{place}, base {base.name}",
                f"the base {base.name!r} of the fitted study has another schedule",
                "give it the same schedule, leave the table out, or choose another name",
            )
    of_plan = {base.name for base in settings.bases} | settings.malformed
    wanted = {run.base for run in settings.runs if run.base} - of_plan
    # An unknown name is answered with all that there are.
    complete = wanted <= set(theirs_by_name)
    settings.bases += [
        base
        for name, base in theirs_by_name.items()
        if name not in of_plan and (name in wanted or not complete)
    ]
    return check.problems


def _same_base(base: Base, other: Base) -> bool:
    if base.schedule is None or other.schedule is None:
        return base.known == other.known
    return base.schedule.steps == other.schedule.steps and np.allclose(
        base.schedule.learning_rates(),
        other.schedule.learning_rates(),
        rtol=0,
        atol=1e-6 * other.schedule.peak,
    )


def write_study(
    study: Study, path: str | Path, table_format: Literal["csv", "parquet"] = "csv"
) -> None:
    """Write a study as a folder; `read_study` gives a study of the same digest.

    The folder appears whole or not at all. A run whose trunk is not in the study is written whole; one that
    leaves its trunk in the middle of a segment as a log, which has the same rates and another digest.

    Parameters
    ----------
    study : Study
    path : path
        A folder that does not exist yet, or is empty.
    table_format : {"csv", "parquet"}
        How losses and logged learning rates are written.

    Raises
    ------
    StudyError
        If the folder is not empty, or a logged base lies on no run of the study.
    """
    folder = Path(path)
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise StudyError.at(str(folder), "there is something already", "choose a new folder")
    runs = tuple(run if branch_of(study, run) else replace(run, branch=None) for run in study.runs)
    text = settings_text(study, runs)
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    partial.mkdir()
    try:
        (partial / "study.toml").write_text(text, encoding="utf-8")
        _write_table(study.losses, partial / f"losses.{table_format}")
        write_rates(runs, partial / f"lr.{table_format}")
        partial.replace(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def write_rates(runs: Iterable[Run], path: Path) -> None:
    """Write the learning rates of the runs that have a log, and no file where none has one."""
    logged = [run for run in runs if _written(run)[0]]
    if logged:
        _write_table(logged_rates(logged), path)


def settings_text(study: Study, runs: Iterable[Run] | None = None) -> str:
    """Return the study.toml of a study."""
    top = {
        "name": study.name,
        "general": study.general,
        "target": study.target if isinstance(study.target, str | None) else list(study.target),
        "description": study.description or None,
        "tokens_per_step": study.tokens_per_step,
        "unique_tokens": study.unique_tokens and asdict(study.unique_tokens),
        "compute": study.compute and asdict(study.compute),
    }
    lines = _table_lines(["study"], top)
    for base in study.bases:
        lines += _base_lines(base, {run.name for run in study.pretraining_runs})
    for run in study.runs if runs is None else runs:
        lines += _run_lines(run)
    return "\n".join(lines)


def runs_text(runs: Iterable[Run]) -> str:
    """Return the tables of some runs: a plan that leaves bases and validation sets to the fitted study."""
    return "\n".join(line for run in runs for line in _run_lines(run))


def _base_lines(base: Base, pretraining_runs: set[str]) -> list[str]:
    keys: dict[str, Any] = {
        "steps": base.steps,
        "run": base.run,
        "model_size": base.model_size,
        "known": None if base.known else False,
    }
    schedule = base.schedule
    if schedule is not None and schedule.is_logged:
        if base.run not in pretraining_runs:
            raise StudyError.at(
                f"base {base.name}, key schedule",
                "the base has a logged schedule but lies on no PT run of the study",
                "name the PT run it was saved from",
            )
        # Read back from the log of its run.
        schedule = None
    return _table_lines(["bases", base.name], keys, schedule)


def _run_lines(run: Run) -> list[str]:
    logged, rest = _written(run)
    keys = {
        "phase": run.phase,
        "base": run.base,
        "replay": run.replay,
        "model_size": run.model_size,
        "batch_tokens": run.batch_tokens,
        "sequence_length": run.sequence_length,
        "optimizer_state": run.optimizer_state,
        "targets": run.mixture or None,
        "branch": run.branch and asdict(run.branch),
        "lr_log": logged or None,
    }
    return _table_lines(["runs", run.name], keys, rest)


def _written(run: Run) -> tuple[bool, Schedule | None]:
    """Return whether a run's learning rates are written as a log, and else its own segments."""
    segments = run.schedule.segments
    ends = np.cumsum([segment.steps for segment in segments])
    start = run.branch.step if run.branch else 0
    if run.schedule.is_logged or start not in (0, *ends):
        # A trunk that is left in the middle of a segment has no segments up to there.
        return True, None
    rest = tuple(segment for segment, end in zip(segments, ends, strict=True) if end > start)
    return False, Schedule(rest)


def _table_lines(
    name: list[str], keys: dict[str, Any], schedule: Schedule | None = None
) -> list[str]:
    lines = [f"[{'.'.join(toml_key(part) for part in name)}]"]
    lines += [f"{key} = {toml_value(value)}" for key, value in keys.items() if value is not None]
    if schedule is not None:
        segments = [
            "{ " + ", ".join(f"{key} = {toml_value(value)}" for key, value in table.items()) + " }"
            for table in schedule.to_toml()
        ]
        lines += ["schedule = [", *(f"  {segment}," for segment in segments), "]"]
    return [*lines, ""]


def toml_key(name: str) -> str:
    """Return a key as TOML writes it."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_value(name)


def toml_value(value: Any) -> str:
    """Return a text, number, truth value, list or table as TOML writes it, in one line."""
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, dict):
        given = {toml_key(key): part for key, part in value.items() if part is not None}
        return f"{{ {', '.join(f'{key} = {toml_value(part)}' for key, part in given.items())} }}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON and TOML strings differ only in that TOML wants DEL escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


def logged_rates(runs: Iterable[Run]) -> "pd.DataFrame":
    """Return the learning rates of the runs as lr.csv has them, interpolated steps left out."""
    import pandas as pd

    frames = []
    for run in runs:
        logged, start = [], 0
        for segment in run.schedule.segments:
            # Where the log ends early the last step says how long the run is.
            from_log = (
                np.union1d(segment.logged_steps, [segment.steps])
                if isinstance(segment, LoggedSegment)
                else np.arange(1, segment.steps + 1)
            )
            logged.append(from_log + start)
            start += segment.steps
        steps = np.concatenate(logged)
        rates = run.schedule.learning_rates()[steps - 1]
        frames.append(pd.DataFrame({"run": run.name, "step": steps, "lr": rates}))
    return pd.concat(frames, ignore_index=True)


def _write_table(table: "pd.DataFrame", path: Path) -> None:
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    else:
        table.to_parquet(path, index=False)

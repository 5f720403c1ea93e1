"""Study folders and plans: study.toml, losses and logged learning rates <-> Study."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from bayes_cpt.checks import Check
from bayes_cpt.errors import Problem, StudyError
from bayes_cpt.study.readers.settings import Settings, build_settings, logged_runs
from bayes_cpt.study.readers.tables import find_table, read_table, row_word
from bayes_cpt.study.runs import Base
from bayes_cpt.study.schedules import Schedule
from bayes_cpt.study.study import Study
from bayes_cpt.study.tables import LOSS_COLUMNS, RATE_COLUMNS, TableCheck
from bayes_cpt.study.validation import Origin, examine
from bayes_cpt.toml_files import read_toml

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
        raise _path_error(folder, "this is a file", "give the folder that holds study.toml")
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
    """Return what the runs of a plan say under a key that `read_plan` sets aside, by run.

    Parameters
    ----------
    path : path
        A plan: a folder or one TOML file.
    key : str

    Raises
    ------
    StudyError
        If the file is not TOML.
    """
    source = Path(path)
    tables = read_toml(source if source.is_file() else source / "study.toml")
    return {name: run[key] for name, run in tables["runs"].items() if key in run}


def _path_error(path: Path, problem: str, fix: str) -> StudyError:
    return StudyError.at(str(path), problem, fix)


def _read(path: Path, *, is_plan: bool, fitted: Study | None, aside: Collection[str] = ()) -> Study:
    import pandas as pd

    settings_path = path if path.is_file() else path / "study.toml"
    if not path.exists():
        what = "file" if path.suffix == ".toml" else "folder"
        raise _path_error(path, f"there is no such {what}", "check the spelling of the path")
    if not settings_path.is_file():
        raise _path_error(settings_path, "the file is missing", "write it, as the README shows")
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

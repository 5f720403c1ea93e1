"""Study -> folder, in the format that `read_study` reads."""

import json
import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bayes_cpt.errors import StudyError
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.schedules import Schedule
from bayes_cpt.study.segments import LoggedSegment
from bayes_cpt.study.study import Study
from bayes_cpt.study.trunks import branch_of

if TYPE_CHECKING:
    import pandas as pd


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
    """Write the learning rates of the runs that have a log, and no file where none has one.

    Parameters
    ----------
    runs : iterable of Run
    path : Path
        The file, lr.csv.
    """
    logged = [run for run in runs if _written(run)[0]]
    if logged:
        _write_table(logged_rates(logged), path)


def settings_text(study: Study, runs: Iterable[Run] | None = None) -> str:
    """Return the study.toml of a study.

    Parameters
    ----------
    study : Study
    runs : iterable of Run, optional
        Its runs as they are to be written; as they are unless given.

    Raises
    ------
    StudyError
        If a base has a logged schedule but lies on no run of the study.
    """
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
    """Return the tables of some runs: a plan that leaves bases and validation sets to the fitted study.

    Parameters
    ----------
    runs : iterable of Run
    """
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
    """Return a key as TOML writes it.

    Parameters
    ----------
    name : str
    """
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_value(name)


def toml_value(value: Any) -> str:
    """Return a text, number, truth value, list or table as TOML writes it, in one line.

    Parameters
    ----------
    value : str, int, float, bool, list or dict
        Of a dictionary, keys without a value are left out.
    """
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
    """Return the learning rates of the runs as lr.csv has them, interpolated steps left out.

    Parameters
    ----------
    runs : iterable of Run
    """
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

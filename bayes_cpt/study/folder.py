"""Study folders and plans: study.toml, losses and logged learning rates <-> Study (docs/study.md)."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayes_cpt.checks import Check, unknown
from bayes_cpt.errors import StudyError
from bayes_cpt.files import beside
from bayes_cpt.strict import checked
from bayes_cpt.study import validation
from bayes_cpt.study.resources import RESOURCES
from bayes_cpt.study.runs import Base, Branch, Run
from bayes_cpt.study.schedules import Schedule, constant
from bayes_cpt.study.study import Study
from bayes_cpt.study.tables import LOSS_COLUMNS, RATE_COLUMNS, TableCheck, find_table, read_table
from bayes_cpt.study.trunks import branch_of
from bayes_cpt.toml_files import read_toml, toml_key, toml_value

TABLES = ("study", "bases", "runs")
# What training takes: a plan that says nothing of it has what the fitted study has.
RESOURCE_KEYS = ("tokens_per_step", "unique_tokens", "compute")
OF_STUDY = ("name", "general", "target", "description", *RESOURCE_KEYS)
STUDY_KEYS = (*OF_STUDY, "lr_unit")
BASE_KEYS, RUN_FIELDS, BRANCH_KEYS = (
    tuple(part.name for part in fields(kind) if part.name != "name") for kind in (Base, Run, Branch)
)
RUN_KEYS = (*RUN_FIELDS, "lr_log")
# Stands for a schedule that is at fault: the other keys are still worth checking.
_PLACEHOLDER = constant(1, 1e-3)


class Settings(Check):
    """What a study.toml says, as far as it could be understood, and what is wrong with the rest.

    Its bases and runs are those that could be built; the names of the others are in ``malformed``. `logs`
    are the logged learning rates by run; None if they could not be read, which makes those runs malformed
    without a problem of their own. `trunks` are runs of the fitted study, which those of a plan may branch
    off.
    """

    def __init__(
        self, tables: dict[str, Any], logs: dict[str, Schedule] | None, trunks: Iterable[Run]
    ) -> None:
        super().__init__()
        self.logs = logs
        self.malformed: set[str] = set()
        self.keys(tables, allowed=TABLES)
        inner = Check()
        self.study = inner.keys(tables.get("study", {}), allowed=STUDY_KEYS)
        if not isinstance(self.study.get("description", ""), str):
            inner.text("description", self.study.pop("description"))
        for key in (own for own in RESOURCES if own in self.study):
            self.study[key] = inner.run(
                "", checked, RESOURCES[key], self.study[key], f"key {key}", "give a positive number"
            )
        unit = self.study.pop("lr_unit", 1.0)
        ok = inner.positive("lr_unit", unit, "which learning rates are multiples, or leave it out")
        self.unit = float(unit) if ok else 1.0
        self.problems += [problem.within("table study") for problem in inner.problems]
        entries = self._entries(tables, "runs")
        self.known = {run.name: run for run in trunks}
        own = self._built("run", self._run, self._trunks_first(entries))
        self.runs = [own[name] for name in entries if name in own]
        bases = self._entries(tables, "bases")
        self.bases = list(self._built("base", self._base, bases).values())

    def _entries(self, tables: dict[str, Any], name: str) -> dict[str, Any]:
        entries = tables.get(name, {})
        if isinstance(entries, dict):
            return entries
        self.add(f"table {name}", f"{name} is {entries!r}", f"write a table [{name}.NAME] for each")
        return {}

    def _trunks_first(self, entries: dict[str, Any]) -> dict[str, Any]:
        """Return the runs in an order in which a trunk comes before what branches off it.

        Runs that branch off each other in a ring are noted and left out.
        """

        def trunk(table: Any) -> str:
            branch = table.get("branch") if isinstance(table, dict) else None
            return str(branch.get("run")) if isinstance(branch, dict) else ""

        left = dict(entries)
        ordered: dict[str, Any] = {}
        while ready := [name for name, table in left.items() if trunk(table) not in left]:
            ordered |= {name: left.pop(name) for name in ready}
        for name in left:
            self.add(f"run {name}, key branch", validation.RING, validation.RING_FIX)
        return ordered

    def _built[T: (Base, Run)](
        self, kind: str, build: Callable[[Check, str, object], T | None], entries: dict[str, Any]
    ) -> dict[str, T]:
        """Return the runs or bases that can be built; problems are noted by run or base."""
        built: dict[str, T] = {}
        for name, table in entries.items():
            check, place = Check(), f"{kind} {name}"
            item = build(check, name, table)
            if item is None or check.problems:
                self.malformed.add(name)
            else:
                built[name] = item
            # A run names itself in what it finds.
            self.problems += [
                problem if problem.place.startswith(f"{place}, ") else problem.within(place)
                for problem in check.problems
            ]
        return built

    def complete(self, fitted: Study) -> None:
        """Fill what a plan leaves out from the fitted study; note where the two contradict."""
        for key in ("general", "target"):
            theirs = getattr(fitted, key)
            theirs = list(theirs) if isinstance(theirs, tuple) else theirs
            if self.study.setdefault(key, theirs) != theirs:
                own = f"{key} is {self.study[key]!r}"
                problem, fix = f"{own}, and the fitted study has none", f"leave out the key {key}"
                if theirs is not None:
                    problem = f"{own} but {theirs!r} in the fitted study"
                    fix = f"write {theirs!r} or leave the key out"
                self.add(f"table study, key {key}", problem, fix)
        for key in RESOURCE_KEYS:
            self.study.setdefault(key, getattr(fitted, key))
        theirs_by_name = {base.name: base for base in fitted.bases}
        for base in self.bases:
            if base.name in theirs_by_name and not _same_base(base, theirs_by_name[base.name]):
                problem = f"the base {base.name!r} of the fitted study has another schedule"
                fix = "give it the same schedule, leave the table out, or choose another name"
                self.add(f"base {base.name}", problem, fix)
        of_plan = {base.name for base in self.bases} | self.malformed
        wanted = {run.base for run in self.runs if run.base} - of_plan
        if not wanted <= set(theirs_by_name):
            # An unknown name is answered with all that there are.
            wanted = set(theirs_by_name)
        self.bases += [theirs_by_name[name] for name in theirs_by_name if name in wanted - of_plan]

    def _schedule(self, check: Check, table: dict[str, Any]) -> Schedule | None:
        schedule = check.run("", Schedule.from_toml, table["schedule"])
        return schedule and schedule.scaled(self.unit)

    def _run(self, check: Check, name: str, table: object) -> Run | None:
        keys = check.keys(table, allowed=RUN_KEYS, required=("phase",))
        logged = keys.pop("lr_log", False)
        schedule: Schedule | None = None
        if not isinstance(logged, bool):
            check.add("key lr_log", f"lr_log is {logged!r}", "write true or false, no quotes")
        elif logged and "schedule" in keys:
            problem = "the run has both a schedule and lr_log"
            check.add("key lr_log", problem, "keep only one of the two")
        elif logged and self.logs is not None and name not in self.logs:
            fix = "add rows run, step, lr for it beside study.toml, or give a schedule"
            check.add("key lr_log", "no usable learning rate of this run is in lr.csv", fix)
        elif logged:
            schedule = self.logs[name].scaled(self.unit) if self.logs else None
        elif "schedule" in keys:
            schedule = self._schedule(check, keys)
        elif isinstance(table, dict):
            fix = "add schedule = [ ... ], or lr_log = true and an lr.csv"
            check.add("key schedule", "the run has no learning rates", fix)
        if "branch" in keys:
            joined = check.run("key branch", branched, keys["branch"], schedule, self.known)
            keys["branch"], schedule = joined or (None, None)
        if "phase" not in keys:
            return None
        run = check.run("", Run, name, **{**keys, "schedule": schedule or _PLACEHOLDER})
        if run is None or schedule is None or check.problems:
            return None
        self.known[name] = run
        return run

    def _base(self, check: Check, name: str, table: object) -> Base | None:
        values = check.keys(table, allowed=BASE_KEYS)
        named = values.get("run")
        trunks = {run.name: run for run in self.known.values() if run.phase == "pt"}
        on = trunks.get(named) if isinstance(named, str) else None
        if "schedule" in values:
            values["schedule"] = self._schedule(check, values) or _PLACEHOLDER
        elif on is not None and "steps" in values:
            values["schedule"] = check.run("", on.schedule.first, values["steps"]) or _PLACEHOLDER
        elif isinstance(named, str) and on is None and named not in self.malformed:
            check.add("key run", *unknown("PT run", named, trunks))
            values["schedule"] = _PLACEHOLDER
        if values.get("schedule") is _PLACEHOLDER:
            values["known"] = False
        return check.run("", Base, name, **values)


def branched(
    branch: object, rest: Schedule | None, built: dict[str, Run]
) -> tuple[Branch, Schedule | None]:
    """Return where a run branches off, and its whole schedule: the trunk's up to there, then the rest.

    Of a logged rest the steps count on from the trunk's; if it repeats the trunk it is taken as it is.
    """
    check = Check()
    table = check.keys(branch, allowed=BRANCH_KEYS, required=BRANCH_KEYS)
    check.raise_problems()
    name, step = table["run"], table["step"]
    if not isinstance(name, str) or name not in built:
        raise StudyError.at("key run", *unknown("run", name, built))
    before, place = built[name].schedule.first(step), Branch(name, step)
    if rest is None or not rest.is_logged:
        return place, rest and before + rest
    steps = np.asarray(getattr(rest.segments[0], "logged_steps"))  # noqa: B009
    if steps[0] <= before.steps:
        return place, rest
    rates = rest.learning_rates()[steps - 1]
    return place, before + Schedule.from_log(steps - before.steps, rates)


def read_study(path: str | Path, origin: validation.Origin | None = None) -> Study:
    """Read a study folder (docs/study.md).

    Parameters
    ----------
    path : path
        Folder with study.toml, losses.csv (or .parquet) and, for `lr_log` runs, lr.csv (or
        .parquet).
    origin : Origin, optional
        What messages about the study name in place of its files; a file that cannot be read names itself.

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
    return _read(folder, is_plan=False, fitted=None, origin=origin)


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


def _read(
    path: Path,
    *,
    is_plan: bool,
    fitted: Study | None,
    aside: Collection[str] = (),
    origin: validation.Origin | None = None,
) -> Study:
    folder, settings_path = (None, path) if path.is_file() else (path, path / "study.toml")
    if not path.exists():
        what = "file" if path.suffix == ".toml" else "folder"
        raise StudyError.at(str(path), f"there is no such {what}", "check the spelling of the path")
    if not settings_path.is_file():
        fix = "write it as docs/study.md shows, or from logs with bayes-cpt init"
        raise StudyError.at(str(settings_path), "the file is missing", fix)
    check = Check()
    tables = check.run("", read_toml, settings_path)
    runs = tables.get("runs") if tables else None
    entries = list(runs.items()) if isinstance(runs, dict) else []
    for _, run in entries:
        for key in aside if isinstance(run, dict) else ():
            run.pop(key, None)
    losses_path = check.run("", find_table, folder, "losses") if folder else None
    if losses_path is None and not is_plan and not check.problems:
        fix = f"write the losses with the columns {', '.join(LOSS_COLUMNS)}"
        check.add(str(path / "losses.csv"), "the file is missing", fix)
    losses = check.run("", read_table, losses_path) if losses_path else None
    if tables is None:
        raise StudyError(check.problems)
    logged = [name for name, run in entries if isinstance(run, dict) and run.get("lr_log", False)]
    logs = check.run("", _read_logs, folder, logged)
    settings = Settings(tables, logs, fitted.runs if fitted else ())
    if is_plan:
        settings.study.setdefault("name", path.stem)
    if fitted:
        settings.complete(fitted)
    check.problems = [own.within(str(settings_path)) for own in settings.problems] + check.problems
    of_study: dict[str, Any] = {**dict.fromkeys(("name", "general", "target")), **settings.study}
    parts = validation.Parts(
        **of_study,
        bases=tuple(settings.bases),
        runs=tuple(settings.runs),
        losses=pd.DataFrame(columns=list(LOSS_COLUMNS)) if losses is None else losses,
        is_plan=is_plan,
        origin=origin
        or validation.Origin(str(settings_path), str(losses_path or path), str(path / "lr.csv")),
    )
    if not check.problems:
        return Study(**vars(parts))
    if losses is not None:
        _, problems, _ = validation.examine(parts, settings.malformed)
        check.problems += problems
    raise StudyError(check.problems)


def _read_logs(folder: Path | None, names: list[str]) -> dict[str, Schedule]:
    """Return the logged schedule of each run in lr.csv."""
    path = find_table(folder, "lr") if folder else None
    if path is None:
        return {}
    table = read_table(path)
    check = TableCheck(table, str(path))
    check.columns(RATE_COLUMNS)
    check.raise_problems()
    rates = check.duplicates(check.cells(), ["run", "step"])
    for label in rates.index[rates["step"] == 0]:
        check.add(check.place(label), "a learning rate is logged at step 0", "count steps from 1")
    schedules = {}
    for name, rows in rates[rates["step"] > 0].groupby("run", sort=False):
        if name not in names:
            problem = f"the run {name!r} has {len(rows)} logged learning rates but no lr_log = true"
            fix = "add lr_log = true to its table in place of the schedule, or remove the rows"
            check.add(check.place(rows.index[0]), problem, fix)
            continue
        rows = rows.sort_values("step")
        schedules[str(name)] = Schedule.from_log(rows["step"], rows["lr"])
    check.raise_problems()
    return schedules


def _same_base(base: Base, other: Base) -> bool:
    if base.schedule is None or other.schedule is None:
        return base.known == other.known
    steps, others = base.schedule.steps, other.schedule.steps
    return steps == others and not validation.first_difference(other.schedule, base.schedule, steps)


def write_study(study: Study, path: str | Path) -> None:
    """Write a study as a folder; `read_study` gives a study of the same digest.

    The folder appears whole or not at all. A run whose trunk is not in the study is written whole; one that
    leaves its trunk in the middle of a segment as a log, which has the same rates and another digest.

    Parameters
    ----------
    study : Study
    path : path
        A folder that does not exist yet, or is empty.

    Raises
    ------
    StudyError
        If the folder is not empty, or a logged base lies on no run of the study.
    """
    folder = Path(path)
    check_new(folder, "choose a new folder")
    texts = study_texts(study)
    with beside(folder) as partial:
        for name, text in texts.items():
            (partial / name).write_text(text, encoding="utf-8")
        partial.replace(folder)


def study_texts(study: Study) -> dict[str, str]:
    """Return the texts of the files that `write_study` writes, by name."""
    runs = tuple(run if branch_of(study, run) else replace(run, branch=None) for run in study.runs)
    tables = {"losses.csv": study.losses}
    if logged := [run for run in runs if _own_segments(run) is None]:
        tables["lr.csv"] = logged_rates(logged)
    texts = {name: table.to_csv(index=False) for name, table in tables.items()}
    return {"study.toml": settings_text(study, runs), **texts}


def check_new(folder: Path, fix: str) -> None:
    """Refuse a folder in which there is anything."""
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise StudyError.at(str(folder), "there is something already", fix)


def settings_text(study: Study, runs: Iterable[Run] | None = None) -> str:
    """Return the study.toml of a study."""
    keys: dict[str, Any] = {key: getattr(study, key) or None for key in OF_STUDY}
    for key in RESOURCES:
        keys[key] = keys[key] and keys[key].model_dump()
    lines = table_lines(["study"], keys)
    for base in study.bases:
        lines += _base_lines(base, {run.name for run in study.pretraining_runs})
    for run in study.runs if runs is None else runs:
        lines += _run_lines(run)
    return "\n".join(lines)


def runs_text(runs: Iterable[Run], lr_unit: float = 1.0) -> str:
    """Return the tables of some runs: a plan that leaves bases and validation sets to the fitted study."""
    return "\n".join(line for run in runs for line in _run_lines(run, lr_unit))


def _base_lines(base: Base, pretraining_runs: set[str]) -> list[str]:
    keys = {key: getattr(base, key) for key in ("steps", "run", "model_size")}
    keys["known"] = None if base.known else False
    schedule = base.schedule
    if schedule is not None and schedule.is_logged:
        if base.run not in pretraining_runs:
            place = f"base {base.name}, key schedule"
            problem = "the base has a logged schedule but lies on no PT run of the study"
            raise StudyError.at(place, problem, "name the PT run it was saved from")
        # Read back from the log of its run.
        schedule = None
    return table_lines(["bases", base.name], keys, schedule)


def _run_lines(run: Run, lr_unit: float = 1.0) -> list[str]:
    own = _own_segments(run)
    keys = {key: getattr(run, key) for key in RUN_FIELDS if key != "schedule"}
    keys |= {"targets": run.mixture or None, "lr_log": own is None or None}
    keys["branch"] = run.branch and asdict(run.branch)
    return table_lines(["runs", run.name], keys, own and own.scaled(1.0 / lr_unit))


def _own_segments(run: Run) -> Schedule | None:
    """Return the segments of a run after its trunk, None where its learning rates are written as a log."""
    segments = run.schedule.segments
    ends = np.cumsum([segment.steps for segment in segments])
    start = run.branch.step if run.branch else 0
    if run.schedule.is_logged or start not in (0, *ends):
        # A trunk that is left in the middle of a segment has no segments up to there.
        return None
    own = (segment for segment, end in zip(segments, ends, strict=True) if end > start)
    return Schedule(tuple(own))


def table_lines(
    name: Sequence[str],
    keys: Mapping[str, Any],
    schedule: Schedule | None = None,
    *,
    one_of_several: bool = False,
) -> list[str]:
    """Return the lines of a table of a TOML file, named part by part; keys of None are left out."""
    head = ".".join(map(toml_key, name))
    lines = [f"[[{head}]]" if one_of_several else f"[{head}]"]
    lines += [f"{key} = {toml_value(value)}" for key, value in keys.items() if value is not None]
    if schedule is not None:
        segments = (f"  {toml_value(table)}," for table in schedule.to_toml())
        lines += ["schedule = [", *segments, "]"]
    return [*lines, ""]


def logged_rates(runs: Iterable[Run]) -> pd.DataFrame:
    """Return the learning rates of the runs as lr.csv has them, interpolated steps left out."""
    frames = []
    for run in runs:
        logged, start = [], 0
        for segment in run.schedule.segments:
            # Where the log ends early the last step says how long the run is.
            own = getattr(segment, "logged_steps", range(1, segment.steps))
            logged += [start + step for step in (*own, segment.steps)]
            start += segment.steps
        steps = np.unique(logged)
        rates = run.schedule.learning_rates()[steps - 1]
        frames.append(pd.DataFrame({"run": run.name, "step": steps, "lr": rates}))
    return pd.concat(frames, ignore_index=True)

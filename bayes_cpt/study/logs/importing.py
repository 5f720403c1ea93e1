"""Runs from their logs into a study folder, new or there already: all checked before it is written."""

import re
import tomllib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any, Self

import pandas as pd
from pydantic import Field

from bayes_cpt.checks import Check
from bayes_cpt.errors import StudyError, StudyWarning
from bayes_cpt.files import alone, beside
from bayes_cpt.strict import Strict, checked
from bayes_cpt.study.folder import check_new, logged_rates, read_study, runs_text, table_lines
from bayes_cpt.study.logs.raw import fail
from bayes_cpt.study.logs.reading import SAME_VALUE, Log
from bayes_cpt.study.logs.runs import RUN_KEYS, LoggedRun, Recipe, foreign, logged_run, read_run_log
from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study
from bayes_cpt.study.tables import LOSS_COLUMNS, RATE_COLUMNS, find_table, read_table, write_table
from bayes_cpt.toml_files import read_toml, toml_value

SETTINGS, IMPORTS = "study.toml", "imports.toml"
BASE = "base"
# A line that begins a table of a TOML file.
HEAD = r"\[+[^\[\]]+\]+\s*(#.*)?$"
MEANING = {"general": "what the base was trained on", "target": "what it is continued on"}
ROLES = GENERAL, TARGET = tuple(MEANING)
# Keys of a recipe that say which step and loss a row of the log is of.
READING = ("losses", "step", "row_run", "step_unit", "per_step", "per_epoch", "loss_unit", "start")
EACH = "; options hold for all logs: where these differ say losses = { SERIES = SET } of each in --answers"
TAKEN = "the {} validation set is taken to be {!r}, {}"

# Of a run: its losses (nats/token) by step and validation set.
type Losses = dict[tuple[int, str], float]
# How the logs of runs are read, by the name of the run.
type Recipes = Mapping[str, Sequence[Recipe]]


class Answers(Strict):
    """What the logs of a study cannot tell."""

    study: dict[str, Any] = Field(default_factory=dict)  # keys of [study]
    # Tables [bases.NAME], as in study.toml
    bases: dict[str, dict[str, Any]] = Field(default_factory=dict)
    logs: dict[str, Any] = Field(default_factory=dict)  # how the logs of each run are read, by name

    @classmethod
    def from_toml(cls, tables: dict[str, Any], place: Path) -> Self:
        """Build answers from a TOML file; paths of logs are taken from where it lies."""
        answers = checked(cls, tables, str(place), "write it as in docs/from-logs.md")

        def located(path: str) -> str:
            inside = place.parent / path
            return str(inside) if not Path(path).exists() and inside.exists() else path

        logs = {
            name: [recipe.changed(paths=tuple(map(located, recipe.paths))) for recipe in own]
            for name, own in recipes_of(answers.logs, str(place)).items()
        }
        return answers.model_copy(update={"logs": logs})


@dataclass(frozen=True)
class Imported:
    """What was written: the study as it is now, and all that was assumed, merged or left out."""

    study: Study
    notes: tuple[str, ...]
    added: int = 0
    kept: int = 0


def recipes_of(tables: Mapping[str, Any], place: str) -> dict[str, list[Recipe]]:
    """Return the recipes of the tables [logs.NAME], or [[logs.NAME]] for a run with several logs."""
    check = Check()
    recipes: dict[str, list[Recipe]] = {}
    for name, table in tables.items():
        for part in table if isinstance(table, list) else [table]:
            fix = 'write it as in docs/from-logs.md, with paths = ["file", ...]'
            recipe = check.run("", checked, Recipe, part, f"{place}, run {name}", fix)
            recipes.setdefault(name, []).extend([recipe] if recipe else [])
    check.raise_problems()
    return recipes


def recipes_text(recipes: Recipes) -> str:
    """Return an imports.toml."""
    head = "# How the runs of this study were read from their logs; `bayes-cpt import` keeps it."
    lines = [head, ""]
    for name, own in recipes.items():
        for recipe in own:
            keys = recipe.model_dump(mode="json", exclude_defaults=True)
            lines += table_lines(["logs", name], keys, one_of_several=len(own) > 1)
    return "\n".join(lines)


class StudyFiles:
    """The files of a study folder, there or not yet, into which runs are put before they are written.

    Its settings are the text of a study.toml; unless given, that of the folder.
    """

    def __init__(self, folder: Path, settings: str = "") -> None:
        self.folder = folder
        self.settings = settings or (folder / SETTINGS).read_text(encoding="utf-8-sig")
        imports = folder / IMPORTS
        tables = read_toml(imports) if imports.is_file() else {}
        self.recipes = recipes_of(_table(tables, "logs"), str(imports))
        self.tables: dict[str, pd.DataFrame] = {}
        for stem, columns in (("losses", LOSS_COLUMNS), ("lr", RATE_COLUMNS)):
            path = find_table(folder, stem)
            self.tables[stem] = read_table(path) if path else pd.DataFrame(columns=list(columns))

    def losses_of(self, run: str) -> Losses:
        """Return the losses of a run."""
        table = self.tables["losses"]
        own = table[table["run"] == run] if "run" in table else table[:0]
        rows = own.itertuples(index=False)
        return {(int(row.step), str(row.domain)): float(row.loss) for row in rows}

    def put_losses(self, run: str, losses: Losses) -> None:
        """Put losses in place of those that a run has."""
        ordered = sorted(losses.items(), key=lambda item: (item[0][1], item[0][0]))
        rows = [(run, step, domain, loss) for (step, domain), loss in ordered]
        self._put("losses", run, pd.DataFrame(rows, columns=list(LOSS_COLUMNS), dtype=object))

    def put_run(self, run: Run) -> None:
        """Put a run in place of one of its name; all else in study.toml stays as it was written."""
        unit = float(_table(tomllib.loads(self.settings), "study").get("lr_unit", 1.0))
        self.settings = _with_run(self.settings, run, unit)
        rates = self.tables["lr"][:0]
        if run.schedule.is_logged:
            rates = logged_rates([run])
            rates["lr"] /= unit
        self._put("lr", run.name, rates)

    def _put(self, stem: str, run: str, rows: pd.DataFrame) -> None:
        table = self.tables[stem]
        parts = [table[table["run"] != run] if "run" in table else table, rows]
        filled = [part for part in parts if len(part)] or [rows]
        self.tables[stem] = pd.concat(filled, ignore_index=True)

    def write(self) -> Study:
        """Write the folder, a new one whole or not at all, and return the study; refuse an unsound one."""
        with beside(self.folder) as copy:
            (copy / SETTINGS).write_text(self.settings, encoding="utf-8")
            (copy / IMPORTS).write_text(recipes_text(self.recipes), encoding="utf-8")
            for stem, table in self.tables.items():
                if len(table) or stem == "losses":
                    write_table(table, copy / self._table(stem).name)
            self._check(copy)
            if (self.folder / SETTINGS).is_file():
                # Settings last: until they name a run its rows are of nobody, so a killed import is told.
                for file in sorted(copy.iterdir(), key=lambda file: file.name == SETTINGS):
                    file.replace(self.folder / file.name)
            else:
                copy.replace(self.folder)
        if not len(self.tables["lr"]):
            self._table("lr").unlink(missing_ok=True)
        return read_study(self.folder)

    def _table(self, stem: str) -> Path:
        return find_table(self.folder, stem) or self.folder / f"{stem}.csv"

    def _check(self, copy: Path) -> None:
        """Refuse a copy that is no study; its problems name the folder that it is for."""
        with warnings.catch_warnings(action="ignore", category=StudyWarning):
            try:
                read_study(copy)
            except StudyError as error:
                shown = str(copy), str(self.folder)
                problems = [replace(own, place=own.place.replace(*shown)) for own in error.problems]
                raise StudyError(problems) from None


def _with_run(text: str, run: Run, unit: float) -> str:
    """Return a study.toml with the table of a run added or replaced; all else stays as it was written."""
    block, lines = runs_text([run], unit), text.rstrip().splitlines()
    start = _head(lines, {"runs": {run.name: {}}})
    if start is None:
        lines += ["", *block.splitlines()]
    else:
        heads = (i for i in range(start + 1, len(lines)) if re.match(HEAD, lines[i]))
        lines[start : next(heads, len(lines))] = [*block.splitlines(), ""]
    made = "\n".join(lines).rstrip() + "\n"
    return _as_meant(made, text, "runs", f"run {run.name}", tomllib.loads(block)["runs"])


def _with_sets(text: str, sets: Mapping[str, str]) -> str:
    """Return a study.toml that names further validation sets; all else stays as it was written."""
    lines = text.splitlines()
    after = 1 + (_head(lines, {"study": {}}) or 0)
    lines[after:after] = [f"{key} = {toml_value(domain)}" for key, domain in sets.items()]
    return _as_meant("\n".join([*lines, ""]), text, "study", f"keys {', '.join(sets)}", sets)


def _head(lines: Sequence[str], table: dict[str, Any]) -> int | None:
    return next((i for i, line in enumerate(lines) if _parsed(line) == table), None)


def _as_meant(made: str, text: str, table: str, what: str, keys: Mapping[str, Any]) -> str:
    """Return a study.toml that was changed in keys of one table, all else the same."""
    tables = tomllib.loads(text)
    if _parsed(made) != {**tables, table: {**_table(tables, table), **keys}}:
        problem = f"the tables of {table} have no line of their own, as [study] or [runs.NAME]"
        raise fail(f"{SETTINGS}, {what}", problem, "write them so, and import again")
    return made


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


# A new study.


def start_study(folder: Path, answers: Answers) -> Imported:
    """Write a study from logs; the folder appears whole or not at all."""
    check_new(folder, f"choose a new one, or add to it: bayes-cpt import KIND LOG --study {folder}")
    if not answers.logs:
        raise fail("LOG", "no log is named", "name at least one log, or --answers FILE")
    check = Check()
    recipes, logs = {}, {}
    for name, own in answers.logs.items():
        if found := check.run("", read_run_log, name, own, ROLES):
            recipes[name], logs[name] = found
    if len(answers.logs) > 1:
        check.problems = [
            replace(own, fix=own.fix + EACH) if ", series " in own.place else own
            for own in check.problems
        ]
    check.raise_problems()
    study = {"name": folder.resolve().name, **answers.study}
    notes: list[str] = []
    domains = dict.fromkeys(domain for log in logs.values() for domain in log.domains)
    phases = {own[0].phase or "cpt" for own in recipes.values()}
    _name_sets(study, list(domains), phases, check, notes)
    bases = answers.bases or _found_bases(recipes, notes)
    named = list(bases)
    runs = [check.run("", logged_run, n, logs[n], own[0], {}, named) for n, own in recipes.items()]
    check.raise_problems()
    done = list(filter(None, runs))
    lengths = {logged.run.name: logged.run.schedule.steps for logged in done}
    lines = table_lines(["study"], study)
    for name, table in bases.items():
        if "steps" not in table and (steps := lengths.get(str(table.get("run")))):
            table["steps"] = steps
            notes.append(f"base {name}: saved at step {steps} of {table['run']}, its last")
        lines += table_lines(["bases", name], table)
    files = StudyFiles(folder, "\n".join(lines))
    files.recipes = recipes
    for logged in done:
        files.put_losses(logged.run.name, _by_step(logged))
        files.put_run(logged.run)
    written = files.write()
    notes = [*(note for logged in done for note in logged.notes), *notes]
    return Imported(written, tuple(dict.fromkeys(notes)), added=len(written.losses))


def _by_step(logged: LoggedRun) -> Losses:
    return {(step, domain): loss for step, domain, loss in logged.losses}


def _name_sets(
    study: dict[str, Any], domains: Sequence[str], phases: set[str], check: Check, notes: list[str]
) -> None:
    """Complete which validation sets are general and target; of one that was measured, which it is."""
    single, pretrained = len(domains) == 1, phases == {"pt"}
    for key, other in (ROLES, ROLES[::-1]):
        left = [domain for domain in domains if domain not in study.values()]
        called, why = _called(key, left), "by its name"
        if key in study or (called is None and key == TARGET and pretrained):
            continue
        if called is None and len(left) == 1 and (pretrained if single else other in study):
            called, why = left[0], f"the only {'one' if single else 'other one'}"
        is_open = called is None and key == TARGET and single and bool(left) and other not in study
        if is_open and phases == {"cpt"}:
            called = left[0]
            why = f"of the data that the runs train on (--{GENERAL} {called} if it is not)"
        if called is not None:
            study[key] = called
            notes.append(TAKEN.format(key, called, why))
        elif is_open or not single:
            problem = f"nothing says which validation set is the {key} one, {MEANING[key]}"
            fix = f"give --{key} NAME, one of {', '.join(left)}"
            check.add(f"key {key}", problem, fix + (f" (or --{other} NAME)" if is_open else ""))
    for key in ROLES if single else ():
        if study.get(key) != domains[0] and domains[0] in study.values():
            study.pop(key, None)
            if not pretrained:
                notes.append(f"no loss was measured on the {key} validation set")
    notes += _third_sets(study, domains)


def _found_bases(recipes: Recipes, notes: list[str]) -> dict[str, dict[str, Any]]:
    """Return the base of new runs, the end of the one PT run; none where there is no such run."""
    pretraining = [name for name, own in recipes.items() if own[0].phase == "pt"]
    names = {own[0].base for own in recipes.values() if own[0].base} or {BASE}
    if len(pretraining) != 1 or len(names) > 1 or len(recipes) == 1:
        return {}
    name, run = names.pop(), pretraining[0]
    notes.append(f"base {name}: taken to be the last checkpoint of the PT run {run}")
    return {name: {"run": run}}


def _called(key: str, domains: Sequence[str]) -> str | None:
    """Return the validation set in whose name a word says that it is general, or target.

    Beside the name of another set, wiki, general_medicine may be the target.
    """
    called = [[d for d in domains if role in re.split(r"[\W_]+", d.lower())] for role in ROLES]
    own = called[ROLES.index(key)]
    sure = len(own) == 1 and (len(domains) == 1 or all(called))
    return key if key in own else own[0] if sure else None


def _third_sets(study: Mapping[str, Any], domains: Sequence[str]) -> list[str]:
    """Say which validation sets are none that the runs of a study train on."""
    named = [part for key in ROLES for part in _several(study.get(key))]
    third = [domain for domain in domains if domain not in named]
    if not third:
        return []
    said = f"validation sets that are neither general nor target: {', '.join(third)}"
    options = [f"--{key} {third[0]}" for key in ROLES if study.get(key) is None]
    ask = f" (give {' or '.join(options)} if it is that)" if options else ""
    return [f"{said}; they are kept as third sets{ask}"]


def _several(name: Any) -> list[Any]:
    return list(name) if isinstance(name, list) else [name]


# A run into a study that is there.


def import_run(
    folder: Path, name: str, given: Mapping[str, Any], sets: Mapping[str, str] | None = None
) -> Imported:
    """Add a run to a study from its log, or update it from a log that has grown or has another set.

    Keys of `Recipe` that are not given are what the last import of the run had. `sets` are the validation
    sets of ``general``, ``target`` or both, where the study has not named them.
    """
    if not (folder / SETTINGS).is_file():
        fix = f"start one with bayes-cpt init {quote(str(folder))} LOG..."
        raise fail(str(folder / SETTINGS), "the file is missing", fix)
    # Of two at once the second would write what it read before the first wrote.
    with alone(folder):
        return _imported(folder, name, given, sets or {})


def _imported(
    folder: Path, name: str, given: Mapping[str, Any], sets: Mapping[str, str]
) -> Imported:
    tables = read_toml(folder / SETTINGS)
    files = StudyFiles(folder)
    own = list(files.recipes.get(name, []))
    before = files.losses_of(name)
    place = _source_of(own, given, {domain for _, domain in before})
    last = own[place] if place < len(own) else None
    losses = given.get("losses", {})
    if losses and last is not None and last.paths == given.get("paths"):
        # Another series of the same log is of one more set.
        kept = {s: d for s, d in last.losses.items() if not {s, d} & {*losses, *losses.values()}}
        given = {**given, "losses": kept | dict(losses)}
    recipe = (last or Recipe()).changed(**given)
    study, runs = (_table(tables, key) for key in ("study", "runs"))
    known = dict(runs.get(name, {}))
    log = recipe.read(ROLES)
    # What is suspicious is said of the study as it becomes.
    with warnings.catch_warnings(action="ignore", category=StudyWarning):
        earlier = read_study(folder).run(name).schedule if known else None
    # It was written by hand, or another log of the run has the learning rates.
    by_hand = (not own and not known.get("lr_log")) or not any(rate > 0 for _, rate in log.rates)
    stated = earlier if by_hand else None
    keys = {key: known[key] for key in (*RUN_KEYS, "targets") if key in known}
    logged = logged_run(name, log, recipe, keys, list(tables.get("bases", {})), stated, earlier)
    notes = list(logged.notes)
    now = _by_step(logged)
    theirs = foreign(before, now) if last is None or recipe.paths != last.paths else set()
    if theirs and given.get("overlap") != "last":
        problem = f"it has none of the {len(theirs)} losses that the study has of this run from another log"
        fix = "name its own run, or give --overlap last to put it in their place"
        raise fail(f"run {name}, {log.source}", problem, fix)
    if theirs:
        notes.append(f"run {name}: {len(theirs)} losses from another log left")
        before = {key: loss for key, loss in before.items() if key not in theirs}
    if found := _new_sets(study, sets, log.domains, notes):
        files.settings = _with_sets(files.settings, found)
    notes += _third_sets({**study, **found}, log.domains)
    if last is not None and any(getattr(recipe, key) != getattr(last, key) for key in READING):
        others = {d for other in own if other is not last for d in other.losses.values()}
        left = {key: loss for key, loss in before.items() if key[1] in others}
        if gone := len(before) - len(left):
            notes.append(f"run {name}: {gone} losses that were read otherwise left")
        before = left
    files.put_losses(name, _merged(name, before, now, recipe.overlap, log, notes))
    if stated is None or recipe.schedule is not None:
        files.put_run(logged.run)
    own[place : place + 1] = [recipe]
    files.recipes[name] = own
    return Imported(files.write(), tuple(notes), len(now.keys() - before.keys()), len(before))


def _table(tables: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a table of a study.toml, empty where it is none: reading the study says so."""
    return tables[name] if isinstance(tables.get(name), dict) else {}


def _new_sets(
    study: Mapping[str, Any], given: Mapping[str, str], domains: Sequence[str], notes: list[str]
) -> dict[str, str]:
    """Return which sets are general and target where the study names none: as given, or by their names."""
    found = {}
    for key in ROLES:
        named, own = study.get(key), given.get(key)
        if named is not None and own is not None and own not in _several(named):
            problem = f"the {key} validation set of the study is {named!r}"
            raise fail(f"--{key} {own}", problem, "leave the option out, or correct study.toml")
        called = own or _called(key, domains)
        if named is None and called is not None:
            found[key] = called
            notes.append(TAKEN.format(key, called, "as given" if own else "by its name"))
    return found


def _source_of(own: Sequence[Recipe], given: Mapping[str, Any], measured: set[str]) -> int:
    """Return which log of the run is meant: of these paths, of this set, another set's, or the first."""
    sets = set(given.get("losses", {}).values())
    same = [i for i, recipe in enumerate(own) if recipe.paths == given.get("paths")]
    same += [i for i, recipe in enumerate(own) if sets & set(recipe.losses.values())]
    another = len(own) if sets and not sets & measured else 0
    return same[0] if same else another


def _merged(
    name: str, old: Losses, new: Losses, overlap: str, log: Log, notes: list[str]
) -> Losses:
    """Return the losses of a run with those of the log; what a rotated log has no more is kept."""
    both = old.keys() & new.keys()
    differ = sorted(key for key in both if abs(new[key] - old[key]) > SAME_VALUE * new[key])
    if differ and overlap == "refuse":
        (step, domain), other = differ[0], old[differ[0]]
        problem = f"the study has {other:g}, the log {new[differ[0]]:g}; {len(differ)} differ"
        fix = "give --overlap last for the log's, first for the study's; of another set --loss SERIES=SET"
        raise fail(f"run {name}, step {step}, domain {domain}", problem, fix)
    if gone := [key for key in old if key not in new and key[1] in log.domains]:
        notes.append(f"run {name}: {len(gone)} losses that the log has no more were kept")
    if differ:
        notes.append(f"run {name}: {len(differ)} losses differ; the {overlap} was kept")
    return {**new, **old} if overlap == "first" else {**old, **new}

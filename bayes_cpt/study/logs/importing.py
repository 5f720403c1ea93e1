"""Runs from their logs into a study folder, new or there already: all checked before it is written."""

import os
import re
import shutil
import tempfile
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayes_cpt.checks import Check
from bayes_cpt.errors import Problem, StudyError, StudyWarning
from bayes_cpt.files import replacing
from bayes_cpt.study.folder import logged_rates, read_study, runs_text, write_rates
from bayes_cpt.study.logs.raw import LogError, fail
from bayes_cpt.study.logs.reading import SAME_VALUE, Log
from bayes_cpt.study.logs.recipes import (
    IMPORTS,
    RUN_KEYS,
    Recipe,
    collected,
    read_recipes,
    recipes_of,
    recipes_text,
    toml_text,
)
from bayes_cpt.study.logs.runs import LoggedRun, logged_run, read_run_log
from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study
from bayes_cpt.study.tables import LOSS_COLUMNS, RATE_COLUMNS, find_table, read_table
from bayes_cpt.toml_files import read_toml

if TYPE_CHECKING:
    import pandas as pd

SETTINGS = "study.toml"
BASE = "base"
GENERAL, TARGET = "general", "target"
TABLES = ("study", "bases", "logs")
# Keys of a recipe that say which step and loss a row of the log is of.
READING = ("losses", "step", "row_run", "step_unit", "per_step", "per_epoch", "loss_unit", "start")

# Asked (what, allowed answers or none); returns the answer.
type Ask = Callable[[str, Sequence[str]], str]


@dataclass(frozen=True)
class Answers:
    """What the logs of a study cannot tell.

    Parameters
    ----------
    study : dict
        Keys of [study].
    bases : dict of str to dict
        Tables [bases.NAME], as in study.toml.
    recipes : dict of str to list of Recipe
        How the logs of each run are read, by name.
    """

    study: dict[str, Any] = field(default_factory=dict)
    bases: dict[str, dict[str, Any]] = field(default_factory=dict)
    recipes: dict[str, list[Recipe]] = field(default_factory=dict)

    @classmethod
    def from_toml(cls, tables: Mapping[str, Any], place: Path) -> "Answers":
        """Build answers from a TOML file; paths of logs are taken from where it lies."""
        check = Check()
        check.keys(dict(tables), allowed=TABLES)
        for name in ("study", "bases"):
            if not isinstance(tables.get(name, {}), dict):
                check.add(f"{place}, table {name}", "this is not a table", f"write [{name}]")
        check.raise_problems()

        def beside(path: str) -> str:
            inside = place.parent / path
            return str(inside) if not Path(path).exists() and inside.exists() else path

        recipes = {
            name: [replace(recipe, paths=tuple(map(beside, recipe.paths))) for recipe in own]
            for name, own in recipes_of(tables, str(place)).items()
        }
        return cls(dict(tables.get("study", {})), dict(tables.get("bases", {})), recipes)


@dataclass(frozen=True)
class Imported:
    """What was written: the study as it is now, and all that was assumed, merged or left out."""

    study: Study
    notes: tuple[str, ...]
    added: int = 0
    kept: int = 0


# A new study.


def start_study(folder: Path, answers: Answers, ask: Ask | None = None) -> Imported:
    """Write a study from logs; the folder appears whole or not at all."""
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise fail(
            str(folder),
            "there is something already",
            f"choose a new folder, or add to it: bayes-cpt import KIND LOG --study {folder}",
        )
    if not answers.recipes:
        raise fail("LOG", "no log is named", "name at least one log, or --answers FILE")
    notes: list[str] = []
    problems: list[Problem] = []
    logs: dict[str, Log] = {}
    for name, own in list(answers.recipes.items()):
        read = collected(problems, read_run_log, name, own)
        if read is not None:
            answers.recipes[name], logs[name] = read
    if problems:
        raise LogError(problems)
    check = Check()
    study = {"name": folder.resolve().name, **answers.study}
    continual = any(own[0].phase != "pt" for own in answers.recipes.values())
    _name_sets(check, study, list(logs.values()), notes, ask, continual=continual)
    recipes = _with_shares(check, answers, ask)
    bases = _bases(check, answers, recipes, notes, ask)
    check.raise_problems()
    done: list[LoggedRun] = []
    for name, own in recipes.items():
        run = collected(problems, logged_run, name, logs[name], own[0], {}, list(bases))
        done += [] if run is None else [run]
    if problems:
        raise LogError(problems)
    for name, table in bases.items():
        _place_on_run(name, table, done, notes)
    notes = [*(note for run in done for note in run.notes), *notes]
    written = _written(folder, study, bases, done, recipes)
    return Imported(written, tuple(dict.fromkeys(notes)), added=len(written.losses))


def _name_sets(
    check: Check,
    study: dict[str, Any],
    logs: Sequence[Log],
    notes: list[str],
    ask: Ask | None,
    *,
    continual: bool,
) -> None:
    """Complete which validation sets are general and target; a study of PT runs needs no target."""
    domains = list(dict.fromkeys(domain for log in logs for domain in log.domains))
    for key, meaning, other in (
        (GENERAL, "what the base was trained on", TARGET),
        (TARGET, "what it is continued on", GENERAL),
    ):
        if key in study:
            continue
        named = [domain for domain in domains if domain not in study.values()]
        called = [domain for domain in named if key in re.split(r"[\W_]+", domain.lower())]
        if len(called) == 1 or key in called:
            study[key] = key if key in called else called[0]
            notes.append(f"the {key} validation set is taken to be {study[key]!r}, by its name")
        elif not continual and key == TARGET:
            continue
        elif len(named) == 1 and (other in study or not continual):
            study[key] = named[0]
            notes.append(
                f"the {key} validation set is taken to be {named[0]!r}, the only other one"
            )
        elif len(domains) == 1 and (domains[0] == other or other in study):
            # One set was measured, and it is known which: the other has no losses.
            study[key] = key
            notes.append(f"no loss was measured on the {key} validation set")
        elif ask is not None and named:
            study[key] = ask(f"Which validation set is the {key} one, {meaning}?", named)
        else:
            fix = f"give --{key} NAME, one of {', '.join(domains) or 'none'}"
            if len(domains) == 1:
                fix += (
                    f" if it is, else --{other} NAME; and name the log of the other set too, as a second "
                    "LOG of the run, RUN=PATH"
                )
            check.add(f"key {key}", f"nothing says which validation set is the {key} one", fix)
            if len(domains) == 1:
                return
    trained = {study.get(GENERAL), *_several(study.get(TARGET))}
    if third := [domain for domain in domains if domain not in trained]:
        notes.append(
            f"validation sets that are neither general nor target: {', '.join(third)}; they are kept as "
            "third sets"
        )


def _several(target: Any) -> list[Any]:
    return target if isinstance(target, list) else [target]


def _with_shares(check: Check, answers: Answers, ask: Ask | None) -> dict[str, list[Recipe]]:
    recipes = {}
    for name, own in answers.recipes.items():
        if own[0].phase != "pt" and own[0].replay is None:
            if ask is None:
                check.add(
                    f"run {name}, key replay",
                    "no log tells the share of general data in the batches",
                    f"give --replay {name}=SHARE (--pt {name} if it is pre-training)",
                )
            else:
                own = [replace(own[0], replay=_share(ask, name)), *own[1:]]
        recipes[name] = own
    return recipes


def _share(ask: Ask, name: str) -> float:
    while True:
        answer = ask(
            f"What share of general data (replay ratio, 0 to 1) was in the batches of {name}?", ()
        )
        try:
            share = float(answer.replace(",", "."))
        except ValueError:
            continue
        if 0 <= share <= 1:
            return share


def _bases(
    check: Check,
    answers: Answers,
    recipes: Mapping[str, Sequence[Recipe]],
    notes: list[str],
    ask: Ask | None,
) -> dict[str, dict[str, Any]]:
    """Return the bases: as answered, else the end of the one PT run, else an open-weights one."""
    pretraining = [name for name, own in recipes.items() if own[0].phase == "pt"]
    if answers.bases or len(pretraining) == len(recipes):
        return {name: dict(table) for name, table in answers.bases.items()}
    named = list(dict.fromkeys(own[0].base for own in recipes.values() if own[0].base))
    name = named[0] if named else BASE
    if len(pretraining) == 1 and len(named) <= 1:
        notes.append(f"base {name}: taken to be the last checkpoint of the PT run {pretraining[0]}")
        return {name: {"run": pretraining[0]}}
    if ask is not None and len(named) <= 1:
        open_weights, known = "open weights, its schedule not known", "its schedule is known"
        if ask("What is the base?", (open_weights, known)) == open_weights:
            return {name: {"known": False}}
    check.add(
        "bases",
        "nothing says what the runs start from",
        "give --pt RUN and its log, --open-base NAME, or [bases.NAME] in --answers FILE",
    )
    return {}


def _place_on_run(
    name: str, table: dict[str, Any], runs: Sequence[LoggedRun], notes: list[str]
) -> None:
    """Give a base that lies on a PT run its steps: the run's last unless it says."""
    trunk = next((started.run for started in runs if started.run.name == table.get("run")), None)
    if trunk is None:
        return
    if "steps" not in table:
        table["steps"] = trunk.schedule.steps
        notes.append(
            f"base {name}: saved after step {trunk.schedule.steps} of {trunk.name}, its last"
        )
    if "schedule" not in table and not trunk.schedule.is_logged:
        segments = trunk.schedule.first(table["steps"])
        if not segments.is_logged:
            table["schedule"] = segments.to_toml()


def _written(
    folder: Path,
    study: Mapping[str, Any],
    bases: Mapping[str, Mapping[str, Any]],
    runs: Sequence[LoggedRun],
    recipes: Mapping[str, Sequence[Recipe]],
) -> Study:
    import pandas as pd

    text = [toml_text(["study"], study)]
    text += [toml_text(["bases", name], table) for name, table in bases.items()]
    rows = [(logged.run.name, *row) for logged in runs for row in logged.losses]
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    partial.mkdir()
    try:
        settings = "\n".join([*text, runs_text([logged.run for logged in runs])])
        (partial / SETTINGS).write_text(settings, encoding="utf-8")
        pd.DataFrame(rows, columns=list(LOSS_COLUMNS)).to_csv(partial / "losses.csv", index=False)
        write_rates([logged.run for logged in runs], partial / "lr.csv")
        (partial / IMPORTS).write_text(recipes_text(recipes), encoding="utf-8")
        _check(partial, folder)
        partial.replace(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return read_study(folder)


@contextmanager
def _quiet() -> Iterator[None]:
    """Leave out warnings that would name a copy: the study is read once more when it is in place."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StudyWarning)
        yield


def _check(copy: Path, folder: Path) -> None:
    """Refuse a study that is not sound; its problems name the folder that it is for."""
    with _quiet():
        try:
            read_study(copy)
        except StudyError as error:
            raise StudyError(
                Problem(p.place.replace(str(copy), str(folder)), p.problem, p.fix)
                for p in error.problems
            ) from None


# A run into a study that is there.


def import_run(folder: Path, name: str, given: Mapping[str, Any]) -> Imported:
    """Add a run to a study from its log, or update it from a log that has grown or has another set."""
    settings = folder / SETTINGS
    if not settings.is_file():
        fix = f"start one with bayes-cpt init {folder} LOG..."
        raise fail(str(settings), "the file is missing", fix)
    tables = read_toml(settings)
    recipes = read_recipes(folder)
    own = list(recipes.get(name, []))
    losses, before = _losses_of(folder, name)
    place = _source_of(own, given, {domain for _, domain in before})
    recipe = replace(own[place] if place < len(own) else Recipe(), **given)
    runs = tables.get("runs", {})
    known = dict(runs.get(name, {})) if isinstance(runs, dict) else {}
    log = recipe.read()
    stated = None
    if known and ((not own and not known.get("lr_log")) or not any(r > 0 for _, r in log.rates)):
        # It was written by hand, or another log of the run has the learning rates.
        with _quiet():
            stated = read_study(folder).run(name).schedule
    keys = {key: known[key] for key in RUN_KEYS if key in known}
    logged = logged_run(name, log, recipe, keys, list(tables.get("bases", {})), stated)
    notes = list(logged.notes)
    if place < len(own) and any(getattr(recipe, k) != getattr(own[place], k) for k in READING):
        others = {d for i, other in enumerate(own) if i != place for d in other.losses.values()}
        left = {key: loss for key, loss in before.items() if key[1] in others}
        if len(left) < len(before):
            notes.append(
                f"run {name}: {len(before) - len(left)} losses that were read otherwise left"
            )
        before = left
    merged, added = _merged(name, before, logged, recipe.overlap, log.domains, notes)
    own[place : place + 1] = [recipe]
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / "study"
        shutil.copytree(folder, copy, ignore=_not_of_study)
        _write_losses(copy, losses, name, merged)
        if stated is None or recipe.schedule is not None or not known:
            text = (copy / SETTINGS).read_text(encoding="utf-8-sig")
            made = _with_run(text, tables, logged.run)
            (copy / SETTINGS).write_text(made, encoding="utf-8")
            _write_rates(copy, logged.run)
        (copy / IMPORTS).write_text(recipes_text({**recipes, name: own}), encoding="utf-8")
        _check(copy, folder)
        _put_in_place(copy, folder)
    return Imported(read_study(folder), tuple(notes), added, len(before))


def _losses_of(folder: Path, name: str) -> "tuple[pd.DataFrame, dict[tuple[int, str], float]]":
    """Return the losses of a study, and those of a run by step and validation set."""
    import pandas as pd

    path = find_table(folder, "losses")
    table = read_table(path) if path else pd.DataFrame(columns=list(LOSS_COLUMNS))
    if "run" not in table:
        return table, {}
    own = table.loc[table["run"] == name, ["step", "domain", "loss"]]
    return table, {
        (int(step), str(domain)): float(loss) for step, domain, loss in own.itertuples(index=False)
    }


def _source_of(own: Sequence[Recipe], given: Mapping[str, Any], measured: set[str]) -> int:
    """Return which log of the run is meant: of these paths, another set's, or the first."""
    paths = given.get("paths")
    same = next((i for i, recipe in enumerate(own) if recipe.paths == paths), None)
    if same is not None:
        return same
    sets = set(given.get("losses", {}).values())
    return len(own) if sets and not sets & measured else 0


def _merged(
    name: str,
    before: Mapping[tuple[int, str], float],
    logged: LoggedRun,
    overlap: str,
    domains: Sequence[str],
    notes: list[str],
) -> tuple[dict[tuple[int, str], float], int]:
    """Return the losses of a run with those of the log, and how many are new.

    What a rotated log has no more is kept.
    """
    now = {(step, domain): loss for step, domain, loss in logged.losses}
    differ = [
        key for key in now if key in before and abs(now[key] - before[key]) > SAME_VALUE * now[key]
    ]
    if differ and overlap == "refuse":
        step, domain = differ[0]
        raise LogError.at(
            f"run {name}, step {step}, domain {domain}",
            f"the study has {before[differ[0]]:g} there, the log {now[differ[0]]:g} "
            f"({len(differ)} points differ)",
            "give --overlap last to take the log's, --overlap first to keep the study's; a log of "
            "another validation set needs its own --loss SERIES=SET",
        )
    if gone := [key for key in before if key not in now and key[1] in domains]:
        notes.append(f"run {name}: {len(gone)} losses that the log has no more were kept")
    if differ:
        notes.append(f"run {name}: {len(differ)} losses differ; the {overlap} was kept")
    merged = {**now, **before} if overlap == "first" else {**before, **now}
    return merged, len(now.keys() - before.keys())


def _not_of_study(at: str, names: list[str]) -> set[str]:
    """Return what of a study folder is not copied: all but its own few files."""
    own = {f"{stem}{end}" for stem in ("losses", "lr") for end in (".csv", ".parquet")}
    own |= {SETTINGS, IMPORTS}
    return {name for name in names if name not in own or (Path(at) / name).is_dir()}


def _write_losses(
    copy: Path, table: "pd.DataFrame", name: str, losses: Mapping[tuple[int, str], float]
) -> None:
    import pandas as pd

    ordered = sorted(losses.items(), key=lambda item: (item[0][1], item[0][0]))
    rows = [(name, step, domain, loss) for (step, domain), loss in ordered]
    own = pd.DataFrame(rows, columns=list(LOSS_COLUMNS), dtype=object)
    kept = table[table["run"] != name] if "run" in table else table
    whole = pd.concat([kept, own], ignore_index=True)
    _write_table(whole, find_table(copy, "losses") or copy / "losses.csv", "loss")


def _write_table(table: "pd.DataFrame", path: Path, value: str) -> None:
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    else:
        table.astype({"step": "int64", value: "float64"}).to_parquet(path, index=False)


def _write_rates(copy: Path, run: Run) -> None:
    import pandas as pd

    path = find_table(copy, "lr")
    table = read_table(path) if path else pd.DataFrame(columns=list(RATE_COLUMNS))
    kept = table[table["run"] != run.name]
    if run.schedule.is_logged:
        kept = pd.concat([kept, logged_rates([run])], ignore_index=True)
    if len(kept):
        _write_table(kept, path or copy / "lr.csv", "lr")
    elif path:
        path.unlink()


def _with_run(text: str, tables: dict[str, Any], run: Run) -> str:
    """Return a study.toml with the table of a run added or replaced; all else stays as it was written."""
    block = runs_text([run])
    lines = text.splitlines()
    heads = [
        number for number, line in enumerate(lines) if re.match(r"\[+[^\[\]]+\]+\s*(#.*)?$", line)
    ]
    start = next(
        (number for number in heads if _parsed(lines[number]) == {"runs": {run.name: {}}}), None
    )
    if start is None:
        made = f"{text.rstrip()}\n\n{block}"
    else:
        end = next((number for number in heads if number > start), len(lines))
        made = "\n".join([*lines[:start], block, *lines[end:], ""])
    wanted = {**tables, "runs": {**tables.get("runs", {}), **tomllib.loads(block)["runs"]}}
    if _parsed(made) != wanted:
        raise fail(
            f"{SETTINGS}, run {run.name}",
            "the table of this run is not written as [runs.NAME]",
            "write it so, and import again",
        )
    return made


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _put_in_place(copy: Path, folder: Path) -> None:
    # The settings last: until they name a run its rows would be of nobody, so a killed import is told.
    for file in sorted(copy.iterdir(), key=lambda file: file.name == SETTINGS):
        target = folder / file.name
        if not target.is_file() or target.read_bytes() != file.read_bytes():
            with replacing(target) as partial:
                partial.write_bytes(file.read_bytes())
    old = find_table(folder, "lr")
    if old is not None and not (copy / old.name).exists():
        old.unlink()

"""A first study from logs: what they tell, what was answered, and what had to be assumed."""

import os
import re
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bayes_cpt.checks import Check
from bayes_cpt.errors import Problem, StudyError, StudyWarning
from bayes_cpt.study.folder import read_study, runs_text, write_rates
from bayes_cpt.study.logs.clean import Log
from bayes_cpt.study.logs.raw import LogError, fail
from bayes_cpt.study.logs.recipe import IMPORTS, Recipe, recipes_of, recipes_text, toml_text
from bayes_cpt.study.logs.runs import LoggedRun, logged_run
from bayes_cpt.study.readers.huggingface import STATE
from bayes_cpt.study.study import Study
from bayes_cpt.study.tables import LOSS_COLUMNS

BASE = "base"
GENERAL, TARGET = "general", "target"
TABLES = ("study", "bases", "logs")

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
    recipes : dict of str to Recipe
        How each run is read, by name.
    """

    study: dict[str, Any] = field(default_factory=dict)
    bases: dict[str, dict[str, Any]] = field(default_factory=dict)
    recipes: dict[str, Recipe] = field(default_factory=dict)

    @classmethod
    def from_toml(cls, tables: Mapping[str, Any], place: Path) -> "Answers":
        """Build answers from a TOML file; paths of logs are taken from where it lies.

        Parameters
        ----------
        tables : mapping of str to object
            What is in the file.
        place : Path
            The file.

        Raises
        ------
        StudyError
        """
        check = Check()
        check.keys(dict(tables), allowed=TABLES)
        for name in ("study", "bases"):
            if not isinstance(tables.get(name, {}), dict):
                check.add(f"{place}, table {name}", "this is no table", f"write [{name}]")
        check.raise_problems()
        recipes = {
            name: recipe.changed({"paths": tuple(_beside(place, path) for path in recipe.paths)})
            for name, recipe in recipes_of(tables, str(place)).items()
        }
        return cls(dict(tables.get("study", {})), dict(tables.get("bases", {})), recipes)


def _beside(place: Path, path: str) -> str:
    inside = place.parent / path
    return str(inside) if not Path(path).exists() and inside.exists() else path


@dataclass(frozen=True)
class Started:
    """A study that was written, and all that was assumed for it."""

    study: Study
    notes: tuple[str, ...]


def run_name(path: str) -> str:
    """Return what a run is called after its log: the folder or file that tells runs apart.

    Parameters
    ----------
    path : str
        Of the log.

    Examples
    --------
    >>> run_name("out/r25/checkpoint-300/trainer_state.json"), run_name("logs/r00.csv")
    ('r25', 'r00')
    """
    parts = [part for part in re.split(r"[/\\]", path) if part not in ("", ".", "..")]
    while len(parts) > 1 and (parts[-1] == STATE or re.fullmatch(r"checkpoint-\d+", parts[-1])):
        parts.pop()
    return Path(parts[-1]).stem if parts else "run"


def start_study(folder: Path, answers: Answers, ask: Ask | None = None) -> Started:
    """Write a study from logs; the folder appears whole or not at all.

    Parameters
    ----------
    folder : Path
        One that does not exist yet, or is empty.
    answers : Answers
    ask : callable, optional
        What asks a person for what is missing; without it that is a problem.

    Raises
    ------
    StudyError
        With all that is missing or wrong, and the flag that gives it.
    """
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise fail(
            str(folder),
            "there is something already",
            f"choose a new folder, or add to it: bayes-cpt import KIND LOG --study {folder}",
        )
    if not answers.recipes:
        raise fail("LOG", "no log is named", "name at least one log, or --answers FILE")
    notes: list[str] = []
    logs = _read(answers)
    check = Check()
    study = {"name": folder.resolve().name, **answers.study}
    _name_sets(check, study, list(logs.values()), notes, ask)
    recipes = _with_answers(check, answers, ask)
    bases = _bases(check, answers, recipes, notes, ask)
    check.raise_problems()
    runs = _runs(recipes, logs, list(bases))
    for name, table in bases.items():
        _place_on_run(name, table, runs, notes)
    notes = [*(note for run in runs for note in run.notes), *notes]
    return Started(_written(folder, study, bases, runs, recipes), tuple(dict.fromkeys(notes)))


def _read(answers: Answers) -> dict[str, Log]:
    problems: list[Problem] = []
    logs = {}
    for name, recipe in answers.recipes.items():
        try:
            logs[name] = recipe.read()
        except StudyError as error:
            problems += error.problems
    if problems:
        raise LogError(problems)
    return logs


def _name_sets(
    check: Check, study: dict[str, Any], logs: Sequence[Log], notes: list[str], ask: Ask | None
) -> None:
    """Complete which validation sets are general and target."""
    domains = list(dict.fromkeys(domain for log in logs for domain in log.domains))
    for key, meaning in (
        (GENERAL, "what the base was trained on"),
        (TARGET, "what it is continued on"),
    ):
        if key in study:
            continue
        left = [domain for domain in domains if domain not in study.values()]
        if key in left:
            study[key] = key
            notes.append(f"the {key} validation set is taken to be {key!r}, by its name")
        elif key == TARGET and len(left) == 1:
            study[key] = left[0]
            notes.append(
                f"the target validation set is taken to be {left[0]!r}, the only other one"
            )
        elif ask is not None and left:
            study[key] = ask(f"Which validation set is the {key} one, {meaning}?", left)
        else:
            names = ", ".join(domains) or "none"
            check.add(
                f"key {key}",
                f"nothing says which validation set is the {key} one",
                f"give --{key} NAME, one of {names}",
            )


def _with_answers(check: Check, answers: Answers, ask: Ask | None) -> dict[str, Recipe]:
    recipes = {}
    for name, recipe in answers.recipes.items():
        if recipe.phase != "pt" and recipe.replay is None:
            if ask is None:
                check.add(
                    f"run {name}, key replay",
                    "no log tells the share of general data in the batches",
                    f"give --replay {name}=SHARE (--pt {name} if it is pre-training)",
                )
            else:
                recipe = replace(recipe, replay=_share(ask, name))
        recipes[name] = recipe
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
    recipes: Mapping[str, Recipe],
    notes: list[str],
    ask: Ask | None,
) -> dict[str, dict[str, Any]]:
    """Return the bases: as answered, else the end of the one PT run, else an open-weights one."""
    if answers.bases or all(recipe.phase == "pt" for recipe in recipes.values()):
        return {name: dict(table) for name, table in answers.bases.items()}
    pretraining = [name for name, recipe in recipes.items() if recipe.phase == "pt"]
    named = list(dict.fromkeys(recipe.base for recipe in recipes.values() if recipe.base))
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


def _runs(
    recipes: Mapping[str, Recipe], logs: Mapping[str, Log], bases: Sequence[str]
) -> list[LoggedRun]:
    runs: list[LoggedRun] = []
    problems: list[Problem] = []
    for name, recipe in recipes.items():
        try:
            runs.append(logged_run(name, logs[name], recipe, {}, bases))
        except StudyError as error:
            problems += error.problems
    if problems:
        raise LogError(problems)
    return runs


def _place_on_run(
    name: str, table: dict[str, Any], runs: Sequence[LoggedRun], notes: list[str]
) -> None:
    """Give a base that lies on a PT run its steps: the run's last unless it says."""
    trunk = next((started.run for started in runs if started.run.name == table.get("run")), None)
    if trunk is not None and "steps" not in table:
        table["steps"] = trunk.schedule.steps
        notes.append(
            f"base {name}: saved after step {trunk.schedule.steps} of {trunk.name}, its last"
        )
    if trunk is not None and "schedule" not in table and not trunk.schedule.is_logged:
        segments = trunk.schedule.first(table["steps"])
        if not segments.is_logged:
            table["schedule"] = segments.to_toml()


def _written(
    folder: Path,
    study: Mapping[str, Any],
    bases: Mapping[str, Mapping[str, Any]],
    runs: Sequence[LoggedRun],
    recipes: Mapping[str, Recipe],
) -> Study:
    import pandas as pd

    text = [toml_text(["study"], study)]
    text += [toml_text(["bases", name], table) for name, table in bases.items()]
    rows = [
        (logged.run.name, step, domain, loss)
        for logged in runs
        for step, domain, loss in logged.losses
    ]
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    partial.mkdir()
    try:
        settings = "\n".join([*text, runs_text([logged.run for logged in runs])])
        (partial / "study.toml").write_text(settings, encoding="utf-8")
        pd.DataFrame(rows, columns=list(LOSS_COLUMNS)).to_csv(partial / "losses.csv", index=False)
        write_rates([logged.run for logged in runs], partial / "lr.csv")
        (partial / IMPORTS).write_text(recipes_text(recipes), encoding="utf-8")
        with warnings.catch_warnings():
            # They name the folder that it is written in; it is read once more when it is in place.
            warnings.simplefilter("ignore", StudyWarning)
            try:
                read_study(partial)
            except StudyError as error:
                raise StudyError(
                    Problem(p.place.replace(str(partial), str(folder)), p.problem, p.fix)
                    for p in error.problems
                ) from None
        partial.replace(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return read_study(folder)

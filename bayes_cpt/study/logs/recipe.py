"""How a log becomes a run: the questions that logs leave open, answered by flags, a TOML or a person.

The answers of each run are kept in the study's imports.toml, so that a grown log is imported again by its
name alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

from bayes_cpt.checks import Check
from bayes_cpt.study.folder import toml_key, toml_value
from bayes_cpt.study.logs.clean import Choices, Log, clean
from bayes_cpt.study.logs.raw import LogError
from bayes_cpt.study.readers.columns import Layout
from bayes_cpt.study.readers.logs import read_logs
from bayes_cpt.toml_files import read_toml

IMPORTS = "imports.toml"
TABLE = "logs"
# Keys of a run in study.toml that a log may not tell.
RUN_KEYS = (
    "phase",
    "base",
    "replay",
    "model_size",
    "batch_tokens",
    "sequence_length",
    "optimizer_state",
)


@dataclass(frozen=True)
class Recipe:
    """Which logs a run is read from, how, and what else is known about it.

    Parameters
    ----------
    kind : str
        One of `bayes_cpt.study.readers.logs.KINDS`.
    paths : tuple of str
        Files, folders or addresses, in the order in which they were written.
    losses, rate, step_unit, per_step, loss_unit, start, overlap, drop_nan
        As in `bayes_cpt.study.logs.clean.Choices`.
    step, row_run : str, optional
        Of tables: the column of the steps, and the run in the column ``run``.
    total_steps : int, optional
        Length of the run; what the log says, else its last step.
    schedule : list of dict, optional
        Segments, where the log has no learning rates.
    phase, base, replay, model_size, batch_tokens, sequence_length, optimizer_state : optional
        As in study.toml.
    """

    kind: str = "auto"
    paths: tuple[str, ...] = ()
    losses: Mapping[str, str] = field(default_factory=dict)
    rate: str | None = None
    step: str | None = None
    row_run: str | None = None
    step_unit: str = "steps"
    per_step: float | None = None
    loss_unit: str | None = None
    start: int = 0
    overlap: str = "refuse"
    drop_nan: bool = False
    total_steps: int | None = None
    schedule: list[dict[str, Any]] | None = None
    phase: str | None = None
    base: str | None = None
    replay: float | None = None
    model_size: float | None = None
    batch_tokens: float | None = None
    sequence_length: int | None = None
    optimizer_state: str | None = None

    @classmethod
    def from_toml(cls, table: object) -> Self:
        """Build a recipe from a table of a TOML file.

        Parameters
        ----------
        table : object
            What the file has there: a dict, if it is in order.

        Raises
        ------
        StudyError
            Naming every key at fault.
        """
        check = Check()
        names = tuple(key.name for key in fields(cls))
        keys = dict(check.keys(table, allowed=names, required=("paths",)))
        paths = keys.get("paths")
        paths = [paths] if isinstance(paths, str) else paths
        if not isinstance(paths, list) or not paths or not all(isinstance(p, str) for p in paths):
            check.add("key paths", f"paths is {paths!r}", 'write paths = ["file", ...]')
        losses = keys.get("losses", {})
        if not isinstance(losses, dict) or not all(
            isinstance(domain, str) for domain in losses.values()
        ):
            check.add("key losses", f"losses is {losses!r}", 'write losses = { "series" = "set" }')
        for key, sort, words in (
            ("start", int, "a whole number"), ("total_steps", int, "a whole number"),
            ("drop_nan", bool, "true or false"), ("kind", str, "a text"), ("step", str, "a text"),
            ("rate", str, "a text"), ("row_run", str, "a text"),
        ):  # fmt: skip
            value = keys.get(key)
            if value is not None and (
                not isinstance(value, sort) or (sort is int and value is True)
            ):
                check.add(f"key {key}", f"{key} is {value!r}", f"write {words}")
        check.raise_problems()
        return cls(**(keys | {"paths": tuple(paths or ())}))

    def to_toml(self) -> dict[str, Any]:
        """Return the recipe's keys, those at their defaults left out (`from_toml` undone)."""
        usual = Recipe()
        return {
            key.name: value
            for key in fields(self)
            if (value := getattr(self, key.name)) != getattr(usual, key.name)
        }

    def changed(self, given: Mapping[str, Any]) -> Self:
        """Return the recipe with what was given in place of what it had.

        Parameters
        ----------
        given : mapping of str to object
            By field.
        """
        return replace(self, **given)

    def read(self) -> Log:
        """Read and clean the logs.

        Raises
        ------
        LogError
        """
        raw = read_logs(self.kind, self.paths, Layout(self.step, self.row_run))
        # A recipe names the series of losses: which sets they could be of does not matter.
        names = {key.name for key in fields(Choices)} - {"sets"}
        return clean(raw, Choices(**{name: getattr(self, name) for name in names}))

    def run_keys(self) -> dict[str, Any]:
        """Return what it says of the run itself."""
        return {key: value for key in RUN_KEYS if (value := getattr(self, key)) is not None}


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return (
            "{ "
            + ", ".join(f"{toml_key(key)} = {_toml(part)}" for key, part in value.items())
            + " }"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(part) for part in value) + "]"
    return toml_value(value)


def toml_text(name: Sequence[str], table: Mapping[str, Any]) -> str:
    """Return a table of a TOML file.

    Parameters
    ----------
    name : sequence of str
        Of the table, part by part.
    table : mapping of str to object
        What stands in it.
    """
    head = ".".join(toml_key(part) for part in name)
    lines = [
        f"{toml_key(key)} = {_toml(value)}" for key, value in table.items() if value is not None
    ]
    return "\n".join([f"[{head}]", *lines, ""])


def read_recipes(folder: Path) -> dict[str, Recipe]:
    """Return how the runs of a study were imported, by name; none where it says nothing.

    Parameters
    ----------
    folder : Path
        Of the study.

    Raises
    ------
    StudyError
        If imports.toml is damaged.
    """
    path = folder / IMPORTS
    return recipes_of(read_toml(path), str(path)) if path.is_file() else {}


def recipes_of(tables: Mapping[str, Any], place: str) -> dict[str, Recipe]:
    """Return the recipes of the tables [logs.NAME].

    Parameters
    ----------
    tables : mapping of str to object
        By the names of the runs.
    place : str
        The file that they are of.

    Raises
    ------
    StudyError
    """
    check = Check()
    named = tables.get(TABLE, {})
    if not isinstance(named, dict):
        check.add(place, f"{TABLE} is {named!r}", f"write a table [{TABLE}.NAME] for each run")
        named = {}
    recipes = {
        name: check.run(f"{place}, run {name}", Recipe.from_toml, table)
        for name, table in named.items()
    }
    if check.problems:
        raise LogError(check.problems)
    return {name: recipe for name, recipe in recipes.items() if recipe is not None}


def recipes_text(recipes: Mapping[str, Recipe]) -> str:
    """Return an imports.toml.

    Parameters
    ----------
    recipes : mapping of str to Recipe
        By the names of the runs.
    """
    head = "# How the runs of this study were read from their logs; `bayes-cpt import` keeps it.\n"
    tables = [toml_text([TABLE, name], recipe.to_toml()) for name, recipe in recipes.items()]
    return "\n".join([head, *tables])

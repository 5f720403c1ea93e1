"""How a log becomes a run: the questions that logs leave open, answered by flags, a TOML or a person.

The answers are kept in the study's imports.toml, so that a grown log is imported again by its name alone. A
run may have several logs, one for each validation set: then it has several recipes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from bayes_cpt.checks import Check
from bayes_cpt.errors import StudyError
from bayes_cpt.study.folder import toml_key, toml_value
from bayes_cpt.study.logs.raw import LogError
from bayes_cpt.study.logs.reading import Reading
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
# What a key of a recipe must be, in words and as a type.
TYPES: dict[str, tuple[type, str]] = {
    **dict.fromkeys(("start", "total_steps"), (int, "a whole number")),
    **dict.fromkeys(("kind", "step", "rate", "row_run"), (str, "a text")),
    "drop_nan": (bool, "true or false"),
}


@dataclass(frozen=True)
class Recipe(Reading):
    """How the logs of a run are read, and what else is known about it.

    Parameters
    ----------
    total_steps : int, optional
        Length of the run; what the log says, else its last step.
    schedule : list of dict, optional
        Segments, where the log has no learning rates.
    phase, base, replay, model_size, batch_tokens, sequence_length, optimizer_state : optional
        As in study.toml.
    """

    total_steps: int | None = None
    schedule: list[dict[str, Any]] | None = None
    phase: str | None = None
    base: str | None = None
    replay: float | None = None
    model_size: float | None = None
    batch_tokens: float | None = None
    sequence_length: int | None = None
    optimizer_state: str | None = None

    def __post_init__(self) -> None:
        if self.per_step is None and self.step_unit == "tokens" and self.batch_tokens:
            object.__setattr__(self, "per_step", self.batch_tokens)
        super().__post_init__()

    @classmethod
    def from_toml(cls, table: object) -> Self:
        """Build a recipe from a table of a TOML file."""
        check = Check()
        names = tuple(key.name for key in fields(cls))
        keys = dict(check.keys(table, allowed=names, required=("paths",)))
        for name in ("paths", "patterns"):
            texts = keys.get(name, () if name == "patterns" else None)
            texts = [texts] if isinstance(texts, str) else texts
            if not isinstance(texts, list | tuple) or not all(isinstance(t, str) for t in texts):
                check.add(f"key {name}", f"{name} is {texts!r}", f'write {name} = ["...", ...]')
            elif name == "paths" and not texts:
                check.add("key paths", "no log is named", 'write paths = ["file", ...]')
            else:
                keys[name] = tuple(texts)
        losses = keys.get("losses", {})
        if not isinstance(losses, dict) or not all(isinstance(d, str) for d in losses.values()):
            check.add("key losses", f"losses is {losses!r}", 'write losses = { "series" = "set" }')
        for key, (sort, said) in TYPES.items():
            value = keys.get(key)
            if value is not None and (
                not isinstance(value, sort) or (sort is int and value is True)
            ):
                check.add(f"key {key}", f"{key} is {value!r}", f"write {said}")
        check.raise_problems()
        return cls(**keys)

    def to_toml(self) -> dict[str, Any]:
        """Return the recipe's keys, those at their defaults left out (`from_toml` undone)."""
        usual = Recipe()
        keys = {
            key.name: value
            for key in fields(self)
            if (value := getattr(self, key.name)) != getattr(usual, key.name)
        }
        return {key: list(v) if isinstance(v, tuple) else v for key, v in keys.items()}

    def run_keys(self) -> dict[str, Any]:
        """Return what it says of the run itself."""
        return {key: value for key in RUN_KEYS if (value := getattr(self, key)) is not None}


def toml_text(
    name: Sequence[str], table: Mapping[str, Any], *, one_of_several: bool = False
) -> str:
    """Return a table of a TOML file, named part by part."""
    head = ".".join(toml_key(part) for part in name)
    lines = [
        f"{toml_key(key)} = {toml_value(value)}"
        for key, value in table.items()
        if value is not None
    ]
    return "\n".join([f"[[{head}]]" if one_of_several else f"[{head}]", *lines, ""])


def read_recipes(folder: Path) -> dict[str, list[Recipe]]:
    """Return how the runs of a study were imported, by name; none where it says nothing."""
    path = folder / IMPORTS
    return recipes_of(read_toml(path), str(path)) if path.is_file() else {}


def recipes_of(tables: Mapping[str, Any], place: str) -> dict[str, list[Recipe]]:
    """Return the recipes of the tables [logs.NAME], or [[logs.NAME]] for a run with several logs."""
    check = Check()
    named = tables.get(TABLE, {})
    if not isinstance(named, dict):
        check.add(place, f"{TABLE} is {named!r}", f"write a table [{TABLE}.NAME] for each run")
        named = {}
    recipes: dict[str, list[Recipe]] = {}
    for name, table in named.items():
        for part in table if isinstance(table, list) else [table]:
            recipe = check.run(f"{place}, run {name}", Recipe.from_toml, part)
            if recipe is not None:
                recipes.setdefault(name, []).append(recipe)
    if check.problems:
        raise LogError(check.problems)
    return recipes


def recipes_text(recipes: Mapping[str, Sequence[Recipe]]) -> str:
    """Return an imports.toml."""
    head = "# How the runs of this study were read from their logs; `bayes-cpt import` keeps it.\n"
    tables = [
        toml_text([TABLE, name], recipe.to_toml(), one_of_several=len(own) > 1)
        for name, own in recipes.items()
        for recipe in own
    ]
    return "\n".join([head, *tables])


def collected[T](problems: list[Any], build: Any, *args: Any) -> T | None:
    """Return what `build` makes, or None with its problems noted as they are."""
    try:
        made: T = build(*args)
    except StudyError as error:
        problems += error.problems
        return None
    return made

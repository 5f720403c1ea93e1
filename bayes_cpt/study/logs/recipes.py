"""How a log becomes a run: the questions that logs leave open, answered by flags, a TOML or a person.

The answers are kept in the study's imports.toml, so that a grown log is imported again by its name alone. A
run may have several logs, one for each validation set: then it has several recipes.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bayes_cpt.checks import Check
from bayes_cpt.errors import StudyError
from bayes_cpt.strict import checked
from bayes_cpt.study.folder import RUN_KEYS as OF_RUN
from bayes_cpt.study.folder import table_lines
from bayes_cpt.study.logs.reading import Reading
from bayes_cpt.toml_files import read_toml

IMPORTS = "imports.toml"
TABLE = "logs"


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

    def run_keys(self) -> dict[str, Any]:
        """Return what it says of the run itself."""
        return {key: value for key in RUN_KEYS if (value := getattr(self, key)) is not None}


# Keys of a run in study.toml that a log may not tell.
RUN_KEYS = tuple(key for key in OF_RUN if key in Recipe.model_fields and key != "schedule")


def read_recipes(folder: Path) -> dict[str, list[Recipe]]:
    """Return how the runs of a study were imported, by name; none where it says nothing."""
    path = folder / IMPORTS
    return recipes_of(read_toml(path).get(TABLE, {}), str(path)) if path.is_file() else {}


def recipes_of(tables: Any, place: str) -> dict[str, list[Recipe]]:
    """Return the recipes of the tables [logs.NAME], or [[logs.NAME]] for a run with several logs."""
    if not isinstance(tables, dict):
        fix = f"write a table [{TABLE}.NAME] for each run"
        raise StudyError.at(place, f"{TABLE} is {tables!r}", fix)
    check = Check()
    recipes: dict[str, list[Recipe]] = {}
    for name, table in tables.items():
        for part in table if isinstance(table, list) else [table]:
            fix = 'write it as in docs/from-logs.md, with paths = ["file", ...]'
            recipe = check.run("", checked, Recipe, part, f"{place}, run {name}", fix)
            recipes.setdefault(name, []).extend([recipe] if recipe else [])
    check.raise_problems()
    return recipes


def recipes_text(recipes: Mapping[str, Sequence[Recipe]]) -> str:
    """Return an imports.toml."""
    head = "# How the runs of this study were read from their logs; `bayes-cpt import` keeps it."
    lines = [head, ""]
    for name, own in recipes.items():
        for recipe in own:
            keys = recipe.model_dump(mode="json", exclude_defaults=True)
            lines += table_lines([TABLE, name], keys, one_of_several=len(own) > 1)
    return "\n".join(lines)

"""Results of long loops, saved as they come: a loop that was stopped goes on where it was."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from bayes_cpt.errors import BayesCPTError, Problem
from bayes_cpt.files import replacing

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.model.spec import ModelSpec

SETTINGS = "settings.json"
TASK = "task"
# What a table says where there is nothing to say: an empty cell would be read as a missing number.
NOTHING = "none"
# Settings that an error names at most.
MOST_NAMED = 3


class RecordsError(BayesCPTError):
    """A folder that holds results of another loop."""

    def __init__(self, problem: Problem) -> None:
        self.problems = (problem,)
        super().__init__(str(problem))


@dataclass
class Records:
    """Tables whose rows belong to tasks, in a folder or in memory alone.

    Parameters
    ----------
    folder : Path or None
        Holds settings.json and a CSV file per table.
    tables : dict of str to DataFrame
        Each with a column task; the last one has a row of every task that is done.

    Raises
    ------
    RecordsError
        From `open`, where the folder holds results with other settings.
    """

    folder: Path | None
    tables: "dict[str, pd.DataFrame]"

    @classmethod
    def open(cls, folder: Path | None, settings: Mapping[str, Any], names: Sequence[str]) -> Self:
        """Return what a folder holds so far; it is made where it is missing.

        Parameters
        ----------
        folder : Path or None
        settings : mapping
            All that the results depend on, as JSON holds it.
        names : sequence of str
            Of the tables, the log of the tasks last.
        """
        import pandas as pd

        tables = {name: pd.DataFrame({TASK: pd.Series(dtype=object)}) for name in names}
        if folder is None:
            return cls(None, tables)
        folder.mkdir(exist_ok=True)
        path = folder / SETTINGS
        if path.is_file():
            _check_settings(path, settings)
            for name in names:
                if (table := folder / f"{name}.csv").is_file():
                    tables[name] = pd.read_csv(table, dtype={TASK: str})
        else:
            with replacing(path) as partial:
                partial.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        return cls(folder, tables)

    @property
    def done(self) -> set[str]:
        """The tasks that need not run again."""
        return set(self._log[TASK])

    @property
    def _log(self) -> "pd.DataFrame":
        return self.tables[list(self.tables)[-1]]

    def add(self, task: str, rows: "Mapping[str, pd.DataFrame]") -> None:
        """Add a task's rows to tables, and save these.

        Parameters
        ----------
        task : str
            Rows that it has already are replaced: it was stopped between two tables.
        rows : mapping
            By name of the table.
        """
        import pandas as pd

        for name in self.tables:
            if name not in rows:
                continue
            before = self.tables[name]
            added = rows[name].copy()
            added.insert(0, TASK, task)
            kept = before[before[TASK] != task]
            self.tables[name] = pd.concat([kept, added], ignore_index=True) if len(kept) else added
            if self.folder is not None:
                with replacing(self.folder / f"{name}.csv") as partial:
                    self.tables[name].to_csv(partial, index=False)


def described(specs: "Sequence[ModelSpec]") -> dict[str, Any]:
    """Return what results depend on of the models, and of this package: for `Records.open`.

    Parameters
    ----------
    specs : sequence of ModelSpec
    """
    texts = "".join(spec.model_dump_json() for spec in specs)
    return {
        "model": ", ".join(spec.name for spec in specs),
        "specification": hashlib.sha256(texts.encode()).hexdigest()[:12],
        "bayes-cpt": version("bayes-cpt"),
    }


def in_words(problems: Sequence[str]) -> str:
    """Return problems as one cell of a table.

    Parameters
    ----------
    problems : sequence of str
    """
    return "; ".join(problems) or NOTHING


def _check_settings(path: Path, settings: Mapping[str, Any]) -> None:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError):
        kept = None
    if not isinstance(kept, dict):
        fix = "choose another folder"
        raise RecordsError(Problem(str(path), "this is not what an earlier run wrote", fix))
    before, wanted = _leaves(kept), _leaves(json.loads(json.dumps(settings)))
    changed = [key for key in wanted if before.get(key, NOTHING) != wanted[key]]
    if changed:
        words = ", ".join(
            f"{key} {before.get(key)} and not {wanted[key]}" for key in changed[:MOST_NAMED]
        )
        if len(changed) > MOST_NAMED:
            words += f", and {len(changed) - MOST_NAMED} more that differ"
        raise RecordsError(
            Problem(
                str(path.parent),
                f"the folder holds results of another run, with {words}",
                "choose another folder, or give the same options to go on with it",
            )
        )


def _leaves(settings: Any, within: str = "") -> dict[str, Any]:
    """Return settings as one level of keys, those of inner tables joined by dots."""
    inner = settings.items() if isinstance(settings, dict) else enumerate(settings)
    leaves: dict[str, Any] = {}
    for key, value in inner:
        name = f"{within}.{key}" if within else str(key)
        tables = isinstance(value, list) and any(isinstance(entry, dict) for entry in value)
        leaves |= _leaves(value, name) if isinstance(value, dict) or tables else {name: value}
    return leaves

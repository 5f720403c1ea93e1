"""Adding a run from its log to a study folder, or updating it: all checked before anything is written."""

import re
import shutil
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayes_cpt.errors import Problem, StudyError, StudyWarning
from bayes_cpt.files import replacing
from bayes_cpt.study.folder import logged_rates, read_study, runs_text
from bayes_cpt.study.logs.clean import SAME_VALUE
from bayes_cpt.study.logs.raw import LogError, fail
from bayes_cpt.study.logs.recipe import IMPORTS, RUN_KEYS, Recipe, read_recipes, recipes_text
from bayes_cpt.study.logs.runs import LoggedRun, logged_run
from bayes_cpt.study.readers.tables import find_table, read_table
from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study
from bayes_cpt.study.tables import LOSS_COLUMNS, RATE_COLUMNS
from bayes_cpt.toml_files import read_toml

if TYPE_CHECKING:
    import pandas as pd

SETTINGS = "study.toml"
# Keys of a recipe that say which step and loss a row of the log is of.
READING = ("losses", "step", "row_run", "step_unit", "per_step", "loss_unit", "start")


@dataclass(frozen=True)
class Imported:
    """What an import did.

    Parameters
    ----------
    study : Study
        As it is now.
    run : Run
    added, kept : int
        Losses that are new, and that were there before.
    notes : tuple of str
        All that was assumed, merged or left out.
    """

    study: Study
    run: Run
    added: int
    kept: int
    notes: tuple[str, ...]


def import_run(folder: Path, name: str, given: Mapping[str, Any]) -> Imported:
    """Add a run to a study from its log, or update it from a log that has grown.

    Parameters
    ----------
    folder : Path
        The study.
    name : str
        The run.
    given : mapping
        Keys of a `Recipe`; the rest is as at the run's last import.

    Returns
    -------
    Imported

    Raises
    ------
    StudyError
        With every problem of the log, or of the study that would come of it. Nothing is written then.
    """
    settings = folder / SETTINGS
    if not settings.is_file():
        raise fail(
            str(settings), "the file is missing", f"start one with bayes-cpt init {folder} LOG..."
        )
    tables = read_toml(settings)
    recipes = read_recipes(folder)
    recipe = (recipes.get(name) or Recipe()).changed(given)
    runs = tables.get("runs", {})
    known = dict(runs.get(name, {})) if isinstance(runs, dict) else {}
    by_hand = name not in recipes and bool(known)
    stated = _stated(folder, name) if by_hand and not known.get("lr_log") else None
    logged = logged_run(
        name,
        recipe.read(),
        recipe,
        {key: known[key] for key in RUN_KEYS if key in known},
        list(tables.get("bases", {})),
        stated,
    )
    otherwise = name in recipes and any(
        getattr(recipe, key) != getattr(recipes[name], key) for key in READING
    )
    losses, added, kept, notes = _merged_losses(folder, logged, recipe, otherwise)
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / "study"
        shutil.copytree(folder, copy, ignore=lambda at, names: _aside(Path(at), names))
        _write(copy, tables, logged, losses, stated is None)
        (copy / IMPORTS).write_text(recipes_text({**recipes, name: recipe}), encoding="utf-8")
        _check(copy, folder)
        _put_in_place(copy, folder)
    return Imported(read_study(folder), logged.run, added, kept, (*logged.notes, *notes))


def _aside(at: Path, names: list[str]) -> set[str]:
    """Return what of a study folder is not copied: all but its own few files."""
    of_study = (
        SETTINGS,
        IMPORTS,
        *(f"{stem}{end}" for stem in ("losses", "lr") for end in (".csv", ".parquet")),
    )
    return {name for name in names if name not in of_study or (at / name).is_dir()}


def _stated(folder: Path, name: str) -> "Any":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StudyWarning)
        return read_study(folder).run(name).schedule


def _merged_losses(
    folder: Path, logged: LoggedRun, recipe: Recipe, otherwise: bool
) -> "tuple[pd.DataFrame, int, int, list[str]]":
    """Return the study's losses with those of the run; a log that was rotated keeps its older part.

    What was read otherwise before, in another unit say, is replaced.
    """
    import pandas as pd

    path = find_table(folder, "losses")
    table = read_table(path) if path else pd.DataFrame(columns=list(LOSS_COLUMNS))
    of_run = table["run"] == logged.run.name if "run" in table else pd.Series(dtype=bool)
    before = {
        (int(step), str(domain)): float(loss)
        for step, domain, loss in table.loc[of_run, ["step", "domain", "loss"]].itertuples(
            index=False
        )
    }
    now = {(step, domain): loss for step, domain, loss in logged.losses}
    notes = []
    if otherwise and before:
        notes.append(f"run {logged.run.name}: {len(before)} losses that were read otherwise left")
        before = {}
    differ = [
        key for key in now if key in before and abs(now[key] - before[key]) > SAME_VALUE * now[key]
    ]
    if differ and recipe.overlap == "refuse":
        step, domain = differ[0]
        raise LogError.at(
            f"run {logged.run.name}, step {step}, domain {domain}",
            f"the study has {before[differ[0]]:g} there, the log {now[differ[0]]:g} "
            f"({len(differ)} points differ)",
            "give --overlap last to take the log's, --overlap first to keep the study's",
        )
    if gone := [key for key in before if key not in now]:
        notes.append(
            f"run {logged.run.name}: {len(gone)} losses that the log has no more were kept"
        )
    if differ:
        notes.append(
            f"run {logged.run.name}: {len(differ)} losses differ; the {recipe.overlap} was kept"
        )
    merged = {**now, **before} if recipe.overlap == "first" else {**before, **now}
    rows = [
        (logged.run.name, step, domain, loss)
        for (step, domain), loss in sorted(
            merged.items(), key=lambda item: (item[0][1], item[0][0])
        )
    ]
    added = pd.DataFrame(rows, columns=list(LOSS_COLUMNS), dtype=object)
    whole = pd.concat([table[~of_run], added], ignore_index=True)
    return whole, len(now.keys() - before.keys()), len(before), notes


def _write(
    copy: Path, tables: dict[str, Any], logged: LoggedRun, losses: "pd.DataFrame", rewrite: bool
) -> None:
    path = find_table(copy, "losses") or copy / "losses.csv"
    _write_table(losses, path)
    if not rewrite:
        return
    settings = copy / SETTINGS
    text = settings.read_text(encoding="utf-8-sig")
    settings.write_text(_with_run(text, tables, logged.run, settings), encoding="utf-8")
    _write_rates(copy, logged.run)


def _write_table(table: "pd.DataFrame", path: Path) -> None:
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    else:
        table.astype({"step": "int64", "loss": "float64"}).to_parquet(path, index=False)


def _write_rates(copy: Path, run: Run) -> None:
    import pandas as pd

    path = find_table(copy, "lr")
    table = read_table(path) if path else pd.DataFrame(columns=list(RATE_COLUMNS))
    kept = table[table["run"] != run.name]
    if run.schedule.is_logged:
        kept = pd.concat([kept, logged_rates([run])], ignore_index=True)
    if len(kept):
        target = path or copy / "lr.csv"
        if target.suffix == ".csv":
            kept.to_csv(target, index=False)
        else:
            kept.astype({"step": "int64", "lr": "float64"}).to_parquet(target, index=False)
    elif path:
        path.unlink()


def _with_run(text: str, tables: dict[str, Any], run: Run, place: Path) -> str:
    """Return a study.toml with the table of a run added or replaced; all else stays as it was written."""
    import tomllib

    block = runs_text([run])
    lines = text.splitlines()
    heads = [
        number for number, line in enumerate(lines) if re.match(r"\[+[^\[\]]+\]+\s*(#.*)?$", line)
    ]
    start = next((number for number in heads if _names(lines[number], run.name)), None)
    if start is None:
        made = f"{text.rstrip()}\n\n{block}"
    else:
        end = next((number for number in heads if number > start), len(lines))
        made = "\n".join([*lines[:start], block, *lines[end:], ""])
    wanted = {**tables, "runs": {**tables.get("runs", {}), **tomllib.loads(block)["runs"]}}
    try:
        fine = tomllib.loads(made) == wanted
    except tomllib.TOMLDecodeError:
        fine = False
    if not fine:
        raise fail(
            f"{place.name}, run {run.name}",
            "the table of this run is not written as [runs.NAME]",
            "write it so, and import again",
        )
    return made


def _names(line: str, run: str) -> bool:
    import tomllib

    try:
        return tomllib.loads(line) == {"runs": {run: {}}}
    except tomllib.TOMLDecodeError:
        return False


def _check(copy: Path, folder: Path) -> None:
    """Refuse a study that is not sound; its problems name the folder that it is for."""
    with warnings.catch_warnings():
        # They would name the copy; the study is read once more when it is in place.
        warnings.simplefilter("ignore", StudyWarning)
        try:
            read_study(copy)
        except StudyError as error:
            raise StudyError(
                Problem(p.place.replace(str(copy), str(folder)), p.problem, p.fix)
                for p in error.problems
            ) from None


def _put_in_place(copy: Path, folder: Path) -> None:
    # The settings last: until they name a run its rows would be of nobody, so a killed import is told.
    written = sorted(copy.iterdir(), key=lambda file: file.name == SETTINGS)
    for file in written:
        target = folder / file.name
        if not target.is_file() or target.read_bytes() != file.read_bytes():
            with replacing(target) as partial:
                partial.write_bytes(file.read_bytes())
    for stem in ("lr",):
        old = find_table(folder, stem)
        if old is not None and not (copy / old.name).exists():
            old.unlink()

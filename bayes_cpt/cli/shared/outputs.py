"""Output files: whether they can be written, found out before the work that they are to hold."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bayes_cpt.errors import BayesCPTError, Problem
from bayes_cpt.files import replacing

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from bayes_cpt.cli.shared.console import Output


# Endings of files that `write_numbers` writes.
NUMBERS = (".parquet", ".json")


class OutputError(BayesCPTError):
    """An output file that cannot be written, and why."""

    def __init__(self, problem: Problem) -> None:
        self.problems = (problem,)
        super().__init__(str(problem))


def check_target(path: Path, suffixes: tuple[str, ...], inputs: tuple[Path, ...] = ()) -> None:
    """Find out whether a file can be written, before the work that it is to hold.

    Parameters
    ----------
    path : Path
    suffixes : tuple of str
        How its name may end.
    inputs : tuple of Path
        Files that must not be overwritten.

    Raises
    ------
    OutputError
    """
    if path.is_dir():
        _fail(path, "this is a folder", f"name a file, as in {path / ('out' + suffixes[0])}")
    if path.suffix not in suffixes:
        ending = " or ".join(suffixes)
        problem = f"the name ends in {path.suffix!r}" if path.suffix else "the name has no ending"
        _fail(path, problem, f"let it end in {ending}")
    for source in inputs:
        if path.exists() and source.exists() and path.samefile(source):
            _fail(path, "this is the input", "write to another file")
    check_folder(path.parent)


def extended(model: str, target: Path) -> str:
    """Return what a model's file says that it extends: a shipped model's name, or a path seen from it.

    Parameters
    ----------
    model : str
        By name, or a path.
    target : Path
        The file.
    """
    from bayes_cpt.model.spec import shipped_models

    if model in shipped_models():
        return model
    return str(Path(model).resolve().relative_to(target.parent.resolve(), walk_up=True))


def check_folder(folder: Path) -> None:
    """Find out whether files can be written into a folder.

    Raises
    ------
    OutputError
    """
    if not folder.is_dir():
        what = "this is a file, not a folder" if folder.exists() else "there is no such folder"
        _fail(folder, what, "make the folder, or choose another one for the output")
    with writing(folder), tempfile.TemporaryFile(dir=folder):
        pass


def make_folder(folder: Path) -> None:
    """Make a folder, in one that is there, and find out whether it can be written into.

    Raises
    ------
    OutputError
    """
    if folder.exists() and not folder.is_dir():
        _fail(folder, "this is a file", "choose a folder with -o")
    if not folder.is_dir():
        check_folder(folder.parent)
        with writing(folder):
            folder.mkdir()
    check_folder(folder)


def check_new_folder(folder: Path | None) -> None:
    """Find out whether a folder that may be there or not can be filled; None is no folder to fill.

    Raises
    ------
    OutputError
    """
    if folder is not None:
        check_folder(folder if folder.exists() else folder.parent)


class Results:
    """A folder that a verb fills; each file is written whole or not at all.

    Parameters
    ----------
    folder : Path
        Made in one that is there, if need be.

    Raises
    ------
    OutputError
    """

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        self.folder = folder
        self.paths: dict[str, Path] = {}

    def tables(self, tables: "Mapping[str, pd.DataFrame]") -> None:
        """Write tables, by name, as CSV."""
        for name, table in tables.items():
            self.paths[name] = self.folder / f"{name}.csv"
            with writing(self.paths[name]), replacing(self.paths[name]) as partial:
                table.to_csv(partial, index=False)

    def text(self, file: str, text: str, name: str = "") -> None:
        """Write a text into a file of the folder; it goes by `name`, or the file's without the suffix."""
        path = self.folder / file
        self.paths[name or path.stem] = path
        with writing(path), replacing(path) as partial:
            partial.write_text(text, encoding="utf-8")

    def words(self, sentences: Sequence[str]) -> None:
        """Write what the result comes to in words."""
        self.text("words.txt", "\n\n".join(sentences) + "\n")

    def figure(self, name: str, figure: "Figure", file: str) -> None:
        """Write a figure."""
        self.paths[name] = self.folder / file
        save_figure(figure, self.paths[name])

    def shown(self, written: "Output") -> dict[str, str]:
        """Say what was written where, and return it."""
        names = ", ".join(path.name for path in self.paths.values())
        written.text(f"Written to {self.folder}: {names}")
        return {name: str(path) for name, path in self.paths.items()}


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure, whole or not at all.

    Raises
    ------
    OutputError
    """
    with writing(path), replacing(path) as partial:
        figure.savefig(partial, dpi=150)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the system says about writing `path` into an `OutputError`.

    Raises
    ------
    OutputError
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = error.strerror or str(error).splitlines()[0]
        fix = "make room or ask for the right to write there, or choose another place"
        _fail(path, f"this cannot be written: {reason}", fix)


def _fail(path: Path, problem: str, fix: str) -> None:
    raise OutputError(Problem(str(path), problem, fix)) from None


def write_numbers(table: "pd.DataFrame", path: Path, **metadata: str) -> None:
    """Write a table with all its digits, as Parquet or as a JSON list of rows.

    Parameters
    ----------
    table : DataFrame
    path : Path
        Ends in one of `NUMBERS`.
    **metadata
        Of the whole table; JSON has none.
    """
    if path.suffix == ".json":
        table.to_json(path, orient="records", double_precision=15, indent=1)
        return
    import pyarrow
    import pyarrow.parquet

    arrow = pyarrow.Table.from_pandas(table, preserve_index=False)
    added = {key.encode(): value.encode() for key, value in metadata.items()}
    schema = {**(arrow.schema.metadata or {}), **added}
    pyarrow.parquet.write_table(arrow.replace_schema_metadata(schema), path)

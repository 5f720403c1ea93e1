"""Writing files, whole or not at all, and keeping none that are out of date."""

import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from bayes_cpt.errors import ProblemError, StudyWarning

# What a killed program was writing is kept apart by its name, and for this long: another one may be
# writing just now, and no write takes so long.
PARTIAL = ".bayes-cpt-partial-"
STALE_SECONDS = 3600.0
# Of a folder that one program at a time may change: the file that is there while one does, and how long
# others wait. One that was killed on another machine leaves the file.
LOCK, LOCK_SECONDS = ".bayes-cpt-lock", 600.0


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Give a file to write in place of `path`, and put it there once it is whole.

    The file given is hidden beside it and called partial. One that a killed program left is harmless, and
    removed by a later write into the folder. If the folder cannot be written to or the disk is full, an old
    file is left as it was. A link stays one, and a file that is replaced leaves its mode to the new one.
    """
    target = Path(os.path.realpath(path))
    _remove_partials(target.parent)
    # Of the name only the ending: together they might be too long.
    partial = target.with_name(f"{PARTIAL}{uuid4().hex}{target.suffix}")
    partial.touch(exist_ok=False)
    try:
        yield partial
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        with suppress(OSError):
            shutil.copymode(target, partial)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def beside(folder: Path) -> Iterator[Path]:
    """Yield a folder to be written before it takes another's place; what is left of it goes."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    _remove_partials(folder.parent)
    with tempfile.TemporaryDirectory(prefix=PARTIAL, dir=folder.parent) as temporary:
        partial = Path(temporary) / folder.name
        partial.mkdir()
        yield partial


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Have other programs wait that would change a folder as well."""
    from filelock import SoftFileLock, Timeout

    lock = SoftFileLock(folder / LOCK)
    try:
        held = lock.acquire(timeout=0.0)
    except Timeout:
        warnings.warn(f"waiting for another import into {folder}", StudyWarning, stacklevel=3)
        try:
            held = lock.acquire(timeout=LOCK_SECONDS)
        except Timeout as error:
            fix = "if none is running remove the file; then import again"
            raise ProblemError.at(lock.lock_file, "another import does not end", fix) from error
    with held:
        yield


def drop_stale_code(package: Path) -> None:
    """Delete what Numba keeps of compiled code that is older than the files of laws, model or inference.

    Of a function it looks at its own file alone, and would call old code of the others.
    """
    rooms = [package / name for name in ("laws", "model", "inference")]
    files = (path for room in rooms for path in room.glob("*.py"))
    newest = max((path.stat().st_mtime for path in files), default=0.0)
    _remove_older((path for room in rooms for path in room.glob("__pycache__/*.nbi")), newest)


def _remove_partials(folder: Path) -> None:
    _remove_older(folder.glob(f"{PARTIAL}*"), time.time() - STALE_SECONDS)


def _remove_older(files: Iterable[Path], moment: float) -> None:
    for file in files:
        # Another program may remove it first, or it may not be ours to remove.
        with suppress(OSError):
            if file.stat().st_mtime < moment:
                shutil.rmtree(file) if file.is_dir() else file.unlink()

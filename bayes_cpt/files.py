"""Writing files, whole or not at all, and keeping none that are out of date."""

import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

# What a killed program was writing is kept apart by its name, and for this long: another one may be
# writing just now, and no write takes so long.
PARTIAL = ".partial-"
STALE_SECONDS = 3600.0


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Give a file to write in place of `path`, and put it there once it is whole.

    The file given is hidden beside it and called partial. One that a killed program left is harmless, and
    removed by a later write of the same file. If the folder cannot be written to or the disk is full, an
    old file is left as it was.
    """
    target = Path(path)
    prefix = f".{target.stem}{PARTIAL}"
    partials = (own for own in target.parent.glob("*") if own.name.startswith(prefix))
    left = (own for own in partials if own.suffix == target.suffix)
    _remove_older(left, time.time() - STALE_SECONDS)
    partial = target.with_name(f"{prefix}{uuid4().hex}{target.suffix}")
    partial.touch(exist_ok=False)
    try:
        yield partial
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def beside(folder: Path) -> Iterator[Path]:
    """Yield a folder to be written before it takes another's place; what is left of it goes."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=PARTIAL, dir=folder.parent) as temporary:
        partial = Path(temporary) / folder.name
        partial.mkdir()
        yield partial


def drop_stale_code(package: Path) -> None:
    """Delete what Numba keeps of compiled code that is older than the files of laws, model or inference.

    Of a function it looks at its own file alone, and would call old code of the others.
    """
    rooms = [package / name for name in ("laws", "model", "inference")]
    files = (path for room in rooms for path in room.glob("*.py"))
    newest = max((path.stat().st_mtime for path in files), default=0.0)
    _remove_older((path for room in rooms for path in room.glob("__pycache__/*.nbi")), newest)


def _remove_older(files: Iterable[Path], moment: float) -> None:
    for file in files:
        # Another program may remove it first, or it may not be ours to remove.
        with suppress(OSError):
            if file.stat().st_mtime < moment:
                file.unlink()

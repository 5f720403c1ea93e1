"""Child processes of the fault tests, forked from a server that has imported this, and what they do."""

import multiprocessing
import os
import resource
import sys
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

# Imported here, where the server that children are forked from pays for it once.
import netCDF4  # noqa: F401
import pandas  # noqa: F401
import xarray  # noqa: F401

from bayes_cpt.inference.posterior import Posterior, load

WATCHED = ("compile", "exec", "os.", "pickle.", "subprocess.", "socket.", "ctypes.", "shutil.")
# Opening and listing files is what loading is.
HARMLESS = (
    "os.listdir", "os.scandir", "os.remove", "os.mkdir", "os.rmdir", "os.putenv", "shutil.rmtree",
)  # fmt: skip
CHILDREN = multiprocessing.get_context("forkserver")
CHILDREN.set_forkserver_preload(["fault_workers"])


def started(work: Callable[..., None], *arguments: Any) -> tuple[Any, Connection]:
    """Return a child at work, and what it tells through."""
    here, there = CHILDREN.Pipe(duplex=False)
    child = CHILDREN.Process(target=work, args=(*arguments, there), daemon=True)
    child.start()
    there.close()
    return child, here


def told(work: Callable[..., None], *arguments: Any) -> Any:
    """Return what a child tells."""
    child, here = started(work, *arguments)
    assert here.poll(120)
    found = here.recv()
    child.join(60)
    return found


def with_seed(posterior: Posterior, seed: int) -> Posterior:
    """Return a posterior that tells by its seed who wrote it."""
    tree = posterior.tree.copy()
    tree.attrs["seed"] = seed
    return replace(posterior, tree=tree)


def save_on_and_on(source: Path, target: Path, seeds: list[int], tell: Connection) -> None:
    """Save fits that differ in their seed, one after the other, until killed."""
    posteriors = [with_seed(load(source), seed) for seed in seeds]
    posteriors[0].save(target)
    tell.send("saved")
    while True:
        for posterior in posteriors:
            posterior.save(target)


def save_times(source: Path, target: Path, seed: int, times: int) -> None:
    """Save one fit so often."""
    posterior = with_seed(load(source), seed)
    for _ in range(times):
        posterior.save(target)


def run_with_little_room(arguments: list[str], room: int, tell: Connection) -> None:
    """Run a command line where no file may grow beyond so many bytes; tell code, stderr and stdout."""
    from contextlib import redirect_stderr, redirect_stdout
    from io import StringIO

    from bayes_cpt.cli import run

    out, err = StringIO(), StringIO()
    # Of a module's bytecode Python would keep what fits.
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    with redirect_stdout(out), redirect_stderr(err):
        code = run(arguments)
    tell.send((code, err.getvalue(), out.getvalue()))


def save_with_little_room(source: Path, target: Path, room: int, tell: Connection) -> None:
    """Save a fit where no file may grow beyond so many bytes; tell the error."""
    posterior = with_seed(load(source), 99)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    try:
        posterior.save(target)
    except OSError as error:
        tell.send(os.strerror(error.errno or 0))
    else:
        tell.send("saved")


def load_under_watch(paths: list[Path], tell: Connection) -> None:
    """Load files, and tell what the interpreter did besides."""
    from bayes_cpt.errors import BayesCPTError

    load(paths[0])
    seen: list[str] = []
    watching = [True]

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if watching[0] and event.startswith(WATCHED) and event not in HARMLESS:
            seen.append(f"{event} {arguments!r}"[:200])

    sys.addaudithook(watch)
    for path in paths:
        try:
            load(path)
        except BayesCPTError:
            seen.append(f"refused {path.name}")
    watching[0] = False
    tell.send(seen)


def load_damaged(source: Path, folder: Path, seed: int, count: int, tell: Connection) -> None:
    """Load files with bytes changed, cut off or wiped, and tell how each went."""
    import random
    import warnings

    from bayes_cpt.errors import BayesCPTError

    content, generator = source.read_bytes(), random.Random(seed)
    target = folder / f"damaged-{seed}.nc"
    for _ in range(count):
        damaged = bytearray(content)
        way = generator.randrange(3)
        if way == 0:
            damaged = damaged[: generator.randrange(len(damaged))]
        elif way == 1:
            for _ in range(generator.choice([1, 5, 100])):
                damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        else:
            place = generator.randrange(len(damaged))
            damaged[place : place + generator.randrange(1, 4000)] = b""
        target.write_bytes(damaged)
        try:
            with warnings.catch_warnings(action="ignore"):
                load(target)
        except BayesCPTError as error:
            tell.send("refused" if str(target) in str(error) else f"does not say where: {error}")
        except BaseException as error:
            tell.send(f"{type(error).__name__}: {error}")
        else:
            tell.send("whole")
    tell.send("done")

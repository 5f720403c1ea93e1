"""Child processes of the fault tests: forked from a server that has imported what they need."""

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

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

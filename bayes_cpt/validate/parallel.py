"""Independent tasks on local processes or on an existing Dask cluster, by joblib.

Results do not depend on where a task runs: its seed comes from its label, and linear algebra keeps to one
thread, because sums split among threads round differently.
"""

import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from bayes_cpt.errors import BayesCPTError, Problem
from bayes_cpt.threads import one_thread

CONNECTION_SECONDS = 10
# Of a process: a Dask worker may have several threads, and limits and compiled code are shared by them.
_ONE_AT_A_TIME = Lock()


class ClusterError(BayesCPTError):
    """A Dask cluster that cannot be used, and why."""

    def __init__(self, problem: Problem) -> None:
        self.problems = (problem,)
        super().__init__(str(problem))


def task_seed(seed: int, label: str) -> int:
    """Return the seed of a task: it depends on the label and not on what other tasks there are.

    Parameters
    ----------
    seed : int
        Of the whole.
    label : str
        Of the task.

    Examples
    --------
    >>> task_seed(1, "r25_cos") == task_seed(1, "r25_cos") != task_seed(1, "r50_cos")
    True
    """
    words = (seed, zlib.crc32(label.encode()))
    return int(np.random.SeedSequence(words).generate_state(1)[0])


@dataclass(frozen=True)
class Pool:
    """Where tasks run.

    Parameters
    ----------
    jobs : int, optional
        Processes on this machine; one per core unless given, and 1 stays in this process.
    dask : str, optional
        Address of the scheduler of a running Dask cluster, ``tcp://host:8786``, to use in place of them.
        Its workers need this package in the same version; each takes one task at a time, so many workers
        of one thread serve better than one of many.
    """

    jobs: int | None = None
    dask: str | None = None

    def run[T, R](self, function: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
        """Yield the result of each task, in the order in which they are done.

        Parameters
        ----------
        function : callable
            Of one task; it and the tasks are pickled where they leave this process.
        tasks : sequence

        Raises
        ------
        ClusterError
            If the Dask cluster cannot be used.
        """
        from joblib import Parallel, delayed

        if not tasks:
            return
        with self._backend(len(tasks)):
            calls = (delayed(_in_one_thread)(function, task) for task in tasks)
            yield from Parallel(return_as="generator_unordered", batch_size=1)(calls)

    def processes(self, tasks: int) -> int:
        """Return how many processes of this machine take a share of so many tasks.

        Parameters
        ----------
        tasks : int
        """
        from joblib import cpu_count

        return max(1, min(self.jobs or cpu_count(), tasks))

    def cores(self, tasks: int) -> int | None:
        """Return how many cores a task may use; None is all.

        Parameters
        ----------
        tasks : int
            How many there are to share the cores.
        """
        from joblib import cpu_count

        if self.dask is not None:
            return 1
        processes = self.processes(tasks)
        return None if processes == 1 else max(1, cpu_count() // processes)

    @contextmanager
    def _backend(self, tasks: int) -> Iterator[None]:
        from joblib import parallel_config

        if self.dask is None:
            with parallel_config(backend="loky", n_jobs=self.processes(tasks)):
                yield
            return
        client = _client(self.dask)
        with client, parallel_config(backend="dask", client=client, n_jobs=-1):
            yield


def _in_one_thread[T, R](function: Callable[[T], R], task: T) -> R:
    with _ONE_AT_A_TIME, one_thread():
        return function(task)


def _started[T](start: Callable[[], T]) -> T:
    """Return what starts a client: twice if its thread does not run in time, as on a crowded machine."""
    try:
        return start()
    except AssertionError:
        # distributed waits ten seconds for the thread of its event loop, then asserts that it is there.
        return start()


def _client(address: str) -> Any:
    """Return a client of the scheduler at an address, with at least one worker."""
    place = f"Dask scheduler {address}"
    try:
        from distributed import Client
    except ImportError:
        fix = "install it: pip install 'bayes-cpt[dask]', or use local processes"
        raise ClusterError(Problem(place, "the package distributed is missing", fix)) from None

    class Kept(Client):  # type: ignore[misc]
        def __init__(self) -> None:
            # Left to the garbage collector, a client that did not start would stop its thread whenever that
            # runs: while another one starts, both then wait for one lock for ever.
            try:
                super().__init__(address, timeout=CONNECTION_SECONDS, set_as_default=False)
            except BaseException:
                self.close()
                raise

    try:
        client = _started(Kept)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        fix = "give the address that the scheduler printed, as in tcp://host:8786"
        raise ClusterError(Problem(place, f"no scheduler answers: {reason}", fix)) from None
    if not client.scheduler_info()["workers"]:
        client.close()
        fix = f"start one with dask worker {address}"
        raise ClusterError(Problem(place, "the cluster has no worker", fix))
    return client

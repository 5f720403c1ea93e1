"""Many independent refits: run by joblib on local processes or a Dask cluster, saved as they are done.

Results do not depend on where a task runs: its seed comes from its label, and linear algebra keeps to one
thread, because sums split among threads round differently. A loop that was stopped goes on where it was.
"""

import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import Any, Self
from urllib.parse import quote

import joblib
import numpy as np
import pandas as pd

from bayes_cpt.errors import ProblemError
from bayes_cpt.files import replacing
from bayes_cpt.inference.metric import SamplingError
from bayes_cpt.inference.posterior import Posterior, load
from bayes_cpt.model.spec import ModelSpec
from bayes_cpt.study.study import Study
from bayes_cpt.threads import one_thread

type Progress = Callable[[str, float], None]

CONNECTION_SECONDS = 10
# Of a process: a Dask worker may have several threads, and limits and compiled code are shared by them.
_ONE_AT_A_TIME = Lock()

SETTINGS, TASKS = "settings.json", "tasks"
TASK = "task"
# What a table says where there is nothing to say: an empty cell would be read as a missing number.
NOTHING = "none"


def task_seed(seed: int, label: str) -> int:
    """Return the seed of a task: it depends on the label and not on what other tasks there are.

    Examples
    --------
    >>> task_seed(1, "r25_cos") == task_seed(1, "r25_cos") != task_seed(1, "r50_cos")
    True
    """
    words = (seed, zlib.crc32(label.encode()))
    return int(np.random.SeedSequence(words).generate_state(1)[0])


@dataclass(frozen=True)
class Pool:
    """Where tasks run."""

    # Processes on this machine; one per core unless given, and 1 stays in this process
    jobs: int | None = None
    # Address of the scheduler of a running Dask cluster, ``tcp://host:8786``, to use in place of them. Its
    # workers need this package in the same version; each takes one task at a time, so many workers of one
    # thread serve better than one of many.
    dask: str | None = None

    def run[T, R](self, function: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
        """Yield the result of each task, in the order in which they are done.

        The function and the tasks are pickled where they leave this process.
        """
        if not tasks:
            return
        where: dict[str, Any] = {"backend": "loky", "n_jobs": self.processes(len(tasks))}
        client = nullcontext() if self.dask is None else _client(self.dask)
        if self.dask is not None:
            where = {"backend": "dask", "client": client, "n_jobs": -1}
        with client, joblib.parallel_config(**where):
            calls = (joblib.delayed(_in_one_thread)(function, task) for task in tasks)
            yield from joblib.Parallel(return_as="generator_unordered", batch_size=1)(calls)

    def processes(self, tasks: int) -> int:
        """Return how many processes of this machine take a share of so many tasks."""
        return max(1, min(self.jobs or joblib.cpu_count(), tasks))

    def cores(self, tasks: int) -> int | None:
        """Return how many cores each of so many tasks may use; None is all."""
        if self.dask is not None:
            return 1
        processes = self.processes(tasks)
        return None if processes == 1 else max(1, joblib.cpu_count() // processes)


def _in_one_thread[T, R](function: Callable[[T], R], task: T) -> R:
    with _ONE_AT_A_TIME, one_thread():
        return function(task)


def _client(address: str) -> Any:
    """Return a client of the scheduler at an address, with at least one worker."""
    place = f"Dask scheduler {address}"
    try:
        from distributed import Client
    except ImportError:
        fix = "install it: pip install 'bayes-cpt[dask]', or use local processes"
        raise ProblemError.at(place, "the package distributed is missing", fix) from None
    try:
        client = Client(address, timeout=CONNECTION_SECONDS, set_as_default=False)
    # distributed asserts that the thread of its event loop started in time.
    except (OSError, ValueError, AssertionError) as error:
        reason = (str(error) or "its client did not start").splitlines()[0]
        fix = "give the address that the scheduler printed, as in tcp://host:8786"
        raise ProblemError.at(place, f"no scheduler answers: {reason}", fix) from None
    if not client.scheduler_info()["workers"]:
        client.close()
        fix = f"start one with dask worker {address}"
        raise ProblemError.at(place, "the cluster has no worker", fix)
    return client


@dataclass
class Records:
    """Tables that tasks have given, in a folder or in memory alone."""

    # Holds settings.json, a file per task that is done, and a CSV file per table of all these
    folder: Path | None
    names: Sequence[str]  # of the tables
    # By task; a task need not have every table
    done: dict[str, dict[str, pd.DataFrame]] = field(default_factory=dict)

    @classmethod
    def open(cls, folder: Path | None, settings: Mapping[str, Any], names: Sequence[str]) -> Self:
        """Return what a folder holds so far, refusing results with other settings; made where missing."""
        records = cls(folder, tuple(names))
        if folder is None:
            return records
        folder.mkdir(exist_ok=True)
        path = folder / SETTINGS
        if path.is_file():
            _check_settings(path, settings)
        else:
            with replacing(path) as partial:
                partial.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        for kept in sorted((folder / TASKS).glob("*.json")):
            # A task whose file is damaged is done again.
            with suppress(ValueError, TypeError, AttributeError):
                task, tables = json.loads(kept.read_text(encoding="utf-8"))
                records.done[task] = {name: pd.DataFrame(own) for name, own in tables.items()}
        return records

    def add(self, task: str, rows: Mapping[str, pd.DataFrame]) -> None:
        """Add a task's tables, saved in a file of their own: what another process adds meanwhile stays."""
        self.done[task] = {name: rows[name] for name in self.names if name in rows}
        if self.folder is None:
            return
        place = self.folder / TASKS
        place.mkdir(exist_ok=True)
        columns = {name: own.to_dict("list") for name, own in self.done[task].items()}
        with replacing(place / f"{hashlib.sha256(task.encode()).hexdigest()[:16]}.json") as partial:
            partial.write_text(json.dumps([task, columns]), encoding="utf-8")

    def write(self) -> None:
        """Write the tables of all tasks for people, as CSV."""
        if self.folder is None:
            return
        for name in self.names:
            with replacing(self.folder / f"{name}.csv") as partial:
                self.in_order(name, sorted(self.done)).to_csv(partial, index=False)

    def in_order(self, name: str, tasks: Iterable[str]) -> pd.DataFrame:
        """Return a table's rows of some tasks in their order, with a column task."""
        given = [(task, self.done[task]) for task in tasks if task in self.done]
        tables = [own[name].assign(**{TASK: task}) for task, own in given if name in own]
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame({TASK: []})


def run_tasks[T](
    function: Callable[[T], Mapping[str, pd.DataFrame]],
    tasks: Mapping[str, T],
    pool: Pool | None,
    records: Records,
    progress: Progress | None = None,
) -> None:
    """Run the tasks (by label) that are not done yet, and add the tables they return to the records.

    `progress` is called with a stage and the share of it that is done.
    """
    report = progress or (lambda stage, share: None)
    stage = f"refitting {len(tasks)} time{'s' if len(tasks) != 1 else ''}"
    left = [label for label in tasks if label not in records.done]
    report(stage, 1.0 - len(left) / max(1, len(tasks)))
    calls = [(label, tasks[label]) for label in left]
    results = (pool or Pool()).run(partial(_labelled, function), calls)
    for number, (label, tables) in enumerate(results, start=1):
        records.add(label, tables)
        report(stage, 1.0 - (len(left) - number) / len(tasks))
    records.write()


def _labelled[T, R](function: Callable[[T], R], call: tuple[str, T]) -> tuple[str, R]:
    label, task = call
    return label, function(task)


def fit_name(name: str) -> str:
    """Return the name of the file of a fit; no two names have the same.

    Examples
    --------
    >>> fit_name("ours/my law")
    'ours%2Fmy law.nc'
    """
    return f"{quote(name, safe=' ')}.nc"


def fit_each(
    wanted: Mapping[str, tuple[Study, ModelSpec]],
    seed: int,
    *,
    draws: int | None = None,
    pool: Pool | None = None,
    folder: Path | None = None,
    progress: Progress | None = None,
    stage: str,
) -> dict[str, Posterior | SamplingError]:
    """Fit studies under models, by names; what a folder has of them at `fit_name` is not made again.

    One that falls short is made again where other draws are given.
    """
    paths = {} if folder is None else {name: folder / fit_name(name) for name in wanted}
    fits: dict[str, Posterior | SamplingError] = {}
    for name in (own for own, path in paths.items() if path.is_file()):
        kept, (study, _) = load(paths[name]), wanted[name]
        serves = not kept.problems or draws in (None, kept.tree["posterior"].sizes["draw"])
        if serves and kept.tree.attrs["study_digest"] == study.digest():
            fits[name] = kept
    left = [(name, *own) for name, own in wanted.items() if name not in fits]
    where, report = pool or Pool(), progress or (lambda stage, share: None)
    cores = where.cores(len(left))
    alone = where.dask is None and where.processes(len(left)) == 1

    def tell() -> None:
        # Tasks start in their order.
        waiting = [name for name in wanted if name not in fits]
        now = " and ".join(waiting[: where.processes(len(waiting))])
        said = f"{stage}, {len(fits)} done" + (f"; now {now}" if now else "")
        report(said, len(fits) / len(wanted))

    tell()
    fitting = partial(_fit, seed=seed, draws=draws, cores=cores, report=report if alone else None)
    for name, found in where.run(fitting, left):
        fits[name] = found
        if name in paths and isinstance(found, Posterior):
            found.save(paths[name])
        tell()
    return {name: fits[name] for name in wanted}


def _fit(
    task: tuple[str, Study, ModelSpec],
    *,
    seed: int,
    draws: int | None,
    cores: int | None,
    report: Progress | None,
) -> tuple[str, Posterior | SamplingError]:
    from bayes_cpt.inference.fitting import fit

    name, study, spec = task
    tell = report and (lambda stage, share: report(f"{name}: {stage}", share))
    try:
        return name, fit(study, spec, seed, draws=draws, cores=cores, progress=tell)
    except SamplingError as error:
        return name, error


def described(specs: Sequence[ModelSpec], seed: int, **others: Any) -> dict[str, Any]:
    """Return all that results depend on, for `Records.open`: other settings must not be mixed with them."""
    texts = "".join(spec.model_dump_json() for spec in specs)
    return {
        "model": ", ".join(spec.name for spec in specs),
        "specification": hashlib.sha256(texts.encode()).hexdigest()[:12],
        "bayes-cpt": version("bayes-cpt"),
        "seed": seed,
        **others,
    }


def in_words(problems: Sequence[str]) -> str:
    """Return problems as one cell of a table."""
    return "; ".join(problems) or NOTHING


def _check_settings(path: Path, settings: Mapping[str, Any]) -> None:
    wanted = json.loads(json.dumps(settings))
    try:
        kept = dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError):
        problem = "this is not what an earlier run wrote"
        raise ProblemError.at(str(path), problem, "choose another folder") from None
    # Whole tables are named, not shown.
    shown = [
        f"other {key}" if isinstance(value, dict) else f"{key} {kept.get(key)} and not {value}"
        for key, value in wanted.items()
        if kept.get(key) != value
    ]
    if shown:
        problem = f"the folder holds results of another run, with {', '.join(shown)}"
        fix = "choose another folder, or give the same options to go on with it"
        raise ProblemError.at(str(path.parent), problem, fix)

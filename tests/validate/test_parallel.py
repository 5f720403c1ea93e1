import importlib.util
import os
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_cpt.validate.parallel import ClusterError, Pool, task_seed

SEEDS = st.integers(0, 2**32 - 1)
needs_dask = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="distributed is not installed"
)


@given(SEEDS, st.text(), st.text())
def test_seeds_of_tasks_differ_with_label_and_seed(seed: int, one: str, other: str) -> None:
    assert task_seed(seed, one) == task_seed(seed, one) < 2**32
    if one != other:
        assert task_seed(seed, one) != task_seed(seed, other)
    assert task_seed(seed, one) != task_seed((seed + 1) % 2**32, one)


def test_one_job_stays_in_this_process_and_in_order() -> None:
    found = list(Pool(jobs=1).run(lambda task: (task, os.getpid()), [3, 1, 2]))
    assert found == [(task, os.getpid()) for task in (3, 1, 2)]


def test_no_task_starts_nothing() -> None:
    assert list(Pool(jobs=2).run(lambda task: task, [])) == []
    assert list(Pool(dask="tcp://nowhere:1").run(lambda task: task, [])) == []


def test_two_jobs_leave_this_process_and_lose_no_task() -> None:
    found = list(Pool(jobs=2).run(lambda task: (task, os.getpid()), list(range(8))))
    assert sorted(task for task, _ in found) == list(range(8))
    assert os.getpid() not in {process for _, process in found}


def test_linear_algebra_keeps_to_one_thread() -> None:
    from threadpoolctl import threadpool_info

    np.ones((2, 2)) @ np.ones((2, 2))
    (found,) = Pool(jobs=1).run(lambda _: threadpool_info(), [0])
    assert {library["num_threads"] for library in found} == {1}


def test_an_error_in_a_task_reaches_the_caller() -> None:
    def fails(task: int) -> None:
        raise ValueError(f"task {task}")

    for jobs in (1, 2):
        with pytest.raises(ValueError, match="task 7"):
            list(Pool(jobs=jobs).run(fails, [7]))


def test_cores_are_shared_among_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("joblib.cpu_count", lambda: 8)
    assert Pool(jobs=1).cores(20) is None
    assert Pool(jobs=2).cores(20) == 4
    assert Pool().cores(20) == 1
    assert Pool().cores(3) == 2
    assert Pool().cores(1) is None
    assert Pool(jobs=16).cores(20) == 1
    assert Pool(dask="tcp://nowhere:1").cores(20) == 1


@needs_dask
def test_a_cluster_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bayes_cpt.validate.parallel.CONNECTION_SECONDS", 0.5)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ClusterError, match=rf"Dask scheduler {address}: no scheduler answers"):
        list(Pool(dask=address).run(lambda task: task, [1]))
    with pytest.raises(ClusterError, match="unknown address scheme"):
        list(Pool(dask="carrier-pigeon://host:1").run(lambda task: task, [1]))


@needs_dask
def test_a_client_that_does_not_start_is_closed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    import distributed

    made: list[distributed.Client] = []

    class Watched(distributed.Client):  # type: ignore[misc]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            made.append(self)
            super().__init__(*arguments, **options)

    monkeypatch.setattr(distributed, "Client", Watched)
    with pytest.raises(ClusterError, match="unknown address scheme"):
        list(Pool(dask="carrier-pigeon://host:1").run(lambda task: task, [1]))
    assert [client.status for client in made] == ["closed"]


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ClusterError, match=r"Install it: pip install 'bayes-cpt\[dask\]'"):
        list(Pool(dask="tcp://host:8786").run(lambda task: task, [1]))


def test_threads_of_a_process_take_one_task_at_a_time() -> None:
    running: list[int] = []
    most: list[int] = []

    def task(number: int) -> int:
        running.append(number)
        time.sleep(0.01)
        most.append(len(running))
        running.remove(number)
        return number

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda number: next(Pool(jobs=1).run(task, [number])), range(8)))
    assert found == list(range(8))
    assert set(most) == {1}


@needs_dask
def test_a_cluster_without_workers_is_refused() -> None:
    from distributed import LocalCluster

    with (
        LocalCluster(n_workers=0, dashboard_address=":0") as empty,
        pytest.raises(ClusterError, match="the cluster has no worker"),
    ):
        list(Pool(dask=empty.scheduler_address).run(lambda task: task, [1]))


@needs_dask
def test_a_client_that_is_late_once_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    import distributed

    tried: list[str] = []

    class Late:
        def __init__(self, address: str, timeout: float, set_as_default: bool) -> None:
            tried.append(address)
            assert len(tried) > 1
            raise OSError("nobody is there")

        def close(self) -> None: ...

    monkeypatch.setattr(distributed, "Client", Late)
    with pytest.raises(ClusterError, match="no scheduler answers: nobody is there"):
        list(Pool(dask="tcp://host:8786").run(lambda task: task, [1]))
    assert tried == ["tcp://host:8786"] * 2


@needs_dask
def test_a_cluster_gives_what_this_process_gives() -> None:
    from distributed import LocalCluster

    def draw(task: int) -> tuple[int, float, int]:
        generator = np.random.default_rng(task_seed(1, str(task)))
        matrix = generator.standard_normal((200, 200))
        return task, float((matrix @ matrix).sum()), os.getpid()

    tasks = list(range(6))
    with LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=":0") as cluster:
        far = list(Pool(dask=cluster.scheduler_address).run(draw, tasks))
    near = list(Pool(jobs=1).run(draw, tasks))
    assert sorted(row[:2] for row in far) == [row[:2] for row in near]
    assert os.getpid() not in {process for *_, process in far}

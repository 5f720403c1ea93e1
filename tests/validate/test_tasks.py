import os
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from bayes_cpt.errors import ProblemError
from bayes_cpt.validate.tasks import Pool, Records, task_seed

SEEDS = st.integers(0, 2**32 - 1)
SETTINGS = {"seed": 1, "tails": (0.25, 0.5), "model": "cpt"}
NAMES = ("points", "refits")


@given(SEEDS, st.text(), st.text())
def test_seeds_of_tasks_differ_with_label_and_seed(seed: int, one: str, other: str) -> None:
    assert task_seed(seed, one) == task_seed(seed, one) < 2**32
    if one != other:
        assert task_seed(seed, one) != task_seed(seed, other)
    assert task_seed(seed, one) != task_seed((seed + 1) % 2**32, one)


def test_two_jobs_leave_this_process_and_lose_no_task() -> None:
    found = list(Pool(jobs=2).run(lambda task: (task, os.getpid()), list(range(8))))
    assert sorted(task for task, _ in found) == list(range(8))
    assert os.getpid() not in {process for _, process in found}


def test_linear_algebra_keeps_to_one_thread_and_has_as_many_as_before_after_it() -> None:
    np.ones((2, 2)) @ np.ones((2, 2))
    before = threadpool_info()
    (found,) = Pool(jobs=1).run(lambda _: threadpool_info(), [0])
    assert {library["num_threads"] for library in found} == {1}
    assert threadpool_info() == before


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


def test_a_cluster_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("bayes_cpt.validate.tasks.CONNECTION_SECONDS", 0.5)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ProblemError, match=rf"Dask scheduler {address}: no scheduler answers"):
        list(Pool(dask=address).run(lambda task: task, [1]))
    with pytest.raises(ProblemError, match="unknown address scheme"):
        list(Pool(dask="carrier-pigeon://host:1").run(lambda task: task, [1]))


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ProblemError, match=r"Install it: pip install 'bayes-cpt\[dask\]'"):
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


def test_a_cluster_without_workers_is_refused() -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=":0") as empty,
        pytest.raises(ProblemError, match="the cluster has no worker"),
    ):
        list(Pool(dask=empty.scheduler_address).run(lambda task: task, [1]))


def test_a_cluster_gives_what_this_process_gives() -> None:
    cluster_of = pytest.importorskip("distributed").LocalCluster

    def draw(task: int) -> tuple[int, float, int]:
        matrix = np.random.default_rng(task_seed(1, str(task))).standard_normal((200, 200))
        return task, float((matrix @ matrix).sum()), os.getpid()

    tasks = list(range(6))
    with cluster_of(n_workers=1, threads_per_worker=2, dashboard_address=":0") as cluster:
        far = list(Pool(dask=cluster.scheduler_address).run(draw, tasks))
    near = list(Pool(jobs=1).run(draw, tasks))
    assert sorted(row[:2] for row in far) == [row[:2] for row in near]
    assert os.getpid() not in {process for *_, process in far}


def rows(value: float, text: str = "none") -> dict[str, pd.DataFrame]:
    points = pd.DataFrame({"loss": [value, value / 3.0], "note": [text, "a, b"]})
    return {"points": points, "refits": pd.DataFrame({"fine": [True], "problems": [text]})}


def test_what_was_added_is_found_again_bit_by_bit(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    # Two processes at once: neither takes away what the other has done.
    records, others = (Records.open(folder, SETTINGS, NAMES) for _ in range(2))
    assert not records.done
    records.add("one", rows(0.1 + 0.2))
    others.add("two", rows(1e-17, "R-hat"))
    again = Records.open(folder, SETTINGS, NAMES)
    assert set(again.done) == {"one", "two"}
    again.write()
    for name in NAMES:
        pd.testing.assert_frame_equal(again.done["one"][name], records.done["one"][name])
        told = pd.read_csv(folder / f"{name}.csv")
        pd.testing.assert_frame_equal(told, again.in_order(name, ["one", "two"]))
    assert told["task"].tolist() == ["one", "two"]
    names = {"settings.json", "tasks", "points.csv", "refits.csv"}
    assert {path.name for path in folder.iterdir()} == names
    # What is damaged is done again, and nothing else.
    (one,) = (path for path in (folder / "tasks").iterdir() if '"one"' in path.read_text())
    for text in (one.read_text()[:50], ""):
        one.write_text(text)
        assert set(Records.open(folder, SETTINGS, NAMES).done) == {"two"}


@pytest.mark.parametrize("content", ["", "[1]", "{", b"\xff\xfe"])
def test_settings_of_something_else_are_left_alone(content: str | bytes, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ProblemError, match=r"settings.json: this is not what an earlier run wrote"):
        Records.open(tmp_path, SETTINGS, NAMES)

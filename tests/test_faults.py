"""What can go wrong while fits are made, written and read: never half a result, never a silent one."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import fault_workers
import pytest
from fault_workers import CHILDREN, started, told

from bayes_cpt import decide
from bayes_cpt.files import PARTIAL, STALE_SECONDS, drop_stale_code
from bayes_cpt.inference.fit_files import FitFileError
from bayes_cpt.inference.posterior import load

# Of a save.
QUICK_KILLS = 5
OLD, FIRST, SECOND = 1, 101, 102
PLAN = "data/cpt-lab/plan-example.toml"


# --- killed ---------------------------------------------------------------------------------------


def test_a_killed_save_leaves_an_old_or_new_file_whole(cpt_fit_file: Path, tmp_path: Path) -> None:
    target = tmp_path / "fit.nc"
    fault_workers.with_seed(load(cpt_fit_file), OLD).save(target)
    generator = random.Random(0)
    found = set()
    for _ in range(QUICK_KILLS):
        child, tell = started(fault_workers.save_on_and_on, cpt_fit_file, target, [FIRST, SECOND])
        # Once a first one is there, at any moment of the next.
        assert tell.recv() == "saved"
        time.sleep(generator.uniform(0.0, 0.3))
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        found.add(load(target).seed)
        assert {path.name for path in tmp_path.iterdir() if not path.name.startswith(".")} == {
            "fit.nc"
        }
    assert found <= {FIRST, SECOND}


def test_compiled_code_older_than_any_file_that_it_may_call_goes(tmp_path: Path) -> None:
    for name, age in (("laws/a.py", 2.0), ("model/b.py", 1.0)):
        (path := tmp_path / name).parent.mkdir()
        path.touch()
        os.utime(path, (time.time() - age, time.time() - age))
    kept, stale = (tmp_path / f"laws/__pycache__/a.{name}.nbi" for name in ("kept", "stale"))
    kept.parent.mkdir()
    kept.touch()
    stale.touch()
    os.utime(stale, (time.time() - 1.5, time.time() - 1.5))
    drop_stale_code(tmp_path)
    assert kept.exists()
    assert not stale.exists()


def test_what_a_kill_left_is_no_result_and_goes_away(cpt_fit_file: Path, tmp_path: Path) -> None:
    # Too long a name for anything more to be added to it, and a mode and a link that are to stay.
    target, link = tmp_path / f"{'a' * 252}.nc", tmp_path / "fit.nc"
    target.touch(mode=0o600)
    link.symlink_to(target)
    half = cpt_fit_file.read_bytes()[: cpt_fit_file.stat().st_size // 2]
    stale, recent = (tmp_path / f"{PARTIAL}{name}.nc" for name in ("stale", "recent"))
    folder, others = tmp_path / f"{PARTIAL}folder", [tmp_path / ".fit.nc", tmp_path / "partial-x"]
    (folder / "study").mkdir(parents=True)
    old = time.time() - 2 * STALE_SECONDS
    os.utime(folder, (old, old))
    for path in (stale, recent, *others):
        path.write_bytes(half)
        if path != recent:
            os.utime(path, (old, old))
    with pytest.raises(FitFileError, match="it is damaged"):
        load(stale)
    load(cpt_fit_file).save(link)
    assert link.is_symlink()
    assert (load(target).seed, target.stat().st_mode & 0o777) == (1, 0o600)
    # Another program may be writing the recent one; the others are no partial ones.
    assert set(tmp_path.iterdir()) == {target, link, recent, *others}


# --- two at once ----------------------------------------------------------------------------------


def test_of_two_fits_in_one_file_the_last_wins_whole(cpt_fit_file: Path, tmp_path: Path) -> None:
    target = tmp_path / "fit.nc"
    children = [
        CHILDREN.Process(target=fault_workers.save_times, args=(cpt_fit_file, target, seed, 6))
        for seed in (FIRST, SECOND)
    ]
    for child in children:
        child.start()
    seen = []
    while any(child.is_alive() for child in children):
        if target.exists():
            seen.append(load(target).seed)
    assert [child.exitcode for child in children] == [0, 0]
    assert seen
    assert {*seen, load(target).seed} <= {FIRST, SECOND}
    assert list(tmp_path.iterdir()) == [target]


# --- no room, no right ----------------------------------------------------------------------------


@pytest.mark.parametrize("room", [0, 1000, 40_000])
def test_a_full_disk_leaves_the_old_fit(room: int, cpt_fit_file: Path, tmp_path: Path) -> None:
    target = tmp_path / "fit.nc"
    load(cpt_fit_file).save(target)
    before = target.read_bytes()
    assert told(fault_workers.save_with_little_room, cpt_fit_file, target, room) == "File too large"
    assert target.read_bytes() == before
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize(
    ("line", "room"),
    [
        ("predict {fit} --plan {plan} -o {dir}/out.csv", 10_000),
        ("predict {fit} --plan {plan} -o {dir}/out.parquet", 10_000),
        ("predict {fit} --plan {plan} -o {dir}/out.nc", 10_000),
        ("prior pretrain -o {dir}/out.png", 4000),
    ],
)
def test_a_full_disk_is_named_and_leaves_no_table(
    line: str, room: int, cpt_fit_file: Path, tmp_path: Path
) -> None:
    places = {"fit": cpt_fit_file, "plan": PLAN, "dir": tmp_path}
    arguments = [part.format(**places) for part in line.split()]
    code, err, _ = told(fault_workers.run_with_little_room, arguments, room)
    assert "this cannot be written" in err
    assert "File too large" in err
    assert code == 2
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_costs_no_answer(cpt_fit_file: Path, tmp_path: Path) -> None:
    # What is compiled first needs room too.
    decide(load(cpt_fit_file), draws=8, candidates=16)
    line = f"decide {cpt_fit_file} --draws 8 --candidates 16 --json -o {tmp_path / 'out'}"
    code, err, out = told(fault_workers.run_with_little_room, line.split(), 10_000)
    assert code == 2
    assert "decision.png: this cannot be written: File too large" in err
    answer = json.loads(out)
    assert answer["verdict"]
    assert "decision.png" in answer["error"]
    assert {*answer["files"]} == {path.name for path in (tmp_path / "out").iterdir()}


@pytest.mark.skipif(
    not Path("/proc/self").exists(), reason="there is no folder nobody may write to"
)
@pytest.mark.parametrize(
    "line",
    [
        "fit data/cpt-lab -o /proc/out.nc",
        f"predict {{fit}} --plan {PLAN} -o /proc/out.csv",
        "summary {fit} -o /proc/out.csv",
        "prior pretrain -o /proc/out.png",
        "demo -o /proc",
    ],
)
def test_a_folder_that_cannot_be_written_is_found_out_at_once(
    line: str, cpt_fit_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from bayes_cpt.cli import run

    assert run([part.format(fit=cpt_fit_file) for part in line.split()]) == 2
    err = capsys.readouterr().err
    assert "/proc" in err
    assert "this cannot be written" in err
    assert "Traceback" not in err


# --- real fits ------------------------------------------------------------------------------------


@pytest.fixture
def fitting(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Return what starts a real fit, in a process of its own."""
    running: list[subprocess.Popen[str]] = []
    # A shell has what it starts in the background ignore Ctrl-C, and children inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def start(draws: int = 100, *asked: str) -> subprocess.Popen[str]:
        verb = asked or ("fit", "--cores", "1", "-o", str(tmp_path / "fit.nc"))
        command = [sys.executable, "-m", "bayes_cpt", *verb, "data/cpt-lab", "--model", "pretrain"]
        command += ["--draws", str(draws), "--seed", "3"]
        running.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
        return running[-1]

    yield start
    signal.signal(signal.SIGINT, before)
    for process in running:
        process.kill()
        process.wait()


def until(process: subprocess.Popen[str], stage: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if stage in line:
            return
    raise AssertionError(f"the fit ended before {stage}")


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["finding the mode", "sampling"])
def test_ctrl_c_ends_a_fit_with_one_sentence_and_no_file(
    stage: str, fitting: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    # So many that the fit is never done by then, however late this process wakes on a busy machine.
    process = fitting(draws=20_000)
    until(process, stage)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    last = err.strip().splitlines()[-1]
    assert re.match(r"Interrupted after .* nothing was written. A fit cannot be resumed", last)
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_sigterm_ends_refits_with_their_processes(
    fitting: Callable[..., subprocess.Popen[str]],
) -> None:
    process = fitting(20_000, "validate", "--jobs", "2")
    until(process, "refitting")
    time.sleep(10)
    process.terminate()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert err.splitlines()[-1] == "Interrupted. No unfinished file is left behind."
    # stderr is at its end: no process that shares it is left. Nor is what they shared.
    assert not list(Path("/dev/shm").glob(f"joblib_memmapping_folder_{process.pid}_*"))

"""Real runs of the real libraries, from their logs to a watch: needs constraints-live.txt installed.

MLflow's server needs an older pyarrow than ours, so an environment of its own: where MLFLOW_SERVER names
that environment's program ``mlflow``, a real server is started, else its test is skipped.
"""

import math
import os
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from journey import RUNS, forecast, study_of, watched
from synthetic import prior_as_posterior

from bayes_cpt import fit as fit_study
from bayes_cpt import read_study
from bayes_cpt.cli import run
from bayes_cpt.study.logs.readers import read_logs
from bayes_cpt.watch import Status, Watcher
from bayes_cpt.watch.callback import trainer_callback

LOGS = Path(__file__).parent / "data" / "logs"
MADE = LOGS / "made.py"
SERVER = "MLFLOW_SERVER"
# A server answers after so many seconds, even on a busy machine.
PATIENCE = 240.0

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the script's names, and in ``folder`` the logs that it made by real runs."""
    for library in ("torch", "transformers", "tensorboard", "wandb", "mlflow"):
        pytest.importorskip(library)
    folder = tmp_path_factory.mktemp("live")
    (folder / "work").mkdir()
    # It writes beside itself.
    script = shutil.copy(MADE, folder)
    before, here = sys.argv, Path.cwd()
    sys.argv = [str(script), str(folder / "work")]
    os.chdir(folder)
    try:
        found = runpy.run_path(str(script), run_name="__main__")
    finally:
        sys.argv = before
        os.chdir(here)
    return {**found, "folder": folder}


@pytest.fixture(scope="module")
def study(made: dict[str, Any]) -> Path:
    """Return a study of three real Trainer runs and one of each tracker."""
    logs: Path = made["folder"]
    where = logs / "study"
    study_of(logs, where)
    return where


def test_real_logs_go_from_init_to_predict_and_watch(
    study: Path, made: dict[str, Any], tmp_path: Path
) -> None:
    fit = tmp_path / "fit.nc"
    # Whether so few points are sampled well is not asked here: further attempts would take long.
    fit_study(read_study(study), seed=1, draws=100, attempts=1).save(fit)
    assert forecast(fit, tmp_path) in (0, 1)
    codes = watched(fit, made["folder"], tmp_path)
    # On track, but the fit may fall short of its diagnostics; or off track.
    assert set(codes.values()) <= {0, 1, 3}


def test_the_callback_hears_a_real_trainer(
    study: Path, made: dict[str, Any], tmp_path: Path
) -> None:
    import torch
    from transformers import Trainer, TrainingArguments

    found = read_study(study)
    watcher = Watcher(prior_as_posterior(found), "r25", level=0.5, inflation=1.0)
    alarms: list[Status] = []
    torch.manual_seed(0)
    network = made["Network"]()
    # A learning rate with which it diverges: what the watch is for.
    arguments = TrainingArguments(
        output_dir=str(tmp_path),
        per_device_train_batch_size=made["BATCH"],
        learning_rate=50.0,
        eval_strategy="steps",
        eval_steps=10,
        max_steps=60,
        report_to=[],
        save_strategy="no",
        remove_unused_columns=False,
        use_cpu=True,
        disable_tqdm=True,
        prediction_loss_only=True,
    )
    trainer = Trainer(
        network,
        arguments,
        train_dataset=made["mixed"](0.25, 60, 30),
        eval_dataset=made["EVALUATIONS"],
        callbacks=[trainer_callback(watcher, alarms.append, stop=True)],
    )
    trainer.train()
    assert alarms
    assert not alarms[0].on_track
    assert trainer.state.global_step < 60
    heard = set(watcher.points) | {watcher.diverged}
    assert heard & {10, 20, 30, 40, 50}
    assert all(
        math.isfinite(loss) for losses in watcher.points.values() for loss in losses.values()
    )


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """Yield the address of a real MLflow server that keeps runs in a database."""
    program = os.environ.get(SERVER)
    if program is None:
        pytest.skip(f"set {SERVER} to the mlflow program of an environment that has its server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    store = ["--backend-store-uri", f"sqlite:///{tmp_path}/mlflow.db"]
    store += ["--artifacts-destination", str(tmp_path / "artifacts"), "--workers", "1"]
    where = ["--host", "127.0.0.1", "--port", str(port)]
    running = subprocess.Popen(
        [program, "server", *store, *where],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        until = time.monotonic() + PATIENCE
        while running.poll() is None and time.monotonic() < until:
            with socket.socket() as asked:
                if asked.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.5)
        yield f"http://127.0.0.1:{port}"
    finally:
        # Its workers too.
        os.killpg(running.pid, signal.SIGTERM)
        running.wait()


def test_a_run_on_a_real_mlflow_server_is_imported_and_updated(server: str, tmp_path: Path) -> None:
    """What comes from the server is what comes from the same run in a local store."""
    tracking = pytest.importorskip("mlflow.tracking")
    kept = read_logs("mlflow", [str(LOGS / "mlflow")])
    last = max(row.cells["step"] for row in kept.rows)
    client = tracking.MlflowClient(tracking_uri=server)
    run_id = client.create_run(client.create_experiment("tiny")).info.run_id
    client.log_param(run_id, "warmup_steps", 10)

    def log(*, late: bool) -> None:
        for row in kept.rows:
            step = int(row.cells["step"])
            if (step > last / 2) == late:
                for series, value in row.cells.items():
                    if series != "step":
                        client.log_metric(run_id, series, value, step=step)

    studies = {name: tmp_path / name for name in ("local", "server")}
    words = ["--run", "tracked", "--replay", "0"]
    for name, study in studies.items():
        shutil.copytree(kept_study(tmp_path), study)
        if name == "local":
            source = str(LOGS / "mlflow")
            assert run(["import", "mlflow", source, "--study", str(study), *words]) == 0
    place, update = str(studies["server"]), ["--run", "tracked"]
    address = f"{server}#{run_id}"
    log(late=False)
    assert (
        run(
            ["import", "mlflow", address, "--study", place, *words, "--total-steps", str(int(last))]
        )
        == 0
    )
    log(late=True)
    assert run(["import", "mlflow", address, "--study", place, *update]) == 0
    assert run(["check", place]) == 0
    local, served = (read_study(study).losses for study in studies.values())
    pd.testing.assert_frame_equal(local, served)
    # Of a run that is not there nothing is written.
    before = (studies["server"] / "losses.csv").read_bytes()
    missing = ["import", "mlflow", f"{server}#{'0' * 32}", "--study", place, "--run", "other"]
    assert run([*missing, "--replay", "0"]) == 2
    assert (studies["server"] / "losses.csv").read_bytes() == before


def kept_study(folder: Path) -> Path:
    """Make a study of the kept Trainer runs, once."""
    where = folder / "kept"
    if not where.exists():
        paths = [str(LOGS / "hf" / name) for name in RUNS]
        shares = [word for name in ("r00=0", "r25=0.25", "r50=0.5") for word in ("--replay", name)]
        assert run(["init", str(where), *paths, "--pt", "pt", *shares]) == 0
    return where

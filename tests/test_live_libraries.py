"""Real runs of the real libraries, from their logs to a watch: needs constraints-live.txt installed."""

import math
import os
import runpy
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from journey import forecast, study_of, watched
from synthetic import prior_as_posterior

from bayes_cpt import fit as fit_study
from bayes_cpt import read_study
from bayes_cpt.watch import Status, Watcher
from bayes_cpt.watch.callback import trainer_callback

LOGS = Path(__file__).parent / "data" / "logs"
MADE = LOGS / "made.py"

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
    # On track, but the fit may fall short of its diagnostics; or off track.
    assert set(watched(fit, made["folder"], tmp_path).values()) <= {0, 1, 3}


def test_a_callback_hears_a_real_trainer(study: Path, made: dict[str, Any], tmp_path: Path) -> None:
    import torch
    from transformers import Trainer, TrainingArguments

    watcher = Watcher(prior_as_posterior(read_study(study)), "r25", level=0.5, inflation=1.0)
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
    assert (set(watcher.points) | {watcher.diverged}) & {10, 20, 30, 40, 50}
    assert all(
        math.isfinite(loss) for losses in watcher.points.values() for loss in losses.values()
    )

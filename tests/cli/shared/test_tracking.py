"""MLflow and W&B: with the real libraries where they are installed (slow), with small fakes elsewhere."""

import os
import shutil
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import Call, check_refusal
from synthetic import lab, lab_posterior, prior_as_posterior

from bayes_cpt.cli.shared.tracking import (
    fit_from_mlflow,
    fit_from_wandb,
    log_to_mlflow,
    log_to_wandb,
    logged_metrics,
    logged_parameters,
)
from bayes_cpt.inference.posterior import Posterior, load

FILES = {
    "fit.nc",
    "summary.csv",
    "quality.csv",
    "fitted.png",
    "residuals.png",
    "prior-posterior.png",
}


def same(one: Posterior, other: Posterior) -> None:
    """Assert that two posteriors have the same draws and study."""
    assert one.study.digest() == other.study.digest()
    expected = one.parameters()
    for name, values in other.parameters().items():
        np.testing.assert_array_equal(values, expected[name])


class Client:
    """MLflow's client as far as it is used: a folder for each run."""

    def __init__(self, tracking_uri: str) -> None:
        self.folder = Path(tracking_uri)

    def get_experiment_by_name(self, name: str) -> None:
        return None

    def create_experiment(self, name: str) -> str:
        self.folder.mkdir()
        return "1"

    def create_run(self, place: str, run_name: str) -> Any:
        (self.folder / run_name).mkdir()
        return types.SimpleNamespace(info=types.SimpleNamespace(run_id=run_name))

    def log_param(self, run: str, name: str, value: Any) -> None:
        with (self.folder / run / "params").open("a") as log:
            log.write(f"{name}={value}\n")

    log_metric = log_param

    def log_artifact(self, run: str, path: str) -> None:
        shutil.copy(path, self.folder / run)

    def set_terminated(self, run: str) -> None:
        (self.folder / run / "finished").touch()

    def download_artifacts(self, run: str, name: str, folder: str) -> str:
        return str(shutil.copy(self.folder / run / name, folder))


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    package, tracking = types.ModuleType("mlflow"), types.ModuleType("mlflow.tracking")
    vars(tracking)["MlflowClient"] = Client
    monkeypatch.setitem(sys.modules, "mlflow", package)
    monkeypatch.setitem(sys.modules, "mlflow.tracking", tracking)


def test_a_fit_logged_to_mlflow_comes_back_the_same(mlflow: None, tmp_path: Path) -> None:
    store = tmp_path / "store"
    posterior = lab_posterior()
    run = log_to_mlflow(posterior, str(store))
    same(fit_from_mlflow(str(store), run), posterior)
    names = {file.name for file in (store / run).iterdir()}
    assert names == FILES | {"params", "finished"}
    told = dict(line.split("=", 1) for line in (store / run / "params").read_text().splitlines())
    assert told["model"] == "cpt-replay"
    assert told["study_digest"] == posterior.study.digest()
    assert float(told["max_r_hat"]) == logged_metrics(posterior)["max_r_hat"]


def test_the_parameters_say_what_the_fit_was_made_of() -> None:
    found = logged_parameters(lab_posterior())
    assert found["seed"] == "1"
    assert found["reference.steps"] == lab_posterior().frame.reference.steps


def test_a_library_that_is_not_installed_is_told_before_the_fit(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    answer = call("fit", "data/cpt-lab", "-o", tmp_path / "fit.nc", "--wandb", "project")
    check_refusal(answer, ("--wandb", "wandb is not installed", "bayes-cpt[logs]"))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_real_mlflow_keeps_a_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tracked = pytest.importorskip("mlflow.tracking")
    monkeypatch.chdir(tmp_path)
    store = f"sqlite:///{tmp_path}/mlflow.db"
    posterior = prior_as_posterior(lab())
    run = log_to_mlflow(posterior, store)
    same(fit_from_mlflow(store, run), posterior)
    client = tracked.MlflowClient(tracking_uri=store)
    assert {file.path for file in client.list_artifacts(run)} == FILES
    data = client.get_run(run).data
    assert data.params["study_digest"] == posterior.study.digest()
    assert data.metrics["divergences"] == logged_metrics(posterior)["divergences"]


@pytest.mark.slow
def test_the_real_wandb_keeps_a_fit_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setitem(os.environ, "WANDB_MODE", "offline")
    posterior = prior_as_posterior(lab())
    run = log_to_wandb(posterior, folder=tmp_path)
    same(fit_from_wandb(run), posterior)
    same(load(run / "files" / "fit.nc"), posterior)
    assert (run / "files" / "summary.csv").is_file()
    assert list(run.glob("run-*.wandb"))

"""MLflow: runs of a local file store, and of a tracking server or database through the library."""

import re
from pathlib import Path

from bayes_cpt.study.logs.raw import WARMUP_STEPS, RawLog, as_number, fail

METRICS, PARAMETERS = "metrics", "params"
SERVER = re.compile(r"(mlflow:)?(https?|sqlite|postgresql|mysql|databricks):/")


def read_mlflow(path: Path | str) -> RawLog:
    """Read the metrics of an MLflow run.

    Parameters
    ----------
    path : Path or str
        The folder of a run in a file store, mlruns/EXPERIMENT/RUN, a store with only one run, or a tracking
        address with the run behind a hash sign, ``http://host:5000#RUN_ID``.

    Raises
    ------
    LogError
        Naming file and line.
    """
    if SERVER.match(str(path)):
        return _read_server(str(path).removeprefix("mlflow:"))
    folder = _run_folder(Path(path))
    log = RawLog(str(path))
    for file in sorted((folder / METRICS).rglob("*")):
        if file.is_file():
            _read_metric(log, file, file.relative_to(folder / METRICS).as_posix())
    if not log.entries:
        raise fail(str(folder), "the run has no metrics", "log at least one evaluation")
    warmup = folder / PARAMETERS / WARMUP_STEPS
    if warmup.is_file() and (steps := as_number(warmup.read_text(encoding="utf-8"))) is not None:
        log.facts[WARMUP_STEPS] = steps
    return log


def _run_folder(path: Path) -> Path:
    if (path / METRICS).is_dir():
        return path
    runs = sorted(metrics.parent for metrics in path.rglob(METRICS) if metrics.is_dir())
    if len(runs) == 1:
        return runs[0]
    if not runs:
        raise fail(
            str(path),
            "there is no MLflow run here (no folder metrics)",
            "name the folder of a run, mlruns/EXPERIMENT/RUN, or the tracking address with #RUN_ID",
        )
    names = ", ".join(run.relative_to(path).as_posix() for run in runs[:6])
    raise fail(str(path), f"there are {len(runs)} runs: {names}", "name one of these folders")


def _read_metric(log: RawLog, file: Path, name: str) -> None:
    """Read a metric's file: a line of time, value and step each."""
    lines = file.read_text(encoding="utf-8", errors="replace").split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"{file}, line {number}"
        cells = line.split()
        value, step = (as_number(cell) for cell in [*cells, "", "", ""][1:3])
        if len(cells) < 3 or value is None or step is None:
            if number == len(lines):
                log.notes.append(f"{place}: the last line is cut off and was left out")
                return
            raise fail(place, f"this is no metric: {line[:60]!r}", "restore the line or remove it")
        log.add(step, name, value, place)


def _read_server(address: str) -> RawLog:
    uri, _, run = address.partition("#")
    if not run:
        raise fail(address, "no run is named", f"add it behind a hash sign, {uri}#RUN_ID")
    try:
        from mlflow.tracking import MlflowClient
    except ImportError:
        raise fail(
            address,
            "MLflow's library, which reads from a server, is not installed",
            "install it with pip install 'bayes-cpt[logs]', or name a local run folder",
        ) from None
    log = RawLog(address)
    try:
        client = MlflowClient(tracking_uri=uri)
        known = client.get_run(run).data
        for name in known.metrics:
            for metric in client.get_metric_history(run, name):
                log.add(
                    metric.step, name, metric.value, f"{address}, metric {name}, step {metric.step}"
                )
    except Exception as error:
        said = " ".join(str(error).split())[:200]
        raise fail(
            address,
            f"the server does not give the run: {said}",
            "check the address and the run's id",
        ) from error
    if not log.entries:
        raise fail(address, "the run has no metrics", "log at least one evaluation")
    if (steps := as_number(known.params.get(WARMUP_STEPS))) is not None:
        log.facts[WARMUP_STEPS] = steps
    return log

"""Which reader reads which kind of log, and what kind a path is."""

from collections.abc import Iterable
from pathlib import Path

from bayes_cpt.checks import suggestion
from bayes_cpt.study.logs.raw import RawLog, fail
from bayes_cpt.study.readers.columns import Layout, read_columns
from bayes_cpt.study.readers.huggingface import STATE, read_huggingface
from bayes_cpt.study.readers.mlflow import METRICS, SERVER, read_mlflow
from bayes_cpt.study.readers.tensorboard import PATTERN, read_tensorboard
from bayes_cpt.study.readers.text import FORMATS, read_text
from bayes_cpt.study.readers.wandb import ADDRESS, read_wandb

AUTO = "auto"
TABLES = ("csv", "jsonl", "parquet", "table")
KINDS = (AUTO, "hf", *TABLES, "tensorboard", "wandb", "mlflow", *FORMATS)
TABLE_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")
# Enough of a text to see what program wrote it.
SNIFFED_BYTES = 200_000


def read_logs(kind: str, paths: Iterable[str], layout: Layout | None = None) -> RawLog:
    """Read the logs of one run.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    paths : iterable of str
        Files, folders or addresses, in the order in which they were written.
    layout : Layout, optional
        Of tables.

    Raises
    ------
    LogError
        If the kind is unknown, a path is not there, or a log is damaged.
    """
    if kind not in KINDS:
        raise fail(
            f"kind {kind}",
            f"there is no kind {kind!r} of logs{suggestion(kind, KINDS)}",
            f"name one of {', '.join(KINDS)}",
        )
    logs = [_read(kind, path, layout) for path in paths]
    if not logs:
        raise fail("PATH", "no log is named", "name at least one file or folder")
    log = logs[0]
    for other in logs[1:]:
        log.extend(other)
    return log


def _read(kind: str, name: str, layout: Layout | None) -> RawLog:
    if name.startswith(ADDRESS):
        return read_wandb(Path(name))
    if SERVER.match(name):
        return read_mlflow(name)
    path = Path(name)
    if not path.exists():
        raise fail(name, "there is no such file or folder", "check the spelling of the path")
    chosen = kind_of(path) if kind == AUTO else kind
    if chosen == "hf":
        return read_huggingface(path)
    if chosen == "tensorboard":
        return read_tensorboard(path)
    if chosen == "wandb":
        return read_wandb(path)
    if chosen == "mlflow":
        return read_mlflow(path)
    if path.is_dir():
        raise fail(name, "this is a folder", "name the files of the log")
    return read_text(path, chosen) if chosen in FORMATS else read_columns(path, layout)


def kind_of(path: Path) -> str:
    """Return what kind of log a path is, by its name and what is in it.

    Parameters
    ----------
    path : Path
        A file or a folder.

    Raises
    ------
    LogError
        If it looks like none.
    """
    if path.is_dir():
        for kind, pattern in (
            ("hf", f"**/{STATE}"),
            ("wandb", "**/*.wandb"),
            ("tensorboard", f"**/{PATTERN}"),
            ("mlflow", f"**/{METRICS}"),
        ):
            if next(path.glob(pattern), None) is not None:
                return kind
    elif path.name == STATE or (path.suffix == ".json" and _begins_as_state(path)):
        return "hf"
    elif path.suffix == ".wandb":
        return "wandb"
    elif "tfevents" in path.name:
        return "tensorboard"
    elif path.suffix in TABLE_SUFFIXES:
        return "table"
    else:
        with path.open("rb") as file:
            text = file.read(SNIFFED_BYTES).decode("utf-8", errors="replace")
        counts = {
            kind: sum(
                1
                for line in text.splitlines()
                if any(form.series and form.pattern.search(line) for form in formats)
            )
            + (text.count("[step=") if kind == "olmo" else 0)
            for kind, formats in FORMATS.items()
        }
        best = max(counts, key=lambda kind: counts[kind])
        if counts[best]:
            return best
    raise fail(
        str(path),
        "it looks like no log that is known",
        f"name its kind: {', '.join(KINDS[1:])}",
    )


def _begins_as_state(path: Path) -> bool:
    with path.open("rb") as file:
        return b'"log_history"' in file.read(SNIFFED_BYTES)

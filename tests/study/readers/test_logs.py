"""Readers on the files that the real libraries wrote (tests/data/logs/made.py)."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayes_cpt.errors import StudyError
from bayes_cpt.study.logs.readers import kind_of, read_logs
from bayes_cpt.study.logs.reading import Log, Reading
from bayes_cpt.study.logs.recognize import recognize

LOGS = Path(__file__).parents[2] / "data" / "logs"
MEASURED = pd.read_csv(LOGS / "tables" / "wide.csv").dropna(subset=["eval/general_loss"])
# One training loop, in several logs.
SAME = ["tables/history.jsonl", "tables/wide.csv", "tables/wide.parquet", "tensorboard"]
KINDS = ["table", "table", "table", "tensorboard"]


def read(path: Path, **keys: Any) -> Log:
    return Reading(paths=(str(path),), **keys).read()


@pytest.mark.parametrize(("path", "kind"), list(zip(SAME, KINDS, strict=True)))
def test_every_library_logged_the_same_run(path: str, kind: str) -> None:
    if kind == "tensorboard":
        pytest.importorskip(kind)
    assert kind_of(LOGS / path) == kind
    log = read(LOGS / path)
    assert log.domains == ("general", "target")
    for domain in log.domains:
        found = [(step, loss) for step, own, loss in log.losses if own == domain]
        np.testing.assert_array_equal([step for step, _ in found], MEASURED["step"])
        # TensorBoard keeps single precision.
        losses = [loss for _, loss in found]
        np.testing.assert_allclose(losses, MEASURED[f"eval/{domain}_loss"], rtol=1e-7)
    steps, rates = zip(*log.rates, strict=True)
    found_schedule = recognize(steps, rates, 200)[0]
    shapes = [(segment.shape, segment.steps) for segment in found_schedule.segments]  # type: ignore[union-attr]
    assert shapes == [("linear", 10), ("constant", 140), ("one_minus_sqrt", 50)]


@pytest.mark.parametrize("name", ["r00", "r25", "r50"])
def test_huggingface_runs(name: str) -> None:
    log = read(LOGS / "hf" / name, kind="hf")
    state = json.loads((LOGS / "hf" / name / "trainer_state.json").read_text())
    rows = [row for row in state["log_history"] if "eval_general_loss" in row]
    wanted = [(row["step"], "general", row["eval_general_loss"]) for row in rows]
    assert [row for row in log.losses if row[1] == "general"] == wanted
    assert log.stated.steps == 300
    steps, rates = zip(*log.rates, strict=True)
    schedule = recognize(steps, rates, 300)[0]
    assert [(s.shape, s.steps) for s in schedule.segments] == [("linear", 20), ("cosine", 280)]  # type: ignore[union-attr]


def test_a_german_spreadsheet() -> None:
    sets = {"allgemein": "general", "Ziel": "target"}
    log = read(LOGS / "tables" / "german.csv", kind="csv", losses=sets)
    found = [loss for _, domain, loss in log.losses if domain == "general"]
    np.testing.assert_array_equal(found, MEASURED["eval/general_loss"])
    assert any("decimal commas" in note for note in log.notes)


def test_tables_as_spreadsheets_and_pandas_save_them(tmp_path: Path) -> None:
    indexed = tmp_path / "log.parquet"
    pd.DataFrame({"step": [10], "val_loss": [2.5]}).set_index("step").to_parquet(indexed)
    assert read(indexed).losses == ((10, "val", 2.5),)
    path = tmp_path / "log.tsv"
    path.write_text("step\tval_loss\n10\t2,5\n", encoding="utf-16")
    assert read(path).losses == ((10, "val", 2.5),)


@pytest.mark.parametrize("label", ["domain", "dataset"])
def test_rows_of_run_step_domain_loss(label: str, tmp_path: Path) -> None:
    path = tmp_path / "losses.csv"
    path.write_text(f"run,step,{label},loss\na,10,code,2.5\nb,10,code,2.4\na,10,prose,3.5\n")
    assert read(path, kind="csv", row_run="a").losses == ((10, "code", 2.5), (10, "prose", 3.5))


def test_a_restarted_job_writes_a_second_event_file(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    content = (LOGS / "tensorboard" / "events.out.tfevents.1.tiny.0").read_bytes()
    (tmp_path / "events.out.tfevents.1.tiny").write_bytes(content)
    (tmp_path / "events.out.tfevents.2.tiny").write_bytes(content[: len(content) // 2])
    log = read(tmp_path, kind="tensorboard")
    assert log.losses == read(LOGS / "tensorboard", kind="tensorboard").losses
    said = " ".join(log.notes)
    assert "it is cut off and was left out" in said
    assert "were merged" in said


def test_event_files_of_two_runs_are_told_from_a_figure_of_two_lines(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    content = (LOGS / "tensorboard" / "events.out.tfevents.1.tiny.0").read_bytes()
    for name, runs in (("r00", 1), ("r25", 2)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "events.out.tfevents.1.tiny").write_bytes(content)
        if runs == 1:
            # A folder inside that of the job is no part of the names of its series.
            assert read(tmp_path, kind="tensorboard").domains == ("general", "target")
    with pytest.raises(StudyError, match=r"folders r00/ and r25/ have the same series"):
        read_logs("tensorboard", [str(tmp_path)])
    record_writer = pytest.importorskip("tensorboard.summary.writer.record_writer")
    event = pytest.importorskip("tensorboard.compat.proto.event_pb2").Event(step=10)
    event.summary.value.add(tag="val/loss", simple_value=2.5)
    for name in ("a/r00", "a/r25", "b/val_loss_code", "b/val_loss_law", "c/train", "c/eval"):
        (tmp_path / name).mkdir(parents=True)
        with (tmp_path / name / "events.out.tfevents.1.tiny").open("wb") as file:
            record_writer.RecordWriter(file).write(event.SerializeToString())
    with pytest.raises(StudyError, match=r"they are of two runs"):
        read_logs("tensorboard", [str(tmp_path / "a")])
    for name in ("b", "c"):
        assert len(read_logs("tensorboard", [str(tmp_path / name)]).rows) == 2


def test_event_files_are_read_as_tensorboard_reads_them() -> None:
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    ).EventAccumulator
    theirs = accumulator(str(LOGS / "tensorboard"), {"scalars": 0}).Reload()
    raw = read_logs("tensorboard", [str(LOGS / "tensorboard")])
    for tag in theirs.Tags()["scalars"]:
        wanted = [(event.step, event.value) for event in theirs.Scalars(tag)]
        cells = [row.cells for row in raw.rows]
        assert [(own["step"], own[tag]) for own in cells if tag in own] == wanted

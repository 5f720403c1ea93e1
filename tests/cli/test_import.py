import math
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE
from typing import NamedTuple

import numpy as np
import pytest
from command_line import Call, check_refusal
from filelock import SoftFileLock

from bayes_cpt import read_study
from bayes_cpt.files import LOCK
from bayes_cpt.study.folder import runs_text
from bayes_cpt.study.logs.importing import Answers, start_study
from bayes_cpt.study.logs.runs import Recipe

LOGS = Path(__file__).parents[1] / "data" / "logs"
HF = LOGS / "hf"
WIDE = (LOGS / "tables" / "wide.csv").read_text()
TINY = "step,eval_general_loss,eval_target_loss,lr\n"
STEPS = [0, 10, 20, 30, 40]
# A log of a run that the study lacks.
R25 = ("hf", HF / "r25", "--run", "r25", "--replay", 0.25)


def rows(scale: float = 1.0, steps: list[int] = STEPS, lr: str = "0.001") -> str:
    return TINY + "".join(f"{s},{scale * 2.5},{scale * 3.5},{lr if s else ''}\n" for s in steps)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a study that was started from a PT run and a CPT run."""
    folder = tmp_path_factory.mktemp("started") / "study"
    recipes = {
        "pt": [Recipe(paths=(str(HF / "pt"),), phase="pt")],
        "r00": [Recipe(paths=(str(HF / "r00"),), replay=0.0)],
    }
    start_study(folder, Answers(logs=recipes))
    return folder


@pytest.fixture
def study(started: Path, tmp_path: Path) -> Path:
    """Return a copy of it to work on."""
    return Path(shutil.copytree(started, tmp_path / "study"))


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def check_refused(call: Call, study: Path, fragments: tuple[str, ...], *line: object) -> None:
    """Check that an import is refused and leaves the study as it was."""
    before = contents(study)
    check_refusal(call("import", *line, "--study", study), fragments)
    assert contents(study) == before


def test_a_run_is_added_and_the_rest_stays_as_it_was_written(study: Path, call: Call) -> None:
    settings = study / "study.toml"
    settings.write_text(settings.read_text() + "\n# My own words.\n")
    before = read_study(study)
    answer = call("import", *R25, "--study", study)
    assert answer.code == 0
    assert "62 new losses" in answer.out
    after = read_study(study)
    assert "# My own words." in settings.read_text()
    assert after.subset([run.name for run in before.runs]).digest() == before.digest()
    assert after.run("r25").replay == 0.25
    assert after.curve("r25", "target")[0].size == 31
    assert call("check", study, "--quiet").code == 0


def test_of_two_imports_at_once_none_is_lost(study: Path) -> None:
    line = f"-m bayes_cpt import hf {HF / 'r25'} --replay 0.25 --study {study} --run".split()
    with SoftFileLock(study / LOCK):
        both = [subprocess.Popen([sys.executable, *line, run], stderr=PIPE) for run in "ab"]
        for own in both:
            assert own.stderr is not None
            assert b"waiting for another import" in own.stderr.readline()
    assert [own.wait() for own in both] == [0, 0]
    assert {run.name for run in read_study(study).runs} == {"pt", "r00", "a", "b"}


def test_an_import_that_does_not_end_is_not_waited_for_for_ever(
    study: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bayes_cpt.files.LOCK_SECONDS", 0.2)
    with SoftFileLock(study / LOCK):
        answer = call("import", *R25, "--study", study)
    assert answer.code == 2
    waited, refused = answer.err.splitlines()
    assert "waiting for another import" in waited
    assert refused.startswith(
        f"{study / LOCK}: another import does not end. If none is running remove"
    )
    assert {run.name for run in read_study(study).runs} == {"pt", "r00"}


def test_an_import_that_was_killed_is_not_waited_for(study: Path, call: Call) -> None:
    code = f"from filelock import SoftFileLock as Lock; lock = Lock({str(study / LOCK)!r})"
    killed = [sys.executable, "-c", f"{code}; lock.acquire(); print(flush=True); input()"]
    with subprocess.Popen(killed, stdin=PIPE, stdout=PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert (study / LOCK).is_file()
        process.kill()
    assert call("import", *R25, "--study", study).code == 0
    assert not (study / LOCK).exists()


@pytest.mark.parametrize("kept_as_a_log", [False, True])
def test_learning_rates_are_written_in_the_unit_of_the_study(
    kept_as_a_log: bool, study: Path, call: Call, tmp_path: Path
) -> None:
    settings = study / "study.toml"
    before = read_study(study)
    head = settings.read_text().split("[runs.")[0].replace("[study]\n", "[study]\nlr_unit = 1e-4\n")
    settings.write_text(f"{head}\n{runs_text(before.runs, 1e-4)}")
    log = tmp_path / "log.csv"
    rates = [3e-4, 1e-4, 2e-4, 1.7e-4, 2.9e-4] if kept_as_a_log else [2e-4] * 5
    rows = [f"{i},{rate},3.{i},2.{i}\n" for i, rate in enumerate(rates, start=1)]
    log.write_text("step,lr,eval_general_loss,eval_target_loss\n" + "".join(rows))
    assert call("import", "csv", log, "--study", study, "--run", "x", "--replay", 0).code == 0
    after = read_study(study)
    assert after.run("x").schedule.is_logged == kept_as_a_log
    np.testing.assert_allclose(after.run("x").schedule.learning_rates(), rates)
    np.testing.assert_allclose(after.runs[0].schedule.peak, before.runs[0].schedule.peak)


def test_what_is_odd_is_said_of_the_study_itself(study: Path, call: Call, tmp_path: Path) -> None:
    """All is checked in a copy, which nobody finds afterwards."""
    log = tmp_path / "log.csv"
    log.write_text(rows())
    answer = call("import", "csv", log, "--study", study, "--run", "other", "--replay", 0.5)
    assert answer.code == 0
    odd = next(line for line in answer.err.splitlines() if "the loss 2.5 of the base" in line)
    assert f"{study / 'losses.csv'}, line " in odd


def test_a_grown_log_updates_a_run_without_options(study: Path, call: Call, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    lines = WIDE.splitlines(keepends=True)
    log.write_text("".join(lines[:120]))
    line = ("import", "csv", log, "--study", study, "--run", "long")
    assert call(*line, "--replay", 0, "--total-steps", 200).code == 0
    assert not read_study(study).run("long").schedule.is_logged
    log.write_text(WIDE)
    told = call(*line, "--phase", "cpt", "--json").json()
    assert (told["run"], told["phase"]) == ("long", "cpt")
    assert told["kept"] + told["added"] == 42
    assert told["added"] == 18
    run = read_study(study).run("long")
    assert [segment.steps for segment in run.schedule.segments] == [10, 140, 50]
    # A rotated log has only the end; what the study has already stays.
    log.write_text("".join([lines[0], *lines[150:]]))
    answer = call(*line, "--rate", "train/learning_rate")
    assert answer.code == 0
    assert "losses that the log has no more were kept" in answer.out
    assert read_study(study).curve("long", "target")[0].size == 21
    assert read_study(study).run("long").schedule == run.schedule


def test_a_stated_schedule_is_checked_by_the_log(study: Path, call: Call, tmp_path: Path) -> None:
    (study / "imports.toml").unlink()
    log = tmp_path / "log.csv"
    log.write_text(rows(steps=[0, 100, 200, 300], lr="0.001"))
    said = ("run r00, step 100", "0.001", "by the stated schedule", "study.toml")
    check_refused(call, study, said, "csv", log, "--run", "r00")


def test_steps_in_tokens_and_losses_in_bits(study: Path, call: Call, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("tokens,eval_target_bits,lr\n20480,4.2,0.001\n40960,4.0,0.001\n")
    line = ("import", "csv", log, "--study", study, "--run", "bits", "--replay", 0.5)
    assert call(*line, "--step-unit", "tokens", "--per-step", 2048, "--unit", "bits").code == 0
    steps, losses = read_study(study).curve("bits", "target")
    assert steps.tolist() == [10, 20]
    assert losses.tolist() == pytest.approx([4.2 * math.log(2), 4.0 * math.log(2)])


def test_a_log_read_in_a_wrong_unit_is_read_again(study: Path, call: Call, tmp_path: Path) -> None:
    """What the first reading made of it does not stay beside the second."""
    log = tmp_path / "log.csv"
    log.write_text("step,eval_target_loss,lr\n160,4.2,0.001\n320,4.0,0.001\n")
    line = ("import", "csv", log, "--study", study, "--run", "read", "--replay", 0.5)
    assert call(*line).code == 0
    answer = call(*line, "--step-unit", "samples", "--per-step", 16)
    assert answer.code == 0
    assert "2 losses that were read otherwise left" in answer.out + answer.err
    assert read_study(study).curve("read", "target")[0].tolist() == [10, 20]
    assert read_study(study).run("read").schedule.steps == 20


@pytest.mark.parametrize(
    ("steps", "left"), [([0, 10, 20], []), ([0, 15, 25], []), ([32, 42, 50], STEPS)]
)
def test_a_log_of_another_run_does_not_take_the_place_of_one(
    steps: list[int], left: list[int], study: Path, call: Call, tmp_path: Path
) -> None:
    """One that goes on is of the same run; the loss of the base, at step 0, is that of all runs."""
    log, other = tmp_path / "log.csv", tmp_path / "other.csv"
    log.write_text(rows())
    other.write_text(rows(steps=steps[:1]) + rows(0.9, steps[1:]).removeprefix(TINY))
    line, place = ("csv", other, "--run", "x"), ("--study", study)
    assert call("import", "csv", log, *place, "--run", "x", "--replay", 0.5).code == 0
    if not left:
        said = ("run x", "other.csv", "none of the 10 losses", "its own run", "--overlap last")
        check_refused(call, study, said, *line)
    told = call("import", *line, *place, *(() if left else ("--overlap", "last")), "--json").json()
    assert (told["kept"], told["added"]) == (2 * len(left), 2 * len(steps))


class Damaged(NamedTuple):
    """A damaged log: how it is made, further options, and what the answer must say."""

    id: str
    make: Callable[[Path], object]
    fragments: tuple[str, ...]
    kind: str = "auto"
    name: str = "log.csv"
    options: tuple[str, ...] = ()
    library: str = ""


def text(content: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(content)


def cut(source: Path, share: float, flip: int | None = None) -> Callable[[Path], object]:
    def make(path: Path) -> None:
        content = bytearray(source.read_bytes())
        if flip is not None:
            content[flip] ^= 0xFF
        path.write_bytes(bytes(content[: int(share * len(content))]))

    return make


def nested(path: Path) -> None:
    shutil.copytree(LOGS / "hf", path)
    shutil.rmtree(path / "r00")


EVENTS = LOGS / "tensorboard" / "events.out.tfevents.1.tiny.0"
STATE = HF / "r25" / "trainer_state.json"


DAMAGED = [
    Damaged("empty", text(""), ("log.csv", "no row")),
    Damaged("header only", text(TINY), ("there is no row", "at least one evaluation")),
    Damaged("no step column", text("a,eval_loss\n1,2\n"), ("no column is called step", "--step COLUMN")),
    Damaged("short line", text(rows() + "50,2.5\n"), ("line 7", "2 cells, the header 4", "Give it the cells")),
    Damaged("open quotes", text(rows() + '"50,2.5,3\n'), ("not CSV", "Close the quotes")),
    Damaged("NaN loss", text(rows() + "50,nan,3,0.001\n"), ("line 7", "is nan at step 50", "--drop-nan")),
    Damaged("row without step", text(rows() + ",2.5,3.5,0.001\n"), ("line 7", "the step is ''")),
    Damaged("two answers for a step", text(rows() + "40,2.6,3.5,0.001\n"),
            ("line 7", "2.6 at step 40, but 2.5", "line 6", "--overlap last")),
    Damaged("perplexities", text("step,val_ppl,lr\n10,20,0.001\n"), ("val_ppl", "perplexity", "--unit perplexity")),
    Damaged("perplexities called losses", text(rows(30.0)), ("75", "uniform guess", "--unit perplexity")),
    Damaged("log-likelihoods", text(rows(-1.0)), ("-2.5", "sign")),
    Damaged("tokens as steps", text(rows(steps=[0, 20_000_000, 40_000_000])),
            ("20000000 is more than any run has", "--step-unit tokens")),
    Damaged("samples as steps", text(rows().replace("step", "consumed_samples")),
            ("it counts samples", "--step-unit samples", "--per-step N")),
    Damaged("epochs as steps", text(rows().replace("\n10,", "\n0.25,")), ("0.25 is not a whole number", "--step COLUMN")),
    Damaged("training losses only", text("step,loss,lr\n10,2.5,0.001\n"), ("no series is called a validation loss", "--loss")),
    Damaged("no learning rate", text(rows().replace("lr", "speed")), ("no learning rate is in", "--rate", "--schedule")),
    Damaged("learning rate of 2", text(rows(lr="2.0")), ("peak learning rate is 2", "raw learning rates")),
    Damaged("not UTF-8", lambda path: path.write_bytes(rows().encode() + b"\xff\xff"), ("byte", "is not UTF-8")),
    Damaged("null bytes", lambda path: path.write_bytes(rows().encode() + b"\0\0"), ("null byte",)),
    Damaged("state cut off", cut(STATE, 0.5), ("trainer_state.json", "not JSON", "cut off"), name="trainer_state.json"),
    Damaged("state without history", text('{"max_steps": 5}'), ("no log_history",), "hf", "trainer_state.json"),
    Damaged("no checkpoint", nested, ("no trainer_state.json here",), "hf", "folder"),
    Damaged("line of JSON broken", text('{"step": 1}\n{"step": \n{"step": 3}\n'), ("line 2", "not JSON"), name="log.jsonl"),
    Damaged("event damaged", cut(EVENTS, 1.0, flip=2), ("event 1", "failed header crc32"), name="events.tfevents", library="tensorboard"),
    Damaged("run of W&B", text("a"), ("is not read", "Export the history"), name="run.wandb"),
    Damaged("Parquet cut off", cut(LOGS / "tables" / "wide.parquet", 0.5), ("not a Parquet file",), name="log.parquet"),
    Damaged("unknown set", text("step,eval_x_loss,lr\n0,2,\n10,2,0.001\n"),
            ("series eval_y_loss", "there is no series", "did you mean 'eval_x_loss'"), options=("--loss", "eval_y_loss=general")),
    Damaged("wrong kind", text("nothing\nat all\n"), ("none of its 2 lines", "olmo", "name its kind"), "olmo", "out.log"),
    Damaged("unknown kind", text(rows()), ("no kind 'hff'", "did you mean 'hf'"), "hff"),
    Damaged("not there", lambda path: None, ("no such file or folder", "spelling")),
]  # fmt: skip


@pytest.mark.parametrize("case", DAMAGED, ids=[case.id for case in DAMAGED])
def test_damaged_logs_are_refused_and_nothing_is_written(
    case: Damaged, study: Path, call: Call, tmp_path: Path
) -> None:
    if case.library:
        pytest.importorskip(case.library)
    path = tmp_path / case.name
    case.make(path)
    line = (case.kind, path, "--run", "new", "--replay", 0.5, *case.options)
    check_refused(call, study, case.fragments, *line)
    fresh = tmp_path / "fresh"
    answer = call("init", fresh, f"new={path}", "--kind", case.kind, "--open-base", "base",
                  "--general", "general", "--target", "target", "--replay", "new=0.5", *case.options)  # fmt: skip
    check_refusal(answer, case.fragments)
    assert not fresh.exists()


@pytest.mark.parametrize(
    ("options", "fragments"),
    [
        ((), ("key replay", "--replay")),
        (("--replay", "0.5", "--base", "nothing"), ("base 'nothing' is unknown", "name one of base")),
        (("--replay", "50"), ("replay is 50", "write 0.5 for 50 %")),
        (("--replay", "0.5", "--step-unit", "tokens"), ("nothing says how many tokens a step takes", "--per-step")),
        (("--replay", "0.5", "--overlap", "both"), ("key overlap", "first")),
        (("--replay", "0.5", "--loss", "nothing"), ("--loss", "not a pair")),
    ],
)  # fmt: skip
def test_what_is_missing_or_wrong_beside_the_log(
    options: tuple[str, ...], fragments: tuple[str, ...], study: Path, call: Call
) -> None:
    check_refused(call, study, fragments, "hf", HF / "r25", "--run", "r25", *options)


@pytest.mark.parametrize("wrong", ['study = "mine"', ""])
def test_a_study_without_its_table_is_refused(wrong: str, study: Path, call: Call) -> None:
    settings = study / "study.toml"
    text = settings.read_text()
    settings.write_text(f"{wrong}\n{text[text.index('[bases') :]}")
    check_refused(call, study, ("study.toml",), *R25)

"""Logs as public trainers write them, with numbers of ours: read rightly or refused, never wrongly."""

import bz2
import gzip
import json
import lzma
import math
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from bayes_cpt.errors import StudyError
from bayes_cpt.study.logs.reading import Log, Reading
from bayes_cpt.study.schedules import cosine

STEPS = [0, 10, 20, 30]
VAL = {0: 3.0, 10: 2.9, 20: 2.8, 30: 2.7}


def read(path: Path, text: str, **keys: Any) -> Log:
    path.write_text(text)
    return Reading(paths=(str(path),), **keys).read()


def steps_of(log: Log) -> list[int]:
    return [step for step, *_ in log.losses]


def refused(path: Path, text: str, *fragments: str, **keys: Any) -> None:
    with pytest.raises(StudyError) as caught:
        read(path, text, **keys)
    for fragment in fragments:
        assert fragment in str(caught.value)


# The counter.


OWN_COUNTERS = (
    "train/global_step trainer/global_step global_step gradient_step opt_step iter iteration current_steps "
    "train/step update iter_num"
)


@pytest.mark.parametrize("own", [*OWN_COUNTERS.split(), "Global Step"])
def test_the_trainers_counter_goes_before_calls(own: str, tmp_path: Path) -> None:
    rows = [f"{i},{step},{VAL[step]}\n" for i, step in enumerate(STEPS)]
    log = read(tmp_path / "a.csv", f"_step,{own},eval/loss\n" + "".join(rows))
    assert steps_of(log) == STEPS
    assert any(f"by the column {own!r}, not by _step" in note for note in log.notes)


@pytest.mark.parametrize("own", ["global_step", "opt_step", "optimizer/step"])
@pytest.mark.parametrize("other", ["iter", "step", "batch_idx", "micro_step", "step_time"])
def test_optimiser_steps_go_before_batches(own: str, other: str, tmp_path: Path) -> None:
    rows = [f"{4 * step},{step},{VAL[step]}\n" for step in STEPS]
    assert steps_of(read(tmp_path / "a.csv", f"{other},{own},val_loss\n" + "".join(rows))) == STEPS


@pytest.mark.parametrize("header", ["epoch,step", "x,trainer/global_step", "x,step"])
def test_programs_that_count_from_0(header: str, tmp_path: Path) -> None:
    """Lightning and MaxText evaluate before they count the step; a base validated first stands at 0."""
    rates = cosine(40, 1e-4, warmup_steps=10).learning_rates()
    logged = [(9, 2.9), (19, 2.8), (29, 2.7), (39, 2.6)]
    rows = ["0,0,,3.0\n", *(f"0,{step},{rates[step]:.9g},{loss}\n" for step, loss in logged)]
    log = read(tmp_path / "metrics.csv", f"{header},lr-AdamW,val_loss\n" + "".join(rows))
    assert steps_of(log) == [0, 10, 20, 30, 40]
    assert [step for step, _ in log.rates] == [10, 20, 30, 40]
    assert any("counted from 0, as evaluations" in note for note in log.notes)
    # The last evaluation is at the end of the run.
    end = "".join([*rows, "0,44,1e-6,2.5\n"])
    assert steps_of(read(tmp_path / "a.csv", f"{header},lr,val_loss\n{end}"))[-2:] == [40, 45]
    # A trainer that counts from 1, and one that counts other things.
    even = [f"0,{step + 1},{loss}\n" for step, loss in logged]
    assert steps_of(read(tmp_path / "b.csv", f"{header},val_loss\n{''.join(even)}"))[0] == 10
    # A resumed run has a file of its own.
    late = "".join(f"10,{step},,2.9\n" for step in (154813, 168887, 182961, 197035))
    resumed = read(tmp_path / "b.csv", f"{header},lr,val_loss\n{late}")
    assert steps_of(resumed) == [154814, 168888, 182962, 197036]
    odd = [f"0,{step},{loss}\n" for step, loss in enumerate((2.9, 2.8, 2.7), start=1)]
    assert steps_of(read(tmp_path / "b.csv", f"{header},val_loss\n" + "".join(odd))) == [1, 2, 3]


def test_calls_of_wandb_are_no_steps(tmp_path: Path) -> None:
    """Evaluations have rows of their own: the count is one of calls."""
    rows = [{"_step": 2 * i, "train/loss": 3.0} for i in range(4)]
    rows += [{"_step": 2 * i + 1, "eval/loss": value} for i, value in enumerate(VAL.values())]
    text = "\n".join(json.dumps(row) for row in sorted(rows, key=lambda row: row["_step"]))
    refused(tmp_path / "a.jsonl", text, "count of calls", "train/global_step", "--step _step")
    assert steps_of(read(tmp_path / "a.jsonl", text, step="_step")) == [1, 3, 5, 7]
    # Of a history some rows were exported; the Trainer of Hugging Face alone measures the time.
    sparse = "\n".join(json.dumps({**row, "_step": 3 * row["_step"]}) for row in rows)
    refused(tmp_path / "a.jsonl", sparse, "count of calls")
    refused(tmp_path / "a.csv", "_step,eval/loss,eval/runtime\n10,2.9,1\n21,2.8,1\n", "of calls")


def test_two_columns_that_could_be_the_step_are_named(tmp_path: Path) -> None:
    """LitGPT's step counts micro-batches from 0, its iter from 1."""
    text = "iter,lr,val_loss,step\n40,1e-4,,39\n,,2.5,39\n80,1e-4,,79\n,,2.4,79\n"
    path = tmp_path / "a.csv"
    refused(
        path, text, "two columns could be the step", "step is 39", "iter is 40", "micro-batches"
    )
    log = read(path, text, step="step", step_unit="micro-batches", per_step=4)
    assert steps_of(log) == [10, 20]
    assert [step for step, _ in log.rates] == [10, 20]
    assert steps_of(read(path, text.replace("iter", "loader"))) == [40, 80]


@pytest.mark.parametrize(
    ("column", "unit", "factor", "cells"),
    [
        ("epoch", "epochs", {"per_epoch": 20}, "0.5 1 1.5"),
        ("num_input_tokens_seen", "tokens", {"per_step": 512}, "5120 10240 15360"),
        ("training_iteration", "epochs", {"per_epoch": 10}, "1 2 3"),
        ("consumed_samples", "samples", {"per_step": 8}, "80 160 240"),
    ],
)
def test_what_is_no_step_needs_its_size(
    column: str, unit: str, factor: dict[str, float], cells: str, tmp_path: Path
) -> None:
    text = f"{column},val_loss\n" + "".join(f"{cell},2.5\n" for cell in cells.split())
    option = next(iter(factor)).replace("_", "-")
    refused(tmp_path / "a.csv", text, f"it counts {unit}", f"--step-unit {unit}", option)
    refused(tmp_path / "a.csv", text, f"it counts {unit}", step=column)
    assert steps_of(read(tmp_path / "a.csv", text, step_unit=unit, **factor)) == [10, 20, 30]


# Numbers.


@pytest.mark.parametrize(
    "step", ["1,000", "1.000", "1 000", "1'000", "1k", "1_000", "1000.0", "1\u202f000"]
)
def test_thousands_are_read_where_they_can_mean_nothing_else(step: str, tmp_path: Path) -> None:
    half, value = ("500.0", "2.87") if step.endswith("0.0") else ("500", "2.8708")
    if step == "1.000":
        value = "2,8708"
    log = read(tmp_path / "a.csv", f'step,val_loss\n{half},"{value}"\n"{step}","{value}"\n')
    loss = float(value.replace(",", "."))
    assert log.losses == ((500, "val", loss), (1000, "val", loss))


def test_cells_that_hold_no_number_are_named(tmp_path: Path) -> None:
    text = "step,val_loss\n0,3.0\n10,2.9*\n20,2.8 (rerun)\n30,#N/A\n40,\n50,N/A\n60,--\n70,--\n"
    log = read(tmp_path / "a.csv", text)
    assert steps_of(log) == [0]
    said = " ".join(log.notes)
    blank = "3 cells of val_loss are taken as empty: N/A, --"
    for cell in ("'2.9*'", "'2.8 (rerun)'", "'#N/A'", "a.csv, line 5", blank):
        assert cell in said
    none = "step,val_loss\n0,x\n10,y\n"
    refused(tmp_path / "a.csv", none, "no cell of val_loss holds a number", "'x'")
    rows = '{"step": 0, "val_loss": 3.0}\n{"step": 10, "val_loss": [2.9]}\n{"step": 20, "val_loss": true}\n'
    said = " ".join(read(tmp_path / "a.jsonl", rows).notes)
    assert "'[2.9]' (" in said
    assert "'True' (" in said


# One measurement once.

NEMO = (
    "Training epoch 0, iteration {0}/99 | lr: 1e-05 | global_batch_size: 8 | global_step: {0} | "
    "reduced_train_loss: 3.{0} | consumed_samples: 80{1}\n"
)


def test_a_value_that_is_carried_along_is_taken_once(tmp_path: Path) -> None:
    measured = (f" | val_loss: {3 - i // 4 / 10}" if i > 3 else "" for i in range(12))
    log = read(tmp_path / "a.log", "".join(map(NEMO.format, range(12), measured)))
    assert log.losses == ((4, "val", 2.9), (8, "val", 2.8))
    assert any("carry the last measurement along" in note for note in log.notes)
    trained = "".join(NEMO.format(i, "").replace(f"3.{i}", "3.01") for i in range(12))
    log = read(tmp_path / "b.log", trained, losses={"reduced_train_loss": "train"})
    assert steps_of(log) == list(range(1, 13))
    filled = "".join(f"{i},3.{i},{3 - i // 3 / 10}\n" for i in range(9))
    assert steps_of(read(tmp_path / "a.csv", f"step,train_loss,val_loss\n{filled}")) == [0, 3, 6]


def test_single_losses_above_a_guess_are_no_perplexities(tmp_path: Path) -> None:
    rows = "".join(f"{10 * k},{17.0 if k == 2 else 4.0}\n" for k in range(1, 41))
    assert read(tmp_path / "a.csv", f"step,val_loss\n{rows}").losses[1] == (20, "val", 17.0)


@pytest.mark.parametrize(
    ("values", "steps"),
    [
        # An evaluation at once after another, and only two.
        ([3.01234, *[2.99876] * 9, *[2.87654] * 5], [0, 1, 10]),
        ([2.98765] * 5 + [2.87654] * 5, [0, 5]),
        ([2.99] * 5 + [2.87] * 5, [0, 5]),
        # The log begins within a block; precise losses, each in two rows.
        ([3.01234, *[2.98765] * 2, *[2.97654] * 2, *[2.96543] * 2, 2.95432], [0, 1, 3, 5, 7]),
        ([3.01, *[2.98] * 2, *[2.97] * 2, *[2.96] * 2, 2.95], list(range(8))),
        # A plateau of few digits is no value that is carried along, nor are losses of few digits.
        ([2.8, 2.8, 2.9, 2.9, 3.0, 3.0, 3.1], [0, 1, 2, 3, 4, 5, 6]),
        # The end of a decay.
        ([3.2744, 3.2741, 3.2737, 3.2733, 3.2731, 3.2731, 3.2731], [0, 1, 2, 3, 4, 5, 6]),
        ([3.1, 2.9, 2.87, 2.87, 2.87, 2.86], [0, 1, 2, 3, 4, 5]),
    ],
)
def test_what_is_carried_along(values: list[float], steps: list[int], tmp_path: Path) -> None:
    rows = [f"{step},{3 - step / 100},{value}\n" for step, value in enumerate(values)]
    assert steps_of(read(tmp_path / "a.csv", "step,train_loss,val_loss\n" + "".join(rows))) == steps


def state(path: Path, entries: list[dict[str, Any]], steps: int = 30) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"max_steps": steps, "log_history": entries}))


def evaluated(values: dict[int, float]) -> list[dict[str, Any]]:
    return [
        {"step": step, **logged}
        for step, value in values.items()
        for logged in ({"loss": value + 0.1, "learning_rate": 1e-4}, {"eval_loss": value})
    ]


def test_the_best_model_evaluated_at_the_end_is_not_the_run(tmp_path: Path) -> None:
    path = tmp_path / "trainer_state.json"
    state(path, [*evaluated(VAL), {"step": 30, "eval_loss": 2.65}])
    log = Reading(paths=(str(path),)).read()
    assert log.losses[-1] == (30, "val", 2.7)
    assert any("second evaluation of step 30" in note for note in log.notes)
    # A job that goes on from its last checkpoint, and evaluates that first.
    state(path, [*evaluated(VAL), {"step": 30, "eval_loss": 2.71}, *evaluated({40: 2.6})])
    log = Reading(paths=(str(path),)).read()
    assert log.losses[3:] == ((30, "val", 2.71), (40, "val", 2.6))
    assert any("logged twice the resumed job's counts" in note for note in log.notes)
    # In any log, where it is the evaluation of an earlier step again.
    text = "step,val_loss\n0,3.0\n10,2.5\n20,2.8\n20,2.5\n"
    assert read(tmp_path / "a.csv", text).losses[-1] == (20, "val", 2.8)
    refused(tmp_path / "b.csv", text.replace("20,2.5", "20,2.4"), "--overlap first", "best")


def test_two_evaluations_at_many_steps_are_of_two_sets(tmp_path: Path) -> None:
    path = tmp_path / "trainer_state.json"
    state(path, [{"step": step, "eval_loss": own} for step in VAL for own in (VAL[step], 3.5)])
    with pytest.raises(StudyError, match="two validation sets under one name"):
        Reading(paths=(str(path),)).read()
    log = Reading(paths=(str(path),), overlap="first").read()
    assert [loss for *_, loss in log.losses] == list(VAL.values())


@pytest.mark.parametrize("name", ["lr_mult", "peak_lr", "args/lr", "config/lr", "lr_max", "log_lr"])
def test_what_is_no_learning_rate(name: str, tmp_path: Path) -> None:
    assert not read(tmp_path / "a.csv", f"step,val_loss,{name}\n10,2.9,0.5\n").rates
    log = read(tmp_path / "a.csv", f"step,val_loss,{name},lr_b,lr_a,lr_c\n10,2.9,1,.02,1e-3,1e-4\n")
    assert "rate is the series lr_b, not lr_a, lr_c (--rate)" in " ".join(log.notes)


def test_a_resumed_job_counts_and_two_runs_are_named(tmp_path: Path) -> None:
    resumed = "step,val_loss\n0,3.0\n10,2.9\n20,2.8\n10,2.91\n20,2.81\n30,2.7\n"
    log = read(tmp_path / "a.csv", resumed)
    assert log.losses[1:3] == ((10, "val", 2.91), (20, "val", 2.81))
    assert any("the job was resumed" in note for note in log.notes)
    anew = "step,val_loss\n0,3.0\n10,2.9\n0,3.1\n10,2.8\n"
    refused(tmp_path / "a.csv", anew, "the log of two runs", "--overlap last")
    # Though the second has no step 0, or other steps.
    whole = "".join(f"{step},2.9{step}\n" for step in range(0, 300, 20))
    for again in (whole[len("0,2.90\n") :].replace("2.9", "2.8"), whole.replace("0,", "5,")):
        refused(tmp_path / "a.csv", f"step,val_loss\n{whole}{again}", "the log of two runs")
    # What a job that was resumed has not reached again is of the run that was given up.
    steps = "".join(f"{step},2.{900 - step}\n" for step in range(0, 101, 10))
    goes_on = f"step,val_loss\n{steps}60,2.7\n70,2.6\n80,2.5\n"
    reached = [read(tmp_path / "a.csv", goes_on, overlap=o).last_step for o in ("first", "last")]
    assert reached == [100, 80]
    # One evaluation again, between others.
    text = "step,val_loss;50,;100,2.9;150,;80,;100,2.91;150,;160,;170,;180,;190,;200,2.8;"
    once = read(tmp_path / "a.csv", text.replace(";", ",1e-4\n").replace("1e-4", "lr", 1))
    assert once.losses == ((100, "val", 2.91), (200, "val", 2.8))
    # Numbers of a model tell no runs apart.
    flops = re.sub(r"(\d)\n", lambda end: f"{end[1]},4{end.start()}.5\n", resumed)
    flops = flops.replace("loss\n", "loss,model_flops\n")
    assert read(tmp_path / "a.csv", flops).losses == log.losses
    mixed = read(tmp_path / "a.csv", "step,val_loss\n0,3.0\n20,2.8\n10,2.9\n")
    assert any("rows are not in the order of steps" in note for note in mixed.notes)
    header, *rows = resumed.splitlines(keepends=True)
    again = "".join([header, *rows[:3], header, *rows[3:]])
    assert read(tmp_path / "a.csv", again).losses == log.losses
    falling = read(tmp_path / "a.csv", "step,val_loss\n20,2.8\n10,2.9\n0,3.0\n")
    late = read(tmp_path / "a.csv", "step,val_loss\n0,3.0\n10,2.9\n20,2.8\n", start=10)
    assert late.losses == ((0, "val", 2.9), (10, "val", 2.8))
    assert not any("the job was resumed" in note for note in (*late.notes, *falling.notes))


@pytest.mark.parametrize("overlap", ["refuse", "last"])
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("by_step", [False, True])
@pytest.mark.parametrize("column", ["arm", "run_id", "seed", "replay", "model_name", "my_mix"])
def test_tables_of_several_runs(
    column: str, by_step: bool, late: bool, overlap: str, tmp_path: Path
) -> None:
    """The column that tells runs apart is named, in either order of the rows, and by `watch` too.

    One that begins later is no resumed job.
    """
    names = ("0", "0.25") if column in ("seed", "replay") else ("a", "b")
    rows = [
        (step, name, VAL[step] - place / 10)
        for place, name in enumerate(names)
        for step in STEPS[place if late else 0 :]
    ]
    if by_step:
        rows.sort()
    text = f"step,{column},val_loss\n" + "".join(f"{s},{own},{loss:.2f}\n" for s, own, loss in rows)
    path = tmp_path / "a.csv"
    refused(path, text, "rows of 2 runs", ", ".join(names), "--row-run", overlap=overlap)
    assert read(path, text, row_run=names[1]).losses[-1] == (30, "val", 2.6)


@pytest.mark.parametrize(
    ("column", "names"),
    [
        *((own, ("a", "b")) for own in ("experiment", "config", "Name", "run_id", "run_name", "group")),
        *((own, ("1", "2")) for own in ("seed", "job_id", "replay_ratio", "peak_lr")),
    ],
)  # fmt: skip
def test_runs_in_one_table_that_were_evaluated_at_other_steps(
    column: str, names: tuple[str, str], tmp_path: Path
) -> None:
    """One after the other; a job that was resumed under another name begins where the first one ended."""

    def text(begin: int) -> str:
        starts = zip((0, begin), names, strict=True)
        steps = [(start + step, own) for start, own in starts for step in STEPS]
        rows = [
            json.dumps({"step": step, column: own, "val_loss": 2.9}) + "\n" for step, own in steps
        ]
        return "".join([*rows, '{"step": 5, "loss": 3.0}\n'])

    path = tmp_path / "a.jsonl"
    both = (
        f"column {column}: there are rows of 2 runs: {', '.join(names)}. Say which one, --row-run"
    )
    refused(path, text(5), both)
    refused(
        tmp_path / "b.csv", "step,{},val_loss\n9,{},2.9\n9,{},2.8\n".format(column, *names), both
    )
    assert steps_of(read(path, text(5), row_run=names[1])) == [5, 15, 25, 35]
    log = read(path, text(30))
    assert steps_of(log)[-1] == 60
    assert any(f"by {column}, one after the other: taken as one job" in note for note in log.notes)


def test_checkpoints_of_one_run_merge_and_of_two_are_refused(tmp_path: Path) -> None:
    values = {10 * i: 3.0 - 0.01 * i for i in range(18)}
    for last in list(values)[1:]:
        until = {step: value for step, value in values.items() if step <= last}
        state(tmp_path / "out" / f"checkpoint-{last}" / "trainer_state.json", evaluated(until), 170)
    # A state of the output folder may be older than the newest checkpoint.
    state(tmp_path / "out" / "trainer_state.json", evaluated({0: 3.0, 10: 2.99}), 10)
    log = Reading(paths=(str(tmp_path / "out"),)).read()
    assert log.losses == tuple((step, "val", value) for step, value in values.items())
    assert log.stated.steps == 170
    assert any("the newest is checkpoint-170" in note for note in log.notes)
    state(
        tmp_path / "out" / "checkpoint-900" / "trainer_state.json", evaluated({0: 3.0, 5: 2.5}), 900
    )
    with pytest.raises(StudyError, match=r"two runs.*checkpoint-"):
        Reading(paths=(str(tmp_path / "out"),)).read()


def test_entries_without_a_step_are_left_out_and_said(tmp_path: Path) -> None:
    path = tmp_path / "trainer_state.json"
    state(path, [*evaluated(VAL), {"train_runtime": 5.0, "train_loss": 3.0}, {"test_loss": 2.2}])
    assert steps_of(Reading(paths=(str(path),), losses={"eval_loss": "val"}).read()) == STEPS
    both = Reading(paths=(str(path),)).read()
    assert any("2 entries without a step" in note and "test_loss" in note for note in both.notes)
    rows = [{"step": step, "val_loss": loss} for step, loss in VAL.items()] + [{"test_loss": 2.2}]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    log = read(tmp_path / "metrics.jsonl", lines)
    assert (steps_of(log), log.domains) == (STEPS, ("val",))
    assert any("1 entries without a step" in note and "test_loss" in note for note in log.notes)


# Files.


def test_packed_logs_are_read(tmp_path: Path) -> None:
    text = "step,val_loss\n0,3.0\n10,2.9\n"
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.writestr("b.csv", text)
    for name, pack in (("a.csv.gz", gzip), ("a.csv.bz2", bz2), ("a.csv.xz", lzma), ("b.zip", None)):
        if pack is not None:
            (tmp_path / name).write_bytes(pack.compress(text.encode()))
        assert steps_of(Reading(paths=(str(tmp_path / name),)).read()) == [0, 10]


@pytest.mark.parametrize(
    ("heading", "counts"),
    [
        ("Tokens (B)", ["0.1311", "0.2621", "0.3932"]),
        ("tokens", ["131.1M", "262.1M", "393.2M"]),
        ("tokens", ["131000000", "262000000", "393000000"]),
    ],
)
def test_rounded_tokens_are_steps(heading: str, counts: list[str], tmp_path: Path) -> None:
    text = f"{heading},val_loss\n" + "".join(f"{count},2.9{count[2]}\n" for count in counts)
    keys: dict[str, Any] = {"step_unit": "tokens", "per_step": 2.0**19}
    if counts[0].isdigit():
        refused(tmp_path / "a.csv", text, "not a whole number", "into a column", **keys)
    else:
        assert steps_of(read(tmp_path / "a.csv", text, **keys)) == [250, 500, 750]
        refused(tmp_path / "a.csv", text, "not a whole number", **keys | {"per_step": 500_000.0})


@pytest.mark.parametrize("name", ["state.gz", "one.zip"])
def test_what_is_packed_says_its_kind(name: str, tmp_path: Path) -> None:
    state(tmp_path / "trainer_state.json", evaluated({10: 2.9, 20: 2.8}))
    plain = json.dumps(json.loads((tmp_path / "trainer_state.json").read_text()), indent=1)
    if name == "one.zip":
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("out/trainer_state.json", plain)
            archive.writestr("__MACOSX/out/._trainer_state.json", "")
    else:
        (tmp_path / name).write_bytes(gzip.compress(plain.encode()))
    assert steps_of(Reading(paths=(str(tmp_path / name),)).read()) == [10, 20]


@pytest.mark.parametrize(
    ("series", "other"),
    [
        ("lm loss validation", "lm loss validation vs samples"), ("val_loss", "val_loss vs tokens"),
        ("val/loss", "val/loss_ema"), ("val_loss", "best_val_loss"), ("val_loss", "final_val_loss"), ("eval/loss", "eval/loss_std"),
        ("val_loss", "val_aux_loss"), ("eval/loss", "eval/loss (smoothed)"), ("eval/avg_loss", "eval/total_loss"),
        ("val_loss", "val_loss_moving_avg"), ("valid/loss", "valid/loss_upper_95"), ("val_loss", "train_val_loss_gap"), ("eval/loss", "eval/moe_lb_loss"), ("val_loss_epoch", "val_loss_step"), ("eval_loss", "eval_loss_sum"),
        ("train/val_loss", "val_loss_rank1"), ("val_loss", "val_loss_p90"), ("val_loss", "val_loss_timestamp"), ("val_loss", "val_loss_count"), ("val_loss", "val_loss (summed)"),
        ("eval/loss", "eval/loss_per_sequence"), ("eval/CE loss", "eval/downstream/boolq (CE loss v2)"),
    ],
)  # fmt: skip
def test_other_numbers_are_no_sets(series: str, other: str, tmp_path: Path) -> None:
    log = read(tmp_path / "a.csv", f"step,{series},{other}\n0,3.0,3.0\n10,2.9,2.9\n")
    assert log.domains == ("val",)
    assert any(f"{other}: against another axis" in note for note in log.notes)


def test_a_set_in_another_unit_is_left_out_and_said(tmp_path: Path) -> None:
    text = "step,eval_general_loss,eval_general_ppl,eval_target_ppl\n10,2.9,18.2,20\n"
    log = read(tmp_path / "a.csv", text)
    assert log.domains == ("general",)
    assert "eval_target_ppl: sets measured in perplexity; left out" in " ".join(log.notes)


@pytest.mark.parametrize(
    ("text", "keys", "steps"),
    [
        *(
            (f"{heading},val_loss\n0,3.0\n0.5,2.9\n1,2.8\n", keys, [0, 500, 1000])
            for heading, keys in (
                ("Steps (k)", {}),
                ("Iteration [thousands]", {"step": "Iteration [thousands]"}),
                ("Tokens (M)", {"step_unit": "tokens", "per_step": 1000.0}),
            )
        ),
        # Decimals, as a longer number among them says.
        ("step,val_loss\n50.000,2.87\n100.000,2.8\n1000.000,2.7\n", {}, [50, 100, 1000]),
        # Losses at the end of a decay may be the same.
        ("".join(f"s:{step} tel:{loss}\ns:{step} trl:3.3 lr:0.0\n" for step, loss in ((19000, 3.2733), (19250, 3.2731), (19500, 3.2731), (19552, 3.2731))), {}, [19000, 19250, 19500, 19552]),
    ],
)  # fmt: skip
def test_steps_are_whole(text: str, keys: dict[str, Any], steps: list[int], tmp_path: Path) -> None:
    assert steps_of(read(tmp_path / "main.log", text, **keys)) == steps


# Lines as each program prints them, and what they say: losses, rates, announced steps.
MEGATRON = " iteration {0:8}/      30 | consumed samples: 160 | learning rate: {1} | global batch size: 16 | lm loss: 3.1 |\n"
FORMATS: dict[str, tuple[str, list[tuple[int, str, float]], int, int | None]] = {
    "megatron": (
        MEGATRON.format(10, "1.0E-04")
        + " validation-0 loss at iteration 10 | lm loss value: 2.9E+00 | lm loss PPL: 18 | \n"
        " validation-1 loss at iteration 10 | lm loss value: 3.9E+00 | lm loss PPL: 49 | \n"
        " validation loss at iteration 10 on validation set | lm loss value: 2.2E+00 | lm loss PPL: 9 |\n"
        " validation loss at iteration 10 on test set | lm loss value: 2.1E+00 | lm loss PPL: 8 | \n",
        [(10, "val0", 2.9), (10, "val1", 3.9)], 1, 30,
    ),
    "megatron, named sets": (
        MEGATRON.format(10, "1.5E-05")
        + " validation loss at iteration 10 on code | lm loss value: 3.456000E+00 | lm loss PPL: 3.1E+01 | \n",
        [(10, "code", 3.456)], 1, 30,
    ),
    "megatron, sets of an option": (
        MEGATRON.format(10, "1.5E-05") + " validation-code loss at iteration 10 | lm loss value: 3.4E+00 | lm loss PPL: 3.1E+01 | \n",
        [(10, "code", 3.4)], 1, 30,
    ),
    "megatron, the end": (
        " validation loss at iteration 10 | lm loss value: 2.9E+00 | lm loss PPL: 18 | \n" + MEGATRON.format(15, "1.0E-04")
        + " validation loss at iteration 15 on validation set | lm loss value: 2.2E+00 | lm loss PPL: 9 |\n",
        [(10, "val", 2.9), (15, "val", 2.2)], 1, 30,
    ),
    "megatron, 2021": (
        " iteration       10/      30 | elapsed time per iteration (ms): 123742.4 | learning rate: 1.875E-05 | lm loss: 3.1E+00 |\n"
        " validation loss at iteration 10 | lm loss value: 2.9E+00 | lm loss PPL: 18 | \n",
        [(10, "val", 2.9)], 1, 30,
    ),
    "nemo": (
        "Training epoch 0, iteration 9/99 | lr: 1.5e-05 | global_batch_size: 8 | global_step: 9 | "
        "reduced_train_loss: 11.03 | train_step_timing in s: 0.5 | consumed_samples: 80 | val_loss: 10.9\n"
        "Training epoch 0, iteration 19/99 | lr: 2e-05 | global_step: 19 | reduced_train_loss: 9.3 | "
        "val_loss/dataloader_idx_0: 9.1 | val_loss/dataloader_idx_1: 9.2\n",
        [(10, "val", 10.9), (10, "dataloader_idx_0", 9.1), (10, "dataloader_idx_1", 9.2)], 2, 100,
    ),
    "nemo, two sets": (
        "Training epoch 0, iteration 9/99 | lr: 1.5e-05 | global_batch_size: 8 | global_step: 9 | "
        "reduced_train_loss: 11.03 | consumed_samples: 80 | val_loss_prose: 10.9 | val_loss_code: 9.9\n",
        [(10, "prose", 10.9), (10, "code", 9.9)], 1, 100,
    ),
    "nanogpt, rates": ("step 250: train loss 1.9763, val loss 2.0744, lr 1e-4\n", [(250, "val", 2.0744)], 1, None),
    "llmc, 2024": ("val loss 9.9\nstep    1/19560 | loss 11.02 (+nanz)| norm 15.1 (+nanz)| lr 8.57e-07 | 3 ms\n", [(0, "val", 9.9)], 1, 19560),
    "nanogpt": (
        "step 250: train loss 1.9763, val loss 2.0744\niter 250: loss 1.98, time 22.1ms, mfu 5.1%\n",
        [(250, "val", 2.0744)], 0, None,
    ),
    "litgpt": (
        "Epoch 1 | iter 40 step 10 | loss train: 2.341, val: n/a | iter time: 12.3 ms (step)\n"
        "iter 40: val loss 2.5123, val time: 123.45 ms\n",
        [(10, "val", 2.5123)], 0, None,
    ),
    "gpt-neox": (
        " samples/sec: 51.2 | iteration       10/     300 | elapsed time per iteration (ms): 19987.6 | "
        "learning rate: 1.000E-04 | lm_loss: 3.1E+00 | number of skipped iterations:   0 |\n"
        " validation results at iteration 10 | lm_loss value: 2.887E+00 | lm_loss_ppl value: 17.9 | \n",
        [(10, "val", 2.887)], 1, 300,
    ),
    "modded-nanogpt": (
        "step:0/300 val_loss:10.8258 train_time:0ms step_avg:nanms\nstep:1/300 train_time:33ms\n"
        "step:125/300 val_loss:4.6 train_time:9ms step_avg:1ms\n",
        [(0, "val", 10.8258), (125, "val", 4.6)], 0, 300,
    ),
    # Its first model, with losses as it printed them: an untrained one may be worse than a guess.
    "modded-nanogpt, untrained": (
        "step:0/5100 val_loss:16.0058 train_time:278ms step_avg:nanms\nstep:125/5100 val_loss:4.9493 train_time:278ms step_avg:nanms\n",
        [(0, "val", 16.0058), (125, "val", 4.9493)], 0, 5100,
    ),
    "llamafactory": (
        '{"current_steps": 10, "total_steps": 300, "epoch": 0.1, "Tokens (k)": 40.96, "loss": 3.1, "lr": 1e-4}\n'
        '{"current_steps": 10, "total_steps": 300, "epoch": 0.1, "Tokens (k)": 40.96, "eval_loss": 2.9}\n',
        [(10, "val", 2.9)], 1, 300,
    ),
    "olmo": (
        "INFO [olmo_core.train.trainer:734] Training for 300 steps\nINFO [step=10/300,epoch=1,eta=5h]\n"
        "    train/CE loss=3.100\n    optim/LR (group 0)=0.0001\n    throughput/total tokens=40,960\n"
        "INFO [eval=lm,step=40/40]\nINFO Finished lm evals in 7.4 seconds. Metrics:\n"
        "    c4_en-validation/CE loss=2.8878\n    c4_en-validation/PPL=17.9535\n    code-validation/CE loss=2.7\n",
        [(10, "c4_en", 2.8878), (10, "code", 2.7)], 1, 300,
    ),
    "composer": (
        "[batch=10/300]:\n\t Train time/token: 40960\n\t Train lr-DecoupledAdamW/group0: 0.0001\n"
        "[Eval batch=3/3] Eval on general/text data:\n\t Eval metrics/general/text/LanguageCrossEntropy: 2.8878\n",
        [(10, "general_text", 2.8878)], 0, 300,
    ),
    "composer, epochs": (
        "[epoch=2][batch=5/30]:\n\t Train time/token: 40960\n\t Eval metrics/eval/LanguageCrossEntropy: 2.8878\n",
        [(35, "val", 2.8878)], 0, None,
    ),
    "mlx": (
        "Iter 1: Val loss 3.240, Val took 4.512s\nIter 10: Train loss 3.100, Learning Rate 1.000e-04, It/sec 1.4, "
        "Tokens/sec 67.7, Trained Tokens 40960, Peak mem 4.5 GB\nIter 21: Val loss 2.887, Val took 4.5s\n",
        [(0, "val", 3.24), (20, "val", 2.887)], 1, None,
    ),
    "nanochat": (
        "step 00009/21400 (0.04%) | loss: 9.123 | lrm: 1.00 | dt: 431.2ms | tok/sec: 1,216,020\n"
        "Step 00250 | Validation bpb: 1.1234\n",
        [(250, "val", 1.1234 * math.log(2))], 0, 21400,
    ),
    "llmc": (
        "val loss 10.9\nstep    1/19560 | train loss 10.85 | norm 15.1 | lr 8.57e-07 | 3000 ms | 55% bf16 MFU\n"
        "val loss 10.8\n",
        [(0, "val", 10.9), (1, "val", 10.8)], 1, 19560,
    ),
    "llmc, of a process": (
        "".join(f"0: step {step:4d}/300 | train loss 10.85 | norm 15.1 | lr 8.57e-07 | 3000 ms\n" for step in range(1, 6)) + "0: val loss 10.8\n",
        [(5, "val", 10.8)], 5, 300,
    ),
    "llmc, main.log": ("s:0 tel:11.0\ns:0 trl:11.0 lr:8.57e-07 norm:15.1\ns:250 tel:6.4\n", [(0, "val", 11.0), (250, "val", 6.4)], 0, None),
    "torchtitan": (
        "[titan] - root - INFO - \x1b[31mstep: 10  \x1b[32mloss:  3.1012  \x1b[38;2;180;60;0mgrad_norm:  0.5  tps: 1,234\n"
        "[titan] - root - INFO - \x1b[35mvalidate step: 10  \x1b[32mloss:  2.9012  \x1b[33mmemory: 1GiB\n",
        [(10, "val", 2.9012)], 0, None,
    ),
    "torchtune": (
        "Step 1 | loss:2.3 lr:2e-05 tokens_per_second_per_gpu:430.1 \nStep 2 | val_loss:2.2 \n",
        [(2, "val", 2.2)], 1, None,
    ),
    "paddlenlp": (
        " 33%|###  | 200/600 [01:11<01:58]{'loss': 3.18, 'learning_rate': 4.5e-05, 'global_step': 150, 'epoch': 2.0}\n"
        "{'eval_loss': 2.9, 'eval_runtime': 3.2, 'global_step': 150, 'epoch': 2.0}\n",
        [(150, "val", 2.9)], 1, None,
    ),
    "nanogpt, llama2.c": ("step 250: train loss 1.9, val loss 2.1\n250 | loss 2.2 | lr 5.0e-4 | 12ms\n", [(250, "val", 2.1)], 1, None),
    "litgpt, between two prints": (
        "Epoch 1 | iter 40 step 10 | loss train: 2.341, val: n/a | iter time: 12.3 ms (step)\n"
        "iter 60: val loss 2.5123, val time: 123.45 ms\n",
        [(15, "val", 2.5123)], 0, None,
    ),
    "litgpt, 2023": (
        "iter 40 step 10: loss 2.3410, iter time: 12.34ms (optimizer.step)\n"
        "step 40: val loss 2.5123, val time: 123.45ms\n",
        [(10, "val", 2.5123)], 0, None,
    ),
    "litgpt, table of losses": (
        "Epoch 0 | iter 40 step 10 | loss train: 11.4, val_loss valid: 21.8 | iter time: 38.615 s (step)\n"
        "Epoch 0 | iter 40          | val_loss: 2.502 | val_time: 79.795 s\n",
        [(10, "val", 2.502)], 0, None,
    ),
    "build-nanogpt": (
        "validation loss: 10.95\nstep     9 | loss: 9.6 | lr 8.4e-07 | norm: 15.3 | dt: 80ms\nvalidation loss: 9.5\n",
        [(10, "val", 9.5)], 1, None,
    ),
    "build-nanogpt, by a collector": (
        "2026-01-02T10:00:00.123Z step     9 | loss: 9.6 | lr 8.4e-07 | norm: 15.3 | dt: 80ms\n[2026-01-02 10:00:01,5] validation loss: \x1b[K9.5\n",
        [(10, "val", 9.5)], 1, None,
    ),
    "build-nanogpt, begun": (
        "validation loss: 10.95\nstep     0 | loss: 9.6 | lr 8.4e-07 | norm: 15.3 | dt: 80ms\nvalidation loss: 9.5\n",
        [(0, "val", 10.95), (1, "val", 9.5)], 1, None,
    ),
    "build-nanogpt, log.txt": ("0 val 10.95\n0 hella 0.2463\n0 train 10.94\n250 val 6.4\n", [(0, "val", 10.95), (250, "val", 6.4)], 0, None),
    "nemo-automodel": (
        "root | step 9  | epoch 0 | loss 1.5928 | grad_norm 24.2 | lr 1.00e-05 | mem 5.10 GiB | tps 280(35/gpu)\n"
        'root | [val] name "prose" | step 9  | epoch 0 | loss 1.7634 | lr 1.00e-05 | num_label_tokens 123\n',
        [(10, "prose", 1.7634)], 1, None,
    ),
    "verl": (
        "step:10 - train/loss:0.52 - train/lr(1e-3):0.01 - train/time(s):1.2\nstep:10 - val/loss:0.51\n",
        [(10, "val", 0.51)], 1, None,
    ),
    "maxtext": (
        "completed step: 9, seconds: 1.2, TFLOP/s/device: 80.1, total_weights: 65536, loss: 7.912\n"
        "eval metrics after step: 9, loss=7.655, total_weights=1024.0\nCompleted eval after train step 19, loss=7.5, perplexity=1808\n",
        [(10, "val", 7.655), (20, "val", 7.5)], 0, None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", FORMATS)
def test_programs_lines(kind: str, tmp_path: Path) -> None:
    text, losses, rates, announced = FORMATS[kind]
    # Programs print other lines as well; files of JSON have none.
    before = "" if text.startswith("{") else "starting\n"
    log = read(tmp_path / "a.log", before + text, loss_unit="bits" if kind == "nanochat" else None)
    assert list(log.losses) == losses
    assert sum(step > 0 for step, _ in log.rates) == rates
    assert log.stated.steps == announced
    if kind in ("olmo", "llamafactory"):
        assert log.stated.batch_tokens == 4096
    if kind == "verl":
        ((step, rate),) = log.rates
        assert step == 10
        assert rate == pytest.approx(1e-5)
    if kind == "build-nanogpt":
        assert any("1 lines before the first one with a step" in note for note in log.notes)
    if kind == "megatron":
        assert any("2 final evaluations" in note for note in log.notes)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.log", "step 10: train loss 3.0, val loss 2.91\nstep 20: train loss 2.9, val loss 2.8"),
        ("a.csv", "step,val_loss\n10,2.91\n20,2"),
        ("b.csv", "step,val_loss,lr\n10,2.91,1e-4\n20,2.8"),
    ],
)
def test_a_last_line_that_is_cut_off_is_left_out(name: str, text: str, tmp_path: Path) -> None:
    log = read(tmp_path / name, text)
    assert log.losses == ((10, "val", 2.91),)
    assert any("as if it was cut off" in note for note in log.notes)


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_whole_last_line_counts_with_a_line_break_or_none(end: str, tmp_path: Path) -> None:
    losses = ((9, "val", 2.91), (10, "val", 2.85), (200, "val", 2.8123))
    text = "\n".join(f"step {step}: train loss 3.0, val loss {loss}" for step, _, loss in losses)
    log = read(tmp_path / "a.log", text + end)
    assert log.losses == losses
    assert not any("cut off" in note for note in log.notes)


def test_losses_that_a_program_does_not_print_so_are_said(tmp_path: Path) -> None:
    line = "step 10: train loss 3.0, val loss 2.9"
    said = " ".join(read(tmp_path / "b.log", f"{line}, wiki loss 3.1\n").notes)
    assert "line 1: 1 lines tell" in said
    log = read(tmp_path / "a.log", f"{line}, code val loss 2.5\n{line}\neval_loss: 2.3\n")
    assert log.losses == ((10, "val", 2.9),)
    assert "line 1: 2 lines tell a validation loss not as nanoGPT" in " ".join(log.notes)


def test_losses_of_fairseq_are_in_base_2(tmp_path: Path) -> None:
    line = "| epoch 001 | valid on 'valid' subset | valid_loss 8.1 | valid_nll_loss 6.0 | valid_ppl 64 | num_updates 600\n"
    text = f"| epoch 001: 450 / 1891 loss=11.5, num_updates=445, lr=8.9e-05, gnorm=1.5\n{line}"
    refused(tmp_path / "a.log", text, "by its name it is bits", "--unit bits")
    log = read(tmp_path / "a.log", text, loss_unit="bits")
    [(step, domain, loss)] = log.losses
    assert (step, domain, "lines tell" in " ".join(log.notes)) == (600, "val", False)
    assert loss == pytest.approx(math.log(64.0))
    old = "| epoch 022 | loss 4.290 | ppl 19.56 | num_updates 600 | lr 2.5e-05 | gnorm 0.321\n"
    assert read(tmp_path / "b.log", old + line, loss_unit="bits").rates == ((600, 2.5e-5),)
    both = text + line.replace("'valid'", "'valid1'")
    assert read(tmp_path / "b.log", both, loss_unit="bits").domains == ("val", "valid1")
    table = '{"num_updates": 5, "valid_loss": 3.2, "lr": 1e-4}\n'
    refused(tmp_path / "a.jsonl", table, "base 2", "--unit bits")


TRAINED_ALONE = {
    "nanotron": "iteration: 10 / 300 | consumed_tokens: 634K | tokens_per_sec: 14.2K | lm_loss: 2.5 | lr: 1e-05 | grad_norm: 0.5",
    "internevo": "INFO train.py:323 -- tflops=63.2,step=9,loss=2.5,tgs (tokens/gpu/second)=14.6,lr=1e-05,loss_scale=65536.0",
    "xtuner": "mmengine - INFO - Iter(train) [ 10/300]  lr: 1.0e-05  eta: 1:20:07  time: 0.8  grad_norm: 0.7  loss: 2.5",
    "xtuner, 2025": "[XTuner][RANK 0][INFO] Step 10/300 data_time: 0.05 lr: 0.000010 time: 4.9 total_loss: 2.7 reduced_llm_loss: 2.5",
    "lingua": "0: INFO step: 10  acc: 0  loss:  2.5000  grad: 1.2e+00  flops: 1.0e+14  iter: 0.1  lr: 1.00e-05  mem: 50%",
}  # fmt: skip


@pytest.mark.parametrize("program", TRAINED_ALONE)
def test_programs_that_print_no_validation_loss(program: str, tmp_path: Path) -> None:
    """Such a log says where the loss of training ends, and is no run of a study."""
    path = tmp_path / "a.log"
    refused(path, TRAINED_ALONE[program] + "\n", "no series is called a validation loss")
    log = Reading(paths=(str(path),)).read(("train",))
    assert log.losses == ((10, "train", 2.5),)
    assert log.rates == ((10, 1e-5),)


@pytest.mark.parametrize("total", ["NaN", "Infinity", "-1", "0", '"x"', "[5]", "true"])
def test_a_length_that_is_none_is_not_stated(total: str, tmp_path: Path) -> None:
    text = f'{{"step": 10, "val_loss": 2.9, "total_steps": {total}}}\n'
    assert read(tmp_path / "a.jsonl", text).stated.steps is None
    entries = '[{"step": 10, "eval_loss": 2.9}]'
    text = f'{{"max_steps": {total}, "log_history": {entries}}}'
    assert read(tmp_path / "trainer_state.json", text).stated.steps is None


def test_swift_writes_two_counts_in_one_cell(tmp_path: Path) -> None:
    text = '{"learning_rate": 1e-4, "epoch": 0.1, "global_step/max_steps": "10/300"}\n'
    text += text.replace('"learning_rate": 1e-4', '"eval_loss": 2.9')
    log = read(tmp_path / "a.jsonl", text + '{"global_step": 300, "log_history": []}\n')
    assert (log.losses, log.rates, log.stated.steps) == (((10, "val", 2.9),), ((10, 1e-4),), 300)


MEASURED = [(10, 2.9), (20, 2.8)]
LOGGED = [{"step": step, "lr": 1e-4, "eval_loss": loss} for step, loss in MEASURED]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        # mmengine calls its lines of JSON scalars.json.
        ("scalars.json", "\n".join(map(json.dumps, LOGGED))),
        ("history.json", json.dumps({key: [row[key] for row in LOGGED] for key in LOGGED[0]})),
        ("levanter.jsonl", "\n".join(json.dumps({"tag": "x", "step": row.pop("step"), "metrics": row}) for row in map(dict, LOGGED))),
        ("stdout", "starting {\n" + "\n".join(f"10:41 | INFO | valid | {json.dumps(row)}" for row in LOGGED) + '\n{"model": 1}\n{"step": 2\n'),
        ("german.csv", "Step #;Val loss [nats/token];lr;;\n10;2,9;1e-4;;\n20;2,8;1e-4;;\n"),
        ("numpy.txt", "# step val_loss lr\n1.0e1 2.9 1e-4\n2.0e1 2.8 1e-4\n"),
        ("a.csv", "# made by us, all of it\nstep,val_loss,lr\n10,2.9,1e-4\n20,2.8,1e-4\n"),
        ("split.csv", "step,split,loss,lr\n10,train,3.0,1e-4\n10,val,2.9,\n20,train,2.9,1e-4\n20,val,2.8,\n"),
        ("a.log.json", "\n".join(json.dumps({"mode": mode, "iter": row["step"], "lr": 1e-4, "loss": row["eval_loss"] + more}) for row in LOGGED for mode, more in (("train", 0.1), ("val", 0)))),
        ("long.csv", "step,part,metric,value\n" + "".join(f"{row['step']},train,loss,3\n{row['step']},train,lr,1e-4\n{row['step']},val,loss,{row['eval_loss']}\n" for row in LOGGED)),
        ("typed.jsonl", "\n".join(json.dumps({"type": "train", "loss": 3, "step": row["step"], "lr": 1e-4}) + json.dumps({"type": "eval", **row}).replace("{", "\n{") for row in LOGGED)),
        ("domains.csv", "step,domain,loss,lr\n10,train,3.0,1e-4\n10,val,2.9,\n20,train,2.9,1e-4\n20,val,2.8,\n"),
        ("beside.csv", "step,dataset,loss,val_loss,lr\n10,val,3.0,2.9,1e-4\n20,val,2.9,2.8,1e-4\n"),
        ("unset.csv", "sep=,\nstep,val_loss,lr\n10,2.9,1e-4\n11,-1,\n# resumed\n12,-1,\n20,2.8,1e-4\n"),
        ("numpy.log", "\n".join(f"{{'step': {row['step']}, 'lr': 1e-4, 'eval_loss': np.float64({row['eval_loss']})}}" for row in LOGGED)),
        ("mixed.csv", "step,split,dataset,loss,lr\n" + "".join(f"{row['step']},train,mix,3,1e-4\n{row['step']},val,val,{row['eval_loss']},\n" for row in LOGGED)),
        ("what.jsonl", "\n".join(json.dumps({"what": what, "step": row["step"], "loss": row["eval_loss"] + more, "lr": 1e-4, "x": None}) for row in LOGGED for what, more in (("train", 0.1), ("val", 0)))),
        ("swift.out", "\n".join(f"{{'{key}': {row[own]}, 'epoch': 0.1, 'global_step/max_steps': '{row['step']}/30', 'time': '1s'}}" for row in LOGGED for key, own in (("loss", "eval_loss"), ("eval_loss", "eval_loss"), ("lr", "lr")))),
        ("pprint.txt", "".join(f"\n{{'eval_loss': {row['eval_loss']},\n 'lr': 0.0001,\n 'step': {row['step']}}}\n" for row in LOGGED)),
        ("comet.json", json.dumps([{"metricName": name, "metricValue": str(row[name]), "step": row["step"]} for row in LOGGED for name in ("eval_loss", "lr")])),
        ("printed.txt", "\n".join(f"[INFO] {row}" for row in LOGGED) + "\n{'step': 30, 'eval_loss': 2."),
        # A table of a model card.
        ("card.md", "| Training Loss | Step | lr | Validation Loss |\n|:---:|:---:|:---:|:---:|\n| No log | 10 | 1e-4 | 2.9 |\n| 2.8 | 20 | 1e-4 | 2.8 |\n"),
    ],
)  # fmt: skip
def test_tables_in_other_clothes(name: str, text: str, tmp_path: Path) -> None:
    log = read(tmp_path / name, text)
    assert log.losses == tuple((step, "val", loss) for step, loss in MEASURED)
    assert log.rates == ((10, 1e-4), (20, 1e-4))


def test_what_is_lost_in_a_printed_log_is_said(tmp_path: Path) -> None:
    text = "{'step': 10, 'eval_loss': 2.9}\n{'step': 20, 'eval_loss': 2.\n{'step': 30, 'eval_loss': nan}\n"
    refused(tmp_path / "a.log", text, "line 3", "is nan at step 30")
    notes = read(tmp_path / "a.log", text, drop_nan=True).notes
    assert any("line 2: it holds no whole object" in note for note in notes)


def test_fairseq_counts_its_evaluations_by_another_name(tmp_path: Path) -> None:
    text = (
        '2021 | INFO | train_inner | {"epoch": 1, "update": 0.025, "loss": "9", "num_updates": "10", "lr": "1e-05"}\n'
        '2021 | INFO | valid | {"epoch": 1, "valid_loss": "8.0", "valid_ppl": "256", "valid_num_updates": "10"}\n'
    )
    refused(tmp_path / "a.log", text, "base 2", "--unit bits")
    log = read(tmp_path / "a.log", text, loss_unit="bits")
    ((step, name, loss),) = log.losses
    assert (step, name) == (10, "val")
    assert loss == pytest.approx(8 * math.log(2))
    assert log.rates == ((10, 1e-5),)


def test_keras_counts_epochs_from_0(tmp_path: Path) -> None:
    text = "epoch,loss,val_loss\n0,3.0,2.9\n1,2.9,2.8\n"
    log = read(tmp_path / "a.csv", text, step_unit="epochs", per_epoch=50)
    assert steps_of(log) == [50, 100]
    assert any("counted from 0" in note for note in log.notes)
    base = text.replace("0,3.0", "0,")
    assert steps_of(read(tmp_path / "a.csv", base, step_unit="epochs", per_epoch=50)) == [0, 50]


@pytest.mark.parametrize("series", ["val_nll_per_char", "val/byte_ppl", "val_bits/byte", "val_bpb"])
def test_losses_of_smaller_pieces_are_none_of_tokens(series: str, tmp_path: Path) -> None:
    text = f"step,{series}\n10,1.5\n"
    said = ("per byte, character or word", "is multiplied by", "0.6931", "--unit nats (bits")
    refused(tmp_path / "a.csv", text, *said)
    log = read(tmp_path / "a.csv", text, loss_unit="bits")
    assert "losses were converted from bits per token" in " ".join(log.notes)
    text = text.replace("\n", ",eval/code/loss\n", 1).replace("1.5", "1.5,2.9")
    assert read(tmp_path / "a.csv", text).losses == ((10, "code", 2.9),)


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_what_a_program_printed_may_hold_any_bytes(encoding: str, tmp_path: Path) -> None:
    """PowerShell redirects in UTF-16; a killed job leaves odd bytes and zeros."""
    path = tmp_path / "train.log"
    path.write_bytes("step 10: train loss 2.0, val loss 2.9\n \xe9t\xe9 \0\0\n".encode(encoding))
    assert Reading(paths=(str(path),)).read().losses == ((10, "val", 2.9),)
    refused(tmp_path / "empty.log", "", "it is empty")


def test_exports_of_charts(tmp_path: Path) -> None:
    tag = tmp_path / "run-.-tag-eval_loss.csv"
    assert steps_of(read(tag, "Wall time,Step,Value\n1.0,0,3.0\n2.0,10,2.9\n")) == [0, 10]
    chart = '"train/global_step","r00 - eval/loss","r00 - eval/loss__MIN","r00 - eval/loss__MAX"\n10,2.9,2.9,2.9\n20,2.8,2.8,2.8\n'
    assert steps_of(read(tmp_path / "w.csv", chart)) == [10, 20]
    refused(tmp_path / "w.csv", chart.replace("train/global_step", "Step"), "count of calls")
    refused(tmp_path / "w.csv", '"Step","r00 - eval/loss"\n0,2.9\n1,2.8\n', "count of calls")
    two = re.sub(r"(\d)\n", r"\1,2.5\n", chart.replace('__MAX"', '__MAX","r25 - eval/loss"'))
    refused(tmp_path / "w.csv", two, "rows of 2 runs: r00, r25", "--row-run")


MEGATRON_SET = " validation loss at iteration {} | lm loss value: {:.6E} | lm loss PPL: 9 | \n"
TWO_STEPS = "step,val_loss\n10,2.9\n20,2.8\n"
# The file, what is in it, what is said, and the options that were given.
REFUSED: list[tuple[str, str, tuple[str, ...], dict[str, Any]]] = [
    ("hf.out", "  3%|#  | 10/300 [00:30<01:00]{'loss': 3.1, 'learning_rate': 1e-4, 'epoch': 0.1}\n",
     ("screen output of a Hugging Face Trainer", "trainer_state.json"), {}),
    ("r25.xlsx", "PK", ("this is a workbook", "CSV"), {}),
    ("r25.tar.gz", "", ("an archive of a kind that is not read", "Unpack it"), {}),
    ("title.csv", "Run r25;;\nstep;val_loss;lr\n10;2,91;1e-4\n", ("line 1", "column 2 has no name", "nothing above"), {}),
    ("nemo.out", "Epoch 0: :   2%|2| 9/99 [00:10<01:00, reduced_train_loss=11.0, global_step=2e+3]\n", ("rounds the steps",), {}),
    ("pl.out", "Epoch 0: 100%|##| 10/10 [00:01<00:00, v_num=0, train_loss=2.3]\n", ("PyTorch Lightning", "metrics.csv"), {}),
    ("two.csv", "step,val_loss\n1.000,2.8708\n2.000,2.7\n", ("line 2", "the step is '1.000'", "two numbers"), {}),
    # Printed in capitals; and to a width, of a run that diverged at once.
    ("megatron.log", "".join(MEGATRON_SET.format(*own) for own in ((10, 2.9), (20, math.nan), (30, 2.7))), ("line 2", "is nan at step 20"), {}),
    ("llmc.log", "val loss nan\nstep    1/19560 | loss     nan (+nanz)| norm    nan (+nanz)| lr 8.57e-07 | 3994.72 ms\n",
     ("line 1", "is nan at step 0", "--drop-nan"), {}),
    ("once.csv", "step,val_loss\n10,15.4\n20,2.4\n30,0.3\n", ("as are 1 of its 3 values", "Remove those rows"), {}),
    ("none.jsonl", '{"current_steps": 5, "total_steps": 250}\n' * 2, ("no series is called a loss", "Name the log"), {}),
    ("worse.log", "step:0/5100 val_loss:16.0058 train_time:278ms\nstep:125/5100 val_loss:13.9 train_time:278ms\n", ("line 2", "more than a uniform guess"), {}),
    *((f"{place}.csv", f"step,{heading}\n0,4.0\n10,3.9\n", (said,), {}) for place, (heading, said) in enumerate((
        ("Val loss (bits/token)", "--unit bits"), ("Val loss [ppl]", "--unit perplexity"),
        ("val_log2_loss", "--unit bits"), ("Val loss (bits/byte)", "per byte, character or word"),
    ))),
    *((f"{column}.csv", TWO_STEPS.replace("step", column), (f"--{size.replace('_', '-')} 5", f"{column} counts {column}s", "--step-unit"), {size: 5})
      for column, size in (("step", "per_step"), ("step", "per_epoch"), ("epoch", "per_step"))),
    ("counters.csv", "iter,step,val_loss\n10,9,\n,9,2.9\n20,19,\n,19,2.8\n", ("line 3", "the iter is ''", "Say --step step if that counts in every row"), {"step": "iter"}),
    ("start.csv", TWO_STEPS, ("--start 100", "the log ends at step 20"), {"start": 100}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "fragments", "keys"), REFUSED)
def test_what_cannot_be_read_says_what_can(
    name: str, text: str, fragments: tuple[str, ...], keys: dict[str, Any], tmp_path: Path
) -> None:
    refused(tmp_path / name, text, *fragments, **keys)


OWN = "it 10 step, x :: start\nit 10 :: lr 1.0e-04 :: training 3.1\nit 10 :: val loss = 2.9\nit 20 :: lr 1.0e-04\nit 20 :: val loss = 2.8\n"


def test_any_other_log_by_a_pattern(tmp_path: Path) -> None:
    path = tmp_path / "own.log"
    patterns = ("it {step} ... val loss = {val_loss}", "it {step} ... lr {lr}")
    log = read(path, OWN, patterns=patterns)
    assert log.losses == ((10, "val", 2.9), (20, "val", 2.8))
    assert log.rates == ((10, 1e-4), (20, 1e-4))
    toml = tmp_path / "own.toml"
    toml.write_text("lines = ['^it {step} :: val loss = {val_loss}', '^it {step} :: lr {lr}']\n")
    assert read(path, OWN, patterns=(str(toml),)).losses == log.losses
    marked = read(
        path, "[ 1_000] val = 2,91\n[  20] val = 2,81\n", patterns=("[{step}] val = {val_loss}",)
    )
    assert marked.losses == ((20, "val", 2.81), (1000, "val", 2.91))
    toml.write_text("lines = ['(?P<set>\\w+) loss at {step}: {loss}']\n")
    text = "train loss at 10: 3.0\ncode loss at 10: 2.91\nprose loss at 1.2k: 3.11\n"
    own = read(path, text, patterns=(str(toml),))
    assert own.losses == ((10, "code", 2.91), (1200, "prose", 3.11))
    refused(path, OWN, "no known format", "are nearest", "--pattern 'step {step}")
    refused(path, OWN, "no {name} for a number", patterns=("it step",))
    refused(path, OWN, "none has the {step}", patterns=("val loss = {val_loss}",))
    # A loss in a line of its own is of the step before.
    text = "it 10 lr 1e-4\nval loss: 2.9\nit 20 lr 1e-4\nval loss: 2.8\n"
    own = read(path, text, patterns=("it {step} lr {lr}", "val loss: {val_loss}"))
    assert (own.losses, own.rates) == (log.losses, log.rates)


def test_epochs_and_batches_are_announced_as_they_are_counted(tmp_path: Path) -> None:
    """Logs of two scripts of training from scratch: by epochs, and MiniMind's by micro-batches."""
    epoch = "Epoch {}/20\nTrain Loss: 7.4976\nValid Loss: {}\nTime: 122.57s - LR: 9.94e-05\n"
    text = "".join(epoch.format(*own) for own in ((1, 6.6384), (2, 6.2336)))
    patterns = ("Epoch {step}/{total}", "Valid Loss: {val_loss}", "LR: {lr}")
    log = read(tmp_path / "a.txt", text, patterns=patterns, step_unit="epochs", per_epoch=935)
    assert (steps_of(log), log.stated.steps) == ([935, 1870], 18700)
    line = (
        "Epoch:[1/1]({}/39695), loss: {}, logits_loss: 8.0, lr: 0.00050000, epoch_time: 130.0min\n"
    )
    path = tmp_path / "pretrain.log"
    path.write_text(
        "".join(line.format(*own) for own in ((10, 8.5371), (20, 8.2461), (30, 8.1319)))
    )
    log = Reading(paths=(str(path),), step_unit="micro-batches", per_step=8).read(("train",))
    # In the step that is under way.
    assert (steps_of(log), log.stated.steps) == ([2, 3, 4], 4962)
    path.write_text(line.format(400, 3.1).replace("1/1", "2/3"))
    log = Reading(paths=(str(path),)).read(("train",))
    assert (steps_of(log), log.stated.steps) == ([39695 + 400], 3 * 39695)


# Options.

OPTIONS: dict[str, Any] = {
    "step": "nonsense", "row_run": "nobody", "rate": "nothing", "losses": {"no": "set"},
}  # fmt: skip


def test_a_pattern_of_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"this is a folder.*--pattern is for lines of text"):
        Reading(paths=(str(tmp_path),), patterns=("it {step} loss {val_loss}",)).read()


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("kind", ["hf", "csv", "jsonl", "nanogpt", "tensorboard"])
def test_an_option_is_honoured_or_refused(option: str, kind: str, tmp_path: Path) -> None:
    if kind == "tensorboard":
        pytest.importorskip(kind)
    logs = Path(__file__).parents[2] / "data" / "logs"
    text = tmp_path / "train.log"
    text.write_text("step 10: train loss 2.0, val loss 2.1\niter 10: loss 2.0, lr 1e-4\n")
    paths = {
        "csv": logs / "tables" / "wide.csv",
        "jsonl": logs / "tables" / "history.jsonl",
        "nanogpt": text,
    }
    path = paths.get(kind, logs / kind / ("r25" if kind == "hf" else ""))
    with pytest.raises(StudyError, match=r"nonsense|nobody|nothing|no"):
        Reading(kind=kind, paths=(str(path),), **{option: OPTIONS[option]}).read()

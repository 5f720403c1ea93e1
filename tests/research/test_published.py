"""Converters of published files, on small files of their documented layouts."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from published import ladder, lr_scheduling, mixing_laws, tables
from published.__main__ import main

from bayes_cpt import read_study
from bayes_cpt.errors import StudyError, StudyWarning

PEAK, STEPS, WARMUP = 1e-3, 3000, 300


def cool_down(file: Path, **changed: Any) -> Path:
    """Write a run as the lr-scheduling repository has it: a cool-down that resumes from another run."""
    config = {
        "scheduler": "wsd", "lr": PEAK, "warmup_steps": WARMUP, "iterations": STEPS,
        "wsd_fract_decay": 0.2, "wsd_final_lr_scale": 0, "n_layer": 8, "n_head": 6, "n_embd": 384,
        "dataset": "slimpajama", "resume_from": "exps/stable/ckpts/2000",
    } | changed  # fmt: skip
    steps = [2000, 2200, 2400, 2600, 2800]
    logged = [2050, 2400, 2450, 2700, 3000]
    history = {
        "val": {"iter": steps, "val_loss": [3.83, 3.81, 3.78, 3.72, 3.66]},
        "train": {"iter": logged, "train_lr": [1e-3, 1e-3, 0.0009166666666666666, 5e-4, 0]},
    }
    file.write_text(json.dumps({"config": config, "history": history}))
    return file


def test_a_cool_down_has_its_points_from_the_decay_on(tmp_path: Path) -> None:
    study = lr_scheduling.convert([cool_down(tmp_path / "cool.json")], "lr")
    run = study.run("cool")
    rates = run.schedule.learning_rates()
    assert (rates.size, run.schedule.warmup_steps) == (STEPS, WARMUP)
    assert rates[[0, 299, 2399, 2699, 2999]] == pytest.approx(
        [1e-5 + (PEAK - 1e-5) / 300, PEAK, PEAK, 5e-4, 0.0], abs=1e-9
    )
    steps, losses = study.curve("cool", "validation")
    assert steps.tolist() == [2600, 2800]
    assert losses.tolist() == [3.72, 3.66]
    # Twelve times the square of the width for each layer.
    assert run.model_size == pytest.approx(14.2)


def test_a_rung_of_the_ladder(tmp_path: Path) -> None:
    file = tmp_path / "190M-1xC.csv"
    table = {
        "_step": [200, 3600, 7272],
        "eval/c4_en-validation/CrossEntropyLoss": [6.08, 3.7, 3.6],
        "eval/pile-validation/CrossEntropyLoss": [6.45, 3.3, 3.2],
        "learning_rate_peak": [0.000972728518721015] * 3,
        "batch_size_in_tokens": [524288] * 3,
    }
    pd.DataFrame(table).to_csv(file, index=False)
    study = ladder.convert([file], "ladder")
    run = study.run("190M-1xC")
    # As the study of this run that is described in docs/results/held-out.md has it.
    assert (run.schedule.warmup_steps, run.schedule.steps) == (363, 7272)
    rates = run.schedule.learning_rates()
    assert rates[[362, -1]] == pytest.approx([0.000972728518721015, 9.72729e-05], rel=1e-5)
    assert study.curve("190M-1xC", "c4_en")[1].tolist() == [6.08, 3.7, 3.6]
    assert ladder.convert([file], "ladder", "pile").curve("190M-1xC", "pile")[1][0] == 6.45
    with pytest.raises(StudyError, match="no column eval/books"):
        ladder.convert([file], "ladder", "books")


def test_a_logged_schedule_with_the_warm_up_that_its_file_leaves_out(tmp_path: Path) -> None:
    file = tmp_path / "wsdcon_9.csv"
    steps = np.arange(2176, 4000, 128)
    rates = np.where(steps < 3000, 3e-4, 9e-5)
    pd.DataFrame({"step": steps, "lr": rates, "loss": 4.0 - 1e-4 * steps}).to_csv(file, index=False)
    out = tmp_path / "mpl"
    with pytest.warns(StudyWarning, match="interpolated"):
        main(["multi-power", str(file), "--size", "25", "-o", str(out)])
    with pytest.warns(StudyWarning, match="interpolated"):
        study = read_study(out)
    found = study.run("wsdcon_9").schedule.learning_rates()
    assert found.size == steps[-1]
    assert found[[0, 1079, 2159, 2800]] == pytest.approx(
        [3e-4 / 2160, 1.5e-4, 3e-4, 3e-4], rel=2e-3
    )
    assert found[-1] == pytest.approx(9e-5)
    assert study.curve("wsdcon_9", "validation")[0].tolist() == steps.tolist()


def test_mixtures_are_means_over_the_parts_of_the_pile(tmp_path: Path) -> None:
    file = tmp_path / "70M.txt"
    parts = ("pythia-pile.valid.Github.bin", "pythia-pile.valid.ArXiv.bin")
    lines = []
    for checkpoint, shift in (
        ("configs//pythia_70m_step20000", 0.0),
        ("ct//70M_ct_1-0.25-0.75/2000", 0.1),
        ("ct//70M_ct_1-0.25-0.75/10000", 0.2),
        ("ct//70M_ct_3-0.5-0.5/10000", 0.15),
    ):
        lines += [f"{checkpoint}\tdata//{parts[0]}\t{2.0 + shift}"]
        lines += [f"{checkpoint}\tdata//{parts[1]}\t{3.0 + shift}"]
        lines += [f"{checkpoint}\tdata/ct_valid//starcoder.python.valid.bin\t{1.8 - shift}"]
    file.write_text("\n".join(lines) + "\n")
    study = mixing_laws.convert([file], "pythia")
    assert {run.name: run.replay for run in study.runs} == {"pile_250": 0.25, "pile_500": 0.5}
    steps, losses = study.curve("pile_250", "pile")
    assert steps.tolist() == [0, 2000, 10_000]
    assert losses == pytest.approx([2.5, 2.6, 2.7])
    assert study.curve("pile_500", "python")[1] == pytest.approx([1.8, 1.65])
    assert study.base("pythia-70m-20k").schedule is None
    file.write_text("no tabs here\n")
    with pytest.raises(StudyError, match=r"line 1.*not checkpoint"):
        mixing_laws.convert([file], "pythia")


OF_A_RUN: dict[str, object] = {"steps": 1000, "warmup": 100, "decay": 200, "peak": 2e-3}
OF_A_RUN |= {"shape": "linear", "final": 0.1}


def table(file: Path, **changed: Any) -> Path:
    """Write a table with two runs, the second as changed, and its first row."""
    rows = [
        {"run": name, **OF_A_RUN, **other, "step": step, "loss": loss}
        for name, other in (("one", {}), ("other", changed))
        for step, loss in ((600, 3.4), (1000, 3.2))
    ]
    pd.DataFrame(rows).to_csv(file, index=False)
    return file


def test_runs_of_a_table_have_its_schedules_and_losses(tmp_path: Path) -> None:
    changed = {"shape": "cosine", "decay": 900, "peak": 1e-3, "final": 0.0}
    study = tables.convert([table(tmp_path / "sweep.csv", **changed)], "sweep")
    held = study.run("one").schedule.learning_rates()
    assert held[[99, 799, 899, 999]] == pytest.approx([2e-3, 2e-3, 1.1e-3, 2e-4])
    cosine = study.run("other").schedule.learning_rates()
    assert cosine[[99, 549, 999]] == pytest.approx([1e-3, 5e-4, 0.0], abs=1e-9)
    steps, losses = study.curve("one", "validation")
    assert (steps.tolist(), losses.tolist()) == ([600, 1000], [3.4, 3.2])

"""What looks like a mistake in a study stands in the first line of check and fit."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_line import Call
from stand_in import Fits
from synthetic import lab

import bayes_cpt
from bayes_cpt import Study, write_study
from bayes_cpt.errors import StudyWarning
from bayes_cpt.study.schedules import Schedule

FIRST, SECOND = "r00_cos", "r25_cos"


def two(**changes: Any) -> Study:
    """Return two runs of one base, with something changed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StudyWarning)
        return replace(lab().subset(["pt_trunk", FIRST, SECOND]), **changes)


def second(change: Callable[[pd.DataFrame], pd.DataFrame], first_step: int = 0) -> Study:
    """Return the two runs with other losses of the second."""
    losses = two().losses[two().losses["step"] >= first_step]
    others, own = losses[losses["run"] != SECOND], losses[losses["run"] == SECOND]
    return two(losses=pd.concat([others, change(own.copy())], ignore_index=True))


def exchanged(losses: pd.DataFrame) -> pd.DataFrame:
    sets = {"general": "kernel", "kernel": "general"}
    return losses.assign(domain=losses["domain"].replace(sets))


def in_bits(losses: pd.DataFrame) -> pd.DataFrame:
    return losses.assign(loss=losses["loss"] / np.log(2))


def of_the_first(losses: pd.DataFrame) -> pd.DataFrame:
    own = two().losses[two().losses["run"] == FIRST]
    return own.assign(run=SECOND)


def with_schedule(schedule: Schedule, losses: pd.DataFrame) -> Study:
    runs = [replace(run, schedule=schedule) if run.name == SECOND else run for run in two().runs]
    return two(runs=tuple(runs), losses=losses)


def tenfold() -> Study:
    return with_schedule(two().run(SECOND).schedule.scaled(10.0), two().losses)


def cut_off(last: int = 1600) -> Study:
    rates = two().run(SECOND).schedule.learning_rates()[:last]
    losses = two().losses
    kept = losses[(losses["run"] != SECOND) | (losses["step"] <= last)]
    return with_schedule(Schedule.from_log(np.arange(1, last + 1), rates), kept)


def turned_replay() -> Study:
    runs = [
        run if run.replay is None else replace(run, replay=1.0 - run.replay) for run in two().runs
    ]
    return two(runs=tuple(runs))


MISLEADING: dict[str, tuple[Callable[[], Study], str]] = {
    "given twice": (lambda: second(of_the_first), "r00_cos and r25_cos have the very same losses"),
    "in bits": (
        lambda: second(in_bits),
        "r25_cos seems to be in bits. Multiply the losses of r25_cos by 0.6931",
    ),
    "in bits, no step 0": (lambda: second(in_bits, 1), "r25_cos seems to be in bits"),
    "swapped in one": (
        lambda: second(exchanged, 1),
        "general and kernel seem to be mixed up in one of them",
    ),
    "swapped in all": (
        lambda: two(general="kernel", target="general"),
        "the loss of kernel falls and that of general rises",
    ),
    "tenfold LR": (
        tenfold,
        "peak learning rate of the run r25_cos is 0.02, that of r00_cos 0.002",
    ),
    "turned replay": (turned_replay, "at replay 1 (run r00_cos)"),
}


@pytest.mark.parametrize("case", MISLEADING)
def test_what_would_mislead_a_fit_is_said_first_by_check(
    case: str, call: Call, tmp_path: Path
) -> None:
    made, said = MISLEADING[case]
    write_study(made(), tmp_path / "study")
    answer = call("check", tmp_path / "study")
    first, after = answer.out.splitlines()[:2]
    assert first.startswith("cpt-lab should not be fitted as it is: ")
    assert said in first
    assert not after
    assert answer.code == 1
    quiet = call("check", tmp_path / "study", "--quiet")
    assert quiet == (1, "", f"{first}\n")


def test_what_would_mislead_a_fit_marks_the_fit(
    call: Call, quick_fit: Fits, tmp_path: Path
) -> None:
    made, said = MISLEADING["in bits"]
    write_study(made(), tmp_path / "study")
    target = tmp_path / "fit.nc"
    for line in (("fit", tmp_path / "study", "-o", target), ("summary", target)):
        answer = call(*line, "--quiet")
        assert (answer.code, answer.out) == (1, "")
        assert answer.err.startswith("Not trustworthy: the run r25_cos starts from")
        assert said.split(". ")[0] in answer.err
    assert not bayes_cpt.load(target).trustworthy


def test_a_run_that_was_cut_off_is_said_first_and_may_be_fitted(
    call: Call, quick_fit: Fits, tmp_path: Path
) -> None:
    write_study(cut_off(), tmp_path / "study")
    for line in (("check",), ("fit", "-o", tmp_path / "fit.nc")):
        answer = call(line[0], tmp_path / "study", *line[1:])
        assert answer.code == 0
        assert (
            "the run r25_cos ends at step 1600 while its learning rate"
            in answer.out.splitlines()[0]
        )

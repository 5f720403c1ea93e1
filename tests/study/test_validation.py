"""What is refused of a study, what is warned of, and that each problem names its place and the fix."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from malformed import FILES, OF_MIXED, TABLE, Malformed, write_files
from synthetic import lab

import bayes_cpt
from bayes_cpt import Study, read_plan, read_study
from bayes_cpt.errors import StudyError, StudyWarning
from bayes_cpt.study.ranges import check_evidence


def test_the_unedited_study_is_fine(tmp_path: Path) -> None:
    study = read_study(write_files(tmp_path))
    assert study.warnings == ()
    assert len(study.losses) == 11


@pytest.mark.parametrize("case", TABLE, ids=[case.id for case in TABLE])
def test_error_names_place_and_mend(case: Malformed, tmp_path: Path) -> None:
    path = case.write(tmp_path / "study")
    with pytest.raises(StudyError) as caught:
        read_study(path)
    message = str(caught.value)
    for fragment in case.fragments:
        assert fragment.lower() in message.lower()
    paragraphs = message.split("\n\n")
    assert len(paragraphs) == len(caught.value.problems)
    for paragraph, problem in zip(paragraphs, caught.value.problems, strict=True):
        assert "\n" not in paragraph
        assert paragraph.startswith(str(path))
        assert problem.fix
        assert paragraph.endswith(".")
    assert len(set(paragraphs)) == len(paragraphs)
    assert len(paragraphs) <= SEVERAL_PROBLEMS.get(case.id, 1), message


# One mistake must not look like many: edits of one place give one problem, but for these.
SEVERAL_PROBLEMS = {
    "columns": 4, "base-too-long": 2, "bare-runs": 3, "bare-study": 2, "empty-settings": 4, "runs-text": 5,
    "log-rows": 3, "resources": 2, "top-table": 2, "segment-key": 2, "study-key": 2, "cells": 10,
    "rows": 4, "study-values": 4, "segment-values": 10, "commas": 2, "run-values": 4, "sets-absent": 2,
    "dot-in-a-name": 4,
}  # fmt: skip


def test_all_problems_come_at_once(tmp_path: Path) -> None:
    settings = FILES["study.toml"].replace("replay = 0.25", "replay = 25")
    losses = FILES["losses.csv"] + "mixed,30,prose,nan\nmixd,30,prose,3.5\n"
    folder = write_files(tmp_path, {"study.toml": settings, "losses.csv": losses})
    with pytest.raises(StudyError) as caught:
        read_study(folder)
    assert [problem.place.removeprefix(str(tmp_path)) for problem in caught.value.problems] == [
        "/study.toml, run mixed, key replay",
        "/losses.csv, line 13, run mixed, step 30, domain prose",
        "/losses.csv, line 14, run mixd, step 30, domain prose",
    ]


def test_of_runs_that_cannot_be_built_no_second_problem_is_made(tmp_path: Path) -> None:
    before, after = FILES["study.toml"].split("[bases.half]"), FILES["study.toml"].split("[runs.")
    settings = f"{before[0]}[runs.{after[1].replace('2e-3, end = 2e-3', '2.0, end = 2.0')}"
    folder = write_files(tmp_path, {"study.toml": settings})
    with pytest.raises(StudyError) as caught:
        read_study(folder)
    said = [problem.problem for problem in caught.value.problems]
    assert any("above 0.1" in problem for problem in said)
    assert "there is no run" not in said


def test_problems_alike_are_said_once(tmp_path: Path) -> None:
    rows = "".join(f"mixed,{step},prose,nan\n" for step in range(1, 25))
    with pytest.raises(StudyError, match=r"The same 23 times more, to .*step 24") as caught:
        read_study(write_files(tmp_path, {"losses.csv": FILES["losses.csv"] + rows}))
    assert len(caught.value.problems) == 24


@pytest.mark.parametrize(
    ("settings", "fragments"),
    [
        ("", ("there is no run", "key general")),
        ('[runs.a]\nphase = "cpt"\nbase = "b"\nreplay = 0\nlr_log = true', ("run a, key lr_log",)),
    ],
)
def test_malformed_plan_files(settings: str, fragments: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(settings)
    with pytest.raises(StudyError) as caught:
        read_plan(path)
    for fragment in fragments:
        assert fragment in str(caught.value)


def warned(**changes: object) -> list[str]:
    """Return what is warned of in the bundled study with something mixed up."""
    with warnings.catch_warnings(record=True, action="always", category=StudyWarning) as caught:
        replace(lab(), **changes)  # type: ignore[arg-type]
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize("key", ["general", "target"])
def test_a_set_that_was_measured_and_not_named_is_asked_for(key: str) -> None:
    (said,) = warned(**{key: None})
    assert f"key {key}: the study names no {key} set, so that ccode, " in said
    assert f"Add {key} = " in said


def test_runs_that_differ_in_more_are_not_suspected_of_their_replay() -> None:
    (other,) = (run for run in lab().continual_runs if run.name == "r25_a0_rewarm")
    two = lab().subset(["pt_trunk", "r00_cos", other.name])
    turned = [replace(run, replay=1.0 - (run.replay or 0.0)) for run in two.continual_runs]
    with warnings.catch_warnings(action="error", category=StudyWarning):
        replace(two, runs=(*two.pretraining_runs, *turned))


@pytest.mark.parametrize("change", [0.0, 0.02])
def test_losses_that_hardly_move_are_not_suspected(change: float) -> None:
    starts = lab().losses.groupby(["run", "domain"])["loss"].transform("first")
    sign, step = lab().losses["domain"].map({"kernel": 1.0}).fillna(-1.0), lab().losses["step"]
    loss = starts + change * sign * (step > 0) - 1e-6 * step
    said = warned(losses=lab().losses.assign(loss=loss))
    assert not any("swap" in line.lower() or "replay" in line for line in said)


CPT = [run.name for run in lab().continual_runs]

# Rows of losses.
KERNEL, GENERAL_IN_PT = "domain == 'kernel'", "domain == 'general' and run not in @CPT"
KERNEL_IN_CPT = f"{KERNEL} and run in @CPT"


def with_losses(change: Callable[[pd.DataFrame], pd.DataFrame]) -> Study:
    """Return the bundled study with other losses."""
    with warnings.catch_warnings(action="ignore", category=StudyWarning):
        return replace(lab(), losses=change(lab().losses.copy()))


def with_loss(rows: str, value: object) -> Study:
    """Return the bundled study with one value for some of its losses."""
    return with_losses(lambda own: own.assign(loss=own["loss"].mask(own.eval(rows), value)))


def repeat_the_last(losses: pd.DataFrame) -> pd.DataFrame:
    last = losses.groupby(["run", "domain"])["loss"].transform("last")
    return losses.assign(loss=losses["loss"].mask(losses["run"].isin(CPT), last))


def noise() -> np.ndarray:
    return 1e-7 * np.random.default_rng(1).standard_normal(len(lab().losses))


COUNT = int((lab().losses["domain"] == "general").sum())


@pytest.mark.parametrize(
    ("made", "continual", "said"),
    [
        (lambda: with_loss("loss > 0", 3.1), True,
         [f"domain {name}: all {COUNT} losses are 3.1" for name in ("general", "kernel")]),
        (lambda: with_loss(KERNEL, 3.1), True, ["domain kernel"]),
        # Rounding errors are no curve.
        (lambda: with_loss(KERNEL, 3.1 + noise()), True, ["domain kernel"]),
        (lambda: with_loss(KERNEL_IN_CPT, 3.1), True,
         ["domain kernel: in each of the 10 CPT runs the loss stays what it is"]),
        (lambda: with_losses(repeat_the_last), True, ["10 CPT runs the loss stays"] * 2),
        (lambda: with_loss(GENERAL_IN_PT, 3.1), False, ["PT runs the loss stays what it is"]),
        (lambda: lab().truncated(dict.fromkeys(CPT, 0)), True,
         ["no CPT run has a loss of general and kernel after step 0"]),
    ],
    ids=["all one", "one set", "rounding", "one set in CPT", "repeated", "in PT", "step 0"],
)  # fmt: skip
def test_losses_that_tell_nothing_are_refused_before_a_fit(
    made: Callable[[], Study], continual: bool, said: list[str]
) -> None:
    study = made()
    with pytest.raises(StudyError) as caught:
        check_evidence(study, continual=continual)
    problems = [str(problem) for problem in caught.value.problems]
    for part, problem in zip(said, problems, strict=True):
        assert part in problem
        assert "study cpt-lab" in problem
    model = "cpt-replay" if continual else "pretrain"
    with pytest.raises(StudyError, match=r"the loss stays|losses are|after step 0"):
        bayes_cpt.fit(study, model=model)


@pytest.mark.parametrize(
    ("made", "laws"),
    [
        (lab, (True, False)),
        (lambda: lab().truncated(dict.fromkeys(CPT, 200)), (True, False)),
        # A thousandth of a nat is a curve.
        (lambda: with_loss(KERNEL, 3.1 - 1e-7 * lab().losses["step"]), (True,)),
        (lambda: with_loss(KERNEL_IN_CPT, 3.1), (False,)),
        (lambda: with_loss(GENERAL_IN_PT, 3.1), (True,)),
        (lambda: lab().truncated(dict.fromkeys(CPT, 0)), (False,)),
    ],
    ids=["whole", "short", "slow", "flat in CPT", "flat in PT", "step 0"],
)
def test_telling_losses_are_taken(made: Callable[[], Study], laws: tuple[bool, ...]) -> None:
    for continual in laws:
        check_evidence(made(), continual=continual)


def test_a_validation_set_without_losses_after_step_0_is_warned_of() -> None:
    study = with_losses(lambda losses: losses.query(f"not ({KERNEL_IN_CPT}) or step == 0"))
    with pytest.warns(StudyWarning, match="no CPT run has a loss of kernel after step 0"):
        check_evidence(study, continual=True)


def test_two_equal_losses_may_be_chance() -> None:
    first = lab().subset(["pt_trunk", "r25_cos"])
    steps = first.curve("r25_cos", "kernel")[0]
    rows = first.losses.query(f"not ({KERNEL_IN_CPT}) or step <= {steps[1]}")
    rows = rows.assign(loss=rows["loss"].mask(rows.eval(KERNEL_IN_CPT), 3.1))
    # The base's loss is not that of the PT run any more.
    with warnings.catch_warnings(action="ignore", category=StudyWarning):
        two = replace(first, losses=rows)
    check_evidence(two, continual=True)


def test_a_single_flat_curve_is_a_caution() -> None:
    losses = lab().losses
    here = losses.eval(f"{KERNEL} and run == '{CPT[0]}'")
    told = losses.assign(loss=losses["loss"].mask(here, 3.1))
    with pytest.warns(StudyWarning) as cautions:
        study = replace(lab(), losses=told)
    said = f"all {here.sum()} losses of this curve are 3.1"
    assert any(said in str(caution.message) for caution in cautions)
    check_evidence(study, continual=True)


def test_no_set_is_called_by_the_role_of_others(tmp_path: Path) -> None:
    """An objective that names the role would be about another set than meant."""
    third = FILES["losses.csv"] + "logged,3,target,4.1\n"
    settings = FILES["study.toml"].replace('"code"', '["code", "target"]')
    settings = settings.replace(OF_MIXED, f'{OF_MIXED}targets = "code"\n') + 'targets = "target"\n'
    for own, said in ((FILES["study.toml"], "code by target"), (settings, "all targets by target")):
        folder = write_files(tmp_path, {"study.toml": own, "losses.csv": third})
        with pytest.raises(StudyError, match=f"a validation set is called target.*mean {said}"):
            read_study(folder)


@pytest.mark.parametrize("key", ["general", "target"])
def test_a_name_that_is_a_list_of_lists_is_refused(key: str, tmp_path: Path) -> None:
    name = "prose" if key == "general" else "code"
    edited = FILES["study.toml"].replace(f'{key} = "{name}"', f'{key} = [["x", "{name}"]]')
    with pytest.raises(StudyError, match=f"key {key}"):
        read_study(write_files(tmp_path, {"study.toml": edited}))

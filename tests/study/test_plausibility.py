import warnings
from dataclasses import replace

import pytest
from synthetic import lab

from bayes_cpt.errors import StudyWarning
from bayes_cpt.study.study import Study


def told(**changes: object) -> list[str]:
    """Return what is warned of in the bundled study with something mixed up."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", StudyWarning)
        replace(lab(), **changes)  # type: ignore[arg-type]
    return [str(warning.message) for warning in caught]


def test_the_bundled_study_is_not_suspected() -> None:
    assert told() == []


def test_swapped_validation_sets_are_suspected() -> None:
    (said,) = told(general="kernel", target="general")
    assert "the loss of kernel falls and that of general rises" in said
    assert "Swap general" in said


def test_the_share_of_target_data_given_as_replay_is_suspected() -> None:
    turned = [
        run if run.replay is None else replace(run, replay=1.0 - run.replay) for run in lab().runs
    ]
    (said,) = told(runs=turned)
    assert "key replay: the loss of general changes by" in said
    assert "at replay 1, " in said
    assert "share of general data" in said


def test_few_runs_are_not_suspected_of_their_replay() -> None:
    names = [run.name for run in lab().continual_runs if run.replay in (0.0, 0.75)]
    two: Study = lab().subset(["pt_trunk", *[names[0], names[-1]]])
    turned = [
        replace(run, replay=1.0 - run.replay) if run.replay is not None else run for run in two.runs
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error", StudyWarning)
        replace(two, runs=tuple(turned))


@pytest.mark.parametrize("change", [0.0, 0.02])
def test_losses_that_hardly_move_are_not_suspected(change: float) -> None:
    starts = lab().losses.groupby(["run", "domain"])["loss"].transform("first")
    sign = lab().losses["domain"].map({"kernel": 1.0}).fillna(-1.0)
    losses = lab().losses.assign(
        loss=starts + change * sign * (lab().losses["step"] > 0) - 1e-6 * lab().losses["step"]
    )
    said = told(losses=losses)
    assert not any("swap" in line.lower() or "replay" in line for line in said)

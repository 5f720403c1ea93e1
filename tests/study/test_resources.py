from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_study import STUDY

from bayes_cpt.errors import StudyWarning
from bayes_cpt.study.folder import read_plan, read_study, settings_text, write_study
from bayes_cpt.study.ranges import describe
from bayes_cpt.study.resources import Compute, Resources, UniqueTokens

KNOWN: dict[str, Any] = {
    "tokens_per_step": 1000.0,
    "unique_tokens": UniqueTokens(general=1e6, target=200_000),
    "compute": Compute(seconds_per_step=3.6, gpus=10, price=2.0),
}
PLAN = """
[runs.long]
phase = "cpt"
base = "stable"
replay = 0.25
schedule = [{ shape = "constant", steps = 2000, start = 2e-3, end = 2e-3 }]
"""


def test_epochs_and_costs_of_runs() -> None:
    found = {run["name"]: run for run in describe(replace(STUDY, **KNOWN))["runs"]}
    # 300 steps of 1000 tokens at replay 0.5, and 1000 PT steps of general data.
    half = {"general_epochs": 0.15, "target_epochs": 0.75, "gpu_hours": 3.0, "money": 6.0}
    assert {name: found["half"][name] for name in half} == pytest.approx(half)
    assert found["trunk"]["general_epochs"] == pytest.approx(1.0)
    assert found["trunk"]["target_epochs"] == 0.0
    own = replace(STUDY.run("half"), batch_tokens=4000.0)
    # Steps of four times the tokens take four times as long.
    taken = replace(STUDY, **KNOWN).resources.of_one(own)
    assert taken == pytest.approx({name: 4.0 * value for name, value in half.items()})
    assert not set(half) & set(describe(STUDY)["runs"][0])


@given(st.floats(1, 1e6), st.floats(0, 1), st.floats(1, 1e7), st.floats(1, 1e12))
def test_all_tokens_are_of_one_kind_of_data(
    steps: float, replay: float, per_step: float, size: float
) -> None:
    epochs = Resources(per_step, UniqueTokens(general=size, target=size)).epochs(steps, replay)
    assert float(sum(epochs.values())) == pytest.approx(steps * per_step / size)


def test_many_epochs_are_warned_of_once_for_each_kind_of_data() -> None:
    scarce = UniqueTokens(general=1e6, target=60_000)
    with pytest.warns(StudyWarning) as caught:
        study = replace(STUDY, tokens_per_step=1000.0, unique_tokens=scarce)
    assert len(caught) == 1
    assert "run none: it makes 8.3 epochs over the target data" in str(caught[0].message)
    assert len(study.warnings) == len(STUDY.warnings) + 1
    # The PT run makes more epochs, and is not meant. No law discounts general data.
    with pytest.warns(StudyWarning, match=r"run half: it makes 7.5 epochs") as caught:
        replace(STUDY, tokens_per_step=1000.0, unique_tokens=UniqueTokens(general=20_000))
    assert "runs do so" not in str(caught[0].message)
    assert "cpt-replay-repeats" not in str(caught[0].message)


def test_what_runs_take_is_written_and_read_back(tmp_path: Path) -> None:
    study = replace(STUDY, **KNOWN)
    write_study(study, tmp_path / "study")
    again = read_study(tmp_path / "study")
    assert again.resources == study.resources
    assert again.digest() == study.digest() != replace(study, unique_tokens=None).digest()
    assert replace(study, compute=None).digest() == study.digest()
    assert "unique_tokens" not in settings_text(STUDY)


def test_a_plan_takes_of_the_fitted_study_what_it_does_not_say(tmp_path: Path) -> None:
    study = replace(STUDY, **KNOWN)
    path = tmp_path / "plan.toml"
    path.write_text(PLAN, encoding="utf-8")
    with pytest.warns(StudyWarning, match=r"run long: it makes 7.5 epochs over the target data"):
        assert read_plan(path, study).resources == study.resources
    path.write_text(f"[study]\nunique_tokens = {{ target = 1e9 }}\n{PLAN}", encoding="utf-8")
    found = read_plan(path, study).resources
    assert found.unique_tokens == UniqueTokens(target=1e9)
    assert found.compute == study.compute

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab.errors import LabError
from lab.training.run_list import RunList, read_run_list
from lab.training.schedules import SHAPES, Segment, learning_rate

from bayes_cpt.study import schedules as study_schedules
from bayes_cpt.study.schedules import Schedule

LISTS = Path(__file__).parents[2] / "research" / "lab"


@pytest.fixture(scope="module")
def toy() -> RunList:
    return read_run_list(LISTS / "toy.toml")


@given(
    shape=st.sampled_from(sorted(study_schedules.SHAPES)),
    steps=st.integers(1, 50),
    start=st.floats(1e-6, 1e-2),
    end=st.floats(1e-6, 1e-2),
)
def test_segments_are_those_of_the_study_format(
    shape: str, steps: int, start: float, end: float
) -> None:
    assert set(SHAPES) == set(study_schedules.SHAPES)
    if shape == "constant":
        start = end
    mine = (Segment("linear", 3, 0.0, start), Segment(shape, steps, start, end))
    theirs = Schedule(
        tuple(
            study_schedules.Segment(part.shape, part.steps, part.start, part.end) for part in mine
        )
    )
    rates = [learning_rate(mine, step) for step in range(1, steps + 4)]
    np.testing.assert_allclose(rates, theirs.learning_rates(), rtol=1e-12)
    with pytest.raises(IndexError):
        learning_rate(mine, steps + 4)


def test_a_branch_repeats_the_schedule_that_it_branches_off(toy: RunList) -> None:
    branch = toy.runs["pt_anneal"]
    schedule = toy.full_schedule(branch)
    assert [part.steps for part in schedule] == [20, 100, 30]
    assert toy.start(branch) == 120
    steps = list(toy.measured_steps(branch))
    assert steps == [120, 122, 125, 130, 150]


def test_a_run_from_a_base_is_measured_there_and_early(toy: RunList) -> None:
    steps = list(toy.measured_steps(toy.runs["r00_cosine"]))
    assert steps == [0, 2, 5, 10, 15, 30, 45, 60]
    assert list(toy.measured_steps(toy.runs["pt_trunk"])) == [30, 60, 90, 120]


def test_the_planned_list_is_what_the_study_asks_for() -> None:
    listed = read_run_list(LISTS / "cpt-100m.toml")
    short = [run for run in listed.runs.values() if run.phase == "cpt" and run.steps <= 2000]
    assert len(short) == 10
    assert {run.replay for run in short} >= {0.0, 0.25, 0.5, 0.75}
    assert 90e6 < listed.model.parameters < 110e6
    trunk, anneal = listed.runs["pt_trunk"], listed.runs["pt_anneal"]
    assert (trunk.steps + anneal.steps) * listed.tokens_per_step >= 300e6
    thumb = listed.runs["long_rule_of_thumb"]
    assert (thumb.replay, thumb.base, thumb.steps) == (0.25, "annealed", 3000)
    assert thumb.schedule[0] == Segment("linear", 300, 0.0, 6e-4)
    assert listed.bases["annealed"] == ("pt_anneal", anneal.steps + trunk.steps)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("layers = 4", "depth = 4", "table model: layers is missing"),
        ("heads = 3", "heads = 5", "a head has no even width"),
        ("vocabulary = 2048", "vocabulary = 70000", "tokens do not fit 16 bits"),
        ('"float32"', '"float8"', "precision is 'float8'"),
        ('domains = ["general", "python"]', 'domains = ["general"]', "python is not measured"),
        ("replay = 0.5", "replay = 50", "base is 'stable' and replay is 50"),
        ("step = 120", "step = 130", "run pt_trunk trains steps 1 to 120, not 130"),
        ('run = "pt_trunk"', 'run = "r00_cosine"', "is of a run that is not trained before it"),
        ('base = "stable"\nreplay', 'base = "unknown"\nreplay', "there is no base unknown"),
        ("end = 2e-3", "end = 2.0", "end is 2.0"),
        ('shape = "cosine"', 'shape = "cos"', "shape is 'cos'"),
        ('phase = "cpt"', 'phase = "sft"', "it is neither PT nor CPT"),
    ],
)
def test_a_wrong_list_is_answered_with_its_place(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    text = (LISTS / "toy.toml").read_text()
    assert old in text
    path = tmp_path / "runs.toml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(LabError, match=message) as answer:
        read_run_list(path)
    assert str(path) in str(answer.value)

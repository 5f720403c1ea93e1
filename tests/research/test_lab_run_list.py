from pathlib import Path

import pytest
from lab.training.run_list import RunList, read_run_list

from bayes_cpt.errors import StudyError

LISTS = Path(__file__).parents[2] / "research" / "lab"


@pytest.fixture(scope="module")
def toy() -> RunList:
    return read_run_list(LISTS / "toy.toml")


def test_a_branch_repeats_the_schedule_that_it_branches_off(toy: RunList) -> None:
    branch = toy.runs["pt_anneal"]
    schedule = toy.full_schedule(branch)
    assert [part.steps for part in schedule.segments] == [20, 100, 30]
    assert toy.start(branch) == 120
    steps = list(toy.measured_steps(branch))
    assert steps == [120, 122, 125, 130, 150]


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
        ("end = 2e-3", "end = 2.0", "the peak learning rate is 2"),
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
    with pytest.raises(StudyError, match=message) as answer:
        read_run_list(path)
    assert str(path) in str(answer.value)

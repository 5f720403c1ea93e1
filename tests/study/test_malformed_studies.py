from pathlib import Path

import pytest
from malformed import FILES, TABLE, Malformed, write_files

from bayes_cpt.errors import StudyError
from bayes_cpt.study.folder import read_plan, read_study


def test_the_unedited_study_is_fine(tmp_path: Path) -> None:
    study = read_study(write_files(tmp_path, {**FILES}))
    assert study.warnings == ()
    assert len(study.losses) == 11


def test_ids_are_unique() -> None:
    assert len({case.id for case in TABLE}) == len(TABLE)


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


# One mistake must not look like many: edits of one place give one problem, but for these.
SEVERAL_PROBLEMS = {
    "semicolons": 5,
    "wrong-column": 2,
    "column-typo": 2,
    "column-twice": 2,
    "log-column": 3,
    "empty-settings": 4,
    "runs-text": 5,
    "base-too-long": 2,
    "top-table": 2,
    "segment-key": 2,
    "study-key": 2,
}


@pytest.mark.parametrize("case", TABLE, ids=[case.id for case in TABLE])
def test_one_mistake_gives_few_problems(case: Malformed, tmp_path: Path) -> None:
    with pytest.raises(StudyError) as caught:
        read_study(case.write(tmp_path / "study"))
    assert len(caught.value.problems) <= SEVERAL_PROBLEMS.get(case.id, 1), str(caught.value)


def test_all_problems_come_at_once(tmp_path: Path) -> None:
    settings = FILES["study.toml"].replace("replay = 0.25", "replay = 25")
    losses = FILES["losses.csv"] + "mixed,30,prose,nan\nmixd,30,prose,3.5\n"
    folder = write_files(tmp_path, {**FILES, "study.toml": settings, "losses.csv": losses})
    with pytest.raises(StudyError) as caught:
        read_study(folder)
    assert [problem.place.removeprefix(str(tmp_path)) for problem in caught.value.problems] == [
        "/study.toml, run mixed, key replay",
        "/losses.csv, line 13, run mixed, step 30, domain prose",
        "/losses.csv, line 14, run mixd, step 30, domain prose",
    ]


def test_long_lists_are_cut(tmp_path: Path) -> None:
    rows = "".join(f"mixed,{step},prose,nan\n" for step in range(1, 25))
    with pytest.raises(StudyError, match=r"\.\.\. and 4 more\.") as caught:
        read_study(write_files(tmp_path, {**FILES, "losses.csv": FILES["losses.csv"] + rows}))
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

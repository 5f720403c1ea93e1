import json
import pickle
import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from malformed import LOSSES, RATES, SETTINGS, write_files
from strategies import studies
from synthetic import lab

from bayes_cpt import Base, Run, Study, bundled_study, read_plan, read_study, write_study
from bayes_cpt.errors import StudyError, StudyWarning
from bayes_cpt.study.ranges import describe
from bayes_cpt.study.schedules import Schedule, constant, cosine, linear
from bayes_cpt.study.validation import Origin

HERE = Path(__file__).parents[1]
PUBLISHED = HERE.parents[1] / "shared" / "data"
OURS = [bundled_study(), HERE / "data" / "cpt-lab-practice", HERE / "data" / "cpt-lab-strong"]
THEIRS = sorted(path.parent for path in PUBLISHED.glob("*/study.toml"))


@pytest.fixture
def small(tmp_path: Path) -> Study:
    return read_study(write_files(tmp_path / "small"))


# Reading and writing


@pytest.mark.parametrize("folder", [*OURS, *THEIRS], ids=lambda path: path.name)
@pytest.mark.filterwarnings("ignore::bayes_cpt.errors.StudyWarning")
def test_real_studies_are_read_whole_and_ours_without_warning(folder: Path, tmp_path: Path) -> None:
    study = read_study(folder)
    assert study.warnings == () or folder in THEIRS
    raw = pd.read_csv(folder / "losses.csv")
    points = sum(study.curve(r.name, d)[0].size for r in study.runs for d in study.domains)
    assert points == len(study.losses) == len(raw)
    some = raw.iloc[len(raw) // 2]
    steps, losses = study.curve(some["run"], some["domain"])
    assert losses[steps == some["step"]].tolist() == [some["loss"]]
    write_study(study, tmp_path / "again")
    assert read_study(tmp_path / "again").digest() == study.digest()
    json.dumps(describe(study), allow_nan=False)


# Drawn at random, some look like mistakes.
@pytest.mark.filterwarnings("ignore::bayes_cpt.errors.StudyWarning")
@settings(max_examples=40)
@given(studies(), st.sampled_from(["csv", "parquet"]))
def test_written_studies_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, study: Study, table_format: Literal["csv", "parquet"]
) -> None:
    folder = tmp_path_factory.mktemp("round") / "trip"
    write_study(study, folder)
    for path in folder.glob("*.csv") if table_format == "parquet" else ():
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        numbers = {name: float for name in table if name not in ("run", "domain")}
        table.astype(numbers).to_parquet(path.with_suffix(".parquet"))
        path.unlink()
    again = read_study(folder)
    assert again.digest() == study.digest()
    assert (again.name, again.description) == (study.name, study.description)
    assert again.bases == study.bases
    assert again.runs == study.runs
    pd.testing.assert_frame_equal(again.losses, study.losses)


def test_writing_leaves_no_partial_folder(small: Study, tmp_path: Path) -> None:
    write_study(small, tmp_path / "new")
    with pytest.raises(StudyError, match="Choose a new folder"):
        write_study(small, tmp_path / "new")
    off_run = replace(small.base("half"), schedule=Schedule.from_log([1, 100], [2e-3, 2e-3]))
    logged = replace(small, bases=(replace(off_run, run=None),))
    with pytest.raises(StudyError, match="base half, key schedule"):
        write_study(logged, tmp_path / "newer")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "small"]


@pytest.mark.parametrize("mark", [" , ", ";", "\t", "  "])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_separators_byte_order_mark_blank_lines_and_blanks_are_harmless(
    mark: str, encoding: str, small: Study, tmp_path: Path
) -> None:
    losses = LOSSES.replace(",", mark).replace("\n", "\r\n\r\n").encode(encoding)
    bare = write_files(tmp_path / "blanks", {"study.toml": f"\ufeff{SETTINGS}"})
    (bare / "losses.csv").write_bytes(losses)
    assert read_study(bare).digest() == small.digest()


# Digest


def test_tables_put_together_are_named_by_their_rows(small: Study) -> None:
    first, last = small.losses.iloc[:1], small.losses.iloc[1:2]
    together = pd.concat([last, first.reset_index(drop=True), last.reset_index(drop=True)])
    with pytest.raises(StudyError, match=r"row 2,.* row 0 already holds"):
        replace(small, losses=together, origin=Origin())


def test_digest_ignores_order_name_and_where_it_came_from(small: Study) -> None:
    in_python = Study(
        name="other",
        general="prose",
        target="code",
        bases=small.bases,
        runs=small.runs[::-1],
        losses=small.losses.iloc[::-1].sort_values("step", kind="stable"),
        description="the same in Python",
    )
    assert in_python.digest() == small.digest()
    assert pickle.loads(pickle.dumps(small)).digest() == small.digest()


@pytest.mark.parametrize(
    "change",
    [
        lambda s: replace(s, general="code", target="prose"),
        lambda s: replace(s, losses=s.losses.assign(loss=s.losses["loss"] * (1 + 1e-15))),
        lambda s: replace(s, losses=s.losses.iloc[1:]),
        lambda s: replace(s, tokens_per_step=4096),
        lambda s: replace(s, runs=(*s.runs[:2], replace(s.runs[2], replay=0.51))),
        lambda s: replace(s, bases=(replace(s.bases[0], model_size=3),)),
        lambda s: s.without_losses(),
    ],
)
def test_digest_sees_every_change(small: Study, change: Callable[[Study], Study]) -> None:
    assert change(small).digest() != small.digest()


# Looking things up


def test_curves_are_sorted_and_read_only(small: Study) -> None:
    steps, losses = small.curve("mixed", "code")
    assert steps.tolist() == [0, 25, 50]
    assert losses.tolist() == [4.2, 3.9, 3.7]
    with pytest.raises(ValueError, match="read-only"):
        losses[0] = 0.0
    assert small.curve("logged", "german")[0].size == 0


def test_unknown_names_are_suggested(small: Study) -> None:
    for look in (lambda: small.curve("mixt", "prose"), lambda: small.truncated({"mixd": 25})):
        with pytest.raises(StudyError, match=r"no run 'mix\w+' \(did you mean 'mixed'"):
            look()
    with pytest.raises(StudyError, match="Name one of half"):
        small.base("quarter")


def test_base_loss_from_step_0_then_from_its_run(small: Study) -> None:
    assert small.base_loss("half", "code") == 4.2
    only_pretraining = small.subset(["trunk"])
    assert only_pretraining.base_loss("half", "code") == 4.2
    assert only_pretraining.base_loss("half", "prose") == 3.5
    changed = small.losses.copy()
    changed.loc[changed["run"] == "trunk", "loss"] += 0.01
    assert replace(small, losses=changed).base_loss("half", "code") == 4.2
    assert replace(small, losses=changed).subset(["trunk"]).base_loss("half", "code") == 4.21
    assert small.subset(["mixed"]).base_loss("half", "german") is None


# Parts of a study


def test_subset_keeps_bases_and_lets_go_of_missing_runs() -> None:
    kept = lab().subset(["r25_cos", "pt_cosine"])
    assert [run.name for run in kept.runs] == ["pt_cosine", "r25_cos"]
    assert kept.bases == tuple(replace(base, run=None) for base in lab().bases)
    assert set(kept.losses["run"]) == {"r25_cos", "pt_cosine"}


def test_truncated_cuts_only_the_runs_named(small: Study) -> None:
    cut = small.truncated({"mixed": 25})
    assert cut.curve("mixed", "code")[0].tolist() == [0, 25]
    assert cut.curve("trunk", "prose")[0].tolist() == [50, 100]
    assert cut.run("mixed").schedule.steps == 50


# Plans


def test_plan_is_completed_from_the_study(small: Study, tmp_path: Path) -> None:
    path = tmp_path / "next.toml"
    path.write_text(
        """
        [runs.long]
        phase = "cpt"
        base = "half"
        replay = 0.1
        schedule = [ { shape = "linear", steps = 500, start = 2e-3, end = 0 } ]
        """
    )
    plan = read_plan(path, small)
    assert (plan.name, plan.general, plan.target) == ("next", "prose", "code")
    assert plan.bases == (small.base("half"),)
    assert plan.losses.empty
    with pytest.raises(StudyError, match="base 'half' is unknown"):
        read_plan(path)


@pytest.mark.parametrize(
    ("run", "steps", "said"),
    [
        ("pt_trunk", 6_000, ""),
        ("trunk", 6_000, "no PT run 'trunk'"),
        ("pt_trunk", 99_000, "first 99000"),
    ],
)
def test_a_base_of_a_plan_may_lie_on_a_run_of_the_study(
    run: str, steps: int, said: str, tmp_path: Path
) -> None:
    path, schedule = (
        tmp_path / "plan.toml",
        '[{ shape = "constant", steps = 9, start = 2e-3, end = 2e-3 }]',
    )
    own = f'phase = "cpt"\nbase = "early"\nreplay = 0.1\nschedule = {schedule}'
    path.write_text(f'[bases.early]\nrun = "{run}"\nsteps = {steps}\n[runs.next]\n{own}\n')
    if not said:
        trunk = lab().run("pt_trunk").schedule
        early = read_plan(path, lab()).base("early")
        assert early.schedule == trunk.first(steps)
        measured = lab().losses.query("run == 'pt_trunk' and domain == 'kernel' and step == @steps")
        assert lab().loss_on_run(early, "kernel") == measured["loss"].item()
        return
    with pytest.raises(StudyError, match=said) as raised:
        read_plan(path, lab())
    assert len(raised.value.problems) == 1


def test_plan_may_not_contradict_the_study(small: Study, tmp_path: Path) -> None:
    other = SETTINGS.replace('"prose"', '"verse"').replace("2e-3", "1e-3")
    folder = write_files(tmp_path / "plan", {"study.toml": other})
    with pytest.raises(StudyError) as caught:
        read_plan(folder, small)
    places = [problem.place.removeprefix(f"{folder}/") for problem in caught.value.problems]
    assert places == ["study.toml, table study, key general", "study.toml, base half"]


def test_a_plan_names_no_set_that_the_fitted_study_lacks(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('[study]\ngeneral = "general"\n')
    of_one = replace(lab(), general=None, losses=lab().losses.query("domain == 'kernel'"))
    with pytest.raises(StudyError, match=r"study has none\. Leave out the key general"):
        read_plan(plan, of_one)


def test_an_unknown_base_of_a_plan_is_answered_with_all_of_the_fitted_study(tmp_path: Path) -> None:
    text = (bundled_study() / "plan-example.toml").read_text(encoding="utf-8")
    path = tmp_path / "plan.toml"
    path.write_text(text.replace("stable_12k", "stable_13k"), encoding="utf-8")
    with pytest.raises(StudyError, match="did you mean 'stable_12k'") as raised:
        read_plan(path, lab())
    for base in lab().bases:
        assert base.name in str(raised.value)


def test_plan_folder_keeps_only_step_0(small: Study, tmp_path: Path) -> None:
    assert read_plan(write_files(tmp_path / "plan")).digest() == small.without_losses().digest()
    assert read_plan(write_files(tmp_path / "bare", {"losses.csv": None}), small).losses.empty


# Warnings


ENDS = LOSSES.replace("trunk,100,prose,3.5", "trunk,100,prose,{}")


@pytest.mark.parametrize(
    ("losses", "fragments"),
    [
        (LOSSES + "mixed,10,prose,3.4\n", ["line 13, run mixed, step 10", "sorted by step"]),
        (LOSSES + "mixed,40,prose,15.1\n", ["line 13", "bits times 0.6931"]),
        (LOSSES.replace("logged,0,prose,3.5", "logged,0,prose,3.52"), ["line 10", "3.5 in run"]),
        (ENDS.format(3.5 / 0.6931), ["line 5, run mixed, step 0", "in bits"]),
        (ENDS.format(3.6), ["line 5", "same sequences"]),
        (re.sub(r"logged.*\n", "", LOSSES), ["run logged", "no losses"]),
    ],
    ids=["disorder", "bits", "base", "base-in-bits", "other-base", "unmeasured"],
)
def test_suspicious_losses_warn(losses: str, fragments: list[str], tmp_path: Path) -> None:
    with pytest.warns(StudyWarning) as caught:
        study = read_study(write_files(tmp_path, {"losses.csv": losses}))
    assert len(caught) == 1
    text = str(caught[0].message)
    assert [str(caution) for caution in study.warnings] == [text]
    for fragment in fragments:
        assert fragment in text
    assert "losses.csv" in text
    with warnings.catch_warnings(action="error"):
        study.without_losses()
        study.subset(["trunk", "mixed"])


def test_interpolated_logs_warn(tmp_path: Path) -> None:
    rates = RATES.replace("logged,2,1e-3\n", "")
    with pytest.warns(StudyWarning, match="lr.csv, run logged: 1 of 3 learning rates"):
        read_study(write_files(tmp_path, {"lr.csv": rates}))


# Building in Python


def test_python_errors_name_rows_and_keys() -> None:
    losses = pd.DataFrame(
        {"run": ["a", "a"], "step": [1.5, True], "domain": ["prose"] * 2, "loss": [3.0, np.nan]}
    )
    with pytest.raises(StudyError) as caught:
        Study("s", "prose", None, (), (Run("a", "pt", constant(9, 1e-3)),) * 2, losses)
    text = str(caught.value)
    assert "study, run a: two runs are named 'a'" in text
    assert "losses, row 0, run a, step 1.5" in text
    assert "losses, row 1" in text


def test_a_run_that_is_there_already_is_not_added() -> None:
    with pytest.raises(StudyError, match="two runs are named 'r25_cos'"):
        lab().with_runs([lab().run("r25_cos")])


@pytest.mark.parametrize(
    ("build", "places"),
    [
        (lambda: Base("b", 10, constant(9, 0.5), model_size=-1),
         ["base b, key model_size", "base b, key schedule", "base b, key steps"]),
        (lambda: Run("r", "pt", constant(9, 1e-3), model_size=6e7), ["run r, key model_size"]),
        (lambda: Run(" r", "cpt", cosine(9, 1e-3), replay=33),
         ["run  r, key name", "run  r, key base", "run  r, key replay"]),
    ],
)  # fmt: skip
def test_base_and_run_name_every_problem(build: Callable[[], object], places: list[str]) -> None:
    with pytest.raises(StudyError) as caught:
        build()
    assert [problem.place for problem in caught.value.problems] == places


def test_errors_survive_pickling() -> None:
    with pytest.raises(StudyError) as caught:
        linear(0, 0.0, 1e-3)
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.problems == caught.value.problems
    assert str(again) == str(caught.value)


def test_description_of_the_lab() -> None:
    study = lab()
    assert study.domains == ("general", "kernel", *sorted(study.third_domains))
    assert (len(study.pretraining_runs), len(study.continual_runs)) == (4, 10)
    told = describe(study)
    assert told["ranges"]["cpt"] == {
        "replay": [0.0, 0.75],
        "peak_learning_rate": [0.0006, 0.002],
        "steps": [3000, 3000],
    }
    assert [base["loss_potential"] for base in told["bases"]] == pytest.approx([1, 1, 0, 0.3])
    by_name = {run["name"]: run for run in told["runs"]}
    assert by_name["r25_a0_rewarm"]["warmup_steps"] == 150
    assert by_name["pt_trunk"]["points"]["general"] == 80
    assert told["bases"][0]["losses"]["kernel"] == 3.5179

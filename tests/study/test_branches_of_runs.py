"""Where runs branch off one another: what they share, and how a study says so."""

from dataclasses import replace
from pathlib import Path

import pytest
from branching import COOLED, LEFT, PEAK, TRUNK, branching_study, measured, rows
from synthetic import prior_as_posterior

from bayes_cpt import Run, Study, load, read_plan, read_study, write_study
from bayes_cpt.errors import StudyError, StudyWarning
from bayes_cpt.study.runs import Branch
from bayes_cpt.study.schedules import Schedule, constant, linear
from bayes_cpt.study.trunks import own_curve, start_loss, with_found_branches

SETTINGS = """
[study]
name = "branching"
general = "web"

[runs.cooled]
phase = "pt"
branch = { run = "trunk", step = 200 }
schedule = [ { shape = "linear", steps = 100, start = 1e-3, end = 0 } ]

[runs.trunk]
phase = "pt"
schedule = [
  { shape = "linear", steps = 50, start = 0, end = 1e-3 },
  { shape = "constant", steps = 350, start = 1e-3, end = 1e-3 },
]
"""


def folder_of(path: Path, settings: str = SETTINGS) -> Path:
    path.mkdir()
    (path / "study.toml").write_text(settings)
    lines = [f"trunk,{t},web,{5 - t / 400}" for t in range(20, 401, 20)]
    lines += [f"cooled,{t},web,{4.4 - t / 400}" for t in range(220, 301, 20)]
    (path / "losses.csv").write_text("\n".join(["run,step,domain,loss", *lines, ""]))
    return path


def test_a_folder_says_where_a_run_branches_off(tmp_path: Path) -> None:
    study = read_study(folder_of(tmp_path / "study"))
    assert study.run("trunk").branch is None
    write_study(study, tmp_path / "copy")
    copy = read_study(tmp_path / "copy")
    assert copy.digest() == study.digest()
    assert copy.run("cooled").branch == study.run("cooled").branch == Branch("trunk", 200)
    assert "constant" not in (tmp_path / "copy" / "study.toml").read_text().split("[runs.trunk]")[0]


def test_a_trunk_left_in_the_middle_of_a_segment_is_written_as_a_log(tmp_path: Path) -> None:
    trunk = linear(100, 0.0, PEAK)
    branch = Run("early", "pt", linear(200, 0.0, 2 * PEAK), branch=Branch("trunk", 60))
    losses = [("trunk", 100, "web", 4.0), ("early", 150, "web", 3.9)]
    study = Study("s", "web", None, (), (Run("trunk", "pt", trunk), branch), rows(losses))
    write_study(study, tmp_path / "copy")
    copy = read_study(tmp_path / "copy").run("early")
    assert copy.branch == Branch("trunk", 60)
    expected = branch.schedule.learning_rates()
    assert copy.schedule.learning_rates() == pytest.approx(expected, rel=1e-12)


def test_the_digest_knows_of_branches() -> None:
    study = branching_study()
    assert study.digest() != branching_study(branches=False).digest()
    earlier = replace(study.run("cooled"), branch=Branch("trunk", LEFT - 1))
    changed = (earlier if run.name == "cooled" else run for run in study.runs)
    assert replace(study, runs=tuple(changed)).digest() != study.digest()


def test_a_plan_branches_off_a_run_of_the_fitted_study(tmp_path: Path) -> None:
    study = read_study(folder_of(tmp_path / "study"))
    plan = tmp_path / "plan.toml"
    plan.write_text(SETTINGS.split("[runs.trunk]")[0].replace("cooled", "planned"))
    run = read_plan(plan, study).run("planned")
    assert run.branch == Branch("trunk", 200)
    assert run.schedule.steps == 300
    with pytest.raises(StudyError, match="there is no run 'trunk'"):
        read_plan(plan)


def test_a_branch_starts_at_its_trunks_loss() -> None:
    study = branching_study()
    cooled, held = study.run("cooled"), study.run("held")
    trunk = dict(zip(*study.curve("trunk", "web"), strict=True))
    assert start_loss(study, cooled, "web") == trunk[LEFT]
    between = replace(cooled, branch=Branch("trunk", LEFT + 50))
    expected = 0.75 * trunk[LEFT] + 0.25 * trunk[LEFT + 200]
    assert start_loss(study, between, "web") == pytest.approx(expected, rel=1e-12)
    # Left before the cool-down left the trunk, or between its branch and its first loss.
    assert start_loss(study, replace(held, branch=Branch("cooled", 1000)), "web") == trunk[1000]
    soon = replace(held, branch=Branch("cooled", LEFT + 50))
    first = dict(zip(*study.curve("cooled", "web"), strict=True))[LEFT + 100]
    assert start_loss(study, soon, "web") == pytest.approx(0.5 * (trunk[LEFT] + first), rel=1e-12)


def test_where_the_trunk_was_not_measured_nothing_starts() -> None:
    study = branching_study()
    cooled = study.run("cooled")
    assert start_loss(study.truncated({"trunk": LEFT - 200}), cooled, "web") is None
    assert start_loss(study, cooled, "other") is None
    assert start_loss(study.subset(["cooled"]), cooled, "web") is None
    assert start_loss(study, study.run("trunk"), "web") is None


def test_what_a_run_repeats_of_its_trunk_counts_once() -> None:
    study = branching_study()
    again = study.with_runs([], losses=[("cooled", 1000, "web", 3.9)])
    assert own_curve(again, study.run("cooled"), "web")[0][0] == 2100


@pytest.mark.parametrize(
    ("schedule", "step", "fragment"),
    [
        (constant(3000, PEAK), LEFT, "step 1 "),
        (TRUNK + constant(99, 1e-4), 4001, "has only 4000"),
        (COOLED, COOLED.steps, "the schedule of the steps after the branch"),
        (COOLED, 0, "key branch"),
    ],
)
def test_a_branch_has_the_learning_rates_of_its_trunk_and_steps_of_its_own(
    schedule: Schedule, step: int, fragment: str
) -> None:
    with pytest.raises(StudyError, match=fragment):
        branching_study().with_runs([Run("b", "pt", schedule, branch=Branch("trunk", step))])


def test_runs_with_the_same_first_losses_are_one_run_up_to_there() -> None:
    study = branching_study(branches=False)
    trunk = study.curve("trunk", "web")
    shared = [
        (run, int(step), "web", float(loss))
        for run in ("cooled", "held")
        for step, loss in zip(*trunk, strict=True)
        if step <= LEFT
    ]
    repeated = study.with_runs([], losses=shared)
    found = with_found_branches(repeated)
    assert found.run("cooled").branch == Branch("trunk", LEFT)
    # From the cool-down the last run parts later, but no loss of theirs after the trunk is the same.
    assert found.run("held").branch == Branch("trunk", LEFT)
    constant_losses = repeated.losses.assign(loss=3.0)
    with pytest.warns(StudyWarning, match="all 20 losses of this curve are 3"):
        alike = replace(repeated, losses=constant_losses)
    assert with_found_branches(alike) is alike


def test_a_ring_of_branches_is_refused() -> None:
    runs = [Run(one, "pt", TRUNK, branch=Branch(two, LEFT)) for one, two in ("ab", "ba")]
    with pytest.raises(StudyError, match="in a ring"):
        Study("ring", "web", None, (), tuple(runs), rows([("a", 4000, "web", 3.5)]))


def test_a_log_that_begins_where_the_rates_part_is_a_branch() -> None:
    study = branching_study(branches=False)
    found = with_found_branches(study).runs
    # The cool-down shows too little before the last run leaves it to be known as its trunk.
    assert [run.branch for run in found] == [None, Branch("trunk", LEFT), Branch("trunk", LEFT)]
    # A log that begins much later may be of any run; where no log shows what was before, all begin there.
    for few in ("run != 'cooled' or step > 2500", "step > 1800"):
        other = replace(study, losses=study.losses.query(few))
        assert with_found_branches(other).run("cooled").branch is None


@pytest.mark.parametrize("changed", ["losses", "rates", "size"])
def test_runs_that_only_look_alike_are_two(changed: str) -> None:
    other = measured("other", range(200, 2001, 200))
    if changed == "losses":
        other = [(run, t, domain, loss + 1e-4 * (t > 200)) for run, t, domain, loss in other]
    rates = linear(100, 0.0, PEAK) + constant(1900, PEAK * (1.01 if changed == "rates" else 1.0))
    size = 124.0 if changed == "size" else None
    study = branching_study().subset(["trunk"])
    study = study.with_runs([Run("other", "pt", rates, model_size=size)], losses=other)
    assert study.run("other") == with_found_branches(study).run("other")


def test_a_run_whose_trunk_was_left_out_is_written_whole(tmp_path: Path) -> None:
    study = branching_study().subset(["cooled", "held"])
    write_study(study, tmp_path / "copy")
    copy = read_study(tmp_path / "copy")
    assert [run.branch for run in copy.runs] == [None, Branch("cooled", 2300)]
    for run in study.runs:
        rates = copy.run(run.name).schedule.learning_rates()
        assert rates == pytest.approx(run.schedule.learning_rates(), rel=1e-12)
    # A trunk that is left at the end of a segment leaves the schedule as it was, to the letter.
    alone = study.subset(["cooled"])
    write_study(alone, tmp_path / "alone")
    assert read_study(tmp_path / "alone").digest() == alone.digest()


def test_a_fit_without_the_trunk_is_saved_and_loaded(tmp_path: Path) -> None:
    prior_as_posterior(branching_study().subset(["cooled"]), "pretrain").save(tmp_path / "fit.nc")
    assert load(tmp_path / "fit.nc").study.run("cooled").schedule.steps == COOLED.steps

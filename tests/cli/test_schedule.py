from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import Call

import bayes_cpt
from bayes_cpt.decisions.schedule_choice import choose_schedule

pytestmark = pytest.mark.usefixtures("few_candidates", "empty_figures")

RUN = ("--steps", 400, "--replay", 0.25, "--base", "annealed_0pct", "--draws", 8)


def test_gains_and_words_are_those_of_the_choice(call: Call, fit_file: Path) -> None:
    given = (*RUN, "--cap", 1e-3, "--objective", "domain-focus")
    found = call("schedule", fit_file, *given, "--interval", 0.8, "--json").json()
    expected = choose_schedule(
        bayes_cpt.load(fit_file), "annealed_0pct", 0.25, 400, "domain-focus",
        cap=1e-3, draws=8,
    )  # fmt: skip
    assert found["sentences"] == expected.sentences(0.8)
    assert found["verdict"] == expected.verdict(0.8)
    assert found["advised"] == expected.advised
    assert found["not_given"] == []
    assert found["files"] == {}
    advised = expected.run.schedule
    np.testing.assert_allclose(found["learning_rate"], advised.learning_rates())
    table = pd.DataFrame(found["gains"])
    pd.testing.assert_frame_equal(table, expected.table(0.8), check_exact=False)


def test_the_folder_is_a_plan_that_predict_reads(
    call: Call, fit_file: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "schedule"
    assert call("schedule", fit_file, *RUN, "-o", folder).code == 0
    assert len(pd.read_csv(folder / "gains.csv")) == 1
    out = tmp_path / "forecast.csv"
    assert call("predict", fit_file, "--plan", folder, "-o", out, "--draws", 8).code == 0
    assert pd.read_csv(out)["run"].unique().tolist() == ["cosine", "wsd"]


def test_base_and_replay_need_not_be_given(call: Call, fit_file: Path, tmp_path: Path) -> None:
    """What the tour of the README runs."""
    folder = tmp_path / "schedule"
    answer = call("schedule", fit_file, "--steps", 300, "-o", folder, "--draws", 8)
    assert answer.code == 0
    assert "(base and replay not given: the best of those tried)" in answer.out
    study = bayes_cpt.load(fit_file).study
    run = bayes_cpt.read_plan(folder, study).run("wsd")
    tried = study.continual_runs
    assert run.base in {own.base for own in tried}
    assert run.replay in {own.replay for own in tried}
    told = call("schedule", fit_file, "--steps", 300, "--draws", 8, "--json").json()
    assert (told["base"], told["replay"]) == (run.base, run.replay)
    assert told["not_given"] == ["base", "replay"]

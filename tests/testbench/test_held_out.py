from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayes_cpt.bundled import bundled_study
from bayes_cpt.readers.folder import read_study
from bayes_cpt.study import Study
from bayes_cpt.validate.scores import summarize
from testbench import held_out
from testbench.held_out import held_out_task, leave_run_out_tasks, main, score_methods
from testbench.report import crps_ratios

PRACTICE = Path(__file__).parents[1] / "data" / "cpt-lab-practice"


@pytest.fixture(scope="module")
def lab() -> Study:
    return read_study(bundled_study())


@pytest.fixture(scope="module")
def practice() -> Study:
    return read_study(PRACTICE)


def guess(level: float, spread: float) -> held_out.Method:
    """Return a method that draws around one level."""

    def method(fit_study: Study, plan: Study, points: pd.DataFrame, *, seed: int = 0) -> np.ndarray:
        assert list(points.columns) == ["run", "domain", "step"]
        return np.random.default_rng(seed).normal(level, spread, size=(50, len(points)))

    return method


def test_methods_see_no_loss_but_that_of_the_base(lab: Study, practice: Study) -> None:
    task = held_out_task(lab, practice)
    assert task.plan.is_plan
    assert set(task.plan.losses["step"]) == {0}
    assert task.measured["step"].min() > 0
    assert set(task.measured["domain"]) == {"general", "kernel"}
    assert set(task.measured["run"]) == {run.name for run in practice.continual_runs}
    counts = practice.losses.query("domain in ('general', 'kernel') and step > 0")
    assert len(task.measured) == len(counts)


def test_every_continual_run_is_left_out_once(lab: Study) -> None:
    tasks = list(leave_run_out_tasks(lab))
    left_out = [task.measured["run"].unique().tolist() for task in tasks]
    assert left_out == [[run.name] for run in lab.continual_runs]
    for task, (name,) in zip(tasks, left_out, strict=True):
        assert name not in set(task.fit_study.losses["run"])
        assert len(task.fit_study.runs) == len(lab.runs) - 1


def test_a_better_method_has_the_smaller_crps(lab: Study, practice: Study) -> None:
    methods = {"bayes_cpt": guess(2.8, 0.2), "rough": guess(4.0, 0.2)}
    scored, seconds = score_methods([held_out_task(lab, practice)], methods, seed=1)
    assert list(seconds) == ["bayes_cpt", "rough"]
    summary = pd.concat(
        summarize(rows).assign(method=name) for name, rows in scored.groupby("method")
    )
    ratios = crps_ratios(summary, "bayes_cpt")
    assert (ratios["CRPS bayes_cpt / rough"] < 0.5).all()
    assert crps_ratios(summary[summary["method"] == "rough"], "bayes_cpt").empty


def test_command_line_prints_a_table_and_writes_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_out, "METHODS", {"close": guess(2.8, 0.2), "far": guess(4.0, 0.2)})
    folder = tmp_path / "scores"
    main([str(bundled_study()), str(PRACTICE), "--methods", "close,far", "--out", str(folder)])
    lines = capsys.readouterr().out.splitlines()
    assert "| r25_cos_12k | general | close | 67 |" in "\n".join(lines)
    assert lines[-1].startswith("Seconds: close")
    # Title, rule, three runs on two sets and twice three pooled rows, each for two methods.
    assert sum(line.startswith("|") for line in lines) == 2 + 2 * (3 * 2 + 2 * 3)
    assert {path.name for path in folder.iterdir()} == {
        *("points.csv", "summary.csv", "bands-general.png", "bands-kernel.png")
    }
    assert len(pd.read_csv(folder / "points.csv")) == 2 * 2 * (67 + 47 + 47)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lab", "new", "--methods", "papers"], "unknown methods papers: choose from paper"),
        (["lab"], "give either HELD_OUT_STUDY or --leave-run-out"),
        (["lab", "new", "--leave-run-out"], "give either HELD_OUT_STUDY or --leave-run-out"),
    ],
)
def test_wrong_command_lines_say_what_is_wrong(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert message in capsys.readouterr().err

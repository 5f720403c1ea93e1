import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from testbench import few_runs
from testbench.few_runs import (
    LENGTHS,
    LONG_RUNS,
    NUMBERS,
    ORDER,
    Cell,
    cells,
    learn_all,
    main,
    short_runs,
)
from testbench.few_runs_report import markdown
from testbench.one_decision import OBJECTIVES, OURS, RULE, Outcome, Task, World
from testbench.short_studies import (
    DOMAINS,
    LONG,
    NOISES,
    PEAK,
    measured_steps,
)


def made_up(cell: Cell) -> Outcome:
    """Return rows as `one_cell` does, without a fit: errors shrink with the tokens seen."""
    size = 10.0 / (cell.number * cell.steps)
    place = {"truth": cell.world.label, "number": cell.number, "steps": cell.steps}
    rows = {
        "regrets": [
            {"objective": name, "method": method, "regret": own}
            for name in OBJECTIVES
            for method, own in ((OURS, size), (RULE, 0.02), ("oracle", 0.0))
        ],
        "scores": [{"domain": name, "crps": size, "coverage_90": 0.9} for name in DOMAINS],
        "fits": [{"rhat": 1.01, "ess": 400.0, "divergences": 0}],
    }
    return Outcome(
        cell.label, {name: pd.DataFrame(own).assign(**place) for name, own in rows.items()}
    )


def test_cells_see_each_truth_through_every_number_and_length() -> None:
    found = cells(3, 0)
    assert len(found) == 3 * len(NUMBERS) * len(LENGTHS)
    assert len({cell.label for cell in found}) == len(found)
    first = found[: len(NUMBERS) * len(LENGTHS)]
    assert len({cell.world.seed for cell in first}) == 1
    assert found[: len(first)] == cells(1, 0)


def test_more_runs_hold_the_fewer_and_none_is_the_long_one() -> None:
    eight = short_runs(8, 500)
    assert short_runs(3, 500) == eight[:4]
    assert len({run.name for run in eight}) == len(ORDER) + 1
    for run, (replay, peak) in zip(eight[1:], ORDER, strict=True):
        assert run.schedule.steps == 500
        assert run.replay == replay
        assert run.schedule.peak == pytest.approx(PEAK * (peak or 1.0))
        assert run.base == ("annealed" if peak else "stable")
        assert measured_steps(run, "general")[-1] == 500
    trained = {(replay, peak) for replay, peak in ORDER}
    for run in LONG_RUNS:
        assert run.schedule.steps == LONG
        assert (run.replay, run.schedule.peak / PEAK) not in trained


@pytest.mark.parametrize("noise", NOISES)
def test_one_truth_is_the_same_whatever_runs_it_is_seen_through(noise: str) -> None:
    task = Task("0", "moderate", noise, 5)
    few, many = (World.of(task, short_runs(*size)) for size in ((1, 500), (8, 3000)))
    for name, own in few.truth.items():
        np.testing.assert_array_equal(own, many.truth[name])
    # PT is measured first, so that bases start at the same losses.
    np.testing.assert_array_equal(few.losses, many.losses)
    assert len(many.study.runs) == 9
    assert many.study.curve("short 8", "target")[0][-1] == 3000


def test_the_command_reports_and_goes_on_where_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def counted(cell: Cell) -> Outcome:
        done.append(cell.label)
        return made_up(cell)

    monkeypatch.setattr(few_runs, "one_cell", counted)
    folder = str(tmp_path / "out")
    main(["-n", "1", "-o", folder])
    main(["-n", "2", "-o", folder])
    assert sorted(done) == sorted(cell.label for cell in cells(2, 0))
    printed = capsys.readouterr()
    report = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert printed.out.endswith(report)
    assert "fit 40 of 40" in printed.err
    assert "| 8 | 2.5 ± 0.0 (90%) |" in report
    assert "The common rule, a quarter of replay at the PT peak: 20.0." in report
    assert (tmp_path / "out" / "few-runs.png").stat().st_size > 10_000
    assert len(learn_all(1, 0, 1, tmp_path / "out")["fits"]) == 20


@pytest.mark.slow
def test_more_and_longer_runs_forecast_better() -> None:
    """Eight long ones forecast better than one short one, over several truths."""
    tables = learn_all(4, seed=0, jobs=2)
    logging.getLogger(__name__).info(markdown(tables))
    own = tables["scores"].groupby(["number", "steps"])["crps"].mean()
    assert own[8, 3000] < own[1, 500]

"""Choosing between real runs: nothing is fitted here but a Gaussian process and point estimates."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from synthetic import lab
from testbench import real_choice
from testbench.one_decision import OURS
from testbench.real_choice import main, pairs, summary

from bayes_cpt import Study, bundled_study

QUALITY = {"rhat": 1.0, "ess": 500.0, "divergences": 0, "trustworthy": True}


def test_pairs_are_of_runs_that_end_at_the_same_step() -> None:
    found = pairs(bundled_study(), 0)
    study = lab()
    assert len({pair.label for pair in found}) == len(found) == 45
    assert all(
        study.run(pair.names[0]).schedule.steps == study.run(pair.names[1]).schedule.steps
        for pair in found
    )
    assert found[3].seed == pairs(bundled_study(), 0)[3].seed != pairs(bundled_study(), 1)[3].seed


def test_the_command_goes_on_where_it_was_and_knows_what_was_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    study = lab()
    seen: list[tuple[str, ...]] = []

    def forecast(others: Study, plan: Study, held: tuple[object, ...], seed: int) -> object:
        names = tuple(run.name for run in held)  # type: ignore[attr-defined]
        assert not set(names) & {run.name for run in others.runs}
        assert all(plan.curve(name, str(study.general))[0].size <= 1 for name in names)
        seen.append(names)
        # The second of a pair is said to be better, three draws in four.
        draws = np.zeros((2, 4, 2))
        draws[:, :3, 0], draws[:, 3, 1] = 1.0, 1.0
        return draws, QUALITY

    monkeypatch.setattr(real_choice, "_forecast", forecast)
    monkeypatch.setattr(real_choice, "PREDICTORS", {})
    few = pairs(bundled_study(), 0)[:2]
    monkeypatch.setattr(real_choice, "pairs", lambda path, seed: few)
    main([str(bundled_study()), "-o", str(tmp_path / "out")])
    main([str(bundled_study()), "-o", str(tmp_path / "out")])
    assert len(seen) == 2
    table = pd.read_csv(tmp_path / "out" / "choices.csv")
    own = table[(table["method"] == OURS) & (table["objective"] == "balanced")]
    for row in own.to_dict("records"):
        ends = {
            name: 0.5 * sum(study.curve(name, d)[1][-1] for d in (str(study.general), "kernel"))
            for name in (row["first"], row["second"])
        }
        assert row["chosen"] == row["second"]
        assert row["regret"] == pytest.approx(ends[row["second"]] - min(ends.values()))
        assert (row["stated"], row["stated_best"]) == (0.25, 0.75)
    assert "| cpt-lab | balanced | rule | 2 |" in capsys.readouterr().out


def test_errors_are_those_of_a_jackknife_over_runs() -> None:
    names = ("a", "b", "c", "d")
    rows = [
        {"first": one, "second": two, "regret": 0.001 * (number + 1)}
        for number, (one, two) in enumerate(
            (one, two) for i, one in enumerate(names) for two in names[i + 1 :]
        )
    ]
    table = pd.DataFrame(rows).assign(
        study="s", objective="balanced", method=OURS, stated=0.002, stated_best=0.5
    )
    row = summary(table).iloc[0]
    # Without a: pairs 4, 5, 6; without b: 2, 3, 6; without c: 1, 3, 5; without d: 1, 2, 4.
    means = np.array([5.0, 11 / 3, 3.0, 7 / 3])
    error = np.sqrt(0.75 * ((means - means.mean()) ** 2).sum())
    assert row["regret"] == f"3.5 ± {error:.1f}"
    assert row["stated"] == "2.0"

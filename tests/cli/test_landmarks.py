from pathlib import Path
from textwrap import wrap

import numpy as np
import pandas as pd
import pytest
from command_line import Call

import bayes_cpt
from bayes_cpt.bundled import bundled_study
from bayes_cpt.landmarks import survey

pytestmark = pytest.mark.usefixtures("few_candidates")

LINES = (bundled_study() / "study.toml").read_text(encoding="utf-8")
RUNS = ("r25_cos", "r25_a0_rewarm")
FEW = ("--draws", 8)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """Return two runs of the bundled study as a plan."""
    path = tmp_path / "plan.toml"
    tables = [text for text in LINES.split("[runs.") if text.split("]")[0] in RUNS]
    path.write_text("".join(f"[runs.{text}" for text in tables))
    return path


def test_tables_and_words_are_those_of_the_survey(call: Call, fit_file: Path, plan: Path) -> None:
    arguments = ("landmarks", fit_file, "--plan", plan, "--run", "r25_a0_rewarm", *FEW)
    found = call(*arguments, "--interval", 0.8, "--json").json()
    expected = survey(bayes_cpt.load(fit_file), plan, "r25_a0_rewarm", draws=8)
    assert found["run"] == "r25_a0_rewarm"
    assert found["sentences"] == expected.sentences(0.8)
    assert found["verdict"] == expected.verdict(0.8)
    posterior, prior = expected.past() or (None, None)
    assert found["past_critical_point"] == {
        "base": "annealed_0pct",
        "replay": 0.25,
        "probability": posterior,
        "probability_by_prior": prior,
    }
    assert found["files"] == {}
    for name, table in expected.tables(0.8).items():
        read = pd.DataFrame(found[name])
        assert list(read.columns) == list(table.columns)
        for column in ("median", "lower", "upper"):
            # JSON knows neither infinity nor NaN.
            wanted = table[column].where(np.isfinite(table[column]))
            np.testing.assert_allclose(read[column].astype(float), wanted)


def test_what_is_printed_fits_on_a_screen(
    call: Call, fit_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    answer = call("landmarks", fit_file, *FEW)
    lines = [part for line in answer.out.splitlines() for part in wrap(line, 100) or [""]]
    assert len(lines) <= 40
    assert "…" not in answer.out
    assert answer.out.splitlines()[3] == ""
    assert "2 more runs in --json" in answer.out
    assert "by the prior alone" in answer.out

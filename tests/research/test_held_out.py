from pathlib import Path

import pandas as pd
import pytest
from stand_in import guess
from testbench import held_out
from testbench.held_out import main

from bayes_cpt.bundled import bundled_study

PRACTICE = Path(__file__).parents[1] / "data" / "cpt-lab-practice"


def test_command_line_prints_a_table_and_writes_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_out, "METHODS", {"bayes_cpt": guess(2.8, 0.2), "far": guess(4.0, 0.2)})
    folder = tmp_path / "scores"
    main([str(bundled_study()), str(PRACTICE), "--methods", "bayes_cpt,far", "--out", str(folder)])
    lines = capsys.readouterr().out.splitlines()
    assert "| r25_cos_12k | general | bayes_cpt | 67 |" in "\n".join(lines)
    assert lines[-1].startswith("Seconds: bayes_cpt")
    # Title, rule, three runs on two sets and twice three pooled rows, each for two methods; ratios.
    assert sum(line.startswith("|") for line in lines) == 2 + 2 * (3 * 2 + 2 * 3) + 2 + 6
    assert "CRPS bayes_cpt / far" in "\n".join(lines)
    assert {path.name for path in folder.iterdir()} == {
        *("points.csv", "summary.csv", "bands-general.png", "bands-kernel.png")
    }
    assert len(pd.read_csv(folder / "points.csv")) == 2 * 2 * (67 + 47 + 47)

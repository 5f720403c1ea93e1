from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest
from command_line import Call

from bayes_cpt.decisions.decision import decide
from bayes_cpt.plots.style import COLUMN

# One column of a paper, and two.
WIDTHS = (COLUMN, 2 * COLUMN)
FASTER = ("--draws", 60)


@patch("bayes_cpt.report.page.decide", partial(decide, candidates=256))
def test_page_and_paper_are_written(call: Call, fit_file: Path, tmp_path: Path) -> None:
    page, paper = tmp_path / "report.html", tmp_path / "paper"
    answer = call("report", fit_file, "-o", page, "--paper", paper, *FASTER, "--json")
    assert answer.code == 0, answer.err
    told = answer.json()
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert len(told["verdict"]) == 3
    files = {path.name for path in paper.iterdir()}
    assert {Path(own).name for own in told["files"].values()} == {page.name, *files}
    assert {"paper.tex", "methods.tex", "references.bib", "table-choices.tex"} <= files
    for figure in paper.glob("figure-*.pdf"):
        content = figure.read_bytes()
        assert content.startswith(b"%PDF")
        # Many a journal takes no fonts of Type 3.
        assert b"/Type3" not in content
        assert b"/Subtype /Type0" in content
        box = content.split(b"/MediaBox [")[1].split(b"]")[0].split()
        assert any(float(box[2]) / 72 == pytest.approx(width, abs=0.01) for width in WIDTHS)
    assert "0 within 0.005" not in told["sentences"]
    assert any("credible interval" in own for own in told["sentences"])


@pytest.mark.parametrize(("suffix", "mark"), [(".tex", r"\toprule"), (".md", "| --- |")])
def test_coefficients_are_written_for_a_paper(
    suffix: str, mark: str, call: Call, fit_file: Path, tmp_path: Path
) -> None:
    table = tmp_path / f"coefficients{suffix}"
    assert call("summary", fit_file, "-o", table, "-q").code == 0
    assert mark in table.read_text(encoding="utf-8")

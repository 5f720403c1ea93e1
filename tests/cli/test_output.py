"""What verbs print: tables, log lines, what an interruption means; and a reader that stops early."""

import io
import os
import re
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import Call
from open_weights import open_study
from rich.console import Console
from synthetic import lab, prior_as_posterior

from bayes_cpt.cli import BROKEN_PIPE, run
from bayes_cpt.cli.output import Answer, Output, _lines
from bayes_cpt.errors import BeyondLawWarning, StudyWarning
from bayes_cpt.report.fit import what_is_lacking

pytestmark = pytest.mark.usefixtures("few_candidates")

# Options, what -o names, and what is there afterwards.
VERBS: dict[str, tuple[str, str, str]] = {
    "decide": ("--draws 8 --candidates 16", "out",
               "contenders.csv optimum.csv front.csv plan.toml words.txt decision.png"),
    "next-run": ("--draws 60 --candidates 16", "out", "runs.csv information.csv words.txt next_run.png"),
    "schedule": ("--steps 200 --replay 0.25 --base stable_12k --draws 4", "out",
                 "study.toml gains.csv words.txt schedule.png"),
    "landmarks": ("--draws 8", "out",
                  "turning_length.csv critical_point.csv loss_potential.csv peak_learning_rate.csv "
                  "bases.csv landmarks.png hidden_curves.png decomposition.png loss_potential.png "
                  "peak_learning_rate.png bases.png words.txt"),
    "predict": ("--plan data/cpt-lab/plan-example.toml --draws 8", "bands.csv", "bands.csv"),
    "report": ("--draws 60", "page.html", "page.html"),
    "planner": ("--draws 8 --candidates 64", "page.html", "page.html"),
    "summary": ("", "table.csv", "table.csv"),
}  # fmt: skip
FOLDERS = [verb for verb, (_, target, _) in VERBS.items() if target == "out"]


def few(verbs: Iterable[str]) -> list[Any]:
    """Return verbs, those that take long as slow."""
    slow = ("next-run", "landmarks", "report")
    return [pytest.param(own, marks=pytest.mark.slow if own in slow else ()) for own in verbs]


def written(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("verb", few(VERBS))
def test_a_reader_that_stops_early_costs_no_file(
    verb: str, fit_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, target, files = VERBS[verb]
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        code = run([verb, str(fit_file), *options.split(), "-o", str(tmp_path / target)])
    assert code == BROKEN_PIPE
    assert written(tmp_path) == set(files.split())


@pytest.mark.parametrize(("kind", "code"), [(StudyWarning, 0), (BeyondLawWarning, 1)])
def test_a_choice_beyond_the_law_gives_exit_code_1(kind: type[Warning], code: int) -> None:
    output = Output(quiet=True, machine=False)
    with output.cautions():
        warnings.warn("told", kind, stacklevel=1)
    assert output.give(Answer({}), {}) == code


@pytest.mark.usefixtures("empty_figures")
@pytest.mark.parametrize("verb", few(VERBS))
def test_quiet_prints_nothing_and_an_untrustworthy_fit_gives_exit_code_1(
    verb: str, call: Call, fit_file: Path, weak_fit_file: Path, tmp_path: Path
) -> None:
    options, target, _ = VERBS[verb]
    given = (*options.split(), "-o", tmp_path / target)
    assert call(verb, fit_file, *given, "-q") == (0, "", "")
    answer = call(verb, weak_fit_file, *given, "-q")
    assert (answer.code, answer.out) == (1, "")
    assert "R-hat of memory is 1.2" in answer.err
    page = tmp_path / (target if target.endswith(".html") else "out/words.txt")
    if page.is_file():
        before, warning, _ = page.read_text(encoding="utf-8").partition("R-hat of memory is 1.2")
        assert warning
        assert "How sure" not in before


@pytest.mark.usefixtures("empty_figures")
@pytest.mark.parametrize("verb", few(FOLDERS))
def test_what_is_written_is_printed(verb: str, call: Call, fit_file: Path, tmp_path: Path) -> None:
    options, target, files = VERBS[verb]
    folder = tmp_path / target
    answer = call(verb, fit_file, *options.split(), "-o", folder, "--verbose")
    assert answer.code == 0
    assert written(folder) == set(files.split())
    for sentence in (folder / "words.txt").read_text(encoding="utf-8").split("\n\n"):
        assert sentence.strip() in answer.out


@pytest.mark.usefixtures("empty_figures")
def test_what_an_earlier_fit_alone_had_goes(call: Call, tmp_path: Path) -> None:
    prior_as_posterior(open_study()).save(tmp_path / "fit.nc")
    (folder := tmp_path / "out").mkdir()
    for name in ("notes.csv", *VERBS["landmarks"][2].split()):
        (folder / name).touch()
    answer = call("landmarks", tmp_path / "fit.nc", "--draws", 8, "-o", folder, "--json")
    assert written(folder) == {*answer.json()["files"], "notes.csv"}


@pytest.mark.parametrize(
    "line",
    [
        "check data/cpt-lab --verbose",
        "summary {fit} --verbose",
        "prior cpt-replay",
        "decide {fit} --draws 8 --candidates 64 --verbose",
        "schedule {fit} --steps 200 --draws 4",
        "predict {fit} --draws 8 -o {out}",
        "next-run {fit} --draws 50 --candidates 64",
    ],
)
def test_nothing_is_cut_off_on_a_narrow_terminal(
    line: str, call: Call, fit_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = line.format(fit=fit_file, out=tmp_path / "bands.csv").split()
    wide = call(*given).out
    monkeypatch.setenv("COLUMNS", "60")
    out = call(*given).out
    # Names fold and headings wrap; numbers stay whole.
    numbers = r"(?<![\w.])[+−]?[\d.]+(?![\w.])"
    assert not set(re.findall(numbers, wide)) - set(re.findall(numbers, out))
    monkeypatch.setenv("COLUMNS", "100")
    out = call(*given).out
    assert "…" not in out
    # Prose wraps in a terminal; tables stand a little to the right.
    assert max(len(own) for own in out.splitlines() if own.startswith(" ")) <= 100


def test_lines_tell_each_quarter_and_minute_of_a_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("time.monotonic", lambda: clock.now)
    stream = io.StringIO()
    report = _lines(Console(file=stream, width=120))
    report("finding the mode", 0.0)
    report("sampling", 0.0)
    clock.now = 20.0
    for share in (0.1, 0.26, 0.27, 0.5):
        report("sampling", share)
    clock.now = 68.0
    for share in (0.51, 0.52, 1.0):
        report("sampling", share)
    report("sampling, attempt 2 (3 draws diverged)", 0.0)
    lines = [line.split(" ", 1)[1] for line in stream.getvalue().splitlines()]
    assert lines == [
        "finding the mode",
        "sampling",
        "sampling: 26% done, about 57 s left",
        "sampling: 50% done, about 20 s left",
        "sampling: 51% done, about 65 s left",
        "sampling, attempt 2 (3 draws diverged)",
    ]


def test_a_study_of_one_run_is_told_that_it_has_too_few() -> None:
    study = lab()
    first = study.continual_runs[0].name
    alone = study.subset([first, *(run.name for run in study.pretraining_runs)])
    said = what_is_lacking(prior_as_posterior(alone, draws=10))
    assert "1 CPT run, too few" in said
    assert "replay ratio" in said
    assert "too few" not in what_is_lacking(prior_as_posterior(lab(), draws=10))

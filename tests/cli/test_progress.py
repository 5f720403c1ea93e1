"""Log lines of long work: stages, how much is done, time left; and what a poor study is told."""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console
from synthetic import lab, prior_as_posterior

from bayes_cpt.cli.output import _lines
from bayes_cpt.report.words.fit import what_is_lacking


def test_lines_tell_stages_quarters_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("time.monotonic", lambda: clock.now)
    stream = io.StringIO()
    tell = _lines(Console(file=stream, width=120))
    tell("finding the mode", 0.0)
    tell("sampling", 0.0)
    clock.now = 20.0
    for share in (0.1, 0.26, 0.27, 0.5, 1.0):
        tell("sampling", share)
    tell("sampling, attempt 2 (3 draws diverged)", 0.0)
    lines = [line.split(" ", 1)[1] for line in stream.getvalue().splitlines()]
    assert lines == [
        "finding the mode",
        "sampling",
        "sampling: 26% done, about 57 s left",
        "sampling: 50% done, about 20 s left",
        "sampling, attempt 2 (3 draws diverged)",
    ]


def test_a_study_of_one_run_is_told_that_it_has_too_few() -> None:
    study = lab()
    first = study.continual_runs[0].name
    alone = study.subset([first, *(run.name for run in study.pretraining_runs)])
    said = what_is_lacking(prior_as_posterior(alone, draws=10))
    assert "1 CPT run, too few" in said
    assert "replay ratio" in said
    whole = what_is_lacking(prior_as_posterior(lab(), draws=10))
    assert "too few" not in whole
    assert "bayes-cpt check" in whole

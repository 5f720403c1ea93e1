"""`bayes-cpt forecast`: from one log to where its run ends."""

from pathlib import Path

import pytest
from command_line import Call, check_refusal
from one_log import NOW, TOTAL, log_of
from stand_in import stand_in


@pytest.mark.parametrize(
    ("until", "options", "fragments"),
    [
        (750, (), ("val", "too short to say anything", "wait for 4")),
        (NOW, ("--steps", "4000"), ("--steps", "4000", "5000")),
        (NOW, ("--decay", "2"), ("decay is 2", "between 0 and 1")),
        (NOW, ("--output", "no.txt"), ("no.txt", ".png")),
    ],
)
def test_what_cannot_be_forecast_is_refused_in_words(
    until: int, options: tuple[str, ...], fragments: tuple[str, ...], tmp_path: Path, call: Call
) -> None:
    path = log_of(tmp_path / "log.csv", until)
    given_options = ("--phase", "pt", "--output", tmp_path / "end.png", *options)
    check_refusal(call("forecast", path, *given_options), fragments)
    assert {own.name for own in tmp_path.iterdir()} == {"log.csv"}


def test_the_command_prints_three_lines_and_draws(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, at="bayes_cpt.watch.log_forecast.fit", spread=0.1)
    path = log_of(tmp_path / "log.csv", NOW)
    options = ("--phase", "pt", "--total-steps", str(TOTAL), "-o", tmp_path / "end.png")
    answer = call("forecast", path, *options)
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0].startswith("As planned: the run ends at step 10000 at ")
    assert lines[1].startswith("Anneal now: the run ends at step 6250 at ")
    assert lines[2].startswith("How sure: ")
    assert (tmp_path / "end.png").read_bytes().startswith(b"\x89PNG")
    found = call("forecast", path, *options, "--json").json()
    assert [row["step"] for row in found["ends"]] == [TOTAL, 6250]
    assert found["phase"] == "pt"

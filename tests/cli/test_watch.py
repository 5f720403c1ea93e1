"""A running job: watched beside a fit, or forecast from its log alone."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import Call, check_refusal
from one_log import NOW, TOTAL, log_of
from stand_in import stand_in
from synthetic import lab

pytestmark = pytest.mark.usefixtures("few_curves")

# On track by the stand-in for a fit, whose draws are those of the priors.
RUN = "r10_wsd03"
HEAD = "step,eval/general_loss,eval/kernel_loss\n"


def lines(until: int) -> str:
    own = lab().losses.query("run == @RUN and 0 < step <= @until")
    wide = own.pivot(index="step", columns="domain", values="loss")[["general", "kernel"]]
    return str(wide.dropna().add_prefix("eval/").add_suffix("_loss").to_csv())


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.csv"


def test_once_says_where_the_run_will_end(call: Call, fit_file: Path, log: Path) -> None:
    log.write_text(lines(200).strip())
    words = ("watch", fit_file, log, "--run", RUN, "--once", "--below", "kernel=2.5")
    answer = call(*words)
    assert answer.code in (0, 3)
    first, second, third = answer.out.splitlines()[:3]
    assert "step 200 of 3000" in first
    assert second.startswith("How sure: ")
    assert "% of healthy runs stray" in second
    assert third.startswith("What would change it: its later losses.")
    assert "forecast to end at" in third
    assert "It ends below 2.5 on kernel with probability" in answer.out
    told = json.loads(call(*words, "--json").out)
    assert told["step"] == 200
    assert told["verdict"] == [first, second, third]
    assert set(told["below"]) == {"kernel"}
    assert 0.0 <= told["below"]["kernel"] <= 1.0
    assert set(told["forecast"]) == {"general", "kernel"}
    assert told["probability"] > 0.0
    ways = {way["name"] for way in told["continuations"]}
    assert ways >= {"stop now", "decay to 0 evenly from now on"}
    assert Path(f"{log}.{RUN}.watch.json").is_file()


def test_losses_under_other_names_are_said_and_not_waited_for_in_silence(
    call: Call, weak_fit_file: Path, log: Path
) -> None:
    log.write_text(lines(200).replace("eval/general", "prose").replace("eval/kernel", "sources"))
    answer = call("watch", weak_fit_file, log, "--run", RUN, "--once")
    warning, first, *_ = answer.out.splitlines()
    assert warning.startswith("Not trustworthy: the posterior falls short of its diagnostics")
    assert first == "No validation loss was found in the log: wait, or say which it is with --loss."
    assert "there are prose_loss, sources_loss; say which are, --loss SERIES=SET" in answer.err
    unknown = ("watch", weak_fit_file, log, "--run", RUN, "--once", "--below", "prose=2.5")
    check_refusal(call(*unknown), ("--below prose=2.5: name one of general, kernel",))


@pytest.mark.parametrize(
    "name",
    ["{}_loss", *(pytest.param(own, marks=pytest.mark.slow) for own in ("{}", "val_{}", "{}/ce"))],
)
def test_a_series_called_by_a_validation_set_of_the_fit_is_its_loss(
    call: Call, fit_file: Path, log: Path, name: str
) -> None:
    written = lines(200)
    for domain in ("general", "kernel"):
        written = written.replace(f"eval/{domain}_loss", name.format(domain))
    log.write_text(written)
    answer = call("watch", fit_file, log, "--run", RUN, "--once")
    assert "step 200 of 3000" in answer.out.splitlines()[0]


def test_twice_the_planned_rate_is_said_first(call: Call, fit_file: Path, log: Path) -> None:
    rates = 2.0 * lab().run(RUN).schedule.learning_rates()
    written = lines(200).splitlines()
    rows = [f"{row},{rates[int(row.split(',')[0]) - 1]}" for row in written[1:]]
    halves = [f"{row},{float(row.rpartition(',')[2]) / 2}" for row in rows]
    log.write_text("\n".join([f"{written[0]},learning_rate,other", *halves]) + "\n")
    answer = call("watch", fit_file, log, "--run", RUN, "--once", "--below", "kernel=2.5")
    assert answer.code == 1
    first = answer.out.splitlines()[0]
    assert first.startswith("NOT THE PLANNED RUN, at step 200 of 3000. The logged learning rate is")
    assert "2 times as much" in first
    assert "stop it" not in answer.out
    assert "ends below" not in answer.out
    # What is read otherwise does not go on from that.
    again = call("watch", fit_file, log, "--run", RUN, "--once", "--rate", "other")
    assert (again.code, "the watch starts again" in again.err) == (0, True)
    assert f"{log}: validation sets by the names of the series" in again.err


def test_a_run_that_goes_wrong_ends_with_code_3(call: Call, fit_file: Path, log: Path) -> None:
    log.write_text(HEAD + "100,9.5,9.5\n200,9.6,9.6\n")
    plan = Path("data/cpt-lab/plan-example.toml")
    answer = call("watch", fit_file, log, "--run", "long_r25", "--plan", plan, "--once")
    assert answer.code == 3
    assert "OFF TRACK, first seen at step" in answer.out


@pytest.mark.parametrize(
    ("head", "first", "fragments"),
    [
        ("step,eval_loss", 100, ("general or kernel", "eval_loss is val", "--loss eval_loss=kernel")),
        (HEAD.strip(), 20_100, ("at steps 20100 to 20200", "ends at step 3000", "--start N")),
    ],
)  # fmt: skip
def test_evaluations_of_other_sets_or_steps_are_not_waited_for(
    call: Call, fit_file: Path, log: Path, head: str, first: int, fragments: tuple[str, ...]
) -> None:
    rows = [[step, *[2.5] * head.count(",")] for step in (first, first + 100)]
    log.write_text("\n".join([head, *(",".join(map(str, row)) for row in rows), ""]))
    check_refusal(call("watch", fit_file, log, "--run", RUN, "--once"), fragments)
    assert not list(log.parent.glob("*.watch.json"))


def test_looks_that_tell_nothing_new_are_no_lines_and_a_last_line_needs_no_break(
    call: Call, fit_file: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = lines(3000).strip()
    looks = iter([None, lambda: log.write_text(whole, encoding="utf-16"), None])
    monkeypatch.setattr(time, "sleep", lambda seconds: (next(looks) or bool)())
    answer = call("watch", fit_file, log, "--run", RUN, "--json")
    told = [json.loads(line) for line in answer.out.splitlines()]
    *_, before, last = (int(line.split(",")[0]) for line in whole.splitlines()[1:])
    assert [own["step"] for own in told] == [0, before, last]
    assert "no such file" in told[0]["trouble"]


@pytest.mark.slow
def test_a_watch_that_is_killed_loses_nothing(call: Call, fit_file: Path, log: Path) -> None:
    log.write_text(lines(300))
    state = Path(f"{log}.{RUN}.watch.json")
    words = ["watch", str(fit_file), str(log), "--run", RUN, "--seconds", "0.1"]
    command = [sys.executable, "-m", "bayes_cpt", *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as job:
        for _ in range(1200):
            if state.is_file():
                break
            time.sleep(0.1)
        os.kill(job.pid, signal.SIGKILL)
    before = json.loads(state.read_text())["watcher"]["points"]
    assert len(before) > 5
    # The log has been rotated meanwhile: what was seen of it is in the state alone.
    log.write_text(HEAD + lines(600).splitlines(keepends=True)[-1])
    told = json.loads(call("watch", fit_file, log, "--run", RUN, "--once", "--json").out)
    assert told["step"] > 300
    after = json.loads(state.read_text())["watcher"]["points"]
    assert [point for point in after if point in before] == before


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
    assert lines[0].startswith("Last LR held: the run ends at step 10000 at ")
    assert lines[1].startswith("Anneal now: the run ends at step 6250 at ")
    assert lines[2].startswith("How sure: ")
    assert (tmp_path / "end.png").read_bytes().startswith(b"\x89PNG")
    found = call("forecast", path, *options, "--json").json()
    assert [row["step"] for row in found["ends"]] == [TOTAL, 6250]
    assert found["phase"] == "pt"

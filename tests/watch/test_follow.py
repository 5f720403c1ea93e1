import math
import shutil
from pathlib import Path

import pytest

from bayes_cpt.study.logs.reading import Reading
from bayes_cpt.watch.follow import Follower

LOGS = Path(__file__).parents[1] / "data" / "logs"
HEAD = "step,eval_general_loss,eval_target_loss\n"


def line(step: int) -> str:
    return f"{step},{3 + step / 1000},{2 + step / 1000}\n"


def test_lines_come_once_each_and_half_a_line_waits(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    follower = Follower(Reading(paths=(str(log),)))
    assert follower.new() == {}
    assert "no such file" in follower.trouble
    log.write_text(HEAD + line(10) + "20,3.0")
    assert set(follower.new()) == {10}
    assert 20 not in follower.new()
    log.write_text(HEAD + line(10) + line(20))
    assert follower.new()[20] == {"general": 3.02, "target": 2.02}
    assert follower.trouble == ""
    assert follower.new() == {}


@pytest.mark.parametrize("replaced", [True, False])
def test_a_rotated_or_truncated_log_is_read_from_its_start(tmp_path: Path, replaced: bool) -> None:
    log = tmp_path / "log.csv"
    log.write_text(HEAD + "".join(line(step) for step in range(10, 500, 10)))
    follower = Follower(Reading(paths=(str(log),), kind="csv"))
    assert len(follower.new()) == 49
    if replaced:
        log.rename(tmp_path / "log.csv.1")
    log.write_text(HEAD + line(500))
    assert set(follower.new()) == {500}


def test_a_half_written_state_is_looked_at_again(tmp_path: Path) -> None:
    source = LOGS / "hf" / "r25" / "trainer_state.json"
    log = tmp_path / "trainer_state.json"
    follower = Follower(Reading(paths=(str(log),)))
    log.write_bytes(source.read_bytes()[:9000])
    assert follower.new() == {}
    assert "not JSON" in follower.trouble
    shutil.copy(source, log)
    found = follower.new()
    assert len(found) == 31
    assert found[300]["target"] == pytest.approx(3.4878, abs=1e-4)
    assert follower.trouble == ""


def test_known_sets_name_series_and_training_losses_are_none_of_them(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("step,train_prose_loss,prose_lr,prose\n10,5.0,0.1,3.0\n20,4.0,0.1,nan\n")
    found = Follower(Reading(paths=(str(log),)), ("prose",)).new()
    assert found[10] == {"prose": 3.0}
    assert math.isnan(found[20]["prose"])


def test_trouble_names_the_log_and_not_the_copy_that_is_read(tmp_path: Path) -> None:
    log = tmp_path / "losses.csv"
    rows = (f"{run},{step},val,2.5\n" for run in ("first", "second") for step in (100, 200))
    log.write_text("run,step,domain,loss\n" + "".join(rows))
    follower = Follower(Reading(paths=(str(log),)))
    assert follower.new() == {}
    assert follower.trouble.startswith(f"{log}, column run: there are rows of 2 runs")

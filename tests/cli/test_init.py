import re
import shutil
import tomllib
from collections.abc import Iterable
from itertools import product
from pathlib import Path

import pytest
from command_line import Call, check_refusal

from bayes_cpt import read_study

LOGS = Path(__file__).parents[1] / "data" / "logs"
HF = LOGS / "hf"
STEPS = (0, 10, 20, 30)
# What a log of a run r25 does not tell.
R25 = ("--open-base", "b", "--replay", "r25=0.25")


def log_of(path: Path, loss: float, steps: Iterable[int] = STEPS) -> Path:
    """Write a log whose loss falls from a value."""
    rows = [f"{step},{loss - place / 100},1e-4\n" for place, step in enumerate(steps)]
    path.write_text("step,val_loss,lr\n" + "".join(rows))
    return path


def test_a_study_of_logs_says_what_was_assumed(call: Call, tmp_path: Path) -> None:
    logs = [HF / name for name in ("pt", "r00", "r25", "r50")]
    shares = [part for name, share in (("r00", 0), ("r25", 0.25), ("r50", 0.5)) for part in ("--replay", f"{name}={share}")]  # fmt: skip
    answer = call("init", tmp_path / "study", *logs, "--pt", "pt", *shares)
    assert answer.code == 0
    for said in (
        "run r25: learning rates follow linear 0 to 0.003 over 20 steps, then cosine",
        "losses are taken as nats/token",
        "base base: taken to be the last checkpoint of the PT run pt",
        "the general validation set is taken to be 'general', by its name",
    ):
        assert said in answer.out
    study = read_study(tmp_path / "study")
    assert [run.replay for run in study.continual_runs] == [0, 0.25, 0.5]
    assert study.base("base").loss_potential == 1.0


def test_answers_in_a_toml_name_logs_beside_it(call: Call, tmp_path: Path) -> None:
    shutil.copy(LOGS / "tables" / "history.jsonl", tmp_path)
    (tmp_path / "answers.toml").write_text(
        """
[study]
name = "open"
general = "prose"
target = "code"
[bases.llama]
known = false
[logs.r0]
paths = ["history.jsonl"]
replay = 0
losses = { "eval/general_loss" = "prose", "eval/target_loss" = "code" }
"""
    )
    told = call("init", tmp_path / "study", "--answers", tmp_path / "answers.toml", "--json").json()
    assert told["general"] == "prose"
    study = read_study(tmp_path / "study")
    assert study.domains == ("prose", "code")
    assert not study.base("llama").known
    assert study.run("r0").base == "llama"


@pytest.mark.parametrize(
    ("first", "apart", "options", "refused"),
    [
        *((first, 20, (), True) for first in (70_000, 1520)),
        *((first, apart, (), False) for first, apart in ((40, 20), (20, 20), (300, 300), (0, 20))),
        *product((1520, 40), (20,), (("--start", "0"), ("--start", "{first}"), ("--schedule",)), (False,)),
    ],
)  # fmt: skip
def test_a_counter_that_goes_on_from_earlier_training_is_refused(
    first: int, apart: int, options: tuple[str, ...], refused: bool, call: Call, tmp_path: Path
) -> None:
    """Unless it is said where the run began; a log that begins after an interval or two is whole."""
    log_of(tmp_path / "r25.csv", 3.0, range(first, first + 30 * apart, apart))
    given = [option.format(first=first) for option in options]
    if "--schedule" in options:
        steps = first + apart * 29
        given.append(f'[{{ shape = "constant", steps = {steps}, start = 1e-4, end = 1e-4 }}]')
    answer = call("init", tmp_path / "study", tmp_path / "r25.csv", *R25, *given)
    if refused:
        said = (f"r25.csv, step {first}: ", f"every {apart} steps", "--start STEP", "--start 0")
        check_refusal(answer, said)
        return
    assert answer.code == 0
    begun = first if "{first}" in options else 0
    assert read_study(tmp_path / "study").run("r25").schedule.steps == first + apart * 29 - begun
    recorded = (tmp_path / "study" / "imports.toml").read_text()
    assert ("\nstart = 0\n" in recorded) == ("0" in given)


def test_an_existing_study_is_left_alone(call: Call, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    answer = call("init", tmp_path, HF / "r25", *R25)
    check_refusal(answer, ("there is something already", "bayes-cpt import"))
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_a_log_for_each_validation_set(tmp_path: Path, call: Call) -> None:
    general, target = log_of(tmp_path / "general.csv", 2.8), log_of(tmp_path / "target.csv", 3.2)
    line = ("--open-base", "b", "--replay", "x=0.25")
    assert call("init", tmp_path / "s", f"x={general}", f"x={target}", *line).code == 0
    losses = (tmp_path / "s" / "losses.csv").read_text()
    added = ("--study", tmp_path / "s", "--run", "y", "--replay", 0.5)
    assert call("import", "csv", general, *added, "--loss", "val_loss=general").code == 0
    assert call("import", "csv", target, *added, "--loss", "val_loss=target").code == 0
    # Again, each by its own recipe; and one that was moved.
    assert call("import", "csv", general, *added).code == 0
    moved = target.rename(tmp_path / "moved.csv")
    assert call("import", "csv", moved, *added, "--loss", "val_loss=target").code == 0
    # Two series of one log, one after the other.
    both = tmp_path / "both.csv"
    both.write_text("step,a,b,lr\n" + "".join(f"{step},2.8,3.2,1e-4\n" for step in STEPS))
    one = ("import", "csv", both, *added[:2], "--run", "w", "--replay", 0.5)
    assert [call(*one, "--loss", own).code for own in ("a=general", "b=target")] == [0, 0]
    after = (tmp_path / "s" / "losses.csv").read_text()
    assert losses.count("\nx,") == after.count("\ny,") == after.count("\nw,") == 2 * len(STEPS)
    twice = call("import", "csv", general, moved, *added[:2], "--run", "z", "--replay", 0.5)
    check_refusal(twice, ("two validation sets of one", "--loss SERIES=SET"))


def test_a_set_called_after_its_file_lacks_the_name_of_its_run(tmp_path: Path, call: Call) -> None:
    sets = {"r25-general": 2.8, "target_r25": 3.2}
    logs = [log_of(tmp_path / f"{name}.csv", loss) for name, loss in sets.items()]
    (tmp_path / "a.toml").write_text(
        "bases.b.known = false\n"
        + "".join(f'[[logs.r25]]\npaths = "{log.name}"\nreplay = 0.25\n' for log in logs)
    )
    assert call("init", tmp_path / "s", *(f"r25={log}" for log in logs), *R25).code == 0
    assert call("init", tmp_path / "t", "--answers", tmp_path / "a.toml").code == 0
    for study in ("s", "t"):
        assert read_study(tmp_path / study).domains == ("general", "target")


@pytest.mark.parametrize(
    ("series", "read"),
    [
        *((own, True) for own in ("val_general,val_target", "general_loss,target_loss", "eval_general,eval_target")),
        *((own, True) for own in ("loss_general,loss_target", "general_val,target_val", "general,target")),
        *((own, False) for own in ("train_loss,loss", "loss_train,loss", "train_general_loss,train/target_loss")),
    ],
)  # fmt: skip
def test_a_name_that_says_no_more_than_general_or_target(
    series: str, read: bool, tmp_path: Path, call: Call
) -> None:
    log = tmp_path / "r25.csv"
    log.write_text(f"step,{series},train/loss,lr\n0,2.8,3.2,3,1e-4\n10,2.9,3.1,3,1e-4\n")
    answer = call("init", tmp_path / "s", log, *R25)
    if not read:
        check_refusal(answer, ("no series is called a validation loss",))
        return
    assert ": 1 run, 4 losses" in answer.out
    assert read_study(tmp_path / "s").domains == ("general", "target")
    other = log_of(tmp_path / "other.csv", 3.0)
    both = call("init", tmp_path / "t", log, other, "--loss", f"{series.split(',')[0]}=general")
    check_refusal(both, ("other.csv, series", "options hold for all logs", "in --answers"))


@pytest.mark.parametrize("rates", [(0.0, 3e-5, 7e-5, 1e-4), (1e-5, 2e-5, 4e-5, 5e-5)])
def test_a_log_that_ends_in_its_warm_up_tells_no_peak(
    rates: tuple[float, ...], tmp_path: Path, call: Call
) -> None:
    log = tmp_path / "r25.csv"
    rows = [f"{step},2.8,3.2,{rate}\n" for step, rate in zip(STEPS, rates, strict=True)]
    log.write_text(PART + "".join(rows))
    line = ("init", tmp_path / "s", log, *R25)
    said = ("run r25, key schedule", "to step 30, where they still rise", "--schedule", "after")
    check_refusal(call(*line, "--total-steps", 2000), said)
    assert call(*line).code == 0


@pytest.mark.parametrize(
    ("name", "options", "general"),
    [("general", (), "general"), ("prose", ("--general", "prose"), "prose"), ("prose", (), None)],
)
def test_a_second_set_makes_a_study_of_one_a_study_of_two(
    name: str, options: tuple[str, ...], general: str | None, tmp_path: Path, call: Call
) -> None:
    code, other = log_of(tmp_path / "code.csv", 3.2), log_of(tmp_path / "other.csv", 2.8)
    study, settings = tmp_path / "s", tmp_path / "s" / "study.toml"
    call("init", study, f"x={code}", "--open-base", "b", "--replay", "x=0.25")
    settings.write_text(settings.read_text().replace("\n", "  # mine\n", 1))
    before = settings.read_text()
    line = ("import", "csv", other, "--study", study, "--run", "x")
    answer = call(*line, "--loss", f"val_loss={name}", *options)
    assert answer.code == 0
    tables = tomllib.loads(settings.read_text())["study"]
    assert (tables.get("general"), tables["target"]) == (general, "val")
    losses = (study / "losses.csv").read_text()
    assert losses.count(f",{name},") == losses.count(",val,") == len(STEPS)
    after = settings.read_text()
    assert [own for own in after.splitlines() if own in before] == before.splitlines()
    if general is None:
        assert "neither general nor target: prose" in answer.out
        assert "--general prose" in answer.out
        return
    refusal = call(*line, "--general", "third")
    check_refusal(refusal, (f"the general validation set of the study is {general!r}",))


def test_pt_runs_with_one_set_are_a_study(tmp_path: Path, call: Call) -> None:
    path = log_of(tmp_path / "a.csv", 4.0, range(10, 50, 10))
    told = call("init", tmp_path / "study", path, "--pt", "a", "--json").json()
    assert (told["general"], told["target"]) == ("val", None)


def test_a_word_in_the_name_of_a_set_does_not_say_what_two_are(tmp_path: Path, call: Call) -> None:
    log, options = tmp_path / "a.csv", ("--open-base", "b", "--replay", "a=0.5")
    log.write_text("step,eval_general_medicine_loss,eval_wiki_loss,lr\n10,2.5,3.5,1e-4\n")
    said = ("key general", "--general NAME, one of general_medicine, wiki", "key target")
    check_refusal(call("init", tmp_path / "study", log, *options), said)
    told = call("init", tmp_path / "study", log, *options, "--general", "wiki", "--json").json()
    assert (told["general"], told["target"]) == ("wiki", "general_medicine")


def test_third_sets_are_named_once(tmp_path: Path, call: Call) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        "step,eval_general_loss,eval_target_loss,eval_law_loss,lr\n10,2.5,3.5,3.0,1e-4\n20,2.4,3.4,2.9,1e-4\n"
    )
    out = call("init", tmp_path / "study", path, "--open-base", "b", "--replay", "a=0.5").out
    assert out.count("neither general nor target: law") == 1


def test_learning_rates_in_multiples_are_told_by_their_column(tmp_path: Path, call: Call) -> None:
    log, line = tmp_path / "r25.csv", ("init", tmp_path / "study", tmp_path / "r25.csv", *R25)
    rows = "step,eval_target_loss,lr\n10,2.9,2.0\n20,2.8,2.0\n"
    log.write_text(rows)
    check_refusal(call(*line), ("above 0.1", "lr (1e-4)"))
    log.write_text(rows.replace(",lr", ",lr (1e-4)"))
    assert call(*line).code == 0
    assert read_study(tmp_path / "study").run("r25").schedule.peak == pytest.approx(2e-4)


PART = "step,eval_general_loss,eval_target_loss,lr\n"
SERIES = "Wall time,Step,Value\n"


@pytest.mark.parametrize(
    "files",
    [
        {"a": PART + "10,3,2.9,1e-4\n20,3,2.8,1e-4\n30,3,2.79,1e-4\n", "b": PART + "20,3.1,2.85,1e-4\n30,3.1,2.7,1e-4\n"},
        {"tag-eval_target_loss": SERIES + "1,10,2.9\n2,20,2.85\n3,30,2.7\n",
         "tag-train_lr": SERIES + "1,10,1e-4\n2,20,1e-4\n3,30,1e-4\n"},
    ],
)  # fmt: skip
def test_parts_of_a_log_are_read_as_one(files: dict[str, str], tmp_path: Path, call: Call) -> None:
    for name, text in files.items():
        (tmp_path / f"{name}.csv").write_text(text)
    logs = [f"r25={tmp_path / name}.csv" for name in files]
    answer = call("init", tmp_path / "study", *logs, *R25)
    assert "taken as parts of one log, in this order" in answer.out
    losses = read_study(tmp_path / "study").losses
    assert losses["loss"][losses["domain"] == "target"].to_list() == [2.9, 2.85, 2.7]


NANOGPT = "step {}: train loss 6.6, val loss {}\n"
BUILD = "step {:5} | loss: 9.6 | lr 1.0e-04 | norm: 0.27 | dt: 80ms\nvalidation loss: {}\n"


@pytest.mark.parametrize(
    ("texts", "rates"),
    [
        # nanoGPT, as two jobs printed it; the second one goes back to the last checkpoint.
        ((NANOGPT.format(0, 10.9897) + NANOGPT.format(200, 6.6336) + NANOGPT.format(400, 5.87),
          NANOGPT.format(200, 6.6336) + NANOGPT.format(400, 5.8698) + NANOGPT.format(600, 5.3534)), False),
        # build-nanogpt: what it writes, and what it prints.
        (("0 val 10.9897\n0 train 10.99\n200 val 6.6336\n400 val 5.8698\n600 val 5.3534\n",
          "validation loss: 10.9897\n" + BUILD.format(199, 6.6336) + BUILD.format(399, 5.8698)
          + BUILD.format(599, 5.3534)), True),
    ],
)  # fmt: skip
def test_parts_of_a_log_that_names_no_set_are_no_two_sets(
    texts: tuple[str, str], rates: bool, tmp_path: Path, call: Call
) -> None:
    for name, text in zip("ab", texts, strict=True):
        (tmp_path / f"{name}.log").write_text(text)
    logs = [f"long={tmp_path / name}.log" for name in "ab"]
    segment = '[{ shape = "constant", steps = 600, start = 1e-4, end = 1e-4 }]'
    options = () if rates else ("--schedule", segment)
    answer = call("init", tmp_path / "study", *logs, "--pt", "long", "--general", "val", *options)
    assert "taken as parts of one log, in this order" in answer.out
    losses = read_study(tmp_path / "study").losses
    assert losses["step"].to_list() == [200, 400, 600]
    assert losses["loss"].to_list() == [6.6336, 5.8698, 5.3534]


@pytest.mark.parametrize("command", ["init", "import"])
def test_every_option_in_a_message_is_one_of_the_command(command: str, call: Call) -> None:
    folder = Path(__file__).parents[2] / "bayes_cpt"
    sources = [*(folder / "study" / "logs").glob("*.py"), folder / "cli" / "log_options.py"]
    named = {
        option for file in sources for option in re.findall(r"--[a-z][a-z-]+", file.read_text())
    }
    helped = set(re.findall(r"--[a-z][a-z-]+", call(command, "--help").out))
    # Those of the other command, in messages that say so.
    other = {"import": {"--pt", "--open-base", "--answers"}, "init": {"--study"}}
    assert named - other[command] <= helped

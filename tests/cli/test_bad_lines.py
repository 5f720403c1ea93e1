import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Call, check_refusal
from malformed import FILES, write_files

from bayes_cpt.cli import run

STUDY = "data/cpt-lab"
PLAN = f"{STUDY}/plan-example.toml"
INIT = "init {dir}/study tests/data/logs/hf/r25"
WATCH = "watch {fit} {log} --once --run"
COMPARE = f"compare {STUDY} --models cpt-replay,cpt-replay-printed"

# Command line and what the answer must say. {fit} is a fit, {dir} an empty folder, {plan} a plan that
# contradicts the study, {points} a CSV of points, {log} a run's losses, {text} a text file.
LINES: list[tuple[str, tuple[str, ...]]] = [
    ("fitt", ("No such command 'fitt'", "Did you mean 'fit'", "bayes-cpt --help")),
    ("check", ("Missing argument", "STUDY", "As in: bayes-cpt check data/cpt-lab")),
    ("validate --model pretrain", ("Missing argument", "bayes-cpt validate data/cpt-lab")),
    (f"compare {STUDY}",
     ("Missing option '--models'", f"As in: bayes-cpt compare {STUDY} --models cpt-replay,")),
    ("check {dir}/none", ("none: there is no such folder", "Check the spelling")),
    ("check {text}", ("this is a file", "Give the folder that holds study.toml")),
    ("check {dir}", ("study.toml: the file is missing",)),
    (f"check {STUDY} --model cpt-replai", ("no model 'cpt-replai'", "did you mean 'cpt-replay'")),
    (f"check {STUDY} --model none.toml", ("'none.toml'", "path of")),
    (f"check {STUDY} more", ("unexpected extra argument", "more")),
    (f"fit {STUDY}", ("Missing option", "-o")),
    (f"fit {STUDY} --modle cpt -o {{dir}}/fit.nc", ("No such option", "--modle")),
    (f"fit {STUDY} -o {{dir}}/fit", ("the name has no ending", "Let it end in .nc")),
    (f"fit {STUDY} --model nothing -o {{dir}}/fit.nc", ("'nothing'", "Name one of cpt")),
    (f"fit {STUDY} --seed abc -o {{dir}}/fit.nc", ("--seed", "integer")),
    (f"fit {STUDY} --seed -1 -o {{dir}}/fit.nc", ("--seed", "0")),
    (f"fit {STUDY} --draws 10 -o {{dir}}/fit.nc", ("10 draws", "cannot reach", "give 100 or")),
    (f"fit {STUDY} --cores 0 -o {{dir}}/fit.nc", ("--cores", "1")),
    (f"fit {STUDY} -o {{dir}}/none/fit.nc", ("none: there is no such folder", "Make the folder")),
    (f"fit {STUDY} -o {{dir}}", ("this is a folder", "out.nc")),
    (f"fit {STUDY} -o {{dir}}/fit.csv", ("ends in '.csv'", "Let it end in .nc")),
    (f"fit {STUDY} -o {{text}}/fit.nc", ("this is a file, not a folder",)),
    ("summary {dir}/none.nc", ("none.nc: there is no such fit", "bayes-cpt fit STUDY")),
    ("summary {text}", ("this is not a fit of bayes_cpt", "fit again")),
    ("summary {dir}", ("this is a folder", "-o fit.nc")),
    ("summary -", ("there is no such fit", "-o fit.nc")),
    (f"summary {STUDY}", ("this is a study, not a fit", f"bayes-cpt fit {STUDY} -o fit.nc")),
    (f"predict {{fit}} --plan {PLAN} --at {{semi}} -o {{dir}}/o.csv",
     ("semi.csv: there is no column run", "between commas")),
    ("summary {fit} --interval 90", ("90 is not a mass between 0 and 1", "write 0.9 for 90 %")),
    ("summary {fit} --interval 0", ("0 is not a mass",)),
    ("summary {fit} --interval nan", ("nan is not a mass",)),
    ("summary {fit} -o {dir}", ("this is a folder",)),
    ("summary {fit} -o {fit}", ("Let it end in .csv",)),
    ("predict {fit}", ("Missing option", "-o")),
    (f"predict {{text}} --plan {PLAN} -o {{dir}}/o.csv", ("not a fit of bayes_cpt",)),
    (f"predict {{fit}} --plan {PLAN} -o {{dir}}/o.txt", (".csv or .parquet or .json or .nc",)),
    ("predict {fit} -o {fit}", ("this is the input", "another file")),
    (f"predict {{fit}} --plan {PLAN} -o {{dir}}/o.csv --kind newrun", ("--kind", "new_run")),
    (f"predict {{fit}} --plan {PLAN} -o {{dir}}/o.csv --kind known_run", ("no such run", "long")),
    (f"predict {{fit}} --plan {PLAN} -o {{dir}}/o.csv --draws 0", ("--draws", "4")),
    ("predict {fit} --plan {dir}/none.toml -o {dir}/o.csv", ("none.toml: there is no such",)),
    ("predict {fit} --plan {plan} -o {dir}/o.csv", ("general is 'prose'", "Write 'general'")),
    (f"predict {{fit}} --plan {PLAN} --at {{points}} -o {{dir}}/o.csv", ("run mixed", "long_r25")),
    (f"predict {{fit}} --plan {PLAN} --at {{dir}}/no -o {{dir}}/o.csv", ("cannot be read",)),
    ("demo -o {text}", ("this is a file, not a folder", "choose another one")),
    ("demo --seed 1.5", ("--seed", "integer")),
    # Whatever is asked about a fit.
    ("decide {fit} --objective balance", ("no preset 'balance'", "did you mean 'balanced'")),
    ("decide {fit} --objective none.toml", ("none.toml: there is no such file",)),
    ("decide {fit} --risk cvar:95", ("'95' is not a level of cvar. Write cvar:0.95 for 95 %",)),
    ("decide {fit} --candidates 2", ("4 combinations, and 2 candidates are wanted",)),
    ("decide {fit} -o {text}", ("this is a file, not a folder", "choose another one")),
    ("decide {fit} -o {text}/more", ("this is a file, not a folder",)),
    ("next-run {fit} -o {text}", ("this is a file, not a folder", "choose another one")),
    ("next-run {fit} --run-steps 0", ("key steps", "at least 1")),
    ("schedule {fit} --steps 200 -o {text}", ("this is a file, not a folder",)),
    ("schedule {fit} --steps 200 --base stable", ("no base 'stable'", "stable_12k")),
    ("schedule {fit} --steps 10", ("10 steps are too few",)),
    ("schedule {fit} --steps 200 --cap 2.0", ("key peak", "at most 0.1")),
    ("schedule {fit} --steps 200 --replay 25", ("key replay", "write 0.25 for 25 %")),
    ("landmarks {fit} -o {text}", ("this is a file, not a folder", "choose another one")),
    ("landmarks {fit} --run pt_trunk", ("this is a PT run",)),
    ("landmarks {fit} --run r25_cosine", ("fit.nc:", "no run 'r25_cosine' (did you mean 'r25_cos")),
    ("planner {fit} -o {dir}/planner.pdf", ("planner.pdf", ".html")),
    ("report {fit}", ("nothing is asked for", "-o report.html")),
    ("report {fit} -o {dir}/a.pdf", ("let it end in .html",)),
    ("report {fit} -o {dir}/a.html --validation {dir}", ("bayes-cpt validate",)),
    ("watch {fit} {dir}/none.csv --once --run r25_cos", ("none.csv", "no such file", "--once")),
    (f"{WATCH} nothing", ("no run 'nothing'",)),
    (f"{WATCH} r25_cos --kind hff", ("no kind 'hff'",)),
    (f"{WATCH} r25_cos --state {{text}}", ("not the state of a watch", "if a watch wrote it")),
    (f"{WATCH} r25_cos --state {{fit}}", ("fit.nc: this is the input",)),
    (f"{WATCH} r25_cos --state {{log}}", ("log.csv: this is the input",)),
    # Without one.
    (INIT, ("nothing says what it starts from", "--open-base", "key replay", "--replay r25=SHARE")),
    (f"{INIT} --open-base b --replay r25=0.5 --total-steps 100",
     ("--total-steps 100", "the log goes on to step 300")),
    (f"{INIT} --open-base b --replay r26=0.5", ("--replay r26", "no log of a run 'r26'")),
    (f"{INIT} --open-base b --replay r25=half", ("key replay", "valid number")),
    (f"{INIT} --open-base b --replay r25=0.25 --general prose", ("'prose'",)),
    (f"{INIT} --answers {{dir}}/none.toml", ("none.toml",)),
    ("advise --size 7B --tokens 20B --base anealed", ("base", "'anealed'", "annealed")),
    ("advise --size 7B --tokens 20B --target close", ("target", "'close'", "'far' or 'near'")),
    ("advise --size big --tokens 20B", ("--size", "'big'", "7B")),
    ("advise --size 7.5.3B --tokens 20B", ("--size", "'7.5.3B'", "7B")),
    ("advise --size 7B --tokens 7e9B", ("--tokens", "'7e9B'", "7B")),
    ("advise --size 7B --tokens 1M", ("tokens", "steps")),
    ("advise --size 7B --tokens 20B --peak 0.5", ("key peak", "less than or equal to 0.1")),
    ("advise --size 7B --tokens 20B --loss target=2 --loss target=3", ("target", "twice")),
    ("advise --size 7B --tokens 20B --loss code=2", ("code", "'general' or 'target'")),
    ("prior", ("Missing argument", "MODEL")),
    ("prior cpt-replai", ("no model 'cpt-replai'", "did you mean 'cpt-replay'")),
    ("prior cpt -o {dir}/prior.txt", ("ends in '.txt'", "Let it end in .png or .pdf")),
    ("prior cpt -o {dir}", ("this is a folder",)),
    ("prior cpt --study {dir}", ("study.toml: the file is missing",)),
    (f"prior pretrain --plan {PLAN}", ("there is no PT run", 'phase = "pt"')),
    (f"validate {STUDY} --model cpt-repaly", ("did you mean 'cpt-replay'?",)),
    (f"validate {STUDY} --runs r26_cos", ("there is no run 'r26_cos'",)),
    (f"validate {STUDY} --tails 25,50", ("'25,50' is not a list of shares",)),
    (f"validate {STUDY} --tails half", ("'half' is not a list of shares",)),
    (f"validate {STUDY} --tails none --no-whole", ("there is nothing to predict",)),
    (f"validate {STUDY} --model pretrain --runs r25_cos", ("no runs of phase cpt",)),
    ("validate data/public/mpl-25m", ("there is no CPT run. Use --model pretrain",)),
    (f"validate {STUDY} --held-out data/public/delphi/2e19",
     ("sets are math, paloma_macro", "of study cpt-lab. Call them what they are there: general, kernel")),
    (f"validate {STUDY} --held-out nowhere", ("nowhere: there is no such folder",)),
    (f"validate {STUDY} --runs r25_cos,r50_cos --tails none -o nowhere/out",
     ("nowhere: there is no such folder",)),
    (f"compare {STUDY} --models cpt-replay", ("nothing to compare cpt-replay with",)),
    (f"compare {STUDY} --models cpt-replay,pretrain", ("they predict different runs",)),
    (f"compare {STUDY} --models cpt-replay,cpt", ("has no term for them",)),
    (f"{COMPARE} --runs r25_cos,r50_cos", ("2 runs can be left out in turn",)),
    (f"compare {STUDY} --models cpt-replay,cpt-replay", ("cpt-replay comes twice",)),
    (f"{COMPARE} --quick", ("leaves out other points of the runs than cpt-replay",)),
    (f"{COMPARE} --tails 25", ("'25' is not a list of shares",)),
    (f"{COMPARE} -o nowhere/out", ("nowhere: there is no such folder",)),
]  # fmt: skip


@pytest.mark.parametrize(("line", "fragments"), LINES, ids=[line for line, _ in LINES])
def test_bad_command_lines(
    line: str, fragments: tuple[str, ...], call: Call, fit_file: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    names = ("text.toml", "plan.toml", "points.csv", "semi.csv", "log.csv")
    text, plan, points, semi, log = (tmp_path / name for name in names)
    text.write_text("null\n")
    plan.write_text(Path(PLAN).read_text() + '\n[study]\nname = "other"\ngeneral = "prose"\n')
    points.write_text("run,step,domain\nmixed,5,general\n")
    semi.write_text("run;step;domain\nlong_r25;5;general\n")
    log.write_text("step,eval/general_loss\n100,3.0\n")
    before = fit_file.read_bytes()
    places = {"text": text, "plan": plan, "points": points, "semi": semi, "log": log}
    arguments = [part.format(fit=fit_file, dir=folder, **places) for part in line.split()]
    check_refusal(call(*arguments), fragments)
    assert list(folder.iterdir()) == []
    assert {path.name for path in tmp_path.iterdir()} == {"folder", *names}
    assert fit_file.read_bytes() == before
    answer = call(*arguments, "--json")
    assert answer.code == 2
    assert answer.json()["error"]


@pytest.mark.parametrize("asked", ["--version", "--help", "fit --help"])
def test_what_reads_the_output_may_stop_early(asked: str) -> None:
    # The reading end is closed before the first line is written.
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "bayes_cpt", *asked.split()]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert done.stderr == ""
    assert done.returncode == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
@pytest.mark.parametrize(
    ("full", "code", "said"), [("stdout", 2, "No space"), ("stderr", 0, "verdict")]
)
def test_what_cannot_be_printed_costs_no_answer_elsewhere(
    full: str, code: int, said: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    # Of a table that seems to be cut off there is a note on stderr.
    cut = {"losses.csv": re.sub(r"\.\d+", r"\g<0>25", FILES["losses.csv"])[:-3]}
    with Path("/dev/full").open("w") as device:
        monkeypatch.setattr(sys, full, device)
        assert run(["check", str(write_files(tmp_path, cut)), "--json"]) == code
    told = "".join(capsys.readouterr())
    assert said in told
    assert ("losses.csv: the last number is shorter than the others" in told) == (full == "stdout")


def test_an_exit_within_a_command_is_no_closed_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a command calls may end the program: its exit code stays, and so does what is printed."""
    monkeypatch.setattr("bayes_cpt.read_study", lambda _: sys.exit(3))
    with pytest.raises(SystemExit) as stop:
        run(["check", "data/cpt-lab"])
    assert stop.value.code == 3


# Every place where the command line takes a TOML file. {fit} is a fit, {deep} the file, {out} a new name.
TAKING_TOML = (
    "check {folder}", "check data/cpt-lab --model {deep}",
    "fit {folder} -o {out}.nc", "fit data/cpt-lab --model {deep} -o {out}.nc",
    "predict {fit} --plan {deep} -o {out}.csv", "summary {fit} --sensitivity --plan {deep}",
    "decide {fit} --objective {deep}", "decide {fit} --space {deep}", "next-run {fit} --runs {deep}",
    "next-run {fit} --objective {deep}", "next-run {fit} --space {deep}",
    "schedule {fit} --steps 100 --replay 0.25 --base stable_12k --objective {deep}",
    "landmarks {fit} --plan {deep}", "prior {deep}", "prior cpt-replay --plan {deep}",
    "prior cpt-replay --study {folder}", "validate {folder}", "validate data/cpt-lab --model {deep}",
    "validate data/cpt-lab --held-out {folder}",
)  # fmt: skip


@pytest.mark.parametrize("line", TAKING_TOML)
def test_deep_nesting_is_refused_wherever_a_toml_is_taken(
    line: str, call: Call, fit_file: Path, tmp_path: Path
) -> None:
    deep = tmp_path / "study.toml"
    deep.write_text("a = " + "[" * 5000 + "]" * 5000)
    (tmp_path / "losses.csv").write_text(FILES["losses.csv"])
    places = {"fit": fit_file, "deep": deep, "folder": tmp_path, "out": tmp_path / "out"}
    answer = call(*line.format(**places).split())
    check_refusal(answer, ("study.toml: this is not TOML: its tables are nested too deeply",))
    assert {path.name for path in tmp_path.iterdir()} == {"study.toml", "losses.csv"}

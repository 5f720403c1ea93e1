"""What is said before a fit: what is in a study, what looks like a mistake, what the prior expects."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_line import Call, check_refusal
from malformed import FILES, TABLE, Malformed, write_files
from stand_in import Fits
from synthetic import lab

import bayes_cpt
from bayes_cpt import Study, write_study
from bayes_cpt.errors import StudyWarning
from bayes_cpt.study.schedules import Schedule, constant, cosine, linear

# All of them are read in tests/study/test_validation.py.
SOME = TABLE[::6]


def test_what_is_in_the_bundled_study_is_printed(call: Call) -> None:
    answer = call("check", "data/cpt-lab", "--verbose")
    assert answer.code == 0
    assert answer.err == ""
    rows = [" ".join(line.split()) for line in answer.out.splitlines()]
    assert "r25_lin05 cpt stable_12k 0.25 3000 0.001 0 38 38 38" in rows
    assert any(row.startswith("annealed_30pct pt_anneal30 14000 ") for row in rows)
    assert "cpt 0 to 0.75 0.0006 to 0.002 3000" in rows
    assert "general (general) and kernel (target)" in answer.out
    assert "What these runs can tell of cpt-replay" in answer.out
    # What nobody tried.
    told = answer.out.split("length_effect")[1].split("Contraction:")[0]
    assert told.count("* ") == told.count("a CPT run 4 times as long") == 2
    table = call("check", "data/cpt-lab", "--json").json()["parameters"]
    pairs = [(row["quantity"], *row["moves_with"][0]) for row in table if row["moves_with"]]
    assert pairs
    for _, other, _, correlation in pairs:
        assert f" {other} {correlation:+.2f} " in answer.out


def test_a_first_reader_is_told_what_the_runs_can_tell_and_what_is_in_the_study(call: Call) -> None:
    out = call("check", "data/cpt-lab").out
    first, determined, left = out.splitlines()[:3]
    assert first.startswith("cpt-lab can be fitted: 10 CPT and 4 PT runs")
    assert determined.startswith("What a fit can be expected to determine: ")
    assert left.endswith("Most telling of that: a CPT run 4 times as long.")
    assert "r25_lin05" in out
    assert "What these runs can tell of" not in out
    assert call("check", "data/cpt-lab", "--quiet") == (0, "", "")


def test_json_is_the_only_thing_on_stdout(call: Call) -> None:
    found = call("check", "data/cpt-lab", "--json").json()
    assert [base["name"] for base in found["bases"]][:2] == ["stable_12k", "stable_6k"]
    assert found["model"] == "cpt-replay"
    shares = {row["quantity"]: row["contraction"] for row in found["parameters"]}
    assert 0 <= min(shares.values()) <= max(shares.values()) <= 1
    rows = {(row["quantity"], row["domain"]): row for row in found["effects"]}
    assert rows["length_effect", "kernel"]["tried"] is False
    assert 0 < rows["run_change", "kernel"]["sd"] < 0.1
    assert rows["rate_effect", "kernel"]["moves_with"] == []


def test_a_study_without_cpt_is_asked_about_pretraining(call: Call, tmp_path: Path) -> None:
    settings = FILES["study.toml"].split("[runs.mixed]")[0]
    losses = [row for row in FILES["losses.csv"].splitlines() if row[:3] in ("run", "tru")]
    files = {"study.toml": settings, "losses.csv": "\n".join(losses), "lr.csv": None}
    folder = write_files(tmp_path / "study", files)
    assert call("check", folder, "--json").json()["model"] == "pretrain"


def test_cautions_are_shown_once_each(call: Call, tmp_path: Path) -> None:
    losses = FILES["losses.csv"].replace("mixed,25,code,3.9", "mixed,25,code,39")
    answer = call("check", write_files(tmp_path / "study", {"losses.csv": losses}), "--json")
    assert answer.code == 0
    notes = [line for line in answer.err.splitlines() if line]
    assert notes == [f"Note: {text}" for text in answer.json()["warnings"]]
    assert notes


@pytest.mark.parametrize("case", SOME, ids=[case.id for case in SOME])
def test_malformed_studies(case: Malformed, call: Call, tmp_path: Path) -> None:
    path = case.write(tmp_path / "study")
    answer = call("check", path)
    check_refusal(answer, case.fragments)
    for paragraph in answer.err.strip().split("\n\n"):
        assert paragraph.startswith(str(path))
    told = call("check", path, "--json")
    assert told.err == answer.err
    assert len(told.json()["problems"]) == len(answer.err.strip().split("\n\n"))
    assert call("fit", path, "-o", tmp_path / "fit.nc") == answer
    assert not list(tmp_path.glob("*fit*"))


FIRST, SECOND = "r00_cos", "r25_cos"


def two(**changes: Any) -> Study:
    """Return two runs of one base, with something changed."""
    with warnings.catch_warnings(action="ignore", category=StudyWarning):
        return replace(lab().subset(["pt_trunk", FIRST, SECOND]), **changes)


def second(change: Callable[[pd.DataFrame], pd.DataFrame], first_step: int = 0) -> Study:
    """Return the two runs with other losses of the second."""
    losses = two().losses[two().losses["step"] >= first_step]
    others, own = losses[losses["run"] != SECOND], losses[losses["run"] == SECOND]
    return two(losses=pd.concat([others, change(own.copy())], ignore_index=True))


def exchanged(losses: pd.DataFrame) -> pd.DataFrame:
    sets = {"general": "kernel", "kernel": "general"}
    return losses.assign(domain=losses["domain"].replace(sets))


def in_bits(losses: pd.DataFrame) -> pd.DataFrame:
    return losses.assign(loss=losses["loss"] / np.log(2))


def pretraining_in_bits() -> Study:
    trunk = lab().run("pt_trunk")
    own = lab().losses.query("run == 'pt_trunk'")
    other = in_bits(own.assign(run="other", loss=1.02 * own["loss"]))
    runs = (trunk, replace(trunk, name="other", schedule=trunk.schedule.scaled(2.0)))
    return two(target=None, bases=(), runs=runs, losses=pd.concat([own, other]))


def with_schedule(schedule: Schedule, **changes: Any) -> Study:
    runs = [replace(run, schedule=schedule) if run.name == SECOND else run for run in two().runs]
    return two(runs=tuple(runs), **changes)


def cut_off() -> Study:
    rates = two().run(SECOND).schedule.learning_rates()[:1600]
    kept = two().losses.query("run != @SECOND or step <= 1600")
    return with_schedule(Schedule.from_log(np.arange(1, 1601), rates), losses=kept)


def overfitted(losses: pd.DataFrame) -> pd.DataFrame:
    rise = 2.0 * np.maximum(losses["step"] / 3000 - 0.5, 0.0) * (losses["domain"] == "kernel")
    return losses.assign(loss=losses["loss"] + rise)


MISLEADING: dict[str, tuple[Callable[[], Study], str]] = {
    "given twice": (
        lambda: second(lambda _: two().losses.query("run == @FIRST").assign(run=SECOND)),
        "r00_cos and r25_cos have the very same losses",
    ),
    "in bits": (
        lambda: second(in_bits, 1),
        "r25_cos seems to be in bits. Multiply the losses of r25_cos by 0.6931",
    ),
    "PT in bits": (
        pretraining_in_bits,
        "other seems to be in bits. Multiply the losses of other by 0.6931",
    ),
    "swapped in one": (
        lambda: second(lambda own: exchanged(own).where(own["step"] > 0, own)),
        "general and kernel seem to be mixed up in one of them",
    ),
    "swapped in all": (
        lambda: two(general="kernel", target="general"),
        "the loss of kernel falls and that of general rises",
    ),
    "tenfold LR": (
        lambda: with_schedule(two().run(SECOND).schedule.scaled(10.0)),
        "peak learning rate of the run r25_cos is 0.02, that of r00_cos 0.002",
    ),
    "LR jumps": (
        lambda: with_schedule(constant(2400, 2e-3) + linear(600, 2e-2, 0.0)),
        "run r25_cos jumps to 0.02 at the start of segment 2, and was 0.002 at most before",
    ),
    "overfitting": (
        lambda: second(overfitted),
        "on kernel the loss of the run r25_cos has risen since step 1400, from ",
    ),
    "measured otherwise": (
        lambda: two(losses=two().losses.eval("loss = loss + 0.1 * (step == 0)")),
        "all 7 losses at step 0 of CPT runs lie above those of PT runs at the same",
    ),
    "turned replay": (
        lambda: two(
            runs=(
                two().runs[0],
                *(replace(own, replay=1 - (own.replay or 0)) for own in two().runs[1:]),
            )
        ),
        "at replay 1 (run r00_cos)",
    ),
}


def test_pretraining_of_several_sizes_is_for_the_law_with_sizes(call: Call, tmp_path: Path) -> None:
    trunk, losses = lab().run("pt_trunk"), lab().losses.query("run == 'pt_trunk'")
    runs = tuple(replace(trunk, name=f"s{size}", model_size=size) for size in (1, 4))
    rows = [losses.assign(run=run.name, loss=losses["loss"] - i) for i, run in enumerate(runs)]
    write_study(two(target=None, bases=(), runs=runs, losses=pd.concat(rows)), tmp_path / "study")
    answer = call("check", tmp_path / "study")
    assert "2 PT runs for the model pretrain-sizes." in answer.out.splitlines()[0]
    refused = call("fit", tmp_path / "study", "-o", tmp_path / "fit.nc")
    check_refusal(refused, ("no CPT run", "--model pretrain-sizes"))


@pytest.mark.parametrize("case", MISLEADING)
def test_what_would_mislead_a_fit_check_says_first(case: str, call: Call, tmp_path: Path) -> None:
    made, said = MISLEADING[case]
    write_study(made(), tmp_path / "study")
    answer = call("check", tmp_path / "study")
    first, after = answer.out.splitlines()[:2]
    assert first.startswith("cpt-lab should not be fitted as it is: ")
    assert said in first
    assert not after
    assert answer.code == 1
    assert call("check", tmp_path / "study", "--quiet") == (1, "", f"{first}\n")


def test_what_would_mislead_a_fit_marks_it(call: Call, quick_fit: Fits, tmp_path: Path) -> None:
    made, said = MISLEADING["in bits"]
    write_study(made(), tmp_path / "study")
    target = tmp_path / "fit.nc"
    for line in (("fit", tmp_path / "study", "-o", target), ("summary", target)):
        answer = call(*line, "--quiet")
        assert (answer.code, answer.out) == (1, "")
        assert answer.err.startswith("Not trustworthy: near its start the run r25_cos")
        assert said.split(". ")[0] in answer.err
    assert not bayes_cpt.load(target).trustworthy


def test_a_run_that_was_cut_off_is_said_first_and_may_be_fitted(
    call: Call, quick_fit: Fits, tmp_path: Path
) -> None:
    write_study(cut_off(), tmp_path / "study")
    for line in (("check",), ("fit", "-o", tmp_path / "fit.nc")):
        answer = call(line[0], tmp_path / "study", *line[1:])
        assert answer.code == 0
        assert "r25_cos ends at step 1600 while its learning rate" in answer.out.splitlines()[0]


SEEN: dict[str, tuple[Callable[[], Study], str, str, str]] = {
    "no set of the study": (
        lambda: second(lambda losses: losses.assign(domain="r25-" + losses["domain"])),
        "none of general or kernel: it tells the fit nothing", "Left open: replay,", "cpt 0 0.002 3000"),
    "in the warm-up": (
        lambda: with_schedule(cosine(3000, 2e-3, warmup_steps=400)).truncated({FIRST: 200, SECOND: 100}),
        "all losses of r25_cos lie in the warm-up (of r25_cos to step 100 of 400): they show", "decay",
        "cpt 0 to 0.25 0.0005 to 0.002 100 to 200"),
    "half-finished": (
        lambda: two().truncated({SECOND: 1200}),
        "2 CPT and 1 PT runs for the model", "", "cpt 0 to 0.25 0.002 1200 to 3000"),
}  # fmt: skip


@pytest.mark.parametrize("case", SEEN)
def test_what_runs_tell_goes_by_what_was_measured(case: str, call: Call, tmp_path: Path) -> None:
    made, first, left, ranges = SEEN[case]
    write_study(made(), tmp_path / "study")
    answer = call("check", tmp_path / "study")
    assert answer.code == 0
    lines = [" ".join(line.split()) for line in answer.out.splitlines()]
    assert first in lines[0]
    assert left in lines[2]
    assert ranges in lines
    assert any("steps to peak LR" in line for line in lines)


@pytest.mark.parametrize(("times", "steps"), [(1, 30_000), (64, 192_000)])
def test_a_run_far_longer_than_the_others_may_be_fitted(times: int, steps: int) -> None:
    losses = two().losses
    counted = losses["step"].where(losses["run"] != SECOND, times * losses["step"])
    (told,) = with_schedule(cosine(steps, 2e-3), losses=losses.assign(step=counted)).suspicions
    said = (
        f"{steps} steps, the next longest 3000 (r00_cos), and was measured to step {times * 3000}"
    )
    assert said in told.problem
    assert not told.misleads


@pytest.mark.parametrize("again", [linear(500, 2e-4, 2e-3), constant(500, 2e-3)])
def test_a_return_to_the_peak_of_the_base_is_no_mistake(again: Schedule) -> None:
    low = [replace(run, schedule=constant(3000, 2e-4)) for run in two().runs if run.name == FIRST]
    made = with_schedule(constant(500, 2e-4) + again + linear(2000, 2e-3, 0.0))
    assert not replace(made, runs=(made.runs[0], *low, made.runs[-1])).suspicions


def test_another_replay_ratio_is_advised_with_its_contraction(call: Call, tmp_path: Path) -> None:
    write_study(lab().subset(["r50_cos"]), tmp_path / "study")
    out = call("check", tmp_path / "study", "--verbose").out
    assert "1 CPT run for the model" in out
    assert "a CPT run at replay 0 (makes it 0." in out
    assert "a CPT run at replay 0.5" not in out


PLAN = "data/cpt-lab/plan-example.toml"


def test_priors_reasons_and_what_they_expect_are_printed(call: Call) -> None:
    answer = call("prior", "cpt-replay", "--plan", PLAN)
    assert (answer.code, answer.err) == (0, "")
    use, sure, change = answer.out.splitlines()[:3]
    assert use.startswith("cpt-replay expects the loss to change by −")
    assert use.endswith(" on kernel (nats/token). Use it if that is plausible for you.")
    assert "90 % intervals" in sure
    assert "intervals in a model file" in change
    rows = [line.split() for line in answer.out.splitlines()]
    assert ["reference_loss", "all", "LogNormal(median", "2.5,", "0.5)", "1.1", "5.7"] in rows
    assert ["kernel", "Normal(0.2,", "0.3)", "−0.29", "0.69"] in rows
    assert "alpha is 0.50 to 0.70 in every fit of the paper." in answer.out
    assert ["long_r25", "general", "12000"] in [row[:3] for row in rows]


def test_json_and_the_interval(call: Call) -> None:
    narrow = call("prior", "pretrain", "--interval", 0.5, "--json").json()
    wide = call("prior", "pretrain", "--json").json()
    assert narrow["plan"] == "cpt-lab"
    assert "the lowest and the highest of" in narrow["verdict"][1]
    widest = max(row["upper"] for row in wide["ends"])
    assert f"to {widest:.1f} on general" in wide["verdict"][0]
    for inner, outer in zip(narrow["ends"], wide["ends"], strict=True):
        assert outer["lower"] < inner["lower"] < inner["upper"] < outer["upper"]
    assert {row["parameter"] for row in wide["priors"]} >= {"reference_loss", "memory"}
    assert all(row["reason"] for row in wide["priors"])


def test_the_figure_of_a_prior(call: Call, tmp_path: Path) -> None:
    target = tmp_path / "prior.svg"
    assert call("prior", "pretrain", "-o", target, "-q") == (0, "", "")
    assert target.stat().st_size > 10_000

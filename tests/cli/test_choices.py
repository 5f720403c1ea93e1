"""What may be chosen, by decide, next-run, schedule, landmarks and planner: in JSON, in words, in plans."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from textwrap import wrap
from typing import Any, NamedTuple

import pandas as pd
import pytest
from command_line import Call
from matplotlib.figure import Figure

import bayes_cpt
from bayes_cpt import Posterior, bundled_study, decide, next_run
from bayes_cpt.decisions.objective import read_objective
from bayes_cpt.decisions.schedule_choice import choose_schedule
from bayes_cpt.decisions.space import read_space
from bayes_cpt.landmarks import survey

pytestmark = pytest.mark.usefixtures("few_candidates", "empty_figures")

PLAN = bundled_study() / "plan-example.toml"
FEW = ("--draws", 40, "--candidates", 256)
FEW_RUNS = ("--draws", 60, "--candidates", 16)
OBJECTIVE = """
preset = "balanced"
reference = "stable_12k"
cost_per_1000_steps = 0.01

[[constraints]]
domain = "general"
{threshold}
probability = 0.3
"""
SPACE = """
bases = ["stable_12k", "annealed_0pct"]
replay = [0.1, 0.5]
relative_peak = {low = 0.2, high = 1.0}
steps = [3000, 9000]
decay_share = 1.0
relative_final = 0.1
"""
# Two runs of the bundled study.
RUNS = "".join(
    f"[runs.{own}"
    for own in (bundled_study() / "study.toml").read_text(encoding="utf-8").split("[runs.")
    if own.split("]")[0] in ("r25_cos", "r25_a0_rewarm")
)


class Asked(NamedTuple):
    """A verb with its options, the function behind it, and what JSON tells of what that returns."""

    options: tuple[object, ...]
    result: Callable[[Posterior], Any]
    told: Callable[[Any], dict[str, Any]]
    tables: Callable[[Any], dict[str, pd.DataFrame]]


FILES = {
    "objective.toml": OBJECTIVE.format(threshold="limit = 3.6"),
    "space.toml": SPACE,
    "runs.toml": RUNS,
}
ASKED = {
    "decide": Asked(
        ("--objective", "objective.toml", "--space", "space.toml", *FEW, "--risk", "cvar:0.8", "--seed", 4),
        lambda fit: decide(
            fit, "objective.toml", "space.toml", "cvar:0.8", draws=40, candidates=256, seed=4
        ),
        lambda own: {
            "risk": "cvar:0.8",
            "reference": "stable_12k",
            "searched": ["base", "replay", "relative_peak", "steps"],
            "feasible": own.feasible,
            "value_of_perfect_information": dict(
                zip(("nats", "error"), own.information, strict=True)
            ),
        },
        lambda own: {
            "contenders": own.table(0.8),
            "optimum": own.optimum_table(0.8),
            "front": own.front_table(0.8),
        },
    ),
    "next-run": Asked(
        ("--runs", PLAN, "--objective", "domain-focus", "--space", "space.toml", "--seed", 2, *FEW_RUNS),
        lambda fit: next_run(
            fit, "domain-focus", "space.toml", PLAN, draws=60, candidates=16, seed=2
        ),
        lambda own: {
            "value_of_perfect_information": dict(zip(("nats", "error"), own.perfect, strict=True))
        },
        lambda own: {"runs": own.table(), "information": own.information_table()},
    ),
    "schedule": Asked(
        ("--steps", 400, "--replay", 0.25, "--base", "annealed_0pct", "--draws", 8,
         "--cap", 1e-3, "--objective", "domain-focus"),
        lambda fit: choose_schedule(
            fit, "annealed_0pct", 0.25, 400, "domain-focus", cap=1e-3, draws=8
        ),
        lambda own: {
            "advised": own.advised,
            "not_given": [],
            "learning_rate": own.run.schedule.learning_rates().tolist(),
        },
        lambda own: {"gains": own.table(0.8)},
    ),
    "landmarks": Asked(
        ("--plan", "runs.toml", "--run", "r25_a0_rewarm", "--draws", 8),
        lambda fit: survey(fit, "runs.toml", "r25_a0_rewarm", draws=8),
        lambda own: {
            "run": "r25_a0_rewarm",
            "past_critical_point": {
                "base": "annealed_0pct",
                "replay": 0.25,
                **dict(zip(("probability", "probability_by_prior"), own.past(), strict=True)),
            },
        },
        lambda own: own.tables(0.8),
    ),
}  # fmt: skip


@pytest.mark.parametrize("verb", ASKED)
def test_json_holds_what_the_function_returns(
    verb: str, call: Call, fit_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text, encoding="utf-8")
    options, result, told, tables = ASKED[verb]
    found = call(verb, fit_file, *options, "--interval", 0.8, "--json").json()
    wanted = result(bayes_cpt.load(fit_file))
    assert found["files"] == {}
    assert found["sentences"] == wanted.sentences(0.8)
    assert found["verdict"] == wanted.verdict(0.8)
    for name, value in told(wanted).items():
        assert found[name] == value
    for name, table in tables(wanted).items():
        # JSON knows neither infinity nor NaN.
        rows = json.loads(table.to_json(orient="records", double_precision=15))
        read = pd.DataFrame(found[name])
        pd.testing.assert_frame_equal(read, pd.DataFrame(rows), check_dtype=False)


def test_what_is_recommended_can_be_predicted(call: Call, fit_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "decision"
    answer = call("decide", fit_file, "-o", folder, *FEW)
    table = pd.read_csv(folder / "contenders.csv")
    assert table["option"][0] == "recommended"
    row = table.iloc[0]
    rows = [own for own in answer.out.splitlines() if own[1:].startswith(("recomm", "runner"))]
    shown = rows[0]
    # Contenders that may be alike in all else are told apart by their decays.
    assert table["decay_steps"].nunique() > 1
    for line, steps in zip(rows, table["decay_steps"], strict=True):
        assert str(steps) in line.split()
    marked = ["*"] if isinstance(row["outside"], str) else []
    assert shown.split()[: 2 + len(marked)] == ["recommended", *marked, row["base"]]
    assert f"{row['regret']:.4f}" in answer.out
    # What is recommended can be predicted as it stands.
    forecast = tmp_path / "forecast.csv"
    plan = folder / "plan.toml"
    done = call("predict", fit_file, "--plan", plan, "-o", forecast, "--kind", "expected", "--json")
    assert done.code == 0
    final = {(own["run"], own["domain"]): own for own in done.json()["final"]}
    assert final["recommended", "general"]["step"] == row["steps"]
    runs = bayes_cpt.read_plan(plan, bayes_cpt.load(fit_file).study).runs
    assert [run.name for run in runs] == table["option"].tolist()
    assert runs[0].replay == row["replay"]


def test_constraints_nothing_keeps_give_code_1(call: Call, fit_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "objective.toml"
    path.write_text(OBJECTIVE.format(threshold="rise = -2.0"))
    answer = call("decide", fit_file, "--objective", path, *FEW)
    assert answer.code == 1
    assert "No configuration of the space keeps the constraints" in answer.err
    assert answer.out.startswith("No configuration keeps the constraints. The nearest: train from ")
    broken = "<= 0.3, counted from stable_12k, is broken with probability over 99 %"
    assert broken in answer.out
    assert "widen the space (more replay, a lower peak LR)." in answer.out
    quiet = call("decide", fit_file, "--objective", path, *FEW, "--quiet", "--json")
    assert quiet.code == 1
    assert not quiet.json()["feasible"]


def test_a_law_that_does_not_fit_decides_with_code_1(call: Call, misfitting_fit_file: Path) -> None:
    answer = call("decide", misfitting_fit_file, *FEW)
    assert answer.code == 1
    warning, advice, *_ = answer.out.splitlines()
    assert warning.startswith("Not trustworthy: the law cpt-replay does not fit these runs. ")
    assert advice.startswith("Train from ")
    assert "It rests on one PT peak learning rate (0.002)." in answer.out


def test_the_forms_in_the_help_are_read(call: Call) -> None:
    """What --help shows of objectives and spaces is what the readers take."""
    lines = [line.strip() for line in call("decide", "--help").out.splitlines()]

    def block(first: str, last: str) -> dict[str, Any]:
        start = next(i for i, line in enumerate(lines) if line.startswith(first))
        stop = next(i for i, line in enumerate(lines) if line.startswith(last))
        # In help, words after the value say what it is, or end a line that was too long.
        kept = [line.split("  ")[0] for line in lines[start : stop + 1]]
        return tomllib.loads("\n".join(line for line in kept if "=" in line or "[" in line))

    read_objective(block("[weights]", "probability"))
    read_space(block("bases =", "steps ="))


def test_all_that_a_choice_leaves_is_said_below_the_table(call: Call, fit_file: Path) -> None:
    out = call("decide", fit_file, "--steps", 6000, "--replay", 0.9, *FEW).out
    beyond = "6000 steps, 2.0x the longest run; replay 0.9, studied 0 to 0.75"
    assert f"* lies outside the fitted range: {beyond}" in out


def test_the_table_of_runs_has_what_they_cost_and_where_they_leave_what_was_fitted(
    call: Call, fit_file: Path, tmp_path: Path
) -> None:
    assert call("next-run", fit_file, "--runs", PLAN, "-o", tmp_path / "next", *FEW_RUNS).code == 0
    table = pd.read_csv(tmp_path / "next" / "runs.csv").set_index("run")
    assert table["cost"].to_dict() == {"long_r25": 12_000.0, "rewarmed_r50": 6000.0}
    assert "4.0x the longest run" in table.loc["long_r25", "outside"]


def test_runs_need_not_be_named(call: Call, fit_file: Path) -> None:
    answer = call("next-run", fit_file, "--run-steps", 40, "--steps", 40_000, *FEW_RUNS)
    assert answer.out.startswith("Before the long run of 40000 steps, ")
    assert "more are in --json" in answer.out
    # The run that check and summary advise is among those that are shown, and valued, if it is shorter.
    assert "A CPT run 4 times as long would tell most." in answer.out
    [row] = [line for line in answer.out.splitlines() if line.startswith(" most_telling")]
    assert " 12000 " in row
    assert "_constant" in answer.out
    assert "most_telling" not in call("next-run", fit_file, "--steps", 12_000, *FEW_RUNS).out


def test_a_schedule_needs_no_base_and_replay(call: Call, fit_file: Path, tmp_path: Path) -> None:
    """What the tour of the README runs; the folder is a plan that predict reads."""
    folder, out = tmp_path / "schedule", tmp_path / "forecast.csv"
    asked = ("schedule", fit_file, "--steps", 300, "--draws", 8)
    answer = call(*asked, "-o", folder)
    assert answer.code == 0
    assert "(base and replay not given: the best of those tried)" in answer.out
    assert len(pd.read_csv(folder / "gains.csv")) == 1
    study = bayes_cpt.load(fit_file).study
    run = bayes_cpt.read_plan(folder, study).run("wsd")
    tried = study.continual_runs
    assert run.base in {own.base for own in tried}
    assert run.replay in {own.replay for own in tried}
    told = call(*asked, "--json").json()
    assert (told["base"], told["replay"]) == (run.base, run.replay)
    assert told["not_given"] == ["base", "replay"]
    assert call("predict", fit_file, "--plan", folder, "-o", out, "--draws", 8).code == 0
    assert pd.read_csv(out)["run"].unique().tolist() == ["cosine", "wsd"]


def test_what_is_printed_of_landmarks_fits_on_a_screen(
    call: Call, fit_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    answer = call("landmarks", fit_file, "--draws", 8)
    lines = [part for line in answer.out.splitlines() for part in wrap(line, 100) or [""]]
    assert len(lines) <= 40
    assert "…" not in answer.out
    assert answer.out.splitlines()[3] == ""
    assert "2 more in --json" in answer.out
    assert "by the prior alone" in answer.out


def test_a_font_without_the_letters_of_a_name_is_one_note(
    call: Call, fit_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def named(*_: object) -> Figure:
        figure = Figure()
        figure.suptitle("训练")
        return figure

    monkeypatch.setattr(bayes_cpt.plots, "decision", named)
    answer = call("decide", fit_file, *FEW, "-o", tmp_path / "out")
    assert answer.err.count("lacks letters of a name") == answer.err.count("Note:") == 1
    assert "Glyph" not in answer.err


def test_a_planner_is_written(call: Call, fit_file: Path, tmp_path: Path) -> None:
    page = tmp_path / "planner.html"
    options = ("--objective", "domain-focus", "--interval", 0.8, "--seed", 4, "--draws", 8)
    answer = call("planner", fit_file, "-o", page, *options, "--candidates", 64, "--json")
    assert answer.code == 0
    text = page.read_text(encoding="utf-8").split('id="planner-data">')[1]
    found, data = answer.json(), json.loads(text.split("</script>")[0])
    assert found["draws"] == 8
    assert found["bytes"] == page.stat().st_size
    assert data["about"] == data["about"] | {"interval": 0.8, "seed": 4, "fit": fit_file.name}
    assert data["start"]["weight"] == pytest.approx(0.1)

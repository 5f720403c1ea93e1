from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_line import Call

import bayes_cpt
from bayes_cpt.decisions.decision import Decision
from bayes_cpt.decisions.objective import read_objective
from bayes_cpt.decisions.space import read_space

pytestmark = pytest.mark.usefixtures("few_candidates", "empty_figures")

FEW = ("--draws", 40, "--candidates", 256)
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


def decided(fit: Path, objective: Any = "balanced", space: Any = None, **options: Any) -> Decision:
    posterior = bayes_cpt.load(fit)
    return bayes_cpt.decide(posterior, objective, space, draws=40, candidates=256, **options)


@pytest.fixture
def objective(tmp_path: Path) -> Path:
    path = tmp_path / "objective.toml"
    path.write_text(OBJECTIVE.format(threshold="limit = 3.6"))
    return path


@pytest.fixture
def space(tmp_path: Path) -> Path:
    path = tmp_path / "space.toml"
    path.write_text(SPACE)
    return path


def test_json_holds_what_the_function_returns(
    call: Call, fit_file: Path, objective: Path, space: Path
) -> None:
    arguments = ("decide", fit_file, "--objective", objective, "--space", space, *FEW)
    answer = call(*arguments, "--risk", "cvar:0.8", "--interval", 0.8, "--seed", 4, "--json")
    found, wanted = answer.json(), decided(fit_file, objective, space, risk="cvar:0.8", seed=4)
    assert answer.code == (0 if wanted.feasible else 1)
    assert found["sentences"] == wanted.sentences(0.8)
    assert found["verdict"] == wanted.verdict(0.8)
    assert found["risk"] == "cvar:0.8"
    assert found["reference"] == "stable_12k"
    assert found["objective"]["constraints"][0]["limit"] == 3.6
    assert found["searched"] == ["base", "replay", "relative_peak", "steps"]
    assert found["feasible"] == wanted.feasible
    assert found["value_of_perfect_information"]["nats"] == pytest.approx(wanted.information[0])
    for name, table in (
        ("contenders", wanted.table(0.8)),
        ("optimum", wanted.optimum_table(0.8)),
        ("front", wanted.front_table(0.8)),
    ):
        read = pd.DataFrame(found[name])
        assert list(read.columns) == list(table.columns)
        for column in table.select_dtypes(np.number):
            np.testing.assert_allclose(read[column].astype(float), table[column])


def test_the_table_is_printed_and_the_plan_predicted(
    call: Call, fit_file: Path, tmp_path: Path
) -> None:
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


def test_constraints_that_nothing_keeps_are_told_by_the_exit_code(
    call: Call, fit_file: Path, tmp_path: Path
) -> None:
    path = tmp_path / "objective.toml"
    path.write_text(OBJECTIVE.format(threshold="rise = -2.0"))
    answer = call("decide", fit_file, "--objective", path, *FEW)
    assert answer.code == 1
    assert "No configuration of the space keeps the constraints" in answer.err
    assert answer.out.startswith("No configuration keeps the constraints. The nearest: train from ")
    assert "is broken with probability over 99 %" in answer.out
    assert "allow more, or widen the space" in answer.out
    quiet = call("decide", fit_file, "--objective", path, *FEW, "--quiet", "--json")
    assert quiet.code == 1
    assert not quiet.json()["feasible"]


def test_a_law_that_does_not_fit_decides_with_exit_code_1(
    call: Call, misfitting_fit_file: Path
) -> None:
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
        import tomllib

        start = next(i for i, line in enumerate(lines) if line.startswith(first))
        stop = next(i for i, line in enumerate(lines) if line.startswith(last))
        # In help, words after the value say what it is, or end a line that was too long.
        kept = [line.split("  ")[0] for line in lines[start : stop + 1]]
        return tomllib.loads("\n".join(line for line in kept if "=" in line or "[" in line))

    read_objective(block("[weights]", "probability"))
    read_space(block("bases =", "steps ="))

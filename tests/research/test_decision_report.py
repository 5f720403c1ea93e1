import numpy as np
import pandas as pd
import pytest
from figures import check_figure
from testbench.decision_report import (
    figure,
    markdown,
    regrets,
    truthfulness,
)
from testbench.one_decision import OURS

METHODS = (OURS, "plug-in", "Gaussian process", "rule", "oracle")
TASKS = 12


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    """Return tables in which regrets are whole numbers of mnat."""
    choices, statements, constraints = [], [], []
    for task in range(TASKS):
        form = ("law", "printed")[task % 2]
        place = {"task": str(task), "form": form, "shift": "moderate"}
        for objective in ("domain-focus", "balanced"):
            for number, method in enumerate(METHODS):
                regret = 0.0 if method == "oracle" else 0.001 * (number + 1) * (task + 1)
                choices.append(
                    {"objective": objective, "method": method, "regret": regret, **place}
                )
            statements.append(
                {
                    "objective": objective,
                    "stated": 0.001 * task,
                    "realised": 0.002 * task,
                    "stated_best": 0.25,
                    "best": task < 3,
                    "stated_near": 0.25 if task < 6 else 0.75,
                    "near": task < 6,
                    "optimum": 2.0,
                    "lower": 1.9 if task else 2.1,
                    "upper": 2.2,
                    **place,
                }
            )
        for allowed in (0.1, 0.25):
            for method in (OURS, "plug-in"):
                row = {"loss": "general", "allowed": allowed, "method": method, **place}
                if task > 1:
                    stated = 0.9 * allowed if method == OURS else np.nan
                    violated = float(task == 2)
                    row |= {"stated": stated, "violated": violated, "binding": 1.0}
                constraints.append(row)
    log = {
        "rhat": 1.01,
        "ess": 300.0,
        "divergences": 0,
        "trustworthy": True,
        f"seconds {OURS}": 5.0,
    }
    return {
        "choices": pd.DataFrame(choices),
        "statements": pd.DataFrame(statements),
        "constraints": pd.DataFrame(constraints),
        "free": pd.DataFrame(
            statements + [own | {"feasible": "violated" in own} for own in constraints]
        ),
        "studies": pd.DataFrame([log | {"task": str(task)} for task in range(TASKS)]),
    }


def test_regrets_are_paired_by_study(tables: dict[str, pd.DataFrame]) -> None:
    # Row order and methods' order of arrival must not matter.
    found = regrets(tables["choices"].sample(frac=1.0, random_state=1))
    row = found[(found["objective"] == "balanced") & (found["method"] == "plug-in")].iloc[0]
    numbers = np.arange(1, TASKS + 1)
    error = numbers.std(ddof=1) / np.sqrt(TASKS)
    assert row["studies"] == TASKS
    assert row["mean regret"] == f"{2 * numbers.mean():.2f} ± {2 * error:.2f}"
    assert row["more"] == f"{numbers.mean():.2f} ± {error:.2f}"
    assert "oracle" not in set(found["method"])
    assert set(found.loc[found["method"] == OURS, "best or tied"]) == {"100%"}


def test_statements_lie_beside_what_came(tables: dict[str, pd.DataFrame]) -> None:
    found = truthfulness(tables["statements"]).set_index(["objective", "truth"])
    row = found.loc[("balanced", "all")]
    assert row["stated"].startswith("5.50 ±")
    assert row["realised"].startswith("11.00 ±")
    assert row["realised less stated"].startswith("5.50 ±")
    assert row["near, stated"] == "50.0%"
    assert row["near"].startswith("50.0%")
    assert row["best"].startswith("25.0%")
    assert row["optimum in 90 %"].startswith("91.7%")
    assert found.loc[("balanced", "law"), "studies"] == TASKS // 2


def test_the_report_and_the_figure_are_whole(tables: dict[str, pd.DataFrame]) -> None:
    report = markdown(tables)
    for words in (
        "# Decisions",
        "Truths of the form: printed",
        "| balanced | plug-in | 12 |",
        "12 fits",
    ):
        assert words in report
    drawn = figure(tables)
    assert len(drawn.axes) == 4
    check_figure(drawn)

from pathlib import Path

import pytest
from command_line import Call

PLAN = "data/cpt-lab/plan-example.toml"


def test_priors_reasons_and_what_they_expect_are_printed(call: Call) -> None:
    answer = call("prior", "cpt-replay", "--plan", PLAN)
    assert (answer.code, answer.err) == (0, "")
    use, sure, change = answer.out.splitlines()[:3]
    assert use.startswith("Use cpt-replay if you expect runs to end this far from their start: ")
    assert "90 % intervals" in sure
    assert "intervals in a model file" in change
    rows = [line.split() for line in answer.out.splitlines()]
    assert ["reference_loss", "all", "LogNormal(median", "2.5,", "0.5)", "1.1", "5.7"] in rows
    assert ["kernel", "Normal(0.2,", "0.3)", "-0.29", "0.69"] in rows
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


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_the_figure(suffix: str, call: Call, tmp_path: Path) -> None:
    target = tmp_path / f"prior{suffix}"
    assert call("prior", "pretrain", "-o", target, "-q") == (0, "", "")
    assert target.stat().st_size > 10_000

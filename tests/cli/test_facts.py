"""All commands agree on what a fit has determined, what it leaves open and which run tells most of that."""

from pathlib import Path

import pytest
from command_line import Call

pytestmark = pytest.mark.usefixtures("few_candidates")


def test_all_commands_tell_the_same_facts(call: Call, fit_file: Path) -> None:
    told = call("summary", fit_file, "--json").json()
    facts = told["facts"]
    assert facts["left_open"] == {"length_effect": ["general", "kernel"]}
    assert facts["telling"] == "a CPT run 4 times as long"
    for row in told["determination"]:
        if row["kind"] == "effect":
            kind = "determined" if row["identified"] and row["tried"] else "left_open"
            assert row["domain"] in facts[kind][row["quantity"]]
    few = ("--draws", 8, "--candidates", 16)
    assert call("decide", fit_file, *few, "--json").json()["facts"] == facts
    said = "The fit leaves open, whatever is chosen here: length; most telling of that: a CPT run 4"
    assert said in call("next-run", fit_file, "--draws", 60, "--candidates", 16).out


def test_a_fit_keeps_the_facts_that_check_expects(
    call: Call, quick_fit: list[str], tmp_path: Path
) -> None:
    target = tmp_path / "fit.nc"
    made = call("fit", "data/cpt-lab", "-o", target, "--json").json()["facts"]
    assert call("summary", target, "--json").json()["facts"] == made
    expected = call("check", "data/cpt-lab", "--json").json()["facts"]
    assert expected["telling"] == made["telling"]
    assert expected["left_open"] == made["left_open"]

"""A simulated study of two targets through validate, compare and watch; fits know the truth."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import Call, check_refusal
from stand_in import knowing, medians, stand_in
from target_family import RUNS, several, simulated

from bayes_cpt import Posterior, Study, read_plan, read_spec, write_study
from bayes_cpt.landmarks import survey

pytestmark = pytest.mark.usefixtures("few_candidates")

TARGETS = ("code", "law")
DOMAINS = ("web", *TARGETS)
LEFT_OUT = ["code_0.3", "law_0.3", "mixed"]
MODELS = ["cpt-replay", "cpt-replay-printed"]
ALONE = ("--runs", ",".join(LEFT_OUT), "--tails", "none", "--jobs", 1)


@cache
def truth(model: str) -> dict[str, np.ndarray]:
    return medians(model, several(TARGETS, RUNS))


def known() -> Posterior:
    """Return the fit that knows the truth."""
    return knowing(study(), read_spec(MODELS[0]), truth)


@cache
def study() -> Study:
    """Return nine runs of two targets, one of them a mixture, with losses from the law."""
    return simulated(several(TARGETS, RUNS), truth(MODELS[0]), MODELS[0], seed=3)


@pytest.fixture(autouse=True)
def _fits(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, knowing, truth=truth)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the study's folder."""
    write_study(study(), tmp_path / "study")
    return tmp_path / "study"


def test_forecasts_are_scored_on_every_set(call: Call, folder: Path) -> None:
    answer = call("validate", folder, *ALONE, "--json")
    assert answer.code == 0
    scores = pd.DataFrame(answer.json()["scores"])
    pooled = scores[scores["run"] == "all points"].set_index("domain")
    assert set(pooled.index) == {*DOMAINS, "all sets"}
    assert pooled.loc["all sets", "coverage_90"] > 0.7


@pytest.mark.slow
def test_laws_are_compared(call: Call, folder: Path) -> None:
    answer = call("compare", folder, "--models", ",".join(MODELS), *ALONE, "--json")
    assert answer.code == 0, answer.err
    told = answer.json()
    assert [row["method"] for row in told["scores"]] == [*MODELS, "stack"]
    assert all(row["runs"] == len(LEFT_OUT) for row in told["scores"])
    assert told["trustworthy"]


def test_commands_ask_for_a_target_and_take_it(call: Call, tmp_path: Path) -> None:
    fit = tmp_path / "fit.nc"
    posterior = known()
    posterior.save(fit)
    check_refusal(call("landmarks", fit, "--draws", 8), ("--target code",))
    answer = call("landmarks", fit, "--draws", 8, "--target", "law", "--json")
    assert answer.json()["run"] == "law_0"
    assert answer.json()["sentences"] == survey(posterior.of_target("law"), draws=8).sentences()
    page = tmp_path / "planner.html"
    few = ("--draws", 8, "--candidates", 64)
    check_refusal(call("planner", fit, "-o", page, *few), ("--target code",))
    answer = call("planner", fit, "-o", page, *few, "--target", "law")
    assert answer.code in (0, 1)
    # The plan that the page hands out says which target its run trains on: predict asks for it.
    assert json.dumps('"law"') in page.read_text(encoding="utf-8").split('"targets": ')[1][:20]


def test_a_schedule_is_asked_for_with_a_mixture(call: Call, tmp_path: Path) -> None:
    fit, folder = tmp_path / "fit.nc", tmp_path / "schedule"
    known().save(fit)
    asked = ("schedule", fit, "--steps", 400, "--base", "base", "--replay", 0.2, "--draws", 8)
    answer = call(*asked, "--targets", "code=0.7,law=0.3", "-o", folder, "--json")
    assert answer.code == 0, answer.err
    assert answer.json()["targets"] == {"code": 0.7, "law": 0.3}
    assert all(run.mixture == {"code": 0.7, "law": 0.3} for run in read_plan(folder, study()).runs)
    said = ("--targets code: 'much' is not a number",)
    check_refusal(call(*asked, "--targets", "code=much"), said)

"""Settings chosen by the studies of other families, from scores made by hand."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from testbench import public, settings
from testbench.families import VAGUE
from testbench.public import Models
from testbench.settings import (
    CONTINUAL_VALUES,
    EARLIER,
    EQUALS,
    LATER,
    SKIPS,
    VALUES,
    best_settings,
    candidates,
    later_points,
    report,
    scored,
    settings_of,
)

from bayes_cpt.model.spec import read_spec
from bayes_cpt.validate.folds import Fold, Question
from bayes_cpt.validate.held_out import TABLES, Method
from bayes_cpt.validate.tasks import Pool, Records

VAGUE_SPEC = read_spec(VAGUE)
STUDIES = ("size-1x1", "size-2x2", "mpl-1m", "ladder-1m")


def made_by_hand() -> pd.DataFrame:
    """Return scores of which a long memory of the misfit is good for the multi-power study alone."""
    crps = pd.DataFrame(0.004, index=list(STUDIES), columns=list(candidates(VAGUE_SPEC)))
    crps["misfit_memory_pt = 0.5"] = [0.005, 0.005, 0.001, 0.004]
    crps["skip_warmups = 24"] = 0.003
    return crps


def test_one_setting_is_changed_at_a_time() -> None:
    own = settings_of(VAGUE_SPEC)
    for name, spec in candidates(VAGUE_SPEC).items():
        setting, value = name.split(EQUALS)
        assert settings_of(spec) == own | {setting: float(value)}
        assert spec.priors == VAGUE_SPEC.priors
    assert {name.split(EQUALS)[0] for name in candidates(VAGUE_SPEC)} == set(VALUES)


def test_a_model_of_cpt_has_settings_and_studies_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = read_spec("cpt-replay")
    assert settings_of(spec)["misfit_memory"] == spec.residuals.misfit_memory
    tried = candidates(spec)
    assert tried["misfit_memory = 0.3"].residuals.misfit_memory == 0.3
    assert {name.split(EQUALS)[0] for name in tried} == set(CONTINUAL_VALUES)
    named = ("lab-each-run", "lab-longer", "lab-strong", "pythia-python", "mpl-1m")
    monkeypatch.setattr(public, "suite", lambda _: dict.fromkeys(named, lambda models: [models]))
    folds = settings.suite_folds(tmp_path, spec)
    assert set(folds) == set(named) - {"mpl-1m"}
    assert [public.family(name) for name in named] == ["lab", "lab", "strong", "pythia", "mpl"]


def test_a_family_has_no_say_in_its_own_settings() -> None:
    crps = made_by_hand()
    own = settings_of(VAGUE_SPEC)
    assert best_settings(crps, VAGUE_SPEC) == own | {"misfit_memory_pt": 0.5, "skip_warmups": 24.0}
    assert best_settings(crps, VAGUE_SPEC, "mpl") == own | {"skip_warmups": 24.0}
    with_earlier = crps.copy()
    with_earlier["skip_warmups = 24"] = 0.002
    shown = report({LATER: crps, EARLIER: with_earlier}, VAGUE_SPEC)
    assert "without mpl" in shown
    (row,) = (line for line in shown.splitlines() if "skip_warmups = 24" in line)
    assert row.count("**0.750**") == 4
    assert row.count("0.500") == 1


def test_later_points_are_those_that_are_asked_for() -> None:
    steps = np.arange(0, 100, 10)
    measured = pd.DataFrame({"run": "a", "domain": "general", "step": steps, "loss": 2.0})
    asked = Fold("a", 0.0, Question(None, None, measured), measured[measured["step"] > 35])  # type: ignore[arg-type]
    points = pd.concat(
        measured.assign(study=study, method=method)
        for study in ("mpl-1m", "mpl-2m")
        for method in ("one", "two")
    )
    later = later_points(points, {"mpl-1m": [asked, asked]})
    assert set(later["study"]) == {"mpl-1m"}
    for method in ("one", "two"):
        assert list(later.loc[later["method"] == method, "step"]) == [40, 50, 60, 70, 80, 90]


def test_all_candidates_answer_the_same_questions_and_each_model_is_fitted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []
    seen: list[Models] = []

    def folds(models: Models) -> list[Fold]:
        seen.append(models)
        return []

    def score_suite(
        studies: dict[str, list[Fold]], methods: dict[str, Method], *_: object
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        asked.append(tuple(methods))
        points = pd.DataFrame({"method": list(methods), "study": "mpl-1m"})
        return points, points

    def study_table(points: pd.DataFrame, _: pd.DataFrame) -> pd.DataFrame:
        return points.assign(crps=np.arange(1.0, len(points) + 1.0))

    monkeypatch.setattr(public, "suite", lambda _: {"mpl-1m": folds, "lab-strong": folds})
    monkeypatch.setattr(settings, "score_suite", score_suite)
    monkeypatch.setattr(settings, "later_points", lambda points, _: points)
    monkeypatch.setattr(settings, "study_table", study_table)
    records = Records.open(None, {}, TABLES)
    scores = scored(tmp_path, VAGUE_SPEC, Pool(1), records, 0)
    (methods,), (loosest, strictest) = asked, [models.pretraining.residuals for models in seen]
    for name in SKIPS:
        assert getattr(loosest, name) == min(VALUES[name])
        assert getattr(strictest, name) == max(VALUES[name])
    assert set(scores) == {LATER, EARLIER}
    crps = scores[LATER]
    assert len(methods) == len(candidates(VAGUE_SPEC)) - len(VALUES) + 1
    own = {
        crps.loc["mpl-1m", f"{name}{EQUALS}{value:g}"]
        for name, value in settings_of(VAGUE_SPEC).items()
    }
    assert len(own) == 1
    assert set(crps.columns) == set(candidates(VAGUE_SPEC))

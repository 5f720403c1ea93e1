"""Settings chosen by the studies of other families, from scores made by hand."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from testbench import public, settings
from testbench.families import VAGUE
from testbench.public import Models
from testbench.settings import (
    EARLIER,
    EQUALS,
    LATER,
    SKIPS,
    VALUES,
    best_settings,
    candidates,
    report,
    scored,
    settings_of,
)

from bayes_cpt.model.spec import read_spec
from bayes_cpt.validate.folds import Fold
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

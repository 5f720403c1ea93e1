"""Sweeps by peak: what is fitted and what is forecast, and whose priors are used."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from testbench import public
from testbench.beyond import SHARE
from testbench.sweeps import corpus, peaks, score, splits

from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.runs import Run
from bayes_cpt.study.schedules import warmup_stable_decay
from bayes_cpt.study.study import Study
from bayes_cpt.validate.tasks import Pool, Records

PEAKS = (1e-4, 3e-4, 1e-3, 2e-3, 4e-3)


def sweep(name: str, run_peaks: tuple[float, ...] = PEAKS, losses: int = 3) -> Study:
    """Return a study of one run at each peak, each measured a few times."""
    made = [
        Run(f"run_{peak:g}", "pt", warmup_stable_decay(100, peak, decay_steps=10, warmup_steps=5))
        for peak in run_peaks
    ]
    steps = np.linspace(60, 100, losses).round().astype(int)
    rows = [(run.name, step, "general", 3.0) for run in made for step in steps]
    table = pd.DataFrame(rows, columns=["run", "step", "domain", "loss"])
    return Study(name, "general", None, (), tuple(made), table)


def test_one_two_and_three_peaks_are_fitted_and_all_others_forecast() -> None:
    found = splits(sweep("sweep-web-1m"))
    assert {name: peaks(fitted) for name, (fitted, _) in found.items()} == {
        "one peak": [1e-3],
        "two peaks": [3e-4, 1e-3],
        "three peaks": [1e-4, 1e-3, 4e-3],
    }
    for fitted, predicted in found.values():
        assert sorted(peaks(fitted) + peaks(predicted)) == list(PEAKS)


def test_a_sweep_is_forecast_under_the_priors_without_its_corpus(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And by a share of widening that no sweep told."""
    spec = read_spec("pretrain")
    models = {
        name: spec.model_copy(update={"name": f"without-{name}"}) for name in ("web", "books")
    }
    found: list[tuple[Any, list[str]]] = []

    def scored(asked: dict[str, object], *_: object) -> tuple[pd.DataFrame, pd.DataFrame]:
        found.append((records[-1]["model"]["name"], list(asked)))
        assert records[-1]["model"]["priors"][SHARE] == spec.priors[SHARE].model_dump(mode="json")
        return pd.DataFrame({"study": list(asked)}), pd.DataFrame()

    records: list[dict[str, Any]] = []
    monkeypatch.setattr(Records, "open", lambda _, settings, __: records.append(settings))
    monkeypatch.setattr(public, "score_suite", scored)
    monkeypatch.setattr(public, "study_table", lambda points, _: points)
    studies = {
        name: sweep(name, PEAKS[:3]) for name in ("sweep-web-1m", "sweep-books-2m", "sweep-web-3m")
    }
    table = score(studies, models, ["bayes_cpt"], Pool(1), tmp_path, 0)
    assert found == [
        (
            "without-web",
            [
                f"sweep-web-{size}, {kind} peak" + "s" * (kind == "two")
                for size in ("1m", "3m")
                for kind in ("one", "two")
            ],
        ),
        ("without-books", ["sweep-books-2m, one peak", "sweep-books-2m, two peaks"]),
    ]
    assert len(table) == 6
    assert [corpus(name) for name in studies] == ["web", "books", "web"]

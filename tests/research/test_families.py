"""Priors and settings of other families of studies, from scores and studies made by hand."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from testbench import public
from testbench.families import MOST_RUNS, VAGUE, joined
from testbench.settings import EARLIER, LATER, best_settings, candidates, report, settings_of
from testbench.sweeps import corpus, peaks, score, splits

from bayes_cpt import Run, Study, read_spec
from bayes_cpt.history.evidence import Label, labels_of
from bayes_cpt.history.learnt import learnt_model, learnt_text
from bayes_cpt.history.population import Population
from bayes_cpt.study.schedules import warmup_stable_decay
from bayes_cpt.validate.tasks import Pool, Records

# --- joined studies -------------------------------------------------------------------------------

PEAKS = (1e-4, 3e-4, 1e-3, 2e-3, 4e-3)


def sweep(name: str, run_peaks: tuple[float, ...] = PEAKS, losses: int = 3, runs: int = 1) -> Study:
    """Return a study of so many runs at each peak, each measured a few times."""
    made = [
        Run(
            f"{peak:g}-{number}",
            "pt",
            warmup_stable_decay(100, peak, decay_steps=10, warmup_steps=5),
        )
        for peak in run_peaks
        for number in range(runs)
    ]
    steps = np.linspace(100, 60, losses).round().astype(int)[::-1]
    rows = [(run.name, step, "general", 3.0) for run in made for step in steps]
    table = pd.DataFrame(rows, columns=["run", "step", "domain", "loss"])
    return Study(name, "general", None, (), tuple(made), table)


@pytest.mark.parametrize("runs", [1, MOST_RUNS, MOST_RUNS + 1, 40])
def test_of_a_sweep_so_many_runs_of_each_peak_are_kept(runs: int) -> None:
    study = joined(sweep("own", (5e-4,)), sweep("sweep", (1e-3, 2e-3), 1, runs))
    counts = Counter(round(run.schedule.peak, 9) for run in study.runs)
    assert counts.pop(5e-4) == 1
    assert set(counts) == {1e-3, 2e-3}
    assert all(min(runs, MOST_RUNS // 2) <= count <= MOST_RUNS for count in counts.values())
    steps, losses = study.curve(study.runs[-1].name, "general")
    assert (steps.tolist(), losses.tolist()) == ([100], [3.0])


def test_priors_that_are_asked_for_are_learnt_and_no_others(tmp_path: Path) -> None:
    spec = read_spec(VAGUE)
    labels = tuple(labels_of(spec))
    draws = np.zeros((500, len(labels)))
    chosen = ("peak_power", "all")
    telling: dict[Label, tuple[str, ...]] = {
        label: ("one",) if label == chosen else () for label in labels
    }
    population = Population(labels, draws, draws + 0.5, telling, ("one",))
    assert not population.learnt
    learnt = learnt_model(spec, population, "mine", labels=[chosen])
    before, now = labels_of(spec), labels_of(learnt.spec)
    assert {label for label in labels if before[label] != now[label]} == {chosen}
    assert now[chosen].spread == pytest.approx(0.5 * before[chosen].spread, rel=0.1)
    path = tmp_path / "mine.toml"
    path.write_text(learnt_text(learnt, str(VAGUE), {"one": "0" * 64}, 0), encoding="utf-8")
    assert labels_of(read_spec(path))[chosen].spread == pytest.approx(now[chosen].spread, rel=1e-3)
    assert "peak_slope/general" in path.read_text(encoding="utf-8").split("keep their priors:")[1]


# --- sweeps by peak -------------------------------------------------------------------------------


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
        assert records[-1]["model"]["priors"]["extrapolation_pt"] == spec.priors[
            "extrapolation_pt"
        ].model_dump(mode="json")
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


# --- settings -------------------------------------------------------------------------------------

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

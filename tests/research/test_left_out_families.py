from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from testbench.families import (
    MOST_RUNS,
    VAGUE,
    joined,
)
from testbench.simulation import NOISE, RUNS, simulated

from bayes_cpt.history.evidence import Label, labels_of
from bayes_cpt.history.learnt import learnt_model, learnt_text
from bayes_cpt.history.population import Population
from bayes_cpt.model.spec import read_spec
from bayes_cpt.study.runs import Run
from bayes_cpt.study.schedules import warmup_stable_decay
from bayes_cpt.study.study import Study

PRETRAINING = tuple(run for run in RUNS if run.phase == "pt")


def pretraining(seed: int) -> Study:
    losses = simulated(RUNS, NOISE, seed).losses.query(
        "domain == 'general' and run in ['trunk', 'anneal']"
    )
    return Study("pretraining", "general", None, (), PRETRAINING, losses)


def sweep(peaks: tuple[float, ...], runs: int) -> Study:
    """Return a study of so many runs at each peak, each measured once."""
    made = [
        Run(
            f"{peak}-{number}", "pt", warmup_stable_decay(100, peak, decay_steps=10, warmup_steps=5)
        )
        for peak in peaks
        for number in range(runs)
    ]
    rows = [(run.name, 100, "general", 3.0) for run in made]
    losses = pd.DataFrame(rows, columns=["run", "step", "domain", "loss"])
    return Study("sweep", "general", None, (), tuple(made), losses)


@pytest.mark.parametrize("runs", [1, MOST_RUNS, MOST_RUNS + 1, 40])
def test_of_a_sweep_so_many_runs_of_each_peak_are_kept(runs: int) -> None:
    study = joined(pretraining(0), sweep((1e-3, 2e-3), runs))
    peaks = [run.schedule.peak for run in study.runs if run.name not in ("trunk", "anneal")]
    _, counts = np.unique(np.round(peaks, 9), return_counts=True)
    assert len(counts) == 2
    assert (counts <= MOST_RUNS).all()
    assert (counts >= min(runs, MOST_RUNS // 2)).all()
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

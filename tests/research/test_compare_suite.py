"""Laws compared on studies of several runs: each run by a fit that did not see it, fitted once."""

from pathlib import Path

import pandas as pd
import pytest
from synthetic import prior_as_posterior
from testbench import compare_suite
from testbench.compare_suite import common_folds
from testbench.simulation import NOISE, RUNS, simulated

from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.spec import ModelSpec, read_spec
from bayes_cpt.study.folder import write_study
from bayes_cpt.study.study import Study
from bayes_cpt.validate.folds import other_study

PRETRAINING = tuple(run for run in RUNS if run.phase == "pt")


def pretraining(seed: int) -> Study:
    """Return two PT runs on the general set."""
    losses = simulated(RUNS, NOISE, seed).losses
    rows = losses.query("domain == 'general' and run in ['trunk', 'anneal']")
    return Study("pretraining", "general", None, (), PRETRAINING, rows)


@pytest.fixture
def fitted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stand the prior in for the posterior; return the models that were fitted."""
    models: list[str] = []

    def fit(study: Study, spec: ModelSpec, seed: int, *, cores: int) -> Posterior:
        models.append(spec.name)
        return prior_as_posterior(study, spec, draws=60)

    monkeypatch.setattr(compare_suite, "fit", fit)
    return models


def test_folds_ask_for_one_run_each_at_points_that_all_laws_count() -> None:
    study, other = pretraining(1), pretraining(2)
    by_law = [other_study(study, other, read_spec(law)) for law in compare_suite.LAWS]
    folds = common_folds(by_law)
    assert [fold.label for fold in folds] == sorted(run.name for run in PRETRAINING)
    for fold in folds:
        assert set(fold.measured["run"]) == {fold.label}
        for (whole,) in by_law:
            of_run = whole.measured[whole.measured["run"] == fold.label]
            assert set(fold.measured["step"]) <= set(of_run["step"])


def test_the_command_compares_and_keeps_what_is_done(
    fitted: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = tmp_path / "public", tmp_path / "out"
    for part, seed in (("fit", 1), ("predict", 2)):
        write_study(pretraining(seed), data / "tiny" / part)
    compare_suite.main([str(data), "-o", str(out)])
    assert sorted(fitted) == ["pretrain", "pretrain-printed", "pretrain-without-peak"]
    table = pd.read_csv(out / "compared.csv").set_index("method")
    assert set(table.index) == {*fitted, "stack"}
    assert table["weight"].sum() == pytest.approx(1.0)
    assert table["best"].sum() == 1
    # No law scores above the best one, and of it the difference is 0.
    laws = table.drop(index="stack")
    assert (laws["log_score_difference"] <= 0).all()
    assert laws.loc[laws["best"], "log_score_difference"].item() == 0
    text = capsys.readouterr().out
    assert text == (out / "compared.md").read_text(encoding="utf-8")
    assert "tiny" in text
    compare_suite.main([str(data), "-o", str(out)])
    assert len(fitted) == 3

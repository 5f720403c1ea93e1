from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from synthetic import as_posterior, lab, prior_as_posterior
from target_family import several
from testbench import watch
from testbench.alike_errors import Fold
from testbench.watch import AS_REAL, LIKENESSES, Watched, planted

from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.misfit.discrepancy import ErrorCorrelation
from bayes_cpt.model.setup import fitted_setup
from bayes_cpt.model.simulate import simulate
from bayes_cpt.model.spec import ModelSpec
from bayes_cpt.study.study import Study
from bayes_cpt.watch import Watcher, predictive
from bayes_cpt.watch.learnt.experience import Experience


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    """Return a posterior that knows the law, of a study drawn from it: curves say how unlike runs are."""
    drawn = prior_as_posterior(lab(), draws=1)
    curves = fitted_setup(drawn.frame, lab()).curves
    one = {name: values[:1] for name, values in drawn.parameters().items()}
    loss = simulate(drawn.frame, one, curves, None, np.random.default_rng(7)).loss[0]
    named = [curves.curves[index] for index in curves.points.curve_index]
    table = pd.DataFrame(
        {
            "run": [curve.run for curve in named],
            "step": curves.points.steps.astype(int),
            "domain": [curve.domain for curve in named],
            "drawn": loss,
        }
    )[[curve.continual for curve in named]]
    losses = lab().losses.merge(table, on=["run", "step", "domain"], how="left")
    losses["loss"] = losses["drawn"].fillna(losses["loss"])
    study = replace(lab(), losses=losses.drop(columns="drawn"))
    values = {
        name: np.broadcast_to(own, (4, 100, *own.shape[1:])).copy() for name, own in one.items()
    }
    return as_posterior(drawn.frame, study, values)


@pytest.fixture(scope="module")
def watched(posterior: Posterior) -> Watched:
    return Watched.of(posterior, "r25_lin05")


def test_faults_are_found_and_few_alarms_are_false(
    posterior: Posterior, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "EVALUATIONS", 20)
    table = watch.report(posterior, "r25_lin05", 12).set_index("case")
    assert len(table) == 6
    assert table.loc["on track", "alarms"] <= 4 / 12
    faults = table.drop(index=["on track", AS_REAL])
    assert (faults["alarms"] >= 0.75).all()
    assert (faults["share of the run"] < 0.6).all()


def test_curves_depart_as_much_further_as_real_runs_do(watched: Watched) -> None:
    known = replace(Experience.none(), runs=20.0, surprise=40.0)
    watched = replace(watched, experience=known)
    plain = np.random.default_rng(4).normal([1.0, 2.0, 3.0], size=(20_000, 3))
    found = watched.departing(plain, seed=5)
    np.testing.assert_allclose(found.mean(axis=0), plain.mean(axis=0), atol=0.05)
    # The mean of an inverse gamma variable.
    np.testing.assert_allclose(found.var(axis=0) / plain.var(axis=0), 40.0 / 19.0, rtol=0.03)
    # A factor belongs to a whole curve.
    factors = (found - plain.mean(axis=0)) / (plain - plain.mean(axis=0))
    np.testing.assert_allclose(factors, factors[:, :1].repeat(3, axis=1), rtol=1e-9)


def test_the_alarms_are_those_of_a_watcher_that_is_told_point_by_point(
    posterior: Posterior, watched: Watched
) -> None:
    expected = watched.expected()
    losses = watched.drawn(planted(watched.run)["learning rate does not decay"], 1, seed=3)
    watcher = Watcher(posterior, "watched", watched.plan, experience=watched.experience)
    watcher.expect(watched.steps)
    for row, loss in zip(expected.rows, losses[0].tolist(), strict=True):
        watcher.tell(row.step, {row.domain: loss})
        if row.domain == posterior.frame.domains[-1] and not watcher.status().on_track:
            break
    assert watched.first_alarms(expected, losses, watcher.level) == [watcher.off_since]


@pytest.mark.parametrize("alike", LIKENESSES.values(), ids=list(LIKENESSES))
def test_alarms_are_no_oftener_false_however_alike_several_sets_err(
    alike: ErrorCorrelation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken to err alike by .75, as other studies do, independent sets cry wolf in a quarter of runs."""
    monkeypatch.setattr(watch, "EVALUATIONS", 10)
    monkeypatch.setattr(Experience, "of", lambda posterior, *, continual: Experience.none())
    watched = Watched.of(prior_as_posterior(several(), draws=250, spread=0.05), "mixed")
    expected, count = watched.expected(), 200
    alarms = watched.first_alarms(expected, watched.drawn(watched.run, count, 11, alike), 0.05)
    share = sum(alarm is not None for alarm in alarms) / count
    # Binomial, two standard errors.
    assert share <= 0.05 + 2.0 * (0.05 * 0.95 / count) ** 0.5
    wrong = planted(watched.run)["replay ratio 0"]
    found = watched.first_alarms(expected, watched.drawn(wrong, 20, 12, alike), 0.05)
    assert None not in found


def test_real_runs_are_watched_to_their_end(posterior: Posterior) -> None:
    table = watch.measured(posterior, lab().subset(["r25_lin05"]))
    assert table["run"].tolist() == ["r25_lin05"]
    assert 0.0 < float(table["lowest"].iloc[0]) <= 1.0


def test_runs_that_no_fit_saw_are_watched_once_each(
    posterior: Posterior, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fits are stood in for; what was done is not done again."""
    asked: list[Study] = []

    def stand_in(study: Study, spec: ModelSpec, seed: int) -> tuple[Posterior, SimpleNamespace]:
        asked.append(study)
        return posterior, SimpleNamespace(trustworthy=True)

    names = ["r25_lin05", "r00_cos"]
    few = [
        Fold("lab", lab().subset([n for n in names if n != run.name]), lab(), (run,))
        for run in map(lab().run, names)
    ]
    monkeypatch.setattr(predictive, "CURVES", 300)
    monkeypatch.setattr(predictive, "USUAL_CURVES", 100)
    monkeypatch.setattr(Experience, "of", lambda posterior, *, continual: Experience.none())
    monkeypatch.setattr(watch, "fitted", stand_in)
    monkeypatch.setattr(watch, "folds", lambda: few[: 1 + len(asked)])
    target = tmp_path / "watched.csv"
    assert watch.unseen(target)["run"].tolist() == names[:1]
    table = watch.unseen(target)
    assert table["run"].tolist() == names
    assert len(asked) == 2
    assert table["lowest"].between(0.0, 1.0).all()

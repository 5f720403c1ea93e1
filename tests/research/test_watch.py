import pytest
from synthetic import lab, prior_as_posterior
from target_family import several
from testbench import watch
from testbench.watch import AS_REAL, Watched, planted

from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.discrepancy import ErrorCorrelation
from bayes_cpt.watch import Watcher


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    return prior_as_posterior(lab(), draws=250, spread=0.0)


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


def test_alarms_are_those_of_a_watcher_that_is_told_point_by_point(
    posterior: Posterior,
) -> None:
    watched = Watched.of(posterior, "r25_lin05")
    expected = watched.expected()
    losses = watched.drawn(planted(watched.run)["learning rate does not decay"], 1, seed=3)
    watcher = Watcher(posterior, "watched", watched.plan)
    watcher.expect(watched.steps)
    for row, loss in zip(expected[0].rows, losses[0].tolist(), strict=True):
        watcher.tell(row.step, {row.domain: loss})
        if row.domain == posterior.frame.domains[-1] and not watcher.status().on_track:
            break
    assert watched.first_alarms(expected, losses, watcher.level) == [watcher.off_since]


@pytest.mark.slow
@pytest.mark.parametrize(
    "alike", [ErrorCorrelation(0.0, 0.0), ErrorCorrelation(0.95, 0.9)], ids=["apart", "alike"]
)
def test_alarms_are_no_oftener_false_however_alike_several_sets_err(
    alike: ErrorCorrelation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken to err alike by .75, as other studies do, independent sets cry wolf in a quarter of runs."""
    monkeypatch.setattr(watch, "EVALUATIONS", 10)
    watched = Watched.of(prior_as_posterior(several(), draws=250, spread=0.05), "mixed")
    expected, count = watched.expected(), 200
    with monkeypatch.context() as other:
        other.setattr("bayes_cpt.forecast.bands.error_correlation", lambda law: alike)
        healthy = watched.drawn(watched.run, count, 11)
        wrong = watched.drawn(planted(watched.run)["replay ratio 0"], 20, 12)
    alarms = watched.first_alarms(expected, healthy, 0.05, inflation=1.0)
    share = sum(alarm is not None for alarm in alarms) / count
    # Binomial, two standard errors.
    assert share <= 0.05 + 2.0 * (0.05 * 0.95 / count) ** 0.5
    assert None not in watched.first_alarms(expected, wrong, 0.05, inflation=1.0)

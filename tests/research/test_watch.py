import pytest
from synthetic import lab, prior_as_posterior
from testbench.watch import measured, report

from bayes_cpt.inference.posterior import Posterior


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    return prior_as_posterior(lab(), draws=100, spread=0.05)


def test_faults_are_found_and_few_alarms_are_false(posterior: Posterior) -> None:
    table = report(posterior, "r25_lin05", 12).set_index("case")
    assert len(table) == 5
    assert table.loc["on track", "alarms"] <= 4 / 12
    faults = table.drop(index="on track")
    assert (faults["alarms"] >= 0.75).all()
    assert (faults["share of the run"] < 0.6).all()


def test_real_runs_are_watched_to_their_end(posterior: Posterior) -> None:
    table = measured(posterior, lab().subset(["r25_lin05"]))
    assert table["run"].tolist() == ["r25_lin05"]
    assert 0.0 < float(table["lowest"].iloc[0]) <= 1.0

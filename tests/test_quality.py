import numpy as np
import pytest
from synthetic import lab_posterior

from bayes_cpt.quality import fit_quality


def test_r2_and_error_are_those_of_the_mean_curve_over_all_cpt_points() -> None:
    posterior = lab_posterior()
    found = fit_quality(posterior, draws=40).set_index("domain")
    dataset = posterior.predict(kind="expected", draws=40, at=None)
    assert list(found.index) == ["general", "kernel"]
    for domain in found.index:
        errors, losses = [], []
        for run in posterior.study.continual_runs:
            steps, measured = posterior.study.curve(run.name, domain)
            mean = dataset["expected"].sel(run=run.name, domain=domain).mean(("chain", "draw"))
            mean = mean.dropna("step")
            # The grid misses most measured steps; between its points the curve is smooth.
            drawn = np.interp(steps[1:], mean["step"], mean)
            errors += list(measured[1:] - drawn)
            losses += list(measured[1:])
        assert found.loc[domain, "points"] == len(losses)
        assert found.loc[domain, "phase"] == "cpt"
        mean_error = np.abs(errors).mean()
        assert found.loc[domain, "mean_absolute_error"] == pytest.approx(mean_error, rel=0.01)
        r2 = 1 - np.var(errors, mean=0.0) / np.var(losses)
        assert found.loc[domain, "r2"] == pytest.approx(r2, rel=0.02)


def test_a_model_without_transfer_is_judged_on_the_pt_points_it_was_fitted_to() -> None:
    found = fit_quality(lab_posterior("pretrain"), draws=20)
    assert found[["domain", "phase"]].to_numpy().tolist() == [["general", "pt"]]
    assert found["points"].item() == 182

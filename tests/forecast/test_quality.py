from dataclasses import replace

import numpy as np
import pytest
from synthetic import lab_posterior

from bayes_cpt.forecast.quality import fit_quality, residuals


def test_r2_and_error_are_those_of_the_mean_curve_over_all_fitted_cpt_points() -> None:
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
            drawn = np.interp(steps, mean["step"], mean)
            errors += list((measured - drawn)[steps > 0])
            losses += list(measured[steps > 0])
        assert found.loc[domain, "points"] == len(losses)
        assert found.loc[domain, "phase"] == "cpt"
        mean_error = np.abs(errors).mean()
        assert found.loc[domain, "mean_absolute_error"] == pytest.approx(mean_error, rel=0.01)
        r2 = 1 - np.var(errors, mean=0.0) / np.var(losses)
        assert found.loc[domain, "r2"] == pytest.approx(r2, rel=0.02)


def test_residuals_are_measured_less_expected_point_by_point() -> None:
    posterior = lab_posterior()
    table = residuals(posterior, draws=40)
    expected = posterior.predict(kind="expected", draws=40, at=table[["run", "domain", "step"]])
    mean = expected["expected"].mean(("chain", "draw"))
    for row in table.iloc[::37].to_dict("records"):
        place = {name: row[name] for name in ("run", "domain", "step")}
        steps, losses = posterior.study.curve(row["run"], row["domain"])
        assert row["loss"] == losses[steps == row["step"]].item()
        assert row["residual"] == pytest.approx(row["loss"] - float(mean.sel(place)), abs=1e-12)


def test_residuals_of_runs_that_the_fit_never_saw() -> None:
    """The same runs under another name: their losses are only subtracted from."""
    posterior = lab_posterior()
    own = posterior.study.subset(["r25_cos"])
    shifted = replace(
        own, losses=own.losses.assign(loss=own.losses["loss"] + 0.1 * (own.losses["step"] > 0))
    )
    before, after = (residuals(posterior, study, draws=40) for study in (own, shifted))
    np.testing.assert_allclose(after["residual"], before["residual"] + 0.1, atol=1e-9)

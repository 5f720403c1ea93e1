from dataclasses import replace

import numpy as np
import pytest
from synthetic import lab_posterior

from bayes_cpt.forecast.quality import fit_quality, residuals


def test_r2_and_error_are_those_of_the_residuals_at_all_fitted_cpt_points() -> None:
    posterior = lab_posterior()
    found = fit_quality(posterior, draws=40).set_index("domain")
    table, study = residuals(posterior, draws=40), posterior.study
    assert list(found.index) == ["general", "kernel"]
    for domain, quality in found.iterrows():
        own = table[table["domain"] == domain]
        curves = (study.curve(run.name, str(domain)) for run in study.continual_runs)
        assert quality["points"] == len(own) == sum((steps > 0).sum() for steps, _ in curves)
        assert quality["phase"] == "cpt"
        assert quality["mean_absolute_error"] == pytest.approx(np.abs(own["residual"]).mean())
        r2 = 1 - (own["residual"] ** 2).mean() / own["loss"].var(ddof=0)
        assert quality["r2"] == pytest.approx(r2)


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

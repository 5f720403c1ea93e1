"""Fits written by released versions, kept as they were: they must load, and say what they said."""

import json
from pathlib import Path

import numpy as np
import pytest

from bayes_cpt.bundled import bundled_study
from bayes_cpt.forecast.plans import planned_curves
from bayes_cpt.inference.posterior import load
from bayes_cpt.model.simulate import simulate

FITS = Path(__file__).parents[1] / "data" / "fits"
# Means over the draws, printed by the version that wrote the file: the law's curve at the last step of
# the bundled plan's runs, and coefficients of the summary.
SAID = {
    "cpt-replay-0.1.0.nc": {
        ("long_r25", "general"): 2.80991835,
        ("long_r25", "kernel"): 2.29895459,
        ("rewarmed_r50", "general"): 2.78367619,
        ("rewarmed_r50", "kernel"): 2.53303712,
        ("B", "kernel"): -0.91757034,
        ("D", "kernel"): -0.08795719,
        ("kappa", "general"): 0.71082491,
    },
}
# Sds at the same steps of what each loss of new runs would show, from 100 draws and seed 1. Not of the
# version that wrote the file: since then the misfit has its size between its knots, too.
BANDS = {
    "cpt-replay-0.1.0.nc": {
        ("long_r25", "general"): 0.0497831147,
        ("long_r25", "kernel"): 0.0693037480,
        ("rewarmed_r50", "general"): 0.0400891804,
        ("rewarmed_r50", "kernel"): 0.0532113754,
    },
}


def test_every_kept_file_is_tested() -> None:
    assert {path.name for path in FITS.glob("*.nc")} == set(SAID) == set(BANDS)


@pytest.mark.parametrize("name", SAID)
def test_a_fit_of_an_earlier_version_says_what_it_said(name: str) -> None:
    posterior = load(FITS / name)
    assert json.loads(posterior.tree.attrs["versions"])["bayes-cpt"] in name
    table = posterior.summary().set_index(["quantity", "domain"])
    curves = posterior.predict(bundled_study() / "plan-example.toml", kind="expected", draws=100)
    expected = curves["expected"].mean(("chain", "draw"))
    for place, said in SAID[name].items():
        if place in table.index:
            found = table.loc[place, "mean"]
        else:
            curve = expected.sel(run=place[0], domain=place[1]).to_numpy()
            found = curve[np.isfinite(curve)][-1]
        assert float(found) == pytest.approx(said, rel=1e-5)


@pytest.mark.parametrize("name", SAID)
def test_it_gives_the_bands_it_gave(name: str) -> None:
    posterior, plan = load(FITS / name), bundled_study() / "plan-example.toml"
    _, curves = planned_curves(posterior, plan)
    # It drew the two losses of a run independently, which a forecast no longer does; each loss by itself,
    # and so its band, is the same.
    generator = np.random.default_rng(1)
    alone = simulate(posterior.frame, posterior.parameters(100), curves, None, generator).loss
    together = posterior.predict(plan, draws=100, seed=1)["loss"]
    for index, curve in enumerate(curves.curves):
        said = BANDS[name][curve.run, curve.domain]
        ends = alone[:, curves.points.curve_index == index][:, -1]
        assert ends.std() == pytest.approx(said, rel=1e-5)
        if curve.domain == posterior.frame.domains[0]:
            drawn = together.sel(run=curve.run, domain=curve.domain).dropna("step")
            np.testing.assert_array_equal(drawn.isel(step=-1).to_numpy().ravel(), ends)


@pytest.mark.parametrize("name", SAID)
def test_its_own_runs_and_its_place_in_a_new_file(name: str, tmp_path: Path) -> None:
    posterior = load(FITS / name)
    known = posterior.predict(draws=20, seed=1)
    assert set(known["run"].to_numpy()) == {run.name for run in posterior.study.runs}
    # What is written anew is the same fit.
    posterior.save(tmp_path / "again.nc")
    again = load(tmp_path / "again.nc")
    assert again.study.digest() == posterior.study.digest() == again.tree.attrs["study_digest"]
    for quantity in posterior.frame.parameters():
        before, after = (p.tree["posterior"][quantity] for p in (posterior, again))
        np.testing.assert_array_equal(before.to_numpy(), after.to_numpy())

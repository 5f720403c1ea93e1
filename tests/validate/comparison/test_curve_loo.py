from functools import cache

import arviz as az
import numpy as np
import pytest
import xarray as xr
from scipy import stats
from synthetic import lab_posterior

from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.validate.comparison.curve_loo import CurveLoo

CURVES = ["a, general", "a, target", "b, general", "b, target", "c, general"]


@cache
def fit_of(shift: float, steps: int = 3) -> Posterior:
    """Return a fit that holds the log likelihoods of a normal mean, one curve a loss."""
    generator = np.random.default_rng(1)
    losses = generator.normal(size=len(CURVES))
    mean, sd = losses.mean() + shift, 1.0 / np.sqrt(losses.size)
    draws = stats.norm(mean, sd).rvs((4, 500), random_state=2)
    likelihoods = stats.norm(draws[..., None], 1.0).logpdf(losses)
    run, domain = zip(*(curve.split(", ") for curve in CURVES), strict=True)
    where = {"run": ("point", list(run)), "domain": ("point", list(domain))}
    tree = xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset({"mean": (("chain", "draw"), draws)}),
            "log_likelihood": xr.Dataset(
                {"loss": (("chain", "draw", "curve"), likelihoods)}, coords={"curve": CURVES}
            ),
            "observed_data": xr.Dataset(
                {"loss": ("point", losses)},
                coords=where | {"step": ("point", [steps] * len(CURVES))},
            ),
        }
    )
    return Posterior(tree, lab_posterior().study, lab_posterior().frame)


def answer(**fits: Posterior) -> CurveLoo:
    found = CurveLoo.of(fits)
    assert isinstance(found, CurveLoo)
    return found


def test_densities_are_those_of_leaving_each_curve_out() -> None:
    found = answer(right=fit_of(0.0))
    losses = np.random.default_rng(1).normal(size=len(CURVES))
    for place, loss in enumerate(losses):
        others = np.delete(losses, place)
        exact = stats.norm(others.mean(), np.sqrt(1.0 + 1.0 / others.size)).logpdf(loss)
        assert found.log_densities[place, 0] == pytest.approx(exact, abs=0.05)
    assert found.holds


def test_weights_and_differences_are_those_of_arviz() -> None:
    found = answer(right=fit_of(0.0), off=fit_of(1.5))
    assert found.best == "right"
    assert found.weights["right"] > 0.9
    loos = {
        name: az.loo(fit_of(shift).tree, pointwise=True, var_name="loss", reff=1.0)
        for name, shift in (("right", 0.0), ("off", 1.5))
    }
    theirs = az.compare(loos, method="stacking")
    assert found.weights["off"] == pytest.approx(theirs.loc["off", "weight"], abs=0.02)
    # A run is one observation: its curves are added up, and there are three runs.
    gap = found.differences()["off"]
    sums = found.of_runs[:, 1] - found.of_runs[:, 0]
    assert len(sums) == 3
    assert gap.mean == pytest.approx(sums.mean())
    assert gap.error == pytest.approx(stats.sem(sums))
    assert 3 * gap.mean == pytest.approx(float(loos["off"].elpd - loos["right"].elpd), abs=1e-6)


def test_fits_of_other_points_do_not_compare() -> None:
    said = CurveLoo.of({"one": fit_of(0.0), "other": fit_of(0.0, steps=4)})
    assert (
        said == "the laws leave out different points of the runs, so that densities do not compare"
    )
    without = CurveLoo.of({"one": lab_posterior(), "other": fit_of(0.0)})
    assert without == "the fit of one holds no log likelihoods"

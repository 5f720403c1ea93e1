"""The share of the law's slope that is off beyond the fitted steps, from ends made by hand."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats
from testbench.beyond import HIGHEST, LOWEST, MEDIANS, SPREADS, ends, learnt_share, log_likelihood

from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.study.study import Study

SLOPE, STUDIED = 0.2, 1000
MEASURED = pd.DataFrame(
    [
        ("inside", "validation", 900, 3.4),
        ("far", "validation", 2000, 3.2),
        ("far", "validation", 4000, 3.1),
        ("nearly", "validation", 1010, 3.3),
    ],
    columns=["run", "domain", "step", "loss"],
)


def simulated_ends(share: float, studies: int, runs: int, seed: int) -> list[pd.DataFrame]:
    """Return ends of studies whose slopes are off by a share, beside errors of a known sd."""
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(studies):
        promised, sd = generator.uniform(0.05, 0.3, runs), generator.uniform(1e-3, 5e-3, runs)
        error = np.hypot(sd, share * promised) * generator.standard_normal(runs)
        found.append(pd.DataFrame({"error": error, "sd": sd, "promised": promised}))
    return found


def predict(plan: object, kind: str, at: pd.DataFrame) -> xr.Dataset:
    """Return draws of 3.05 and 3.07 at the asked points."""
    assert (plan, kind) == ("plan", "new_run")
    assert at["step"].tolist() == [4000]
    losses = np.broadcast_to([[[3.05]], [[3.07]]], (2, 1, 1))
    coordinates = {"run": ["far"], "domain": ["validation"], "step": [4000]}
    values = losses.reshape(1, 2, 1, 1, 1)
    return xr.Dataset(
        {"loss": (("chain", "draw", "run", "domain", "step"), values)}, coords=coordinates
    )


def test_ends_beyond_the_fitted_steps_alone_are_looked_at() -> None:
    posterior: Any = SimpleNamespace(
        parameters=lambda: {"reference_slope": np.array([[0.15], [0.25]])},
        frame=SimpleNamespace(studied_pt=STUDIED),
        predict=predict,
    )
    row = ends(cast(Posterior, posterior), cast(Study, "plan"), MEASURED).iloc[0]
    assert row["promised"] == pytest.approx(SLOPE * np.log(4.0))
    assert row["error"] == pytest.approx(3.1 - 3.06)
    assert row["sd"] == pytest.approx(0.01)
    near = MEASURED[MEASURED["run"] != "far"]
    assert ends(cast(Posterior, posterior), cast(Study, "plan"), near).empty


def test_the_share_that_made_the_ends_is_likeliest() -> None:
    (own,) = simulated_ends(0.1, 1, 4000, 3)
    looked_at = np.geomspace(0.01, 1.0, 400)
    assert looked_at[np.argmax(log_likelihood(own, looked_at))] == pytest.approx(0.1, rel=0.05)


def test_what_is_expected_of_a_further_study_is_what_simulated_populations_say() -> None:
    """Of populations drawn from their prior, each counting as its share makes a study likely."""
    (own,) = simulated_ends(0.1, 1, 3, 7)
    error, sd, promised = (own[name].to_numpy() for name in ("error", "sd", "promised"))
    generator, draws = np.random.default_rng(11), 400_000
    chances = stats.halfnorm.pdf(SPREADS)
    median = generator.choice(np.log(MEDIANS), draws)
    spread = generator.choice(SPREADS, draws, p=chances / chances.sum())
    looked_at = np.log(LOWEST), np.log(HIGHEST)
    bounds = [(end - median) / spread for end in looked_at]
    share, further = (
        median + spread * stats.truncnorm.rvs(*bounds, size=draws, random_state=generator)
        for _ in range(2)
    )
    sds = np.hypot(sd, np.exp(share)[:, None] * promised)
    weight = np.exp(stats.norm.logpdf(error, 0.0, sds).mean(axis=1))
    order = np.argsort(further)
    reached = np.cumsum(weight[order]) / weight.sum()
    lower, middle, upper = np.interp([0.05, 0.5, 0.95], reached, further[order])
    found = learnt_share([own])
    assert np.log(found.median) == pytest.approx(middle, abs=0.03)
    assert found.sigma == pytest.approx((upper - lower) / (2 * stats.norm.ppf(0.95)), rel=0.02)

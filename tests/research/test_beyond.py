"""The share of the law's slope that is off beyond the fitted steps."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from synthetic import lab, prior_as_posterior
from testbench.beyond import HIGHEST, LOWEST, MEDIANS, SPREADS, ends, learnt_share, log_likelihood

from bayes_cpt import bands, read_spec, read_study
from bayes_cpt.validate.folds import other_study


def simulated_ends(share: float, studies: int, runs: int, seed: int) -> list[pd.DataFrame]:
    """Return ends of studies whose slopes are off by a share, beside errors of a known sd."""
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(studies):
        promised, sd = generator.uniform(0.05, 0.3, runs), generator.uniform(1e-3, 5e-3, runs)
        error = np.hypot(sd, share * promised) * generator.standard_normal(runs)
        found.append(pd.DataFrame({"error": error, "sd": sd, "promised": promised}))
    return found


def test_ends_beyond_the_fitted_steps_are_looked_at_and_how_far_bands_widen_there() -> None:
    """Where all draws are alike the widening is a difference of variances."""
    study, spec, share = lab(), read_spec("cpt-replay"), "extrapolation_cpt"
    (fold,) = other_study(study, read_study("tests/data/cpt-lab-practice"), spec)
    posteriors = [prior_as_posterior(study, spec, draws=2, spread=0.0) for _ in range(2)]
    for own, size in zip(posteriors, (0.0, 1.0), strict=True):
        own.tree["posterior"][share] = 0.0 * own.tree["posterior"][share] + size
    found = ends(posteriors[0], fold)
    last = fold.measured.groupby("run")["step"].max()
    assert dict(zip(found["run"], found["step"], strict=True)) == last.to_dict()
    assert set(found["domain"]) == {"general", "kernel"}
    place = ["run", "domain", "step"]
    at = found[place]
    sds = [bands(own, fold.question.plan, at=at).set_index(place)["sd"] for own in posteriors]
    narrow, wide = (own.loc[pd.MultiIndex.from_frame(at)].to_numpy() for own in sds)
    np.testing.assert_allclose(found["promised"], np.sqrt(wide**2 - narrow**2), rtol=1e-6)
    near = fold.measured[fold.measured["step"] < 3000]
    assert ends(posteriors[0], replace(fold, measured=near)).empty


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

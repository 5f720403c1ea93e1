"""How much further real runs depart than drawn ones."""

import json

import numpy as np
import pytest
from scipy import stats
from synthetic import lab, prior_as_posterior

from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.watch.departures import reached
from bayes_cpt.watch.learnt import experience
from bayes_cpt.watch.learnt.curve_sizes import Sizes, curve_likelihoods
from bayes_cpt.watch.learnt.experience import (
    OTHER_RUNS,
    OTHER_SURPRISE,
    Experience,
    drawn_share,
)
from bayes_cpt.watch.learnt.left_out import LeftOut, left_out_runs

SHARES = np.array([1.0, 0.3, 0.05, 1e-3, 1e-12])


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    study = lab()
    kept = [run.name for run in study.pretraining_runs]
    return prior_as_posterior(study.subset([*kept, "r25_cos", "r50_cos"]), draws=25, spread=0.01)


def test_shares_are_means_over_how_much_larger_real_departures_may_be() -> None:
    learnt = Experience(Sizes.same(), runs=13.0, surprise=21.0)
    power = np.linspace(0.0, 6.0, 600_001)
    weights = stats.gamma(13.0, scale=1.0 / 21.0).pdf(power)
    weights /= weights.sum()
    means = [weights @ share**power for share in SHARES]
    np.testing.assert_allclose(learnt.share(SHARES), means, rtol=1e-6)
    np.testing.assert_array_equal(Experience.none().share(SHARES), SHARES)
    for one in (learnt, Experience.none()):
        np.testing.assert_allclose([one.drawn(s) for s in one.share(SHARES)], SHARES, rtol=1e-9)


def test_the_level_is_kept_where_departures_are_larger_by_a_factor_of_their_own() -> None:
    """Many studies: a factor each, runs to learn from, and one run that is watched."""
    generator = np.random.default_rng(6)
    power = generator.gamma(OTHER_RUNS, 1.0 / OTHER_SURPRISE, 20_000)
    shares = generator.uniform(size=(8, power.size)) ** (1.0 / power)
    surprise = OTHER_SURPRISE - np.log(shares[:-1]).sum(axis=0)
    found = np.array(
        [
            Experience(Sizes.same(), OTHER_RUNS + 7.0, own).share(share)
            for own, share in zip(surprise, shares[-1], strict=True)
        ]
    )
    # Binomial, four standard errors.
    assert abs((found < 0.05).mean() - 0.05) < 4.0 * np.sqrt(0.05 * 0.95 / power.size)


def test_each_fitted_run_is_watched_with_the_sizes_of_the_others(
    posterior: Posterior, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = {"r25_cos": 0.02, "r50_cos": 0.5}
    asked: dict[str, Sizes] = {}

    def watch(law: Posterior, run: LeftOut, sizes: Sizes) -> float:
        asked[run.run.name] = sizes
        return shares[run.run.name]

    monkeypatch.setattr(experience, "drawn_share", watch)
    learnt = Experience.of(posterior, continual=True)
    assert learnt.runs == OTHER_RUNS + 2
    assert learnt.surprise == pytest.approx(OTHER_SURPRISE - np.log(0.02) - np.log(0.5))
    runs = {run.run.name: run for run in left_out_runs(posterior, continual=True)}
    other = Sizes.of(curve_likelihoods(runs["r50_cos"]))
    np.testing.assert_array_equal(asked["r25_cos"].fluctuation, other.fluctuation)
    state = json.loads(json.dumps(learnt.state(posterior)))
    again = Experience.restored(state, posterior)
    assert again is not None
    assert (again.runs, again.surprise) == (learnt.runs, learnt.surprise)
    np.testing.assert_array_equal(again.sizes.misfit, learnt.sizes.misfit)


def test_a_run_that_the_others_foretell_departs_no_further_than_drawn_ones(
    posterior: Posterior, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of losses at the mean of what the other runs let expect, and far from it."""
    monkeypatch.setattr(experience, "CURVES", 200)
    run = left_out_runs(posterior, continual=True)[0]
    middle = LeftOut(**{**vars(run), "losses": run.mean})
    assert drawn_share(posterior, middle, Sizes.same()) > 0.9
    width = np.sqrt(np.diag(run.directions @ run.directions.T + run.misfit + run.fluctuation))
    signs = np.where(np.arange(run.mean.size) % 2, 6.0, -6.0)
    far = LeftOut(**{**vars(run), "losses": run.mean + signs * width})
    assert drawn_share(posterior, far, Sizes.same()) < 1e-3


def test_beyond_the_drawn_peaks_their_share_falls_on() -> None:
    """As the tail of exponential peaks does, of which 20,000 tell."""
    peaks = np.random.default_rng(8).exponential(size=20_000)
    largest = np.array([0.5, 2.0, 6.0, 15.0])
    np.testing.assert_allclose(
        np.log(reached(peaks, largest)), -largest, atol=4.0 * (15.0 - 6.0) / np.sqrt(40.0)
    )
    np.testing.assert_allclose(reached(peaks, largest[:2]), np.exp(-largest[:2]), rtol=0.05)
    steps = reached(peaks, np.sort(peaks)[-60:])
    assert (np.diff(steps) <= 0.0).all()

"""The link fitted: its density against SciPy, and truths recovered from simulated pairs."""

from functools import cache

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import binom, norm

from bayes_cpt.forecast.scores.fitting import (
    LEVEL_SD,
    SCATTER_MEDIAN,
    SCATTER_SIGMA,
    SLOPE_MEDIAN,
    SLOPE_SIGMA,
    TOP_MEDIAN,
    TOP_SIGMA,
    LinkDensity,
    fit_scores,
)
from bayes_cpt.forecast.scores.link import NAMES, ScoreFit
from bayes_cpt.forecast.scores.pairs import ScorePairs
from bayes_cpt.inference.geometry.whitening import Metric

SETS, CHECKPOINTS = 50, 24
MASS = 0.9


@cache
def simulated() -> tuple[dict[str, np.ndarray], list[ScorePairs]]:
    """Return true parameters, drawn from the priors, and a data set of each."""
    generator = np.random.default_rng(7)
    normal = generator.standard_normal((4, SETS))
    odds = np.log(TOP_MEDIAN / (1 - TOP_MEDIAN)) + TOP_SIGMA * normal[2]
    truth = {
        "level": LEVEL_SD * normal[0],
        "slope": SLOPE_MEDIAN * np.exp(SLOPE_SIGMA * normal[1]),
        "top": 1 / (1 + np.exp(-odds)),
        "scatter": SCATTER_MEDIAN * np.exp(SCATTER_SIGMA * normal[3]),
    }
    pairs = []
    for place in range(SETS):
        losses = generator.uniform(2.2, 3.6, CHECKPOINTS)
        losses += 3.0 - losses.mean()
        chance = 0.25 * (place % 2)
        x = truth["level"][place] - truth["slope"][place] * (losses - 3.0)
        expected = chance + (1 - chance) * truth["top"][place] / (1 + np.exp(-x))
        scores = expected + truth["scatter"][place] * generator.standard_normal(CHECKPOINTS)
        pairs.append(ScorePairs(f"set {place}", "general", losses, scores, chance))
    return truth, pairs


@cache
def fitted() -> ScoreFit:
    return fit_scores(simulated()[1], seed=1, cores=1)


@pytest.mark.slow
def test_the_links_keep_the_contract() -> None:
    assert fitted().problems == ()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_intervals_hold_the_truth_as_often_as_they_say(name: str) -> None:
    truth, pairs = simulated()
    held = 0
    for place, own in enumerate(pairs):
        draws = getattr(fitted().links[own.benchmark], name)
        lower, upper = np.quantile(draws, [0.5 - MASS / 2, 0.5 + MASS / 2])
        held += lower <= truth[name][place] <= upper
    low, high = binom.ppf([0.005, 0.995], SETS, MASS)
    assert low <= held <= high


@pytest.mark.slow
def test_scores_that_no_fit_saw_lie_in_their_bands() -> None:
    truth, pairs = simulated()
    generator = np.random.default_rng(8)
    held = 0
    for place, own in enumerate(pairs):
        link = fitted().links[own.benchmark]
        # A little below the lowest loss that was seen.
        loss = float(own.losses.min()) - 0.1
        x = truth["level"][place] - truth["slope"][place] * (loss - 3.0)
        mean = own.chance + (1 - own.chance) * truth["top"][place] / (1 + np.exp(-x))
        score = mean + truth["scatter"][place] * generator.standard_normal()
        drawn = link.drawn(np.full(link.level.size, loss), generator)
        lower, upper = np.quantile(drawn, [0.05, 0.95])
        held += lower <= np.clip(score, 0, 1) <= upper
    low, high = binom.ppf([0.005, 0.995], SETS, MASS)
    assert low <= held <= high


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize(
    "position", [[0.3, 0.7, 1.1, -3.5], [-2.0, -3.0, 0.2, -4.0], [0.5, 4.0, -1.0, -3.0]]
)
def test_the_density_and_its_slopes_are_those_of_scipy(place: int, position: list[float]) -> None:
    own = simulated()[1][place]
    density = LinkDensity(own)

    def natural(where: np.ndarray) -> np.ndarray:
        found = density.values(where)
        return np.array(
            [found["level"], np.log(found["slope"]), logit(found["top"]), np.log(found["scatter"])]
        )

    def log_density(where: np.ndarray) -> float:
        level, log_slope, odds, log_scatter = natural(where)
        reached = expit(level - np.exp(log_slope) * (own.losses - own.losses.mean()))
        expected = own.chance + (1 - own.chance) * expit(odds) * reached
        priors = [
            norm.logpdf(level, 0.0, LEVEL_SD),
            norm.logpdf(log_slope, np.log(SLOPE_MEDIAN), SLOPE_SIGMA),
            norm.logpdf(odds, logit(TOP_MEDIAN), TOP_SIGMA),
            norm.logpdf(log_scatter, np.log(SCATTER_MEDIAN), SCATTER_SIGMA),
        ]
        columns = [natural(where + move) - natural(where - move) for move in 1e-5 * np.eye(4)]
        volume = np.linalg.slogdet(np.array(columns) / 2e-5)[1]
        scatter = norm.logpdf(own.scores, expected, np.exp(log_scatter)).sum()
        return float(np.sum(priors) + scatter + volume)

    center, step = np.array(position), 1e-3
    found, gradient = density.in_metric(Metric(center, np.eye(4)))(np.zeros(4))
    assert found == pytest.approx(log_density(center), rel=1e-8)
    slopes = [
        (log_density(center + move) - log_density(center - move)) / (2 * step)
        for move in step * np.eye(4)
    ]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-3, atol=1e-3)


def test_positions_are_what_pairs_determine() -> None:
    """At a position the share reached at the mean loss, and the relative slope there, are what it says."""
    position = np.array([0.4, -1.3, 0.6, -4.0])
    found = LinkDensity(simulated()[1][0]).values(position)
    reached = expit(found["level"])
    assert logit(found["top"] * reached) == pytest.approx(0.4)
    assert found["level"] - logit(found["top"]) == pytest.approx(-1.3)
    assert found["slope"] * (1 - reached) == pytest.approx(np.exp(0.6))
    assert found["scatter"] == pytest.approx(np.exp(-4.0))

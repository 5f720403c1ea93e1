"""Scores of benchmarks: pairs as they are read, the link and its inverse, truths found again."""

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from few_free import is_held
from hypothesis import given
from hypothesis import strategies as st
from interpreted import INTERPRETED
from scipy.special import expit, logit
from scipy.stats import binom, norm

from bayes_cpt.errors import StudyError
from bayes_cpt.forecast.scores import (
    LEVEL_SD,
    NAMES,
    SCATTER_MEDIAN,
    SCATTER_SIGMA,
    SLOPE_MEDIAN,
    SLOPE_SIGMA,
    TOP_MEDIAN,
    TOP_SIGMA,
    ScoreFit,
    ScoreLink,
    ScorePairs,
    build_link,
    fit_scores,
    pairs_of,
    read_pairs,
)

SETS, CHECKPOINTS = 50, 24
MASS = 0.9
GOOD = "benchmark,domain,loss,score,chance\n" + "".join(
    f"mmlu,general,{loss},{score},0.25\n"
    for loss, score in ((3.4, 0.26), (3.2, 0.3), (3.0, 0.35), (2.8, 0.45), (2.6, 0.5))
)


def written(folder: Path, text: str) -> Path:
    path = folder / "scores.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_pairs_are_read_by_benchmark(tmp_path: Path) -> None:
    text = GOOD + GOOD.split("\n", 1)[1].replace("mmlu", "code").replace(",0.25", ",0")
    mmlu, code = read_pairs(written(tmp_path, text), ("general",))
    assert (mmlu.benchmark, mmlu.domain, mmlu.chance) == ("mmlu", "general", 0.25)
    assert mmlu.losses.tolist() == [3.4, 3.2, 3.0, 2.8, 2.6]
    assert code.chance == 0.0
    assert pairs_of((mmlu, code), "code") is code


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("score,", "points,", "scores.csv: there is no column score"),
        ("0.35", "35", "line 4, key score: .*; it is .?35.*0.35 for 35 %"),
        ("3.2,", "-3.2,", "line 3, key loss: .*; it is .?-3.2.*nats/token"),
        ("mmlu,general,2.8", ",general,2.8", "line 5, key benchmark: "),
        ("mmlu,general,2.8", "mmlu,genral,2.8", "key domain.*no validation set 'genral'"),
        ("2.8,0.45,0.25", "2.8,0.45,0.2", "benchmark mmlu: it has several values of chance"),
        ("mmlu,general,2.8", "mmul,general,2.8", "benchmark mmul: there are 1 pairs"),
    ],
)
def test_what_is_wrong_is_named_with_the_fix(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(StudyError, match=said):
        read_pairs(written(tmp_path, GOOD.replace(old, new)), ("general", "kernel"))


def test_no_pairs_and_unknown_benchmarks(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="there is no pair"):
        read_pairs(pd.DataFrame(columns=["benchmark", "domain", "loss", "score"]))
    with pytest.raises(StudyError, match="did you mean 'mmlu'"):
        pairs_of(read_pairs(written(tmp_path, GOOD)), "mmlo")
    with pytest.raises(StudyError, match="Give a table of losses and scores"):
        pairs_of((), "mmlu")


def link_of(level: float, slope: float, top: float, chance: float) -> ScoreLink:
    pairs = ScorePairs("b", "general", np.array([2.0, 3.0, 4.0]), np.full(3, 0.5), chance)
    return ScoreLink(pairs, *(np.array([value]) for value in (level, slope, top, 0.01)))


@given(st.floats(-2, 2), st.floats(0.2, 8), st.floats(0.2, 1), st.floats(0, 0.5), st.floats(2, 4))
def test_a_score_comes_back_as_its_loss(
    level: float, slope: float, top: float, chance: float, loss: float
) -> None:
    link = link_of(level, slope, top, chance)
    score = link.scores(np.array([loss]))
    assert chance <= score[0] <= chance + (1 - chance) * top
    assert link.scores(np.array([loss + 0.1]))[0] <= score[0]
    assert link.losses(score)[0] == pytest.approx(loss, abs=1e-4)


def test_no_loss_gives_less_than_chance_or_more_than_the_top() -> None:
    link = link_of(0.0, 2.0, 0.8, 0.25)
    assert link.losses(np.array([0.25]))[0] == np.inf
    assert link.losses(np.array([0.9]))[0] == -np.inf


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
    return fit_scores(simulated()[1], seed=1)


@pytest.mark.slow
def test_the_links_keep_the_contract() -> None:
    assert fitted().problems == ()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_intervals_hold_the_truth_as_often_as_they_say(name: str) -> None:
    truth, pairs = simulated()
    held = 0
    for place, own in enumerate(pairs):
        held += is_held(getattr(fitted().links[own.benchmark], name), truth[name][place])
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
        held += is_held(link.drawn(np.full(link.level.size, loss), generator), np.clip(score, 0, 1))
    low, high = binom.ppf([0.005, 0.995], SETS, MASS)
    assert low <= held <= high


@pytest.mark.parametrize("place", [0, 1])
def test_the_density_is_that_of_scipy(place: int) -> None:
    own = simulated()[1][place]
    level, slope, top, scatter = 0.4, 3.1, 0.7, 0.03
    reached = expit(level - slope * (own.losses - own.losses.mean()))
    expected = own.chance + (1 - own.chance) * top * reached
    # Of slope and scatter the density is that of their logs, of T that of its log odds.
    wanted = (
        norm.logpdf(level, 0.0, LEVEL_SD)
        + norm.logpdf(np.log(slope), np.log(SLOPE_MEDIAN), SLOPE_SIGMA)
        + norm.logpdf(logit(top), logit(TOP_MEDIAN), TOP_SIGMA)
        + norm.logpdf(np.log(scatter), np.log(SCATTER_MEDIAN), SCATTER_SIGMA)
        + norm.logpdf(own.scores, expected, scatter).sum()
    )
    model = build_link(own)
    at = {"level": level, "slope_log__": np.log(slope), "odds": logit(top)}
    found = model.compile_logp(mode=INTERPRETED)(at | {"scatter_log__": np.log(scatter)})
    assert float(found) == pytest.approx(wanted, rel=1e-9)

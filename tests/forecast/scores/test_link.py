"""The link from loss to score: monotone, between chance and the top, and its inverse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_cpt.forecast.scores.link import ScoreLink
from bayes_cpt.forecast.scores.pairs import ScorePairs


def link_of(level: float, slope: float, top: float, chance: float) -> ScoreLink:
    losses = np.array([2.0, 3.0, 4.0])
    pairs = ScorePairs("b", "general", losses, np.full(3, 0.5), chance)
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

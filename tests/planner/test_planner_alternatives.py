import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from planned import CANDIDATES, DRAWS
from synthetic import lab, lab_posterior

from bayes_cpt.decisions.final_losses import FinalLosses
from bayes_cpt.planner.choices import Alternatives, Controls, lower_hull

LOSSES = st.lists(st.tuples(st.floats(1, 9), st.floats(1, 9)), min_size=1, max_size=40)


@given(LOSSES, st.floats(0, 1))
def test_the_hull_has_the_lowest_of_every_weighting(
    losses: list[tuple[float, float]], weight: float
) -> None:
    first, second = np.array(losses).T
    hull = lower_hull(first, second)
    lowest = (weight * hull[:, 0] + (1 - weight) * hull[:, 1]).min()
    np.testing.assert_allclose(lowest, (weight * first + (1 - weight) * second).min(), atol=1e-12)
    assert len(hull) <= len(losses)


def test_what_is_kept_is_as_good_as_all_that_was_looked_at() -> None:
    model, controls = FinalLosses.of(lab_posterior(), DRAWS), Controls.of(lab())
    few = Alternatives.of(model, controls, 3000, CANDIDATES, seed=0)
    # The same space looked at by chance alone: each look about the best can only gain on it.
    from bayes_cpt.decisions.search_space import SearchSpace

    space = SearchSpace.of(controls.space(3000), lab())
    block = model.at(space.sample(CANDIDATES, 0))
    every = block.losses + block.discrepancy
    for weight in (0.0, 0.25, 0.5, 1.0):
        lowest = (weight * every[0] + (1 - weight) * every[1]).min(axis=0)
        kept = (weight * few.losses[0] + (1 - weight) * few.losses[1]).min(axis=0)
        assert np.all(kept <= lowest + 1e-4)
    front = few.losses.mean(axis=2)[:, few.front()]
    assert np.all(np.diff(front[0]) > 0)
    assert np.all(np.diff(front[1]) < 0)

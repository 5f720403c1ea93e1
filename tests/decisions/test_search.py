"""The search of a space against brute force over all its configurations."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import cdist, pdist
from scipy.stats import norm
from synthetic import lab, lab_posterior

from bayes_cpt.arrays import Floats
from bayes_cpt.decisions.final_losses import FinalLosses, Spread
from bayes_cpt.decisions.objective import Constraint, read_objective
from bayes_cpt.decisions.risk import RiskMeasure, probability_below
from bayes_cpt.decisions.search import (
    APART,
    Contenders,
    Search,
    SearchCriterion,
    Slice,
    front_of,
    nondominated,
    search,
)
from bayes_cpt.decisions.search_space import Candidates, SearchSpace
from bayes_cpt.decisions.space import read_space
from bayes_cpt.decisions.valuation import Valuation
from bayes_cpt.errors import SpecError
from bayes_cpt.model.residuals import ONSET_SHARE
from bayes_cpt.study.runs import Base
from bayes_cpt.study.schedules import constant, linear

WHOLE: dict[str, Any] = {"decay_share": 1.0, "relative_final": 0.1}
LISTS: dict[str, Any] = {
    "bases": ["stable_12k", "annealed_0pct"],
    "replay": [0.0, 0.1, 0.25, 0.5, 0.75],
    "relative_peak": [0.3, 0.6, 1.0],
    "steps": [1000, 3000],
    **WHOLE,
}
OBJECTIVE: dict[str, Any] = {
    "weights": {"general": 3, "target": 7},
    "reference": "annealed_0pct",
    "cost_per_1000_steps": 0.01,
}
RANGES: dict[str, Any] = {"bases": "annealed_0pct", **WHOLE}
CLOSE = 2e-6


def valued(objective: dict[str, Any] = OBJECTIVE, **space: Any) -> tuple[Valuation, SearchSpace]:
    model = FinalLosses.of(lab_posterior(), 100)
    whole = SearchSpace.of(read_space(space or LISTS), lab())
    return Valuation.of(model, read_objective(objective), whole), whole


def criterion(measure: str = "expected", **changes: Any) -> SearchCriterion:
    return replace(SearchCriterion(RiskMeasure.parse(measure), 0.01, 0), **changes)


@dataclass(frozen=True, eq=False)
class ByHand:
    """The law's losses, what it misses (domains, candidates, draws), and what moves a run about the law."""

    losses: Floats
    discrepancy: Floats
    spread: Spread
    steps: Floats

    @classmethod
    def of(cls, found: Search) -> "ByHand":
        block = FinalLosses.of(lab_posterior(), 100).at(found.candidates)
        steps = found.candidates.schedules.steps.astype(np.float64)
        return cls(block.losses, block.discrepancy, block.spread, steps)

    @property
    def law(self) -> Floats:
        """The objective of the law's losses, shape (candidates, draws)."""
        return self._values(self.losses)

    @property
    def whole(self) -> Floats:
        """The objective with what the law misses."""
        return self._values(self.losses + self.discrepancy)

    def sd(self, *, single_run: bool) -> Floats:
        """The sd of the objective about the law's, its quadratic form written out."""
        alike = self.spread.correlation
        parts = [
            (self.spread.law, alike.misfit),
            (self.spread.own, alike.misfit),
            (self.spread.fluctuation, alike.fluctuation),
        ]
        variance = sum(
            (0.3 * own[0]) ** 2 + (0.7 * own[1]) ** 2 + 2 * 0.21 * share * own[0] * own[1]
            for own, share in parts[: 3 if single_run else 1]
        )
        return np.asarray(np.sqrt(variance))

    def _values(self, losses: Floats) -> Floats:
        before = [lab().base_loss("annealed_0pct", domain) for domain in ("general", "kernel")]
        changes = losses - np.array(before, dtype=np.float64)[:, None, None]
        return np.asarray(0.3 * changes[0] + 0.7 * changes[1] + (1e-5 * self.steps)[:, None])


@pytest.mark.parametrize("measure", ["expected", "quantile:0.8", "cvar"])
def test_scores_of_all_configurations_and_the_best_of_each_draw(measure: str) -> None:
    valuation, space = valued()
    found = search(valuation, space, criterion(measure), 100)
    assert len(found.candidates) == 60
    own = ByHand.of(found)
    np.testing.assert_allclose(found.losses, own.losses.mean(axis=2), atol=CLOSE)
    np.testing.assert_allclose(found.means, own.law.mean(axis=1), atol=CLOSE)
    wanted = RiskMeasure.parse(measure).of_losses(own.law.T, own.sd(single_run=False).T)
    np.testing.assert_allclose(found.scores, wanted, atol=CLOSE)
    assert found.chosen == wanted.argmin()
    assert found.feasible.all()
    values = own.whole
    np.testing.assert_allclose(found.best, values.min(axis=0), atol=CLOSE)
    chosen = values[found.optimum, np.arange(100)]
    np.testing.assert_allclose(chosen, values.min(axis=0), atol=CLOSE)
    assert len(set(found.optimum.tolist())) > 1


def test_scores_that_need_the_best_of_each_draw() -> None:
    valuation, space = valued()
    found = search(valuation, space, criterion("best"), 100)
    values = ByHand.of(found).whole
    wanted = -(values - values.min(axis=0) <= 0.01).mean(axis=1)
    # A draw near the tolerance may fall on either side in single precision.
    np.testing.assert_allclose(found.scores, wanted, atol=0.01)


@pytest.mark.parametrize("measure", ["expected", "cvar"])
def test_ranges_are_searched_as_well_as_by_a_fine_grid(measure: str) -> None:
    valuation, space = valued(**RANGES)
    found = search(valuation, space, criterion(measure), 1024)
    assert len(found.candidates) == 1024 + 4 + 2 * 512
    side = np.linspace(0.0, 1.0, 60)
    places = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    grid = space.build(np.hstack([np.zeros((len(places), len(space.lists))), places]))
    block = valuation.model.at(grid)
    law, values = valuation.changes(block), valuation.expected(block)
    sizes = block.spread.of_sum(valuation.combination.weights, single_run=False)
    wanted = RiskMeasure.parse(measure).of_losses(law.T, sizes.T)
    assert found.scores.min() <= wanted.min() + 2e-4
    assert (found.best <= values.min(axis=0) + 2e-3).all()
    assert np.mean(found.best - values.min(axis=0)) < 2e-4


CONSTRAINTS: list[dict[str, Any]] = [
    {"domain": "general", "rise": 0.2},
    {"domain": "kernel", "limit": 2.9, "kind": "expected"},
    {"domain": "mix", "rise": 0.3},
]
MIXTURES = {"mix": {"general": 1.5, "target": -0.5}}


def single_run(spread: Spread) -> Floats:
    """Return the sd of each loss of a single run, shape (domains, candidates, draws)."""
    return np.sqrt(spread.law**2 + spread.level**2 + spread.own**2 + spread.fluctuation**2)


def breaches_by_hand(found: Search) -> Floats:
    own = ByHand.of(found)
    losses, noise, sd = own.losses, single_run(own.spread), own.spread.law
    before = [lab().base_loss("annealed_0pct", domain) or 0.0 for domain in ("general", "kernel")]
    rise = losses - np.array(before)[:, None, None]
    mixed = 1.5 * rise[0] - 0.5 * rise[1]
    alike = own.spread.correlation
    together = alike.misfit * (sd.prod(axis=0) + own.spread.own.prod(axis=0))
    together += alike.fluctuation * own.spread.fluctuation.prod(axis=0)
    spread = np.sqrt((1.5 * noise[0]) ** 2 + (0.5 * noise[1]) ** 2 - 1.5 * together)
    return np.stack(
        [
            norm.sf((0.2 - rise[0]) / noise[0]).mean(axis=1),
            norm.sf((2.9 - losses[1]) / sd[1]).mean(axis=1),
            norm.sf((0.3 - mixed) / spread).mean(axis=1),
        ]
    )


def test_only_what_keeps_the_constraints_is_chosen() -> None:
    plain, space = valued()
    wanted = breaches_by_hand(search(plain, space, criterion(), 100))
    # Each is kept by 27 of the 60 configurations, between two of which the line is drawn.
    limits = np.sort(wanted, axis=1)[:, 26:28].mean(axis=1) + 1e-4
    constraints = [
        own | {"probability": float(limit)} for own, limit in zip(CONSTRAINTS, limits, strict=True)
    ]
    objective = OBJECTIVE | {"constraints": constraints, "mixtures": MIXTURES}
    found = search(valued(objective)[0], space, criterion(), 100)
    np.testing.assert_allclose(found.breaches, wanted, atol=1e-4)
    allowed = (found.breaches <= limits[:, None]).all(axis=0)
    np.testing.assert_array_equal(found.feasible, allowed)
    assert 3 < allowed.sum() < 30
    own, kept = ByHand.of(found), np.flatnonzero(allowed)
    values, means = own.whole, own.law.mean(axis=1)
    assert found.chosen == kept[means[kept].argmin()]
    assert found.chosen != means.argmin()
    np.testing.assert_allclose(found.best, values[kept].min(axis=0), atol=CLOSE)
    assert allowed[found.optimum].all()


@pytest.mark.parametrize("space", [LISTS, RANGES])
def test_without_a_feasible_candidate_the_nearest_is_chosen(space: dict[str, Any]) -> None:
    """The least likely to break its limit; where all are sure to, the one that breaks it by least."""
    for rise in (-0.1, -3.0):
        hopeless = [{"domain": "general", "rise": rise, "probability": 0.001}]
        valuation, whole = valued(OBJECTIVE | {"constraints": hopeless}, **space)
        found = search(valuation, whole, criterion(), 128)
        assert not found.feasible.any()
        least = found.breaches[0] if rise > -1.0 else found.losses[0]
        assert least[found.chosen] == least.min()
    # The best of all stand in for the best of the feasible ones.
    np.testing.assert_allclose(found.best.mean(), found.means.min(), atol=0.05)


def test_changes_may_be_counted_from_each_own_base() -> None:
    valuation, space = valued(OBJECTIVE | {"reference": "own"})
    candidates = space.sample(100, 0)
    block = valuation.model.at(candidates)
    wanted = block.losses - valuation.model.base_losses(candidates.bases)[:, candidates.base]
    cost = 0.01 * candidates.schedules.steps / 1000
    found = valuation.changes(block)
    np.testing.assert_allclose(found, 0.3 * wanted[0] + 0.7 * wanted[1] + cost[:, None])


def test_the_default_reference_has_the_lowest_general_loss() -> None:
    plain = {name: value for name, value in OBJECTIVE.items() if name != "reference"}
    valuation, space = valued(plain, replay=[0.25], **WHOLE)
    losses = {base.name: lab().base_loss(base.name, "general") for base in space.bases}
    assert valuation.reference is not None
    assert losses[valuation.reference.name] == min(value for value in losses.values() if value)
    with pytest.raises(SpecError, match="key reference: there is no base 'anneald_0pct'"):
        valued(OBJECTIVE | {"reference": "anneald_0pct"})


def test_contenders_are_the_best_and_lie_apart() -> None:
    valuation, space = valued(**RANGES)
    found = search(valuation, space, criterion(), 512)
    rows = found.separated(5)
    places, scores = found.candidates.places[rows], found.scores[rows]
    assert rows[0] == found.chosen
    assert (np.diff(scores) >= 0).all()
    assert pdist(places, "chebyshev").min() >= APART
    # Whatever is better than the last of them lies near one of those before it.
    better = np.flatnonzero(found.scores < scores[-1])
    gaps = cdist(found.candidates.places[better], places[:-1], "chebyshev")
    assert (gaps.min(axis=1) < APART).all()


def test_contenders_in_every_draw() -> None:
    valuation, space = valued()
    found = search(valuation, space, criterion(), 100)
    rows = np.array([found.chosen, 3, 40])
    own = Contenders.of(valuation, found.candidates.take(rows), found.best)
    hand = ByHand.of(found)
    values, losses = hand.whole, (hand.losses + hand.discrepancy)[:, rows]
    np.testing.assert_allclose(own.losses, losses)
    np.testing.assert_allclose(own.values, values[rows], rtol=1e-6)
    np.testing.assert_allclose(own.regrets, (values - values.min(axis=0))[rows], atol=CLOSE)
    generator, starts = np.random.default_rng(0), valuation.start(own.candidates)
    drawn = generator.standard_normal((200, *losses.shape))
    runs = hand.losses[:, rows] + single_run(hand.spread)[:, rows] * drawn
    assert list(own.sets) == list(valuation.model.domains)
    for index, one in enumerate(own.sets.values()):
        risen = (runs[:, index] > starts[index]).mean(axis=(0, 2))
        rises = 1.0 - probability_below(one.changes().T, 0.0, one.change_sizes.T)
        np.testing.assert_allclose(rises, risen, atol=0.02)
        shown = one.new_runs(drawn[0, index])
        np.testing.assert_allclose(shown, runs[0, index], rtol=1e-6)
        np.testing.assert_allclose(one.changes(drawn[0, index]), shown - starts[index])


def test_slices_leave_the_recommendation_in_one_quantity() -> None:
    valuation, space = valued()
    found = search(valuation, space, criterion(), 100)
    chosen = found.candidates.take(slice(found.chosen, found.chosen + 1))
    values = ByHand.of(found).whole
    for name in space.searched:
        own = Slice.of(valuation, space, chosen, name)
        assert len(own.candidates) == len(set(found.candidates.column(name).tolist()))
        for other in set(space.searched) - {name}:
            assert set(own.candidates.column(other).tolist()) == set(chosen.column(other).tolist())
        for row in range(len(own.candidates)):
            same = (found.candidates.places == own.candidates.places[row]).all(axis=1).argmax()
            wanted = values[same] - values[found.chosen]
            np.testing.assert_allclose(own.costs[row], wanted, atol=CLOSE)
        assert own.within(0.0).size >= 1


PAIRS = arrays(
    np.float64, st.tuples(st.just(2), st.integers(1, 30)), elements=st.integers(0, 8).map(float)
)


@given(PAIRS)
def test_the_front_is_what_no_other_beats(losses: Floats) -> None:
    kept = set(map(tuple, losses[:, nondominated(*losses)].T.tolist()))
    points = set(map(tuple, losses.T.tolist()))
    beaten = {p for p in points for q in points if q[0] <= p[0] and q[1] <= p[1] and q != p}
    assert kept == points - beaten


def test_the_front_of_a_search() -> None:
    valuation, space = valued(**RANGES)
    found = search(valuation, space, criterion(), 512)
    front = front_of(valuation, found)
    general, target = front.losses.mean(axis=2)
    assert (np.diff(general) > -CLOSE).all()
    assert (np.diff(target) < CLOSE).all()
    assert 10 < len(front.candidates) <= 40
    assert general[0] == pytest.approx(found.losses[0].min(), abs=CLOSE)
    assert target[-1] == pytest.approx(found.losses[1].min(), abs=CLOSE)


# --- from a base that nobody measured -----------------------------------------------------------

FRESH = Base("fresh", 10_000, linear(300, 0.0, 2e-3) + constant(9700, 2e-3))
RISE = Constraint(domain="general", rise=0.02, probability=0.5)
GOAL = read_objective("balanced").model_copy(update={"constraints": (RISE,), "reference": "own"})


def from_fresh() -> tuple[Valuation, Candidates]:
    """Return runs of a few lengths from a base that was not measured."""
    model = FinalLosses.of(lab_posterior(), 400)
    limits = read_space({"bases": "stable_12k", "replay": [0.0, 0.5], "steps": [2, 3000]} | WHOLE)
    space = SearchSpace.of(limits, lab())
    candidates = replace(space.sample(space.combinations, 0), bases=(FRESH,))
    return Valuation.of(model, GOAL, space), candidates


def test_the_level_of_an_unmeasured_base_is_in_its_start_and_in_its_runs() -> None:
    """After two steps hardly anything has changed: the rise cannot be as unsure as the base."""
    valuation, candidates = from_fresh()
    model = valuation.model
    block = model.at(candidates)
    assert FRESH.schedule is not None
    own = {name: values[..., 0] for name, values in model.laws[0].draws.parameters.items()}
    frame, floor = model.frame, own["fluctuation_floor"]
    grown = np.log1p(FRESH.schedule.steps / (ONSET_SHARE * frame.reference.steps))
    memory = frame.spec.residuals.misfit_memory_pt
    walked = grown if memory == 1.0 else (1.0 - memory ** (2 * grown)) / (1.0 - memory**2)
    rate = FRESH.schedule.final / frame.reference.learning_rate
    last = own["fluctuation_pt"] * (floor + (1.0 - floor) * rate)
    level = np.sqrt(own["offset_pt"] ** 2 + own["misfit_pt"] ** 2 * walked + last**2)
    levels = np.tile(level, (len(candidates), 1))
    np.testing.assert_allclose(valuation.start_level(candidates)[0], levels)
    short = np.flatnonzero(candidates.schedules.steps == 2)
    start = valuation.start(candidates) + valuation.start_discrepancy(candidates)
    changes = block.losses + block.discrepancy - start
    assert (changes[0, short].std(axis=1) < 0.7 * level.mean()).all()
    drawn = valuation.expected(block)
    wanted = np.tensordot(valuation.combination.weights, changes, axes=1)
    np.testing.assert_allclose(drawn, wanted, atol=1e-10)


def test_rises_are_as_probable_as_draws_of_run_and_base_say() -> None:
    valuation, candidates = from_fresh()
    block = valuation.model.at(candidates)
    law, spread = block.losses, block.spread
    found = valuation.breaches(block)[0]
    generator = np.random.default_rng(3)
    start, level = valuation.start(candidates)[0], valuation.start_level(candidates)[0]
    above = np.zeros(len(candidates))
    for _ in range(200):
        # One level of the base, in its own loss and, as far as it is kept, in the run's.
        common = generator.standard_normal(valuation.model.draws)
        apart = np.sqrt(spread.law[0] ** 2 + spread.own[0] ** 2 + spread.fluctuation[0] ** 2)
        run = law[0] + apart * generator.standard_normal(apart.shape) + spread.level[0] * common
        above += (run - start - level * common > 0.02).mean(axis=1)
    np.testing.assert_allclose(found, above / 200, atol=0.01)

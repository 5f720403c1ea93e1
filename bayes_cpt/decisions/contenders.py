"""What is looked at closely: the recommendation and its rivals, the front, and the neighbourhood."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.decisions import risk
from bayes_cpt.decisions.candidates import Candidates
from bayes_cpt.decisions.final_losses import Spread
from bayes_cpt.decisions.search import Search, nondominated, traded
from bayes_cpt.decisions.search_space import SearchSpace
from bayes_cpt.decisions.valuation import Combination, Valuation
from bayes_cpt.forecast.scores import ScoreLink

# Points of the front, and along a slice.
FRONT, SLICE = 40, 41
# What the same configuration may differ by where it is computed beside others, nats.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class ThirdLosses:
    """Losses of some candidates on a third validation set, shape (candidates, draws)."""

    losses: Floats  # expected
    changes: Floats  # of these from what changes are counted from
    sizes: Floats  # sd of a single run about the law's losses

    def new_runs(self, seed: int) -> Floats:
        """Return losses that single runs may show, shape of `losses`."""
        normals = np.random.default_rng(seed).standard_normal(self.losses.shape)
        return np.asarray(self.losses + self.sizes * normals)

    def probability_of_rise(self) -> Floats:
        """Return how probably a single run ends above what changes are counted from, by candidate."""
        return 1.0 - risk.probability_below(self.changes.T, 0.0, self.sizes.T)


@dataclass(frozen=True, eq=False)
class Contenders:
    """Some candidates in every draw, in double precision: losses (domains, candidates, draws)."""

    candidates: Candidates
    law: Floats  # the law's losses
    losses: Floats  # expected losses, with the law's discrepancy
    starts: Floats  # what changes are counted from
    spread: Spread  # what moves losses about the law's
    values: Floats  # of the objective, as it is measured, (candidates, draws)
    regrets: Floats  # distance from each draw's own best in the whole space, (candidates, draws)
    breaches: Floats  # how probably each constraint is broken, (constraints, candidates)
    thirds: dict[str, ThirdLosses]  # of the third validation sets that the objective names
    links: dict[str, ScoreLink]  # of benchmarks whose scores are shown, in the draws of the losses

    @classmethod
    def of(cls, valuation: Valuation, candidates: Candidates, best: Floats) -> Self:
        """Return candidates in every draw, regret counted from the best of each draw, shape (draws,)."""
        block = valuation.model.at(candidates)
        law, spread = block.losses, block.spread
        values = valuation.expected(candidates, block)
        starts = valuation.start(candidates) + valuation.start_discrepancy(candidates)
        thirds = {}
        for name in valuation.thirds:
            third = Combination.of(
                {name: 1.0}, valuation.objective, valuation.thirds, valuation.model
            )
            expected = third.of_candidates(candidates, law)
            changes = expected - valuation.before(third, candidates)
            sizes = third.sizes(candidates, spread, single_run=True)
            thirds[name] = ThirdLosses(expected, changes, sizes)
        return cls(
            candidates=candidates,
            law=law,
            losses=law + block.discrepancy,
            starts=np.broadcast_to(starts, law.shape),
            spread=spread,
            values=values,
            # The best are known in single precision, and a draw may do better where constraints are broken.
            regrets=np.maximum(values - np.minimum(best, values.min(axis=0)), 0.0),
            breaches=valuation.breaches(candidates, law, spread),
            thirds=thirds,
            links=valuation.links,
        )

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.candidates)

    @property
    def expected_regret(self) -> Floats:
        """Expected regret, shape (candidates,)."""
        return self.regrets.mean(axis=1)

    @property
    def probability_best(self) -> Floats:
        """How often each is the best of these, shape (candidates,)."""
        return risk.probability_best(self.values.T)

    def probability_within(self, tolerance: float) -> Floats:
        """Return how often each is within a tolerance of the best in the whole space."""
        return np.asarray((self.regrets <= tolerance).mean(axis=1))

    def changes(self) -> Floats:
        """Return expected changes from what they are counted from, shape of `losses`."""
        return self.losses - self.starts

    def last_losses(self, normals: Floats) -> Floats:
        """Return the last loss of a new run in each draw, shape of `losses`: as a forecast draws it.

        Each validation set by itself: `new_runs` draws them as they move together.
        """
        return np.asarray(self.law + self.spread.single_run() * normals)

    def new_runs(self, seed: int, repeats: int = 8) -> Floats:
        """Return losses that single runs may show, shape (domains, candidates, repeats * draws)."""
        generator = np.random.default_rng(seed)
        drawn = [self.losses + self.spread.about(generator) for _ in range(repeats)]
        return np.concatenate(drawn, axis=-1)

    def scores(self, domains: Sequence[str], seed: int) -> dict[str, tuple[Floats, Floats]]:
        """Return the scores that single runs may show, and those of what changes are counted from.

        By benchmark, of shapes (candidates, repeats * draws) and (candidates, draws).
        """
        scores: dict[str, tuple[Floats, Floats]] = {}
        new_runs = self.new_runs(seed)
        for place, (name, link) in enumerate(self.links.items()):
            generator = np.random.default_rng([seed, place])
            domain = link.pairs.domain
            if domain in domains:
                index = list(domains).index(domain)
                losses, starts = new_runs[index], self.starts[index]
            else:
                third = self.thirds[domain]
                losses, starts = third.new_runs(seed), third.losses - third.changes
            draws = starts.shape[-1]
            apart = losses.reshape(len(losses), -1, draws)
            scores[name] = (link.drawn(apart, generator).reshape(losses.shape), link.scores(starts))
        return scores

    def probability_above(self, losses: Floats) -> Floats:
        """Return how probably a new run ends above some losses, shape (domains, candidates)."""
        pairs = zip(self.losses - losses, self.spread.chance(), strict=True)
        return np.stack([1.0 - risk.probability_below(gap.T, 0.0, sd.T) for gap, sd in pairs])


@dataclass(frozen=True, eq=False)
class Front:
    """The Pareto front of expected general and target loss; of several targets their mean is traded."""

    candidates: Candidates  # from the lowest general loss to the lowest target loss
    losses: Floats  # expected, with the law's discrepancy, (domains, candidates, draws)
    starts: Floats  # what changes are counted from, (domains, candidates or 1, draws)

    @classmethod
    def of(cls, valuation: Valuation, search: Search) -> Self:
        """Return about forty points of the front of what was searched, evenly spread along it."""
        losses = traded(search.losses)
        rows = search.allowed[nondominated(*losses[:, search.allowed])]
        chosen = search.candidates.take(rows[_spread(losses[:, rows])])
        starts = valuation.start(chosen) + valuation.start_discrepancy(chosen)
        block = valuation.model.at(chosen)
        return cls(chosen, block.losses + block.discrepancy, starts)


def _spread(losses: Floats) -> Ints:
    """Return some points of a front, evenly along it."""
    spans = np.ptp(losses, axis=1)
    pieces = np.diff(losses, axis=1) / np.where(spans > 0, spans, 1.0)[:, None]
    length = np.r_[0.0, np.cumsum(np.hypot(*pieces))]
    wanted = np.linspace(0.0, length[-1], min(FRONT, length.size))
    return np.unique(np.abs(length[:, None] - wanted).argmin(axis=0))


@dataclass(frozen=True, eq=False)
class Slice:
    """What it costs to leave the recommendation in one quantity."""

    name: str  # of the quantity, as in `Candidates.column`
    candidates: Candidates
    costs: Floats  # value of the objective above that of the recommendation, (candidates, draws)
    allowed: NDArray[np.bool_]  # whether each keeps all constraints, (candidates,)

    @classmethod
    def of(cls, valuation: Valuation, space: SearchSpace, chosen: Candidates, name: str) -> Self:
        """Return a slice through a single chosen candidate."""
        candidates = space.along(chosen, name, SLICE)
        every = candidates.joined(chosen)
        block = valuation.model.at(every)
        values = valuation.expected(every, block)
        spread = block.spread if valuation.objective.chances else None
        breaches = valuation.breaches(every, block.losses, spread)
        allowed = (breaches <= valuation.allowed[:, None]).all(axis=0)
        allowed &= valuation.overrun(every) <= 0.0
        return cls(name, candidates, values[:-1] - values[-1], allowed[:-1])

    @property
    def values(self) -> NDArray[Any]:
        """The quantity of each candidate."""
        return self.candidates.column(self.name)

    def within(self, tolerance: float) -> NDArray[Any]:
        """Return the values that are allowed and cost no more than a tolerance on average."""
        cheap = (self.costs.mean(axis=1) <= tolerance + ROUNDING) & self.allowed
        return np.asarray(self.values[cheap])

"""What is looked at closely: the recommendation and its rivals, the front, and the neighbourhood."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.decisions import risk
from bayes_cpt.decisions.candidates import Candidates
from bayes_cpt.decisions.final_losses import Block
from bayes_cpt.decisions.search import Search, nondominated, traded
from bayes_cpt.decisions.search_space import SearchSpace
from bayes_cpt.decisions.valuation import Combination, Valuation
from bayes_cpt.forecast.scores import ScoreLink

# Points of the front, and along a slice.
FRONT, SLICE = 40, 41
# What the same configuration may differ by where it is computed beside others, nats.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class SetLosses:
    """Losses of some candidates on one validation set, shape (candidates, draws) each."""

    law: Floats  # the law's
    starts: Floats  # what changes are counted from, the law's where nobody measured it
    sizes: Floats  # sd of a single run about the law's losses
    # Sd of a single run's change: of a base that nobody measured both ends lie off the law.
    change_sizes: Floats

    @classmethod
    def of(
        cls, valuation: Valuation, combination: Combination, candidates: Candidates, block: Block
    ) -> Self:
        """Return the losses on the set that a combination stands for."""
        about = block.spread.against(valuation.start_level(candidates))
        law = combination.of_candidates(candidates, block.losses)
        return cls(
            law=law,
            starts=np.broadcast_to(valuation.before(combination, candidates), law.shape),
            sizes=combination.sizes(candidates, block.spread, single_run=True),
            change_sizes=combination.sizes(candidates, about, single_run=True),
        )

    def new_runs(self, normals: Floats) -> Floats:
        """Return the last loss of a new run in each draw, as a forecast draws it: so many sds off."""
        return self.law + self.sizes * normals

    def changes(self, normals: Floats | float = 0.0) -> Floats:
        """Return the law's changes from what they are counted from; with `normals` a new run's."""
        return self.law - self.starts + self.change_sizes * normals

    @property
    def probability_of_rise(self) -> Floats:
        """How probably a new run ends above what changes are counted from, shape (candidates,)."""
        return 1.0 - risk.probability_below(self.changes().T, 0.0, self.change_sizes.T)


@dataclass(frozen=True, eq=False)
class Contenders:
    """Some candidates in every draw, in double precision."""

    candidates: Candidates
    losses: Floats  # expected losses, with the law's discrepancy, (domains, candidates, draws)
    sets: dict[str, SetLosses]  # of the law's validation sets, then third ones of the objective
    values: Floats  # of the objective, as it is measured, (candidates, draws)
    regrets: Floats  # distance from each draw's own best in the whole space, (candidates, draws)
    breaches: Floats  # how probably each constraint is broken, (constraints, candidates)
    links: dict[str, ScoreLink]  # of benchmarks whose scores are shown, in the draws of the losses

    @classmethod
    def of(cls, valuation: Valuation, candidates: Candidates, best: Floats) -> Self:
        """Return candidates in every draw, regret counted from the best of each draw, shape (draws,)."""
        block = valuation.model.at(candidates)
        values = valuation.expected(candidates, block)
        return cls(
            candidates=candidates,
            losses=block.losses + block.discrepancy,
            sets={
                name: SetLosses.of(valuation, own, candidates, block)
                for name, own in valuation.sets.items()
            },
            values=values,
            # The best are known in single precision, and a draw may do better where constraints are broken.
            regrets=np.maximum(values - np.minimum(best, values.min(axis=0)), 0.0),
            breaches=valuation.breaches(candidates, block),
            links=valuation.links,
        )

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.candidates)

    @property
    def probability_best(self) -> Floats:
        """How often each is the best of these, shape (candidates,)."""
        return risk.probability_best(self.values.T)

    def probability_within(self, tolerance: float) -> Floats:
        """Return how often each is within a tolerance of the best in the whole space."""
        return np.asarray((self.regrets <= tolerance).mean(axis=1))

    def scores(self, normals: Floats, seed: int) -> dict[str, tuple[Floats, Floats]]:
        """Return by benchmark the scores that single runs may show, and those of what changes count from.

        Both have the shape (candidates, draws).
        """
        scores = {}
        for place, (name, link) in enumerate(self.links.items()):
            own, generator = self.sets[link.pairs.domain], np.random.default_rng([seed, place])
            shown = link.drawn(own.new_runs(normals), generator)
            scores[name] = (shown, link.scores(own.starts))
        return scores


def perfect_information(valuation: Valuation, searched: Search) -> tuple[float, float]:
    """Return what knowing all expected losses is worth, nats of the objective, and its Monte Carlo error.

    That is the least expected regret: of the candidate that is best in expectation.
    """
    lowest = searched.allowed[searched.means[searched.allowed].argmin()]
    best = Contenders.of(valuation, searched.candidates.take(np.array([lowest])), searched.best)
    regrets = best.regrets[0]
    return float(regrets.mean()), float(regrets.std() / np.sqrt(regrets.size))


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
        allowed = (valuation.breaches(every, block) <= valuation.allowed[:, None]).all(axis=0)
        allowed &= valuation.overrun(every) <= 0.0
        return cls(name, candidates, values[:-1] - values[-1], allowed[:-1])

    @property
    def values(self) -> NDArray[Any]:
        """The quantity of each candidate."""
        return np.asarray(self.candidates.column(self.name))

    def within(self, tolerance: float) -> NDArray[Any]:
        """Return the values that are allowed and cost no more than a tolerance on average."""
        cheap = (self.costs.mean(axis=1) <= tolerance + ROUNDING) & self.allowed
        return np.asarray(self.values[cheap])

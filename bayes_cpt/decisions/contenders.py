"""What is compared in the end: the recommendation and well separated others, exactly and in every draw."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.decisions import risk
from bayes_cpt.decisions.search.block import Spread
from bayes_cpt.decisions.search.candidates import Candidates
from bayes_cpt.decisions.search.combination import Combination
from bayes_cpt.decisions.search.search import Search
from bayes_cpt.decisions.valuation import Valuation
from bayes_cpt.forecast.scores.link import ScoreLink

# Candidates nearer than this share of every range are variants of one choice.
APART = 0.2


@dataclass(frozen=True, eq=False)
class ThirdLosses:
    """Losses of some candidates on a third validation set.

    Parameters
    ----------
    losses, changes : ndarray, shape (candidates, draws)
        Expected, and from what changes are counted from.
    sizes : ndarray, shape (candidates, draws)
        Sd of a single run about the law's losses.
    """

    losses: Floats
    changes: Floats
    sizes: Floats

    def new_runs(self, seed: int) -> Floats:
        """Return losses that single runs may show, shape of `losses`.

        Parameters
        ----------
        seed : int
        """
        normals = np.random.default_rng(seed).standard_normal(self.losses.shape)
        return np.asarray(self.losses + self.sizes * normals)

    def probability_of_rise(self) -> Floats:
        """Return how probably a single run ends above what changes are counted from, by candidate."""
        return 1.0 - risk.probability_below(self.changes.T, 0.0, self.sizes.T)


@dataclass(frozen=True, eq=False)
class Contenders:
    """Some candidates in every draw, in double precision.

    Parameters
    ----------
    candidates : Candidates
    law, losses, starts : ndarray, shape (domains, candidates, draws)
        The law's losses; expected losses, with what the law misses; what changes are counted from.
    spread : Spread
        What moves losses about the law's.
    values : ndarray, shape (candidates, draws)
        Of the objective, as it is measured.
    regrets : ndarray, shape (candidates, draws)
        Distance from each draw's own best in the whole space, at least 0.
    breaches : ndarray, shape (constraints, candidates)
        How probably each constraint is broken.
    thirds : dict of str to ThirdLosses
        Of the third validation sets that the objective names.
    links : dict of str to ScoreLink
        Of benchmarks whose scores are told, in the draws of the losses.
    """

    candidates: Candidates
    law: Floats
    losses: Floats
    starts: Floats
    spread: Spread
    values: Floats
    regrets: Floats
    breaches: Floats
    thirds: dict[str, ThirdLosses]
    links: dict[str, ScoreLink]

    @classmethod
    def of(cls, valuation: Valuation, candidates: Candidates, best: Floats) -> Self:
        """Return candidates in every draw.

        Parameters
        ----------
        valuation : Valuation
        candidates : Candidates
        best : ndarray, shape (draws,)
            Each draw's lowest value in the whole space.
        """
        layout = valuation.model.layout(candidates)
        rows = np.arange(len(candidates))
        law, spread = layout.losses(rows), layout.spread(rows)
        missed = layout.missed(rows)
        losses = law + missed
        values = valuation.moved(candidates, valuation.changes(candidates, law), missed)
        starts = valuation.start(candidates) + valuation.start_missed(candidates)
        starts = np.broadcast_to(starts, losses.shape)
        # The best are known in single precision, and under constraints some draw may do better without.
        regrets = np.maximum(values - np.minimum(best, values.min(axis=0)), 0.0)
        breaches = valuation.breaches(candidates, law, spread)
        thirds = {}
        for name in valuation.thirds:
            third = Combination.of(
                {name: 1.0}, valuation.objective, valuation.thirds, valuation.model
            )
            expected = third.of_candidates(candidates, law)
            changes = expected - valuation.before(third, candidates)
            sizes = third.sizes(candidates, spread, single_run=True)
            thirds[name] = ThirdLosses(expected, changes, sizes)
        links = valuation.links
        return cls(
            candidates, law, losses, starts, spread, values, regrets, breaches, thirds, links
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
        """Return how often each is within a tolerance of the best in the whole space.

        Parameters
        ----------
        tolerance : float
            In the unit of the objective.
        """
        return np.asarray((self.regrets <= tolerance).mean(axis=1))

    def changes(self) -> Floats:
        """Return expected changes from what they are counted from, shape of `losses`."""
        return self.losses - self.starts

    def last_losses(self, normals: Floats) -> Floats:
        """Return the last loss of a new run in each draw, shape of `losses`: as a forecast draws it.

        Each validation set by itself: `new_runs` draws them as they move together.

        Parameters
        ----------
        normals : ndarray, shape (draws,)
            Of `FinalLosses.normals`.
        """
        return np.asarray(self.law + self.spread.single_run() * normals)

    def new_runs(self, seed: int, repeats: int = 8) -> Floats:
        """Return losses that single runs may show, shape (domains, candidates, repeats * draws).

        Parameters
        ----------
        seed : int
        repeats : int
            Runs drawn for each draw of the posterior.
        """
        generator = np.random.default_rng(seed)
        drawn = [self.losses + self.spread.about(generator) for _ in range(repeats)]
        return np.concatenate(drawn, axis=-1)

    def scores(self, domains: Sequence[str], seed: int) -> dict[str, tuple[Floats, Floats]]:
        """Return the scores that single runs may show, and those of what they are counted from.

        Parameters
        ----------
        domains : sequence of str
            General and target validation set.
        seed : int

        Returns
        -------
        dict of str to tuple of ndarray
            Shapes (candidates, repeats * draws) and (candidates, draws).
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
        """Return how probably a new run ends above some losses, shape (domains, candidates).

        Parameters
        ----------
        losses : ndarray, shape (domains, candidates or 1, draws)
        """
        pairs = zip(self.losses - losses, self.spread.chance(), strict=True)
        return np.stack([1.0 - risk.probability_below(gap.T, 0.0, sd.T) for gap, sd in pairs])


def separated(search: Search, count: int) -> Ints:
    """Return the best candidate's row, and those of the best that are not near it or each other.

    Parameters
    ----------
    search : Search
    count : int
        At most as many in all.
    """
    candidates, kept = search.candidates, [search.chosen]
    order = search.order()
    if search.feasible.any():
        order = order[search.feasible[order]]
    left = order
    while left.size and len(kept) < count:
        last = kept[-1]
        distance = np.abs(candidates.places[left] - candidates.places[last])
        far = candidates.cells[left] != candidates.cells[last]
        left = left[far | (distance.max(axis=1, initial=0.0) >= APART)]
        if left.size:
            kept.append(int(left[0]))
    return np.array(kept)

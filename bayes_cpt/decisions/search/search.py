"""The search of a space: every candidate scored, every draw's own best found."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.decisions.measures import RiskMeasure
from bayes_cpt.decisions.search.block import Block, Spread
from bayes_cpt.decisions.search.candidates import Candidates
from bayes_cpt.decisions.search.search_space import SearchSpace
from bayes_cpt.decisions.valuation import Valuation

type Flags = NDArray[np.bool_]

# After a first look at the whole space, nearer ones about what was best: width of each look, as a multiple
# of the distance between the places of the first.
LOOKS = (2.0, 0.5)
# How many of the best scores are looked at more closely, beside each draw's own best.
CENTRES = 64


@dataclass(frozen=True, eq=False)
class Trait:
    """How a search is judged.

    Parameters
    ----------
    measure : RiskMeasure
    new_run : bool
        Whether a measure of loss is about what a new run would show, not its expected loss.
    tolerance : float
        Regret that is no regret, nats.
    seed : int
        Of the places that are looked at.
    """

    measure: RiskMeasure
    new_run: bool
    tolerance: float
    seed: int


@dataclass(frozen=True, eq=False)
class Search:
    """Candidates with their scores, and the best of each draw.

    Parameters
    ----------
    candidates : Candidates
    losses : ndarray, shape (domains, candidates)
        Mean over draws.
    means, scores : ndarray, shape (candidates,)
        Expected value of the objective, and its risk measure: the lower, the better.
    breaches : ndarray, shape (constraints, candidates)
        How probably each constraint is broken.
    excess : ndarray, shape (candidates,)
        By how much that, or what a run takes, exceeds what is allowed, at most; 0 or below is feasible.
    best : ndarray, shape (draws,)
        The lowest value of each draw over the feasible candidates (over all where none is): of the law's
        losses with what the law misses.
    optimum : ndarray of int, shape (draws,)
        Which candidate that is.
    """

    candidates: Candidates
    losses: Floats
    means: Floats
    scores: Floats
    breaches: Floats
    excess: Floats
    best: Floats
    optimum: Ints

    @property
    def feasible(self) -> Flags:
        """Whether each candidate keeps all constraints."""
        return self.excess <= 0.0

    @property
    def chosen(self) -> int:
        """The candidate of the lowest score that is feasible; without one, the nearest to being so."""
        return int(self.order()[0])

    def order(self) -> Ints:
        """Return the candidates from the best on: feasible ones, then the others by their excess."""
        return np.lexsort((self.scores, np.maximum(self.excess, 0.0)))

    def joined(self, other: "Search") -> Self:
        """Return both, each draw's best the better of the two.

        Parameters
        ----------
        other : Search
            Of other candidates, under the same draws.
        """
        takes = self._beaten_by(other)
        pairs = {
            name: np.concatenate([getattr(self, name), getattr(other, name)], axis=-1)
            for name in ("losses", "means", "scores", "breaches", "excess")
        }
        return replace(
            self,
            candidates=self.candidates.joined(other.candidates),
            best=np.where(takes, other.best, self.best),
            optimum=np.where(takes, other.optimum + len(self.candidates), self.optimum),
            **pairs,
        )

    def _beaten_by(self, other: "Search") -> Flags:
        mine, theirs = self.feasible.any(), other.feasible.any()
        if mine != theirs:
            return np.full(self.best.size, theirs)
        return np.asarray(other.best < self.best)


def search(valuation: Valuation, space: SearchSpace, trait: Trait, count: int) -> Search:
    """Return the candidates of a space, what is best and the front of losses looked at more closely.

    Parameters
    ----------
    valuation : Valuation
    space : SearchSpace
    trait : Trait
    count : int
        Candidates of the first look; each further one has half as many.
    """
    seen = _look(valuation, space.sample(count, trait.seed), trait)
    dimensions = len(space.ranges)
    if dimensions:
        spacing = (len(seen.candidates) / space.combinations) ** (-1.0 / dimensions)
        for number, width in enumerate(LOOKS, start=1):
            front = nondominated(*np.where(seen.excess <= 0.0, traded(seen.losses), np.inf))
            rows = np.unique(np.r_[seen.optimum, seen.order()[:CENTRES], front])
            centres = seen.candidates.take(rows)
            near = space.around(centres, width * spacing, count // 2, trait.seed + number)
            seen = seen.joined(_look(valuation, near, trait))
    if trait.measure.name in RiskMeasure.RELATIVE:
        # How far each is from each draw's best is known only when all have been seen.
        return replace(seen, scores=_scores(valuation, seen.candidates, trait, seen.best))
    return seen


def traded(losses: Floats) -> Floats:
    """Return the two losses that a front is of: the general one, and the mean of the targets'.

    Parameters
    ----------
    losses : ndarray, shape (domains, ...)
    """
    return np.stack([losses[0], losses[1:].mean(axis=0)])


def nondominated(first: Floats, second: Floats) -> Ints:
    """Return which points no other beats in both of two losses, by rising first loss.

    Parameters
    ----------
    first, second : ndarray, shape (points,)

    Examples
    --------
    >>> nondominated(np.array([1.0, 3.0, 2.0, 2.5]), np.array([5.0, 1.0, 2.0, 3.0])).tolist()
    [0, 2, 1]
    """
    order = np.lexsort((second, first))
    lowest = np.minimum.accumulate(second[order])
    return np.asarray(order[np.r_[True, lowest[1:] < lowest[:-1]]])


@dataclass(frozen=True, eq=False)
class _Part:
    """What is kept of a block: as in `Search`, with each draw's best among the feasible and among all."""

    rows: Ints
    losses: Floats
    means: Floats
    scores: Floats
    breaches: Floats
    excess: Floats
    best: tuple[Floats, Floats]
    optimum: tuple[Ints, Ints]


def _look(valuation: Valuation, candidates: Candidates, trait: Trait) -> Search:
    """Return the scores of candidates and each draw's best among them."""

    def examined(block: Block) -> _Part:
        return _examine(valuation, candidates.take(block.rows), trait, block)

    parts = valuation.model.map(candidates, examined)
    places = np.argsort(np.concatenate([part.rows for part in parts]))
    whole = {
        name: np.concatenate([getattr(part, name) for part in parts], axis=-1)[..., places]
        for name in ("losses", "means", "scores", "breaches", "excess")
    }
    # With no candidate that keeps the constraints, the best of all stand in for the best feasible ones.
    kind = 0 if (whole["excess"] <= 0.0).any() else 1
    lowest = np.stack([part.best[kind] for part in parts])
    owners = np.stack([part.optimum[kind] for part in parts])
    first = lowest.argmin(axis=0)
    draws = np.arange(first.size)
    return Search(candidates, best=lowest[first, draws], optimum=owners[first, draws], **whole)


def _examine(valuation: Valuation, candidates: Candidates, trait: Trait, block: Block) -> _Part:
    measure = trait.measure
    plain = measure.name == "expected" or measure.name in RiskMeasure.RELATIVE
    needs_spread = bool(valuation.objective.chances) or not plain
    spread = block.spread() if needs_spread else None
    values = valuation.changes(candidates, block.losses)
    whole = valuation.moved(candidates, values, block.missed())
    breaches = valuation.breaches(candidates, block.losses, spread)
    excess = (breaches - valuation.allowed[:, None]).max(axis=0, initial=-np.inf)
    excess = np.maximum(excess, valuation.overrun(candidates))
    means = values.mean(axis=1)
    scores = means
    if spread is not None and not plain:
        scores = _score(valuation, candidates, block.losses, values, spread, trait)
    feasible = np.flatnonzero(excess <= 0.0)
    return _Part(
        rows=block.rows,
        losses=block.losses.mean(axis=2),
        means=means,
        scores=scores,
        breaches=breaches,
        excess=excess,
        best=(_lowest(whole[feasible]), _lowest(whole)),
        optimum=(
            block.rows[feasible[_first(whole[feasible])]] if feasible.size else _nobody(whole),
            block.rows[_first(whole)],
        ),
    )


def _score(
    valuation: Valuation,
    candidates: Candidates,
    losses: Floats,
    values: Floats,
    spread: Spread,
    trait: Trait,
) -> Floats:
    """Return a measure of the loss itself: nothing is drawn of what the law misses."""
    measure = trait.measure
    if measure.run is not None:
        plain = valuation.values(candidates, losses)
        sizes = valuation.sizes(candidates, spread).T
        return measure.score(plain.T, noise=sizes, reference=valuation.of_run(measure.run))
    about = valuation.about(candidates, spread)
    sizes = valuation.sizes(candidates, about, single_run=trait.new_run).T
    return measure.score(values.T, noise=sizes)


def _scores(valuation: Valuation, candidates: Candidates, trait: Trait, best: Floats) -> Floats:
    scores = np.empty(len(candidates))

    def keep(block: Block) -> None:
        chosen = candidates.take(block.rows)
        law = valuation.changes(chosen, block.losses)
        values = valuation.moved(chosen, law, block.missed())
        scores[block.rows] = trait.measure.score(values.T, best, tolerance=trait.tolerance)

    valuation.model.map(candidates, keep)
    return scores


def _lowest(values: Floats) -> Floats:
    return values.min(axis=0, initial=np.inf)


def _first(values: Floats) -> Ints:
    return values.argmin(axis=0)


def _nobody(values: Floats) -> Ints:
    return np.zeros(values.shape[1], dtype=np.int64)

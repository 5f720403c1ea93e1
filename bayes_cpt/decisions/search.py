"""The search of a space: every candidate scored, every draw's own best found.

Then the recommendation and its rivals, the front, and the neighbourhood are looked at closely.
"""

import warnings
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.checks import is_number
from bayes_cpt.decisions import risk
from bayes_cpt.decisions.final_losses import Block
from bayes_cpt.decisions.risk import BEST, EXPECTED, RiskMeasure
from bayes_cpt.decisions.search_space import Candidates, SearchSpace
from bayes_cpt.decisions.valuation import Combination, Valuation
from bayes_cpt.errors import BeyondLawWarning, Problem, StudyWarning

# Configurations of the first look, in all that is asked about one fit.
CANDIDATES = 8192
# After a first look at the whole space, nearer ones about what was best: width of each look, as a multiple
# of the distance between the places of the first.
LOOKS = (2.0, 0.5)
# How many of the best scores are looked at more closely, beside each draw's own best.
CENTRES = 64
# Candidates nearer than this share of every range are variants of one choice.
APART = 0.2
# Share of the draws whose best lies at an end, from which on the best may lie beyond.
EDGE = 0.5
# Points of the front, and along a slice.
FRONT, SLICE = 40, 41
# What the same configuration may differ by where it is computed beside others, nats.
ROUNDING = 1e-12


class Edge(NamedTuple):
    """An end of what was searched, at or beyond which the best lies."""

    quantity: str
    end: str  # ``lowest`` or ``highest``
    value: float
    share: float  # of the draws, whose best lies there
    given: bool  # whether the space names the end; else it is how far the study lets one look


@dataclass(frozen=True, eq=False)
class SearchCriterion:
    """What a search looks for."""

    measure: RiskMeasure = EXPECTED
    tolerance: float = 0.0  # regret that makes no difference, nats
    seed: int = 0  # of the places that are looked at

    def __post_init__(self) -> None:
        """Raise ValueError unless the tolerance is a number of at least 0."""
        if not is_number(self.tolerance) or self.tolerance < 0:
            raise ValueError(f"tolerance is {self.tolerance}: give nats, 0 or more")


@dataclass(frozen=True, eq=False)
class Search:
    """Candidates with their scores, and the best of each draw."""

    candidates: Candidates
    losses: Floats  # mean over draws, (domains, candidates)
    means: Floats  # expected value of the objective, (candidates,)
    scores: Floats  # of the risk measure, the lower the better, (candidates,)
    breaches: Floats  # how probably each constraint is broken, (constraints, candidates)
    # By how much that, or what a run takes, exceeds what is allowed, at most; 0 or below is feasible.
    excess: Floats
    impossible: NDArray[np.bool_]  # whether the law predicts a loss at or below 0, (candidates,)
    # The lowest value of each draw over the feasible candidates (over all where none is), with the law's
    # discrepancy, (draws,); and which candidate that is.
    best: Floats
    optimum: Ints

    @property
    def feasible(self) -> NDArray[np.bool_]:
        """Whether each candidate keeps all constraints."""
        return self.excess <= 0.0

    @property
    def beyond_law(self) -> bool:
        """Whether the law promises most where it predicts losses at or below 0, and cannot hold nearby."""
        return bool(self.impossible[self.scores.argmin()] or self.impossible[self.chosen])

    @property
    def allowed(self) -> Ints:
        """The candidates to choose among, best first: the feasible ones, or all where none is."""
        return self.order()[: self.feasible.sum() or None]

    @property
    def chosen(self) -> int:
        """The candidate of the lowest score that is feasible; without one, the nearest to being so."""
        return int(self.order()[0])

    def order(self) -> Ints:
        """Return the candidates, best first: feasible ones, then the others by their excess."""
        return np.lexsort((self.scores, np.maximum(self.excess, 0.0)))

    def at_ends(self, name: str) -> dict[str, float]:
        """Return how often a draw's best lies at an end of what was searched of a number."""
        values, whole = self.candidates.column(name)[self.optimum], self.candidates.column(name)
        # Learning rates are rounded to three digits: an end may be met by the last of them.
        slack = 0.005 * np.ptp(whole)
        return {
            "lowest": float(np.mean(values <= whole.min() + slack)),
            "highest": float(np.mean(values >= whole.max() - slack)),
        }

    def edge(self, space: SearchSpace, name: str, least: float = EDGE) -> Edge | None:
        """Return at which end that could be moved the best lies in a share of the draws, if at any."""
        shares = self.at_ends(name)
        end = max(shares, key=lambda end: shares[end])
        if shares[end] < least or not space.could_be_moved(name, end):
            return None
        # Candidates lie a little beyond it: their learning rates are rounded.
        value = float(getattr(space.quantities[name], end))
        return Edge(name, end, value, shares[end], name in space.given)

    def edges(self, space: SearchSpace) -> tuple[Edge, ...]:
        """Return where the best lies at or beyond an end of the space that could be moved."""
        numbers = [name for name in space.searched if name in space.quantities]
        return tuple(filter(None, (self.edge(space, name) for name in numbers)))

    def joined(self, other: "Search") -> Self:
        """Return both, each draw's best the better of the two."""
        mine, theirs = self.feasible.any(), other.feasible.any()
        takes = other.best < self.best if mine == theirs else np.full(self.best.size, theirs)
        pairs = {
            name: np.concatenate([getattr(self, name), getattr(other, name)], axis=-1)
            for name in ("losses", "means", "scores", "breaches", "excess", "impossible")
        }
        return replace(
            self,
            candidates=self.candidates.joined(other.candidates),
            best=np.where(takes, other.best, self.best),
            optimum=np.where(takes, other.optimum + len(self.candidates), self.optimum),
            **pairs,
        )

    def separated(self, count: int) -> Ints:
        """Return the best candidate, and the best of those that are not near it or each other."""
        candidates, left = self.candidates, self.allowed
        kept = [self.chosen]
        while left.size and len(kept) < count:
            left = left[apart(candidates, left, kept[-1])]
            kept += left[:1].tolist()
        return np.array(kept)


def apart(candidates: Candidates, rows: Ints, row: int) -> NDArray[np.bool_]:
    """Return which candidates differ from another in a listed value, or lie far from it along a range."""
    return np.asarray(np.abs(candidates.places[rows] - candidates.places[row]).max(axis=1) >= APART)


def search(
    valuation: Valuation, space: SearchSpace, criterion: SearchCriterion, count: int
) -> Search:
    """Return the candidates of a space, what is best and the front of losses looked at more closely.

    The first look has `count` candidates, each further one half as many.
    """
    seen = _look(valuation, space.sample(count, criterion.seed), criterion)
    dimensions = len(space.ranges)
    if dimensions:
        spacing = (len(seen.candidates) / space.combinations) ** (-1.0 / dimensions)
        for number, width in enumerate(LOOKS, start=1):
            front = nondominated(*np.where(seen.feasible, traded(seen.losses), np.inf))
            rows = np.unique(np.r_[seen.optimum, seen.order()[:CENTRES], front])
            centres = seen.candidates.take(rows)
            near = space.around(centres, width * spacing, count // 2, criterion.seed + number)
            seen = seen.joined(_look(valuation, near, criterion))
    if seen.impossible.any():
        most = ", and promises most there: not trustworthy" if seen.beyond_law else ""
        problem = (
            f"the law predicts a loss at or below 0 for some choices, which are left out{most}"
        )
        fix = "give narrower ranges, and check the learning rates of the fitted runs"
        kind = BeyondLawWarning if most else StudyWarning
        warnings.warn(str(Problem("space", problem, fix)), kind, stacklevel=3)
    if criterion.measure.name != BEST:
        return seen

    # How near each is to each draw's best is known only when all have been seen.
    def score(block: Block) -> Floats:
        values = valuation.expected(block).T
        return -risk.probability_best(values, seen.best, criterion.tolerance)

    return replace(seen, scores=valuation.model.each(seen.candidates, score))


def traded(losses: Floats) -> Floats:
    """Return the two losses that a front is of: the general one, and the mean of the targets'.

    Of a single validation set, of which nothing is traded, both are the same.
    """
    return np.stack([losses[0], losses[min(1, len(losses) - 1) :].mean(axis=0)])


def nondominated(first: Floats, second: Floats) -> Ints:
    """Return which points no other beats in both of two losses, by rising first loss.

    Examples
    --------
    >>> nondominated(np.array([1.0, 3.0, 2.0, 2.5]), np.array([5.0, 1.0, 2.0, 3.0])).tolist()
    [0, 2, 1]
    """
    order = np.lexsort((second, first))
    lowest = np.minimum.accumulate(second[order])
    return np.asarray(order[np.r_[True, lowest[1:] < lowest[:-1]]])


def spread_along(front: Floats) -> Ints:
    """Return which points of a front, shape (2, points), to keep: about forty, evenly along it."""
    spans = np.ptp(front, axis=1)
    pieces = np.diff(front, axis=1) / np.where(spans > 0, spans, 1.0)[:, None]
    along = np.r_[0.0, np.cumsum(np.hypot(*pieces))]
    wanted = np.linspace(0.0, along[-1], min(FRONT, along.size))
    return np.unique(np.abs(along[:, None] - wanted).argmin(axis=0))


def _look(valuation: Valuation, candidates: Candidates, criterion: SearchCriterion) -> Search:
    """Return the scores of candidates, block by block, and each draw's best among them."""
    found = valuation.model.map(candidates, lambda block: _examine(valuation, criterion, block))
    return reduce(Search.joined, found)


def _examine(valuation: Valuation, criterion: SearchCriterion, block: Block) -> Search:
    candidates, values = block.candidates, valuation.changes(block)
    whole = values + valuation.discrepancy(block)
    breaches = valuation.breaches(block)
    excess = valuation.excess(block, breaches)
    means = values.mean(axis=1)
    # With no candidate that keeps the constraints, the best of all stand in for the best feasible ones.
    feasible = excess <= 0.0
    kept = np.where(feasible[:, None], whole, np.inf) if feasible.any() else whole
    scores = means
    if criterion.measure.level is not None:
        # A measure of the loss itself: nothing is drawn of the law's discrepancy.
        about = block.spread.against(valuation.start_level(candidates))
        sizes = valuation.combination.sizes(candidates, about, single_run=False)
        scores = criterion.measure.of_losses(values.T, sizes.T)
    return Search(
        candidates,
        losses=block.losses.mean(axis=2),
        means=means,
        scores=scores,
        breaches=breaches,
        excess=excess,
        impossible=valuation.below_zero(block) > 0.0,
        best=kept.min(axis=0),
        optimum=kept.argmin(axis=0),
    )


@dataclass(frozen=True, eq=False)
class SetLosses:
    """Losses of some candidates on one validation set, shape (candidates, draws) each."""

    law: Floats  # the law's
    starts: Floats  # what changes are counted from, the law's where nobody measured it
    sizes: Floats  # sd of a single run about the law's losses
    # Sd of a single run's change: of a base that nobody measured both ends lie off the law.
    change_sizes: Floats

    @classmethod
    def of(cls, valuation: Valuation, combination: Combination, block: Block) -> Self:
        """Return the losses on the set that a combination stands for."""
        candidates, law = block.candidates, combination.of_law(block)
        about = block.spread.against(valuation.start_level(candidates))
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


@dataclass(frozen=True, eq=False)
class Contenders:
    """Some candidates in every draw, in double precision."""

    candidates: Candidates
    losses: Floats  # expected losses, with the law's discrepancy, (domains, candidates, draws)
    sets: dict[str, SetLosses]  # of the law's validation sets, then third ones of the objective
    values: Floats  # of the objective, as it is measured, (candidates, draws)
    regrets: Floats  # distance from each draw's own best in the whole space, (candidates, draws)
    breaches: Floats  # how probably each constraint is broken, (constraints, candidates)

    @classmethod
    def of(cls, valuation: Valuation, candidates: Candidates, best: Floats) -> Self:
        """Return candidates in every draw, regret counted from the best of each draw, shape (draws,)."""
        block = valuation.model.at(candidates)
        values, sets = valuation.expected(block), valuation.sets.items()
        return cls(
            candidates=candidates,
            losses=block.losses + block.discrepancy,
            sets={name: SetLosses.of(valuation, own, block) for name, own in sets},
            values=values,
            # The best are known in single precision, and a draw may do better where constraints are broken.
            regrets=np.maximum(values - np.minimum(best, values.min(axis=0)), 0.0),
            breaches=valuation.breaches(block),
        )


def perfect_information(valuation: Valuation, searched: Search) -> tuple[float, float]:
    """Return what knowing all expected losses is worth, nats of the objective, and its Monte Carlo error.

    That is the least expected regret: of the candidate that is best in expectation.
    """
    lowest = searched.allowed[searched.means[searched.allowed].argmin()]
    best = Contenders.of(valuation, searched.candidates.take(np.array([lowest])), searched.best)
    regrets = best.regrets[0]
    return float(regrets.mean()), float(regrets.std() / np.sqrt(regrets.size))


def front_of(valuation: Valuation, searched: Search) -> Contenders:
    """Return about forty points of the front of `traded` losses, evenly spread along it.

    From the lowest general loss to the lowest target loss.
    """
    losses = traded(searched.losses)
    rows = searched.allowed[nondominated(*losses[:, searched.allowed])]
    kept = spread_along(losses[:, rows])
    return Contenders.of(valuation, searched.candidates.take(rows[kept]), searched.best)


@dataclass(frozen=True, eq=False)
class Slice:
    """What it costs to leave the recommendation in one quantity."""

    name: str  # of the quantity, as in `Candidates.column`
    candidates: Candidates
    costs: Floats  # value of the objective above that of the recommendation, (candidates, draws)
    allowed: NDArray[np.bool_]  # whether each keeps all constraints and limits, (candidates,)
    breaches: Floats  # how probably each constraint is broken, (constraints, candidates)

    @classmethod
    def of(cls, valuation: Valuation, space: SearchSpace, chosen: Candidates, name: str) -> Self:
        """Return a slice through a single chosen candidate."""
        candidates = space.along(chosen, name, SLICE)
        every = valuation.model.at(candidates.joined(chosen))
        values = valuation.expected(every)
        breaches = valuation.breaches(every)
        allowed = valuation.excess(every, breaches)[:-1] <= 0.0
        return cls(name, candidates, values[:-1] - values[-1], allowed, breaches[:, :-1])

    @property
    def values(self) -> NDArray[Any]:
        """The quantity of each candidate."""
        return np.asarray(self.candidates.column(self.name))

    def within(self, tolerance: float) -> NDArray[Any]:
        """Return the values that are allowed and cost no more than a tolerance on average."""
        cheap = (self.costs.mean(axis=1) <= tolerance + ROUNDING) & self.allowed
        return np.asarray(self.values[cheap])

"""What data would be worth, before they are measured: expected value of sample information by regression.

From draws of a law, the losses of every decision under each and data simulated from each, the value of the
data is

    EVSI = min_d E[L_d] - E[min_d E[L_d | data]].

The inner expectation needs no nested simulation: it is the regression of the losses on summaries of the
data (Strong, Oakley, Brennan and Breeze 2015, doi:10.1177/0272989X15575286; Heath et al. 2020,
doi:10.1177/0272989X20912402). Here

1. losses are taken apart into the few principal components in which decisions differ;
2. a ridge regression of each component on all data, its penalty by generalised cross-validation, gives one
   summary per component (the semi-automatic summaries of Fearnhead and Prangle 2012,
   doi:10.1111/j.1467-9868.2011.01010.x);
3. a second ridge regression of the components on polynomials of the summaries gives the expected losses;
   it learns from summaries that were fitted on other draws, so that what is noise in them is shrunk away.

Choosing by expected losses that were themselves estimated looks too good on the draws that they were
estimated from. So draws are split: what is reported is how much *other* draws gain when decisions are
chosen by the regression. That is the value of a rule that could be followed: at most the EVSI but for Monte
Carlo error, equal to it where the regression holds, and never above the value of perfect information.

Assumed: draws are independent, and losses depend on the law and on what it misses as a function of the
configuration, not on the fluctuation of the run that was measured.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Self

import numpy as np

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.identify.sensitivity import normal_scores

FOLDS = 5
# Components of the losses, and how many of them get polynomials of the summaries.
COMPONENTS, CURVED = 6, 3
DEGREE = 2
# What a component must add to the variance of the losses to count.
SMALLEST = 1e-6
# Penalties tried, and squares that count as 0, as shares of the largest squared singular value.
PENALTIES = np.geomspace(1e-8, 10.0, 37)
SINGULAR = 1e-12
# Coefficients are looked at one by one, so that their curves may be finer.
CUBIC = 3
TINY = 1e-300


@dataclass(frozen=True, eq=False)
class DataValue:
    """What data are worth to a decision, nats."""

    # By how much each draw's loss is lower when its data are known: that of the decision that is best
    # without data, less that of the one chosen after them, (draws,)
    gains: Floats
    chosen: Ints  # the decision after each draw's data, (draws,)

    @property
    def value(self) -> float:
        """Expected value of the data, 0 where what they lead to is worse: they may be left aside."""
        return max(float(self.gains.mean()), 0.0)

    @property
    def error(self) -> float:
        """Monte Carlo standard error of the value."""
        return float(self.gains.std(ddof=1) / np.sqrt(self.gains.size))


@dataclass(frozen=True, eq=False)
class DecisionLosses:
    """Losses of every decision under every draw, made ready for any number of data to be valued.

    Examples
    --------
    Of two decisions, the data tell which is the better one:

    >>> generator = np.random.default_rng(0)
    >>> law = generator.standard_normal(2000)
    >>> information = DecisionLosses(np.stack([law, -law], axis=1)).value(law[:, None])
    >>> round(information.value, 1), round(float(np.abs(law).mean()), 1)
    (0.8, 0.8)
    """

    losses: Floats  # shape (draws, decisions)

    @cached_property
    def _folds(self) -> list["_Fold"]:
        return [_Fold.of(self.losses, *rows) for rows in _split(len(self.losses))]

    def value(self, data: Floats) -> DataValue:
        """Return what data are worth to the decision (see the module)."""
        gains, chosen = np.empty(len(data)), np.empty(len(data), dtype=np.int64)
        for fold in self._folds:
            rows = fold.test
            after = fold.decisions(data)
            gains[rows] = self.losses[rows, fold.before] - self.losses[rows, after]
            chosen[rows] = after
        return DataValue(gains, chosen)


@dataclass(frozen=True, eq=False)
class _Fold:
    """Draws to learn from and others, the decision without data, and the components of the losses.

    Losses above those of that decision are ``scores @ loadings + middle``.
    """

    train: Ints
    test: Ints
    before: int
    scores: Floats
    loadings: Floats
    middle: Floats

    @classmethod
    def of(cls, losses: Floats, train: Ints, test: Ints) -> Self:
        before = int(losses[train].mean(axis=0).argmin())
        differences = losses[train] - losses[train, before][:, None]
        middle = differences.mean(axis=0)
        centred = differences - middle
        square, axes = np.linalg.eigh(centred.T @ centred)
        large = square[-COMPONENTS:] > SMALLEST * max(float(square.sum()), TINY)
        kept = axes[:, -COMPONENTS:][:, large][:, ::-1]
        return cls(train, test, before, centred @ kept, kept.T, middle)

    def decisions(self, data: Floats) -> Ints:
        """Return the decision after the data of each of the other draws."""
        if not self.scores.shape[1]:
            # No decision is better in one draw than in another.
            return np.full(self.test.size, int(self.middle.argmin()))
        learnt, asked = _summaries(data[self.train], self.scores, data[self.test])

        def features(summaries: Floats) -> Floats:
            curved = _products(summaries[:, :CURVED], learnt[:, :CURVED], DEGREE)
            return np.hstack([curved, summaries[:, CURVED:]])

        scores = _regressed(features(learnt), self.scores, features(asked))
        return np.asarray((self.middle + scores @ self.loadings).argmin(axis=1))


@dataclass(frozen=True, eq=False)
class Information:
    """What data say about some quantities, shape (quantities,) each."""

    # Expected share of the variance of a quantity's normal score that the data take away; a little below 0
    # where they tell nothing
    share: Floats
    error: Floats  # its Monte Carlo standard error

    @property
    def nats(self) -> Floats:
        """A lower bound of the mutual information of quantity and data, ``-log(1 - share)/2``.

        A quantity and its normal score share the same information with the data, and given the data no
        distribution of that mean square is wider than the normal one.
        """
        return np.asarray(-0.5 * np.log1p(-np.clip(self.share, 0.0, 1.0 - 1e-12)))


def information(quantities: Floats, data: Floats) -> Information:
    """Return what data say of quantities, by the regressions of `DecisionLosses`, one quantity at a time.

    Examples
    --------
    Half signal, half noise takes half of the variance:

    >>> generator = np.random.default_rng(0)
    >>> signal, noise = generator.standard_normal((2, 4000))
    >>> information(np.exp(signal)[:, None], (signal + noise)[:, None]).share.round(1).tolist()
    [0.5]
    """
    scores = np.ascontiguousarray(normal_scores(quantities.T).T)
    left = np.empty_like(scores)
    for train, test in _split(len(scores)):
        learnt, asked = _summaries(data[train], scores[train], data[test])
        for column in range(scores.shape[1]):
            here = slice(column, column + 1)
            features = [_products(own[:, here], learnt[:, here], CUBIC) for own in (learnt, asked)]
            expected = _regressed(features[0], scores[train, here], features[1])
            left[test, here] = (scores[test, here] - expected) ** 2
    variance = scores.var(axis=0)
    taken = 1.0 - left / variance
    return Information(taken.mean(axis=0), taken.std(axis=0) / np.sqrt(len(taken)))


def _split(draws: int) -> Iterator[tuple[Ints, Ints]]:
    """Yield draws to learn from and the others, each draw among the others once.

    Every fold has draws of all chains and of all their lengths.
    """
    fold = np.arange(draws) % FOLDS
    for number in range(FOLDS):
        yield np.flatnonzero(fold != number), np.flatnonzero(fold == number)


def _summaries(data: Floats, targets: Floats, at: Floats) -> tuple[Floats, Floats]:
    """Return linear predictions of the targets for the draws themselves, and at other data.

    Each draw's own comes from a regression that has not seen it.
    """
    learnt = np.empty_like(targets)
    for train, test in _split(len(data)):
        learnt[test] = _regressed(data[train], targets[train], data[test])
    return learnt, _regressed(data, targets, at)


def _regressed(features: Floats, targets: Floats, at: Floats) -> Floats:
    """Return ridge predictions of each target, its penalty by generalised cross-validation."""
    centre, spread = features.mean(axis=0), features.std(axis=0)
    scaled = (features - centre) / np.where(spread > 0, spread, 1.0)
    middle = targets.mean(axis=0)
    # There are far fewer features than draws: their products are all that is wanted.
    square, axes = np.linalg.eigh(scaled.T @ scaled)
    square = np.where(square > SINGULAR * square[-1], square, 0.0)
    size = np.sqrt(np.where(square > 0, square, 1.0))
    aligned = axes.T @ (scaled.T @ (targets - middle)) * (square > 0)[:, None] / size[:, None]
    keep = square / (square + PENALTIES[:, None] * max(float(square[-1]), TINY))
    total = ((targets - middle) ** 2).sum(axis=0)
    # Residual sum of squares and degrees of freedom of each penalty, from what the smoother keeps.
    explained = (2.0 * keep - keep**2) @ aligned**2
    freedom = 1.0 - (1.0 + keep.sum(axis=1)) / len(features)
    best = ((total - explained) / freedom[:, None] ** 2).argmin(axis=0)
    slopes = axes @ (keep[best].T / size[:, None] * aligned)
    return np.asarray(middle + ((at - centre) / np.where(spread > 0, spread, 1.0)) @ slopes)


def _products(values: Floats, reference: Floats, degree: int) -> Floats:
    """Return all products of up to `degree` columns, standardised by a reference."""
    spread = reference.std(axis=0)
    scaled = (values - reference.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    columns = [
        np.prod(scaled[:, list(factors)], axis=1)
        for order in range(1, degree + 1)
        for factors in combinations_with_replacement(range(scaled.shape[1]), order)
    ]
    return np.stack(columns, axis=1)

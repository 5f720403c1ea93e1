"""Mean, spread and quantiles of losses at points, over posterior draws: the one way to bands.

Given a posterior draw the loss at a point is normal: about the law's curve in a new run, about what its
neighbours tell in a known one. So mean and sd of the mixture over draws are had exactly, and for its
quantiles every draw is paired with one standard normal number. Where much is forecast the law is evaluated
in some of the draws, which determine the others within 1e-5 nats (`bayes_cpt.forecast.skeleton`).
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property
from statistics import NormalDist
from typing import NamedTuple, Self

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.forecast.columns import Bases
from bayes_cpt.forecast.law_draws import CurvePoints, LawDraws
from bayes_cpt.forecast.plans import observed_curves
from bayes_cpt.forecast.skeleton import FEWEST, Skeleton, spread_out
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.laws.areas import AreaForm
from bayes_cpt.model.points import Curves
from bayes_cpt.model.simulate import known_moments

# What is found at each point.
SUMMARY = ("mean", "sd", "median", "lower", "upper")
# Points whose losses are in memory at once.
TILE = 256
# Draws in which the law is evaluated at once: what is computed of them stays in the cache of a core.
BLOCK = 1000
# Points of a validation set that tell which draws determine the others: no more than a third of all.
SAMPLED, LARGEST_SHARE = 450, 1 / 3
# Of fewer points than that the law is evaluated in all draws.
LEAST = 30


def paired_normals(draws: int, seed: int) -> Floats:
    """Return a standard normal number for each draw: the middles of equal masses, in random order.

    Parameters
    ----------
    draws : int
    seed : int
        Of the order.
    """
    normal = NormalDist()
    middles = np.array([normal.inv_cdf((i + 0.5) / draws) for i in range(draws)])
    return np.random.default_rng(seed).permutation(middles)


class PointLosses(NamedTuple):
    """Losses at points in the draws of one law.

    Parameters
    ----------
    mean, variance : ndarray, shape (points,)
    draws : int
    losses : callable
        Returns those at all points, shape (points, draws), each time anew.
    """

    mean: Floats
    variance: Floats
    draws: int
    losses: Callable[[], Floats]


@dataclass(frozen=True, eq=False)
class _Few:
    """What is evaluated in few draws: the law's losses, or the sd of a new run's about them.

    Parameters
    ----------
    law : LawDraws
        In the draws of the skeleton.
    skeleton : Skeleton
    """

    law: LawDraws
    skeleton: Skeleton

    @classmethod
    def of(cls, law: LawDraws, sample: Floats) -> "Self | None":
        skeleton = Skeleton.of(sample)
        return None if skeleton is None else cls(law.take(skeleton.draws), skeleton)

    @cached_property
    def mean(self) -> Floats:
        """The mean of the weights, shape (chosen,)."""
        return np.asarray(self.skeleton.weights.mean(axis=1))

    @cached_property
    def covariance(self) -> Floats:
        """That of the weights over draws, shape (chosen, chosen)."""
        return np.atleast_2d(np.cov(self.skeleton.weights))

    @cached_property
    def squares(self) -> Floats:
        """Mean products of the weights, shape (chosen, chosen)."""
        weights = self.skeleton.weights
        return np.asarray(weights @ weights.T / weights.shape[1])


class _Spanned(NamedTuple):
    """What gives losses in all draws from few, on one validation set.

    Parameters
    ----------
    losses : _Few
    noise : _Few or None
        None where the expected loss is asked for.
    product : ndarray, shape (chosen of both + 1, draws)
        What `Skeleton.factors` of the losses, and the sd in the chosen draws, give losses in all draws by.
    """

    losses: _Few
    noise: _Few | None
    product: Floats


@dataclass(frozen=True, eq=False)
class Marginals:
    """Posterior draws of one law, and what summarises the losses in them point by point.

    Parameters
    ----------
    posterior : Posterior
        Of one law (see `Posterior.shares`).
    parameters : dict of str to ndarray, shape (draws, ...)
    kind, seed, interval
        As in `bayes_cpt.forecast.bands.bands`.
    """

    posterior: Posterior
    parameters: dict[str, Floats]
    kind: str
    seed: int
    interval: float
    _spanned: dict[int, _Spanned] = field(default_factory=dict, repr=False)

    @cached_property
    def law(self) -> LawDraws:
        """The law in each draw."""
        frame = self.posterior.frame
        coefficients = frame.law.coefficients(self.parameters, np)
        bases = Bases.of(frame.area_form.around(coefficients), coefficients)
        return LawDraws(frame, self.parameters, coefficients, bases)

    @cached_property
    def blocks(self) -> list[LawDraws]:
        """The law in some draws at a time."""
        starts = range(0, self.draws, BLOCK)
        return [self.law.take(slice(start, start + BLOCK)) for start in starts]

    def _blocked(self, evaluate: Callable[[LawDraws], Floats]) -> Floats:
        return np.concatenate([evaluate(block) for block in self.blocks], axis=1)

    @cached_property
    def form(self) -> AreaForm:
        """How areas are reckoned, around these draws: fewer nodes than for all that the prior allows."""
        return self.posterior.frame.area_form.around(self.law.coefficients)

    @property
    def draws(self) -> int:
        """How many there are."""
        return self.law.draws

    @cached_property
    def normals(self) -> Floats:
        """The standard normal number of each draw."""
        return paired_normals(self.draws, self.seed)

    def prepare(self, sample: Callable[[], Curves], points: int, pool: Executor) -> None:
        """Compute what all curves share, and choose the draws that determine the others.

        Parameters
        ----------
        sample : callable
            Returns some of the curves that are forecast, with areas for `form`; not called where all draws
            are evaluated anyway.
        points : int
            How many are forecast in all.
        pool : Executor
            Of threads.
        """
        _ = self.blocks, self.normals
        share = min(SAMPLED, int(LARGEST_SHARE * points / len(self.posterior.frame.domains)))
        if self.kind == "known_run" or self.draws < FEWEST or share < LEAST:
            return
        by_domain: dict[int, list[CurvePoints]] = {}
        for curve in self._curve_points(sample()):
            by_domain.setdefault(curve.domain_index, []).append(curve)
        samples = [
            [curve.take(spread_out(curve.rows.size, -(-share // len(curves)))) for curve in curves]
            for curves in by_domain.values()
        ]
        for domain, spanned in zip(by_domain, pool.map(self._span, samples), strict=True):
            if spanned is not None:
                self._spanned[domain] = spanned

    def _span(self, sample: Sequence[CurvePoints]) -> _Spanned | None:
        losses = _Few.of(self.law, np.concatenate([self._losses(points) for points in sample]))
        if losses is None:
            return None
        parts, noise = [losses.skeleton.product], None
        if self.kind == "new_run":
            noise = _Few.of(self.law, np.concatenate([self._noise(points) for points in sample]))
            if noise is None:
                return None
            parts.append((noise.skeleton.weights * self.normals).astype(np.float32))
        return _Spanned(losses, noise, np.concatenate(parts))

    def _curve_points(self, curves: Curves) -> list[CurvePoints]:
        design = self.posterior.frame.residual_design(curves)
        return [CurvePoints.of(curves, design, curve) for curve in range(len(curves.curves))]

    def at(self, curves: Curves) -> list[PointLosses]:
        """Return the losses at the points of some curves, in parts that together are all of them.

        Parameters
        ----------
        curves : Curves
            With areas for `form`.
        """
        if self.kind == "known_run":
            return [self._of_known(curves)]
        return [
            self._of_few(points) or self._of_all(points)
            for curve in self._curve_points(curves)
            for points in curve.tiles(TILE)
        ]

    def _of_known(self, curves: Curves) -> PointLosses:
        observed = observed_curves(self.posterior, curves)
        mean, variance = known_moments(self.posterior.frame, self.parameters, curves, observed)
        loss = (mean + np.sqrt(variance) * self.normals[:, None]).T
        between = mean.var(axis=0, ddof=1) + variance.mean(axis=0)
        return PointLosses(mean.mean(axis=0), between, self.draws, loss.copy)

    def _losses(self, points: CurvePoints) -> Floats:
        return self._blocked(lambda block: block.losses(points))

    def _noise(self, points: CurvePoints) -> Floats:
        return self._blocked(lambda block: block.noise(points))

    def _of_all(self, points: CurvePoints) -> PointLosses:
        """Return the losses at points of a curve from the law in all draws."""
        losses = self._losses(points)
        mean, variance = losses.mean(axis=1), losses.var(axis=1, ddof=min(1, self.draws - 1))
        if self.kind == "new_run":
            sd = self._noise(points)
            variance = variance + (sd**2).mean(axis=1)
            losses = losses + sd * self.normals
        return PointLosses(mean, variance, self.draws, losses.copy)

    def _of_few(self, points: CurvePoints) -> PointLosses | None:
        """Return the same from the law in few draws, or None where these do not determine the others."""
        spanned = self._spanned.get(points.domain_index)
        if spanned is None:
            return None
        few, noise, product = spanned
        losses = few.law.losses(points)
        if few.skeleton.off(losses).any():
            return None
        parts = [few.skeleton.factors(losses)]
        losses = few.skeleton.chosen(losses)
        mean, variance = losses @ few.mean, _quadratic(losses, few.covariance)
        if noise is not None:
            sd = noise.law.noise(points)
            if noise.skeleton.off(sd).any():
                return None
            sd = noise.skeleton.chosen(sd)
            variance = variance + _quadratic(sd, noise.squares)
            parts.append(sd.astype(np.float32))
        # A loss is linear in the law's and in the sd: one product gives both.
        values = np.concatenate(parts, axis=1)
        return PointLosses(mean, variance, self.draws, lambda: values @ product)


def _quadratic(values: Floats, matrix: Floats) -> Floats:
    return np.asarray(((values @ matrix) * values).sum(axis=1))


def summary(laws: Sequence[Marginals], curves: Sequence[Curves]) -> Floats:
    """Return `SUMMARY` at every point of some curves over the draws of all laws, shape (points, 5).

    Parameters
    ----------
    laws : sequence of Marginals
    curves : sequence of Curves
        The same points, as each law takes them.
    """
    parts = zip(
        *(law.at(law_curves) for law, law_curves in zip(laws, curves, strict=True)), strict=True
    )
    half = laws[0].interval / 2
    fractions = np.array([0.5, 0.5 - half, 0.5 + half])
    return np.concatenate([_summary(part, fractions) for part in parts])


def _summary(laws: Sequence[PointLosses], fractions: Floats) -> Floats:
    shares = np.array([law.draws for law in laws]) / sum(law.draws for law in laws)
    means = np.stack([law.mean for law in laws])
    mean = shares @ means
    variance = shares @ (np.stack([law.variance for law in laws]) + (means - mean) ** 2)
    losses = [law.losses() for law in laws]
    pooled = losses[0] if len(losses) == 1 else np.concatenate(losses, axis=1)
    quantiles = _quantiles(pooled, fractions)
    return np.stack([mean, np.sqrt(np.maximum(variance, 0.0)), *quantiles], axis=1)


def _quantiles(losses: Floats, fractions: Floats) -> Floats:
    """Return quantiles of each row as `numpy.quantile` interpolates them, shape (quantiles, rows).

    Rows are sorted in place: NumPy does that in vector instructions, and looks for several places in a row
    one number at a time.
    """
    losses.sort(axis=1)
    place = fractions * (losses.shape[1] - 1)
    below = place.astype(np.int64)
    above = np.minimum(below + 1, losses.shape[1] - 1)
    low, high = (losses[:, rank].astype(np.float64) for rank in (below, above))
    return np.asarray((low + (place - below) * (high - low)).T)

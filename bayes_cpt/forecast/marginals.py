"""Mean, spread and quantiles of losses at points, over posterior draws: the one way to bands.

Given a posterior draw the loss at a point is normal: about the law's curve in a new run, about what its
neighbours tell in a known one. So mean and sd of the mixture over draws are had exactly, and for its
quantiles every draw is paired with one standard normal number.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any, NamedTuple, Self

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.forecast.columns import Bases, Columns
from bayes_cpt.forecast.plans import observed_curves
from bayes_cpt.forecast.skeleton import Skeleton, sample_of
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.laws.areas import AreaForm
from bayes_cpt.laws.law import gather
from bayes_cpt.model.misfit.base_level import kept_level, unmeasured_level
from bayes_cpt.model.points import Curves
from bayes_cpt.model.residuals import Placed, ResidualDesign, predictive_variance
from bayes_cpt.model.setup import Frame
from bayes_cpt.model.simulate import known_moments

# What is found at each point.
SUMMARY = ("mean", "sd", "median", "lower", "upper")
# Points whose losses are in memory at once: they stay in the cache of a core.
TILE = 16
# Draws in which the law is evaluated at once, for the same reason.
BLOCK = 1000


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


@dataclass(frozen=True, eq=False)
class LawDraws:
    """The law in some posterior draws, to be evaluated at points of a curve.

    Parameters
    ----------
    frame : Frame
    parameters, coefficients : dict of str to ndarray, shape (draws, ...)
        What was sampled, and the law's coefficients.
    bases : Bases
        Of the series of the areas, in each draw.
    """

    frame: Frame
    parameters: dict[str, Floats]
    coefficients: dict[str, Floats]
    bases: Bases

    def take(self, draws: Any) -> Self:
        """Return the law in some of the draws.

        Parameters
        ----------
        draws : slice or ndarray of int
            Which of them.
        """
        parameters, coefficients = (
            {name: value[draws] for name, value in values.items()}
            for values in (self.parameters, self.coefficients)
        )
        bases = self.bases.take(draws)
        return replace(self, parameters=parameters, coefficients=coefficients, bases=bases)

    @property
    def draws(self) -> int:
        """How many there are."""
        return int(self.bases.level.shape[1])

    def losses(self, curves: Curves, curve: int, rows: Any) -> Floats:
        """Return the law's losses at points of a curve, shape (points, draws).

        Parameters
        ----------
        curves : Curves
            What is forecast.
        curve : int
            Which of them.
        rows : slice or ndarray of int
            Which points of all curves, all of them of this curve.
        """
        points, bases, law = curves.points, curves.bases, self.frame.law
        at = Columns.of(points, rows, self.bases)
        base = Columns.of(bases, np.array([curve]), self.bases)
        coefficients = gather(at, self.coefficients, np)
        offset: Any = 0.0
        if bases.base_known[curve]:
            offset = bases.loss[curve] - law.loss(base, coefficients, np)
        return np.broadcast_to(at.losses(law, coefficients, offset), (rows.size, self.draws))

    def noise(self, curves: Curves, curve: int, rows: Any, design: ResidualDesign) -> Floats:
        """Return the sd of a new run's loss about the law's at points of a curve, (points, draws).

        Parameters
        ----------
        curves : Curves
            What is forecast.
        curve : int
            Which of them.
        rows : slice or ndarray of int
            Which points of all curves, all of them of this curve.
        design : ResidualDesign
            Of the points of all curves.
        """
        at: Any = Columns.of(curves.points, rows, self.bases)
        named = curves.curves[curve]
        pretraining = float(not named.continual)
        scales = self.frame.residual_scales(at, pretraining, self.parameters, self.coefficients, np)
        if named.continual and not named.base_known and named.base_steps:
            level = unmeasured_level(
                self.frame, self.parameters, at.domain_index, named.base_steps, named.base_rate
            )
            kept = kept_level(self.frame, at, self.coefficients)
            scales = replace(scales, offset=level * kept)
        columns = (design.floating, design.anchored, design.beyond)
        misfit = (design.ramps[rows] ** 2).sum(axis=1)[:, None]
        placed = Placed(scales, *(own[rows][:, None] for own in (curves.elapsed, *columns)))
        variance = predictive_variance(placed, misfit, np)
        return np.broadcast_to(np.sqrt(variance), (rows.size, self.draws))


class PointLosses(NamedTuple):
    """Losses at points in the draws of one law.

    Parameters
    ----------
    mean, variance : ndarray, shape (points,)
    draws : int
    losses : callable
        Returns those at a slice of the points, shape (points, draws).
    """

    mean: Floats
    variance: Floats
    draws: int
    losses: Callable[[slice], Floats]


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

    @cached_property
    def law(self) -> LawDraws:
        """The law in each draw."""
        frame = self.posterior.frame
        coefficients = frame.law.coefficients(self.parameters, np)
        bases = Bases.of(frame.area_form.around(coefficients), coefficients)
        return LawDraws(frame, self.parameters, coefficients, bases)

    @cached_property
    def blocks(self) -> list[LawDraws]:
        """The law in some draws at a time: what is computed of them stays in the cache of a core."""
        starts = range(0, self.draws, BLOCK)
        return [self.law.take(slice(start, start + BLOCK)) for start in starts]

    def _blocked(self, evaluate: Callable[[LawDraws], Floats]) -> Floats:
        return np.concatenate([evaluate(block) for block in self.blocks], axis=1)

    @cached_property
    def sample(self) -> LawDraws:
        """The law in the draws in which the points that determine a curve are chosen."""
        return self.law.take(sample_of(self.parameters))

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

    def prepare(self) -> None:
        """Compute what all curves share: threads need not wait for each other then."""
        _ = self.blocks, self.sample, self.normals

    def at(self, curves: Curves) -> list[PointLosses]:
        """Return the losses at the points of some curves, in parts that together are all of them.

        Parameters
        ----------
        curves : Curves
            With areas for `form`.
        """
        if self.kind == "known_run":
            return [self._of_known(curves)]
        design = self.posterior.frame.residual_design(curves)
        return [self._of_new(curves, curve, design) for curve in range(len(curves.curves))]

    def _of_known(self, curves: Curves) -> PointLosses:
        observed = observed_curves(self.posterior, curves)
        mean, variance = known_moments(self.posterior.frame, self.parameters, curves, observed)
        loss = (mean + np.sqrt(variance) * self.normals[:, None]).T
        between = mean.var(axis=0, ddof=1) + variance.mean(axis=0)
        return PointLosses(mean.mean(axis=0), between, self.draws, lambda rows: loss[rows])

    def _of_new(self, curves: Curves, curve: int, design: ResidualDesign) -> PointLosses:
        rows = np.arange(int(design.first[curve]), int(design.last[curve]))
        law = Skeleton.of(self.sample.losses(curves, curve, rows))
        nodes = self._blocked(lambda block: block.losses(curves, curve, rows[law.rows]))
        mean = nodes.mean(axis=1)
        apart = nodes - mean[:, None]
        spread = apart @ apart.T / max(self.draws - 1, 1)
        variance = np.einsum("pi,ij,pj->p", law.weights, spread, law.weights, optimize=True)
        weights, values = law.weights, nodes
        if self.kind == "new_run":
            noise = Skeleton.of(self.sample.noise(curves, curve, rows, design))
            sd = self._blocked(lambda block: block.noise(curves, curve, rows[noise.rows], design))
            second = sd @ sd.T / self.draws
            variance = variance + np.einsum(
                "pi,ij,pj->p", noise.weights, second, noise.weights, optimize=True
            )
            # A loss is linear in the law's and in the sd: one product gives both at all points.
            weights = np.concatenate([weights, noise.weights], axis=1)
            values = np.concatenate([values, sd * self.normals])
        mean_loss = law.weights @ mean
        return PointLosses(mean_loss, variance, self.draws, lambda chosen: weights[chosen] @ values)


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
    quantiles = _quantiles(laws, fractions)
    return np.stack([mean, np.sqrt(np.maximum(variance, 0.0)), *quantiles], axis=1)


def _quantiles(laws: Sequence[PointLosses], fractions: Floats) -> Floats:
    """Return quantiles of all draws, shape (quantiles, points), some points at a time."""
    from bayes_cpt.forecast.quantiles import fill_quantiles

    points = laws[0].mean.size
    quantiles = np.empty((fractions.size, points))
    for start in range(0, points, TILE):
        tile = slice(start, start + TILE)
        losses = [law.losses(tile) for law in laws]
        pooled = losses[0] if len(losses) == 1 else np.concatenate(losses, axis=1)
        fill_quantiles(np.ascontiguousarray(pooled), fractions, quantiles[:, tile])
    return quantiles

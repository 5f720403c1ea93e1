"""The law in some posterior draws, at points of the curves of a plan."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.forecast.columns import Bases, Columns, FixedColumns
from bayes_cpt.laws.law import gather
from bayes_cpt.model.misfit.base_level import kept_level, unmeasured_level
from bayes_cpt.model.points import Curve, Curves
from bayes_cpt.model.residuals import Placed, ResidualDesign, predictive_variance
from bayes_cpt.model.setup import Frame


@dataclass(frozen=True, eq=False)
class CurvePoints:
    """Some points of one of several curves.

    Parameters
    ----------
    curves : Curves
        What is forecast.
    design : ResidualDesign
        Of all their points.
    curve : int
        Which of them.
    rows : ndarray of int, shape (points,)
        Which points of all curves, all of them of this curve.
    """

    curves: Curves
    design: ResidualDesign
    curve: int
    rows: Ints

    @classmethod
    def of(cls, curves: Curves, design: ResidualDesign, curve: int) -> Self:
        """Return all points of one of the curves.

        Parameters
        ----------
        curves : Curves
        design : ResidualDesign
        curve : int
        """
        rows = np.arange(int(design.first[curve]), int(design.last[curve]))
        return cls(curves, design, curve, rows)

    def take(self, places: Ints) -> Self:
        """Return some of the points.

        Parameters
        ----------
        places : ndarray of int
            Their places among these.
        """
        return replace(self, rows=self.rows[places])

    def tiles(self, size: int) -> Iterator[Self]:
        """Yield the points, at most so many at a time.

        Parameters
        ----------
        size : int
        """
        for start in range(0, self.rows.size, size):
            yield replace(self, rows=self.rows[start : start + size])

    @property
    def domain_index(self) -> int:
        """Which validation set the curve is of."""
        return int(self.curves.points.domain_index[self.rows[0]])

    @property
    def named(self) -> Curve:
        """What is known of the curve beside its points."""
        return self.curves.curves[self.curve]

    @cached_property
    def columns(self) -> FixedColumns:
        """The points, as the law takes them."""
        return FixedColumns.of(self.curves.points, self.rows)

    @cached_property
    def base(self) -> FixedColumns:
        """The measured start of the curve, as the law takes it."""
        return FixedColumns.of(self.curves.bases, np.array([self.curve]))

    @property
    def base_loss(self) -> float | None:
        """The loss at that start, nats/token; None where it was not measured."""
        bases = self.curves.bases
        return float(bases.loss[self.curve]) if bases.base_known[self.curve] else None

    @property
    def placed(self) -> list[Floats]:
        """Steps inside the curve's phase, and what `Placed` says of points, shape (points, 1) each."""
        design = self.design
        every = (self.curves.elapsed, design.floating, design.anchored, design.beyond)
        return [own[self.rows][:, None] for own in every]

    @property
    def innovations(self) -> Floats:
        """How many innovations of the misfit the variance at each point holds, shape (points, 1)."""
        return np.asarray((self.design.ramps[self.rows] ** 2).sum(axis=1)[:, None])


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

    def losses(self, points: CurvePoints) -> Floats:
        """Return the law's losses at points of a curve, shape (points, draws).

        Parameters
        ----------
        points : CurvePoints
        """
        law, base_loss = self.frame.law, points.base_loss
        at = Columns.of(points.columns, self.bases)
        coefficients = gather(at, self.coefficients, np)
        offset: Any = 0.0
        if base_loss is not None:
            base = Columns.of(points.base, self.bases)
            offset = base_loss - law.loss(base, coefficients, np)
        return np.broadcast_to(at.losses(law, coefficients, offset), (points.rows.size, self.draws))

    def noise(self, points: CurvePoints) -> Floats:
        """Return the sd of a new run's loss about the law's at points of a curve, (points, draws).

        Parameters
        ----------
        points : CurvePoints
        """
        at: Any = Columns.of(points.columns, self.bases)
        named = points.named
        pretraining = float(not named.continual)
        scales = self.frame.residual_scales(at, pretraining, self.parameters, self.coefficients, np)
        if named.continual and not named.base_known and named.base_steps:
            level = unmeasured_level(
                self.frame, self.parameters, at.domain_index, named.base_steps, named.base_rate
            )
            kept = kept_level(self.frame, at, self.coefficients)
            scales = replace(scales, offset=level * kept)
        variance = predictive_variance(Placed(scales, *points.placed), points.innovations, np)
        return np.broadcast_to(np.sqrt(variance), (points.rows.size, self.draws))

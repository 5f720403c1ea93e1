"""Residuals of a curve: what the law leaves, its likelihood in O(points), and draws of it.

Along each curve the measured loss is the law's curve plus

- *fluctuation*: an Ornstein-Uhlenbeck process in steps (continuous-time AR(1)) whose size follows the
  learning rate. Validation sets are the same at every measurement, so this is the model moving about,
  not measurement noise: it is correlated over neighbouring checkpoints and shrinks as the run anneals.
- *misfit*: the law is an approximation, and its error changes on the scale of the run itself. An
  autoregression over evenly spread values of ``x = log(1 + t/t0)``, interpolated between them, starts at 0
  at the base's measured loss. Interpolated values are stretched to the variance that an Ornstein-Uhlenbeck
  process in x has there, which has no knots: ``(1 - m^2x)/(1 - m²)`` where an e-fold keeps the share m.
  Its size is learnt from all runs and is larger where the shift is larger.
- *extrapolation*: beyond the last step that was measured of its run, or of its phase where the run is new,
  the law's slope is off, drawn anew for each curve: in PT by a share of itself, in CPT by a multiple of the
  misfit. So is the effect of a peak above the highest of PT. No fitted loss tells it.
- *offset*: the unknown level of a curve that does not start at a measured loss (PT runs). A PT run that
  leaves a measured one starts at its loss and takes on a level of its own, `sqrt(1 - exp(-2x))` of it.

Misfit and offset are linear in Gaussian weights, which the likelihood integrates out (Woodbury).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from bayes_cpt.model.discrepancy import (
    KNOTS_CPT,
    KNOTS_PT,
    knot_count,
    knots_beside,
    misfit_height,
    misfit_position,
    misfit_ramps,
    misfit_walk,
)
from bayes_cpt.model.law_table import ResidualTable
from bayes_cpt.model.points import Curve, Curves
from bayes_cpt.study.study import Study

# Misfit is counted from this share of the reference CPT steps: the law is worst in the first per cents of
# a run, so its walk must have taken several steps by then.
ONSET_SHARE = 0.002
# How many e-folds of steps an e-fold of peak counts as, above the highest measured one: near the edge of
# stability losses rise steeply, and lower peaks do not tell where it lies (docs/results/misfit.md).
PEAK_FOLDS = 24.0


@dataclass(frozen=True)
class Studied:
    """The last steps and the highest peak that a study measured: beyond them the law extrapolates."""

    pretraining: float = np.inf
    continual: float = np.inf
    runs: Mapping[str, float] = field(default_factory=dict)
    peak: float = np.inf  # of PT runs

    @classmethod
    def of(cls, study: Study) -> Self:
        """Return those of a study; inf of a phase of which it measured nothing."""
        phases = study.losses["run"].map({run.name: run.phase for run in study.runs})
        last = study.losses.groupby(phases)["step"].max()
        begun = study.losses[study.losses["step"] > 0]
        runs = begun.groupby("run")["step"].max().astype(float).to_dict()
        peaks = [run.schedule.peak for run in study.pretraining_runs if run.name in runs]
        peak = max(peaks, default=np.inf)
        return cls(float(last.get("pt", np.inf)), float(last.get("cpt", np.inf)), runs, peak)

    def last(self, curve: Curve) -> float:
        """Return the last step measured of a curve's run; of its phase where that run is new."""
        return self.runs.get(curve.run, self.continual if curve.continual else self.pretraining)


def beyond_studied(curves: Curves, studied: Studied) -> Any:
    """Return by how many e-folds of steps points are beyond what was measured, shape (points,).

    In PT an e-fold of peak above the highest counts as `PEAK_FOLDS` of them.
    """
    points, in_pt = curves.points, curves.in_pretraining
    last = np.array([studied.last(curve) for curve in curves.curves])[points.curve_index]
    later = np.log(np.maximum(np.where(in_pt > 0, points.steps, curves.elapsed) / last, 1.0))
    above = points.log_peak_pt + np.log(points.form.reference_rate) - np.log(studied.peak)
    return np.hypot(later, PEAK_FOLDS * in_pt * np.maximum(above, 0.0))


@dataclass(frozen=True, eq=False)
class ResidualDesign:
    """What the residual likelihood needs beside the law's curve: a number of each point, unless said so."""

    steps: Any  # since the curve started (`Curves.elapsed`)
    # Steps since the previous point of the curve, or since the measured base; inf at the first point of a
    # curve that starts nowhere
    gap: Any
    # Where a point lies among the knots of the misfit; 0 at the start, 1 at the first knot
    position: Any
    # Share of the unknown level that a point has: 1 in curves that start at no measured loss, 0 in CPT
    # curves that do, and rising from 0 to 1 in PT curves that branch off another one
    floating: Any
    # E-folds of steps beyond what was measured (`beyond_studied`)
    beyond: Any
    # Range of the points of each curve, `last` exclusive, of shape (curves,)
    first: Any
    last: Any
    # Share of the misfit at one knot that is carried to the next, and the sd of what is added there as a
    # share of the misfit's size, of shape (curves,)
    carried: Any
    innovation: Any
    # Where a point lies among the knots beside points of its curve: the others tell the likelihood nothing.
    # 0 at the start, 1 at the first of them.
    place: Any
    # What the interpolated misfit is stretched by at a point (`misfit_height`)
    height: Any
    knot_first: Any  # range of these knots of each curve in the next two, (curves + 1,)
    # Like `carried` and `innovation` from one of these knots to the next, the misfit at each in units of
    # its own innovation, of shape (knots beside points,)
    knot_carried: Any
    knot_innovation: Any
    knots: int  # of the misfit

    @property
    def rows(self) -> list[slice]:
        """The points of each curve."""
        return [slice(*ends) for ends in zip(self.first.tolist(), self.last.tolist(), strict=True)]

    @cached_property
    def ramps(self) -> Any:
        """What each innovation of the misfit's autoregression adds at a point, shape (points, knots)."""
        counts = self.last - self.first
        size = np.repeat(self.innovation, counts) * self.height
        ramps = misfit_ramps(self.position, self.knots, np.repeat(self.carried, counts))
        return np.asarray(size[:, None] * ramps)


def residual_design(
    curves: Curves,
    reference_steps: float,
    table: ResidualTable,
    studied: Studied,
    last_step: float | None = None,
) -> ResidualDesign:
    """Return the design of the residuals of some curves.

    Knots of the misfit reach up to `last_step`, the last of the points unless given.
    """
    points = curves.points
    onset = ONSET_SHARE * reference_steps
    follows = np.r_[False, np.diff(points.curve_index) == 0]
    steps = curves.elapsed
    before = np.where(follows, np.r_[0.0, steps[:-1]], 0.0)
    anchored = points.base_known > 0
    gap = np.where(follows | anchored, steps - before, np.inf)
    pretraining = np.array([not curve.continual for curve in curves.curves])
    per_fold = np.where(pretraining, KNOTS_PT, KNOTS_CPT)
    in_cpt = misfit_walk(table.misfit_memory, KNOTS_CPT)
    in_pt = misfit_walk(table.misfit_memory_pt, KNOTS_PT)
    walks = np.where(pretraining[:, None], in_pt, in_cpt)
    reach = float(steps.max()) if last_step is None else last_step
    position = misfit_position(steps, onset, per_fold[points.curve_index])
    edges = np.searchsorted(points.curve_index, np.arange(len(curves.curves) + 1))
    first, last = edges[:-1], edges[1:]
    beside = [
        knots_beside(position[start:stop], *walk)
        for start, stop, walk in zip(first, last, walks, strict=True)
    ]
    places, links, sizes = (np.concatenate(column) for column in zip(*beside, strict=True))
    return ResidualDesign(
        steps=steps,
        gap=gap,
        position=position,
        floating=level_share(steps, onset, anchored, points.branched),
        beyond=beyond_studied(curves, studied),
        first=first,
        last=last,
        carried=walks[:, 0],
        innovation=walks[:, 1],
        place=places,
        height=misfit_height(position, walks[points.curve_index, 0]),
        knot_first=np.cumsum([0, *(column[1].size for column in beside)], dtype=np.int64),
        knot_carried=links,
        knot_innovation=sizes,
        knots=knot_count(misfit_position(reach, onset, per_fold)),
    )


def level_share(steps: Any, onset: float, anchored: Any, branched: Any) -> Any:
    """Return the share of the unknown level of its curve that each point has, so many steps from the start.

    A curve is anchored that starts at a measured loss, branched if it leaves a PT run there.
    """
    # With exp(-x) = onset/(onset + steps) this is sqrt(1 - exp(-2x)).
    risen = np.sqrt(1.0 - (onset / (onset + steps)) ** 2)
    return np.where(anchored, risen * branched, 1.0)


@dataclass(frozen=True)
class Scales:
    """Sizes of the residual parts at each point, shape (..., points) each."""

    fluctuation: Any  # sd of the fluctuation, nats/token
    memory: Any  # its correlation time, steps
    misfit: Any  # sd of an innovation of the misfit's autoregression, nats/token
    offset: Any  # sd of the unknown level, nats/token; 0 where the level is known
    extrapolation: Any  # sd of the extrapolation's error per e-fold of steps, nats/token


class PredictiveParts(NamedTuple):
    """What the variance of a loss of a curve that was not measured is the sum of, (nats/token) squared."""

    # Of a single run about its slow course; it would not come again in a run of the same configuration
    fluctuation: Any
    misfit: Any  # of what the law misses
    extrapolation: Any  # of what it misses beyond the studied steps
    level: Any  # of the unknown level of a curve that starts at no measured loss


def predictive_parts(
    sizes: Scales, steps: Any, floating: Any, anchored: Any, beyond: Any, misfit: Any, xp: Any
) -> PredictiveParts:
    """Return the parts of the variance of a loss of a curve that was not measured, about the law's curve.

    The one statement of the residual model of a new curve: fluctuation, misfit, level and extrapolation.
    ``steps``, ``floating`` and ``beyond`` are those of `ResidualDesign`, ``anchored`` is 1 where a curve
    starts at a measured loss, ``misfit`` the variance of one of size 1; their shapes broadcast to one.
    """
    # Where a curve starts at a measured loss it does not fluctuate yet.
    started = anchored * xp.exp(-(steps + steps) / sizes.memory)
    return PredictiveParts(
        sizes.fluctuation * sizes.fluctuation * (1.0 - started),
        sizes.misfit * sizes.misfit * misfit,
        sizes.extrapolation * sizes.extrapolation * beyond * beyond,
        sizes.offset * sizes.offset * floating * floating,
    )

"""The paper's method given our law: what the posterior adds beyond the law itself.

Huber loss on the log of the loss, many starts, residual bootstrap, as `bayes_cpt.validate.baselines`
does with the printed law, but on the points, areas and terms of a model of this package. Its priors only
say where starts are drawn and how far a parameter may go.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import least_squares

from bayes_cpt.arrays import Floats
from bayes_cpt.model.bases import for_base
from bayes_cpt.model.points import Curves, last_pretraining_step, reference_of
from bayes_cpt.model.setup import BoundModel, Element, elements, fitted_setup
from bayes_cpt.model.spec import ModelSpec
from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study
from bayes_cpt.validate.baselines import (
    HUBER_DELTA,
    REFITS,
    RESIDUALS_PER_REFIT,
    STARTS,
)
from bayes_cpt.validate.folds import Question
from bayes_cpt.validate.held_out import Answer

OUR_AREAS = "our areas"
# How far from its centre a parameter may go, in the units of its prior's spread.
REACH = 6.0
# Of differences, in the same units.
STEP = 1e-4


def answer(question: Question, seed: int, *, spec: ModelSpec) -> Answer:
    """Answer by Huber loss and residual bootstrap on the law of a model."""
    generator = np.random.default_rng(seed)
    study, points = question.study, question.points
    draws = np.empty((REFITS * RESIDUALS_PER_REFIT, len(points)))
    for domain in dict.fromkeys(points["domain"]):
        here = np.flatnonzero(points["domain"] == domain)
        wanted = points.iloc[here]
        draws[:, here] = _bootstrap(spec, study, question.plan, wanted, domain, generator)
    return Answer(draws)


@dataclass(frozen=True, eq=False)
class PointFit:
    """The law of one validation set, fitted to a study.

    Parameters
    ----------
    frame : BoundModel
        Of the one validation set.
    free : list of Element
        What is fitted.
    fitted : Curves
        The points.
    best : ndarray, shape (free,)
        In spreads from the priors' centres.
    """

    frame: BoundModel
    free: list[Element]
    fitted: Curves
    best: Floats

    @classmethod
    def of(
        cls,
        spec: ModelSpec,
        study: Study,
        domain: str,
        generator: np.random.Generator,
        starts: int = STARTS,
    ) -> Self:
        """Return the best of the fits from many starts."""
        frame = BoundModel(
            for_base(spec, study),
            (domain,),
            ("target" if domain == study.target else "general",),
            reference_of(study, spec.law),
            last_pretraining_step(study),
        )
        free = [own for own in _law_elements(frame) if own.prior.spread > 0]
        fitted = fitted_setup(frame, study).curves
        measured = np.log(fitted.points.loss)
        best = _fit(frame, free, fitted, measured, _starts(free, generator, starts))
        return cls(frame, free, fitted, best)

    def losses(self, plan: Study, runs: Sequence[Run]) -> Floats:
        """Return the last losses of runs of a plan, shape (runs,)."""
        curves = self.frame.curves(plan, lambda run, _: [run.schedule.steps], runs)
        return np.exp(_log_losses(self.frame, curves, self.best))


def _bootstrap(
    spec: ModelSpec,
    study: Study,
    plan: Study,
    wanted: pd.DataFrame,
    domain: str,
    generator: np.random.Generator,
) -> Floats:
    point = PointFit.of(spec, study, domain, generator)
    frame, free, fitted, best = point.frame, point.free, point.fitted, point.best
    steps = wanted.groupby("run")["step"].agg(list)
    asked = frame.curves(plan, lambda run, _: steps.get(run.name, []))
    runs = [asked.curves[index].run for index in asked.points.curve_index]
    order = pd.MultiIndex.from_arrays([runs, asked.points.steps.astype(int)])
    rows = order.get_indexer(pd.MultiIndex.from_frame(wanted[["run", "step"]]))
    measured = np.log(fitted.points.loss)
    curve = _log_losses(frame, fitted, best)
    residuals = measured - curve
    phase = np.array([own.continual for own in fitted.curves])[fitted.points.curve_index]
    phase_asked = np.array([own.continual for own in asked.curves])[asked.points.curve_index][rows]
    draws = []
    for _ in range(REFITS):
        again = curve + _resampled(residuals, phase, phase, generator)
        refit = _fit(frame, free, fitted, again, [best])
        ahead = _log_losses(frame, asked, refit)[rows]
        draws += [
            ahead + _resampled(residuals, phase, phase_asked, generator)
            for _ in range(RESIDUALS_PER_REFIT)
        ]
    return np.exp(draws)


def _resampled(
    residuals: Floats,
    phase: NDArray[np.bool_],
    wanted: NDArray[np.bool_],
    generator: np.random.Generator,
) -> Floats:
    """Return a residual for each wanted point, drawn from the points of its phase."""
    drawn = np.empty(wanted.size)
    for own in np.unique(wanted):
        drawn[wanted == own] = generator.choice(residuals[phase == own], (wanted == own).sum())
    return drawn


def _starts(free: list[Element], generator: np.random.Generator, count: int) -> list[Floats]:
    return [generator.uniform(-2.0, 2.0, len(free)) for _ in range(count)]


def _log_losses(frame: BoundModel, curves: Curves, standard: Floats) -> Floats:
    """Return the log of the law's losses, shape (..., points), as for `parameters_at`."""
    coefficients = frame.law.coefficients(parameters_at(frame, standard), np)
    loss = frame.law.curve_loss(curves.points, curves.bases, coefficients, np)
    return np.asarray(np.log(np.maximum(loss, 1e-3)))


def parameters_at(frame: BoundModel, standard: Floats) -> dict[str, Floats]:
    """Return the law's parameters, given in spreads from their priors' centres.

    Parameters
    ----------
    frame : BoundModel
        Of one validation set.
    standard : ndarray, shape (..., free)

    Returns
    -------
    dict of str to ndarray, shape (...) or (..., 1)
    """
    values = {}
    place = 0
    for own in _law_elements(frame):
        where = np.zeros(standard.shape[:-1])
        if own.prior.spread > 0:
            where, place = standard[..., place], place + 1
        value = np.asarray(own.prior.from_scale(own.prior.center + own.prior.spread * where))
        values[own.name] = value if own.domain is None else value[..., None]
    return values


@cache
def _law_elements(frame: BoundModel) -> tuple[Element, ...]:
    names = frame.law.parameters()
    return tuple(own for own in elements(frame) if own.name in names)


def _fit(
    frame: BoundModel, free: list[Element], curves: Curves, measured: Floats, starts: list[Floats]
) -> Floats:
    """Return the best of the fits from each start."""
    residual: Callable[[Floats], Floats] = partial(_residual, frame, curves, measured)
    slopes: Callable[[Floats], Floats] = partial(_slopes, frame, curves)
    low, high = np.array([_reach(own) for own in free]).T
    found = [
        least_squares(
            residual,
            np.clip(start, low + 1e-6, high - 1e-6),
            jac=slopes,
            bounds=(low, high),
            loss="huber",
            f_scale=HUBER_DELTA,
            max_nfev=100,
        )
        for start in starts
    ]
    return np.asarray(min(found, key=lambda own: float(own.cost)).x)


def _residual(frame: BoundModel, curves: Curves, measured: Floats, standard: Floats) -> Floats:
    return _log_losses(frame, curves, standard) - measured


def _slopes(frame: BoundModel, curves: Curves, standard: Floats) -> Floats:
    """Return slopes of the log losses, shape (points, free): central differences, all at once."""
    moved = STEP * np.eye(standard.size)
    losses = _log_losses(frame, curves, np.concatenate([standard + moved, standard - moved]))
    above, below = np.split(losses, 2)
    return np.asarray((above - below).T / (2.0 * STEP))


def _reach(element: Element) -> tuple[float, float]:
    """Return how far a parameter may go, in spreads; no further than its prior's own bounds."""
    prior = element.prior
    with np.errstate(divide="ignore"):
        ends = (prior.to_scale(np.array(prior.bounds)) - prior.center) / prior.spread
    return max(-REACH, float(ends[0])), min(REACH, float(ends[1]))

"""The paper's method given our law: what the posterior adds beyond the law itself.

Huber loss on the log of the loss, many starts, residual bootstrap, as `bayes_cpt.validate.paper_method`
does with the printed law, but on the points, areas and terms of a model of this package. Its priors only
say where starts are drawn and how far a parameter may go.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import least_squares

from bayes_cpt.model.elements import Element, elements
from bayes_cpt.model.points import Curves, last_pretraining_step, reference_of
from bayes_cpt.model.setup import Frame, fitted_setup
from bayes_cpt.model.spec import ModelSpec
from bayes_cpt.model.unknown_base import for_base
from bayes_cpt.study.study import Study
from bayes_cpt.validate.folds import Question
from bayes_cpt.validate.held_out import Answer
from bayes_cpt.validate.paper_method import (
    HUBER_DELTA,
    REFITS,
    RESIDUALS_PER_REFIT,
    STARTS,
)

type Floats = NDArray[np.float64]

OUR_AREAS = "our areas"
# How far from its centre a parameter may go, in the units of its prior's spread.
REACH = 6.0


def answer(question: Question, seed: int, *, spec: ModelSpec) -> Answer:
    """Answer by Huber loss and residual bootstrap on the law of a model.

    Parameters
    ----------
    question : Question
    seed : int
    spec : ModelSpec
    """
    generator = np.random.default_rng(seed)
    study, points = question.study, question.points
    draws = np.empty((REFITS * RESIDUALS_PER_REFIT, len(points)))
    for domain in dict.fromkeys(points["domain"]):
        role = "target" if domain == study.target else "general"
        here = np.flatnonzero(points["domain"] == domain)
        wanted = points.iloc[here]
        draws[:, here] = _bootstrap(spec, study, question.plan, wanted, domain, role, generator)
    return Answer(draws)


def _bootstrap(
    spec: ModelSpec,
    study: Study,
    plan: Study,
    wanted: pd.DataFrame,
    domain: str,
    role: str,
    generator: np.random.Generator,
) -> Floats:
    frame = Frame(
        for_base(spec, study),
        (domain,),
        (role,),
        reference_of(study, spec.law),
        last_pretraining_step(study),
    )
    names = frame.law.parameters()
    free = [own for own in elements(frame) if own.name in names and own.prior.spread > 0]
    fitted = fitted_setup(frame, study).curves
    steps = wanted.groupby("run")["step"].agg(list)
    asked = frame.curves(plan, lambda run, _: steps.get(run.name, []))
    runs = [asked.curves[index].run for index in asked.points.curve_index]
    order = pd.MultiIndex.from_arrays([runs, asked.points.steps.astype(int)])
    rows = order.get_indexer(pd.MultiIndex.from_frame(wanted[["run", "step"]]))
    measured = np.log(fitted.points.loss)
    best = _fit(frame, free, fitted, measured, _starts(free, generator, STARTS))
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


def _log_losses(frame: Frame, curves: Curves, standard: Floats) -> Floats:
    """Return the log of the law's losses, parameters given in spreads from their priors' centres."""
    values = {}
    places = iter(standard)
    for own in elements(frame):
        if own.name not in frame.law.parameters():
            continue
        place = next(places) if own.prior.spread > 0 else 0.0
        value = own.prior.from_scale(own.prior.center + own.prior.spread * place)
        values[own.name] = value if own.domain is None else np.atleast_1d(value)
    coefficients = frame.law.coefficients(values, np)
    loss = frame.law.curve_loss(curves.points, curves.bases, coefficients, np)
    return np.asarray(np.log(np.maximum(loss, 1e-3)))


def _fit(
    frame: Frame, free: list[Element], curves: Curves, measured: Floats, starts: list[Floats]
) -> Floats:
    """Return the best of the fits from each start."""
    residual: Callable[[Floats], Floats] = partial(_residual, frame, curves, measured)
    low, high = np.array([_reach(own) for own in free]).T
    found = [
        least_squares(
            residual,
            np.clip(start, low + 1e-6, high - 1e-6),
            bounds=(low, high),
            loss="huber",
            f_scale=HUBER_DELTA,
            max_nfev=100,
        )
        for start in starts
    ]
    return np.asarray(min(found, key=lambda own: float(own.cost)).x)


def _residual(frame: Frame, curves: Curves, measured: Floats, standard: Floats) -> Floats:
    return _log_losses(frame, curves, standard) - measured


def _reach(element: Element) -> tuple[float, float]:
    """Return how far a parameter may go, in spreads; no further than its prior's own bounds."""
    prior = element.prior
    with np.errstate(divide="ignore"):
        ends = (prior.to_scale(np.array(prior.bounds)) - prior.center) / prior.spread
    return max(-REACH, float(ends[0])), min(REACH, float(ends[1]))

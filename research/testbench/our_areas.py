"""The paper's method given our law: what the posterior adds beyond the law itself.

Huber loss on the log of the loss, many starts, residual bootstrap, as `testbench.baselines`
does with the printed law, but on the points, areas and terms of a model of this package. Its priors only
say where starts are drawn and how far a parameter may go.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats
from bayes_cpt.model.bases import for_base
from bayes_cpt.model.points import Curves, reference_of
from bayes_cpt.model.residuals import Studied
from bayes_cpt.model.setup import BoundModel, Element, elements, fitted_setup
from bayes_cpt.model.simulate import expected_loss
from bayes_cpt.model.spec import ModelSpec
from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study
from bayes_cpt.validate.folds import Question
from bayes_cpt.validate.held_out import Answer
from testbench.baselines import PAPER_EFFORT, PointFit

OUR_AREAS = "our areas"
# How far from its centre a parameter may go, in the units of its prior's spread, and where starts are.
REACH, START_REACH = 6.0, 2.0


def answer(question: Question, seed: int, *, spec: ModelSpec) -> Answer:
    """Answer by Huber loss and residual bootstrap on the law of a model."""
    generator = np.random.default_rng(seed)
    points = question.points
    draws = np.empty((PAPER_EFFORT.refits * PAPER_EFFORT.residuals, len(points)))
    for domain in dict.fromkeys(points["domain"]):
        here = np.flatnonzero(points["domain"] == domain)
        law = OurLaw.of(spec, question.study, domain)
        wanted = law.points(question.plan, points.iloc[here])
        losses = law.fitted.points.loss
        draws[:, here] = law.fit.bootstrap(
            Asked(law.fitted), losses, wanted, generator, PAPER_EFFORT
        )
    return Answer(draws)


class Asked(NamedTuple):
    """Points of curves, some of them or in another order."""

    curves: Curves
    rows: "slice | NDArray[np.intp]" = slice(None)

    @property
    def continual(self) -> NDArray[np.bool_]:
        """Which lie in CPT."""
        phases = np.array([own.continual for own in self.curves.curves])
        return np.asarray(phases[self.curves.points.curve_index][self.rows])


@dataclass(frozen=True, eq=False)
class OurLaw:
    """The law of one validation set and the points that it is fitted to.

    Parameters
    ----------
    frame : BoundModel
        Of the one validation set.
    fitted : Curves
    fit : PointFit
        Parameters are in spreads from the priors' centres.
    """

    frame: BoundModel
    fitted: Curves
    fit: PointFit

    @classmethod
    def of(cls, spec: ModelSpec, study: Study, domain: str) -> Self:
        """Return the law of a model on a study."""
        frame = BoundModel(
            for_base(spec, study),
            (domain,),
            ("target" if domain == study.target else "general",),
            reference_of(study, spec),
            Studied.of(study),
        )
        free = [own for own in _law_elements(frame) if own.prior.spread > 0]
        within = np.array([[-START_REACH], [START_REACH]]) * np.ones(len(free))

        def losses(standard: Floats, asked: Asked) -> Floats:
            draws = parameters_at(frame, np.atleast_2d(standard))
            found = expected_loss(frame, draws, asked.curves)[:, asked.rows]
            return found.reshape(*standard.shape[:-1], -1)

        bounds = np.array([_reach(own) for own in free]).T
        fit = PointFit(losses, within, bounds, logs=True)
        return cls(frame, fitted_setup(frame, study).curves, fit)

    def best(self, generator: np.random.Generator, starts: int) -> Floats:
        """Return the best of the fits from many starts."""
        losses = self.fitted.points.loss
        return self.fit.from_many_starts(Asked(self.fitted), losses, generator, starts)

    def points(self, plan: Study, wanted: pd.DataFrame) -> Asked:
        """Return wanted points of a plan, in their order."""
        steps = wanted.groupby("run")["step"].agg(list)
        curves = self.frame.curves(plan, lambda run, _: steps.get(run.name, []))
        runs = [curves.curves[index].run for index in curves.points.curve_index]
        order = pd.MultiIndex.from_arrays([runs, curves.points.steps.astype(int)])
        return Asked(curves, order.get_indexer(pd.MultiIndex.from_frame(wanted[["run", "step"]])))

    def last_losses(self, parameters: Floats, plan: Study, runs: Sequence[Run]) -> Floats:
        """Return the last losses of runs of a plan, shape (runs,)."""
        curves = self.frame.curves(plan, lambda run, _: [run.schedule.steps], runs)
        return self.fit.losses(parameters, Asked(curves))


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


def _reach(element: Element) -> tuple[float, float]:
    """Return how far a parameter may go, in spreads; no further than its prior's own bounds."""
    prior = element.prior
    with np.errstate(divide="ignore"):
        ends = (prior.to_scale(np.array(prior.bounds)) - prior.center) / prior.spread
    return max(-REACH, float(ends[0])), min(REACH, float(ends[1]))

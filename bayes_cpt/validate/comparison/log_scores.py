"""The log score: the log of the density that a posterior predictive distribution has at what was measured.

Points of a curve are not independent, nor are the two curves of a run: a run is one observation, and its
score is that of all its points together.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.forecast.plans import Prepared, prepare
from bayes_cpt.inference.new_groups import covering
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.fitted_points import thinned
from bayes_cpt.model.log_densities import log_densities
from bayes_cpt.model.points import Curves
from bayes_cpt.model.residuals import ONSET_SHARE
from bayes_cpt.validate.folds import Question

if TYPE_CHECKING:
    import pandas as pd

type Steps = Mapping[tuple[str, str], list[int]]

# Draws whose whitened curves are in memory at once.
BLOCK = 250


class LogScore(NamedTuple):
    """The log score of what was held out.

    Parameters
    ----------
    value : float
        Log density, of losses in nats/token; larger is better.
    effective_draws : float
        How many posterior draws the density is an average over: few of them may predict the run best.
    """

    value: float
    effective_draws: float


def log_score(posterior: Posterior, question: Question, measured: "pd.DataFrame") -> LogScore:
    """Return the log score of all that a fold held out, taken as one observation.

    Parameters
    ----------
    posterior : Posterior
        Of the question's study.
    question : Question
    measured : DataFrame
        Columns run, domain, step, loss: the answer. Long logs count with some of their points, as in a fit
        (`bayes_cpt.model.fitted_points.thinned`).
    """
    known = covering(posterior, question.plan, question.plan.runs)
    densities = np.concatenate(
        [_of_law(law, law.parameters(count), question, measured) for law, count in known.shares()]
    )
    relative = np.exp(densities - densities.max())
    value = densities.max() + np.log(relative.mean())
    return LogScore(float(value), float(relative.sum() ** 2 / (relative**2).sum()))


def _of_law(
    law: Posterior, parameters: dict[str, Floats], question: Question, measured: "pd.DataFrame"
) -> Floats:
    """Return the log density of all that was held out in each draw of one law, shape (draws,)."""
    onset = ONSET_SHARE * law.frame.reference.steps
    tail = {
        (str(run), str(domain)): thinned(sorted(rows["step"]), onset)
        for (run, domain), rows in measured.groupby(["run", "domain"], sort=False)
    }
    prepared = prepare(law, question.plan, at=question.points, known=question.known)
    points = measured[["run", "domain", "step"]].itertuples(index=False, name=None)
    losses = dict(zip(points, measured["loss"], strict=True))
    if not question.known:
        return _density(law, parameters, _curves(law, prepared, tail, losses))
    head = {
        key: law.frame.fitted_steps(prepared.study, prepared.study.run(key[0]), key[1])
        for key in tail
    }
    whole = _curves(law, prepared, {key: head[key] + tail[key] for key in tail}, losses)
    seen = _curves(law, prepared, head, losses)
    last = float(whole.points.steps.max())
    return _density(law, parameters, whole, last) - _density(law, parameters, seen, last)


def _curves(
    law: Posterior, prepared: Prepared, steps: Steps, losses: Mapping[tuple[str, str, int], float]
) -> Curves:
    """Return curves with their losses: those of the study, and what was held out of it."""
    curves = law.frame.curves(
        prepared.study,
        lambda run, domain: steps.get((run.name, domain), []),
        prepared.runs,
        trunks=law.study,
    )
    names = [(curve.run, curve.domain) for curve in curves.curves]
    points = curves.points
    filled = points.loss.copy()
    for place in np.flatnonzero(np.isnan(filled)):
        key = (*names[int(points.curve_index[place])], int(points.steps[place]))
        filled[place] = losses[key]
    return replace(
        curves, points=points.map(lambda name, values: filled if name == "loss" else values)
    )


def _density(
    law: Posterior, parameters: dict[str, Floats], curves: Curves, last: float | None = None
) -> Floats:
    draws = len(next(iter(parameters.values())))
    blocks = [slice(start, start + BLOCK) for start in range(0, draws, BLOCK)]
    return np.concatenate(
        [
            log_densities(
                law.frame, {name: value[block] for name, value in parameters.items()}, curves, last
            ).sum(axis=1)
            for block in blocks
        ]
    )

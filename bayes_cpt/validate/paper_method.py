"""The paper's method as a baseline: Huber loss on log loss, many starts, residual bootstrap.

Source: arXiv 2505.07796, which follows Tissue et al. (arXiv 2408.11029): L-BFGS on the Huber loss
of log losses. The paper gives point estimates only; the bands are ours.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats
from bayes_cpt.errors import BayesCPTError
from bayes_cpt.study.study import Study
from bayes_cpt.validate.printed_law import Inputs, PrintedLaw, inputs_at, observations

if TYPE_CHECKING:
    import pandas as pd

HUBER_DELTA = 1e-3
STARTS = 54
REFITS = 200
# Starts of a refit besides the best fit: near it, on the ridges of the law.
REFIT_NEIGHBOURS = 1
NEIGHBOUR_SPREAD = 0.3
# Residuals drawn per refit: so that tails of the band do not hang on the number of refits.
RESIDUALS_PER_REFIT = 5


class BaselineError(BayesCPTError, ValueError):
    """A baseline, the paper's method or another, found no fit."""


@dataclass(frozen=True)
class Ranges:
    """Where starts are drawn from, and the bounds, in the order of `PARAMETERS`; rows low, high."""

    starts: Floats
    bounds: Floats


def ranges_of(inputs: Inputs, losses: Floats) -> Ranges:
    """Return ranges that fit the study's own areas: those of a lab study are not the paper's.

    Those of the forward area of an unknown base come last, where there is one.

    Parameters
    ----------
    inputs : Inputs
    losses : ndarray, shape (points,)
        nats/token.
    """
    unknown = bool(inputs.unknown.any())
    forward = float(np.median(inputs.forward_pt + inputs.forward_cpt))
    continual = inputs.forward_cpt[inputs.continual]
    forward_cpt = float(np.median(continual)) if continual.size else forward
    # A re-warm-up's is negative.
    areas = np.abs([inputs.annealing_pt, inputs.annealing_cpt])
    annealing = max(float(areas.max()), 1e-12)
    lowest = float(losses.min())
    table = np.array(
        [
            # start low, start high, bound low, bound high
            [0.5 * lowest, lowest, 0.0, 2.0 * lowest],
            [np.log(0.1), np.log(2.0), np.log(1e-3), np.log(1e2)],  # of A·S1^-alpha at `forward`
            [np.log(0.2), np.log(1.0), np.log(1e-2), np.log(5.0)],
            [0.0, 0.5 / annealing, 0.0, 5.0 / annealing],
            [0.0, 0.5 / annealing, 0.0, 5.0 / annealing],
            [-0.5, 0.5, -5.0, 5.0],
            [-2.0, 2.0, -50.0, 50.0],
            [np.log(1.0 / forward_cpt), np.log(1e4 / forward_cpt), -np.log(1e8), np.log(1e8)],
            [np.log(0.05), np.log(1.0), np.log(1e-3), np.log(10.0)],
            [-6.0, 6.0, -30.0, 30.0],
            # As in the priors of models/cpt-replay.toml: a base has seen more than a run of CPT.
            list(np.log(forward_cpt * np.array([1.0, 1e3, 1.0, 1e6]))),
        ][: None if unknown else -1]
    ).T
    # A is what the power term is at S1 = 1; starts are drawn for its size at the median S1.
    table[:, 1] += 0.5 * np.log(forward)
    return Ranges(table[:2], table[2:])


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted law of one validation set.

    Parameters
    ----------
    parameters : ndarray, shape (parameters,)
        In the order of `PARAMETERS`.
    objective : float
        Sum of Huber losses of the log loss, over delta.
    """

    parameters: Floats
    objective: float


def fit_huber(
    law: PrintedLaw, inputs: Inputs, log_losses: Floats, starts: Floats, bounds: Floats
) -> Fit:
    """Return the best of the fits from each start.

    Parameters
    ----------
    law : PrintedLaw
    inputs : Inputs
    log_losses : ndarray, shape (points,)
    starts : ndarray, shape (starts, parameters)
    bounds : ndarray, shape (2, parameters)
        Lowest and highest values.

    Raises
    ------
    BaselineError
        If no start leads to a finite fit.
    """
    from scipy.optimize import minimize

    def objective(parameters: Floats) -> tuple[float, Floats]:
        predicted, gradients = law.log_losses_and_gradients(parameters, inputs)
        scaled = (predicted - log_losses) / HUBER_DELTA
        size = np.abs(scaled)
        huber = np.where(size <= 1.0, 0.5 * scaled**2, size - 0.5) * HUBER_DELTA
        return float(huber.sum()), gradients @ np.clip(scaled, -1.0, 1.0)

    best: Fit | None = None
    for start in starts:
        optimum = minimize(
            objective,
            np.clip(start, *bounds),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds.T,
            options={"maxiter": 2000, "maxfun": 3000, "maxcor": 20, "ftol": 1e-10, "gtol": 1e-7},
        )
        if np.isfinite(optimum.fun) and (best is None or optimum.fun < best.objective):
            best = Fit(np.asarray(optimum.x), float(optimum.fun))
    if best is None:
        raise BaselineError("No start of the paper's method led to a finite fit.")
    return best


def fit_from_many_starts(
    law: PrintedLaw, inputs: Inputs, losses: Floats, generator: np.random.Generator
) -> Fit:
    """Return the best of 54 fits from starts drawn over wide ranges.

    Parameters
    ----------
    law : PrintedLaw
    inputs : Inputs
    losses : ndarray, shape (points,)
        nats/token.
    generator : numpy.random.Generator
        Of the starts.
    """
    ranges = ranges_of(inputs, losses)
    starts = generator.uniform(*ranges.starts, size=(STARTS, ranges.starts.shape[1]))
    return fit_huber(law, inputs, np.log(losses), starts, ranges.bounds)


def bootstrap_curves(
    law: PrintedLaw,
    inputs: Inputs,
    losses: Floats,
    wanted: Inputs,
    generator: np.random.Generator,
    refits: int = REFITS,
) -> Floats:
    """Return draws of the loss at wanted points by residual bootstrap.

    Residuals of the log loss are resampled among the points of the same phase (PT validation
    curves of a set that PT never saw wander far more than CPT curves), the law is fitted again, and
    the draw is the refitted curve times a resampled residual of the wanted point's phase.

    Parameters
    ----------
    law : PrintedLaw
    inputs : Inputs
        Of the points that are fitted.
    losses : ndarray, shape (points,)
        nats/token.
    wanted : Inputs
        Of the points to predict.
    generator : numpy.random.Generator
    refits : int

    Returns
    -------
    ndarray, shape (draws, points)
        nats/token; `RESIDUALS_PER_REFIT` draws per refit.
    """
    log_losses = np.log(losses)
    best = fit_from_many_starts(law, inputs, losses, generator)
    fitted, _ = law.log_losses_and_gradients(best.parameters, inputs)
    residuals = log_losses - fitted
    bounds = ranges_of(inputs, losses).bounds
    draws = []
    for _ in range(refits):
        resampled = fitted + _resample(residuals, inputs.continual, inputs.continual, generator)
        noise = generator.normal(size=(REFIT_NEIGHBOURS, best.parameters.size))
        starts = np.vstack([best.parameters, best.parameters + NEIGHBOUR_SPREAD * noise])
        refit = fit_huber(law, inputs, resampled, starts, bounds)
        curve, _ = law.log_losses_and_gradients(refit.parameters, wanted)
        draws += [
            curve + _resample(residuals, inputs.continual, wanted.continual, generator)
            for _ in range(RESIDUALS_PER_REFIT)
        ]
    return np.exp(draws)


def _resample(
    residuals: Floats,
    continual: NDArray[np.bool_],
    wanted_continual: NDArray[np.bool_],
    generator: np.random.Generator,
) -> Floats:
    """Return a residual for each wanted point, drawn from the points of its phase."""
    drawn = np.empty(wanted_continual.size)
    for phase in (False, True):
        here = wanted_continual == phase
        if here.any():
            drawn[here] = generator.choice(residuals[continual == phase], size=here.sum())
    return drawn


def predict(
    fit_study: Study, plan: Study, points: "pd.DataFrame", *, seed: int = 0, refits: int = REFITS
) -> Floats:
    """Fit the first study by the paper's method and return draws of the plan's losses.

    Parameters
    ----------
    fit_study, plan : Study
        The plan's losses are not read.
    points : DataFrame
        Columns run, domain, step: what to predict, runs being those of the plan.
    seed : int
    refits : int
        Bootstrap refits per validation set.

    Returns
    -------
    ndarray, shape (draws, points)
        nats/token.

    Raises
    ------
    BaselineError
        If no fit is found, or the study has several targets.
    """
    if len(fit_study.targets) > 1:
        raise BaselineError(
            f"The paper's method is for one target, and the study has {len(fit_study.targets)}: "
            "leave it out."
        )
    generator = np.random.default_rng(seed)
    draws = np.empty((refits * RESIDUALS_PER_REFIT, len(points)))
    for domain in sorted(set(points["domain"])):
        law = PrintedLaw(is_target=domain == fit_study.target)
        inputs, losses = observations(fit_study, domain)
        columns = np.flatnonzero(points["domain"] == domain)
        wanted = inputs_at(plan, points.iloc[columns])
        draws[:, columns] = bootstrap_curves(law, inputs, losses, wanted, generator, refits)
    return draws

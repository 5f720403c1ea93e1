"""The law as printed with independent Gaussian errors, as a Bayesian model of its own.

Eq. 8 of arXiv 2505.07796 with lambda 0.999 and weak priors; every measured loss misses its curve by
an error of its own. Sampled by importance sampling from a t-shaped Laplace approximation: with
hundreds of independent points the posterior is so close to one that no chain is needed, and the
effective sample size of the weights tells when it is not.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
import pandas as pd
from scipy.linalg import solve_triangular
from scipy.optimize import minimize

from bayes_cpt.arrays import Floats
from bayes_cpt.study.study import Study
from bayes_cpt.validate.baselines import (
    MOMENTUM,
    BaselineError,
    Inputs,
    PrintedLaw,
    inputs_at,
    observations,
)

DRAWS = 1000
PROPOSALS = 10_000
STARTS = 10
DEGREES_OF_FREEDOM = 5
# As asked of the package's own posteriors (docs/contract.md, "Diagnostics").
LEAST_EFFECTIVE_DRAWS = 400
# In prior standard deviations: the posterior's are of this size and up.
DIFFERENCE_STEP = 1e-3

# Normal priors: centre and standard deviation, those of models/cpt-replay-printed.toml (logs of
# what is lognormal there), where their reasons are given.
PRIORS = {
    "loss at the reference area": (3.0, 1.5),
    "log slope there": (np.log(0.1), 0.8),
    "log alpha": (np.log(0.5), 0.4),
    "log gain of a full anneal": (np.log(0.15), 0.7),
    "log of C2/C1 at pure replay": (0.0, 0.2),
    "a1, counted in r_cpt": (0.0, 0.2),
    "log size of the shift at the reference area": (np.log(0.5), 0.8),
    "log of E times that area": (np.log(30.0), 2.0),
    "log beta": (np.log(0.4), 0.6),
    "bend of the replay factor": (0.0, 4.0),
    "log error": (np.log(0.02), 1.0),
}
CENTRES, SPREADS = np.array(list(PRIORS.values())).T


@dataclass(frozen=True)
class ReferenceAreas:
    """Where the priors speak of loss, slope and shift: what the study's own runs typically reach.

    Parameters
    ----------
    peak : float
        Highest PT learning rate.
    forward_pt, forward_cpt : float
        Median S1 of the bases and of the CPT runs, LR·steps.
    """

    peak: float
    forward_pt: float
    forward_cpt: float

    @classmethod
    def of(cls, study: Study) -> Self:
        """Return those of a study; without bases its PT runs stand for them, and for CPT runs."""
        known = [base.schedule for base in study.bases if base.schedule is not None]
        bases = known or [run.schedule for run in study.pretraining_runs]
        runs = [run.schedule for run in study.continual_runs] or bases
        return cls(
            peak=max(schedule.peak for schedule in bases),
            forward_pt=float(np.median([s.learning_rates().sum() for s in bases])),
            forward_cpt=float(np.median([s.learning_rates().sum() for s in runs])),
        )


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior of one validation set, over standardized parameters.

    Parameters
    ----------
    law : PrintedLaw
    reference : ReferenceAreas
    inputs : Inputs
    losses : ndarray, shape (points,)
        nats/token.
    """

    law: PrintedLaw
    reference: ReferenceAreas
    inputs: Inputs
    losses: Floats

    def law_parameters(self, standard: Floats) -> Floats:
        """Return the law's parameters in the order of `bayes_cpt.validate.baselines.PARAMETERS`.

        Parameters
        ----------
        standard : ndarray, shape (11,)
            Distance from the prior's centre in its standard deviations, in the order of `PRIORS`.
        """
        values = CENTRES + SPREADS * standard
        level, log_slope, log_exponent, log_gain, log_ratio, gain_replay = values[:6]
        log_shift, log_progress, log_shift_exponent, bend = values[6:10]
        exponent = np.exp(log_exponent)
        log_excess = log_slope - log_exponent
        gain_pt = np.exp(log_gain) * (1.0 - MOMENTUM) / self.reference.peak
        gain_cpt = gain_pt * np.exp(log_ratio)
        if not self.law.is_target:
            # The law of D_pt is printed in r_pt = 1 - r_cpt; the priors speak of r_cpt on both.
            gain_cpt, gain_replay = gain_cpt * np.exp(gain_replay), -gain_replay
        reached = -np.expm1(-np.exp(log_shift_exponent) * np.log1p(np.exp(log_progress)))
        shift = np.exp(log_shift) / reached
        return np.array(
            [
                level - np.exp(log_excess),
                log_excess + exponent * np.log(self.reference.forward_pt),
                log_exponent,
                gain_pt,
                gain_cpt,
                gain_replay,
                -shift if self.law.is_target else shift,
                log_progress - np.log(self.reference.forward_cpt),
                log_shift_exponent,
                bend,
            ]
        )

    def error(self, standard: Floats) -> float:
        """Return the standard deviation of the errors, nats/token."""
        return float(np.exp(CENTRES[-1] + SPREADS[-1] * standard[-1]))

    def log_density(self, standard: Floats) -> float:
        """Return the log posterior density up to a constant; -inf where the law overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            predicted = self.law.losses(self.law_parameters(standard), self.inputs)
            scaled = (self.losses - predicted) / self.error(standard)
            likelihood = -0.5 * scaled @ scaled - scaled.size * np.log(self.error(standard))
        density = likelihood - 0.5 * standard @ standard
        return float(density) if np.isfinite(density) else -np.inf


def importance_sample(
    log_density: Callable[[Floats], float],
    dimension: int,
    generator: np.random.Generator,
    draws: int = DRAWS,
) -> Floats:
    """Return draws from a density near a Gaussian, over roughly standardized parameters.

    Parameters
    ----------
    log_density : callable
        Of a vector of shape (dimension,), up to a constant; may be -inf.
    dimension : int
    generator : Generator
    draws : int
        Resampled from `PROPOSALS` weighted proposals.

    Returns
    -------
    ndarray, shape (draws, dimension)

    Raises
    ------
    RuntimeError
        If the weights are worth too few draws: the density is far from the proposal.
    """

    def cost(point: Floats) -> float:
        # L-BFGS-B steps back from a large value, but not from an infinite one.
        return min(-log_density(point), 1e12)

    fits = [
        minimize(
            cost,
            generator.normal(scale=0.5, size=dimension),
            method="L-BFGS-B",
            options={"maxiter": 1000, "maxfun": 30_000},
        )
        for _ in range(STARTS)
    ]
    mode = min(fits, key=lambda fit: float(fit.fun)).x
    root = np.linalg.cholesky(_hessian(cost, mode))
    normal = generator.normal(size=(PROPOSALS, dimension))
    squeeze = np.sqrt(generator.chisquare(DEGREES_OF_FREEDOM, PROPOSALS) / DEGREES_OF_FREEDOM)
    whitened = normal / squeeze[:, None]
    proposals = mode + solve_triangular(root.T, whitened.T).T
    tails = np.log1p((whitened**2).sum(axis=1) / DEGREES_OF_FREEDOM)
    log_proposal = -0.5 * (DEGREES_OF_FREEDOM + dimension) * tails
    log_weights = np.array([log_density(point) for point in proposals]) - log_proposal
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    effective = 1.0 / (weights @ weights)
    if effective < LEAST_EFFECTIVE_DRAWS:
        raise BaselineError(
            f"importance sampling is worth {effective:.0f} draws, {LEAST_EFFECTIVE_DRAWS} are "
            "needed: the posterior is no Gaussian; use a Markov chain"
        )
    return np.asarray(proposals[generator.choice(PROPOSALS, size=draws, p=weights)])


def _hessian(function: Callable[[Floats], float], point: Floats) -> Floats:
    """Return the matrix of second differences, central in both directions."""
    size = point.size
    steps = DIFFERENCE_STEP * np.eye(size)
    hessian = np.empty((size, size))
    for i in range(size):
        for j in range(i + 1):
            same = function(point + steps[i] + steps[j]) + function(point - steps[i] - steps[j])
            other = function(point + steps[i] - steps[j]) + function(point - steps[i] + steps[j])
            hessian[i, j] = hessian[j, i] = (same - other) / (4.0 * DIFFERENCE_STEP**2)
    return hessian


def predict(fit_study: Study, plan: Study, points: pd.DataFrame, *, seed: int = 0) -> Floats:
    """Fit the first study and return draws of the plan's losses, each with an error of its own.

    Parameters and result are those of `bayes_cpt.validate.baselines.predict`.

    Raises
    ------
    BaselineError
        If the posterior could not be sampled.
    """
    generator = np.random.default_rng(seed)
    draws = np.empty((DRAWS, len(points)))
    for domain in sorted(set(points["domain"])):
        law = PrintedLaw(is_target=domain == fit_study.target)
        posterior = Posterior(law, ReferenceAreas.of(fit_study), *observations(fit_study, domain))
        columns = np.flatnonzero(points["domain"] == domain)
        wanted = inputs_at(plan, points.iloc[columns])
        sample = importance_sample(posterior.log_density, len(PRIORS), generator)
        curves = np.stack([law.losses(posterior.law_parameters(one), wanted) for one in sample])
        errors = np.array([posterior.error(one) for one in sample])
        draws[:, columns] = curves + errors[:, None] * generator.normal(size=curves.shape)
    return draws

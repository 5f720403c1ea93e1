"""How unlike curves are in the size of their residuals: the fit has one size for all.

The residual model has one size of the fluctuation and one of the misfit for all curves of a validation
set. Bands of nine tenths hardly feel that single curves fluctuate half as much or twice as much; a search
for the largest departure of a whole run does. So a curve has the sizes of the fit times factors of its own,
``log f ~ Normal(-tau², tau)``: the mean of ``f²`` is 1, as the common size is a mean square. How unlike
curves are, tau, is learnt from the fitted curves. With r the residuals of curve i,

    p(y | tau) / p(y | 0) = prod_i  E[ int p(r_i | theta, f) p(f | tau) df / p(r_i | theta, 1) ],

the mean over posterior draws theta: exact for one curve, and taken as independent between curves.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Self

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.bases.lone_bases import with_lone_bases
from bayes_cpt.model.log_densities import residual_squares
from bayes_cpt.model.simulate import expected_loss, scales_of

# Logarithms of the factors at which curves are weighed; few knots tell of a misfit, so coarser. Both in
# whole strides: a covariance is reckoned for each ratio of the two, and many pairs share one.
STRIDE = 0.3
FLUCTUATION_STRIDES, MISFIT_STRIDES = np.linspace(-5.0, 5.0, 11), np.linspace(-6.0, 6.0, 7)
FLUCTUATION_GRID, MISFIT_GRID = STRIDE * FLUCTUATION_STRIDES, STRIDE * MISFIT_STRIDES
TAUS = np.linspace(0.0, 1.2, 25)
# Half-normal prior of tau: sizes that differ by a factor of 1.5 are usual, of 3 are rare.
TAU_SCALE = 0.4
DRAWS = 40
# Keeps the ratio of two likelihoods a number.
HIGHEST_LOG = 700.0


@dataclass(frozen=True, eq=False)
class Sizes:
    """How likely each spread of the sizes is, given the fitted curves.

    Parameters
    ----------
    fluctuation, misfit : ndarray, shape (taus,)
        Probability of each of `TAUS`.
    """

    fluctuation: Floats
    misfit: Floats

    @classmethod
    def same(cls) -> Self:
        """Return that all curves have the sizes that the fit says."""
        only = np.zeros(TAUS.size)
        only[0] = 1.0
        return cls(only, only)

    @classmethod
    def of(cls, posterior: Posterior, *, continual: bool) -> Self:
        """Learn from the fitted curves of a phase.

        Parameters
        ----------
        posterior : Posterior
            Of several laws the one with the largest weight counts.
        continual : bool
            Whether curves of CPT are asked for.
        """
        law = max(posterior.shares(), key=lambda share: share[1] or 0)[0]
        likelihoods = curve_likelihoods(law, continual=continual)
        prior = np.exp(-0.5 * (TAUS / TAU_SCALE) ** 2)
        log_weights = np.log(prior)[:, None] + np.log(prior)[None]
        by_fluctuation, by_misfit = _factor_weights(FLUCTUATION_GRID), _factor_weights(MISFIT_GRID)
        for likelihood in likelihoods:
            log_weights += np.log(by_fluctuation @ likelihood @ by_misfit.T)
        weights = np.exp(log_weights - log_weights.max())
        weights /= weights.sum()
        return cls(weights.sum(axis=1), weights.sum(axis=0))

    def state(self, posterior: Posterior) -> dict[str, Any]:
        """Return this, ready for JSON, with what tells of which draws it was learnt.

        Parameters
        ----------
        posterior : Posterior
            That it was learnt from.
        """
        return {
            "draws": _digest(posterior),
            "fluctuation": self.fluctuation.tolist(),
            "misfit": self.misfit.tolist(),
        }

    @classmethod
    def restored(cls, state: Mapping[str, Any] | None, posterior: Posterior) -> Self | None:
        """Return what `state` gave, None where there is none or it is of other draws.

        Parameters
        ----------
        state : mapping or None
        posterior : Posterior
        """
        if state is None or state["draws"] != _digest(posterior):
            return None
        return cls(np.array(state["fluctuation"]), np.array(state["misfit"]))

    def draw(
        self, count: int, domains: int, generator: np.random.Generator
    ) -> tuple[Floats, Floats]:
        """Return factors of the fluctuation and of the misfit, shape (count, domains) each.

        Parameters
        ----------
        count : int
        domains : int
            Curves of a run, each with factors of its own.
        generator : numpy.random.Generator
        """
        factors = []
        for weights in (self.fluctuation, self.misfit):
            tau = generator.choice(TAUS, count, p=weights)[:, None]
            factors.append(np.exp(tau * generator.standard_normal((count, domains)) - tau**2))
        return factors[0], factors[1]


def curve_likelihoods(posterior: Posterior, *, continual: bool) -> list[Floats]:
    """Return the likelihood of each fitted curve with sizes of its own over that with the common ones.

    Parameters
    ----------
    posterior : Posterior
        Of one law.
    continual : bool
        Whether curves of CPT or of PT are asked for.

    Returns
    -------
    list of ndarray, shape (fluctuation factors, misfit factors)
    """
    frame, parameters = posterior.frame, posterior.parameters(DRAWS)
    if frame.spec.residuals.kind == "independent":
        return []
    study = with_lone_bases(posterior.study, frame.domains) if continual else posterior.study
    runs = study.continual_runs if continual else study.pretraining_runs
    curves = frame.curves(
        study, lambda run, domain: frame.fitted_steps(study, run, domain), runs=runs
    )
    design = frame.residual_design(curves)
    scales = scales_of(frame, parameters, curves, design)
    residual = curves.points.loss - expected_loss(frame, parameters, curves)
    counts = (design.last - design.first).astype(np.float64)
    logs = np.empty((len(residual), len(curves.curves), FLUCTUATION_GRID.size, MISFIT_GRID.size))
    strides = MISFIT_STRIDES - FLUCTUATION_STRIDES[:, None]
    for ratio in np.unique(strides):
        factor = np.exp(STRIDE * ratio)
        scaled = replace(scales, misfit=factor * scales.misfit, offset=factor * scales.offset)
        squares, determinants = residual_squares(residual, curves, design, scaled)
        for i, j in np.argwhere(strides == ratio):
            # No fitted point is extrapolated, so that all parts of the residual grow by the same factor.
            whole = FLUCTUATION_GRID[i]
            logs[:, :, i, j] = -0.5 * (squares * np.exp(-2.0 * whole) + determinants)
            logs[:, :, i, j] -= counts * whole
    common = logs[:, :, FLUCTUATION_STRIDES == 0, MISFIT_STRIDES == 0]
    ratios = np.exp(np.minimum(logs - common[..., None], HIGHEST_LOG)).mean(axis=0)
    return list(np.asarray(ratios))


def _digest(posterior: Posterior) -> str:
    """Return what tells draws from others."""
    digest = sha256()
    for law, weight in posterior.shares():
        digest.update(repr(weight).encode())
        for name, values in sorted(law.parameters(DRAWS).items()):
            digest.update(name.encode() + np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()


def _factor_weights(grid: Floats) -> Floats:
    """Return the probability of each factor given tau, shape (taus, factors)."""
    widths = np.maximum(TAUS, 0.1 * (grid[1] - grid[0]))[:, None]
    density = -0.5 * ((grid + TAUS[:, None] ** 2) / widths) ** 2
    weights = np.exp(density - density.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))

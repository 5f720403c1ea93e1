"""How unlike curves are in the size of their residuals: the fit has one size for all.

The residual model has one size of the fluctuation and one of the misfit for all curves of a validation
set. Bands of nine tenths hardly feel that single curves fluctuate half as much or twice as much; a search
for the largest departure of a whole run does. So a curve has the sizes of the fit times factors of its own,
``log f ~ Normal(-tau², tau)``: the mean of ``f²`` is 1, as the common size is a mean square. How unlike
curves are, tau, is learnt from the fitted curves, each as though the fit had not seen its run
(`bayes_cpt.watch.learnt.left_out`). With y_i the losses of curve i,

    p(tau | y) ~ p(tau)·prod_i  int p(y_i | other runs, f) p(f | tau) df,

Gaussian in y_i given f, and taken as independent between curves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.watch.learnt.left_out import LeftOut

# Logarithms of the factors at which curves are weighed; few knots tell of a misfit, so coarser.
FLUCTUATION_GRID, MISFIT_GRID = np.linspace(-1.5, 1.5, 11), np.linspace(-1.8, 1.8, 7)
TAUS = np.linspace(0.0, 1.2, 25)
# Half-normal prior of tau: sizes that differ by a factor of 1.5 are usual, of 3 are rare.
TAU_SCALE = 0.4
# Points of a curve that are looked at: the size of its fluctuation is known to a relative 1/sqrt(2·most).
MOST_POINTS = 100
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
    def of(cls, likelihoods: Sequence[Floats]) -> Self:
        """Learn from curves.

        Parameters
        ----------
        likelihoods : sequence of ndarray, shape (fluctuation factors, misfit factors)
            Of each curve, as `curve_likelihoods` returns them.
        """
        prior = np.exp(-0.5 * (TAUS / TAU_SCALE) ** 2)
        log_weights = np.log(prior)[:, None] + np.log(prior)[None]
        by_fluctuation, by_misfit = _factor_weights(FLUCTUATION_GRID), _factor_weights(MISFIT_GRID)
        for likelihood in likelihoods:
            log_weights += np.log(by_fluctuation @ likelihood @ by_misfit.T)
        weights = np.exp(log_weights - log_weights.max())
        weights /= weights.sum()
        return cls(weights.sum(axis=1), weights.sum(axis=0))

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


def curve_likelihoods(run: LeftOut) -> list[Floats]:
    """Return the likelihood of each curve of a run with sizes of its own over that with the common ones.

    Parameters
    ----------
    run : LeftOut

    Returns
    -------
    list of ndarray, shape (fluctuation factors, misfit factors)
    """
    found = []
    for domain in dict.fromkeys(run.domains):
        places = run.of_domain(domain)
        kept = np.unique(np.linspace(0, places.size - 1, min(places.size, MOST_POINTS)).astype(int))
        curve = run.at(places[kept])
        logs = np.array(
            [
                [curve.log_density(np.exp(fluctuation), np.exp(misfit)) for misfit in MISFIT_GRID]
                for fluctuation in FLUCTUATION_GRID
            ]
        )
        found.append(np.exp(np.minimum(logs - curve.log_density(1.0, 1.0), HIGHEST_LOG)))
    return found


def _factor_weights(grid: Floats) -> Floats:
    """Return the probability of each factor given tau, shape (taus, factors)."""
    widths = np.maximum(TAUS, 0.1 * (grid[1] - grid[0]))[:, None]
    density = -0.5 * ((grid + TAUS[:, None] ** 2) / widths) ** 2
    weights = np.exp(density - density.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))

"""Final losses of some candidates in posterior draws, and what moves them about the law's."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.model.misfit.discrepancy import ErrorCorrelation, correlated, variance_of_sum


@dataclass(frozen=True, eq=False)
class Block:
    """Final losses of some candidates.

    Parameters
    ----------
    rows : ndarray of int, shape (block,)
        Which candidates they are.
    losses : ndarray, shape (domains, block, draws)
        The law's expected losses, nats/token.
    missed, spread : callable
        Return what the law misses in each draw, of the same shape, and the sizes of all that moves a loss
        about the law's (see `Layout`).
    """

    rows: Ints
    losses: Floats
    missed: Callable[[], Floats]
    spread: Callable[[], "Spread"]


@dataclass(frozen=True, eq=False)
class Spread:
    """What moves the losses of a run about the law's, as standard deviations in each draw.

    Parameters
    ----------
    law : ndarray, shape (domains, candidates, draws)
        Of what the law misses, which would come again in a run of the same configuration.
    level : ndarray, shape (domains, candidates, draws)
        Of what is left at the end of the level of a base that nobody measured, less that of what a loss is
        counted from: all such bases lie off the law alike.
    own : ndarray, shape (domains, candidates, draws)
        Of what it misses of the single run.
    fluctuation : ndarray, shape (domains, candidates, draws)
        Of a single run about all that.
    correlation : ErrorCorrelation
        Between the validation sets.
    """

    law: Floats
    level: Floats
    own: Floats
    fluctuation: Floats
    correlation: ErrorCorrelation

    def against(self, level: Floats) -> Self:
        """Return the sizes of what moves a rise from losses that are themselves not known.

        Parameters
        ----------
        level : ndarray, shape (domains, candidates or 1, draws)
            Sd of what the rise is counted from, of a base that nobody measured; 0 of a measured one.
        """
        return replace(self, level=self.level - level.astype(self.level.dtype))

    def single_run(self) -> Floats:
        """Return the sd of each loss of a single run, shape (domains, candidates, draws)."""
        return np.sqrt(self.law**2 + self.level**2 + self.chance() ** 2)

    def chance(self) -> Floats:
        """Return the sd of each loss of a run about its configuration's, shape of `own`."""
        return np.sqrt(self.own**2 + self.fluctuation**2)

    def about(self, generator: np.random.Generator) -> Floats:
        """Return draws of single runs about their configurations' losses, shape of `own`.

        Parameters
        ----------
        generator : numpy.random.Generator
        """
        alike = self.correlation
        parts = ((self.own, alike.misfit), (self.fluctuation, alike.fluctuation))
        drawn = np.zeros(self.own.shape)
        for sizes, share in parts:
            drawn += sizes * correlated(generator.standard_normal(sizes.shape), share)
        return drawn

    def of_sum(self, weights: Floats, *, single_run: bool = True) -> Floats:
        """Return the sd of a weighted sum of the losses of a run, shape (candidates, draws).

        Parameters
        ----------
        weights : ndarray, shape (domains,) or (domains, draws)
        single_run : bool
            Whether what is the run's own counts, or the expected loss is asked for.
        """
        alike = self.correlation
        parts = [(self.law, alike.misfit), (self.level, alike.misfit)]
        if single_run:
            parts += [(self.own, alike.misfit), (self.fluctuation, alike.fluctuation)]
        variance = sum(variance_of_sum(sizes, share, weights) for sizes, share in parts)
        return np.sqrt(np.maximum(variance, 0.0))

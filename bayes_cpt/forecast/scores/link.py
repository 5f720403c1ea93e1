"""A monotone link from a validation loss to a benchmark's score, with its uncertainty.

The four-parameter logistic of model ladders (Bhagia et al. 2024, arXiv 2412.04403, Eq. 2), its lower end at
the chance level:

    score = c + (1 - c)·T / (1 + exp(slope·(loss - loss*) - level))

with c the score of who guesses, T the share of the rest that the best of losses gives, and the scatter of
checkpoints about it normal. loss* is the mean loss of the pairs: there level and slope are well determined.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats
from bayes_cpt.forecast.scores.pairs import ScorePairs

NAMES = ("level", "slope", "top", "scatter")


@dataclass(frozen=True, eq=False)
class ScoreLink:
    """The link of one benchmark in posterior draws.

    Parameters
    ----------
    pairs : ScorePairs
        What it was fitted to.
    level, slope, top, scatter : ndarray, shape (draws,)
        As in the module; slope per nat.
    """

    pairs: ScorePairs
    level: Floats
    slope: Floats
    top: Floats
    scatter: Floats

    @cached_property
    def middle(self) -> float:
        """The loss that level belongs to, nats/token."""
        return float(self.pairs.losses.mean())

    def scores(self, losses: NDArray[np.floating]) -> Floats:
        """Return the expected score at losses, of their shape.

        Parameters
        ----------
        losses : ndarray, shape (..., draws)
            nats/token.
        """
        from scipy.special import expit

        chance = self.pairs.chance
        reached = expit(self.level - self.slope * (losses - self.middle))
        return np.asarray(chance + (1.0 - chance) * self.top * reached)

    def losses(self, scores: Floats) -> Floats:
        """Return the loss at which a score is expected, of the shape of `scores`.

        Infinite where the score is the chance level or lower, which no loss falls below; minus infinity
        where no loss reaches it.

        Parameters
        ----------
        scores : ndarray, shape (..., draws)
        """
        from scipy.special import logit

        chance = self.pairs.chance
        share = np.clip((scores - chance) / ((1.0 - chance) * self.top), 0.0, 1.0)
        return np.asarray(self.middle + (self.level - logit(share)) / self.slope)

    def drawn(self, losses: Floats, generator: np.random.Generator) -> Floats:
        """Return scores that single evaluations may show, scatter included, of the shape of `losses`.

        Parameters
        ----------
        losses : ndarray, shape (..., draws)
        generator : numpy.random.Generator
        """
        noise = self.scatter * generator.standard_normal(losses.shape)
        return np.asarray(np.clip(self.scores(losses) + noise, 0.0, 1.0))

    def resampled(self, draws: int, seed: int) -> "ScoreLink":
        """Return the link in as many draws as a law has.

        Parameters
        ----------
        draws, seed : int
        """
        generator = np.random.default_rng(seed)
        rows = generator.choice(self.level.size, draws, replace=draws > self.level.size)
        return ScoreLink(self.pairs, *(getattr(self, name)[rows] for name in NAMES))


@dataclass(frozen=True, eq=False)
class ScoreFit:
    """Links of benchmarks, fitted.

    Parameters
    ----------
    links : dict of str to ScoreLink
        By benchmark.
    problems : tuple of str
        What falls short of the contract (docs/contract.md, "Diagnostics"), the benchmark named first; empty
        where the links can be trusted.
    """

    links: dict[str, ScoreLink]
    problems: tuple[str, ...]

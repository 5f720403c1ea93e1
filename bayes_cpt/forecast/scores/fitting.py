"""The link of a benchmark fitted to pairs of loss and score: priors, log density and NUTS."""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.errors import StudyWarning
from bayes_cpt.forecast.scores.link import NAMES, ScoreFit, ScoreLink
from bayes_cpt.forecast.scores.pairs import ScorePairs, read_pairs
from bayes_cpt.inference.geometry.whitening import Metric
from bayes_cpt.inference.sampling import sample

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.study.study import Study

# Priors: the level and the log odds of T are normal, slope (per nat) and scatter log-normal. Published
# ladders have slopes of 1 to 10 per nat and scatters of half a point to three points.
LEVEL_SD = 1.5
SLOPE_MEDIAN, SLOPE_SIGMA = 2.5, 0.8
TOP_MEDIAN, TOP_SIGMA = 0.8, 1.2
SCATTER_MEDIAN, SCATTER_SIGMA = 0.01, 0.8
# Means and sds of the priors where they are normal: level, log slope, log odds of T, log scatter.
PRIOR_MEANS = np.array(
    [0.0, np.log(SLOPE_MEDIAN), np.log(TOP_MEDIAN / (1.0 - TOP_MEDIAN)), np.log(SCATTER_MEDIAN)]
)
PRIOR_SDS = np.array([LEVEL_SD, SLOPE_SIGMA, TOP_SIGMA, SCATTER_SIGMA])


@dataclass(frozen=True, eq=False)
class LinkDensity:
    """The log density of a link, as `bayes_cpt.inference.sampling.sample` takes it.

    Positions are what pairs determine, and one direction that they may not: the log odds of the share of
    the room that is reached at the mean loss; how far the level lies above the log odds of T; the log of
    the relative slope there; the log scatter. Level and T themselves lie on a hyperbola where no pair comes
    near the top, and level and slope on a ridge where all do.

    Parameters
    ----------
    pairs : ScorePairs
    """

    pairs: ScorePairs

    @property
    def start(self) -> Floats:
        """The medians of the priors, shape (4,)."""
        level, log_slope, odds, log_scatter = PRIOR_MEANS
        reached, top = _share(level), _share(odds)
        middle = math.log(reached * top / (1.0 - reached * top))
        return np.array([middle, level - odds, log_slope + math.log(1.0 - reached), log_scatter])

    def in_metric(self, metric: Metric) -> Callable[[Floats], tuple[float, Floats]]:
        """Return the function of white coordinates: log density and gradient.

        Parameters
        ----------
        metric : Metric
            White coordinates; the function takes some, shape (4,).
        """

        def log_density(white: Floats) -> tuple[float, Floats]:
            position = metric.center + metric.factor @ white
            with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
                natural = _natural(position)
                value, gradient = self._of_natural(natural)
                level, odds = natural[0], natural[2]
                reached, below = _share(level), _share(-level)
                top, missed = _share(odds), _share(-odds)
                both = below + missed
                left = below + reached * missed
                # The slopes by level and T, those of the volume of the coordinates among them; a slope at
                # the mean loss that is kept moves with the level.
                of_level = gradient[0] + gradient[1] * reached
                of_level += below * (reached / both - reached * top / left)
                of_odds = gradient[2] + missed * (top / both - reached * top / left)
                slopes = [
                    (of_level + of_odds) * left / both,
                    (of_level * missed - of_odds * below) / both,
                    gradient[1],
                    gradient[3],
                ]
            return value + float(np.log(left / both)), np.array(slopes) @ metric.factor

        return log_density

    def _of_natural(self, natural: Floats) -> tuple[float, Floats]:
        """Return log density and gradient by level, log slope, log odds of T and log scatter."""
        level, log_slope, odds, log_scatter = natural
        distance = self.pairs.losses - self.pairs.losses.mean()
        scores, room = self.pairs.scores, 1.0 - self.pairs.chance
        slope, scatter, top = np.exp(log_slope), np.exp(log_scatter), _share(odds)
        reached = 1.0 / (1.0 + np.exp(slope * distance - level))
        scaled = (scores - 1.0 + room - room * top * reached) / scatter
        by_score = scaled / scatter
        by_level = by_score * (room * top * reached * (1.0 - reached))
        away = (natural - PRIOR_MEANS) / PRIOR_SDS
        squares = float(scaled @ scaled)
        constant = -0.5 * (scores.size + 4) * np.log(2.0 * np.pi) - np.log(PRIOR_SDS).sum()
        value = constant - 0.5 * (squares + float(away @ away)) - scores.size * log_scatter
        gradient = [
            by_level.sum(),
            -slope * float(by_level @ distance),
            room * top * (1.0 - top) * float(by_score @ reached),
            squares - scores.size,
        ]
        return float(value), np.array(gradient) - away / PRIOR_SDS

    def values(self, positions: Floats) -> dict[str, Floats]:
        """Return level, slope, T and scatter at positions of shape (..., 4).

        Parameters
        ----------
        positions : ndarray, shape (..., 4)
        """
        from scipy.special import expit

        level, slope, odds, scatter = np.moveaxis(_natural(positions), -1, 0)
        values = (level, np.exp(slope), expit(odds), np.exp(scatter))
        return dict(zip(NAMES, values, strict=True))


def _share(odds: float) -> float:
    return float(1.0 / (1.0 + np.exp(-odds)))


def _natural(positions: Floats) -> Floats:
    """Return level, log slope, log odds of T and log scatter at positions, shape (..., 4).

    With ``a = exp(-level)`` and ``b = exp(-odds)`` the share reached at the mean loss is
    ``1/((1 + a)·(1 + b))``: given it and a/b, b solves a quadratic equation.
    """
    middle, apart, relative, log_scatter = np.moveaxis(positions, -1, 0)
    ratio, beyond = np.exp(-apart), np.exp(-middle)
    one = 1.0 + ratio
    odds = np.log(one + np.sqrt(one**2 + 4.0 * ratio * beyond)) - np.log(2.0) + middle
    level = odds + apart
    return np.stack([level, relative + np.logaddexp(0.0, level), odds, log_scatter], axis=-1)


def fit_scores(
    pairs: Sequence[ScorePairs],
    seed: int = 0,
    cores: int | None = None,
    draws: int | None = None,
) -> ScoreFit:
    """Fit the link of every benchmark by NUTS.

    Parameters
    ----------
    pairs : sequence of ScorePairs
        From `bayes_cpt.forecast.scores.pairs.read_pairs`.
    seed : int
    cores : int, optional
        Chains sampled at once; all four unless given.
    draws : int, optional
        Kept in each chain; as many as the diagnostics need unless given.

    Raises
    ------
    SamplingError
        If the density is not finite near the priors' centre.
    """
    links, problems = {}, []
    for paired in pairs:
        sampled = sample(LinkDensity(paired), seed, draws=draws, cores=cores)
        values = {name: draws.ravel() for name, draws in sampled.values.items()}
        links[paired.benchmark] = ScoreLink(paired, *(values[name] for name in NAMES))
        problems += [f"{paired.benchmark}: {said}" for said in sampled.diagnostics.problems]
    return ScoreFit(links, tuple(problems))


def fitted_scores(
    source: "str | Path | pd.DataFrame | ScoreFit",
    study: "Study",
    seed: int = 0,
    cores: int | None = None,
) -> ScoreFit:
    """Return the links of the benchmarks of a table, fitted unless they are already.

    Parameters
    ----------
    source : path, DataFrame or ScoreFit
        As `bayes_cpt.forecast.scores.pairs.read_pairs` takes it.
    study : Study
        The fitted one, whose validation sets the scores go with.
    seed : int
    cores : int, optional

    Raises
    ------
    StudyError
        As `read_pairs`.

    Warns
    -----
    StudyWarning
        If a link falls short of the diagnostics.
    """
    if isinstance(source, ScoreFit):
        return source
    fitted = fit_scores(read_pairs(source, study.domains), seed, cores)
    for problem in fitted.problems:
        warnings.warn(f"scores: {problem}", StudyWarning, stacklevel=3)
    return fitted

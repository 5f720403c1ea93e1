"""The misfit of the law as a function of the configuration: similar runs have similar misfits.

The residual model (`bayes_cpt.model.residuals`) draws the misfit of every curve anew, which is all that the
band of one run needs. To compare runs, or to combine the losses of one, it must say how alike two misfits
are. Here each innovation of the misfit is a Gaussian process over features of the configuration, of mean 0
and variance 1, so that every single curve keeps the misfit that it has in the residual model:

- the share `OWN_SHARE` of its variance is each run's own: another run of the same configuration would show
  another one, so that no choice can gain by it;
- the rest has a Matérn 5/2 correlation between two configurations, of a length in the units of
  `Configuration.features`. The length is hardly known, so that each posterior draw has one of `LENGTHS`;
- between any two losses of one run it has the correlation of `ErrorCorrelation`.

A process is drawn as random Fourier features (Rahimi and Recht 2007): a draw is a smooth function, and
costs as much per configuration as it has waves.

Along a curve *positions* say where its points, shape (points,), lie among the knots of the misfit (see
`misfit_position`); *carried*, shape (points,) or (), is the share of the misfit that goes on from one knot
to the next, *memory* that over an e-fold of steps.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats
from bayes_cpt.laws.term import Reference
from bayes_cpt.study.schedules import Schedule

# Knots of the misfit per e-fold of steps. Between knots it is straight: with few, the bends of a PT curve,
# which is smooth to a thousandth of a nat, would be the law's alone to explain, and would fix its
# coefficients more firmly than the law deserves. CPT curves fluctuate more than they bend.
KNOTS_PT, KNOTS_CPT = 8, 1


def misfit_position(steps: Any, onset: float, per_fold: Any) -> Any:
    """Return where steps lie among the knots of the misfit, so many of them (of each point) per e-fold."""
    return per_fold * np.log1p(np.asarray(steps, dtype=np.float64) / onset)


def misfit_walk(memory: float, per_fold: int) -> tuple[float, float]:
    """Return `carried` and `innovation` of `ResidualDesign`; a memory of 1 is a random walk.

    Over an e-fold the innovations of a misfit of size 1 add up to the variance 1.
    """
    carried = memory ** (1.0 / per_fold)
    lags = carried ** (2.0 * np.arange(per_fold))
    return carried, float(1.0 / np.sqrt(lags.sum()))


def misfit_ramps(position: Any, knots: int, carried: Any) -> Any:
    """Return what unit innovations add at positions among the knots, shape (points, knots).

    Hats, which interpolate between the knots, of the autoregression's response.
    """
    lags = np.floor(position)[:, None] - np.arange(1, knots + 1)
    kept = np.asarray(carried, dtype=np.float64)[..., None]
    below = np.where(lags >= 0, kept ** np.maximum(lags, 0), 0.0)
    above = np.where(lags >= -1, kept ** np.maximum(lags + 1, 0), 0.0)
    share = (position - np.floor(position))[:, None]
    return (1.0 - share) * below + share * above


def misfit_height(position: Any, carried: Any) -> Any:
    """Return what interpolation between knots is stretched by, so that no variance is lost between them.

    A straight line between two knots varies less than what it joins. With the stretch, which is 1 at the
    knots, the misfit has the variance of an Ornstein-Uhlenbeck process everywhere.
    """
    position = np.asarray(position, dtype=np.float64)
    below, share = np.floor(position), position - np.floor(position)
    line = (1.0 - share + share * carried) ** 2 * _walked(below, carried) + share**2
    inside = share > 0
    ratio = _walked(position, carried) / np.where(inside, line, 1.0)
    return np.where(inside, np.sqrt(ratio), 1.0)


def _walked(position: Any, carried: Any) -> Any:
    """Return the variance after so many knots, or parts of them, where each adds the variance 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        fall = 2.0 * np.log(np.asarray(carried, dtype=np.float64))
        adding = np.expm1(position * fall) / np.expm1(fall)
    # A knot that keeps all adds up to a random walk; at the start there is nothing, whatever is kept.
    adding = np.where(fall == 0.0, position, adding)
    return np.where(position > 0, adding, 0.0)


def unit_ramps(steps: Any, onset: float, memory: float) -> Any:
    """Return what innovations of a misfit of size 1 add after some steps of CPT, shape (points, knots).

    The sum of squares of a row is the variance there.
    """
    carried, innovation = misfit_walk(memory, KNOTS_CPT)
    position = misfit_position(steps, onset, KNOTS_CPT)
    size = innovation * misfit_height(position, carried)
    return size[:, None] * misfit_ramps(position, knot_count(position), carried)


def misfit_variance(steps: Any, onset: float, memory: Any) -> Any:
    """Return the variance of a misfit of size 1 after some steps: ``(1 - m^2x)/(1 - m²)``, x in e-folds.

    It is the sum of squares of a row of `unit_ramps`, however many knots there are.
    """
    return _walked(misfit_position(steps, onset, 1), memory)


def knots_beside(position: Any, carried: float, innovation: float) -> tuple[Any, Any, Any]:
    """Return `place`, `knot_carried` and `knot_innovation` of `ResidualDesign` for one curve."""
    below = np.floor(position).astype(np.int64)
    beside = np.unique(np.r_[below, below + 1])
    beside = beside[beside > 0]
    apart = np.diff(beside, prepend=0)
    added = np.cumsum(carried ** (2.0 * np.arange(apart.max())))
    size = innovation * np.sqrt(added[apart - 1])
    link = carried**apart * np.r_[0.0, size[:-1]] / size
    return np.searchsorted(beside, below, side="right") + (position - below), link, size


def knot_count(position: Any) -> int:
    """Return how many knots lie below the last position, or at it."""
    return int(np.ceil(np.max(position)))


# What the errors of 13 held-out lab runs leave open, under flat priors (log of the length): five lengths,
# each as likely as the others, and the mean share (docs/results/misfit.md). They tell that errors of the
# runs of a study are hardly alike, not whether the length is short or much is each run's own.
LENGTHS = (0.27, 0.45, 0.79, 1.4, 2.9)
OWN_SHARE = 0.55
# Degrees of freedom of the Student t distribution that the frequencies of a Matérn 5/2 process have.
FREEDOM = 5.0
WAVES = 128
FEATURES = 6


@dataclass(frozen=True)
class ErrorCorrelation:
    """How alike the errors of any two losses of one run are."""

    misfit: float  # correlation of what the law misses, -1 to 1
    fluctuation: float  # correlation of the fluctuations


def alike(new: Floats, total: Floats, others: int, correlation: float) -> Floats:
    """Return standard normal numbers, of independent `new` ones, that correlate alike with each of others.

    `total` is the sum of the others, which correlate alike among themselves.
    """
    # Numbers of Python, which leave the precision of arrays as it is.
    share = float(correlation / (1.0 + (others - 1) * correlation))
    unshared = math.sqrt(max(1.0 - others * share * correlation, 0.0))
    return np.asarray(share * total + unshared * new)


def correlated(normals: Floats, correlation: float) -> Floats:
    """Return normals, shape (domains, ...), that correlate alike, from independent standard normal ones."""
    mixed = normals.copy()
    for place in range(1, len(mixed)):
        mixed[place] = alike(normals[place], mixed[:place].sum(axis=0), place, correlation)
    return mixed


def variance_of_sum(sizes: Floats, correlation: float, weights: Floats) -> Floats:
    """Return the variance of a weighted sum of losses that err together, with these standard deviations.

    Both have the shape (domains, ...); weights may be (domains,).
    """
    between = [1] * (sizes.ndim - weights.ndim)
    whole = weights.reshape(len(weights), *between, *weights.shape[1:])
    weighted = sizes * whole.astype(sizes.dtype)
    alike = weighted.sum(axis=0) ** 2
    return np.asarray(correlation * alike + (1.0 - correlation) * (weighted**2).sum(axis=0))


@dataclass(frozen=True, eq=False)
class Configuration:
    """What the misfit of CPT runs may depend on, arrays of shape (runs,)."""

    replay: Floats  # share of general data
    # Learning rate of the base, and the highest, the mean and the last one of the run, raw
    initial: Floats
    peak: Floats
    mean: Floats
    last: Floats
    forward_pt: Floats  # S1_pt of the base; 0 where it is not known

    @classmethod
    def of(cls, base: Schedule | None, schedule: Schedule, replay: float) -> Self:
        """Return that of one run, shape (1,); its base's whole PT schedule is None where not known."""
        rates = schedule.learning_rates()
        initial, forward = (base.final, base.learning_rates().sum()) if base else (0.0, 0.0)
        numbers = (replay, initial, rates.max(), rates.mean(), rates[-1], forward)
        return cls(*np.array(numbers, dtype=np.float64)[:, None])

    def features(self, reference: Reference) -> Floats:
        """Return features in which a distance of 1 is a large difference, shape (runs, features).

        The square root of replay, since forgetting is stiff near replay 0; the logarithm of the peak
        learning rate; the base's rate, the mean and the last one as shares of the peak; the logarithm of
        the base's forward area.
        """
        forward = np.where(self.forward_pt > 0, self.forward_pt, reference.forward_pt)
        return np.stack(
            [
                np.sqrt(self.replay),
                np.log(self.peak / reference.learning_rate),
                self.initial / self.peak,
                self.mean / self.peak,
                self.last / self.peak,
                np.log(forward / reference.forward_pt),
            ],
            axis=1,
        )


@dataclass(frozen=True, eq=False)
class SharedMisfit:
    """Draws of the misfit's innovations as functions of features, shape (runs, features)."""

    draws: int  # posterior draws, each with functions of its own
    correlation: float  # between the validation sets of one run
    domains: int  # how many validation sets
    seed: int = 0
    # Of the correlation between configurations: draws have them in turn
    lengths: tuple[float, ...] = LENGTHS
    _drawn: dict[int, Floats] = field(default_factory=dict, repr=False)
    _latest: dict[bytes, "Combined"] = field(default_factory=dict, repr=False)

    @property
    def groups(self) -> list[tuple[slice, float]]:
        """Which draws share a length, and the length."""
        every = len(self.lengths)
        return [(slice(at, None, every), self.lengths[at]) for at in range(min(every, self.draws))]

    @cached_property
    def frequencies(self) -> Floats:
        """Of the waves of a Matérn 5/2 process of length 1, evenly spread, shape (features, waves)."""
        from scipy.special import chdtri, ndtri
        from scipy.stats.qmc import Sobol

        uniform = Sobol(FEATURES + 1, rng=np.random.default_rng(self.seed)).random(WAVES)
        uniform = np.clip(uniform, 1e-6, 1.0 - 1e-6)
        normal, chi_squared = ndtri(uniform[:, :FEATURES]), chdtri(FREEDOM, 1.0 - uniform[:, -1])
        return np.asarray((normal * np.sqrt(FREEDOM / chi_squared)[:, None]).T)

    def waves(self, features: Floats) -> Iterator[tuple[slice, Floats]]:
        """Yield each group of draws, and their cosines and sines, shape (runs, 2·waves), of square 1."""
        phase = (features @ self.frequencies).astype(np.float32)
        for own, length in self.groups:
            short = phase / np.float32(length)
            whole = np.concatenate([np.cos(short), np.sin(short)], axis=1)
            yield own, whole / np.float32(math.sqrt(WAVES))

    def amplitudes(self, knot: int) -> Floats:
        """Return the standard normal amplitudes of an innovation, shape (domains, 2·waves, draws)."""
        if knot not in self._drawn:
            generator = np.random.default_rng([self.seed, knot + 1])
            shape = (self.domains, 2 * WAVES, self.draws)
            plain: Any = generator.standard_normal(shape, dtype=np.float32)
            self._drawn[knot] = correlated(plain, self.correlation)
        return self._drawn[knot]

    @cached_property
    def levels(self) -> Floats:
        """How far a base that was not measured lies off the law, over its sd, shape (domains, draws).

        All such bases of one PT lie off it alike.
        """
        plain = np.random.default_rng(self.seed).standard_normal((self.domains, self.draws))
        return correlated(plain, self.correlation)

    def innovations(self, features: Floats, knots: int) -> Floats:
        """Return the innovations of some runs, shape (domains, runs, draws, knots)."""
        found = np.empty((self.domains, len(features), self.draws, knots))
        for own, waves in self.waves(features):
            for knot in range(knots):
                found[:, :, own, knot] = waves @ self.amplitudes(knot)[..., own]
        return found

    def along(self, ramps: Floats) -> "Combined":
        """Return what is drawn of the misfit where innovations add up as `ResidualDesign.ramps` says."""
        # Candidates that are looked at one after the other mostly end at the same steps.
        key = ramps.tobytes()
        combined = self._latest.get(key)
        if combined is None:
            combined = self._combined(ramps)
            self._latest.clear()
            self._latest[key] = combined
        return combined

    def _combined(self, ramps: Floats) -> "Combined":
        # Steps near each other lie between the same knots: few combinations of innovations count.
        left, values, right = np.linalg.svd(ramps, full_matrices=False)
        rank = int((values > 1e-6 * max(values[0], 1e-30)).sum())
        mixed = [
            np.einsum("k,kdwn->dwn", row, np.stack([self.amplitudes(k) for k in range(row.size)]))
            for row in (values[:rank, None] * right[:rank]).astype(np.float32)
        ]
        whole = np.concatenate(mixed, axis=1)
        amplitudes = [np.ascontiguousarray(whole[..., own]) for own, _ in self.groups]
        return Combined(self, left[:, :rank].astype(np.float32), amplitudes)


@dataclass(frozen=True, eq=False)
class Combined:
    """A misfit of size 1 at some steps, as a function of the configuration."""

    shared: SharedMisfit
    # Share of each of few combinations of innovations at each of the steps, of shape (places, rank)
    places: Floats
    # Of each group of draws that share a length, of shape (domains, rank·2·waves, draws of a group)
    amplitudes: list[Floats]

    def at(self, features: Floats, place: NDArray[np.int64]) -> Floats:
        """Return the misfit of runs, each at the step of its place, shape (domains, runs, draws)."""
        misfit = np.empty((self.shared.domains, len(features), self.shared.draws), np.float32)
        shares = self.places[place][:, :, None]
        groups = zip(self.shared.waves(features), self.amplitudes, strict=True)
        for (own, waves), amplitudes in groups:
            columns = (shares * waves[:, None, :]).reshape(len(waves), -1)
            misfit[..., own] = columns @ amplitudes
        return np.asarray(misfit)

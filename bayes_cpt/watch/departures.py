"""How far a run departs from what is expected of it, beside runs that are on track."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayes_cpt.arrays import Floats

# Evaluations back from the last that departures are summed over; None is all of them.
WINDOWS = (1, 4, 16, None)
# A standardised score that one run on track in a thousand reaches at a given time.
STANDING_OUT = 3.1
# Largest peaks of drawn runs that say how rare still larger ones are, and an excess, in their mean, that
# is no number more.
TAIL, FURTHEST = 40, 600.0
# Keeps the scores of a row that nothing can move from being no numbers.
SMALLEST = 1e-12


@dataclass(frozen=True)
class Row:
    """An evaluation: a step and a validation set."""

    step: int
    domain: str


@dataclass(frozen=True, eq=False)
class Usual:
    """Departures of drawn runs that are on track, white, and what faults would add to them.

    Parameters
    ----------
    whole : tuple of int
        Rows: those measured and those still to come.
    white : ndarray, shape (likenesses, curves, rows)
        For each likeness of the validation sets.
    patterns : mapping of str to ndarray, shape (rows,)
    rows : tuple of Row
    """

    whole: tuple[int, ...]
    white: Floats
    patterns: Mapping[str, Floats]
    rows: tuple[Row, ...]

    @cached_property
    def ends(self) -> list[int]:
        """Rows up to the end of each evaluation."""
        after = [*(row.step for row in self.rows[1:]), None]
        return [i + 1 for i, row in enumerate(self.rows) if after[i] != row.step]

    @cached_property
    def _domains(self) -> dict[str, Floats]:
        """1 in the rows of each validation set, else 0."""
        names = [row.domain for row in self.rows]
        return {
            name: np.array([float(other == name) for other in names])
            for name in dict.fromkeys(names)
        }

    def scores(self, white: Floats, ends: Sequence[int]) -> dict[str, Floats]:
        """Return sums of departures after each evaluation, by name, shape (..., evaluations).

        Parameters
        ----------
        white : ndarray, shape (..., rows)
            Departures that are independent of one another.
        ends : sequence of int
            How many rows each evaluation had before it was over.
        """
        zero = np.zeros((*white.shape[:-1], 1))
        squares = np.concatenate([zero, np.cumsum(white**2, axis=-1)], axis=-1)
        scores: dict[str, Floats] = {}
        places, starts = np.asarray(ends), np.array([0, *ends])
        for window in WINDOWS:
            back = len(ends) if window is None else window
            first = starts[np.maximum(np.arange(1, len(ends) + 1) - back, 0)]
            scores[f"size, {window}"] = np.sqrt(squares[..., places] - squares[..., first])
            # Validation sets each by themselves: what is wrong may show in one alone.
            for domain, mine in self._domains.items():
                here = mine[: white.shape[-1]]
                sums = np.concatenate([zero, np.cumsum(white * here, axis=-1)], axis=-1)
                counts = np.r_[0.0, np.cumsum(here)]
                count = np.maximum(counts[places] - counts[first], 1.0)
                shift = np.abs(sums[..., places] - sums[..., first]) / np.sqrt(count)
                scores[f"shift of {domain}, {window}"] = shift
        for name, pattern in self.patterns.items():
            shift = pattern[: white.shape[-1]]
            strength = np.sqrt(np.cumsum(shift**2))[places - 1] + SMALLEST
            scores[name] = np.cumsum(white * shift, axis=-1)[..., places - 1] / strength
        return scores

    @cached_property
    def standard(self) -> dict[str, tuple[Floats, Floats]]:
        """Mean and standard deviation of each score after each evaluation."""
        return {
            name: (values.mean(axis=(0, 1)), values.std(axis=(0, 1)) + SMALLEST)
            for name, values in self.scores(self.white, self.ends).items()
        }

    @cached_property
    def peaks(self) -> Floats:
        """Largest standardised score of each run over its whole length, shape (likenesses, curves)."""
        standard = [
            ((values - self.standard[name][0]) / self.standard[name][1]).max(axis=-1)
            for name, values in self.scores(self.white, self.ends).items()
        ]
        return np.asarray(np.max(standard, axis=0))


@dataclass(frozen=True, eq=False)
class Departures:
    """Departures of a run, white if it is on track.

    Parameters
    ----------
    usual : Usual
        Those of runs that are.
    white : ndarray, shape (seen,)
    """

    usual: Usual
    white: Floats

    @cached_property
    def scores(self) -> dict[str, Floats]:
        """Standardised scores after each evaluation, by name; none before the first."""
        ends = [end for end in self.usual.ends if end <= self.white.size]
        if not ends:
            return {}
        standard = self.usual.standard
        return {
            name: (values[0] - standard[name][0][: len(ends)]) / standard[name][1][: len(ends)]
            for name, values in self.usual.scores(self.white[None], ends).items()
        }

    def probability(self) -> float:
        """Return the share of runs on track that depart as far at any time of theirs.

        Of several targets the largest such share for any likeness of the validation sets. An alarm
        whenever this falls below a level is false in that share of runs.
        """
        course = self.course()
        return float(course[-1]) if course.size else 1.0

    def course(self) -> Floats:
        """Return that probability as it was after each evaluation, shape (evaluations,)."""
        if not self.scores:
            return np.empty(0)
        largest = np.maximum.accumulate(np.max(list(self.scores.values()), axis=0))
        # Of the likeness for which so large a departure is most usual.
        return np.asarray(np.max([reached(peaks, largest) for peaks in self.usual.peaks], axis=0))

    def likeliest_fault(self) -> str | None:
        """Return the fault whose pattern the departures have most of, None where none stands out."""
        known = [name for name in self.usual.patterns if self.scores]
        best = max(known, key=lambda name: float(self.scores[name][-1]), default=None)
        return best if best is not None and self.scores[best][-1] > STANDING_OUT else None


def reached(peaks: Floats, largest: Floats) -> Floats:
    """Return the share of drawn runs whose peak reaches a departure, shape of `largest`.

    Counted; beyond the `TAIL` largest peaks, where too few runs are left to count, it falls exponentially
    at their mean excess: more slowly than tails of normal scores do.

    Parameters
    ----------
    peaks : ndarray, shape (curves,)
    largest : ndarray
    """
    ranked = np.sort(peaks)
    counted = (1 + peaks.size - np.searchsorted(ranked, largest)) / (1 + peaks.size)
    tail = min(TAIL, peaks.size // 2)
    last = ranked[-tail]
    excess = np.maximum(largest - last, 0.0) / max((ranked[-tail:] - last).mean(), SMALLEST)
    beyond = (1 + tail) / (1 + peaks.size) * np.exp(-np.minimum(excess, FURTHEST))
    return np.where(largest > last, beyond, counted)

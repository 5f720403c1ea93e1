"""What a fit expects of a run, as one Gaussian over its evaluations, and how far the run departs.

Curves are drawn from the posterior predictive distribution of a new run. Their mean and covariance hold
what the fit is unsure of (the law's coefficients), what the law misses and how losses fluctuate; so
conditioning on the points that have arrived updates all of these at once, in a time that does not grow with
the run. Draws that were not used for the covariance say how large departures are in runs on track.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.forecast.plans import planned_curves
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.points import Curves
from bayes_cpt.model.simulate import expected_loss, simulate
from bayes_cpt.study.runs import Run
from bayes_cpt.study.schedules import Schedule
from bayes_cpt.study.study import Study

type Floats = NDArray[np.float64]

# Curves for mean and covariance, and curves that say what is usual.
CURVES, USUAL_CURVES = 3000, 2000
# Evaluations back from the last that departures are summed over; None is all of them.
WINDOWS = (1, 4, 16, None)
# A jitter for the covariance, nats: no loss is measured more finely.
FINEST_LOSS = 1e-5
FAULT_DRAWS = 40
# A standardised score that one run on track in a thousand reaches at a given time.
STANDING_OUT = 3.1
# Keeps the scores of a row that nothing can move from being no numbers.
SMALLEST = 1e-12


@dataclass(frozen=True)
class Row:
    """An evaluation: a step and a validation set."""

    step: int
    domain: str


@dataclass(frozen=True, eq=False)
class Predictive:
    """The posterior predictive distribution of a run at its evaluations.

    Parameters
    ----------
    rows : tuple of Row
        In the order in which they are measured; the last step of the run is among them.
    curves : ndarray, shape (curves, rows)
        Drawn curves, for mean and covariance, nats/token.
    usual : ndarray, shape (curves, rows)
        Others, of which departures are computed as of the run itself.
    faults : mapping of str to ndarray, shape (rows,)
        By how much the loss would be off if the run was not as planned, by what is wrong.
    """

    rows: tuple[Row, ...]
    curves: Floats
    usual: Floats
    faults: Mapping[str, Floats]
    _usual: "Usual | None" = field(default=None, init=False, repr=False)

    @classmethod
    def of(
        cls,
        posterior: Posterior,
        run: Run,
        plan: Study,
        steps: Sequence[int],
        seed: int = 0,
    ) -> Self:
        """Draw the curves of a planned run at some steps.

        Parameters
        ----------
        posterior : Posterior
        run : Run
            Of the plan.
        plan : Study
        steps : sequence of int
            Rising, from 1.
        seed : int
        """
        generator = np.random.default_rng(seed)
        drawn = _curves(posterior, plan, run, steps, CURVES + USUAL_CURVES, generator)
        order, rows = _in_time(posterior.frame.domains, steps)
        planned = _law(posterior, plan, run, steps)
        faults = {
            name: (_law(posterior, plan, other, steps) - planned)[order]
            for name, other in faulty(run).items()
        }
        drawn = drawn[:, order]
        return cls(rows, drawn[:CURVES], drawn[CURVES:], faults)

    @cached_property
    def mean(self) -> Floats:
        """Mean at the rows, nats/token."""
        return np.asarray(self.curves.mean(axis=0))

    @cached_property
    def covariance(self) -> Floats:
        """Covariance of the rows, (nats/token)^2, widened for its own uncertainty."""
        count, rows = self.curves.shape
        found = np.cov(self.curves, rowvar=False) + FINEST_LOSS**2 * np.eye(rows)
        return np.asarray(found * (count - 1) / (count - rows - 2))

    def given(self, seen: Sequence[int], losses: Floats) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of every row given some, shape (rows,) each.

        Parameters
        ----------
        seen : sequence of int
            Rows that were measured.
        losses : ndarray, shape (seen,)
        """
        seen = list(seen)
        if not seen:
            return self.mean, np.sqrt(np.diag(self.covariance))
        root = np.linalg.cholesky(self.covariance[np.ix_(seen, seen)])
        across = np.linalg.solve(root, self.covariance[seen])
        off = np.linalg.solve(root, losses - self.mean[seen])
        variance = np.diag(self.covariance) - (across**2).sum(axis=0)
        return self.mean + across.T @ off, np.sqrt(np.maximum(variance, 0.0))

    def departures(self, seen: Sequence[int], losses: Floats) -> "Departures":
        """Return how far a run departs from what was expected, beside runs on track.

        Parameters
        ----------
        seen : sequence of int
            Rows that were measured, rising: in time.
        losses : ndarray, shape (seen,)
        """
        last = max(seen, default=-1)
        whole = (*seen, *range(last + 1, len(self.rows)))
        if self._usual is None or self._usual.whole != whole:
            # Rows that were passed by without a measurement are no part of the run any more.
            object.__setattr__(self, "_usual", self._usual_of(whole))
        assert self._usual is not None
        root = self._usual.root[: len(seen), : len(seen)]
        off = losses - self.mean[list(seen)]
        return Departures(self._usual, np.linalg.solve(root, off) if seen else np.empty(0))

    def _usual_of(self, whole: tuple[int, ...]) -> "Usual":
        rows = list(whole)
        root = np.linalg.cholesky(self.covariance[np.ix_(rows, rows)])
        white = np.linalg.solve(root, (self.usual[:, rows] - self.mean[rows]).T).T
        patterns = {name: np.linalg.solve(root, off[rows]) for name, off in self.faults.items()}
        return Usual(whole, root, white, patterns, tuple(self.rows[row] for row in rows))


@dataclass(frozen=True, eq=False)
class Usual:
    """Departures of drawn runs that are on track, white, and what faults would add to them.

    Parameters
    ----------
    whole : tuple of int
        Rows: those measured and those still to come.
    root : ndarray, shape (rows, rows)
        Cholesky root of their covariance.
    white : ndarray, shape (curves, rows)
    patterns : mapping of str to ndarray, shape (rows,)
    rows : tuple of Row
    """

    whole: tuple[int, ...]
    root: Floats
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
            name: np.array([float(own == name) for own in names]) for name in dict.fromkeys(names)
        }

    def scores(self, white: Floats, ends: Sequence[int]) -> dict[str, Floats]:
        """Return sums of departures after each evaluation, by name, shape (curves, evaluations)."""
        zero = np.zeros((len(white), 1))
        squares = np.concatenate([zero, np.cumsum(white**2, axis=1)], axis=1)
        found: dict[str, Floats] = {}
        places, starts = np.asarray(ends), np.array([0, *ends])
        for window in WINDOWS:
            back = len(ends) if window is None else window
            first = starts[np.maximum(np.arange(1, len(ends) + 1) - back, 0)]
            found[f"size, {window}"] = np.sqrt(squares[:, places] - squares[:, first])
            # Validation sets each by themselves: in real runs they move together, drawn ones do not.
            for domain, mine in self._domains.items():
                own = mine[: white.shape[1]]
                sums = np.concatenate([zero, np.cumsum(white * own, axis=1)], axis=1)
                counts = np.r_[0.0, np.cumsum(own)]
                count = np.maximum(counts[places] - counts[first], 1.0)
                shift = np.abs(sums[:, places] - sums[:, first]) / np.sqrt(count)
                found[f"shift of {domain}, {window}"] = shift
        for name, pattern in self.patterns.items():
            own = pattern[: white.shape[1]]
            strength = np.sqrt(np.cumsum(own**2))[places - 1] + SMALLEST
            found[name] = np.cumsum(white * own, axis=1)[:, places - 1] / strength
        return found

    @cached_property
    def standard(self) -> dict[str, tuple[Floats, Floats]]:
        """Mean and standard deviation of each score after each evaluation."""
        return {
            name: (own.mean(axis=0), own.std(axis=0) + SMALLEST)
            for name, own in self.scores(self.white, self.ends).items()
        }

    @cached_property
    def peaks(self) -> Floats:
        """Largest standardised score of each run over its whole length, shape (curves,)."""
        standard = [
            ((own - self.standard[name][0]) / self.standard[name][1]).max(axis=1)
            for name, own in self.scores(self.white, self.ends).items()
        ]
        return np.asarray(np.max(standard, axis=0))


@dataclass(frozen=True, eq=False)
class Departures:
    """Departures of a run, white if it is on track.

    Parameters
    ----------
    usual : Usual
        Those of runs that are.
    own : ndarray, shape (seen,)
    """

    usual: Usual
    own: Floats

    @cached_property
    def scores(self) -> dict[str, Floats]:
        """Standardised scores after each evaluation, by name; none before the first."""
        ends = [end for end in self.usual.ends if end <= self.own.size]
        if not ends:
            return {}
        standard = self.usual.standard
        return {
            name: (own[0] - standard[name][0][: len(ends)]) / standard[name][1][: len(ends)]
            for name, own in self.usual.scores(self.own[None], ends).items()
        }

    def probability(self) -> float:
        """Return the share of runs on track that depart as far at any time of theirs.

        An alarm whenever this falls below a level is false in that share of runs.
        """
        if not self.scores:
            return 1.0
        largest = max(float(own.max()) for own in self.scores.values())
        peaks = self.usual.peaks
        return float((1 + (peaks >= largest).sum()) / (1 + peaks.size))

    def likeliest_fault(self) -> str | None:
        """Return the fault whose pattern the departures have most of, None where none stands out."""
        known = [name for name in self.usual.patterns if self.scores]
        best = max(known, key=lambda name: float(self.scores[name][-1]), default=None)
        return best if best is not None and self.scores[best][-1] > STANDING_OUT else None


def faulty(run: Run) -> dict[str, Run]:
    """Return the run with something wrong with it, by what is wrong: what the law can foretell."""
    found = {
        "a peak learning rate twice as high": replace(run, schedule=run.schedule.scaled(2.0)),
        "a peak learning rate half as high": replace(run, schedule=run.schedule.scaled(0.5)),
    }
    if run.replay is not None:
        less, more = 0.5 * run.replay, run.replay + 0.5 * (1.0 - run.replay)
        found[f"a replay ratio near {more:.2g} in place of {run.replay:.2g}"] = replace(
            run, replay=more
        )
        if run.replay > 0:
            found[f"a replay ratio near {less:.2g} in place of {run.replay:.2g}"] = replace(
                run, replay=less
            )
    rates = run.schedule.learning_rates()
    top = int(rates.argmax())
    if rates[-1] < 0.9 * rates[top]:
        held = np.maximum.accumulate(rates)
        steps = np.arange(1, rates.size + 1)
        found["a learning rate that does not decay"] = replace(
            run, schedule=Schedule.from_log(steps, held)
        )
    return found


def _in_time(
    domains: Sequence[str], steps: Sequence[int]
) -> tuple[NDArray[np.int64], tuple[Row, ...]]:
    """Return the order that puts curves one after the other into time, and its rows."""
    rows = [Row(int(step), domain) for domain in domains for step in steps]
    order = np.array(sorted(range(len(rows)), key=lambda i: (rows[i].step, i)), dtype=np.int64)
    return order, tuple(rows[i] for i in order)


def _points(posterior: Posterior, plan: Study, run: Run, steps: Sequence[int]) -> Curves:
    import pandas as pd

    at = pd.MultiIndex.from_product(
        [[run.name], posterior.frame.domains, [int(step) for step in steps]],
        names=["run", "domain", "step"],
    ).to_frame(index=False)
    changed = replace(
        plan, runs=(run,), is_plan=True, losses=plan.losses[plan.losses["run"] == run.name]
    )
    return planned_curves(posterior, changed, at=at, runs=[run.name])[1]


def _curves(
    posterior: Posterior,
    plan: Study,
    run: Run,
    steps: Sequence[int],
    count: int,
    generator: np.random.Generator,
) -> Floats:
    laws = [(law, law.parameters(share)) for law, share in posterior.shares()]
    ends = np.cumsum([len(next(iter(parameters.values()))) for _, parameters in laws])
    chosen = generator.permutation(np.resize(generator.permutation(ends[-1]), count))
    places, drawn = [], []
    for (law, parameters), end in zip(laws, ends, strict=True):
        first = end - len(next(iter(parameters.values())))
        own = np.flatnonzero((first <= chosen) & (chosen < end))
        taken = {name: values[chosen[own] - first] for name, values in parameters.items()}
        curves = _points(law, plan, run, steps)
        drawn.append(simulate(law.frame, taken, curves, None, generator).loss)
        places.append(own)
    return np.concatenate(drawn)[np.argsort(np.concatenate(places))]


def _law(posterior: Posterior, plan: Study, run: Run, steps: Sequence[int]) -> Floats:
    """Return the law's curve, the mean over some draws."""
    expected = [
        expected_loss(law.frame, law.parameters(share), _points(law, plan, run, steps))
        for law, share in posterior.shares(FAULT_DRAWS)
    ]
    return np.asarray(np.concatenate(expected).mean(axis=0))

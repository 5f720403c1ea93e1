"""What a fit expects of a run at its evaluations, and how far the run departs from it.

Curves are drawn from the posterior predictive distribution of a new run. Some give mean and covariance of
its evaluations: conditioning on the points that have arrived updates those to come, in a time that does not
grow with the run. The others say how far healthy runs depart from their forecast.

Real runs depart further than drawn ones: what the law misses may begin sooner, drift, or come of a
configuration that is the first of its kind, and a search over a whole run finds it. So departures count
`INFLATION` times less than they are. That factor was chosen on the ten CPT runs of ``data/cpt-lab``, each
watched by a fit of the nine others (``python -m testbench.watch --unseen``): with it only the run that
re-warms an annealed base, the only one of its kind, gives an alarm at the level of 5 %.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.study.runs import Run
from bayes_cpt.study.schedules import Schedule
from bayes_cpt.study.study import Study

# By how much real runs depart further from their forecast than drawn ones.
INFLATION = 1.6
# Curves for mean and covariance, curves that say how far healthy runs depart, and draws of a mean curve.
CURVES, HEALTHY_CURVES, LAW_DRAWS = 3000, 2000, 200
# Evaluations back from the last that departures are summed over; None is all of them.
WINDOWS = (1, 4, 16, None)
# A standardised score that one healthy run in a thousand reaches at a given time.
STANDING_OUT = 3.1
# Largest peaks of drawn runs that say how rare still larger ones are, and an excess, in their mean, beyond
# which a probability underflows.
TAIL, FURTHEST = 40, 600.0
# Keeps the scores of a row that nothing can move finite.
SMALLEST = 1e-12
# A jitter for the covariance, nats: no loss is measured more finely.
FINEST_LOSS = 1e-5


class Row(NamedTuple):
    """An evaluation: a step and a validation set."""

    step: int
    domain: str


def rows_at(domains: Sequence[str], steps: Iterable[int]) -> tuple[Row, ...]:
    """Return the evaluations on all validation sets at some steps, in time."""
    return tuple(Row(int(step), domain) for step in sorted(steps) for domain in domains)


def drawn_curves(
    posterior: Posterior, plan: Study, run: Run, rows: Sequence[Row], count: int, seed: int = 0
) -> tuple[Floats, Floats]:
    """Return losses of a new run and the law's curves behind them, shape (count, rows) each.

    Runs of one length, at the same rows and with the same seed, are drawn by the same random numbers.
    """
    from bayes_cpt.forecast.predict import draws_at

    at = pd.DataFrame(rows).assign(run=run.name)
    own = plan.losses[plan.losses["run"] == run.name]
    planned = replace(plan, runs=(run,), losses=own, is_plan=True)
    losses: list[Floats] = []
    laws: list[Floats] = []
    # Of few posterior draws each is used again, with other residuals.
    while sum(map(len, losses)) < count:
        drawn = posterior.predict(planned, at=at, draws=count, seed=seed + len(losses))
        losses.append(draws_at(drawn["loss"], at))
        laws.append(draws_at(drawn["expected"], at))
    order = np.random.default_rng(seed).permutation(sum(map(len, losses)))[:count]
    return np.concatenate(losses)[order], np.concatenate(laws)[order]


def faulty(run: Run) -> dict[str, Run]:
    """Return the run with each fault that the law can forecast, by what is wrong."""
    faults = {
        "a peak learning rate twice as high": replace(run, schedule=run.schedule.scaled(2.0)),
        "a peak learning rate half as high": replace(run, schedule=run.schedule.scaled(0.5)),
    }
    if run.replay is not None:
        less, more = 0.5 * run.replay, run.replay + 0.5 * (1.0 - run.replay)
        for other in (more, less) if run.replay > 0 else (more,):
            name = f"a replay ratio near {other:.2g} in place of {run.replay:.2g}"
            faults[name] = replace(run, replay=other)
    rates = run.schedule.learning_rates()
    if rates[-1] < 0.9 * rates.max():
        held = Schedule.from_log(np.arange(1, rates.size + 1), np.maximum.accumulate(rates))
        faults["a learning rate that does not decay"] = replace(run, schedule=held)
    return faults


@dataclass(frozen=True, eq=False)
class Expected:
    """The posterior predictive distribution of a run at its evaluations, as a Gaussian."""

    rows: tuple[Row, ...]  # in time; the last step of the run is among them
    mean: Floats  # nats/token
    covariance: Floats = field(repr=False)  # (nats/token)^2
    healthy: Floats = field(repr=False)  # drawn curves whose departures are those of healthy runs
    # By how much the loss would be off if the run was not as planned, by what is wrong
    faults: Mapping[str, Floats] = field(repr=False)

    @classmethod
    def of(
        cls, posterior: Posterior, run: Run, plan: Study, steps: Sequence[int], apart: bool = False
    ) -> Self:
        """Draw the curves of a planned run at some steps.

        The validation sets err together as the fit says, or each on its own where they are set `apart`.
        """
        rows = rows_at(posterior.frame.domains, steps)
        losses, laws = drawn_curves(posterior, plan, run, rows, CURVES + HEALTHY_CURVES)
        if apart:
            generator = np.random.default_rng(0)
            residuals = losses - laws
            for domain in posterior.frame.domains:
                own = [place for place, row in enumerate(rows) if row.domain == domain]
                residuals[:, own] = residuals[generator.permutation(len(residuals))][:, own]
            losses = laws + residuals
        curves, healthy = losses[:CURVES], losses[CURVES:]
        count, size = curves.shape
        # Widened, as it is estimated.
        covariance = np.cov(curves, rowvar=False) * (count - 1) / (count - size - 2)
        planned = laws.mean(axis=0)
        faults = {
            name: drawn_curves(posterior, plan, other, rows, LAW_DRAWS)[1].mean(axis=0) - planned
            for name, other in faulty(run).items()
        }
        covariance = covariance + FINEST_LOSS**2 * np.eye(size)
        return cls(rows, curves.mean(axis=0), covariance, healthy, faults)

    def of_rows(self, chosen: Sequence[int]) -> Self:
        """Return what is expected at some of the rows."""
        places = list(chosen)
        if len(places) == len(self.rows):
            return self
        return type(self)(
            tuple(self.rows[place] for place in places),
            self.mean[places],
            self.covariance[np.ix_(places, places)],
            self.healthy[:, places],
            {name: shift[places] for name, shift in self.faults.items()},
        )

    def given(self, seen: Sequence[int], losses: Floats) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of every row given some, shape (rows,) each."""
        places = list(seen)
        if not places:
            return self.mean, np.sqrt(np.diag(self.covariance))
        across = self.covariance[places]
        gain = cho_solve(cho_factor(across[:, places]), across)
        mean = self.mean + (losses - self.mean[places]) @ gain
        variance = np.diag(self.covariance) - (across * gain).sum(axis=0)
        return mean, np.sqrt(np.maximum(variance, 0.0))

    @cached_property
    def _root(self) -> Floats:
        return np.asarray(np.linalg.cholesky(self.covariance))

    def _white(self, departures: Floats) -> Floats:
        """Return departures of first rows made independent and of size 1, shape (curves, rows)."""
        count = departures.shape[1]
        return np.asarray(solve_triangular(self._root[:count, :count], departures.T, lower=True).T)

    def _scores(self, white: Floats) -> dict[str, Floats]:
        """Return sums of white departures after each evaluation, by name, shape (curves, evaluations)."""
        steps = [row.step for row in self.rows]
        ends = np.flatnonzero(np.diff(steps, append=np.inf)) + 1
        places = ends[ends <= white.shape[1]]
        starts = np.append(0, places)
        scores: dict[str, Floats] = {}
        for window in WINDOWS:
            back = places.size if window is None else window
            first = starts[np.maximum(np.arange(1, starts.size) - back, 0)]
            scores[f"size, {window}"] = np.sqrt(_summed(white**2, first, places))
            # Each validation set by itself: what is wrong may show in one alone.
            for domain in dict.fromkeys(row.domain for row in self.rows):
                mine = np.array([row.domain == domain for row in self.rows[: white.shape[1]]])
                size = np.sqrt(np.maximum(_summed(mine[None], first, places), 1))
                scores[f"{domain}, {window}"] = np.abs(_summed(white * mine, first, places)) / size
        for name, fault in self.faults.items():
            pattern, whole = self._white(fault[None])[:, : white.shape[1]], 0 * places
            strength = np.sqrt(_summed(pattern**2, whole, places)) + SMALLEST
            scores[name] = _summed(white * pattern, whole, places) / strength
        return scores

    @cached_property
    def _standard(self) -> tuple[dict[str, tuple[Floats, Floats]], Floats]:
        """Mean and standard deviation of each score in healthy runs, and each run's largest one."""
        scores = self._scores(self._white(self.healthy - self.mean))
        standard = {
            name: (own.mean(axis=0), own.std(axis=0) + SMALLEST) for name, own in scores.items()
        }
        standardised = [(scores[name] - mean) / size for name, (mean, size) in standard.items()]
        return standard, np.asarray(np.max(standardised, axis=(0, 2)))

    def departures(self, losses: Floats, inflation: float = INFLATION) -> "Departures":
        """Return how far a run departs, of losses (nats/token) at the first rows.

        Real runs depart further than drawn ones, by the inflation.
        """
        white = self._white((losses - self.mean[: losses.size])[None]) / inflation
        standard, peaks = self._standard
        scores = {
            name: (own[0] - standard[name][0][: own.shape[1]]) / standard[name][1][: own.shape[1]]
            for name, own in self._scores(white).items()
        }
        course = np.maximum.accumulate(np.max(list(scores.values()), axis=0))
        last = {name: float(scores[name][-1]) for name in self.faults if course.size}
        best = max(last, key=lambda name: last[name], default=None)
        fault = best if best is not None and last[best] > STANDING_OUT else None
        return Departures(_reached(peaks, course), fault)


def _summed(values: NDArray[Any], first: Ints, last: Ints) -> NDArray[Any]:
    """Return sums of each row from some places up to others, shape (rows, places)."""
    sums = np.pad(np.cumsum(values, axis=1), ((0, 0), (1, 0)))
    return np.asarray(sums[:, last] - sums[:, first])


@dataclass(frozen=True, eq=False)
class Departures:
    """How far a run departs from its forecast, beside healthy runs."""

    # After each evaluation, the share of healthy runs that stray as far at any time of theirs. An alarm
    # whenever this falls below a level is false in that share of runs.
    course: Floats
    fault: str | None  # the fault that the departures look like; None where none stands out

    @property
    def probability(self) -> float:
        """That share after the last evaluation."""
        return float(self.course[-1]) if self.course.size else 1.0


def _reached(peaks: Floats, largest: Floats) -> Floats:
    """Return the share of drawn runs whose peak reaches a departure, shape of `largest`.

    Counted; beyond the `TAIL` largest peaks, where too few runs are left to count, it falls exponentially
    at their mean excess: more slowly than tails of normal scores do.
    """
    ranked = np.sort(peaks)
    counted = (1 + peaks.size - np.searchsorted(ranked, largest)) / (1 + peaks.size)
    tail = min(TAIL, peaks.size // 2)
    last = ranked[-tail]
    excess = np.maximum(largest - last, 0.0) / max((ranked[-tail:] - last).mean(), SMALLEST)
    beyond = (1 + tail) / (1 + peaks.size) * np.exp(-np.minimum(excess, FURTHEST))
    return np.where(largest > last, beyond, counted)

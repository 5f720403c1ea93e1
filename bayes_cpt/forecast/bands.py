"""Posterior x plan -> bands, curve by curve: of any number of runs without holding their draws.

Given a posterior draw the loss at a point is normal: about the law's curve in a new run, about what its
neighbours tell in a known one. So mean and sd of the mixture over draws are had exactly, and for its
quantiles every draw is paired with one standard normal number.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import batched
from typing import Any, Self
from zlib import crc32

import numpy as np
import pandas as pd
from numpy.random import Generator

from bayes_cpt.arrays import SUMMARY, Floats
from bayes_cpt.checks import check_interval, check_whole
from bayes_cpt.forecast import plans
from bayes_cpt.forecast.drawn import Drawn, point_table
from bayes_cpt.forecast.error_correlation import error_correlation
from bayes_cpt.forecast.plans import Kind, Plan, Points, Prepared
from bayes_cpt.forecast.third_sets import Changes, ThirdSet, check_bases, check_names, third_sets
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.evaluate import Draws, in_threads, losses, noise, paired_normals, some_of
from bayes_cpt.model.points import Curves
from bayes_cpt.model.simulate import CurveDraws, expected_loss, known_moments, simulate
from bayes_cpt.study.ranges import outside_range
from bayes_cpt.study.runs import Run

# Runs whose areas are in memory at once, and losses, in each thread.
RUNS_AT_ONCE, LOSSES_AT_ONCE = 8, 2**19
# So many losses are evaluated in single precision: they are then within 1e-6 nats.
VERY_MANY = 10**8


def bands(
    posterior: Posterior,
    plan: Plan = None,
    kind: Kind = "new_run",
    *,
    at: Points | None = None,
    draws: int = plans.DRAWS,
    seed: int = 0,
    interval: float = 0.9,
    cores: int | None = None,
    sets: Sequence[str] = (),
) -> pd.DataFrame:
    """Return the bands of a plan's loss curves.

    Memory does not grow with the number of runs. Means and standard deviations have no Monte Carlo error
    beyond that of the posterior draws.

    Parameters
    ----------
    posterior, plan, kind, at, draws, seed
        As in `bayes_cpt.forecast.predict.predict`.
    interval : float
        Mass of the central interval between lower and upper.
    cores : int, optional
        Threads; as many as there are cores unless given.
    sets : sequence of str
        Third validation sets to forecast too, by name, or ``("all",)`` (see
        `bayes_cpt.forecast.third_sets`). Their bands are of draws, CPT runs alone.

    Returns
    -------
    DataFrame
        Columns run, step, domain, mean, median, sd, lower, upper, kind, outside; the mass of the
        interval is in ``attrs["interval"]``.

    Raises
    ------
    PlanError
        Naming run and step of what cannot be predicted.
    """
    return Forecast.of(posterior, plan, kind, at, draws, seed, interval, sets).bands(cores)


@dataclass(frozen=True, eq=False)
class ForecastLaw:
    """The posterior of one law and third validation sets, and the losses in its draws."""

    posterior: Posterior
    parameters: dict[str, Floats]
    kind: str
    seed: int
    third: tuple[ThirdSet, ...]
    dtype: Any

    @cached_property
    def draws(self) -> Draws:
        """The law in its draws."""
        return Draws.of(self.posterior.frame, self.parameters).astype(self.dtype)

    @cached_property
    def normals(self) -> Floats:
        """A standard normal number for each draw."""
        return paired_normals(self.draws.count, self.seed).astype(self.dtype)

    def losses(self, curves: Curves) -> tuple[Floats, Floats, Floats]:
        """Return mean and variance at each point, and losses less the mean, shape (points, draws)."""
        sd = None
        if self.kind == "known_run":
            observed = plans.observed_curves(self.posterior, curves)
            frame = self.posterior.frame
            means, variances = known_moments(frame, self.parameters, curves, observed)
            about, sd = np.array(means.T), np.sqrt(variances.T)
        else:
            about = losses(curves, self.draws)
            if self.kind == "new_run":
                sd = noise(curves, self.draws)
        mean = about.mean(axis=1, dtype=np.float64)
        about -= mean[:, None].astype(about.dtype)
        variance = np.vecdot(about, about) / max(self.draws.count - 1, 1)
        if sd is not None:
            variance = variance + np.vecdot(sd, sd) / self.draws.count
            sd *= self.normals
            about += sd
        return mean, variance, about

    def draw_run(self, plan: Prepared, run: Run) -> Drawn:
        """Return draws of a run's losses on all validation sets."""
        # A run's own seed: its draws do not hang on what is forecast beside it.
        generator = np.random.default_rng([self.seed, crc32(run.name.encode())])
        frame, parameters = self.posterior.frame, self.parameters
        curves = plan.curves(frame, [run])
        if self.kind == "expected":
            expected = expected_loss(frame, parameters, curves)
            drawn = CurveDraws(expected, expected, expected)
        else:
            known = self.kind == "known_run"
            observed = plans.observed_curves(self.posterior, curves) if known else None
            alike = None if known else error_correlation(self.posterior)
            drawn = simulate(frame, parameters, curves, observed, generator, alike)
        parts = [Drawn(point_table(curves), drawn.expected, drawn.loss)]
        if self.third and run.phase == "cpt":
            parts += self._draw_third(plan, run, curves, drawn, generator)
        return Drawn.joined(parts, axis=1)

    def _draw_third(
        self, plan: Prepared, run: Run, curves: Curves, drawn: CurveDraws, generator: Generator
    ) -> Iterator[Drawn]:
        """Yield draws of third validation sets at the wanted steps of a run, of whose law's curves."""
        frame = self.posterior.frame
        expected, slow = (Changes.of(frame, curves, own) for own in (drawn.expected, drawn.slow))
        steps = slow.steps
        for third in self.third:
            wanted = np.isin(steps, list(plan.asked[run.name, third.name]))
            if not wanted.any():
                continue
            start = plan.study.base_loss(str(run.base), third.name) or 0.0
            law, loss = (start + own.linear(third.weights) for own in (expected, slow))
            if self.kind != "expected":
                at, losses = plan.study.curve(run.name, third.name)
                seen = np.isin(steps, at) & (self.kind == "known_run")
                residual = losses[np.isin(at, steps[seen])] - loss[:, seen]
                loss = loss + third.drawn(slow, generator, seen, residual)
            where = {"run": run.name, "step": steps[wanted].astype(np.int64), "domain": third.name}
            yield Drawn(pd.DataFrame(where), law[:, wanted], loss[:, wanted])


def _summaries(laws: Sequence[ForecastLaw], curves: Sequence[Curves], interval: float) -> Floats:
    """Return `SUMMARY` at every point of some curves over the draws of all laws, shape (points, 5)."""
    parts = [np.arange(len(curves[0].points.steps))]
    # What was measured tells of whole curves, and of all that are asked for.
    if laws[0].kind != "known_run":
        most = max(LOSSES_AT_ONCE // sum(law.draws.count for law in laws), 1)
        ends = np.flatnonzero(np.diff(curves[0].points.curve_index)) + 1
        by_curve = np.split(parts[0], ends)
        parts = [rows for own in by_curve for rows in np.array_split(own, -(-own.size // most))]
    found = []
    for rows in parts:
        here = slice(rows[0], rows[-1] + 1)
        found.append(_summary(laws, [some_of(own, here) for own in curves], interval))
    return np.concatenate(found)


def _summary(laws: Sequence[ForecastLaw], curves: Sequence[Curves], interval: float) -> Floats:
    shares = np.array([law.draws.count for law in laws]) / sum(law.draws.count for law in laws)
    parts = [law.losses(own) for law, own in zip(laws, curves, strict=True)]
    means, variances = (np.stack([part[place] for part in parts]) for place in (0, 1))
    mean = shares @ means
    variance = shares @ (variances + (means - mean) ** 2)
    pooled = parts[0][2]
    # One law alone is its own mean: large blocks are not copied.
    if len(parts) > 1:
        apart = (means - mean)[:, :, None].astype(pooled.dtype)
        moved = [part[2] + own for part, own in zip(parts, apart, strict=True)]
        pooled = np.concatenate(moved, axis=1)
    marks = np.array([0.5, 0.5 - interval / 2, 0.5 + interval / 2])
    median, lower, upper = mean + _quantiles(pooled, marks)
    return np.stack([mean, median, np.sqrt(np.maximum(variance, 0.0)), lower, upper], axis=1)


def _quantiles(pooled: Floats, fractions: Floats) -> Floats:
    """Return quantiles of each row as `numpy.quantile` interpolates them, shape (quantiles, rows).

    Rows are sorted in place: NumPy does that in vector instructions, and looks for several places in a row
    one number at a time.
    """
    pooled.sort(axis=1)
    place = fractions * (pooled.shape[1] - 1)
    below = place.astype(np.int64)
    above = np.minimum(below + 1, pooled.shape[1] - 1)
    low, high = (pooled[:, rank].astype(np.float64) for rank in (below, above))
    return np.asarray((low + (place - below) * (high - low)).T)


def marked(table: pd.DataFrame, notes: Mapping[str, str], first: Mapping[str, float]) -> pd.Series:
    """Return what is outside at rows of a table, given what is of each run and its `first_step`."""
    run, is_early = table["run"], table["step"] <= table["run"].map(first)
    wrong = "a loss at or below 0, where the law does not hold"
    low = dict.fromkeys(run[(table["lower"] <= 0.0) & ~is_early], wrong)
    notes = {own: "; ".join(filter(None, (low.get(own), note))) for own, note in notes.items()}
    said = "step {:.0f} and before, where the law does not hold yet".format
    early = {own: "; ".join(filter(None, (notes[own], said(first[own])))) for own in notes}
    return run.map(notes).mask(is_early, run.map(early))


@dataclass(frozen=True, eq=False)
class Forecast:
    """What is asked of a posterior: a plan, each law in its share of the draws, the mass of the bands."""

    posterior: Posterior
    plan: Prepared
    laws: list[ForecastLaw]
    sets: tuple[str, ...]
    interval: float

    @classmethod
    def of(
        cls,
        posterior: Posterior,
        plan: Plan,
        kind: Kind,
        at: Points | None,
        draws: int,
        seed: int,
        interval: float,
        sets: Sequence[str],
    ) -> Self:
        """Return a forecast; parameters and errors are those of `bands`."""
        if kind not in plans.KINDS:
            raise ValueError(f"kind is {kind!r}: give one of {', '.join(plans.KINDS)}")
        check_interval(interval)
        check_whole(seed, draws=draws)
        thirds = check_names(posterior, sets)
        prepared = plans.prepare(posterior, plan, at=at, known=kind == "known_run", sets=thirds)
        if thirds:
            check_bases(prepared, (*posterior.frame.domains, *thirds))
        known = posterior.with_new_groups(prepared.study, prepared.runs)
        points = sum(len(steps) for steps in prepared.steps.values())
        dtype = np.float32 if points * draws >= VERY_MANY else np.float64
        laws = []
        for law, count in known.shares(draws):
            parameters = law.parameters(count)
            third = third_sets(law, thirds, parameters, seed) if thirds else ()
            laws.append(ForecastLaw(law, parameters, kind, seed, third, dtype))
        return cls(posterior, prepared, laws, thirds, interval)

    def bands(self, cores: int | None = None) -> pd.DataFrame:
        """Return the bands (see `bands`), so many threads at work."""
        for law in self.laws:
            # Threads need not wait for each other then.
            _ = law.draws.blocks, law.normals
        chunks = batched(self.plan.asked_runs, RUNS_AT_ONCE)
        table = pd.concat(in_threads(self._bands_of, chunks, cores), ignore_index=True)
        table.attrs["interval"] = self.interval
        return table

    def _bands_of(self, runs: Sequence[Run]) -> pd.DataFrame:
        plan, laws = self.plan, self.laws
        curves = [plan.curves(law.posterior.frame, runs, law.draws.form) for law in laws]
        found = zip(SUMMARY, _summaries(laws, curves, self.interval).T, strict=True)
        table = point_table(curves[0]).assign(**dict(found))
        if self.sets:
            # A third set needs the law at more steps than it was asked for.
            asked = zip(table["run"], table["domain"], table["step"], strict=True)
            table = table[[step in plan.asked[run, domain] for run, domain, step in asked]]
            drawn = [self.draw_run(run).bands(self.interval) for run in runs]
            of_sets = [own[own["domain"].isin(self.sets)] for own in drawn]
            table = pd.concat([table, *of_sets])
            of_run = table["run"].map({run.name: place for place, run in enumerate(runs)})
            table = table.iloc[np.argsort(of_run, kind="stable")].reset_index(drop=True)
        fitted = self.posterior.study
        notes = {run.name: "; ".join(outside_range(fitted, plan.study, run)) for run in runs}
        first = {run.name: plans.first_step(self.posterior, run) for run in runs}
        return table.assign(kind=laws[0].kind, outside=marked(table, notes, first))

    def draw_run(self, run: Run) -> Drawn:
        """Return draws of a run's losses on all validation sets."""
        return Drawn.joined([law.draw_run(self.plan, run) for law in self.laws], axis=0)

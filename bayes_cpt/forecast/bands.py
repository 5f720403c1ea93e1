"""Posterior x plan -> bands, curve by curve: of any number of runs without holding their draws.

Given a posterior draw the loss at a point is normal: about the law's curve in a new run, about what its
neighbours tell in a known one. So mean and sd of the mixture over draws are had exactly, and for its
quantiles every draw is paired with one standard normal number.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.forecast.drawn import COLUMNS, Drawn, point_table
from bayes_cpt.forecast.error_correlation import error_correlation
from bayes_cpt.forecast.evaluate import (
    Draws,
    in_threads,
    losses,
    noise,
    paired_normals,
    some_of,
)
from bayes_cpt.forecast.plans import (
    DRAWS,
    Kind,
    Prepared,
    check_interval,
    check_kind,
    observed_curves,
    prepare,
)
from bayes_cpt.forecast.third_sets import ThirdSet, check_names, third_curves, third_sets
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.points import Curves
from bayes_cpt.model.simulate import CurveDraws, expected_loss, known_moments, simulate
from bayes_cpt.study.ranges import outside_range
from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study

if TYPE_CHECKING:
    import pandas as pd


# What is found at each point.
SUMMARY = ("mean", "sd", "median", "lower", "upper")
# Runs whose areas are in memory at once, and losses, in each thread.
RUNS_AT_ONCE, LOSSES_AT_ONCE = 8, 2**19
# So many losses are evaluated in single precision: they are then within 1e-6 nats.
VERY_MANY = 10**8


def bands(
    posterior: Posterior,
    plan: "Study | str | Path | None" = None,
    kind: Kind = "new_run",
    *,
    at: "pd.DataFrame | str | Path | None" = None,
    draws: int = DRAWS,
    seed: int = 0,
    interval: float = 0.9,
    cores: int | None = None,
    sets: Sequence[str] = (),
) -> "pd.DataFrame":
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
    check_kind(kind)
    check_interval(interval)
    thirds = check_names(posterior, sets)
    prepared = prepare(posterior, plan, at=at, known=kind == "known_run", sets=thirds)
    return prepared_bands(posterior, prepared, kind, draws, seed, interval, cores, thirds)


def prepared_bands(
    posterior: Posterior,
    prepared: Prepared,
    kind: Kind,
    draws: int,
    seed: int,
    interval: float,
    cores: int | None = None,
    sets: Sequence[str] = (),
) -> "pd.DataFrame":
    """Return the bands of a plan that was prepared: parameters and result are those of `bands`."""
    import pandas as pd

    known = posterior.with_new_groups(prepared.study, prepared.runs)
    points = sum(len(steps) for steps in prepared.steps.values())
    dtype = np.float32 if points * draws >= VERY_MANY else np.float64
    laws = [
        _Law(law, law.parameters(count), kind, seed, interval, dtype)
        for law, count in known.shares(draws)
    ]
    third = [third_sets(law.posterior, sets, law.parameters, seed) if sets else () for law in laws]

    def summarised(runs: list[Run]) -> "pd.DataFrame":
        curves = [prepared.curves(law.posterior.frame, runs, law.draws.form) for law in laws]
        found = dict(zip(SUMMARY, _summaries(laws, curves).T, strict=True))
        law_bands = point_table(curves[0]).assign(**{name: found[name] for name in COLUMNS})
        if prepared.asked is not prepared.steps:
            asked = zip(law_bands["run"], law_bands["domain"], law_bands["step"], strict=True)
            law_bands = law_bands[
                [step in prepared.asked[run, domain] for run, domain, step in asked]
            ]
        if sets:
            parts = [law_bands, *_third_bands(prepared, laws, third, runs)]
            law_bands = pd.concat(parts, ignore_index=True)
        notes = {
            run.name: "; ".join(outside_range(posterior.study, prepared.study, run)) for run in runs
        }
        return law_bands.assign(kind=kind, outside=law_bands["run"].map(notes))

    for law in laws:
        # Threads need not wait for each other then.
        _ = law.draws.blocks, law.normals
    chunks = _chunks(posterior, prepared)
    table = pd.concat(in_threads(summarised, chunks, cores), ignore_index=True)
    table.attrs["interval"] = interval
    return table


@dataclass(frozen=True, eq=False)
class _Law:
    """The posterior of one law, and the losses at points of curves in its draws."""

    posterior: Posterior
    parameters: dict[str, Floats]
    kind: str
    seed: int
    interval: float
    dtype: Any

    @cached_property
    def draws(self) -> Draws:
        return Draws.of(self.posterior.frame, self.parameters).astype(self.dtype)

    @cached_property
    def normals(self) -> Floats:
        return paired_normals(self.draws.count, self.seed).astype(self.dtype)

    def losses(self, curves: Curves) -> tuple[Floats, Floats, Floats]:
        """Return mean and variance at each point, and losses less the mean, shape (points, draws)."""
        sd = None
        if self.kind == "known_run":
            observed = observed_curves(self.posterior, curves)
            frame = self.posterior.frame
            means, variances = known_moments(frame, self.parameters, curves, observed)
            about, sd = np.array(means.T), np.sqrt(variances.T)
        else:
            about = losses(curves, self.draws)
            if self.kind == "new_run":
                sd = noise(curves, self.draws)
        mean = about.mean(axis=1, dtype=np.float64)
        about -= mean[:, None].astype(about.dtype)
        variance = _squares(about) / max(self.draws.count - 1, 1)
        if sd is not None:
            variance = variance + _squares(sd) / self.draws.count
            sd *= self.normals
            about += sd
        return mean, variance, about


def _squares(values: Floats) -> Floats:
    return np.asarray(np.einsum("pd,pd->p", values, values), dtype=np.float64)


def _summaries(laws: Sequence[_Law], curves: Sequence[Curves]) -> Floats:
    """Return `SUMMARY` at every point of some curves over the draws of all laws, shape (points, 5)."""
    count = len(curves[0].points.steps)
    parts = [np.arange(count)]
    # What was measured tells of whole curves, and of all that are asked for.
    if laws[0].kind != "known_run":
        most = max(LOSSES_AT_ONCE // sum(law.draws.count for law in laws), 1)
        ends = np.flatnonzero(np.diff(curves[0].points.curve_index)) + 1
        by_curve = np.split(parts[0], ends)
        parts = [rows for own in by_curve for rows in np.array_split(own, -(-own.size // most))]
    return np.concatenate(
        [
            _summary(laws, [some_of(own, slice(rows[0], rows[-1] + 1)) for own in curves])
            for rows in parts
        ]
    )


def _summary(laws: Sequence[_Law], curves: Sequence[Curves]) -> Floats:
    shares = np.array([law.draws.count for law in laws]) / sum(law.draws.count for law in laws)
    parts = [law.losses(own) for law, own in zip(laws, curves, strict=True)]
    means, variances = (np.stack([part[place] for part in parts]) for place in (0, 1))
    mean = shares @ means
    variance = shares @ (variances + (means - mean) ** 2)
    half = laws[0].interval / 2
    pooled = parts[0][2]
    if len(parts) > 1:
        apart = (means - mean)[:, :, None].astype(pooled.dtype)
        pooled = np.concatenate(
            [part[2] + own for part, own in zip(parts, apart, strict=True)], axis=1
        )
    quantiles = mean + _quantiles(pooled, np.array([0.5, 0.5 - half, 0.5 + half]))
    return np.stack([mean, np.sqrt(np.maximum(variance, 0.0)), *quantiles], axis=1)


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


def draw_curves(
    law: Posterior,
    parameters: dict[str, Floats],
    curves: Curves,
    kind: str,
    generator: np.random.Generator,
) -> CurveDraws:
    """Return curves in draws of one law.

    Raises
    ------
    PlanError
        If a known run was not measured.
    """
    if kind == "expected":
        expected = expected_loss(law.frame, parameters, curves)
        return CurveDraws(expected, expected, expected)
    observed = observed_curves(law, curves) if kind == "known_run" else None
    alike = error_correlation(law) if observed is None else None
    return simulate(law.frame, parameters, curves, observed, generator, alike)


def _third_bands(
    prepared: Prepared,
    laws: Sequence[_Law],
    third: Sequence[Sequence[ThirdSet]],
    runs: Sequence[Run],
) -> "Iterator[pd.DataFrame]":
    """Yield bands of third validation sets."""
    for run in runs:
        # A run's own seed: its bands do not hang on what is forecast beside it.
        seed = [laws[0].seed, crc32(run.name.encode())]
        drawn = []
        for law, sets in zip(laws, third, strict=True):
            generator, frame = np.random.default_rng(seed), law.posterior.frame
            curves = prepared.curves(frame, [run])
            losses = draw_curves(law.posterior, law.parameters, curves, law.kind, generator)
            own = third_curves(sets, prepared, frame, curves, losses, law.kind, generator)
            drawn += [own] if own else []
        if drawn:
            yield Drawn.over_laws(drawn).bands(laws[0].interval)


def _chunks(posterior: Posterior, prepared: Prepared) -> Iterator[list[Run]]:
    """Yield runs with wanted steps, some at a time."""
    domains = posterior.frame.domains
    wanted = [
        run for run in prepared.runs if any(prepared.steps[run.name, domain] for domain in domains)
    ]
    for start in range(0, len(wanted), RUNS_AT_ONCE):
        yield wanted[start : start + RUNS_AT_ONCE]

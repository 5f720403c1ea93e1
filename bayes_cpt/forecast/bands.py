"""Posterior x plan -> bands, curve by curve: of any number of runs without holding their draws.

A band belongs to a point, and needs no draws of whole curves. Given a posterior draw, a loss of a new run
is normal about the law's curve: so the mean and standard deviation of the mixture are had exactly, and for
its quantiles every draw is paired with one standard normal number.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.forecast.marginals import SUMMARY, Marginals
from bayes_cpt.forecast.plans import Prepared, prepare
from bayes_cpt.forecast.predict import DRAWS, Kind, check_interval, check_kind
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.points import Curves
from bayes_cpt.study.ranges import outside_range
from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study

if TYPE_CHECKING:
    import pandas as pd

type Floats = NDArray[np.float64]

# More losses than this are computed by compiled code in single precision; fewer are not worth loading it.
LARGE = 3e7
# Losses that are in memory at once, in each thread, where NumPy computes them.
AT_ONCE = 1e6
RUNS_AT_ONCE = 16


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
) -> "pd.DataFrame":
    """Return the bands of a plan's loss curves.

    They are those of ``table(predict(...))``, by a way whose memory does not grow with the number of runs.
    Means and standard deviations have no Monte Carlo error beyond that of the posterior draws; large
    forecasts, computed in single precision, are within 1e-5 nats of small ones.

    Parameters
    ----------
    posterior, plan, kind, at, draws, seed
        As in `bayes_cpt.forecast.predict.predict`.
    interval : float
        Mass of the central interval between lower and upper.
    cores : int, optional
        Threads; as many as there are cores unless given.

    Returns
    -------
    DataFrame
        As from `bayes_cpt.forecast.predict.table`.

    Raises
    ------
    PlanError
        Naming run and step of what cannot be predicted.
    """
    import pandas as pd
    from joblib import cpu_count
    from threadpoolctl import threadpool_limits

    check_kind(kind)
    check_interval(interval)
    prepared = prepare(posterior, plan, at=at, known=kind == "known_run")
    marginals = Marginals(posterior, posterior.parameters(draws), kind, seed, interval)
    points = _points(posterior, prepared)
    large = marginals.draws * sum(points.values()) > LARGE
    if large:
        marginals.compile()

    def found(chunk: tuple[int, list[Run]]) -> "pd.DataFrame":
        number, runs = chunk
        curves = prepared.curves(posterior.frame, runs, marginals.momentum_range)
        summary = marginals.summary(curves, number, compiled=large)
        return _table(posterior, prepared.study, curves, summary, kind)

    # The threads of a matrix product would wait for those of the chunks.
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(cores or cpu_count()) as pool:
        chunks = enumerate(_chunks(prepared, points, 0 if large else marginals.draws))
        table = pd.concat(pool.map(found, chunks), ignore_index=True)
    table.attrs["interval"] = interval
    return table


def _points(posterior: Posterior, prepared: Prepared) -> dict[str, int]:
    """Return how many losses are wanted of each run."""
    return {
        run.name: sum(len(prepared.steps[run.name, own]) for own in posterior.frame.domains)
        for run in prepared.runs
    }


def _chunks(prepared: Prepared, points: dict[str, int], draws: int) -> Iterator[list[Run]]:
    """Yield runs with wanted steps, as many at a time as memory is meant for."""
    chunk: list[Run] = []
    for run in prepared.runs:
        if not points[run.name]:
            continue
        chunk.append(run)
        wanted = draws * sum(points[own.name] for own in chunk)
        if wanted >= AT_ONCE or len(chunk) == RUNS_AT_ONCE:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _table(
    posterior: Posterior, plan: Study, curves: Curves, summary: Floats, kind: str
) -> "pd.DataFrame":
    import pandas as pd

    index = curves.points.curve_index
    names = [curve.run for curve in curves.curves]
    notes = {
        name: "; ".join(outside_range(posterior.study, plan, plan.run(name)))
        for name in dict.fromkeys(names)
    }
    columns = dict(zip(SUMMARY, summary.T, strict=True))
    return pd.DataFrame(
        {
            "run": np.array(names, dtype=object)[index],
            "step": curves.points.steps.astype(np.int64),
            "domain": np.array([curve.domain for curve in curves.curves], dtype=object)[index],
            **{name: columns[name] for name in ("mean", "median", "sd", "lower", "upper")},
            "kind": kind,
            "outside": np.array([notes[name] for name in names], dtype=object)[index],
        }
    )

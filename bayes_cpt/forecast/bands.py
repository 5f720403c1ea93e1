"""Posterior x plan -> bands, curve by curve: of any number of runs without holding their draws.

A band belongs to a point, and needs no draws of whole curves (see `bayes_cpt.forecast.marginals`).
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.forecast.draws import draw_curves
from bayes_cpt.forecast.marginals import SUMMARY, Marginals, summary
from bayes_cpt.forecast.plans import (
    DRAWS,
    Kind,
    Prepared,
    check_interval,
    check_kind,
    prepare,
)
from bayes_cpt.forecast.skeleton import spread_out
from bayes_cpt.forecast.third_sets.curves import (
    COLUMNS,
    DrawnCurve,
    drawn_bands,
    joined,
    third_curves,
)
from bayes_cpt.forecast.third_sets.weights import ThirdSet, check_names, third_sets
from bayes_cpt.inference.new_groups import covering
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.points import Curves
from bayes_cpt.study.ranges import outside_range
from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study
from bayes_cpt.threads import one_thread

if TYPE_CHECKING:
    import pandas as pd


# Runs whose areas are in memory at once, in each thread.
RUNS_AT_ONCE = 8
# Runs that tell which draws determine the others.
RUNS_SAMPLED = 48


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
    beyond that of the posterior draws. Of 1,000 draws and more, some determine the others within 1e-5 nats.

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
        `bayes_cpt.forecast.third_sets.weights`). Their bands are of draws, CPT runs alone.

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
    """Return the bands of a plan that was prepared: parameters and result are those of `bands`.

    Parameters
    ----------
    posterior : Posterior
    prepared : Prepared
        What is wanted.
    kind, draws, seed, interval, cores, sets
        As there; the sets as from `check_names`.
    """
    import pandas as pd
    from joblib import cpu_count

    known = covering(posterior, prepared.study, prepared.runs)
    laws = [
        Marginals(law, law.parameters(count), kind, seed, interval)
        for law, count in known.shares(draws)
    ]
    third = [third_sets(law.posterior, sets, law.parameters, seed) if sets else () for law in laws]

    def summarised(runs: list[Run]) -> "pd.DataFrame":
        curves = [prepared.curves(law.posterior.frame, runs, law.form) for law in laws]
        law_bands = _table(posterior, prepared.study, curves[0], summary(laws, curves), kind)
        if prepared.asked is not prepared.steps:
            asked = zip(law_bands["run"], law_bands["domain"], law_bands["step"], strict=True)
            law_bands = law_bands[
                [step in prepared.asked[run, domain] for run, domain, step in asked]
            ]
        return _with_third(law_bands, prepared, laws, third, runs) if sets else law_bands

    # The threads of a matrix product would wait for those of the chunks.
    with one_thread("blas"), ThreadPoolExecutor(cores or cpu_count()) as pool:
        points = sum(len(steps) for steps in prepared.steps.values())
        for marginals in laws:
            marginals.prepare(partial(_sampled, posterior, prepared, marginals), points, pool)
        tables = pool.map(summarised, _chunks(posterior, prepared))
        table = pd.concat(tables, ignore_index=True)
    table.attrs["interval"] = interval
    return table


def _with_third(
    law_bands: "pd.DataFrame",
    prepared: Prepared,
    laws: Sequence[Marginals],
    third: Sequence[Sequence[ThirdSet]],
    runs: Sequence[Run],
) -> "pd.DataFrame":
    """Return bands of the law with those of third validation sets."""
    import pandas as pd

    thirds: list[DrawnCurve] = []
    for run in runs:
        # A run's own seed: its bands do not hang on what is forecast beside it.
        seed = [laws[0].seed, crc32(run.name.encode())]
        drawn = []
        for law, sets in zip(laws, third, strict=True):
            generator, frame = np.random.default_rng(seed), law.posterior.frame
            curves = prepared.curves(frame, [run])
            losses = draw_curves(law.posterior, law.parameters, curves, law.kind, generator)
            drawn.append(third_curves(sets, prepared, frame, curves, losses, law.kind, generator))
        thirds += joined(drawn)
    notes = {
        run.name: "; ".join(outside_range(laws[0].posterior.study, prepared.study, run))
        for run in runs
    }
    rows = drawn_bands(thirds, laws[0].interval)
    outside = rows["run"].map(notes)
    return pd.concat(
        [law_bands, rows.assign(kind=laws[0].kind, outside=outside)], ignore_index=True
    )


def _sampled(posterior: Posterior, prepared: Prepared, marginals: Marginals) -> Curves:
    """Return the curves of some runs that are as different as the others, by their replay."""
    rising = sorted(_wanted(posterior, prepared), key=lambda run: (run.replay or 0.0, run.name))
    runs = [rising[place] for place in spread_out(len(rising), RUNS_SAMPLED)]
    return prepared.curves(marginals.posterior.frame, runs, marginals.form)


def _wanted(posterior: Posterior, prepared: Prepared) -> list[Run]:
    """Return the runs with wanted steps."""
    domains = posterior.frame.domains
    return [
        run for run in prepared.runs if any(prepared.steps[run.name, domain] for domain in domains)
    ]


def _chunks(posterior: Posterior, prepared: Prepared) -> Iterator[list[Run]]:
    """Yield runs with wanted steps, some at a time."""
    wanted = _wanted(posterior, prepared)
    for start in range(0, len(wanted), RUNS_AT_ONCE):
        yield wanted[start : start + RUNS_AT_ONCE]


def _table(
    posterior: Posterior, plan: Study, curves: Curves, summarised: Floats, kind: str
) -> "pd.DataFrame":
    import pandas as pd

    index = curves.points.curve_index
    names = [curve.run for curve in curves.curves]
    notes = {
        name: "; ".join(outside_range(posterior.study, plan, plan.run(name)))
        for name in dict.fromkeys(names)
    }
    columns = dict(zip(SUMMARY, summarised.T, strict=True))
    return pd.DataFrame(
        {
            "run": np.array(names, dtype=object)[index],
            "step": curves.points.steps.astype(np.int64),
            "domain": np.array([curve.domain for curve in curves.curves], dtype=object)[index],
            **{name: columns[name] for name in COLUMNS},
            "kind": kind,
            "outside": np.array([notes[name] for name in names], dtype=object)[index],
        }
    )

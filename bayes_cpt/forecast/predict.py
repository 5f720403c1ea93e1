"""Posterior x plan -> predictive curves and bands.

`kind` says what a band is about: ``expected`` the uncertainty of the law's curve alone, ``new_run``
what a validation curve of a run that was never trained would show, ``known_run`` the curve of a run
in the study, given its measured points.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr

from bayes_cpt.arrays import SUMMARY, Floats
from bayes_cpt.forecast.bands import Forecast, marked
from bayes_cpt.forecast.drawn import Drawn, gridded
from bayes_cpt.forecast.plans import DRAWS, Kind, Plan, Points, first_step
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.study.ranges import outside_range
from bayes_cpt.study.runs import mixture_words

# Of the bands.
DIMS = ("run", "domain", "step")


def predict(
    posterior: Posterior,
    plan: Plan = None,
    kind: Kind = "new_run",
    *,
    at: Points | None = None,
    draws: int = DRAWS,
    seed: int = 0,
    interval: float = 0.9,
    sets: Sequence[str] = (),
) -> xr.Dataset:
    """Return draws of the loss curves of a plan, with their bands.

    Parameters
    ----------
    posterior : Posterior
    plan : Study or path, optional
        Runs to predict: a study folder or one TOML file. Of its losses only the base's own, at step 0,
        are used; where it has none they come from the fitted study. None predicts the study's own runs.
    kind : {"new_run", "expected", "known_run"}
        See the module. ``known_run`` takes runs of the fitted study, which a plan only names.
    at : DataFrame or path of a CSV, optional
        Columns run, domain, step: where losses are wanted. About 200 steps a run unless given.
    draws : int
        Posterior draws to use, spread evenly over the chains.
    seed : int
        Of what is random beyond the posterior.
    interval : float
        Mass of the central interval of the bands between ``lower`` and ``upper``.
    sets : sequence of str
        Third validation sets to forecast too (Eq. 6), by name, or ``("all",)`` (see
        `bayes_cpt.forecast.third_sets`); CPT runs alone. Their losses go with those of the two
        others, draw by draw.

    Returns
    -------
    xarray.Dataset
        ``loss`` and ``expected``, dims chain, draw, run, domain, step, nats/token; NaN at steps that a
        run has not. The two losses of a new run err together (`bayes_cpt.forecast.error_correlation`), so
        that sums of them have the right spread. ``mean``, ``median``, ``sd``, ``lower`` and ``upper`` (run,
        domain, step) are the bands of `bayes_cpt.forecast.bands.bands`. ``outside`` (run) says where a run
        lies outside the fitted range, empty inside, and ``first_step`` (run) up to which step the law does
        not hold yet, 0 in CPT; ``phase``, ``base``, ``replay``, ``targets`` (run) and ``learning_rate``
        (run, step) say what was predicted.

    Raises
    ------
    PlanError
        Naming run and step of what cannot be predicted.
    """
    forecast = Forecast.of(posterior, plan, kind, at, draws, seed, interval, sets)
    return draws_and_bands(forecast, forecast.bands())


def draws_at(curves: xr.DataArray, points: pd.DataFrame) -> Floats:
    """Return draws at some points of the grid of `predict`, shape (draws, points)."""
    labels = {name: xr.DataArray(points[name].to_numpy(), dims="point") for name in DIMS}
    chosen = curves.sel(labels).stack(sample=("chain", "draw"))
    return np.asarray(chosen.transpose("sample", "point"))


def table(dataset: xr.Dataset) -> pd.DataFrame:
    """Return the bands of `predict` as a table, that of `bayes_cpt.forecast.bands.bands`.

    Parameters
    ----------
    dataset : xarray.Dataset
        From `predict`.

    Returns
    -------
    DataFrame
        Columns run, step, domain, mean, median, sd, lower, upper, kind, outside; the mass of the
        interval is in ``attrs["interval"]``.
    """
    rows = dataset[list(SUMMARY)].to_dataframe(dim_order=list(DIMS))
    rows = rows.dropna(subset=["mean"]).reset_index().assign(kind=dataset.attrs["kind"])
    notes, first = (dataset[name].to_series().to_dict() for name in ("outside", "first_step"))
    rows["outside"] = marked(rows, notes, first)
    bands = rows[["run", "step", "domain", *SUMMARY, "kind", "outside"]]
    bands.attrs["interval"] = float(dataset.attrs["interval"])
    return bands


def draws_and_bands(forecast: Forecast, found: pd.DataFrame) -> xr.Dataset:
    """Return what `predict` does, of a forecast and its bands."""
    drawn = Drawn.joined([forecast.draw_run(run) for run in forecast.plan.asked_runs], axis=1)
    posterior, target = forecast.posterior, forecast.plan.study
    domains = [*posterior.frame.domains, *forecast.sets]
    grid = gridded(drawn.points, domains, {"loss": drawn.loss, "expected": drawn.expected})
    planned, at = [target.run(name) for name in grid["run"].to_numpy()], grid["step"].to_numpy() - 1
    # NaN after the last step of a run.
    rates = [pd.Series(run.schedule.learning_rates()).reindex(at) for run in planned]
    said = {
        "outside": ["; ".join(outside_range(posterior.study, target, run)) for run in planned],
        "phase": [run.phase for run in planned],
        "base": [run.base or "" for run in planned],
        "targets": [mixture_words(run.mixture) for run in planned],
    }
    of_runs = {name: ("run", np.array(own, dtype=object)) for name, own in said.items()}
    of_runs["first_step"] = ("run", np.array([first_step(posterior, run) for run in planned]))
    of_runs["replay"] = ("run", np.array([run.replay for run in planned], dtype=float))
    count = len(drawn.loss) // posterior.chains
    by_chain = grid.drop_vars("draw").coarsen(draw=count).construct(draw=("chain", "draw"))
    names = {"study": posterior.study.name, "model": posterior.frame.spec.name}
    dataset = (
        by_chain.assign_coords(chain=range(posterior.chains), draw=range(count))
        .assign(of_runs | {"learning_rate": (("run", "step"), np.array(rates))})
        .assign_attrs(kind=forecast.laws[0].kind, **names, interval=float(forecast.interval))
    )
    bands = found.set_index(list(DIMS))[list(SUMMARY)].to_xarray().reindex_like(dataset)
    for name in SUMMARY:
        bands[name].attrs["units"] = "nats/token"
    return dataset.assign(bands.data_vars)

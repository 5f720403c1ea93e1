"""Posterior x plan -> predictive curves and bands.

`kind` says what a band is about: ``expected`` the uncertainty of the law's curve alone, ``new_run``
what a validation curve of a run that was never trained would show, ``known_run`` the curve of a run
in the study, given its measured points.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.forecast.bands import COLUMNS, bands
from bayes_cpt.forecast.error_correlation import error_correlation
from bayes_cpt.forecast.plans import (
    DRAWS,
    Kind,
    PlanError,
    check_kind,
    default_grid,
    observed_curves,
    planned_curves,
    prepare,
    with_base_losses,
)
from bayes_cpt.inference.new_sizes import covering_sizes, plan_sizes
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.points import Curves
from bayes_cpt.model.simulate import CurveDraws, expected_loss, simulate
from bayes_cpt.study.ranges import outside_range
from bayes_cpt.study.study import Study

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = [
    "PlanError",
    "default_grid",
    "observed_curves",
    "planned_curves",
    "predict",
    "table",
    "with_base_losses",
]

type Floats = NDArray[np.float64]

# Of the bands.
DIMS = ("run", "domain", "step")


def predict(
    posterior: Posterior,
    plan: "Study | str | Path | None" = None,
    kind: Kind = "new_run",
    *,
    at: "pd.DataFrame | str | Path | None" = None,
    draws: int = DRAWS,
    seed: int = 0,
    interval: float = 0.9,
) -> "xr.Dataset":
    """Return draws of the loss curves of a plan, with their bands.

    Parameters
    ----------
    posterior : Posterior
    plan : Study or path, optional
        Runs to predict: a study folder or one TOML file. Of its losses only the base's own, at step 0,
        are used; where it has none they come from the fitted study. None predicts the study's own runs.
    kind : {"new_run", "expected", "known_run"}
        See the module. ``known_run`` takes runs of the fitted study.
    at : DataFrame or path of a CSV, optional
        Columns run, domain, step: where losses are wanted. About 200 steps a run unless given.
    draws : int
        Posterior draws to use, spread evenly over the chains.
    seed : int
        Of what is random beyond the posterior.
    interval : float
        Mass of the central interval of the bands between ``lower`` and ``upper``.

    Returns
    -------
    xarray.Dataset
        ``loss`` and ``expected``, dims chain, draw, run, domain, step, nats/token; NaN at steps that a
        run has not. The two losses of a new run err together (`bayes_cpt.forecast.error_correlation`), so
        that sums of them have the right spread. ``mean``, ``median``, ``sd``, ``lower`` and ``upper`` (run,
        domain, step) are the bands of `bayes_cpt.forecast.bands.bands`. ``outside`` (run) says where a run
        leaves what was fitted, empty inside; ``phase``, ``base`` and ``replay`` (run) and
        ``learning_rate`` (run, step) say what was predicted.

    Raises
    ------
    PlanError
        Naming run and step of what cannot be predicted.
    """
    check_kind(kind)
    found = bands(posterior, plan, kind, at=at, draws=draws, seed=seed, interval=interval)
    prepared = prepare(posterior, plan, at=at, known=kind == "known_run")
    generator = np.random.default_rng(seed)
    drawn = []
    covering = covering_sizes(posterior, plan_sizes(prepared.study, prepared.runs))
    for law, count in covering.shares(draws):
        curves = prepared.curves(law.frame, prepared.runs)
        drawn.append(_draw(law, law.parameters(count), curves, kind, generator))
    expected, loss = (
        np.concatenate([getattr(own, name) for own in drawn]) for name in ("expected", "loss")
    )
    dataset = _dataset(posterior, prepared.study, curves, expected, loss, kind)
    return _with_bands(dataset, found)


def _draw(
    law: Posterior,
    parameters: dict[str, Floats],
    curves: Curves,
    kind: Kind,
    generator: np.random.Generator,
) -> CurveDraws:
    """Return curves in draws of one law."""
    if kind == "expected":
        expected = expected_loss(law.frame, parameters, curves)
        return CurveDraws(expected, expected)
    observed = observed_curves(law, curves) if kind == "known_run" else None
    alike = error_correlation(law) if observed is None else None
    return simulate(law.frame, parameters, curves, observed, generator, alike)


def draws_at(curves: "xr.DataArray", points: "pd.DataFrame") -> Floats:
    """Return draws at some points of the grid of `predict`, shape (draws, points).

    Parameters
    ----------
    curves : xarray.DataArray
        ``loss`` or ``expected`` of `predict`.
    points : DataFrame
        Columns run, domain, step.
    """
    import xarray as xr

    labels = {
        name: xr.DataArray(points[name].to_numpy(), dims="point")
        for name in ("run", "domain", "step")
    }
    chosen = curves.sel(labels).stack(sample=("chain", "draw"))
    return np.asarray(chosen.transpose("sample", "point"))


def table(dataset: "xr.Dataset", interval: float | None = None) -> "pd.DataFrame":
    """Return the bands of `predict` as a table, that of `bayes_cpt.forecast.bands.bands`.

    Parameters
    ----------
    dataset : xarray.Dataset
        From `predict`.
    interval : float, optional
        Mass of the central interval, which must be that of `predict`.

    Returns
    -------
    DataFrame
        Columns run, step, domain, mean, median, sd, lower, upper, kind, outside; the mass of the
        interval is in ``attrs["interval"]``.

    Raises
    ------
    ValueError
        If the dataset has bands of another mass.
    """
    import pandas as pd

    stored = float(dataset.attrs["interval"])
    if interval is not None and interval != stored:
        raise ValueError(
            f"the bands are {stored:g} intervals, and interval is {interval}: predict with "
            f"interval={interval}"
        )
    rows = []
    for run in dataset["run"].to_numpy():
        for domain in dataset["domain"].to_numpy():
            own = dataset.sel(run=run, domain=domain)
            kept = np.isfinite(own["mean"].to_numpy())
            rows.append(
                pd.DataFrame(
                    {
                        "run": run,
                        "step": own["step"].to_numpy()[kept],
                        "domain": domain,
                        **{name: own[name].to_numpy()[kept] for name in COLUMNS},
                        "kind": dataset.attrs["kind"],
                        "outside": str(own["outside"].item()),
                    }
                )
            )
    found = pd.concat(rows, ignore_index=True)
    found.attrs["interval"] = stored
    return found


def _with_bands(dataset: "xr.Dataset", found: "pd.DataFrame") -> "xr.Dataset":
    """Return draws with the bands of the same forecast."""
    keys = [dataset.indexes[name] for name in DIMS]
    places = tuple(
        index.get_indexer(found[name].to_numpy()) for name, index in zip(DIMS, keys, strict=True)
    )
    arrays = {name: np.full([len(index) for index in keys], np.nan) for name in COLUMNS}
    for name, array in arrays.items():
        array[places] = found[name].to_numpy()
    interval = float(found.attrs["interval"])
    units = {"units": "nats/token"}
    return dataset.assign(
        {name: (DIMS, array, units) for name, array in arrays.items()}
    ).assign_attrs(interval=interval)


def _dataset(
    posterior: Posterior,
    target: Study,
    curves: Curves,
    expected: Floats,
    loss: Floats,
    kind: str,
) -> "xr.Dataset":
    import xarray as xr

    runs = list(dict.fromkeys(curve.run for curve in curves.curves))
    run_place = {name: place for place, name in enumerate(runs)}
    domains = list(posterior.frame.domains)
    steps = np.unique(curves.points.steps).astype(np.int64)
    shape = (loss.shape[0], len(runs), len(domains), steps.size)
    arrays = {"loss": np.full(shape, np.nan), "expected": np.full(shape, np.nan)}
    index = curves.points.curve_index
    ends = np.searchsorted(index, np.arange(len(curves.curves)), side="right")
    for curve, first, last in zip(curves.curves, np.r_[0, ends[:-1]], ends, strict=True):
        here = (run_place[curve.run], domains.index(curve.domain))
        place = np.searchsorted(steps, curves.points.steps[first:last])
        for name, values in (("loss", loss), ("expected", expected)):
            arrays[name][:, *here, place] = values[:, first:last]
    planned = [target.run(name) for name in runs]
    rates = np.full((len(runs), steps.size), np.nan)
    for rate, run in zip(rates, planned, strict=True):
        inside = steps <= run.schedule.steps
        rate[inside] = run.schedule.learning_rates()[steps[inside] - 1]
    dims = ("chain", "draw", "run", "domain", "step")
    chains = posterior.chains
    split = (chains, loss.shape[0] // chains, *shape[1:])
    notes = [outside_range(posterior.study, target, run) for run in planned]
    return xr.Dataset(
        {
            name: (dims, array.reshape(split), {"units": "nats/token"})
            for name, array in arrays.items()
        }
        | {
            "outside": ("run", np.array(["; ".join(note) for note in notes], dtype=object)),
            "phase": ("run", np.array([run.phase for run in planned], dtype=object)),
            "base": ("run", np.array([run.base or "" for run in planned], dtype=object)),
            "replay": (
                "run",
                np.array([np.nan if run.replay is None else run.replay for run in planned]),
            ),
            "learning_rate": (("run", "step"), rates),
        },
        coords={
            "chain": np.arange(chains),
            "draw": np.arange(split[1]),
            "run": runs,
            "domain": domains,
            "step": steps,
        },
        attrs={"kind": kind, "study": posterior.study.name, "model": posterior.frame.spec.name},
    )
